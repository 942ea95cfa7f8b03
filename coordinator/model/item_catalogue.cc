// The rows that are read: one for each item, of which the key is all that is given; then what the
// columns of a batch become by id; then the nodes that pick ids' values.
#include "coordinator/model/item_catalogue.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/job/model_features.h"
#include "coordinator/model/model_parts.h"
#include "runtime/base/status.h"
#include "runtime/data/names.h"
#include "runtime/data/row_reader.h"
#include "runtime/data/spec_check.h"
#include "runtime/graph/builder.h"

namespace coxswain::model {
namespace {

using data::Quoted;

constexpr int64_t kRowsAtOnce = 4096;

// Rows that have nothing but the item, in place of those of the data set.
proto::DatasetSpec SpecOfItems(const job::JobSpec& job) {
  proto::DatasetSpec spec = job.dataset;
  spec.set_format("csv");
  spec.clear_csv();
  spec.mutable_csv()->set_separator(",");
  spec.mutable_csv()->set_header(true);
  spec.mutable_csv()->set_quoting(true);
  auto* const features = spec.mutable_features();
  features->erase(std::remove_if(features->begin(), features->end(), data::IsHistory),
                  features->end());
  spec.clear_label();
  spec.clear_labels();
  spec.clear_query();
  spec.clear_split();
  spec.clear_learned();  // the data set has them
  spec.clear_known();
  spec.clear_trained();
  spec.clear_known_items();
  spec.clear_example_ids();
  return spec;
}

// The values of all items, which come block by block.
struct Lists {
  std::vector<int64_t> values;
  std::vector<int32_t> offsets = {0};
  std::vector<float> weights, numbers;
  int64_t width = 0;  // of numbers; 0 of other features

  // Of a batch, whose values have been added or are not yet.
  absl::Status AddOffsets(absl::Span<const int32_t> batch) {
    const int64_t before = offsets.back();
    for (size_t i = 1; i < batch.size(); ++i) {
      RETURN_IF_ERROR(AddEnd(before + batch[i]));
    }
    return absl::OkStatus();
  }
  absl::Status AddSingle(absl::Span<const int64_t> batch) {
    for (const int64_t id : batch) {
      values.push_back(id);
      RETURN_IF_ERROR(AddEnd(static_cast<int64_t>(values.size())));
    }
    return absl::OkStatus();
  }
  absl::Status AddEnd(int64_t end) {
    if (end > std::numeric_limits<int32_t>::max()) {
      return absl::ResourceExhaustedError("items have 2^31 values of a feature or more");
    }
    offsets.push_back(static_cast<int32_t>(end));
    return absl::OkStatus();
  }
  int64_t bytes() const {
    return static_cast<int64_t>(values.size() * sizeof(int64_t) + offsets.size() * sizeof(int32_t) +
                                (weights.size() + numbers.size()) * sizeof(float));
  }
};

// The feature that a column of a batch is of, and which part of it: "" of a single value.
std::pair<std::string, std::string> NameOf(const std::string& column) {
  const size_t dot = column.rfind('.');
  if (dot == std::string::npos) return {column, ""};
  return {column.substr(0, dot), column.substr(dot + 1)};
}

template <typename T>
void Append(absl::Span<const T> from, std::vector<T>* to) {
  to->insert(to->end(), from.begin(), from.end());
}

class CatalogueReader {
 public:
  CatalogueReader(const job::JobSpec& job, const data::Dataset& data, std::string item)
      : job_(job), data_(data), item_(std::move(item)) {}

  absl::StatusOr<std::map<std::string, Lists>> Read(const std::vector<std::string>& features,
                                                    int64_t most_bytes);

 private:
  absl::StatusOr<data::RowReader> Open(const std::vector<std::string>& features) const;
  absl::Status Add(const data::RowReader& reader, const data::Batch& batch);
  // That what is there takes no more, and these ids without values neither.
  absl::Status CheckBytes(int64_t items, int64_t without, int64_t most_bytes) const;
  void AddUnknown(int64_t ids);

  const job::JobSpec& job_;
  const data::Dataset& data_;
  const std::string item_;
  std::map<std::string, Lists> lists_;
};

absl::StatusOr<data::RowReader> CatalogueReader::Open(
    const std::vector<std::string>& features) const {
  std::vector<std::string> columns;
  for (const std::string& name : features) {
    columns.push_back(name);
    columns.push_back(absl::StrCat(name, ".values"));
  }
  ASSIGN_OR_RETURN(data::RowReader reader,
                   data::RowReader::Create(SpecOfItems(job_), data_, columns));
  const std::string& key = job_.FindFeature(item_)->column();
  for (const data::RowReader::Input& input : reader.inputs()) {
    if (input.column == key) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        job_.Where("model.item.features"), ": model.item.features: wanted columns of tables that ",
        "are joined by the item (dataset.join, on: ", key, "), found the column ",
        Quoted(input.column), ", which only rows have"));
  }
  return reader;
}

absl::Status CatalogueReader::Add(const data::RowReader& reader, const data::Batch& batch) {
  const auto& columns = reader.columns();
  if (batch.size() != columns.size()) return absl::InternalError("a batch of other columns");
  for (size_t c = 0; c < columns.size(); ++c) {
    // "genres", or "genres.values"
    const auto [feature, part] = NameOf(columns[c].name);
    const auto of = lists_.find(feature);
    if (of == lists_.end()) continue;  // what a crossed feature is made of
    Lists& list = of->second;
    if (part == "values") {
      Append(batch[c].values<int64_t>(), &list.values);
    } else if (part == "weights") {
      Append(batch[c].values<float>(), &list.weights);
    } else if (part == "offsets") {
      RETURN_IF_ERROR(list.AddOffsets(batch[c].values<int32_t>()));
    } else if (batch[c].dtype() == DType::kF32) {
      Append(batch[c].values<float>(), &list.numbers);
    } else {
      RETURN_IF_ERROR(list.AddSingle(batch[c].values<int64_t>()));
    }
  }
  return absl::OkStatus();
}

absl::Status CatalogueReader::CheckBytes(int64_t items, int64_t without, int64_t most_bytes) const {
  int64_t bytes = 0, of_each = 1;
  for (const auto& [name, list] : lists_) {
    bytes += list.bytes();
    of_each += std::max<int64_t>(1, list.width) * static_cast<int64_t>(sizeof(float));
  }
  // Buckets may be so many that their product with anything is no number any more.
  if (bytes <= most_bytes && without <= (most_bytes - bytes) / of_each) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(job_.Where("model.item.features"), ": model.item.features: the values of ",
                   items, " items ", "and ", without, " buckets of unknown ones take more than ",
                   most_bytes >> 20, " MiB, and each function of the model holds ",
                   "them; wanted fewer items, or fewer values of each (max_values)"));
}

// Ids that stand for no item: the buckets of unknown values.
void CatalogueReader::AddUnknown(int64_t ids) {
  for (auto& [name, list] : lists_) {
    if (list.width > 0) {
      list.numbers.resize(list.numbers.size() + static_cast<size_t>(ids * list.width), 0.0f);
    } else {
      list.offsets.resize(list.offsets.size() + static_cast<size_t>(ids), list.offsets.back());
    }
  }
}

absl::StatusOr<std::map<std::string, Lists>> CatalogueReader::Read(
    const std::vector<std::string>& features, int64_t most_bytes) {
  const auto vocabulary = data_.shared_vocabulary(item_);
  if (vocabulary == nullptr || vocabulary->texts() == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("feature ", Quoted(item_), " has no vocabulary, and so no list of items"));
  }
  for (const std::string& name : features) {
    lists_[name].width = job::IsNumeric(job_, name) ? job::NumberWidth(job_, name) : 0;
  }
  ASSIGN_OR_RETURN(const data::RowReader reader, Open(features));
  const std::vector<std::string>& names = *vocabulary->texts();
  const std::vector<std::string> columns = {job_.FindFeature(item_)->column()};
  const auto count = static_cast<int64_t>(names.size());
  for (int64_t begin = 0; begin < count; begin += kRowsAtOnce) {
    const int64_t end = std::min(count, begin + kRowsAtOnce);
    std::vector<data::RowReader::Cells> rows;
    for (int64_t id = begin; id < end; ++id) rows.push_back({names[static_cast<size_t>(id)]});
    auto read = reader.ReadCells(columns, rows);
    if (!read.ok()) {
      return Annotate(read.status(), absl::StrCat("the items from id ", begin, ", ",
                                                  Quoted(names[static_cast<size_t>(begin)])));
    }
    ASSIGN_OR_RETURN(const data::Batch batch, read->Read(0, end - begin));
    RETURN_IF_ERROR(Add(reader, batch));
    RETURN_IF_ERROR(CheckBytes(end, 0, most_bytes));
  }
  const int64_t unknown = data_.vocabulary_size(item_) - count;
  RETURN_IF_ERROR(CheckBytes(count, unknown, most_bytes));
  AddUnknown(unknown);
  return std::move(lists_);
}

}  // namespace

absl::StatusOr<ItemCatalogue> ItemCatalogue::Read(const job::JobSpec& job,
                                                  const data::Dataset& data,
                                                  const std::string& item,
                                                  const std::vector<std::string>& features,
                                                  int64_t most_bytes) {
  ASSIGN_OR_RETURN(const auto all, CatalogueReader(job, data, item).Read(features, most_bytes));
  ItemCatalogue catalogue;
  for (const auto& [name, list] : all) {
    Values& values = catalogue.features_[name];
    if (list.width > 0) {
      const auto ids = static_cast<int64_t>(list.numbers.size()) / list.width;
      ASSIGN_OR_RETURN(values.numbers,
                       Tensor::FromVector<float>(list.numbers, Shape{ids, list.width}));
      continue;
    }
    values.values = Tensor::FromVector<int64_t>(list.values);
    values.offsets = Tensor::FromVector<int32_t>(list.offsets);
    if (!list.weights.empty()) values.weights = Tensor::FromVector<float>(list.weights);
  }
  return catalogue;
}

const ItemCatalogue::Values* ItemCatalogue::Find(const std::string& feature) const {
  const auto found = features_.find(feature);
  return found == features_.end() ? nullptr : &found->second;
}

std::vector<Output> ItemCatalogue::Vectors(FunctionBuilder& f, const ModelParts& parts,
                                           const std::string& feature,
                                           absl::Span<const Output> lists) const {
  const Values* const of = Find(feature);
  const proto::FeatureSpec* const spec = parts.job().FindFeature(feature);
  if (of == nullptr || spec == nullptr) {
    f.Fail(absl::InternalError(absl::StrCat("nothing is known of feature ", Quoted(feature))));
    return std::vector<Output>(lists.size());
  }
  std::vector<Output> vectors;
  if (of->numbers.dtype() == DType::kF32) {
    const Output numbers = f.Constant(of->numbers);
    for (const Output& ids : lists) {
      vectors.push_back(ids.valid() ? f.Gather(numbers, ids) : numbers);
    }
    return vectors;
  }
  const bool weighted = of->weights.dtype() == DType::kF32;
  const ModelParts::FeatureInput all = {f.Constant(of->values), f.Constant(of->offsets),
                                        weighted ? f.Constant(of->weights) : Output{}};
  for (const Output& ids : lists) {
    ModelParts::FeatureInput some = all;
    if (ids.valid()) {
      const std::vector<Output> picked = f.graph().OpN("PickBags", {all.offsets, ids}, {}, 2);
      some.values = f.Gather(all.values, picked[0]);
      some.offsets = picked[1];
      if (weighted) some.weights = f.Gather(all.weights, picked[0]);
    }
    vectors.push_back(parts.Embed(f, feature, *spec, some));
  }
  return vectors;
}

}  // namespace coxswain::model
