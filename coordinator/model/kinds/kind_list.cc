#include "coordinator/model/kinds/kind_list.h"

#include "absl/strings/str_join.h"
#include "coordinator/model/model_parts.h"
#include "runtime/data/made_features.h"
#include "runtime/data/spec_check.h"

namespace coxswain::job {

const std::vector<const ModelKind*>& AllModelKinds() {
#define COX_KIND(file, function) &model::function(),
  static const auto* const all = new std::vector<const ModelKind*>{COX_MODEL_KINDS(COX_KIND)};
#undef COX_KIND
  return *all;
}

const ModelKind* FindModelKind(absl::string_view name) {
  for (const ModelKind* kind : AllModelKinds()) {
    if (name == kind->name) return kind;
  }
  return nullptr;
}

const ModelKind& KindOf(const ModelSpec& model) { return *model.kind_; }

std::vector<const LossKind*> LossesOf(const ModelKind& kind, int64_t classes) {
  std::vector<const LossKind*> losses;
  for (const PredictionKind said :
       classes > 1 && !kind.says_of_classes.empty() ? kind.says_of_classes : kind.says) {
    for (const LossKind* loss : AllLossKinds()) {
      const bool of_words =
          kind.predicts != Predicts::kNeighbours || said != PredictionKind::kRank || loss->of_words;
      if (loss->prediction == said && of_words) losses.push_back(loss);
    }
  }
  return losses;
}

absl::Span<const int64_t> SeenOf(const JobSpec& job, absl::Span<const int64_t> history) {
  const auto last = static_cast<size_t>(data::LastOfHistory(job.dataset));
  return last == 0 || history.size() <= last ? history : history.last(last);
}

std::string KindsThat(Predicts predicts) {
  std::vector<std::string> names;
  for (const ModelKind* kind : AllModelKinds()) {
    if (kind->predicts == predicts) names.push_back(kind->name);
  }
  return absl::StrJoin(names, " or ");
}

bool HasLabel(const JobSpec& job) { return KindOf(*job.model).predicts == Predicts::kLabel; }

bool MeasuresGroups(const JobSpec& job) {
  const bool groups = !job.evaluate.group.empty() || !job.dataset.query().empty();
  return MeasuresRanks(job) || (HasLabel(job) && groups);
}

std::string ItemOf(const ModelSpec& model) {
  return model.item().empty() ? model.ranks().item : model.item();
}

std::string UserOf(const JobSpec& job) {
  if (ItemOf(*job.model).empty()) return "";
  std::vector<std::string> features = job.model->user_features();
  if (const std::string user = job.model->ranks().user; !user.empty()) features = {user};
  if (features.size() != 1) return "";
  // Evaluations say that the users are others: a user is described, by a city for example.
  if (!job.evaluate.group.empty() && job.evaluate.group != features[0]) return "";
  const proto::FeatureSpec& user = *job.FindFeature(features[0]);
  const bool alone = user.kind() == proto::FeatureSpec::CATEGORICAL && !user.multi_valued() &&
                     user.history_of().empty() && user.crossed().empty() &&
                     !data::HasFixedValues(user);
  return alone ? user.name() : "";
}

bool MeasuresRanks(const JobSpec& job) { return job.dataset.has_known_items(); }

bool ModelSpec::UpdatesAllRows(const JobSpec&, const TableSpec&) const { return false; }
InputsByVariable ModelSpec::Inputs(const JobSpec&) const { return {}; }
absl::Status ModelSpec::CreateVariables(model::ModelParts*) const { return absl::OkStatus(); }

void ModelSpec::Predict(FunctionBuilder& f, const model::ModelParts&) const {
  f.Fail(absl::UnimplementedError(
      absl::StrCat("a ", KindOf(*this).name, " predicts nothing of rows")));
}

void ModelSpec::TopItems(FunctionBuilder& f, const model::ModelParts&, Output, Output,
                         int64_t) const {
  f.Fail(absl::UnimplementedError(absl::StrCat("a ", KindOf(*this).name, " ranks no items")));
}

}  // namespace coxswain::job
