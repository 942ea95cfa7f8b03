// model.json, the manifest of a saved model: its format, and the size and checksum of each of its
// files.
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

// A kind of directory with a manifest.
struct ManifestKind {
  const char* file;
  const char* format;
  const char* what;    // for messages: "holds no ..."
  const char* remedy;  // behind what is wrong with one that is damaged
};
inline constexpr ManifestKind kSavedModel = {"model.json", "coxswain-model", "saved model", ""};
// A model without its variables, beside a job's checkpoints; see saved_inputs.h.
inline constexpr ManifestKind kSavedInputs = {
    "inputs.json", "coxswain-inputs", "job's inputs",
    "; `coxswain train` of the job with --resume writes the directory anew"};
inline constexpr const char* kModelManifest = kSavedModel.file;
inline constexpr const char* kModelFormatName = kSavedModel.format;
// 2: checksums of all files, and histories. Models of format 1, which have no number, can still be
// read.
inline constexpr int64_t kModelFormat = 2;

// Reads the manifest of a model, or of inputs. Errors: NotFound when there is none; DataLoss for
// one that cannot be read; FailedPrecondition for a model of a later format, which this program
// does not know.
absl::StatusOr<nlohmann::json> ReadModelManifest(const std::string& directory,
                                                 const ManifestKind& kind = kSavedModel);

// The steps of the models that training went on from, one after the other; 0: it began anew, or an
// earlier version saved the model.
int64_t EarlierStepsIn(const nlohmann::json& manifest);

// The value of "checksums" for these files of a directory. Errors: those of reading.
absl::StatusOr<nlohmann::ordered_json> ChecksumsOf(const std::string& directory,
                                                   const std::vector<std::string>& names);

// Reads and verifies the files whose checksums the manifest has: all except those of variables. A
// model of format 1 has no checksums. Errors: DataLoss naming a file that is missing or has
// changed.
absl::Status CheckModelFiles(const std::string& directory, const nlohmann::json& manifest,
                             const ManifestKind& kind = kSavedModel);
// The same of one file. No error where the manifest has no checksum of it.
absl::Status CheckModelFile(const std::string& directory, const std::string& name,
                            const ManifestKind& kind);
// The same with a manifest that was read before.
absl::Status CheckModelFile(const std::string& directory, const nlohmann::json& manifest,
                            const std::string& name, const ManifestKind& kind);

}  // namespace coxswain::model
