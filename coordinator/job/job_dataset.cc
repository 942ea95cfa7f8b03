// dataset, features, split.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/job/job_format.h"
#include "coordinator/job/job_sections.h"
#include "coordinator/job/job_words.h"
#include "coordinator/job/join_keys.h"
#include "runtime/data/calendar.h"
#include "runtime/data/data_format.h"
#include "runtime/data/dates.h"
#include "runtime/data/names.h"
#include "runtime/data/number.h"
#include "runtime/data/spec_check.h"

namespace coxswain::job {
namespace {

using proto::FeatureSpec;

constexpr int64_t kMostColumns = 65536;  // of a vector

void CheckNames(const JobReader& reader, const std::string& path, const FeatureSpec& feature) {
  if (!feature.keep_names()) return;
  if (feature.id() == "raw") {
    reader.Error(path, "with id: raw a value is its own name; wanted hash_buckets or id: hash");
  } else if (feature.id().empty() && feature.hash_buckets() == 0) {
    reader.Error(path, "a vocabulary has the names already; wanted hash_buckets or id: hash");
  }
}

void ReadVocabulary(const JobReader& reader, const SectionView& view, const std::string& path,
                    FeatureSpec* feature) {
  if (view.String("id") != "vocabulary") {
    feature->set_id(view.String("id"));
    for (const char* key : {"hash_buckets", "vocabulary", "vocabulary_file", "min_count",
                            "max_size", "oov_buckets"}) {
      if (view.Given(key)) {
        reader.Error(absl::StrCat(path, ".", key),
                     absl::StrCat("with id: ", feature->id(), " there is no vocabulary"));
      }
    }
    return;
  }
  feature->set_hash_buckets(view.Int("hash_buckets"));
  for (const std::string& value : view.Strings("vocabulary")) feature->add_vocabulary(value);
  feature->set_vocabulary_file(view.String("vocabulary_file"));
  const bool hashed = view.Has("hash_buckets");
  const int sources = int{hashed} + int{view.Has("vocabulary")} + int{view.Has("vocabulary_file")};
  if (sources > 1) {
    reader.Error(path, "give one of hash_buckets, vocabulary and vocabulary_file");
  }
  for (const char* key : {"min_count", "max_size"}) {
    if (sources > 0 && view.Given(key)) {
      reader.Error(absl::StrCat(path, ".", key), "only a learned vocabulary has this");
    }
  }
  if (hashed && view.Given("oov_buckets")) {
    reader.Error(path + ".oov_buckets", "with hash_buckets no value is outside");
  }
  if (sources == 0) {
    feature->set_min_count(view.Int("min_count"));
    feature->set_max_size(view.Int("max_size"));
  }
  // Of several values, one that training never met is left out: nothing was learned of it. A
  // feature of one value has to have an id.
  const bool leaves_out = sources > 0 || feature->min_count() > 1 || feature->max_size() > 0 ||
                          !feature->multi_valued();
  const int64_t oov_buckets = view.Has("oov_buckets") ? view.Int("oov_buckets") : int{leaves_out};
  feature->set_oov_buckets(hashed ? 0 : oov_buckets);
  const std::set<std::string> distinct(feature->vocabulary().begin(), feature->vocabulary().end());
  if (static_cast<int>(distinct.size()) != feature->vocabulary_size()) {
    reader.Error(path + ".vocabulary", "a value is there twice");
  }
}

void ReadWeightSeparator(const JobReader& reader, const SectionView& view, const std::string& path,
                         FeatureSpec* feature) {
  if (!view.Has("weight_separator")) return;
  const std::string& separator = feature->weight_separator();
  const std::string& values = feature->value_separator();
  if (separator.empty() || separator.find_first_of("\r\n0123456789+-.") != std::string::npos) {
    reader.Error(path,
                 "wanted one or more characters, none of them in a number or the end of a line");
  } else if ((!values.empty() && separator.find(values) != std::string::npos) ||
             values.find(separator) != std::string::npos) {
    reader.Error(path, "wanted another one than value_separator");
  }
}

// "p{1..3}" becomes p1, p2, p3; other names stay. False: what is in braces is no range.
bool AddColumns(const std::string& name, FeatureSpec* feature) {
  const size_t open = name.find('{'), dots = name.find("..", open), close = name.find('}', open);
  if (open == std::string::npos || dots == std::string::npos || close == std::string::npos) {
    feature->add_columns(name);
    return true;
  }
  int64_t first = 0, last = 0;
  if (dots > close || !absl::SimpleAtoi(name.substr(open + 1, dots - open - 1), &first) ||
      !absl::SimpleAtoi(name.substr(dots + 2, close - dots - 2), &last) || first < 0 ||
      last < first || last - first >= kMostColumns) {
    return false;
  }
  for (int64_t i = first; i <= last; ++i) {
    feature->add_columns(absl::StrCat(name.substr(0, open), i, name.substr(close + 1)));
  }
  return feature->columns_size() <= kMostColumns;
}

void ReadVector(const JobReader& reader, const SectionView& view, const std::string& path,
                FeatureSpec* feature) {
  for (const std::string& name : view.Strings("columns")) {
    if (!AddColumns(name, feature)) {
      reader.Error(path + ".columns", absl::StrCat("wanted names and ranges such as p{0..63}, at "
                                                   "most ",
                                                   kMostColumns, ", found '", name, "'"));
      return;
    }
  }
  for (const std::string& column : feature->columns()) {
    CheckColumn(reader, path + ".columns", column);
  }
  if (feature->columns_size() > 0 && view.Has("column")) {
    reader.Error(path + ".columns", "give one of column and columns");
  }
  if (feature->width() == 0) feature->set_width(feature->columns_size());
  if (feature->width() == 0) {
    reader.Error(path, "a vector needs its width, or columns");
  } else if (feature->columns_size() > 0 && feature->columns_size() != feature->width()) {
    reader.Error(path + ".width", absl::StrCat("there are ", feature->columns_size(), " columns"));
  }
  // An empty list is an error unless the job says what stands for it; a 0 that was not given is +0.
  if (feature->columns_size() == 0 && view.Given("missing_value") &&
      feature->missing_value() == 0) {
    feature->set_missing_value(-0.0);
  }
  if (feature->normalization() == FeatureSpec::STANDARD ||
      feature->normalization() == FeatureSpec::MIN_MAX) {
    reader.Error(path + ".normalization", "of a vector it is none, log1p or divide");
  }
}

void ReadFeature(const JobReader& reader, const SectionView& view, const std::string& path,
                 FeatureSpec* feature) {
  const std::string kind = view.String("kind");
  reader.Read("features[]", view, feature);
  feature->set_kind(kind == "numeric"  ? FeatureSpec::NUMERIC
                    : kind == "vector" ? FeatureSpec::VECTOR
                                       : FeatureSpec::CATEGORICAL);
  FeatureSpec::Normalization normalization = FeatureSpec::NONE;
  FromWord(view.String("normalization"), &normalization);
  feature->set_normalization(normalization);
  if (normalization != FeatureSpec::DIVIDE) {
    if (view.Given("divisor")) {
      reader.Error(path + ".divisor", "only with `normalization: divide`");
    }
    feature->clear_divisor();
  }
  if (kind == "history") {
    feature->set_multi_valued(true);
    CheckColumn(reader, path + ".group_by", feature->group_by());
    if (!feature->by().empty()) CheckColumn(reader, path + ".by", feature->by());
    return;
  }
  if (kind == "crossed") {
    ReadVocabulary(reader, view, path, feature);
    CheckNames(reader, path + ".keep_names", *feature);
    if (feature->id() == "raw") {
      reader.Error(path + ".id", "a combination of values is no integer");
    }
    return;
  }
  feature->set_column(view.Has("column") ? view.String("column") : feature->name());
  if (kind == "vector") ReadVector(reader, view, path, feature);
  if (feature->columns_size() > 0) return;
  CheckColumn(reader, view.Has("column") ? path + ".column" : path + ".name", feature->column());
  if (kind == "bucketized") {
    for (int i = 1; i < feature->boundaries_size(); ++i) {
      if (feature->boundaries(i - 1) < feature->boundaries(i)) continue;
      reader.Error(path + ".boundaries", "wanted numbers that ascend");
      break;
    }
    if (feature->boundaries().empty()) reader.Error(path + ".boundaries", "wanted at least one");
    return;
  }
  if (kind == "calendar") {
    if (!feature->time_format().empty()) {
      if (view.Given("time_unit")) {
        reader.Error(path + ".time_unit", "only for numbers, and with time_format times are texts");
      }
      feature->clear_time_unit();
    }
    if (!data::IsTimeZone(feature->time_zone())) {
      reader.Error(path + ".time_zone",
                   absl::StrCat("wanted a zone that this machine knows, such as Europe/Berlin (the "
                                "package tzdata has them), found '",
                                feature->time_zone(), "'"));
    }
    return;
  }
  if (kind != "categorical") return;
  const bool separated = view.Has("value_separator");
  const bool words = view.String("tokens") == "words";
  if (words) feature->set_tokens("words");
  feature->set_multi_valued(view.Has("multi_valued") ? view.Bool("multi_valued")
                                                     : separated || words);
  ReadVocabulary(reader, view, path, feature);
  CheckNames(reader, path + ".keep_names", *feature);
  for (const char* key : {"value_separator", "weight_separator"}) {
    if (words && view.Has(key)) {
      reader.Error(absl::StrCat(path, ".", key), "with tokens: words it has no meaning");
    }
  }
  if (words && !feature->multi_valued()) {
    reader.Error(path + ".multi_valued", "with tokens: words there are several values");
  }
  if (separated && !feature->multi_valued()) {
    reader.Error(path + ".multi_valued", "with value_separator there are several values");
  }
  if (feature->multi_valued()) {
    if (separated) {
      CheckSeparator(reader, path + ".value_separator", feature->value_separator(), false);
    }
    ReadWeightSeparator(reader, view, path + ".weight_separator", feature);
    return;
  }
  for (const char* key : {"max_values", "combiner", "weight_separator"}) {
    if (view.Given(key)) {
      reader.Error(absl::StrCat(path, ".", key), "only for several values (value_separator)");
    }
  }
}

void CheckHistories(const JobReader& reader) {
  std::vector<std::string> categorical;
  for (const FeatureSpec& feature : reader.job->dataset.features()) {
    if (feature.kind() == FeatureSpec::CATEGORICAL && !feature.multi_valued()) {
      categorical.push_back(feature.name());
    }
  }
  int histories = 0;
  for (const FeatureSpec& feature : reader.job->dataset.features()) {
    if (feature.history_of().empty()) continue;
    if (++histories > 1) {
      reader.Error("features." + feature.name(), "a job can have one feature of kind history");
    }
    const std::string path = absl::StrCat("features.", feature.name(), ".history_of");
    const FeatureSpec* of = reader.job->FindFeature(feature.history_of());
    if (of == nullptr) {
      reader.Error(path, config::UnknownName("feature", feature.history_of(), categorical));
    } else if (of->kind() != FeatureSpec::CATEGORICAL || of->multi_valued()) {
      reader.Error(path, absl::StrCat("feature '", of->name(),
                                      "' is not a categorical one with a single value"));
    } else if (!of->id().empty()) {
      reader.Error(path, absl::StrCat("feature '", of->name(), "' has id: ", of->id(),
                                      ", and so no vocabulary"));
    }
  }
}

void CheckCrossed(const JobReader& reader) {
  std::vector<std::string> names;
  for (const FeatureSpec& feature : reader.job->dataset.features()) {
    const bool single = feature.kind() == FeatureSpec::CATEGORICAL && !feature.multi_valued();
    if (single && feature.crossed().empty()) names.push_back(feature.name());
  }
  for (const FeatureSpec& feature : reader.job->dataset.features()) {
    const std::string path = absl::StrCat("features.", feature.name(), ".features");
    std::set<std::string> seen;
    for (const std::string& member : feature.crossed()) {
      if (!seen.insert(member).second) {
        reader.Error(path, absl::StrCat("feature '", member, "' is there twice"));
      } else if (reader.job->FindFeature(member) == nullptr) {
        reader.Error(path, config::UnknownName("feature", member, names));
      } else if (std::find(names.begin(), names.end(), member) == names.end()) {
        reader.Error(path,
                     absl::StrCat("feature '", member, "' is not a categorical, bucketized or ",
                                  "calendar one with a single value"));
      }
    }
    if (feature.crossed_size() == 1) reader.Error(path, "wanted two features or more");
  }
}

// A feature to be read; one that the data has by itself is replaced by what the file says of it.
FeatureSpec* NewFeature(const JobReader& reader, const std::string& name) {
  proto::DatasetSpec* dataset = &reader.job->dataset;
  FeatureSpec* feature = nullptr;
  for (FeatureSpec& f : *dataset->mutable_features()) {
    if (f.name() == name) feature = &f;
  }
  if (feature == nullptr) feature = dataset->add_features();
  feature->Clear();
  feature->set_name(name);
  return feature;
}

// Parts from a number or a date on.
void ReadValues(const JobReader& reader, const SectionView& view, proto::SplitSpec* split) {
  const auto read = [&](const char* key) {
    double value = 0;
    const std::string text = view.String(key);
    if (!data::ParseNumber(text, &value) && !data::ParseDate(text, &value)) {
      reader.Error(absl::StrCat("split.", key),
                   absl::StrCat("wanted a number, or a date as in 2024-05-31 or "
                                "2024-05-31T12:30:00Z, found '",
                                text, "'"));
    }
    for (const char* other : {"validation", "test", "holdout_per", "holdout_last"}) {
      if (!view.Given(other)) continue;
      reader.Error(absl::StrCat("split.", key),
                   absl::StrCat("give parts from values on, or ", other));
      break;
    }
    if (!view.Has("by")) {
      reader.Error(absl::StrCat("split.", key), "wanted by, the column of numbers or dates");
    }
    return value;
  };
  if (view.Has("validation_from")) split->set_validation_from(read("validation_from"));
  if (view.Has("test_from")) split->set_test_from(read("test_from"));
  if (split->has_test_from() && view.Has("test_path")) {
    reader.Error("split.test_path", "give one of test_from and test_path");
  }
  if (split->has_validation_from() && split->has_test_from() &&
      split->validation_from() >= split->test_from()) {
    reader.Error("split.validation_from", "wanted one before test_from");
  }
}

// Parts that go by the order of rows.
void CheckOrder(const JobReader& reader, const SectionView& view, const proto::SplitSpec& split) {
  const bool last = split.holdout_last();
  if (last && !(view.Has("holdout_per") && view.Has("by"))) {
    reader.Error("split.holdout_last", "wanted holdout_per, and by, which says what is last");
  }
  if (!view.Has("by")) return;
  CheckColumn(reader, "split.by", split.by());
  if (!FormatOf(*reader.job).has_columns) {
    reader.Error("split.by",
                 absl::StrCat("a ", FormatOf(*reader.job).name, " data set has no columns"));
  }
  if (!last && split.validation_fraction() == 0 && split.test_fraction() == 0 &&
      !view.Has("validation_from") && !view.Has("test_from")) {
    reader.Error("split.by",
                 "give validation, test, validation_from, test_from or holdout_last: there is "
                 "nothing to be last");
  }
}

}  // namespace

void CheckSeparator(const JobReader& reader, const std::string& path, const std::string& separator,
                    bool quoting) {
  if (separator.empty() || separator.find_first_of("\r\n") != std::string::npos) {
    reader.Error(path, "wanted one or more characters, none of them the end of a line");
  } else if (quoting && separator.find('"') != std::string::npos) {
    reader.Error(path, "a separator with a quote needs quoting: false");
  }
}

void CheckColumn(const JobReader& reader, const std::string& path, const std::string& column) {
  const auto& columns = reader.job->dataset.csv().columns();
  if (reader.job->dataset.joins_size() > 0) return;  // the tables' are known when they are read
  if (columns.empty() || std::find(columns.begin(), columns.end(), column) != columns.end()) return;
  reader.Error(path, config::UnknownName("column", column, {columns.begin(), columns.end()}));
}

void CheckBadRows(const JobReader& reader) {
  const proto::DatasetSpec& dataset = reader.job->dataset;
  if (dataset.max_bad_rows() == 0) return;
  const auto wrong = [&](const std::string& what) { reader.Error("dataset.max_bad_rows", what); };
  if (!data::FormatOf(dataset).passes_over_rows()) {
    wrong(absl::StrCat("only with the formats csv and criteo, found ", dataset.format(),
                       "; wanted 0"));
  } else if (!dataset.query().empty()) {
    wrong("with dataset.query a query would lack a row; wanted 0");
  } else if (dataset.followed()) {
    wrong("with dataset.follow nobody knows how many rows there will be; wanted 0");
  }
}

void ReadDataset(const JobReader& reader) {
  const SectionView view = reader.file.Sub("dataset");
  proto::DatasetSpec* dataset = &reader.job->dataset;
  dataset->set_format(view.String("format"));  // what others look at, whatever else is wrong here
  if (!reader.Good("dataset")) return;
  ReadKeys(kFilesKeys, view, dataset);
  ReadKeys(kStreamKeys, view, dataset->mutable_stream());
  ReadKeys(kFollowKeys, view, &reader.job->follow);
  dataset->set_followed(reader.job->follow.enabled);
  if (reader.job->follow.enabled) dataset->set_follow_end(reader.job->follow.end);
  const std::string streaming = view.String(kStreamingKey);
  dataset->mutable_stream()->set_mode(streaming == "true"    ? proto::StreamOptions::ALWAYS
                                      : streaming == "false" ? proto::StreamOptions::NEVER
                                                             : proto::StreamOptions::AUTO);
  FormatOf(*reader.job).read(reader, view);
  ReadJoins(reader);
  CheckBadRows(reader);
  if (dataset->query().empty()) return;
  const JobFormat& format = FormatOf(*reader.job);
  if (format.query != nullptr && dataset->query() != format.query) {
    reader.Error("dataset.query",
                 absl::StrCat("of ", format.name, " it is ", format.query, ", what stands behind ",
                              format.query, ": in each line"));
  } else if (format.query == nullptr && !format.has_columns) {
    reader.Error("dataset.query",
                 absl::StrCat("a ", dataset->format(), " data set has no columns"));
  } else if (format.query == nullptr) {
    CheckColumn(reader, "dataset.query", dataset->query());
  }
}

bool ReadFeatures(const JobReader& reader) {
  if (!reader.Good("features") || !reader.Good("dataset.format")) return false;
  const JobFormat& format = FormatOf(*reader.job);
  if (format.read_features != nullptr) {
    format.read_features(reader);
    return reader.Good("features");
  }
  const std::vector<SectionView> views = reader.file.Sections("features");
  bool good = !format.needs_features || !views.empty();
  if (!good) {
    reader.Error("features", absl::StrCat("a ", format.name, " data set needs a list of features"));
  }
  std::set<std::string> names;
  for (size_t i = 0; i < views.size(); ++i) {
    const std::string name = views[i].String("name");
    const std::string path = absl::StrCat("features.", name);
    if (!IsName(name) || name == "label" || name == "known") {
      std::string wanted = absl::StrCat("wanted a name of ", kNameCharacters,
                                        " other than 'label' and 'known'; found '", name, "'");
      if (!views[i].Has("column")) {
        absl::StrAppend(&wanted,
                        "; a column may have any name: {name: NAME, column: ", data::Quoted(name),
                        "}");
      }
      reader.Error(name.find('.') == std::string::npos ? path : "features", wanted);
      good = false;
      continue;
    }
    if (!names.insert(name).second) {
      reader.Error(path, absl::StrCat("a second feature of the name '", name, "'"));
      good = false;
      continue;
    }
    FeatureSpec* feature = NewFeature(reader, name);
    ReadFeature(reader, views[i], path, feature);
  }
  if (good) CheckHistories(reader);
  if (good) CheckCrossed(reader);
  return good;
}

void ReadSplit(const JobReader& reader) {
  if (!reader.Good("split")) return;
  const SectionView view = reader.file.Sub("split");
  const JobFormat& format = FormatOf(*reader.job);
  proto::SplitSpec read;
  reader.Read("split", view, &read);
  if (!view.Has("holdout_per")) read.clear_holdout_min();
  if (!format.has_rows) {
    for (const char* key : {"test", "holdout_per", "holdout_min", "by", "validation_from",
                            "test_from", "holdout_last", "holdout_validation", "test_path"}) {
      if (!view.Given(key)) continue;
      reader.Error(absl::StrCat("split.", key),
                   absl::StrCat("of a ", format.name, " there is a validation part only"));
    }
    const double validation = read.validation_fraction();
    if (validation >= 1) reader.Error("split.validation", "leaves nothing to train on");
    if (validation > 0) {
      reader.job->dataset.mutable_split()->set_validation_fraction(validation);
    }
    return;
  }
  proto::SplitSpec* split = reader.job->dataset.mutable_split();
  *split = std::move(read);
  const double kept = split->validation_fraction() + split->test_fraction();
  if (kept >= 1) {
    reader.Error(
        view.Given("test") ? "split.test" : "split.validation",
        absl::StrCat("validation and test are ", kept, " of the rows and leave none for training"));
  }
  const bool test = split->test_fraction() > 0;
  if (int{test} + int{view.Has("holdout_per")} + int{view.Has("test_path")} > 1) {
    reader.Error(test ? "split.test" : "split.test_path",
                 "give one of test, holdout_per and test_path");
  }
  if (view.Has("holdout_per")) {
    CheckColumn(reader, "split.holdout_per", split->holdout_per());
    if (!format.has_columns) {
      reader.Error("split.holdout_per",
                   absl::StrCat("a ", format.name, " data set has no columns"));
    }
  } else if (view.Given("holdout_min")) {
    reader.Error("split.holdout_min", "only with holdout_per");
  }
  if (split->holdout_validation() && !view.Has("holdout_per")) {
    reader.Error("split.holdout_validation", "only with holdout_per");
  } else if (split->holdout_validation() && split->validation_fraction() > 0) {
    reader.Error("split.holdout_validation", "give one of validation and holdout_validation");
  }
  ReadValues(reader, view, split);
  CheckOrder(reader, view, *split);
}

}  // namespace coxswain::job
