#include "runtime/data/stream/time_cuts.h"

#include <cmath>

namespace coxswain::data {

void TimeCuts::Read(const proto::SplitCuts& from, Cuts* to) {
  if (from.has_validation()) {
    to->validation = {from.validation().value(), from.validation().rows(), from.validation().row()};
  }
  if (from.has_test()) to->test = {from.test().value(), from.test().rows(), from.test().row()};
}

void TimeCuts::Write(const Cuts& from, proto::SplitCuts* to) {
  const auto write = [](const Cut& cut, proto::SplitCut* written) {
    written->set_value(cut.value);
    written->set_rows(cut.rows);
    written->set_row(cut.row);
  };
  if (std::isfinite(from.validation.value)) write(from.validation, to->mutable_validation());
  if (std::isfinite(from.test.value)) write(from.test, to->mutable_test());
}

TimeCuts::TimeCuts(const proto::TimeCuts& cuts) : kept_rows_(cuts.kept_rows()) {
  Read(cuts.kept(), &kept_);
  Read(cuts.all(), &all_);
}

proto::TimeCuts TimeCuts::Save() const {
  proto::TimeCuts cuts;
  cuts.set_kept_rows(kept_rows_);
  if (kept_rows_ > 0) Write(kept_, cuts.mutable_kept());
  Write(all_, cuts.mutable_all());
  return cuts;
}

bool TimeCuts::Passes(int64_t row, double value, Cut* cut) {
  if (value != cut->value) return value > cut->value;
  if (cut->rows > 0) {
    --cut->rows;
    return false;
  }
  if (cut->row < 0) cut->row = row;
  return true;
}

bool TimeCuts::IsBehind(int64_t row, double value, const Cut& cut) {
  return value != cut.value ? value > cut.value : cut.row >= 0 && row >= cut.row;
}

Part TimeCuts::Pass(int64_t row, double value, Cuts* cuts) {
  // Both, because both count rows.
  const bool validation = Passes(row, value, &cuts->validation);
  const bool test = Passes(row, value, &cuts->test);
  return test ? Part::kTest : validation ? Part::kValidation : Part::kTraining;
}

Part TimeCuts::Next(int64_t row, double value, bool held_out, bool of_all) {
  // Rows that are kept are among all of them, too.
  const bool kept = row < kept_rows_;
  Part part = Part::kTest;
  if (!(kept ? of_all : held_out)) part = Pass(row, value, &all_);
  if (kept && !held_out) part = Pass(row, value, &kept_);
  return held_out ? Part::kTest : part;
}

Part TimeCuts::Of(int64_t row, double value) const {
  const Cuts& cuts = row < kept_rows_ ? kept_ : all_;
  if (IsBehind(row, value, cuts.test)) return Part::kTest;
  return IsBehind(row, value, cuts.validation) ? Part::kValidation : Part::kTraining;
}

bool TimeCuts::any() const {
  for (const Cut* cut : {&kept_.validation, &kept_.test, &all_.validation, &all_.test}) {
    if (std::isfinite(cut->value)) return true;
  }
  return false;
}

bool TimeCuts::over() const {
  for (const Cut* cut : {&kept_.validation, &kept_.test, &all_.validation, &all_.test}) {
    if (std::isfinite(cut->value) && cut->row < 0) return false;
  }
  return true;
}

}  // namespace coxswain::data
