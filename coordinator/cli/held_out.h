// Whether what `eval` scores was kept from training. Parts are drawn by the number of a row, so
// that a file whose rows were sorted, or another seed, puts what was trained on into the test part.
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

// `scored`: nothing where no example is.
HeldOut IsHeldOut(const job::JobSpec& job, const data::Dataset& data, std::optional<Part> scored);
// The error with which that is refused: with the cause kConfiguration, and what to do.
absl::Status NotHeldOut(const HeldOut& found);

// For people: how the data differs from what the model was trained on; empty where it does not.
std::string ChangeSinceTraining(const model::TrainedOn& trained, const data::Dataset& data);

}  // namespace coxswain::cli
