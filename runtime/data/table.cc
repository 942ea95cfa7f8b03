#include "runtime/data/table.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/criteo.h"
#include "runtime/data/csv_reader.h"
#include "runtime/data/hash.h"
#include "runtime/data/learned.h"
#include "runtime/data/libsvm_reader.h"
#include "runtime/data/names.h"
#include "runtime/data/sinks.h"
#include "runtime/data/spec_check.h"

namespace coxswain {
namespace {

using proto::DatasetSpec;
using proto::FeatureSpec;

constexpr int64_t kMaxRows = std::numeric_limits<uint32_t>::max() - 1;

struct Binding {
  std::string column;
  std::unique_ptr<FieldSink> sink;
};

class TableReader {
 public:
  explicit TableReader(const DatasetSpec& spec) : spec_(spec), chain_(spec.trained().rows()) {}
  absl::StatusOr<Table> Read();

 private:
  absl::Status Bind();
  absl::Status BindFeature(int index);
  absl::StatusOr<std::vector<int>> ColumnsToChain(const CsvReader& reader) const;
  absl::Status ReadFiles(const google::protobuf::RepeatedPtrField<std::string>& paths);
  absl::Status ReadCsv(const std::string& path);
  absl::Status ReadLibsvm(const std::string& path);
  void ChainExample(const LibsvmReader& example);
  absl::Status AddRow(const std::string& path, int64_t line);
  void AddContent(uint64_t hash) { table_.content_hash = HashPair(table_.content_hash, hash); }

  const DatasetSpec& spec_;
  Table table_;
  RowChain chain_;
  std::vector<Binding> bindings_;
  std::vector<RaggedIds*> libsvm_lists_;
};

absl::Status TableReader::BindFeature(int index) {
  const FeatureSpec& feature = spec_.features(index);
  TableFeature* columns = &table_.features[static_cast<size_t>(index)];
  if (IsHistory(feature)) {
    table_.keys[feature.group_by()];
    return absl::OkStatus();
  }
  if (spec_.format() == "libsvm" && feature.column() == kLibsvmFeatures) {
    libsvm_lists_.push_back(&columns->lists);
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
    AddContent(hash);
    columns->vocabulary = Vocabulary::OfTexts(std::move(texts), feature.oov_buckets());
  }
  bindings_.push_back({feature.column(), NewFeatureSink(feature, columns)});
  return absl::OkStatus();
}

absl::Status TableReader::Bind() {
  // Sized once: the sinks keep pointers into it.
  table_.features.resize(static_cast<size_t>(spec_.features_size()));
  for (int i = 0; i < spec_.features_size(); ++i) RETURN_IF_ERROR(BindFeature(i));
  if (!spec_.label().column().empty()) {
    bindings_.push_back({spec_.label().column(), NewLabelSink(spec_.label(), &table_.labels)});
  }
  if (!spec_.split().holdout_per().empty()) table_.keys[spec_.split().holdout_per()];
  for (auto& [column, key] : table_.keys) bindings_.push_back({column, NewKeySink(&key)});
  if (spec_.format() == kCriteoFormat) {
    for (Binding& binding : bindings_) {
      binding.sink = CheckedCriteoSink(binding.column, std::move(binding.sink));
    }
  }
  return absl::OkStatus();
}

absl::Status TableReader::AddRow(const std::string& path, int64_t line) {
  table_.places.AddRow(line);
  chain_.EndRow();
  if (++table_.rows <= kMaxRows) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(path, ": wanted at most ", kMaxRows, " rows in a data set, found more"));
}

// By name: the order of a job's features and of a file's columns does not matter, nor do columns
// that the job does not read.
absl::StatusOr<std::vector<int>> TableReader::ColumnsToChain(const CsvReader& reader) const {
  std::set<std::string> names;
  for (const Binding& binding : bindings_) names.insert(binding.column);
  std::vector<int> columns;
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const int column, reader.FindColumn(name));
    columns.push_back(column);
  }
  return columns;
}

absl::Status TableReader::ReadCsv(const std::string& path) {
  CsvFormat format;
  format.separator = spec_.csv().separator();
  format.header = spec_.csv().header();
  format.columns = {spec_.csv().columns().begin(), spec_.csv().columns().end()};
  format.quoting = spec_.csv().quoting();
  ASSIGN_OR_RETURN(std::unique_ptr<CsvReader> reader, CsvReader::Open(path, std::move(format)));
  std::vector<std::pair<int, FieldSink*>> sinks;
  for (const Binding& binding : bindings_) {
    ASSIGN_OR_RETURN(const int column, reader->FindColumn(binding.column));
    sinks.emplace_back(column, binding.sink.get());
  }
  ASSIGN_OR_RETURN(const std::vector<int> chained, ColumnsToChain(*reader));
  while (true) {
    ASSIGN_OR_RETURN(const bool found, reader->Next());
    if (!found) break;
    const absl::Span<const absl::string_view> fields = reader->fields();
    for (const auto& [column, sink] : sinks) {
      if (!sink->Append(fields[static_cast<size_t>(column)])) {
        return reader->FieldError(column, sink->Wanted());
      }
    }
    for (const int column : chained) chain_.Add(fields[static_cast<size_t>(column)]);
    RETURN_IF_ERROR(AddRow(path, reader->line()));
  }
  AddContent(reader->content_hash());
  return absl::OkStatus();
}

void TableReader::ChainExample(const LibsvmReader& example) {
  chain_.Add(example.label());
  chain_.AddNumber(example.ids().size());
  for (size_t i = 0; i < example.ids().size(); ++i) {
    uint32_t weight = 0;
    std::memcpy(&weight, &example.weights()[i], sizeof(weight));
    chain_.AddNumber(static_cast<uint64_t>(example.ids()[i]));
    chain_.AddNumber(weight);
  }
}

absl::Status TableReader::ReadLibsvm(const std::string& path) {
  for (const Binding& binding : bindings_) {
    if (binding.column == kLibsvmLabel) continue;
    return absl::NotFoundError(absl::StrCat(
        path, ": wanted a column ", Quoted(binding.column), ", found none of that name; ",
        Alternatives(binding.column, {kLibsvmLabel, kLibsvmFeatures})));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<LibsvmReader> reader,
                   LibsvmReader::Open(path, {spec_.libsvm_features(), spec_.zero_based()}));
  while (true) {
    ASSIGN_OR_RETURN(const bool found, reader->Next());
    if (!found) break;
    for (const Binding& binding : bindings_) {
      if (!binding.sink->Append(reader->label())) {
        return reader->LabelError(binding.sink->Wanted());
      }
    }
    for (RaggedIds* lists : libsvm_lists_) {
      for (const int64_t id : reader->ids()) lists->ids.push_back(id);
      lists->weights.insert(lists->weights.end(), reader->weights().begin(),
                            reader->weights().end());
      lists->offsets.push_back(static_cast<int64_t>(lists->ids.size()));
    }
    ChainExample(*reader);
    RETURN_IF_ERROR(AddRow(path, reader->line()));
  }
  AddContent(reader->content_hash());
  return absl::OkStatus();
}

absl::Status TableReader::ReadFiles(const google::protobuf::RepeatedPtrField<std::string>& paths) {
  for (const std::string& path : paths) {
    table_.places.StartFile(path);
    RETURN_IF_ERROR(spec_.format() == "libsvm" ? ReadLibsvm(path) : ReadCsv(path));
  }
  return absl::OkStatus();
}

absl::StatusOr<Table> TableReader::Read() {
  RETURN_IF_ERROR(Bind());
  RETURN_IF_ERROR(ReadFiles(spec_.paths()));
  table_.own_rows = table_.rows;
  table_.chain = chain_;
  if (table_.rows == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(spec_.paths(0), ": wanted at least one row, found none"));
  }
  RETURN_IF_ERROR(ReadFiles(spec_.split().test_paths()));
  return std::move(table_);
}

}  // namespace

absl::StatusOr<Table> ReadTable(const DatasetSpec& spec) { return TableReader(spec).Read(); }

}  // namespace coxswain
