#include "runtime/data/label_summary.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace coxswain::data {
namespace {

constexpr size_t kShownValues = 12;  // of a label that is a number, not a class

}  // namespace

void LabelSummary::Add(float label, double row_weight) {
  weight += row_weight;
  weighted_sum += row_weight * label;
  low = count == 0 ? label : std::min(low, label);
  high = count == 0 ? label : std::max(high, label);
  ++count;
  sum += label;
  if (many) return;
  ++values[label];
  if (values.size() <= kMostValues) return;
  many = true;
  values.clear();
}

std::string LabelSummary::ToString() const {
  if (count == 0) return "none";
  if (many || values.size() > kShownValues) {
    return absl::StrFormat("mean %.4g, %g to %g", mean(), low, high);
  }
  std::string text;
  for (const auto& [value, n] : values) {
    absl::StrAppendFormat(&text, "%s%g %.1f%%", text.empty() ? "" : ", ", value,
                          100.0 * static_cast<double>(n) / static_cast<double>(count));
  }
  return text;
}

}  // namespace coxswain::data
