// Vocabularies that are given; the reading of files; then the sinks of all columns of a spec.
#include "runtime/data/table.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/csv_rows.h"
#include "runtime/data/data_format.h"
#include "runtime/data/hash.h"
#include "runtime/data/learned.h"
#include "runtime/data/made_features.h"
#include "runtime/data/side_table.h"
#include "runtime/data/sinks.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/stream/stream_options.h"
#include "runtime/data/table_rows.h"
#include "runtime/data/text_rows.h"
#include "runtime/data/utf8.h"
#include "runtime/data/words.h"

namespace coxswain::data {
namespace {

using proto::DatasetSpec;
using proto::FeatureSpec;

// The keys of a side table, in the order of its file. SideTables has found each of them once.
absl::StatusOr<std::vector<std::string>> KeysOf(const proto::JoinSpec& join) {
  ASSIGN_OR_RETURN(const auto csv, OpenSideTable(join));
  ASSIGN_OR_RETURN(const int column, csv->FindColumn(join.right_on()));
  std::vector<std::string> keys;
  while (true) {
    ASSIGN_OR_RETURN(const bool found, csv->Next());
    if (!found) return keys;
    const absl::string_view key = csv->fields()[static_cast<size_t>(column)];
    if (!IsUtf8(key)) return csv->FieldError(column, "text in UTF-8");
    keys.emplace_back(key);
  }
}

// The vocabulary of a feature, if it does not depend on the files of the data set.
absl::StatusOr<std::shared_ptr<const Vocabulary>> GivenVocabulary(const DatasetSpec& spec,
                                                                  const FeatureSpec& feature,
                                                                  TableRows* rows) {
  const proto::LearnedFeature* learned = FindLearned(spec, feature.name());
  if (learned != nullptr && !learned->vocabulary_file().empty()) return LoadVocabulary(*learned);
  std::shared_ptr<const Vocabulary> unlisted = UnlistedVocabulary(feature);
  if (unlisted != nullptr) return unlisted;
  if (feature.vocabulary_size() > 0) {
    return Vocabulary::OfTexts({feature.vocabulary().begin(), feature.vocabulary().end()},
                               feature.oov_buckets());
  }
  if (feature.vocabulary_file().empty()) return nullptr;
  if (const proto::JoinSpec* const join = TableOfValues(feature, spec)) {
    ASSIGN_OR_RETURN(std::vector<std::string> keys, KeysOf(*join));
    if (MayReplaceTables(spec)) {  // else all of the table is content
      uint64_t hash = 0;
      for (const std::string& key : keys) hash = HashPair(hash, HashText(key));
      rows->AddContent(hash);
    }
    return Vocabulary::OfTexts(std::move(keys), feature.oov_buckets());
  }
  uint64_t hash = 0;
  ASSIGN_OR_RETURN(std::vector<std::string> texts,
                   ReadVocabularyFile(feature.vocabulary_file(), &hash));
  rows->AddContent(hash);
  return Vocabulary::OfTexts(std::move(texts), feature.oov_buckets());
}

// If data is always held in memory, side tables are not bounded.
int64_t MostSideBytes(const DatasetSpec& spec) {
  return spec.stream().mode() == proto::StreamOptions::NEVER ? std::numeric_limits<int64_t>::max()
                                                             : SizesOf(spec.stream()).memory;
}

// Rows to predict may be in another format than the data whose texts stand for missing values.
std::unique_ptr<FieldSink> WithMissingValues(const DatasetSpec& spec, const std::string& column,
                                             std::unique_ptr<FieldSink> sink) {
  const auto& missing = spec.csv().missing_values();
  if (missing.empty() || FormatOf(spec).tells_missing_values()) return sink;
  const bool in_lists =
      std::any_of(spec.features().begin(), spec.features().end(),
                  [&](const FeatureSpec& f) { return f.values_of_rows() && f.column() == column; });
  return NewMissingValuesSink({missing.begin(), missing.end()}, in_lists, std::move(sink));
}

class TableReader {
 public:
  explicit TableReader(const DatasetSpec& spec)
      : spec_(spec), format_(FormatOf(spec)), rows_(&table_, spec.trained().rows()) {}
  absl::StatusOr<Table> Read();

 private:
  absl::Status ReadFiles(const google::protobuf::RepeatedPtrField<std::string>& paths);

  const DatasetSpec& spec_;
  const DataFormat& format_;
  Table table_;
  TableRows rows_;
};

absl::Status TableReader::ReadFiles(const google::protobuf::RepeatedPtrField<std::string>& paths) {
  for (const std::string& path : paths) {
    table_.places.StartFile(path);
    RETURN_IF_ERROR(format_.Read(spec_, path, &rows_));
  }
  return absl::OkStatus();
}

absl::StatusOr<Table> TableReader::Read() {
  RETURN_IF_ERROR(BindColumns(spec_, {}, &table_, &rows_));
  if (spec_.max_bad_rows() > 0) {
    RETURN_IF_ERROR(rows_.PassOverBadRows(spec_, spec_.max_bad_rows()));
  }
  RETURN_IF_ERROR(ReadFiles(spec_.paths()));
  RETURN_IF_ERROR(rows_.CheckFound(spec_.paths(0)));
  table_.own_rows = table_.rows;
  table_.chain = rows_.chain();
  if (table_.rows == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(spec_.paths(0), ": wanted at least one row, found none"));
  }
  RETURN_IF_ERROR(ReadFiles(spec_.split().test_paths()));
  table_.bad_rows = rows_.bad_rows();
  return std::move(table_);
}

}  // namespace

const proto::JoinSpec* TableOfValues(const FeatureSpec& feature, const DatasetSpec& spec) {
  for (const proto::JoinSpec& join : spec.joins()) {
    if (join.path() == feature.vocabulary_file() && join.left_on() == feature.column()) {
      return &join;
    }
  }
  return nullptr;
}

absl::Status BindColumns(const DatasetSpec& spec, const KnownVocabularies& known, Table* table,
                         TableRows* rows) {
  const DataFormat& format = FormatOf(spec);
  if (spec.joins_size() > 0 && table->side_tables == nullptr) {
    ASSIGN_OR_RETURN(table->side_tables, SideTables::Read(spec, MostSideBytes(spec)));
  }
  if (table->side_tables != nullptr && !MayReplaceTables(spec)) {
    rows->AddContent(table->side_tables->content_hash());
  }
  const auto bind = [&](std::string column, std::unique_ptr<FieldSink> sink) {
    // The key of a side table may come from an earlier side table.
    while (table->side_tables != nullptr) {
      const int from = table->side_tables->Find(column);
      if (from < 0) break;
      rows->AddJoined(column, table->side_tables->table(from).spec().path());
      sink = NewJoinedSink(table->side_tables, from, column, std::move(sink));
      column = spec.joins(from).left_on();
    }
    sink = WithMissingValues(spec, column, std::move(sink));
    rows->Bind(column, format.Checked(column, std::move(sink)));
  };
  // Sized once: the sinks keep pointers into it.
  table->features.resize(static_cast<size_t>(spec.features_size()));
  for (size_t i = 0; i < table->features.size(); ++i) {
    const FeatureSpec& feature = spec.features(static_cast<int>(i));
    TableFeature* columns = &table->features[i];
    if (IsHistory(feature)) {
      if (!feature.group_by().empty()) table->keys[feature.group_by()];
      if (!feature.by().empty()) table->orders[feature.by()];
      continue;
    }
    if (format.HasIndices(feature)) {
      rows->BindIndices(&columns->lists);
      continue;
    }
    const bool known_ids = i < known.size() && known[i] != nullptr;
    if (known_ids) {
      columns->vocabulary = known[i];
    } else {
      ASSIGN_OR_RETURN(columns->vocabulary, GivenVocabulary(spec, feature, rows));
    }
    for (int c = 0; c < feature.columns_size(); ++c) {
      bind(feature.columns(c), NewElementSink(feature, c, columns));
    }
    if (feature.columns_size() > 0) continue;
    if (!known_ids && KeepsNames(spec, feature)) columns->hashes = std::move(columns->vocabulary);
    if (columns->vocabulary == nullptr &&
        (columns->hashes != nullptr || LearnsVocabulary(feature, spec))) {
      ASSIGN_OR_RETURN(const auto values, KnownValues(spec, feature.name()));
      for (const std::string& value : values) columns->texts.Intern(value);
      columns->known = columns->texts.size();
    }
    std::unique_ptr<FieldSink> sink =
        format.has_rows() ? NewFeatureSink(feature, columns) : NewWordSink(columns);
    if (HasFixedValues(feature)) sink = NewFixedValueSink(feature, std::move(sink));
    if (!feature.tokens().empty()) sink = NewWordsSink(std::move(sink));
    if (!IsCrossed(feature)) {
      bind(feature.column(), std::move(sink));
      continue;
    }
    for (auto& [column, part] : NewCrossedSinks(spec, feature, std::move(sink))) {
      bind(column, std::move(part));
    }
  }
  // The weight comes first: it says what the label may be.
  const auto bind_label = [&](const proto::LabelSpec& label, std::vector<float>* labels,
                              std::vector<float>* weights) {
    if (label.weight().empty()) weights = nullptr;
    if (weights != nullptr) bind(label.weight(), NewWeightSink(weights));
    if (!label.column().empty()) bind(label.column(), NewLabelSink(label, labels, weights));
  };
  bind_label(spec.label(), &table->labels, &table->weights);
  const std::vector<NamedLabel> named = NamedLabels(spec);
  table->named_labels.resize(named.size());
  for (size_t i = 0; i < named.size(); ++i) {
    if (named[i].is_weight) continue;
    std::vector<float>* const labels = &table->named_labels[i];
    bind_label(*named[i].spec, labels, named[i].spec->weight().empty() ? nullptr : labels + 1);
  }
  if (!spec.split().holdout_per().empty()) table->keys[spec.split().holdout_per()];
  if (!spec.split().by().empty()) table->orders[spec.split().by()];
  if (!spec.query().empty()) table->keys[spec.query()];
  if (spec.has_known_items()) table->keys[spec.known_items().group_by()];
  for (auto& [column, key] : table->keys) bind(column, NewKeySink(&key));
  for (auto& [column, values] : table->orders) bind(column, NewOrderSink(&values));
  return absl::OkStatus();
}

absl::StatusOr<Table> ReadTable(const DatasetSpec& spec) { return TableReader(spec).Read(); }

}  // namespace coxswain::data
