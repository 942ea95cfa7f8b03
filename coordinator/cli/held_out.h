// Whether what is scored was kept from training: from that of the model that `eval` scores, and
// from that of the one with which `train --init-from` begins. Parts are drawn by the number of a
// row, so that a file whose rows were sorted, or another seed, puts what was trained on into the
// test part.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/model/saved_learned.h"
#include "runtime/data/dataset.h"

namespace coxswain::cli {

struct HeldOut {
  bool sure = true;     // no row of training is scored
  bool refuse = false;  // else: it is known that some may be
  std::string why;
};

// `source`: empty for the model that is scored; else the directory of the one with which training
// begins. Data that does not begin with the latter's rows is not refused: it is the next day's more
// often than the same in another order. `trained`: that model's. `scored`: nothing where no example
// is.
HeldOut IsHeldOut(const std::string& source, const model::TrainedOn& trained,
                  const job::JobSpec& job, const data::Dataset& data, std::optional<Part> scored);
// The error with which that is refused: with the cause kConfiguration, and what to do.
absl::Status NotHeldOut(const std::string& source, const HeldOut& found);

// For people, of data that has grown since the model at `source` was trained: how many examples are
// new, and how many of these are trained on. Empty where it has not grown, or where the old
// examples do not have the parts that they had.
std::string NewExamples(const std::string& source, const model::TrainedOn& trained,
                        const job::JobSpec& job, const data::Dataset& data);

// For people: how the data differs from what the model was trained on; empty where it does not.
std::string ChangeSinceTraining(const model::TrainedOn& trained, const data::Dataset& data);

}  // namespace coxswain::cli
