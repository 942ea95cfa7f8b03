// TensorFlow Serving's JSON of predictions: requests as rows of raw values, and predictions as
// answers.
//
//   {"instances": [{"user": "ada", "film": "Heat"}, ...]}         -> {"predictions": [...]}
//   {"inputs": {"user": ["ada", ...], "film": ["Heat", ...]}}     -> {"outputs": {...}}
//
// "signature_name" may be there, and "top": the number of classes or items (1, or 10). Of a model
// with one column an instance, or "inputs", may be the value itself. Values are texts, numbers,
// booleans (0 and 1), null for an empty field, and lists of these. An instance may spell a column
// as a path, and lack those that are optional, but not all of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coxswain/saved_model.h"
#include "nlohmann/json_fwd.hpp"

namespace coxswain::serve {

struct PredictRequest {
  RawRows rows;
  int64_t top = 0;        // 0: the default
  bool columnar = false;  // "inputs"
};

// The value of a column. Errors: InvalidArgument.
absl::StatusOr<RawValue> ReadRawValue(const RawColumn& column, const nlohmann::json& json);

// `columns`: those of the model; others in the request are ignored. Errors: InvalidArgument, which
// tells where in the request; OutOfRange for more than `max_rows`.
absl::StatusOr<PredictRequest> ParsePredictRequest(absl::string_view body,
                                                   const std::vector<RawColumn>& columns,
                                                   int64_t max_rows);

// What a model says: by number a number each, else objects; or, columnar, an object of lists.
std::string PredictResponse(const std::vector<Prediction>& predictions, SavedModel::Says says,
                            bool columnar);

// {"error": "..."}
std::string ErrorBody(absl::string_view message);

}  // namespace coxswain::serve
