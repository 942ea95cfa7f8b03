// Writes the variables of a saved model or of a checkpoint for other programs; see docs/export.md.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/model/saved_reader.h"

namespace coxswain::exporter {

enum class ExportFormat { kSafetensors, kCsv, kNpz, kProjector };
// "safetensors", "csv", "npz", "projector". Errors: InvalidArgument.
absl::StatusOr<ExportFormat> ParseExportFormat(absl::string_view name);

struct ExportOptions {
  ExportFormat format = ExportFormat::kSafetensors;
  // A file; for csv and projector a directory with a file, or two, for a variable.
  std::string out;
  std::vector<std::string> variables = {};  // empty: all of the model; of projector its tables
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

// Puts a file of another format at options.out, under the same conditions.
absl::Status ExportFile(const model::SavedSource& source, const ExportOptions& options,
                        absl::string_view content);

// The newest checkpoint at or before a step, or the one of a name ("checkpoint-000012"), of the
// directory in which `source`, a checkpoint, lies. Errors: NotFound, with those that there are;
// InvalidArgument when it is not older than `source`.
absl::StatusOr<model::SavedSource> OpenBase(const model::SavedSource& source,
                                            const std::string& since);

}  // namespace coxswain::exporter
