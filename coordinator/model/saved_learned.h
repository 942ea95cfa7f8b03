// What a saved model knows of its features, beside its variables: vocabularies, the statistics of
// normalisation, which hash functions it was trained with, and on which rows. Whoever uses the
// model reads data by these, never by what other files would teach.
//
//   features.json              of the format kLearnedFormat; small, whatever the data
//   vocabulary/FEATURE.txt     the values by id
//   vocabulary/FEATURE.names   with keep_names: the values that were hashed into its ids
//   vocabulary/FEATURE.counts  of a text: how often each word occurs in the training part
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "protos/dataset.pb.h"
#include "runtime/data/dataset.h"
#include "runtime/env/file_system.h"

namespace coxswain::model {

// What a model was trained on.
struct TrainedOn {
  int64_t training = 0, validation = 0, test = 0;  // examples
  proto::TrainedRows rows = {};                    // empty: not known
  // By which the rows are split, as DatasetSpec.trained: `rows`, or those of a model that training
  // went on from when its data had grown. They were split before the others came.
  proto::TrainedRows split_as = {};
  // Training went on from a model that may have been trained on rows of any part.
  bool doubtful = false;
};

// Whether rows of the data that the model was trained on have the parts that they had then. The
// data was read with split_as as DatasetSpec.trained.
bool KeepsParts(const TrainedOn& trained, const data::Dataset& data);

// `earlier`: of the model that training went on from; null: there was none. Errors: those of the
// file system.
absl::Status WriteLearned(const data::Dataset& data, env::FileSystem* files,
                          const std::string& directory, const TrainedOn* earlier = nullptr);

// Fills in spec->learned, with the files' paths in `directory`, and spec->trained (split_as), which
// stays empty for a model of a version that did not keep it. Errors: FailedPrecondition for a model
// that was saved without it, by an earlier version of coxswain, or by a version that this program
// does not know; DataLoss.
absl::StatusOr<TrainedOn> ReadLearned(const std::string& directory, proto::DatasetSpec* spec);

}  // namespace coxswain::model
