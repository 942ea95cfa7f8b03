// A trained model as a directory:
//
//   job.yaml                the job as it was run
//   model.json              format, variables, shapes, steps, metrics, checksums of all files; see
//                           saved_manifest.h
//   NAME.safetensors        one file a variable, in the order of its rows ("/" becomes ".")
//   slots/NAME.safetensors  what its optimizer keeps, where that is asked for; see saved_slots.h
//   features.json           what was learned from the data, see saved_learned.h
//   history/                the users' items in training, see saved_history.h
//   joined/                 the tables that the job joins, see saved_side_tables.h
//   vocabulary/FEATURE.txt  one value a line, by id, see runtime/data/vocabulary_file.h
//   vocabulary/FEATURE.names  the same of hashed values, where keep_names asks for them
//
// It is written in a directory beside it, "<directory>.<16 digits>.tmp", which is renamed when it
// is complete. model.json lists the files of the model.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/model/name_map.h"
#include "coordinator/model/saved_learned.h"
#include "coordinator/model/saved_manifest.h"
#include "coordinator/model/saved_reader.h"
#include "coxswain/strategy.h"
#include "nlohmann/json.hpp"
#include "runtime/data/dataset.h"
#include "runtime/env/file_system.h"

namespace coxswain::model {

// The model that training went on from, as far as what it leaves depends on it.
struct EarlierModel {
  std::string inputs = {};  // where its files are that are no variables; empty: there are none
  NameMap names = {};
  TrainedOn trained = {};
  int64_t steps = 0;  // with those of the models before it
};

struct SavedModelInfo {
  std::string job;       // its name
  std::string job_text;  // the text of JOB.yaml
  std::string job_file;  // its path; relative paths in the job start at its directory
  std::vector<std::string> overrides;
  int64_t steps = 0;
  bool slots = false;  // what optimizers keep is saved, too; see saved_slots.h
  std::map<std::string, double> metrics;
  std::optional<EarlierModel> earlier = {};
};

// Writes the files that converting inputs needs: job.yaml, features.json, history/ and vocabulary/;
// joined/ is left to the caller. Errors: those of the file system.
absl::Status WriteInputFiles(const data::Dataset& data, const job::JobSpec& job,
                             const SavedModelInfo& info, env::FileSystem* files,
                             const std::string& directory);
// The manifest's members about the job.
nlohmann::ordered_json ManifestOf(const job::JobSpec& job, const SavedModelInfo& info,
                                  const ManifestKind& kind);
// The names of all files of a directory that is being written, relative to it, sorted.
std::vector<std::string> FilesBelow(const std::string& directory);

// The feature whose values are the rows of a table; empty when there is none.
std::string VocabularyOf(const job::JobSpec& job, const std::string& table);

// Saves the model; reads the variables from their PS in pieces. Replaces only an older model at
// `directory`. After an error that model is unchanged, and no partial files remain. Errors: those
// of CheckReplaceable (see model_directory.h), of the file system and of the cluster.
absl::Status SaveModel(ParameterServerStrategy* strategy, const data::Dataset& data,
                       const job::JobSpec& job, const SavedModelInfo& info,
                       const std::string& directory);

// Errors: those of ReadModelManifest.
absl::StatusOr<SavedModelInfo> ReadModelInfo(const std::string& directory,
                                             const ManifestKind& kind = kSavedModel);

// Writes the saved values into the strategy's variables of the same names, in pieces; hash tables
// have the saved ids then, and no others.
// Errors: NotFound for a variable that is not saved; InvalidArgument for another shape; DataLoss.
absl::Status LoadVariables(const std::string& directory, ParameterServerStrategy* strategy);
// The same of a checkpoint, too.
absl::Status LoadVariables(const SavedSource& saved, ParameterServerStrategy* strategy);

}  // namespace coxswain::model
