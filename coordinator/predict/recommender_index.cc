// Suggestions from an index of the items' vectors: how it is filled and tried, what it is asked.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/predict/recommender.h"
#include "runtime/base/status.h"

namespace coxswain::predict {
namespace {

// Sorted, each once.
std::vector<int64_t> LeftOut(const Recommender::Whom& whom, const RecommendOptions& options) {
  if (options.include_known) return {};
  std::vector<int64_t> known = whom.known;
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  return known;
}

}  // namespace

absl::Status Recommender::FillIndex(const model::IndexOptions& options, bool lifted) {
  ASSIGN_OR_RETURN(const ItemVectors items, predictor_->AllItems());
  const bool biased = items.bias.dtype() == DType::kF32;
  const int64_t dim = items.vectors.dim(1), width = dim + (biased ? 1 : 0);
  const int64_t count = std::min(predictor_->choices(), items.vectors.dim(0));
  std::vector<float> row(static_cast<size_t>(width));
  const auto read = [&](int64_t id) {
    const float* const vector = items.vectors.data<float>() + id * dim;
    std::copy(vector, vector + dim, row.begin());
    if (biased) row.back() = items.bias.data<float>()[id];
    return std::inner_product(row.begin(), row.end(), row.begin(), 0.0);
  };
  double longest = 0;  // squared
  for (int64_t id = 0; lifted && id < count; ++id) {
    const double squares = read(id);
    if (std::isfinite(squares)) longest = std::max(longest, squares);
  }
  ASSIGN_OR_RETURN(std::shared_ptr<model::VectorIndex> index,
                   model::VectorIndex::Create(width + (lifted ? 1 : 0), count));
  std::vector<float> added(static_cast<size_t>(index->dim()));
  for (int64_t id = 0; id < count; ++id) {
    if (options.stopped()) return absl::CancelledError("an index is no longer wanted");
    const double squares = read(id);
    std::copy(row.begin(), row.end(), added.begin());
    // What is not finite is left out by the index.
    if (lifted) {
      const double rest = std::isfinite(squares) ? std::max(0.0, longest - squares) : squares;
      added.back() = static_cast<float>(std::sqrt(rest));
    }
    RETURN_IF_ERROR(index->Add(id, added.data()));
  }
  index_ = std::move(index);
  lifted_ = lifted;
  return absl::OkStatus();
}

// Users of the training data, or such as have a single item.
absl::StatusOr<std::vector<Recommender::Whom>> Recommender::Sample() const {
  const auto names = Users();
  if (!names.ok() && !described_by_items()) {
    return absl::FailedPreconditionError(
        absl::StrCat("an index is tried on users, but ", names.status().message()));
  }
  const bool users = names.ok() && !(*names)->empty();
  const int64_t from = users ? static_cast<int64_t>((*names)->size()) : predictor_->choices();
  const int64_t count = std::min(model::kRecallQueries, from);
  std::vector<Whom> sample;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = i * from / count;
    if (!users) {
      sample.push_back({std::vector<int64_t>{at}});
      continue;
    }
    ASSIGN_OR_RETURN(sample.emplace_back(), User((**names)[static_cast<size_t>(at)]));
    sample.back().self = std::nullopt;
  }
  return sample;
}

struct Recommender::Trial {
  UserVectors user;
  model::IndexQuery query;  // whose vector depends on the index
};

absl::StatusOr<std::vector<Recommender::Trial>> Recommender::Trials(
    const model::IndexOptions& options) const {
  ASSIGN_OR_RETURN(const std::vector<Whom> sample, Sample());
  RecommendOptions best;
  best.top = model::kManyRecallAt;
  best.exact = true;
  // As requests are by default, where the model allows it.
  best.include_known = !CheckKnown(sample, best).ok();
  std::vector<Trial> trials;
  for (const Whom& whom : sample) {
    if (options.stopped()) return absl::CancelledError("an index is no longer wanted");
    Trial& trial = trials.emplace_back();
    ASSIGN_OR_RETURN(const auto found, RecommendTo({&whom, 1}, best));
    for (const Choice& choice : found[0]) trial.query.exact.push_back(choice.id);
    trial.query.left_out = LeftOut(whom, best);
    ASSIGN_OR_RETURN(const data::Batch batch, BatchOf({&whom, 1}));
    ASSIGN_OR_RETURN(trial.user, predictor_->VectorsOf(batch));
  }
  return trials;
}

absl::Status Recommender::TryIndex(const std::vector<Trial>& trials, double recall) {
  std::vector<model::IndexQuery> queries;
  for (const Trial& trial : trials) {
    queries.push_back(trial.query);
    queries.back().vector = QueriesOf(trial.user)[0];
  }
  ASSIGN_OR_RETURN(quality_, model::ReachRecall(*index_, queries, recall));
  return absl::OkStatus();
}

// The graph of the products themselves is faster, and lifted ones find short vectors: which is
// better, vectors decide.
absl::StatusOr<std::unique_ptr<Recommender>> Recommender::WithIndex(
    const model::IndexOptions& options) const {
  if (!predictor_->has_vectors()) {
    return absl::FailedPreconditionError("the model's scores are no products of vectors");
  }
  ASSIGN_OR_RETURN(const std::vector<Trial> trials, Trials(options));
  std::unique_ptr<Recommender> best;
  absl::Status why;
  for (const bool lifted : {false, true}) {
    std::unique_ptr<Recommender> indexed(new Recommender(predictor_));
    indexed->history_ = history_;
    indexed->hashed_names_ = hashed_names_;
    absl::Status tried = indexed->FillIndex(options, lifted);
    if (tried.ok()) tried = indexed->TryIndex(trials, options.recall);
    if (absl::IsCancelled(tried)) return tried;
    why.Update(tried);
    if (tried.ok() && (best == nullptr || indexed->quality_.most > best->quality_.most)) {
      best = std::move(indexed);
    }
    if (best != nullptr && best->quality_.most >= model::kManyRecallAt) break;
  }
  if (best == nullptr) return why;
  return best;
}

std::vector<std::vector<float>> Recommender::QueriesOf(const UserVectors& users) const {
  std::vector<std::vector<float>> queries;
  for (int64_t i = 0; i < users.vectors.dim(0); ++i) {
    const float* const user = users.vectors.data<float>() + i * users.vectors.dim(1);
    std::vector<float>& query = queries.emplace_back(user, user + users.vectors.dim(1));
    // 1 for the item's own number, where it has one.
    query.resize(static_cast<size_t>(index_->dim() - (lifted_ ? 1 : 0)), 1.0f);
    if (lifted_) query.push_back(0);
  }
  return queries;
}

absl::Status Recommender::AskIndex(absl::Span<const Whom> users, const RecommendOptions& options,
                                   std::vector<std::vector<Choice>>* all) const {
  ASSIGN_OR_RETURN(const data::Batch batch, BatchOf(users));
  ASSIGN_OR_RETURN(const UserVectors vectors, predictor_->VectorsOf(batch));
  const std::vector<std::vector<float>> queries = QueriesOf(vectors);
  const bool offset = vectors.offset.dtype() == DType::kF32;
  for (size_t i = 0; i < queries.size(); ++i) {
    const std::vector<int64_t> left_out = LeftOut(users[i], options);
    ASSIGN_OR_RETURN(const auto found,
                     index_->Search(queries[i].data(), options.top, quality_.beam, left_out));
    const size_t there = static_cast<size_t>(index_->size()) -
                         std::min(static_cast<size_t>(index_->size()), left_out.size());
    if (found.size() < std::min(static_cast<size_t>(options.top), there)) {
      RETURN_IF_ERROR(ScoreAll(users.subspan(i, 1), options, all));
      continue;
    }
    std::vector<Choice>& best = all->emplace_back();
    for (const model::VectorIndex::Found& f : found) {
      best.push_back({f.id, f.product + (offset ? vectors.offset.data<float>()[i] : 0), 0});
    }
  }
  return absl::OkStatus();
}

}  // namespace coxswain::predict
