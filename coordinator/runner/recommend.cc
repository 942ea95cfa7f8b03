// What a trained two_tower suggests.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "coordinator/runner/runner.h"
#include "runtime/base/status.h"
#include "runtime/data/dataset.h"

namespace coxswain::runner {

absl::Status JobRunner::CheckCanRecommend() const {
  if (model_->can_recommend()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("this job's model cannot recommend: wanted kind ",
                   job::KindsThat(job::Predicts::kItem), " with histories on the user's side"));
}

absl::StatusOr<std::vector<Suggestions>> JobRunner::Recommend(
    const std::vector<std::string>& groups, int64_t top) {
  RETURN_IF_ERROR(CheckCanRecommend());
  std::vector<std::vector<int64_t>> known;
  std::vector<std::string> found;
  for (const std::string& group : groups) {
    const auto id = data().FindGroup(group);
    if (!id) continue;
    const auto history = data().GroupHistory(*id);
    known.emplace_back(history.begin(), history.end());
    found.push_back(group);
  }
  if (found.empty()) return std::vector<Suggestions>();
  ASSIGN_OR_RETURN(std::vector<Suggestions> suggestions, Score(known, top + 1));
  for (size_t i = 0; i < found.size(); ++i) {
    suggestions[i].group = found[i];
    // Where groups and items are names of one kind, nobody wants to be told of itself.
    auto& items = suggestions[i].items;
    items.erase(std::remove(items.begin(), items.end(), found[i]), items.end());
    items.resize(std::min(items.size(), static_cast<size_t>(top)));
  }
  return suggestions;
}

absl::StatusOr<std::vector<Suggestions>> JobRunner::Score(
    const std::vector<std::vector<int64_t>>& known, int64_t top) {
  if (!score_) {
    ASSIGN_OR_RETURN(score_, model_->DefineScore());
  }
  const std::vector<std::string>* names = data().vocabulary(model_->item_feature());
  std::vector<int64_t> values;
  std::vector<int32_t> offsets = {0};
  for (const auto& ids : known) {
    values.insert(values.end(), ids.begin(), ids.end());
    offsets.push_back(static_cast<int32_t>(values.size()));
  }
  ClusterCoordinator coordinator(strategy_);
  RemoteValue value = coordinator.Schedule(
      *score_, {Tensor::FromVector<int64_t>(values), Tensor::FromVector<int32_t>(offsets)});
  ASSIGN_OR_RETURN(std::vector<Tensor> results, coordinator.Fetch(value));
  // Buckets of unknown values are no answer.
  const int64_t stride = results[0].dim(1);
  const int64_t items =
      names == nullptr ? stride : std::min(stride, static_cast<int64_t>(names->size()));
  const auto text = [&](int64_t id) {
    return names != nullptr && id < static_cast<int64_t>(names->size())
               ? (*names)[static_cast<size_t>(id)]
               : absl::StrCat("#", id);
  };
  std::vector<Suggestions> all(known.size());
  for (size_t g = 0; g < known.size(); ++g) {
    const float* scores = results[0].data<float>() + static_cast<int64_t>(g) * stride;
    std::vector<int64_t> order(static_cast<size_t>(items));
    std::iota(order.begin(), order.end(), 0);
    const int64_t wanted = std::min<int64_t>(items, top + static_cast<int64_t>(known[g].size()));
    std::partial_sort(order.begin(), order.begin() + wanted, order.end(),
                      [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
    for (int64_t i = 0; i < wanted && static_cast<int64_t>(all[g].items.size()) < top; ++i) {
      const int64_t id = order[static_cast<size_t>(i)];
      if (std::find(known[g].begin(), known[g].end(), id) == known[g].end()) {
        all[g].items.push_back(text(id));
      }
    }
    constexpr size_t kShown = 4;
    for (size_t i = 0; i < std::min(kShown, known[g].size()); ++i) {
      all[g].known.push_back(text(known[g][i]));
    }
  }
  return all;
}

}  // namespace coxswain::runner
