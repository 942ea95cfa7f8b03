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
    recommender->history_ = std::make_unique<model::SavedHistory>(*std::move(history));
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
  return {history_->Values(group),
          predictor_->IdOf(history_->groups()[static_cast<size_t>(group)])};
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

absl::StatusOr<std::vector<std::vector<Choice>>> Recommender::Recommend(
    absl::Span<const std::vector<int64_t>> known, const RecommendOptions& options) const {
  std::vector<std::vector<Choice>> all;
  all.reserve(known.size());
  const auto step = static_cast<size_t>(predictor_->batch_rows());
  for (size_t begin = 0; begin < known.size(); begin += step) {
    const auto some = known.subspan(begin, step);
    ASSIGN_OR_RETURN(const data::Batch batch, BatchOf(*predictor_, some));
    ASSIGN_OR_RETURN(const Scores scores, predictor_->Predict(batch));
    for (size_t i = 0; i < some.size(); ++i) {
      std::vector<int64_t> left_out;
      if (!options.include_known) left_out = some[i];
      std::sort(left_out.begin(), left_out.end());
      all.push_back(predictor_->Best(scores, static_cast<int64_t>(i), options.top, left_out));
    }
  }
  return all;
}

}  // namespace coxswain::predict
