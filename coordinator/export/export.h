// Writes the variables of a saved model or of a checkpoint for other programs; see docs/export.md.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/model/saved_reader.h"

namespace coxswain::exporter {

enum class ExportFormat { kSafetensors, kCsv, kNpz };
// "safetensors", "csv", "npz". Errors: InvalidArgument.
absl::StatusOr<ExportFormat> ParseExportFormat(absl::string_view name);

struct ExportOptions {
  ExportFormat format = ExportFormat::kSafetensors;
  std::string out;                          // a file; for csv a directory with a file a variable
  std::vector<std::string> variables = {};  // empty: all of the model
  bool replace = false;                     // what is at `out`, when it is such an export
  std::function<bool()> stopped = {};       // asked between blocks: true ends it with Cancelled
  // An older checkpoint of the same directory: of tables only the rows updated since. Or null.
  const model::SavedSource* base = nullptr;
};

struct ExportedVariable {
  model::SavedVariable variable;
  int64_t rows = 0;  // written
};

// Memory does not grow with the tables. `out` appears whole or not at all.
// Errors: InvalidArgument, NotFound for a variable; AlreadyExists for `out`; FailedPrecondition for
// what is at `out` and is no export, and for a base that does not fit; DataLoss for what is
// damaged; those of the file system.
absl::StatusOr<std::vector<ExportedVariable>> Export(const model::SavedSource& source,
                                                     const ExportOptions& options);

// The newest checkpoint at or before a step, or the one of a name ("checkpoint-000012"), of the
// directory in which `source`, a checkpoint, lies. Errors: NotFound, with those that there are;
// InvalidArgument when it is not older than `source`.
absl::StatusOr<model::SavedSource> OpenBase(const model::SavedSource& source,
                                            const std::string& since);

}  // namespace coxswain::exporter
