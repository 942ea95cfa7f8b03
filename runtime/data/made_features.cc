// What features may be made of; ranges of numbers; combinations, whose parts come column by column
// or row by row.
#include "runtime/data/made_features.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "runtime/base/status.h"
#include "runtime/data/calendar.h"
#include "runtime/data/names.h"
#include "runtime/data/number.h"
#include "runtime/data/spec_check.h"

namespace coxswain::data {
namespace {

using proto::DatasetSpec;
using proto::FeatureSpec;

template <typename... Args>
absl::Status Invalid(const FeatureSpec& feature, const Args&... args) {
  return absl::InvalidArgumentError(
      absl::StrCat("data set: feature ", Quoted(feature.name()), ": ", args...));
}

// The shortest text that is read as this number again.
std::string NumberText(double number) {
  std::string text;
  for (int digits = 6; digits <= 17; ++digits) {
    text = absl::StrFormat("%.*g", digits, number);
    if (std::strtod(text.c_str(), nullptr) == number) break;
  }
  return text;
}

const FeatureSpec* Member(const DatasetSpec& spec, const std::string& name) {
  for (const FeatureSpec& feature : spec.features()) {
    if (feature.name() == name) return &feature;
  }
  return nullptr;
}

absl::Status CheckBucketized(const FeatureSpec& feature) {
  for (int i = 0; i < feature.boundaries_size(); ++i) {
    if (!std::isfinite(feature.boundaries(i))) {
      return Invalid(feature, "wanted finite boundaries, found ", feature.boundaries(i));
    }
    if (i == 0 || feature.boundaries(i - 1) < feature.boundaries(i)) continue;
    return Invalid(feature, "wanted boundaries that ascend, found ", feature.boundaries(i),
                   " behind ", feature.boundaries(i - 1));
  }
  return absl::OkStatus();
}

absl::Status CheckFixedValues(const FeatureSpec& feature) {
  if (IsBucketized(feature) && IsCalendar(feature)) {
    return Invalid(feature, "wanted boundaries, of a number, or a part of a time; found both");
  }
  RETURN_IF_ERROR(IsCalendar(feature) ? CheckCalendar(feature) : CheckBucketized(feature));
  if (feature.multi_valued() || feature.hash_buckets() != 0 || !feature.id().empty() ||
      !feature.vocabulary_file().empty() || feature.oov_buckets() != 0 ||
      feature.min_count() != 0 || feature.max_size() != 0 || IsCrossed(feature)) {
    return Invalid(feature,
                   IsCalendar(feature) ? "its values are the parts of a time"
                                       : "its values are the ranges between boundaries",
                   ": it takes no id, vocabulary, hash buckets or several values");
  }
  return absl::OkStatus();
}

std::vector<std::string> RangesOf(const FeatureSpec& feature) {
  std::vector<std::string> ranges;
  std::string low = "(-inf";
  for (const double boundary : feature.boundaries()) {
    const std::string high = NumberText(boundary);
    ranges.push_back(absl::StrCat(low, ", ", high, ")"));
    low = absl::StrCat("[", high);
  }
  ranges.push_back(absl::StrCat(low, ", inf)"));
  ranges.push_back("");
  return ranges;
}

absl::Status CheckCrossed(const DatasetSpec& spec, const FeatureSpec& feature) {
  if (feature.multi_valued() || IsHistory(feature) || !feature.column().empty() ||
      feature.id() == "raw") {
    return Invalid(feature,
                   "a crossed feature has one value, which is of no column and no integer");
  }
  if (feature.crossed_size() < 2) return Invalid(feature, "wanted two features to cross, or more");
  absl::flat_hash_set<std::string> seen;
  for (const std::string& name : feature.crossed()) {
    const FeatureSpec* const member = Member(spec, name);
    if (member == nullptr) return Invalid(feature, "wanted a feature, found ", Quoted(name));
    if (!seen.insert(name).second) return Invalid(feature, Quoted(name), " is crossed twice");
    if (member->kind() != FeatureSpec::CATEGORICAL || member->multi_valued() ||
        IsCrossed(*member)) {
      return Invalid(feature,
                     "wanted categorical, bucketized or calendar features of one value, found ",
                     Quoted(name));
    }
  }
  return absl::OkStatus();
}

class RangeSink : public FieldSink {
 public:
  RangeSink(const FeatureSpec& feature, std::unique_ptr<FieldSink> sink)
      : boundaries_(feature.boundaries().begin(), feature.boundaries().end()),
        ranges_(RangesOf(feature)),
        sink_(std::move(sink)) {}
  bool Append(absl::string_view text) override {
    double number = 0;
    number_ = ParseNumber(text, &number) || absl::StripAsciiWhitespace(text).empty();
    if (!number_) return false;
    if (absl::StripAsciiWhitespace(text).empty()) return sink_->Append(ranges_.back());
    const auto above = std::upper_bound(boundaries_.begin(), boundaries_.end(), number);
    return sink_->Append(ranges_[static_cast<size_t>(above - boundaries_.begin())]);
  }
  bool AppendBool(bool truth) override { return Append(truth ? "1" : "0"); }
  std::string Wanted() const override { return number_ ? sink_->Wanted() : "a finite number"; }

 private:
  const std::vector<double> boundaries_;
  const std::vector<std::string> ranges_;
  std::unique_ptr<FieldSink> sink_;
  bool number_ = true;  // the last field was one, or empty
};

// Fields of a row that wait for the row's others.
struct Crossing {
  std::vector<std::deque<std::string>> fields;  // by member
  std::unique_ptr<FieldSink> sink;
  std::string text;
};

class CrossedSink : public FieldSink {
 public:
  CrossedSink(std::shared_ptr<Crossing> crossing, size_t member)
      : crossing_(std::move(crossing)), member_(member) {}
  bool Append(absl::string_view text) override {
    crossing_->fields[member_].push_back(absl::StrReplaceAll(text, {{"&", "&&"}}));
    for (const auto& fields : crossing_->fields) {
      if (fields.empty()) return true;
    }
    crossing_->text.clear();
    for (auto& fields : crossing_->fields) {
      absl::StrAppend(&crossing_->text,
                      crossing_->text.empty() && &fields == &crossing_->fields[0] ? "" : " & ",
                      fields.front());
      fields.pop_front();
    }
    return crossing_->sink->Append(crossing_->text);
  }
  std::string Wanted() const override {
    return absl::StrCat("for the combination ", Quoted(crossing_->text), " ",
                        crossing_->sink->Wanted());
  }

 private:
  const std::shared_ptr<Crossing> crossing_;
  const size_t member_;
};

}  // namespace

bool IsCrossed(const FeatureSpec& feature) { return feature.crossed_size() > 0; }
bool IsBucketized(const FeatureSpec& feature) { return feature.boundaries_size() > 0; }

bool HasFixedValues(const FeatureSpec& feature) {
  return IsBucketized(feature) || IsCalendar(feature);
}

std::vector<std::string> FixedValuesOf(const FeatureSpec& feature) {
  return IsCalendar(feature) ? CalendarValuesOf(feature) : RangesOf(feature);
}

absl::Status CheckMadeFeatures(const DatasetSpec& spec) {
  for (const FeatureSpec& feature : spec.features()) {
    if (HasFixedValues(feature)) RETURN_IF_ERROR(CheckFixedValues(feature));
    if (IsCrossed(feature)) RETURN_IF_ERROR(CheckCrossed(spec, feature));
  }
  return absl::OkStatus();
}

std::unique_ptr<FieldSink> NewFixedValueSink(const FeatureSpec& feature,
                                             std::unique_ptr<FieldSink> sink) {
  if (IsCalendar(feature)) return NewCalendarSink(feature, std::move(sink));
  return std::make_unique<RangeSink>(feature, std::move(sink));
}

std::vector<std::pair<std::string, std::unique_ptr<FieldSink>>> NewCrossedSinks(
    const DatasetSpec& spec, const FeatureSpec& feature, std::unique_ptr<FieldSink> sink) {
  auto crossing = std::make_shared<Crossing>();
  crossing->fields.resize(static_cast<size_t>(feature.crossed_size()));
  crossing->sink = std::move(sink);
  std::vector<std::pair<std::string, std::unique_ptr<FieldSink>>> sinks;
  for (int i = 0; i < feature.crossed_size(); ++i) {
    // CheckMadeFeatures made sure that it is there.
    const FeatureSpec& member = *Member(spec, feature.crossed(i));
    std::unique_ptr<FieldSink> part =
        std::make_unique<CrossedSink>(crossing, static_cast<size_t>(i));
    if (HasFixedValues(member)) part = NewFixedValueSink(member, std::move(part));
    sinks.emplace_back(member.column(), std::move(part));
  }
  return sinks;
}

}  // namespace coxswain::data
