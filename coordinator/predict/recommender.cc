// Whom a model can suggest items to; the index of the items; suggestions, with it or without.
#include "coordinator/predict/recommender.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/job/model_kind.h"
#include "runtime/base/status.h"

namespace coxswain::predict {
namespace {

bool OnlyHistories(const job::JobSpec& job) {
  if (job::KindOf(*job.model).predicts != job::Predicts::kItem) return false;
  for (const std::string& name : job.model->user_features()) {
    if (job.FindFeature(name)->history_of() != job.model->item()) return false;
  }
  return true;
}

// A batch of users who have these items, whatever histories the model sees of them.
absl::StatusOr<data::Batch> BatchOf(const Predictor& predictor,
                                    absl::Span<const std::vector<int64_t>> known) {
  std::vector<int64_t> values;
  std::vector<int32_t> offsets = {0};
  for (const std::vector<int64_t>& ids : known) {
    const auto seen = job::SeenOf(*predictor.job().model, ids);
    values.insert(values.end(), seen.begin(), seen.end());
    offsets.push_back(static_cast<int32_t>(values.size()));
  }
  data::Batch batch;
  for (const data::ColumnSpec& column : predictor.rows().columns()) {
    if (absl::EndsWith(column.name, ".values")) {
      batch.push_back(Tensor::FromVector<int64_t>(values));
    } else if (absl::EndsWith(column.name, ".offsets")) {
      batch.push_back(Tensor::FromVector<int32_t>(offsets));
    } else {
      return absl::InternalError(absl::StrCat("column '", column.name, "' is of no history"));
    }
  }
  return batch;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Recommender>> Recommender::Load(const std::string& directory) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Predictor> predictor, Predictor::Load(directory));
  return Create(std::move(predictor));
}

bool Recommender::CanBe(const Predictor& predictor) { return OnlyHistories(predictor.job()); }

absl::StatusOr<std::unique_ptr<Recommender>> Recommender::Create(
    std::shared_ptr<const Predictor> predictor) {
  std::unique_ptr<Recommender> recommender(new Recommender);
  recommender->predictor_ = std::move(predictor);
  if (!OnlyHistories(recommender->predictor().job())) {
    return absl::FailedPreconditionError(
        absl::StrCat("this job's model cannot recommend: wanted kind ",
                     job::KindsThat(job::Predicts::kItem), " with histories on the user's side"));
  }
  auto history = model::SavedHistory::Load(recommender->predictor().directory(),
                                           recommender->predictor().item_ids());
  if (history.ok()) {
    recommender->history_ = std::make_shared<const model::SavedHistory>(*std::move(history));
  } else if (!absl::IsNotFound(history.status())) {
    return history.status();
  }
  return recommender;
}

absl::StatusOr<std::vector<int64_t>> Recommender::ItemsOf(
    absl::Span<const std::string> names) const {
  std::vector<int64_t> ids;
  for (const std::string& name : names) {
    const auto id = predictor_->IdOf(name);
    // An unknown item, whose id is a bucket's, cannot be used.
    if (!id) {
      return absl::NotFoundError(
          absl::StrCat("'", absl::Utf8SafeCEscape(name), "' is not a value of feature '",
                       predictor_->job().model->item(), "' that the model was trained with"));
    }
    ids.push_back(*id);
  }
  return ids;
}

Recommender::Whom Recommender::Group(int64_t group) const {
  Whom whom = {history_->Values(group)};
  if (!predictor_->job().evaluate.suggest_self) {
    whom.self = predictor_->IdOf(history_->groups()[static_cast<size_t>(group)]);
  }
  return whom;
}

absl::StatusOr<std::vector<std::vector<Choice>>> Recommender::RecommendTo(
    absl::Span<const Whom> all, const RecommendOptions& options) const {
  std::vector<std::vector<int64_t>> known;
  for (const Whom& whom : all) known.push_back(whom.known);
  RecommendOptions one_more = options;
  ++one_more.top;
  ASSIGN_OR_RETURN(auto found, Recommend(known, one_more));
  for (size_t i = 0; i < all.size(); ++i) {
    const std::optional<int64_t> self = all[i].self;
    std::vector<Choice>& best = found[i];
    best.erase(std::remove_if(best.begin(), best.end(),
                              [&self](const Choice& c) { return self && c.id == *self; }),
               best.end());
    best.resize(std::min(best.size(), static_cast<size_t>(options.top)));
  }
  return found;
}

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

// Users of the histories, or such as have a single item.
std::vector<std::vector<int64_t>> Recommender::Sample() const {
  const bool users = history_ != nullptr && !history_->groups().empty();
  const int64_t from =
      users ? static_cast<int64_t>(history_->groups().size()) : predictor_->choices();
  const int64_t count = std::min(model::kRecallQueries, from);
  std::vector<std::vector<int64_t>> sample;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = i * from / count;
    sample.push_back(users ? history_->Values(at) : std::vector<int64_t>{at});
  }
  return sample;
}

absl::StatusOr<std::unique_ptr<Recommender>> Recommender::WithIndex(
    const model::IndexOptions& options) const {
  std::unique_ptr<Recommender> indexed(new Recommender);
  indexed->predictor_ = predictor_;
  indexed->history_ = history_;
  RETURN_IF_ERROR(indexed->FillIndex(options));
  const std::vector<std::vector<int64_t>> sample = Sample();
  RecommendOptions all;
  all.top = model::kRecallAt;
  all.include_known = all.exact = true;
  std::vector<std::vector<int64_t>> exact;
  for (const std::vector<int64_t>& known : sample) {
    if (options.stopped()) return absl::CancelledError("an index is no longer wanted");
    ASSIGN_OR_RETURN(const auto best, Recommend({known}, all));
    exact.emplace_back();
    for (const Choice& choice : best[0]) exact.back().push_back(choice.id);
  }
  ASSIGN_OR_RETURN(const auto queries, indexed->QueriesOf(sample));
  ASSIGN_OR_RETURN(indexed->quality_,
                   model::ReachRecall(*indexed->index_, queries, exact, options.recall));
  return indexed;
}

absl::StatusOr<std::vector<std::vector<float>>> Recommender::QueriesOf(
    absl::Span<const std::vector<int64_t>> known) const {
  ASSIGN_OR_RETURN(const data::Batch batch, BatchOf(*predictor_, known));
  ASSIGN_OR_RETURN(const Tensor users, predictor_->UserVectors(batch));
  std::vector<std::vector<float>> queries;
  for (int64_t i = 0; i < users.dim(0); ++i) {
    const float* const user = users.data<float>() + i * users.dim(1);
    std::vector<float>& query = queries.emplace_back(user, user + users.dim(1));
    query.resize(static_cast<size_t>(index_->dim()), 1.0f);
  }
  return queries;
}

absl::Status Recommender::AskIndex(absl::Span<const std::vector<int64_t>> known,
                                   const RecommendOptions& options,
                                   std::vector<std::vector<Choice>>* all) const {
  ASSIGN_OR_RETURN(const auto queries, QueriesOf(known));
  for (size_t i = 0; i < queries.size(); ++i) {
    std::vector<int64_t> left_out;
    if (!options.include_known) left_out = known[i];
    std::sort(left_out.begin(), left_out.end());
    const int64_t top = options.top + static_cast<int64_t>(left_out.size());
    ASSIGN_OR_RETURN(const auto found, index_->Search(queries[i].data(), top, quality_.beam));
    std::vector<Choice>& best = all->emplace_back();
    for (const model::VectorIndex::Found& f : found) {
      if (static_cast<int64_t>(best.size()) == options.top) break;
      if (!std::binary_search(left_out.begin(), left_out.end(), f.id)) {
        best.push_back({f.id, f.product, 0});
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Recommender::ScoreAll(absl::Span<const std::vector<int64_t>> known,
                                   const RecommendOptions& options,
                                   std::vector<std::vector<Choice>>* all) const {
  ASSIGN_OR_RETURN(const data::Batch batch, BatchOf(*predictor_, known));
  ASSIGN_OR_RETURN(const Scores scores, predictor_->Predict(batch));
  for (size_t i = 0; i < known.size(); ++i) {
    std::vector<int64_t> left_out;
    if (!options.include_known) left_out = known[i];
    std::sort(left_out.begin(), left_out.end());
    all->push_back(predictor_->Best(scores, static_cast<int64_t>(i), options.top, left_out));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<Choice>>> Recommender::Recommend(
    absl::Span<const std::vector<int64_t>> known, const RecommendOptions& options) const {
  std::vector<std::vector<Choice>> all;
  all.reserve(known.size());
  const bool indexed = index_ != nullptr && !options.exact;
  const auto step = static_cast<size_t>(predictor_->batch_rows());
  for (size_t begin = 0; begin < known.size(); begin += step) {
    const auto some = known.subspan(begin, step);
    RETURN_IF_ERROR(indexed ? AskIndex(some, options, &all) : ScoreAll(some, options, &all));
  }
  return all;
}

}  // namespace coxswain::predict
