// JSON of the requests that TensorFlow Serving does not have: suggestions, neighbours, and the
// choice of a version.
//
//   {"instances": [{"user": "ada"}, {"items": ["Heat", "Ronin"]}], "k": 10, "exclude_known": true}
//     -> {"predictions": [{"items": ["Collateral", ...], "scores": [4.1, ...]}, ...]}
//   An instance may also be {"values": {"age": 25, "history": ["Heat", "Ronin"]}}.
//   {"instances": ["king", {"plus": ["king", "woman"], "minus": ["man"]}], "k": 5, "table": "t"}
//     -> {"predictions": [{"words": ["queen", ...], "cosines": [0.81, ...]}, ...]}
// "exact": true in both asks all rows even where there is an index.
//   {"version": 1200}, {"version": "newest"}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/model/named_rows.h"
#include "coxswain/saved_model.h"

namespace coxswain::serve {

struct RecommendRequest {
  struct For {
    std::optional<std::string> user;  // or
    std::vector<std::string> items;   // or
    std::vector<RawValue> values;     // parallel to the columns
  };
  std::vector<For> instances;
  int64_t k = 10;
  bool exclude_known = true;
  bool exact = false;  // without an index
};

struct NearestRequest {
  std::vector<model::NamedRows::Question> instances;
  int64_t k = 10;
  std::string table;  // empty: the model's own choice
  bool exact = false;
};

// Errors: InvalidArgument, naming the position in the request; OutOfRange for more than `max_rows`.
// `columns`: what describes a user of the model.
absl::StatusOr<RecommendRequest> ParseRecommendRequest(absl::string_view body,
                                                       const std::vector<RawColumn>& columns,
                                                       int64_t max_rows);
absl::StatusOr<NearestRequest> ParseNearestRequest(absl::string_view body, int64_t max_rows);
// Nullopt for the newest. Errors: InvalidArgument.
absl::StatusOr<std::optional<int64_t>> ParseVersionRequest(absl::string_view body);

// A name and its score.
struct Scored {
  std::string name;
  float score = 0;
};
// {"predictions": [{NAMES: [...], SCORES: [...]}, ...]}
std::string ScoredResponse(const std::vector<std::vector<Scored>>& answers, const char* names,
                           const char* scores);

}  // namespace coxswain::serve
