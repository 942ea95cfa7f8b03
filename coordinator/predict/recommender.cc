// Whom a model can suggest items to, and what they are known to have; then suggestions from the
// scores of all items. recommender_index.cc has those from an index.
#include "coordinator/predict/recommender.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "coordinator/job/model_kind.h"
#include "coordinator/predict/raw_rows.h"
#include "runtime/base/status.h"
#include "runtime/data/learned.h"
#include "runtime/data/names.h"

namespace coxswain::predict {
namespace {

constexpr int64_t kMostFound = int64_t{1} << 21;  // items of all users that a cluster is asked for

bool OnlyHistories(const job::JobSpec& job) {
  if (job::KindOf(*job.model).predicts != job::Predicts::kItem) return false;
  for (const std::string& name : job.model->user_features()) {
    if (job.FindFeature(name)->history_of() != job.model->item()) return false;
  }
  return true;
}

// A batch of users who have these items, whatever histories the model sees of them.
absl::StatusOr<data::Batch> OfItems(const Predictor& predictor,
                                    absl::Span<const Recommender::Whom> users) {
  std::vector<int64_t> values;
  std::vector<int32_t> offsets = {0};
  for (const Recommender::Whom& user : users) {
    const auto seen = job::SeenOf(predictor.job(), user.known);
    values.insert(values.end(), seen.begin(), seen.end());
    offsets.push_back(static_cast<int32_t>(values.size()));
  }
  data::Batch batch;
  for (const data::ColumnSpec& column : predictor.user_rows().columns()) {
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

// Of how many items the best `options.top` are that are not left out, whoever it is: a power of 2,
// so that few functions are defined.
int64_t WithKnown(absl::Span<const Recommender::Whom> users, const RecommendOptions& options) {
  size_t most = 0;
  for (const Recommender::Whom& user : users) most = std::max(most, user.known.size());
  const auto wanted = static_cast<uint64_t>(options.top) +
                      (options.include_known ? 0 : static_cast<uint64_t>(most));
  return static_cast<int64_t>(std::bit_ceil(std::max<uint64_t>(1, wanted)));
}

}  // namespace

Recommender::Recommender(std::shared_ptr<const Predictor> predictor)
    : predictor_(std::move(predictor)),
      described_by_items_(OnlyHistories(predictor_->job())),
      user_(job::UserOf(predictor_->job())),
      groups_are_ids_(model::GroupsAreIds(predictor_->job())) {
  for (const auto& input : predictor_->user_rows().inputs()) columns_.push_back(ColumnOf(input));
  if (!user_.empty()) {
    ids_ = predictor_->IdsOf(user_);
    names_ = predictor_->VocabularyOf(user_);
  }
}

absl::StatusOr<std::unique_ptr<Recommender>> Recommender::Load(const std::string& directory) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Predictor> predictor, Predictor::Load(directory));
  return Create(std::move(predictor));
}

absl::StatusOr<std::unique_ptr<Recommender>> Recommender::Create(
    std::shared_ptr<const Predictor> predictor,
    std::shared_ptr<const model::SavedHistory> history_in_memory) {
  if (!CanBe(*predictor)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "this job's model cannot recommend: wanted kind ", job::KindsThat(job::Predicts::kItem),
        ", or matrix_factorization with a vocabulary of its items"));
  }
  std::unique_ptr<Recommender> recommender(new Recommender(std::move(predictor)));
  if (recommender->GroupsAreUsers()) {
    recommender->history_ = std::move(history_in_memory);
    if (recommender->history_ == nullptr) RETURN_IF_ERROR(recommender->ReadHistory());
  }
  if (recommender->history_ == nullptr) RETURN_IF_ERROR(recommender->ReadHashedNames());
  return recommender;
}

absl::Status Recommender::ReadHistory() {
  auto history = model::SavedHistory::Load(predictor_->directory(), predictor_->item_ids());
  if (absl::IsNotFound(history.status())) return absl::OkStatus();
  RETURN_IF_ERROR(history.status());
  history_ = std::make_shared<const model::SavedHistory>(*std::move(history));
  return absl::OkStatus();
}

absl::Status Recommender::ReadHashedNames() {
  const job::JobSpec& job = predictor_->job();
  const auto* const learned = user_.empty() ? nullptr : data::FindLearned(job.dataset, user_);
  if (learned == nullptr || learned->names_file().empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      model::HashedNames names,
      model::HashedNames::Load(learned->names_file(), job.FindFeature(user_)->hash_buckets()));
  hashed_names_ = std::make_shared<const model::HashedNames>(std::move(names));
  return absl::OkStatus();
}

// Groups that are others than the users say nothing of them.
bool Recommender::GroupsAreUsers() const {
  if (described_by_items()) return true;
  const job::JobSpec& job = predictor_->job();
  return !user_.empty() && model::GroupColumn(job) == job.FindFeature(user_)->column();
}

absl::StatusOr<std::vector<int64_t>> Recommender::ItemsOf(
    absl::Span<const std::string> names) const {
  std::vector<int64_t> ids;
  for (const std::string& name : names) {
    const auto id = predictor_->IdOf(name);
    // An unknown item, whose id is a bucket's, cannot be used.
    if (!id) {
      return absl::NotFoundError(absl::StrCat("'", absl::Utf8SafeCEscape(name),
                                              "' is not a value of feature '", predictor_->item(),
                                              "' that the model was trained with"));
    }
    ids.push_back(*id);
  }
  return ids;
}

absl::StatusOr<const std::vector<std::string>*> Recommender::Users() const {
  if (names_ != nullptr) return names_->texts();
  // Of users who are described otherwise, histories only say what they have.
  if (described_by_items() && history_ != nullptr) {
    const absl::Status order = model::CheckOrder(*history_, predictor_->job());
    if (!order.ok()) {
      return absl::Status(order.code(),
                          absl::StrCat(predictor_->directory(), ": ", order.message()));
    }
  }
  const bool ids_are_values = !user_.empty() && predictor_->job().FindFeature(user_)->id() == "raw";
  if (history_ != nullptr && (!groups_are_ids_ || ids_are_values)) return &history_->groups();
  if (hashed_names_ != nullptr) return &hashed_names_->names();
  if (described_by_items()) {
    return absl::FailedPreconditionError(
        absl::StrCat(predictor_->directory(),
                     " keeps no histories: it was saved by an earlier version of coxswain"));
  }
  if (!user_.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the model does not know the names of its users, but only the ids of feature ",
                     data::Quoted(user_), "; of hashed values keep_names: true keeps them"));
  }
  return DescribedOtherwise();
}

absl::Status Recommender::DescribedOtherwise() const {
  return absl::FailedPreconditionError(absl::StrCat(
      "the model does not know its users by name; they are described by values of ",
      absl::StrJoin(columns_, ", ",
                    [](std::string* out, const RawColumn& c) { absl::StrAppend(out, c.name); })));
}

absl::StatusOr<Recommender::Whom> Recommender::User(const std::string& name) const {
  if (!user_.empty()) return UserOfValue(name);
  if (!described_by_items()) return DescribedOtherwise();
  RETURN_IF_ERROR(Users().status());
  if (const auto group = history_->Find(name)) return Group(*group);
  return absl::NotFoundError(
      absl::StrCat(data::Quoted(name), " is not in the histories that the model was trained on"));
}

absl::StatusOr<Recommender::Whom> Recommender::UserOfValue(const std::string& name) const {
  const std::optional<int64_t> id = ids_->Find(name);
  std::optional<int64_t> group;
  if (history_ != nullptr && id) {
    group = history_->Find(groups_are_ids_ ? absl::StrCat(*id) : name);
  }
  bool known = id.has_value();
  if (names_ != nullptr) {
    known = known && *id < static_cast<int64_t>(names_->texts()->size());
  } else if (history_ != nullptr) {
    known = group.has_value();
  } else if (hashed_names_ != nullptr) {
    known = hashed_names_->Knows(name);
  }
  if (!known) {
    return absl::NotFoundError(absl::StrCat(data::Quoted(name), " is not a value of feature '",
                                            user_, "' that the model was trained with"));
  }
  Whom whom = group ? Group(*group) : Whom();
  if (history_ != nullptr) whom.knows_all = history_->complete();
  if (!predictor_->job().evaluate.suggest_self) whom.self = predictor_->IdOf(name);
  whom.values = {RawValue(name)};
  return whom;
}

absl::StatusOr<Recommender::Whom> Recommender::WithItems(
    absl::Span<const std::string> names) const {
  if (!described_by_items()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the model's users are not described by their items alone, but by values of ",
        absl::StrJoin(columns_, ", ",
                      [](std::string* out, const RawColumn& c) { absl::StrAppend(out, c.name); })));
  }
  ASSIGN_OR_RETURN(std::vector<int64_t> known, ItemsOf(names));
  return Whom{std::move(known)};
}

absl::StatusOr<std::vector<int64_t>> Recommender::HistoryIn(
    absl::Span<const RawValue> values) const {
  std::vector<std::string> names;
  for (const proto::FeatureSpec& feature : predictor_->job().dataset.features()) {
    if (feature.history_of() != predictor_->item()) continue;
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (columns_[c].name != feature.name()) continue;
      const auto* const list = std::get_if<std::vector<std::string>>(&values[c]);
      const auto* const one = std::get_if<std::string>(&values[c]);
      if (list != nullptr) {
        std::copy_if(list->begin(), list->end(), std::back_inserter(names),
                     [](const std::string& name) { return !name.empty(); });
      }
      if (one != nullptr) names.push_back(*one);
    }
  }
  return ItemsOf(names);
}

absl::StatusOr<Recommender::Whom> Recommender::WithValues(std::vector<RawValue> values) const {
  Whom whom;
  whom.values = std::move(values);
  if (const auto batch = BatchOf({&whom, 1}); !batch.ok()) {
    // There is no other row that it could be.
    return absl::Status(batch.status().code(),
                        absl::StripPrefix(batch.status().message(), "rows[0]: "));
  }
  // A user whom the model does not know is no other user: nobody's vector is theirs.
  if (!user_.empty()) {
    const auto* const name = std::get_if<std::string>(whom.values.data());
    if (name == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(data::Quoted(columns_[0].name), ": wanted the name of a user"));
    }
    return UserOfValue(*name);
  }
  ASSIGN_OR_RETURN(whom.known, HistoryIn(whom.values));
  return whom;
}

Recommender::Whom Recommender::Group(int64_t group) const {
  Whom whom = {history_->Values(group)};
  whom.knows_all = history_->complete();
  if (!predictor_->job().evaluate.suggest_self) {
    whom.self = predictor_->IdOf(history_->groups()[static_cast<size_t>(group)]);
  }
  return whom;
}

absl::Status Recommender::CheckKnown(absl::Span<const Whom> users,
                                     const RecommendOptions& options) const {
  if (options.include_known) return absl::OkStatus();
  if (!std::all_of(users.begin(), users.end(), [](const Whom& u) { return u.knows_all; })) {
    return absl::FailedPreconditionError(
        "the model was trained on from another one and does not keep what its users had there, so "
        "that it cannot be left out; it can be suggested, too (--include-known; of a server "
        "\"exclude_known\": false)");
  }
  if (history_ != nullptr) return absl::OkStatus();
  // Of someone who is described otherwise nothing is known but what is given.
  if (user_.empty() && predictor_->job().model->ranks().user.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the model does not keep what its users have, so that it cannot be left out; it can be "
      "suggested, too (--include-known; of a server \"exclude_known\": false)");
}

absl::StatusOr<data::Batch> Recommender::BatchOf(absl::Span<const Whom> users) const {
  if (users[0].values.empty()) return OfItems(*predictor_, users);
  RawRows rows;
  for (const RawColumn& column : columns_) rows.columns.push_back(column.name);
  for (const Whom& user : users) rows.rows.push_back(user.values);
  ASSIGN_OR_RETURN(const data::InputRows read, ReadRaw(predictor_->user_rows(), rows));
  return read.Read(0, read.rows());
}

absl::Status Recommender::ScoreAll(absl::Span<const Whom> users, const RecommendOptions& options,
                                   std::vector<std::vector<Choice>>* all) const {
  ASSIGN_OR_RETURN(const data::Batch batch, BatchOf(users));
  ASSIGN_OR_RETURN(const Scores scores, predictor_->ScoreItems(batch, WithKnown(users, options)));
  for (size_t i = 0; i < users.size(); ++i) {
    std::vector<int64_t> left_out;
    if (!options.include_known) left_out = users[i].known;
    std::sort(left_out.begin(), left_out.end());
    all->push_back(predictor_->Best(scores, static_cast<int64_t>(i), options.top, left_out));
    // What is no number is the worst, so all the others are none, too.
    if (!all->back().empty() && !std::isfinite(all->back().front().score)) {
      return absl::DataLossError(
          absl::StrCat("the best score that a user has for an item is ", all->back().front().score,
                       ": wanted a number, so the model has values that are none"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<Choice>>> Recommender::RecommendTo(
    absl::Span<const Whom> all, const RecommendOptions& options) const {
  RETURN_IF_ERROR(CheckKnown(all, options));
  RecommendOptions one_more = options;
  ++one_more.top;
  std::vector<std::vector<Choice>> found;
  found.reserve(all.size());
  const bool indexed = index_ != nullptr && !options.exact && options.top <= quality_.most;
  const auto most = static_cast<size_t>(predictor_->user_batch_rows());
  for (size_t begin = 0, count = 0; begin < all.size(); begin += count) {
    // Those who are described in the same way.
    for (count = 1; count < std::min(most, all.size() - begin) &&
                    all[begin + count].values.empty() == all[begin].values.empty();) {
      ++count;
    }
    // A cluster returns with the best ones those that are left out.
    while (predictor_->remote() && count > 1 &&
           static_cast<int64_t>(count) * WithKnown(all.subspan(begin, count), one_more) >
               kMostFound) {
      count /= 2;
    }
    const auto some = all.subspan(begin, count);
    RETURN_IF_ERROR(indexed ? AskIndex(some, one_more, &found) : ScoreAll(some, one_more, &found));
  }
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

}  // namespace coxswain::predict
