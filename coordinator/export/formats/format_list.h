// The formats of an export, one line each, in the order of the help. X(NpzFormat) stands for the
// file of this folder that defines NpzFormat.
#pragma once

#include "coordinator/export/export_format.h"

#define COX_EXPORT_FORMATS(X) \
  X(SafetensorsFormat)        \
  X(CsvFormat)                \
  X(NpzFormat)                \
  X(ProjectorFormat)          \
  X(HnswFormat)

namespace coxswain::exporter {

#define COX_DECLARE(function) const ExportFormat& function();
COX_EXPORT_FORMATS(COX_DECLARE)
#undef COX_DECLARE

}  // namespace coxswain::exporter
