#include "runtime/data/table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/data_format.h"
#include "runtime/data/learned.h"
#include "runtime/data/sinks.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/table_rows.h"

namespace coxswain::data {
namespace {

using proto::DatasetSpec;
using proto::FeatureSpec;

class TableReader {
 public:
  explicit TableReader(const DatasetSpec& spec)
      : spec_(spec), format_(FormatOf(spec)), rows_(&table_, spec.trained().rows()) {}
  absl::StatusOr<Table> Read();

 private:
  absl::Status Bind();
  absl::Status BindFeature(int index);
  void BindColumn(const std::string& column, std::unique_ptr<FieldSink> sink) {
    rows_.Bind(column, format_.Checked(column, std::move(sink)));
  }
  absl::Status ReadFiles(const google::protobuf::RepeatedPtrField<std::string>& paths);

  const DatasetSpec& spec_;
  const DataFormat& format_;
  Table table_;
  TableRows rows_;
};

absl::Status TableReader::BindFeature(int index) {
  const FeatureSpec& feature = spec_.features(index);
  TableFeature* columns = &table_.features[static_cast<size_t>(index)];
  if (IsHistory(feature)) {
    table_.keys[feature.group_by()];
    return absl::OkStatus();
  }
  if (format_.HasIndices(feature)) {
    rows_.BindIndices(&columns->lists);
    return absl::OkStatus();
  }
  const proto::LearnedFeature* learned = FindLearned(spec_, feature.name());
  if (learned != nullptr && !learned->vocabulary_file().empty()) {
    ASSIGN_OR_RETURN(columns->vocabulary, LoadVocabulary(*learned));
  } else if (!feature.id().empty()) {
    columns->vocabulary = feature.id() == "raw" ? Vocabulary::OfIntegers() : Vocabulary::OfHashes();
  } else if (feature.hash_buckets() > 0) {
    columns->vocabulary = Vocabulary::OfBuckets(feature.hash_buckets());
  } else if (feature.vocabulary_size() > 0) {
    columns->vocabulary = Vocabulary::OfTexts(
        {feature.vocabulary().begin(), feature.vocabulary().end()}, feature.oov_buckets());
  } else if (!feature.vocabulary_file().empty()) {
    uint64_t hash = 0;
    ASSIGN_OR_RETURN(std::vector<std::string> texts,
                     ReadVocabularyFile(feature.vocabulary_file(), &hash));
    rows_.AddContent(hash);
    columns->vocabulary = Vocabulary::OfTexts(std::move(texts), feature.oov_buckets());
  }
  BindColumn(feature.column(), NewFeatureSink(feature, columns));
  return absl::OkStatus();
}

absl::Status TableReader::Bind() {
  // Sized once: the sinks keep pointers into it.
  table_.features.resize(static_cast<size_t>(spec_.features_size()));
  for (int i = 0; i < spec_.features_size(); ++i) RETURN_IF_ERROR(BindFeature(i));
  if (!spec_.label().column().empty()) {
    BindColumn(spec_.label().column(), NewLabelSink(spec_.label(), &table_.labels));
  }
  if (!spec_.split().holdout_per().empty()) table_.keys[spec_.split().holdout_per()];
  for (auto& [column, key] : table_.keys) BindColumn(column, NewKeySink(&key));
  return absl::OkStatus();
}

absl::Status TableReader::ReadFiles(const google::protobuf::RepeatedPtrField<std::string>& paths) {
  for (const std::string& path : paths) {
    table_.places.StartFile(path);
    RETURN_IF_ERROR(format_.Read(spec_, path, &rows_));
  }
  return absl::OkStatus();
}

absl::StatusOr<Table> TableReader::Read() {
  RETURN_IF_ERROR(Bind());
  RETURN_IF_ERROR(ReadFiles(spec_.paths()));
  table_.own_rows = table_.rows;
  table_.chain = rows_.chain();
  if (table_.rows == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(spec_.paths(0), ": wanted at least one row, found none"));
  }
  RETURN_IF_ERROR(ReadFiles(spec_.split().test_paths()));
  return std::move(table_);
}

}  // namespace

absl::StatusOr<Table> ReadTable(const DatasetSpec& spec) { return TableReader(spec).Read(); }

}  // namespace coxswain::data
