// What a trained two_tower suggests.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

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
    ASSIGN_OR_RETURN(auto history, data().HistoryOf(group, /*in_order=*/true));
    if (!history) continue;
    known.push_back(*std::move(history));
    found.push_back(group);
  }
  if (found.empty()) return std::vector<Suggestions>();
  ASSIGN_OR_RETURN(std::vector<Suggestions> suggestions, Score(known, top + 1));
  for (size_t i = 0; i < found.size(); ++i) {
    suggestions[i].group = found[i];
    auto& items = suggestions[i].items;
    if (!job_.evaluate.suggest_self) {
      items.erase(std::remove(items.begin(), items.end(), found[i]), items.end());
    }
    items.resize(std::min(items.size(), static_cast<size_t>(top)));
  }
  return suggestions;
}

absl::StatusOr<std::vector<Suggestions>> JobRunner::Score(
    const std::vector<std::vector<int64_t>>& known, int64_t top) {
  // As many as are left when all that is known is taken out: a power of 2, so that few functions
  // are defined.
  size_t most_known = 0;
  for (const auto& ids : known) most_known = std::max(most_known, ids.size());
  const auto wanted = std::bit_ceil(static_cast<uint64_t>(top) + most_known);
  const int64_t k = std::min(model_->items(), static_cast<int64_t>(wanted));
  if (k < 1) return std::vector<Suggestions>(known.size());
  if (!model_->ranks_in_pieces() && top_items_.count(k) == 0) {
    ASSIGN_OR_RETURN(top_items_[k], model_->DefineTopItems(k));
  }
  const std::vector<std::string>* names = data().vocabulary(model_->item_feature());
  std::vector<int64_t> values;
  std::vector<int32_t> offsets = {0};
  for (const auto& ids : known) {
    const auto seen = job::SeenOf(job_, ids);
    values.insert(values.end(), seen.begin(), seen.end());
    offsets.push_back(static_cast<int32_t>(values.size()));
  }
  const Tensor value = Tensor::FromVector<int64_t>(values);
  const Tensor offset = Tensor::FromVector<int32_t>(offsets);
  Tensor ids;
  if (model_->ranks_in_pieces()) {
    model::ItemSearch& search = model_->search();
    ASSIGN_OR_RETURN(const Tensor users, search.UsersOf(value, offset));
    // As below: a first Ctrl-C does not take away what a job has to say at its end.
    ASSIGN_OR_RETURN(model::BestItems best, search.Best(users, k, [] { return false; }));
    ids = std::move(best.ids);
  } else {
    ClusterCoordinator coordinator(strategy_);
    const RemoteValue best = coordinator.Schedule(top_items_.at(k), {value, offset});
    ASSIGN_OR_RETURN(ids, coordinator.Fetch(best, "ids"));
  }
  const auto text = [&](int64_t id) {
    return names != nullptr && id < static_cast<int64_t>(names->size())
               ? (*names)[static_cast<size_t>(id)]
               : absl::StrCat("#", id);
  };
  std::vector<Suggestions> all(known.size());
  for (size_t g = 0; g < known.size(); ++g) {
    const int64_t* best = ids.data<int64_t>() + static_cast<int64_t>(g) * k;
    for (int64_t i = 0; i < k && static_cast<int64_t>(all[g].items.size()) < top; ++i) {
      const int64_t id = best[i];
      if (id < 0) break;  // there are no more
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
