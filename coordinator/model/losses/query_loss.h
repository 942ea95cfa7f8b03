// What losses of queries have in common.
#pragma once

#include "coordinator/job/loss_kind.h"

namespace coxswain::model {

class QueryLoss : public job::LossSpec {
 public:
  // That the data set has queries.
  void Check(const job::JobReader& reader) const override;
};

}  // namespace coxswain::model
