#include "tests/fuzz/columns.h"

#include <cstdio>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "protos/dataset.pb.h"
#include "runtime/base/logging.h"
#include "runtime/data/arrow/arrow_file.h"
#include "runtime/data/dataset.h"
#include "runtime/data/utf8.h"
#include "tests/fuzz/fuzz_target.h"

namespace coxswain::fuzz {
namespace {

// A few bytes can stand for any number of equal rows: those are no error, and take their time.
constexpr int64_t kMostRows = 1 << 12;
constexpr size_t kMostFields = 20;

bool HasFewRows(data::ArrowFile* file) {
  int64_t rows = 0;
  for (int64_t group = 0; group < file->groups(); ++group) {
    const auto of_group = file->Rows(group);
    if (!of_group.ok()) return true;  // whoever reads it says so
    rows += *of_group;
    if (rows > kMostRows) return false;
  }
  return file->fields().size() <= kMostFields;
}

void AddFeature(const CoxArrowField& field, int number, proto::DatasetSpec* spec) {
  proto::FeatureSpec* const feature = spec->add_features();
  feature->set_name(absl::StrCat("f", number));
  feature->set_column(field.name);
  const bool number_as_category = field.kind == COX_ARROW_INTEGER && number % 2 == 1;
  if (field.is_list == 0 && field.kind != COX_ARROW_TEXT && !number_as_category) return;
  feature->set_kind(proto::FeatureSpec::CATEGORICAL);
  feature->set_multi_valued(field.is_list != 0);
  if (number % 3 == 0) {
    feature->set_hash_buckets(50);
  } else {
    feature->set_oov_buckets(1);  // a vocabulary that is learned
  }
}

// All columns that can be read; nothing for a file that is none, or too large.
std::optional<proto::DatasetSpec> SpecOf(absl::string_view format, const std::string& path) {
  const auto file =
      data::ArrowFile::Open(path, format == "arrow" ? COX_ARROW_IPC : COX_ARROW_PARQUET);
  if (!file.ok() || !HasFewRows(file->get())) return std::nullopt;
  proto::DatasetSpec spec;
  spec.set_format(std::string(format));
  spec.add_paths(path);
  spec.mutable_split()->set_test_fraction(0.3);
  spec.mutable_stream()->set_mode(proto::StreamOptions::NEVER);
  for (const CoxArrowField& field : (*file)->fields()) {
    // A job cannot name a column that is no text.
    const bool can_be_named = data::IsUtf8(field.name);
    if (field.kind != COX_ARROW_OTHER && can_be_named)
      AddFeature(field, spec.features_size(), &spec);
  }
  return spec;
}

// The tensors of all rows as bytes; nothing where they cannot be read.
std::optional<std::string> Rows(const proto::DatasetSpec& spec) {
  const auto dataset = data::Dataset::Load(spec);
  if (!dataset.ok()) return std::nullopt;
  std::string rows;
  for (const Part part : {Part::kTraining, Part::kTest}) {
    const int64_t all = (*dataset)->num_examples(part);
    absl::StrAppend(&rows, all, " rows;");
    if (all == 0) continue;
    const auto batch = (*dataset)->Read({part, 0, 0, all});
    if (!batch.ok()) return std::nullopt;
    for (const Tensor& tensor : *batch) {
      rows.append(static_cast<const char*>(tensor.buffer().data()), tensor.bytes());
    }
  }
  return rows;
}

}  // namespace

bool CanReadColumns() {
  InitLogging("fuzz", LogLevel::kOff);  // each run would say that its index is not kept
  const auto api = data::LoadArrowPlugin();
  if (api.ok()) return true;
  std::fprintf(stderr, "no Apache Arrow: nothing is tried: %s\n",
               std::string(api.status().message()).c_str());
  return false;
}

void ReadColumns(absl::string_view format, absl::string_view bytes) {
  const MemoryFile file(bytes);
  const auto spec = SpecOf(format, file.path());
  if (!spec) return;
  proto::DatasetSpec streamed = *spec;
  streamed.mutable_stream()->set_mode(proto::StreamOptions::ALWAYS);
  streamed.mutable_stream()->set_block_bytes(1);
  // No directory: indexes are not kept.
  streamed.mutable_stream()->set_cache_directory(file.path());
  const auto held = Rows(*spec), in_blocks = Rows(streamed);
  if (held.has_value() != in_blocks.has_value()) Broken("it can be read in one way only");
  if (held != in_blocks) Broken("streamed rows are others");
}

}  // namespace coxswain::fuzz
