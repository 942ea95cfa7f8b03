#include <utility>

#include "coxswain/dataset.h"
#include "runtime/data/dataset_options.h"

namespace coxswain {

DatasetBuilder::DatasetBuilder(const proto::DatasetSpec& spec)
    : options_(std::make_unique<data::DatasetOptions>()) {
  options_->spec = spec;
}
DatasetBuilder::DatasetBuilder(const DatasetBuilder& other)
    : options_(std::make_unique<data::DatasetOptions>(*other.options_)) {}
// A moved-from builder is an empty description: using it is an error that there are no files.
DatasetBuilder::DatasetBuilder(DatasetBuilder&& other) noexcept
    : options_(std::exchange(other.options_, std::make_unique<data::DatasetOptions>())) {}
DatasetBuilder& DatasetBuilder::operator=(DatasetBuilder other) noexcept {
  options_.swap(other.options_);
  return *this;
}
DatasetBuilder::~DatasetBuilder() = default;

proto::FeatureSpec* DatasetBuilder::AddFeature(const std::string& column) {
  proto::FeatureSpec* feature = options_->spec.add_features();
  feature->set_name(column);
  feature->set_column(column);
  return feature;
}

DatasetBuilder& DatasetBuilder::Numeric(const std::string& column) {
  AddFeature(column)->set_kind(proto::FeatureSpec::NUMERIC);
  return *this;
}

DatasetBuilder& DatasetBuilder::Categorical(const std::string& column) {
  return Add({.name = column, .oov_buckets = 1});
}

DatasetBuilder& DatasetBuilder::Hashed(const std::string& column, int64_t buckets) {
  return Add({.name = column, .hash_buckets = buckets});
}

DatasetBuilder& DatasetBuilder::Ids(const std::string& column) {
  return Add({.name = column, .id = "raw"});
}

DatasetBuilder& DatasetBuilder::HashedIds(const std::string& column) {
  return Add({.name = column, .id = "hash"});
}

DatasetBuilder& DatasetBuilder::Add(const Feature& feature) {
  proto::FeatureSpec* spec = AddFeature(feature.name);
  if (!feature.column.empty()) spec->set_column(feature.column);
  spec->set_kind(feature.kind == Feature::Kind::kNumeric ? proto::FeatureSpec::NUMERIC
                                                         : proto::FeatureSpec::CATEGORICAL);
  switch (feature.normalization) {
    case Feature::Normalization::kNone:
      break;
    case Feature::Normalization::kStandard:
      spec->set_normalization(proto::FeatureSpec::STANDARD);
      break;
    case Feature::Normalization::kMinMax:
      spec->set_normalization(proto::FeatureSpec::MIN_MAX);
      break;
    case Feature::Normalization::kLog1p:
      spec->set_normalization(proto::FeatureSpec::LOG1P);
      break;
  }
  spec->set_missing_value(feature.missing_value);
  spec->set_hash_buckets(feature.hash_buckets);
  spec->set_id(feature.id);
  spec->set_keep_names(feature.keep_names);
  for (const std::string& value : feature.vocabulary) spec->add_vocabulary(value);
  spec->set_vocabulary_file(feature.vocabulary_file);
  spec->set_min_count(feature.min_count);
  spec->set_max_size(feature.max_size);
  spec->set_oov_buckets(feature.oov_buckets);
  spec->set_multi_valued(feature.multi_valued);
  spec->set_value_separator(feature.value_separator);
  spec->set_weight_separator(feature.weight_separator);
  spec->set_tokens(feature.tokens);
  if (!feature.tokens.empty()) spec->set_multi_valued(true);
  spec->set_max_values(feature.max_values);
  spec->set_history_of(feature.history_of);
  spec->set_group_by(feature.group_by);
  return *this;
}

DatasetBuilder& DatasetBuilder::Label(const std::string& column, const std::string& name) {
  proto::DatasetSpec& spec = options_->spec;
  proto::LabelSpec* const label = name.empty() ? spec.mutable_label() : spec.add_labels();
  label->set_column(column);
  label->set_name(name);
  return *this;
}

DatasetBuilder& DatasetBuilder::LabelIfAny(const std::string& column, const std::string& name,
                                           const std::vector<std::string>& values,
                                           const std::string& separator) {
  proto::LabelSpec* const label = options_->spec.add_labels();
  label->set_column(column);
  label->set_name(name);
  label->mutable_positive_values()->Add(values.begin(), values.end());
  label->set_value_separator(separator);
  return *this;
}

DatasetBuilder& DatasetBuilder::Vector(const std::string& column, int64_t width) {
  proto::FeatureSpec* const feature = AddFeature(column);
  feature->set_kind(proto::FeatureSpec::VECTOR);
  feature->set_width(width);
  return *this;
}

DatasetBuilder& DatasetBuilder::Weight(const std::string& column) {
  options_->spec.mutable_label()->set_weight(column);
  return *this;
}

DatasetBuilder& DatasetBuilder::File(const std::string& path) {
  options_->spec.add_paths(path);
  return *this;
}

DatasetBuilder& DatasetBuilder::Split(double validation, double test) {
  options_->spec.mutable_split()->set_validation_fraction(validation);
  options_->spec.mutable_split()->set_test_fraction(test);
  return *this;
}

DatasetBuilder& DatasetBuilder::TestFile(const std::string& path) {
  options_->spec.mutable_split()->add_test_paths(path);
  return *this;
}

DatasetBuilder& DatasetBuilder::Streamed(int64_t memory_bytes) {
  options_->spec.mutable_stream()->set_mode(proto::StreamOptions::ALWAYS);
  options_->spec.mutable_stream()->set_memory(memory_bytes);
  return *this;
}

DatasetBuilder& DatasetBuilder::Shuffle(uint64_t seed) {
  options_->spec.set_shuffle(true);
  options_->spec.set_seed(seed);
  return *this;
}

DatasetBuilder& DatasetBuilder::PerWorker() {
  options_->spec.set_per_worker(true);
  return *this;
}

DatasetBuilder& DatasetBuilder::Batch(int64_t size) {
  options_->batch_size = size;
  return *this;
}

DatasetBuilder& DatasetBuilder::DropRemainder() {
  options_->drop_remainder = true;
  return *this;
}

DatasetBuilder& DatasetBuilder::Epochs(int64_t epochs) {
  options_->epochs = epochs;
  return *this;
}

namespace {

proto::DatasetSpec OfFormat(const char* format, const std::string& path) {
  proto::DatasetSpec spec;
  spec.set_format(format);
  spec.add_paths(path);
  return spec;
}

}  // namespace

DatasetBuilder JsonLines(const std::string& path) {
  return DatasetBuilder(OfFormat("jsonl", path));
}
DatasetBuilder TfRecords(const std::string& path) {
  return DatasetBuilder(OfFormat("tfrecord", path));
}
DatasetBuilder Parquet(const std::string& path) {
  return DatasetBuilder(OfFormat("parquet", path));
}

DatasetBuilder Csv(const std::string& path) {
  proto::DatasetSpec spec = OfFormat("csv", path);
  spec.mutable_csv()->set_separator(",");
  spec.mutable_csv()->set_header(true);
  spec.mutable_csv()->set_quoting(true);
  return DatasetBuilder(spec);
}

}  // namespace coxswain
