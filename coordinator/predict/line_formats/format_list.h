// The formats of predictions, one line each, in the order of the help. X(CsvLines) stands for the
// file of this folder that defines CsvLines.
#pragma once

#include "coordinator/predict/line_format.h"

#define COX_LINE_FORMATS(X) \
  X(CsvLines)               \
  X(JsonLines)

namespace coxswain::predict {

#define COX_DECLARE(function) const LineFormat& function();
COX_LINE_FORMATS(COX_DECLARE)
#undef COX_DECLARE

}  // namespace coxswain::predict
