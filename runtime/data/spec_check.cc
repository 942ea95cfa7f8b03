// Defaults; then the checks of features by kind, of the label and of the split. Checks of a single
// format are in formats/.
#include "runtime/data/spec_check.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/data_format.h"
#include "runtime/data/learned.h"
#include "runtime/data/made_features.h"
#include "runtime/data/names.h"
#include "runtime/data/negatives.h"
#include "runtime/data/stream/stream_options.h"
#include "runtime/data/time_split.h"
#include "runtime/data/utf8.h"

namespace coxswain::data {
namespace {

using proto::DatasetSpec;
using proto::FeatureSpec;

// Number of ids of a feature; a vocabulary's words are added to its buckets.
constexpr int64_t kMaxBuckets = int64_t{1} << 48;
constexpr int64_t kMostBadRows = 1'000'000;      // the index has a place of each
constexpr int64_t kMaxWidth = int64_t{1} << 20;  // of a vector

template <typename... Args>
absl::Status Invalid(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat("data set: ", args...));
}

template <typename... Args>
absl::Status InvalidFeature(const FeatureSpec& feature, const Args&... args) {
  return Invalid("feature ", Quoted(feature.name()), ": ", args...);
}

// "csv", "libsvm" or "text", each in quotes.
std::string FormatNames() {
  std::string names;
  const auto& all = AllDataFormats();
  for (size_t i = 0; i < all.size(); ++i) {
    const char* const between = i == 0 ? "" : i + 1 < all.size() ? ", " : " or ";
    absl::StrAppend(&names, between, Quoted(all[i]->name()));
  }
  return names;
}

const FeatureSpec* FindFeature(const DatasetSpec& spec, const std::string& name) {
  for (const FeatureSpec& feature : spec.features()) {
    if (feature.name() == name) return &feature;
  }
  return nullptr;
}

std::string FeatureNames(const DatasetSpec& spec, const std::string& wanted) {
  std::vector<std::string> names;
  for (const FeatureSpec& feature : spec.features()) names.push_back(feature.name());
  return Alternatives(wanted, names);
}

void FillDefaults(const DataFormat& format, DatasetSpec* spec) {
  format.FillDefaults(spec);
  for (FeatureSpec& feature : *spec->mutable_features()) {
    if (IsHistory(feature)) {
      feature.set_multi_valued(true);
      feature.set_kind(FeatureSpec::CATEGORICAL);
      continue;
    }
    if (IsCrossed(feature)) {
      feature.set_kind(FeatureSpec::CATEGORICAL);
      continue;
    }
    if (HasFixedValues(feature)) {
      feature.set_kind(FeatureSpec::CATEGORICAL);
      const std::vector<std::string> values = FixedValuesOf(feature);
      *feature.mutable_vocabulary() = {values.begin(), values.end()};
    }
    if (feature.column().empty()) feature.set_column(feature.name());
    if (feature.name().empty()) feature.set_name(feature.column());
  }
  for (proto::JoinSpec& join : *spec->mutable_joins()) {
    if (join.csv().separator().empty()) join.mutable_csv()->set_separator(",");
    if (join.right_on().empty()) join.set_right_on(join.left_on());
  }
  if (!spec->split().holdout_per().empty() && spec->split().holdout_min() < 2) {
    spec->mutable_split()->set_holdout_min(2);
  }
}

absl::Status CheckNumeric(const FeatureSpec& feature) {
  if (feature.multi_valued()) {
    return InvalidFeature(feature, "multi_valued is for categorical features, found numeric");
  }
  if (!feature.weight_separator().empty()) {
    return InvalidFeature(feature, "weight_separator is for categorical features, found numeric");
  }
  if (feature.hash_buckets() != 0 || feature.vocabulary_size() > 0 ||
      !feature.vocabulary_file().empty() || feature.oov_buckets() != 0 ||
      feature.min_count() != 0 || feature.max_size() != 0 || !feature.id().empty()) {
    return InvalidFeature(feature, "a numeric feature takes no id, vocabulary or hash buckets");
  }
  if (!std::isfinite(feature.missing_value())) {
    return InvalidFeature(feature, "wanted a finite missing_value");
  }
  const bool divides = feature.normalization() == FeatureSpec::DIVIDE;
  if (divides && !(std::isfinite(feature.divisor()) && feature.divisor() > 0)) {
    return InvalidFeature(feature, "normalization divide: wanted a divisor above 0, found ",
                          feature.divisor());
  }
  return absl::OkStatus();
}

absl::Status CheckVector(const FeatureSpec& feature) {
  if (feature.width() < 1 || feature.width() > kMaxWidth) {
    return InvalidFeature(feature, "a vector: wanted a width of 1 to ", kMaxWidth, ", found ",
                          feature.width());
  }
  if (feature.columns_size() > 0 && feature.columns_size() != feature.width()) {
    return InvalidFeature(feature, "wanted ", feature.width(), " columns, as its width is, found ",
                          feature.columns_size());
  }
  if (feature.normalization() == FeatureSpec::STANDARD ||
      feature.normalization() == FeatureSpec::MIN_MAX) {
    return InvalidFeature(feature, "a vector's normalization is none, log1p or divide");
  }
  return absl::OkStatus();
}

absl::Status CheckTokens(const FeatureSpec& feature, const DatasetSpec& spec) {
  if (feature.tokens().empty()) return absl::OkStatus();
  if (feature.tokens() != "words") {
    return InvalidFeature(feature, "wanted the tokens \"words\", found ", Quoted(feature.tokens()));
  }
  if (!feature.multi_valued() || IsHistory(feature) || FormatOf(spec).HasIndices(feature)) {
    return InvalidFeature(feature, "tokens are for multi_valued features of texts");
  }
  if (!feature.value_separator().empty() || !feature.weight_separator().empty()) {
    return InvalidFeature(feature, "tokens: words have no value_separator and no weight_separator");
  }
  return absl::OkStatus();
}

// Names are kept of values that only their hashes stand for.
absl::Status CheckNames(const FeatureSpec& feature, const DatasetSpec& spec) {
  if (!feature.keep_names()) return absl::OkStatus();
  const auto wrong = [&feature](absl::string_view why) {
    return InvalidFeature(feature, "keep_names: wanted hash_buckets or the id \"hash\": ", why);
  };
  if (IsHistory(feature)) return wrong("a history has the names of the feature that it is of");
  if (feature.kind() != FeatureSpec::CATEGORICAL) return wrong("numbers are not hashed");
  if (FormatOf(spec).HasIndices(feature)) return wrong("indices are ids already");
  if (feature.id() == "raw") return wrong("with the id \"raw\" a value is its own name");
  const bool hashed = feature.hash_buckets() > 0 || !feature.id().empty();
  return hashed ? absl::OkStatus() : wrong("a vocabulary has the names already");
}

// Where a value ends and its weight begins must be clear.
absl::Status CheckWeights(const FeatureSpec& feature, const DatasetSpec& spec) {
  const std::string& weights = feature.weight_separator();
  const std::string& values = feature.value_separator();
  if (weights.empty()) return absl::OkStatus();
  if (FormatOf(spec).HasIndices(feature)) {
    return InvalidFeature(feature, "weight_separator: the values of libsvm are weights already");
  }
  if (!feature.multi_valued()) {
    return InvalidFeature(feature, "weight_separator is for multi_valued features");
  }
  if (weights.find_first_of("\r\n") != std::string::npos ||
      weights.find_first_of("0123456789+-.") != std::string::npos) {
    return InvalidFeature(feature,
                          "weight_separator: wanted one that is in no number and no end of a line, "
                          "found ",
                          Quoted(weights));
  }
  if (values.empty() ? weights.find_first_of(" \t\v\f") != std::string::npos
                     : weights.find(values) != std::string::npos ||
                           values.find(weights) != std::string::npos) {
    return InvalidFeature(feature,
                          "weight_separator: wanted another one than between values, found ",
                          Quoted(weights));
  }
  return absl::OkStatus();
}

absl::Status CheckCategorical(const FeatureSpec& feature, const DatasetSpec& spec) {
  if (feature.normalization() != FeatureSpec::NONE) {
    return InvalidFeature(feature, "normalization is for numeric features, found categorical");
  }
  for (const int64_t value : {feature.hash_buckets(), feature.min_count(), feature.max_size(),
                              feature.oov_buckets(), feature.max_values()}) {
    if (value < 0) return InvalidFeature(feature, "wanted counts of at least 0, found ", value);
  }
  const bool listed = feature.vocabulary_size() > 0;
  const bool in_file = !feature.vocabulary_file().empty();
  if (feature.hash_buckets() > kMaxBuckets || feature.oov_buckets() > kMaxBuckets) {
    return InvalidFeature(feature, "wanted at most 2^48 buckets, found ",
                          std::max(feature.hash_buckets(), feature.oov_buckets()));
  }
  const bool limited = feature.min_count() > 0 || feature.max_size() > 0;
  const bool hashed = feature.hash_buckets() > 0;
  const bool unbounded = !feature.id().empty();
  if (unbounded && feature.id() != "raw" && feature.id() != "hash") {
    return InvalidFeature(feature, "wanted the id \"raw\" or \"hash\", found ",
                          Quoted(feature.id()));
  }
  if (unbounded + hashed + listed + in_file + limited > 1) {
    return InvalidFeature(feature,
                          "wanted at most one of id, hash_buckets, vocabulary, vocabulary_file and "
                          "min_count/max_size, found several");
  }
  if (unbounded && feature.oov_buckets() > 0) {
    return InvalidFeature(feature, "oov_buckets need a vocabulary, found the id ",
                          Quoted(feature.id()));
  }
  if (hashed && feature.oov_buckets() > 0) {
    return InvalidFeature(feature, "oov_buckets need a vocabulary, found hash_buckets");
  }
  if (FormatOf(spec).HasIndices(feature) &&
      (unbounded || hashed || listed || in_file || limited || feature.oov_buckets() > 0)) {
    return InvalidFeature(feature, "libsvm indices are ids already: no vocabulary or hash buckets");
  }
  if (feature.max_values() > 0 && !feature.multi_valued()) {
    return InvalidFeature(feature, "max_values is for multi_valued features");
  }
  RETURN_IF_ERROR(CheckTokens(feature, spec));
  RETURN_IF_ERROR(CheckWeights(feature, spec));
  absl::flat_hash_set<std::string> seen;
  for (const std::string& text : feature.vocabulary()) {
    if (!seen.insert(text).second) {
      return InvalidFeature(feature, "wanted each value of the vocabulary once, found ",
                            Quoted(text), " twice");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckHistory(const FeatureSpec& feature, const DatasetSpec& spec) {
  const FeatureSpec* of = FindFeature(spec, feature.history_of());
  if (of == nullptr) {
    return InvalidFeature(feature, "history_of: wanted a feature, found ",
                          Quoted(feature.history_of()), "; ",
                          FeatureNames(spec, feature.history_of()));
  }
  if (of->kind() != FeatureSpec::CATEGORICAL || of->multi_valued()) {
    return InvalidFeature(feature, "history_of: wanted a categorical feature of one value, found ",
                          Quoted(of->name()));
  }
  if (!of->id().empty()) {
    return InvalidFeature(feature, "history_of: wanted a feature with a vocabulary, found ",
                          Quoted(of->name()), " with the id ", Quoted(of->id()));
  }
  if (!feature.weight_separator().empty()) {
    return InvalidFeature(feature, "a history is counted, not read: it has no weight_separator");
  }
  if (feature.group_by().empty()) {
    return InvalidFeature(feature, "a history needs group_by, the column that names the group");
  }
  if (feature.max_values() < 0) {
    return InvalidFeature(feature, "wanted max_values >= 0, found ", feature.max_values());
  }
  const proto::LabelSpec& label = spec.label();
  if (feature.only_positive() &&
      (spec.labels_size() > 0 || (label.column().empty() && label.weight().empty()))) {
    return InvalidFeature(feature,
                          "only_positive: wanted one label that is a column, or rows with ",
                          "weights, which say what is positive");
  }
  if (feature.width() == 0) return absl::OkStatus();
  if (feature.by().empty() || feature.width() < 0 || feature.width() > feature.max_values()) {
    return InvalidFeature(feature, "a history's width, of its windows, needs by and is at most ",
                          "max_values, found ", feature.width());
  }
  if (!spec.query().empty()) {
    return InvalidFeature(feature, "windows of a history are no queries: wanted no query");
  }
  return absl::OkStatus();
}

absl::Status CheckKnownItems(const DatasetSpec& spec) {
  if (!spec.has_known_items()) return absl::OkStatus();
  const FeatureSpec* item = FindFeature(spec, spec.known_items().item());
  if (item == nullptr || item->kind() != FeatureSpec::CATEGORICAL || item->multi_valued() ||
      IsHistory(*item) || !item->id().empty()) {
    return Invalid("known_items: wanted a categorical feature of one value with a vocabulary, ",
                   "found ", Quoted(spec.known_items().item()));
  }
  if (spec.known_items().group_by().empty()) {
    return Invalid("known_items: wanted group_by, the column that names the user");
  }
  return absl::OkStatus();
}

absl::Status CheckFeatures(const DatasetSpec& spec) {
  absl::flat_hash_set<std::string> names;
  int histories = 0;
  for (const FeatureSpec& feature : spec.features()) {
    if (feature.name().empty()) return Invalid("a feature has neither a name nor a column");
    if (!names.insert(feature.name()).second) {
      return Invalid("two features are named ", Quoted(feature.name()));
    }
    if (!FeatureSpec::Kind_IsValid(feature.kind()) ||
        !FeatureSpec::Normalization_IsValid(feature.normalization())) {
      return InvalidFeature(feature, "unknown kind or normalization");
    }
    if (!feature.by().empty() && !IsHistory(feature)) {
      return InvalidFeature(feature, "by is for histories");
    }
    RETURN_IF_ERROR(CheckNames(feature, spec));
    if (IsHistory(feature)) {
      RETURN_IF_ERROR(CheckHistory(feature, spec));
      if (++histories > 1) {
        return InvalidFeature(feature, "a data set can have one feature with history_of");
      }
    } else if (feature.kind() != FeatureSpec::CATEGORICAL) {
      RETURN_IF_ERROR(CheckNumeric(feature));
      if (feature.kind() == FeatureSpec::VECTOR) RETURN_IF_ERROR(CheckVector(feature));
    } else {
      RETURN_IF_ERROR(CheckCategorical(feature, spec));
    }
  }
  return absl::OkStatus();
}

// Which numbers a label may be, and which become 1.
absl::Status CheckRange(const proto::LabelSpec& label) {
  const std::string& comparison = label.positive_comparison();
  if (!comparison.empty() && comparison != ">" && comparison != ">=" && comparison != "<" &&
      comparison != "<=" && comparison != "==" && comparison != "!=" && comparison != kPresent) {
    return Invalid("label: wanted a comparison >, >=, <, <=, == or !=, or present, found ",
                   Quoted(comparison));
  }
  if (label.has_missing_value()) {
    if (comparison == kPresent || label.positive_values_size() > 0 || !label.feature().empty()) {
      return Invalid("label: missing_value is for labels that are numbers");
    }
    if (!std::isfinite(label.missing_value())) {
      return Invalid("label: wanted a finite missing_value, found ", label.missing_value());
    }
  }
  // Written so that NaN fails.
  if (label.bounded() && !(label.low() <= label.high())) {
    return Invalid("label: wanted low <= high, found ", label.low(), " and ", label.high());
  }
  if (!comparison.empty() && label.positive_values_size() > 0) {
    return Invalid("label: wanted positive_comparison or positive_values, found both");
  }
  if (!label.value_separator().empty() && label.positive_values().empty()) {
    return Invalid("label: wanted positive_values of a list, found value_separator alone");
  }
  return absl::OkStatus();
}

absl::Status CheckLabel(const DatasetSpec& spec) {
  const proto::LabelSpec& label = spec.label();
  const std::string& comparison = label.positive_comparison();
  RETURN_IF_ERROR(CheckRange(label));
  if (!label.weight().empty() && label.column().empty() && label.feature().empty()) {
    return Invalid("label: a weight is given, but no column and no feature");
  }
  if (label.feature().empty()) {
    if (label.column().empty() && (!comparison.empty() || label.positive_values_size() > 0)) {
      return Invalid("label: positive values are given, but no column");
    }
    return absl::OkStatus();
  }
  if (!label.column().empty() || !comparison.empty() || label.positive_values_size() > 0) {
    return Invalid("label: wanted a column or a feature, found both");
  }
  const FeatureSpec* feature = FindFeature(spec, label.feature());
  if (feature == nullptr) {
    return Invalid("label: wanted a feature, found ", Quoted(label.feature()), "; ",
                   FeatureNames(spec, label.feature()));
  }
  if (feature->kind() != FeatureSpec::CATEGORICAL || feature->multi_valued()) {
    return Invalid("label: wanted a categorical feature of one value, found ",
                   Quoted(feature->name()));
  }
  if (!feature->id().empty()) {
    return Invalid("label: wanted a feature with a vocabulary, found ", Quoted(feature->name()),
                   " with the id ", Quoted(feature->id()));
  }
  return absl::OkStatus();
}

// A name that is part of a column's. Characters beyond ASCII are letters, as in words.h.
bool IsPlainName(const std::string& name) {
  const auto plain = [](unsigned char c) {
    return c >= 0x80 || absl::ascii_isalnum(c) || c == '_' || c == '-';
  };
  return !name.empty() && std::all_of(name.begin(), name.end(), plain) && IsUtf8(name);
}

absl::Status CheckNamedLabels(const DatasetSpec& spec) {
  if (spec.labels().empty()) return absl::OkStatus();
  if (!FormatOf(spec).has_rows()) return Invalid("labels: a ", spec.format(), " has none");
  absl::flat_hash_set<std::string> seen;
  for (const proto::LabelSpec& label : spec.labels()) {
    // "label.weight" is that of the label without a name.
    if (!IsPlainName(label.name()) || label.name() == "weight") {
      return Invalid(
          "labels: wanted a name of ASCII letters, digits, '_' and '-' other than 'weight', ",
          "found ", Quoted(label.name()));
    }
    if (!seen.insert(label.name()).second) {
      return Invalid("two labels are named ", Quoted(label.name()));
    }
    if (label.column().empty() || !label.feature().empty()) {
      return Invalid("label ", Quoted(label.name()), ": wanted a column and no feature");
    }
    const absl::Status status = CheckRange(label);
    if (!status.ok()) return Annotate(status, absl::StrCat("label ", Quoted(label.name())));
  }
  return absl::OkStatus();
}

absl::Status CheckQuery(const DatasetSpec& spec) {
  if (spec.query().empty()) return absl::OkStatus();
  if (!FormatOf(spec).has_rows()) return Invalid("query: a ", spec.format(), " has no rows");
  if (!spec.split().by().empty() || !spec.split().holdout_per().empty()) {
    return Invalid("query: parts are drawn by query: wanted a split without by and holdout_per");
  }
  if (spec.has_known_items()) {
    return Invalid("query: wanted no known_items, which are of rows that are examples each");
  }
  return absl::OkStatus();
}

absl::Status CheckJoins(const DatasetSpec& spec) {
  for (const proto::JoinSpec& join : spec.joins()) {
    if (join.path().empty() || join.left_on().empty() || join.right_on().empty()) {
      return Invalid("join: wanted a path and the key's column on both sides, found ",
                     join.ShortDebugString());
    }
    if (join.csv().skip_lines() < 0) {
      return Invalid("join: ", join.path(), ": wanted skip_lines of at least 0");
    }
  }
  if (spec.joins_size() > 0 && !FormatOf(spec).has_rows()) {
    return Invalid("join: a ", spec.format(), " has no columns");
  }
  return absl::OkStatus();
}

absl::Status CheckSplitAtValues(const proto::SplitSpec& split) {
  if (split.by().empty()) {
    return Invalid("split: validation_from and test_from need by, the column of their values");
  }
  if (split.validation_fraction() > 0 || split.test_fraction() > 0 || split.holdout_last() ||
      !split.holdout_per().empty() || (split.has_test_from() && split.test_paths_size() > 0)) {
    return Invalid("split: wanted parts from values on (validation_from, test_from), or shares, ",
                   "groups or files; found both");
  }
  for (const double value : {split.validation_from(), split.test_from()}) {
    if (!std::isfinite(value)) return Invalid("split: wanted a finite value, found ", value);
  }
  if (split.has_validation_from() && split.has_test_from() &&
      split.validation_from() >= split.test_from()) {
    return Invalid("split: wanted a validation_from below test_from, found ",
                   split.validation_from(), " and ", split.test_from());
  }
  return absl::OkStatus();
}

absl::Status CheckSplit(const proto::SplitSpec& split) {
  const double validation = split.validation_fraction();
  const double test = split.test_fraction();
  // Written so that NaN fails.
  if (!(validation >= 0 && test >= 0 && validation + test < 1)) {
    return Invalid("split: wanted fractions of at least 0 and together below 1, found ", validation,
                   " for validation and ", test, " for test");
  }
  if (split.test_paths_size() > 0 && (test > 0 || !split.holdout_per().empty())) {
    return Invalid(
        "split: the test part is either in test_paths or drawn from the rows, found both");
  }
  if (test > 0 && !split.holdout_per().empty()) {
    return Invalid("split: wanted test_fraction or holdout_per, found both");
  }
  if (split.holdout_last() && (split.holdout_per().empty() || split.by().empty())) {
    return Invalid("split: holdout_last needs holdout_per, and by, which says what is last");
  }
  if (split.holdout_validation() && split.holdout_per().empty()) {
    return Invalid("split: holdout_validation needs holdout_per");
  }
  if (split.holdout_validation() && validation > 0) {
    return Invalid("split: wanted validation_fraction or holdout_validation, found both");
  }
  if (SplitsAtValues(split)) return CheckSplitAtValues(split);
  if (!split.by().empty() && !split.holdout_last() && !(validation > 0) && !(test > 0)) {
    return Invalid("split: by needs a fraction, a value or holdout_last: there is nothing to be ",
                   "last");
  }
  return absl::OkStatus();
}

// What needs all rows before the first one is trained on is not for files that are still to come.
absl::Status CheckFollowed(const DatasetSpec& spec) {
  if (!spec.followed() || !spec.learned().empty()) return absl::OkStatus();
  for (const FeatureSpec& feature : spec.features()) {
    if (FormatOf(spec).HasIndices(feature) && spec.libsvm_features() == 0) {
      return Invalid("dataset.feature_count: with dataset.follow the largest index is not known; ",
                     "wanted the number of indices");
    }
    if (feature.keep_names()) {
      return InvalidFeature(feature, "keep_names: with dataset.follow names would be of all rows, ",
                            "which are still to come; wanted false");
    }
    if (LearnsVocabulary(feature, spec)) {
      return InvalidFeature(feature, "dataset.follow: a vocabulary is learned from all rows; ",
                            "wanted id: hash or id: raw, hash_buckets, or a vocabulary that is ",
                            "given");
    }
    if (feature.normalization() == FeatureSpec::STANDARD ||
        feature.normalization() == FeatureSpec::MIN_MAX) {
      return InvalidFeature(feature, "normalization: with dataset.follow there is none that is ",
                            "measured on all rows; wanted none, log1p or divide");
    }
  }
  const proto::SplitSpec& split = spec.split();
  if (split.validation_fraction() > 0 || split.test_fraction() > 0 ||
      !split.holdout_per().empty() || !split.by().empty()) {
    return Invalid("split: with dataset.follow all rows that come are trained on; wanted ",
                   "split.test_path, files of their own, found a part that is drawn");
  }
  if (spec.per_worker()) {
    return Invalid("per_worker: with dataset.follow each row is for one worker");
  }
  return absl::OkStatus();
}

// A row is passed over as it was when the files were counted, wherever it is read again.
absl::Status CheckBadRows(const DatasetSpec& spec) {
  if (spec.max_bad_rows() == 0) return absl::OkStatus();
  if (spec.max_bad_rows() < 0 || spec.max_bad_rows() > kMostBadRows) {
    return Invalid("dataset.max_bad_rows: wanted 0 to ", kMostBadRows, ", found ",
                   spec.max_bad_rows());
  }
  if (!FormatOf(spec).passes_over_rows()) {
    return Invalid("dataset.max_bad_rows: wanted the format csv or criteo, found ", spec.format());
  }
  if (!spec.query().empty()) {
    return Invalid("dataset.max_bad_rows: with dataset.query a query would lack a row; wanted 0");
  }
  if (spec.followed()) {
    return Invalid("dataset.max_bad_rows: with dataset.follow nobody knows how many rows there ",
                   "will be; wanted 0");
  }
  return absl::OkStatus();
}

}  // namespace

std::string LabelColumnOf(const std::string& label) {
  return absl::StrCat(kLabelColumn, ".", label);
}
std::string WeightColumnOf(const std::string& label) {
  return absl::StrCat(kLabelColumn, ".", label, ".weight");
}

std::vector<NamedLabel> NamedLabels(const DatasetSpec& spec) {
  std::vector<NamedLabel> labels;
  for (const proto::LabelSpec& label : spec.labels()) {
    labels.push_back({LabelColumnOf(label.name()), &label, false});
    if (!label.weight().empty()) labels.push_back({WeightColumnOf(label.name()), &label, true});
  }
  return labels;
}

bool IsHistory(const FeatureSpec& feature) { return !feature.history_of().empty(); }

const FeatureSpec* FindHistory(const DatasetSpec& spec) {
  const auto found = std::find_if(spec.features().begin(), spec.features().end(), IsHistory);
  return found == spec.features().end() ? nullptr : &*found;
}

int64_t LastOfHistory(const DatasetSpec& spec) {
  const FeatureSpec* const history = FindHistory(spec);
  return history == nullptr || history->by().empty() ? 0 : history->max_values();
}

bool LearnsVocabulary(const FeatureSpec& feature, const DatasetSpec& spec) {
  if (IsHistory(feature) || feature.kind() != FeatureSpec::CATEGORICAL) return false;
  return !FormatOf(spec).HasIndices(feature) && feature.id().empty() &&
         feature.hash_buckets() == 0 && feature.vocabulary_size() == 0 &&
         feature.vocabulary_file().empty();
}

absl::StatusOr<DatasetSpec> CheckSpec(DatasetSpec spec) {
  const DataFormat* const format = FindDataFormat(spec.format());
  if (format == nullptr) {
    return Invalid("wanted the format ", FormatNames(), ", found ", Quoted(spec.format()));
  }
  if (spec.paths().empty() && !spec.followed()) {
    return Invalid("wanted at least one path, found none");
  }
  if (spec.libsvm_features() < 0 || spec.libsvm_features() > kMaxBuckets) {
    return Invalid("dataset.feature_count: wanted 0 to 2^48, found ", spec.libsvm_features());
  }
  FillDefaults(*format, &spec);
  RETURN_IF_ERROR(format->Check(spec));
  RETURN_IF_ERROR(CheckMadeFeatures(spec));
  RETURN_IF_ERROR(CheckFeatures(spec));
  RETURN_IF_ERROR(CheckKnownItems(spec));
  RETURN_IF_ERROR(CheckLabel(spec));
  RETURN_IF_ERROR(CheckNamedLabels(spec));
  RETURN_IF_ERROR(CheckQuery(spec));
  RETURN_IF_ERROR(CheckSplit(spec.split()));
  RETURN_IF_ERROR(CheckJoins(spec));
  RETURN_IF_ERROR(CheckLearned(spec));
  RETURN_IF_ERROR(CheckFollowed(spec));
  RETURN_IF_ERROR(CheckBadRows(spec));
  RETURN_IF_ERROR(CheckNegatives(spec));
  RETURN_IF_ERROR(CheckStreamOptions(spec.stream()));
  return spec;
}

}  // namespace coxswain::data
