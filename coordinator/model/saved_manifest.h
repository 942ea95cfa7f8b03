// model.json, the manifest of a saved model: which format it is of, and what each of its files must
// be.
//
//   format          "coxswain-model"
//   format_version  kModelFormat; left out by versions of coxswain that had no number for it
//   variables       one entry each, with the size and the checksum of its file; see saved_reader.h
//   files           the names of all files, relative to the directory
//   checksums       of the files that are no variables': {"job.yaml": {"bytes": 812, "crc32": ...}}
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace coxswain::model {

// What a directory of files with a manifest is.
struct ManifestKind {
  const char* file;
  const char* format;
  const char* what;  // for messages: "holds no ..."
};
inline constexpr ManifestKind kSavedModel = {"model.json", "coxswain-model", "saved model"};
// All of a model but its variables, beside a job's checkpoints; see saved_inputs.h.
inline constexpr ManifestKind kSavedInputs = {"inputs.json", "coxswain-inputs", "job's inputs"};
inline constexpr const char* kModelManifest = kSavedModel.file;
inline constexpr const char* kModelFormatName = kSavedModel.format;
// 2: checksums of all files, histories. Models of 1, which have no number, can still be read.
inline constexpr int64_t kModelFormat = 2;

// Reads the manifest of a model, or of inputs. Errors: NotFound when there is none; DataLoss for
// one that cannot be read; FailedPrecondition for a model of a later format, which this program
// does not know.
absl::StatusOr<nlohmann::json> ReadModelManifest(const std::string& directory,
                                                 const ManifestKind& kind = kSavedModel);

// The entry "checksums" for these files of a directory. Errors: those of reading.
absl::StatusOr<nlohmann::ordered_json> ChecksumsOf(const std::string& directory,
                                                   const std::vector<std::string>& names);

// Reads the files whose checksums the manifest has, which are all but the variables'. A model of
// format 1 has none. Errors: DataLoss naming a file that is missing or not as it was saved.
absl::Status CheckModelFiles(const std::string& directory, const nlohmann::json& manifest,
                             const ManifestKind& kind = kSavedModel);

}  // namespace coxswain::model
