// libsvm: lines of a label and of pairs of an index and a weight, which are one feature.
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/formats/format_list.h"
#include "runtime/data/libsvm_reader.h"
#include "runtime/data/names.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/table_rows.h"

namespace coxswain::data {
namespace {

using proto::DatasetSpec;
using proto::FeatureSpec;

bool HasQuery(const DatasetSpec& spec) { return !spec.query().empty(); }

void ChainExample(const LibsvmReader& example, bool query, RowChain* chain) {
  chain->Add(example.label());
  if (query) chain->Add(example.query());
  chain->AddNumber(example.ids().size());
  for (size_t i = 0; i < example.ids().size(); ++i) {
    uint32_t weight = 0;
    std::memcpy(&weight, &example.weights()[i], sizeof(weight));
    chain->AddNumber(static_cast<uint64_t>(example.ids()[i]));
    chain->AddNumber(weight);
  }
}

absl::Status ReadExamples(LibsvmReader* reader, bool query, TableRows* rows) {
  RETURN_IF_ERROR(rows->StartFile(reader->input(), {}, reader->line() + 1));
  while (true) {
    ASSIGN_OR_RETURN(const bool found, reader->Next());
    if (!found) return rows->EndFile(reader->input());
    for (const TableRows::Binding& binding : rows->bindings()) {
      const bool names_query = query && binding.column == kLibsvmQuery;
      if (!binding.sink->Append(names_query ? reader->query() : reader->label())) {
        return reader->LabelError(binding.sink->Wanted());
      }
    }
    for (RaggedIds* lists : rows->index_lists()) {
      for (const int64_t id : reader->ids()) lists->ids.push_back(id);
      lists->weights.insert(lists->weights.end(), reader->weights().begin(),
                            reader->weights().end());
      lists->offsets.push_back(static_cast<int64_t>(lists->ids.size()));
    }
    if (rows->chained()) ChainExample(*reader, query, &rows->chain());
    RETURN_IF_ERROR(rows->EndRow(reader->input(), reader->line(), reader->line() + 1));
  }
}

class Libsvm final : public DataFormat {
 public:
  const char* name() const override { return "libsvm"; }
  bool names_columns() const override { return false; }
  bool has_labels() const override { return true; }

  void FillDefaults(DatasetSpec* spec) const override {
    bool takes_features = false;
    for (FeatureSpec& feature : *spec->mutable_features()) {
      const std::string& column = feature.column().empty() ? feature.name() : feature.column();
      if (IsHistory(feature) || column != kLibsvmFeatures) continue;
      takes_features = true;
      feature.set_kind(FeatureSpec::CATEGORICAL);
      feature.set_multi_valued(true);
    }
    if (!takes_features) {
      FeatureSpec* feature = spec->add_features();
      feature->set_name(kLibsvmFeatures);
      feature->set_column(kLibsvmFeatures);
      feature->set_kind(FeatureSpec::CATEGORICAL);
      feature->set_multi_valued(true);
    }
    if (spec->label().column().empty() && spec->label().feature().empty()) {
      spec->mutable_label()->set_column(kLibsvmLabel);
    }
  }

  absl::Status Check(const DatasetSpec& spec) const override {
    if (spec.query().empty() || spec.query() == kLibsvmQuery) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("data set: query: of libsvm it is ", Quoted(kLibsvmQuery),
                     ", what stands behind qid: in each line; found ", Quoted(spec.query())));
  }

  bool HasIndices(const FeatureSpec& feature) const override {
    return feature.column() == kLibsvmFeatures;
  }

  absl::Status Read(const DatasetSpec& spec, const std::string& path,
                    TableRows* rows) const override {
    for (const TableRows::Binding& binding : rows->bindings()) {
      if (binding.column == kLibsvmLabel || binding.column == spec.query()) continue;
      return absl::NotFoundError(absl::StrCat(
          path, ": wanted a column ", Quoted(binding.column), ", found none of that name; ",
          Alternatives(binding.column, {kLibsvmLabel, kLibsvmFeatures})));
    }
    ASSIGN_OR_RETURN(std::unique_ptr<LibsvmReader> reader,
                     LibsvmReader::Open(path, {.features = spec.libsvm_features(),
                                               .zero_based = spec.zero_based(),
                                               .query = HasQuery(spec)}));
    RETURN_IF_ERROR(ReadExamples(reader.get(), HasQuery(spec), rows));
    rows->AddContent(reader->content_hash());
    return absl::OkStatus();
  }

  absl::Status ReadBlock(const DatasetSpec& spec, FileBlock block, TableRows* rows) const override {
    LibsvmReader reader(
        std::make_unique<LineReader>(InputFile::OfBytes(block.path, std::move(block.bytes)),
                                     block.first_line),
        {.features = spec.libsvm_features(),
         .zero_based = spec.zero_based(),
         .label_optional = rows->bindings().empty(),
         .label_is_number = rows->bindings().empty() && spec.has_label(),
         .query = HasQuery(spec)});
    return ReadExamples(&reader, HasQuery(spec), rows);
  }
};

}  // namespace

const DataFormat& LibsvmFiles() {
  static const auto* const format = new Libsvm;
  return *format;
}

}  // namespace coxswain::data
