#include "coordinator/model/losses/loss_list.h"

#include "absl/strings/str_cat.h"
#include "coxswain/function_builder.h"

namespace coxswain::job {

const std::vector<const LossKind*>& AllLossKinds() {
#define COX_KIND(file, function) &model::function(),
  static const auto* const all = new std::vector<const LossKind*>{COX_LOSSES(COX_KIND)};
#undef COX_KIND
  return *all;
}

const LossKind* FindLossKind(absl::string_view name) {
  for (const LossKind* kind : AllLossKinds()) {
    if (name == kind->name) return kind;
  }
  return nullptr;
}

const LossKind& KindOf(const LossSpec& loss) { return *loss.kind_; }

void LossSpec::Check(const JobReader&) const {}

Output LossSpec::PerExample(FunctionBuilder& f, Output, Output) const {
  f.Fail(absl::UnimplementedError(absl::StrCat("a model has to sample for ", kind_->name)));
  return {};
}

Output LossSpec::PerRanking(FunctionBuilder& f, const Ranking&) const {
  f.Fail(absl::UnimplementedError(absl::StrCat(kind_->name, " is no loss of rankings")));
  return {};
}

Output LossSpec::PerQuery(FunctionBuilder& f, Output, Output, Output) const {
  f.Fail(absl::UnimplementedError(absl::StrCat(kind_->name, " is no loss of queries")));
  return {};
}

double LossSpec::temperature() const { return sampling() == nullptr ? 1 : sampling()->temperature; }

bool LossSpec::rejects_known() const { return sampling() != nullptr && sampling()->reject_known; }

Output LossSpec::Predict(FunctionBuilder&, Output logits) const { return logits; }
double LossSpec::FirstScore(double) const { return 0; }

}  // namespace coxswain::job
