// Suggestions from an index of the items' vectors: how it is filled and tried, what it is asked.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/predict/recommender.h"
#include "runtime/base/status.h"

namespace coxswain::predict {
namespace {

// Sorted.
std::vector<int64_t> LeftOut(const Recommender::Whom& whom, const RecommendOptions& options) {
  if (options.include_known) return {};
  std::vector<int64_t> known = whom.known;
  std::sort(known.begin(), known.end());
  return known;
}

}  // namespace

absl::Status Recommender::FillIndex(const model::IndexOptions& options) {
  if (!predictor_->has_vectors()) {
    return absl::FailedPreconditionError("the model's scores are no products of vectors");
  }
  ASSIGN_OR_RETURN(const ItemVectors items, predictor_->AllItems());
  const bool biased = items.bias.dtype() == DType::kF32;
  const int64_t dim = items.vectors.dim(1), width = dim + (biased ? 1 : 0);
  const int64_t count = std::min(predictor_->choices(), items.vectors.dim(0));
  std::vector<float> row(static_cast<size_t>(width));
  ASSIGN_OR_RETURN(std::shared_ptr<model::VectorIndex> index,
                   model::VectorIndex::Create(width, count));
  for (int64_t id = 0; id < count; ++id) {
    if (options.stopped()) return absl::CancelledError("an index is no longer wanted");
    const float* const vector = items.vectors.data<float>() + id * dim;
    std::copy(vector, vector + dim, row.begin());
    if (biased) row.back() = items.bias.data<float>()[id];
    RETURN_IF_ERROR(index->Add(id, row.data()));
  }
  index_ = std::move(index);
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

absl::StatusOr<std::unique_ptr<Recommender>> Recommender::WithIndex(
    const model::IndexOptions& options) const {
  std::unique_ptr<Recommender> indexed(new Recommender(predictor_));
  indexed->history_ = history_;
  indexed->hashed_names_ = hashed_names_;
  ASSIGN_OR_RETURN(const std::vector<Whom> sample, Sample());
  RETURN_IF_ERROR(indexed->FillIndex(options));
  RecommendOptions best;
  best.top = model::kRecallAt;
  best.exact = true;
  // As requests are by default, where the model allows it.
  best.include_known = !CheckKnown(sample, best).ok();
  std::vector<model::IndexQuery> queries;
  for (const Whom& whom : sample) {
    if (options.stopped()) return absl::CancelledError("an index is no longer wanted");
    model::IndexQuery& query = queries.emplace_back();
    ASSIGN_OR_RETURN(const auto exact, RecommendTo({&whom, 1}, best));
    for (const Choice& choice : exact[0]) query.exact.push_back(choice.id);
    query.left_out = LeftOut(whom, best);
    ASSIGN_OR_RETURN(const data::Batch batch, BatchOf({&whom, 1}));
    ASSIGN_OR_RETURN(const UserVectors vectors, predictor_->VectorsOf(batch));
    query.vector = indexed->QueriesOf(vectors)[0];
  }
  ASSIGN_OR_RETURN(indexed->quality_,
                   model::ReachRecall(*indexed->index_, queries, options.recall));
  return indexed;
}

std::vector<std::vector<float>> Recommender::QueriesOf(const UserVectors& users) const {
  std::vector<std::vector<float>> queries;
  for (int64_t i = 0; i < users.vectors.dim(0); ++i) {
    const float* const user = users.vectors.data<float>() + i * users.vectors.dim(1);
    std::vector<float>& query = queries.emplace_back(user, user + users.vectors.dim(1));
    query.resize(static_cast<size_t>(index_->dim()), 1.0f);
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
    ASSIGN_OR_RETURN(const auto found, index_->Search(queries[i].data(), options.top, quality_.beam,
                                                      LeftOut(users[i], options)));
    std::vector<Choice>& best = all->emplace_back();
    for (const model::VectorIndex::Found& f : found) {
      best.push_back({f.id, f.product + (offset ? vectors.offset.data<float>()[i] : 0), 0});
    }
  }
  return absl::OkStatus();
}

}  // namespace coxswain::predict
