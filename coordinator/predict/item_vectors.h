// Neighbours of items whose rows are not all that their vectors are made of (model.item.features):
// they go by the vectors.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/model/named_rows.h"
#include "coordinator/predict/predictor.h"

namespace coxswain::predict {

// Whether more than an item's id says what its vector is, and `table` is that of the items.
bool DescribesItems(const job::JobSpec& job, const std::string& table);

// `rows`, of a table that the predictor's model describes in this way, answer by vectors from now
// on. Computes those of all items. Errors: those of Predictor::AllItems.
absl::Status UseItemVectors(const Predictor& predictor, model::NamedRows* rows);

}  // namespace coxswain::predict
