// What is looked at in a job's data before training: mistakes of a file that would otherwise show
// as a perfect score, or as an error of some op.
#pragma once

#include "absl/status/statusor.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/model/word_eval.h"
#include "runtime/data/dataset.h"

namespace coxswain::runner {

// Errors, all InvalidArgument with the cause kConfiguration and the job's key: no training
// examples; a label that is the same in all of them; a feature without values; more classes than
// the model has.
absl::Status CheckTrainingData(const job::JobSpec& job, const data::Dataset& data);

// The same for a test file that is a training file: of a job that begins to train.
absl::Status CheckTestFiles(const job::JobSpec& job);

// Of a job that follows: rows are looked up by ids that a joined table gives (vocabulary_file), and
// so an epoch has to have the values that the job began with. Errors: FailedPrecondition with the
// job's line.
absl::Status CheckSameVocabularies(const job::JobSpec& job, const data::Dataset& before,
                                   const data::Dataset& now);

// Reads the files of words that `evaluate` names. Errors: those of word_eval.h, with the cause
// kConfiguration and the job's key.
absl::StatusOr<model::WordTests> ReadWordTests(const job::JobSpec& job, const data::Dataset& data);

// After an error of training or of an evaluation: where it is that a file of the spec has changed
// since it was indexed, the saved index is removed. Else a file that differs where nobody looks
// before training (same size and time, other bytes between the samples) would fail each run alike.
// Returns the error, which then says so.
absl::Status WithoutStaleIndex(const absl::Status& error, proto::DatasetSpec spec);

}  // namespace coxswain::runner
