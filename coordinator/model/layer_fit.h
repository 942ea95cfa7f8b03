// How a saved layer fits one of a job with other features, or with the same ones in another order:
// by what its rows and columns stand for.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/job/variable_inputs.h"
#include "coordinator/model/copy_rows.h"
#include "coordinator/model/name_map.h"
#include "coxswain/tensor.h"

namespace coxswain::model {

struct LayerFit {
  bool fits = false;                      // a part at least of each axis
  std::optional<ElementMap> map = {};     // nothing: all of them are at the same places
  std::vector<std::string> missing = {};  // what the model has no rows or columns of, in words
};

// `wanted` is of a variable of the job with this shape; `saved` of the model's. A feature of the
// job is the model's that `names` says, except those among `others`, which are none of the model's.
LayerFit FitLayer(const job::VariableInputs& wanted, const Shape& shape,
                  const job::VariableInputs& saved, const Shape& saved_shape, const NameMap& names,
                  const std::set<std::string>& others = {});

}  // namespace coxswain::model
