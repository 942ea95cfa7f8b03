// Writes the variables of a saved model or of a checkpoint for other programs; see docs/export.md.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/export/onnx_writer.h"
#include "coordinator/model/saved_reader.h"

namespace coxswain::exporter {

struct ExportOptions {
  std::string format = "safetensors";  // the name of an ExportFormat
  // A file, or a directory with one or two files for each variable.
  std::string out;
  // Empty: all variables; for a format of tables only, all tables.
  std::vector<std::string> variables = {};
  bool replace = false;                // replaces `out`, if it is an export of this format
  std::function<bool()> stopped = {};  // called between blocks: true ends the export with
                                       // Cancelled
  // An older checkpoint of the same directory, to export only the table rows updated since; or
  // null.
  const model::SavedSource* base = nullptr;
};

struct ExportedVariable {
  model::SavedVariable variable;
  int64_t rows = 0;  // written
};

// Memory does not grow with the tables, but for hnsw (WriteHnsw). `out` appears whole or not at
// all. Errors: InvalidArgument for a format; InvalidArgument, NotFound for a variable;
// AlreadyExists for `out`;
// FailedPrecondition when `out` is something other than an export, and for a base that does not
// fit; DataLoss for damaged files; those of the file system.
absl::StatusOr<std::vector<ExportedVariable>> Export(const model::SavedSource& source,
                                                     const ExportOptions& options);

// Writes an ONNX model to options.out, under the same conditions, after its data beside it. An
// older model's data are removed with it.
absl::Status ExportOnnx(const model::SavedSource& source, const ExportOptions& options,
                        const OnnxFile& file);

// Opens the newest checkpoint at or before a step, or the one with a name ("checkpoint-000012"), in
// the directory of `source`, which is a checkpoint. Errors: NotFound, listing the existing
// checkpoints; InvalidArgument when it is not older than `source`.
absl::StatusOr<model::SavedSource> OpenBase(const model::SavedSource& source,
                                            const std::string& since);

}  // namespace coxswain::exporter
