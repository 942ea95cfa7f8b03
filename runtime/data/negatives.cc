#include "runtime/data/negatives.h"

#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "runtime/base/status.h"
#include "runtime/data/spec_check.h"

namespace coxswain::data {
namespace {

constexpr absl::string_view kOffsets = ".offsets";

// The rows of a batch that stay, ascending.
std::vector<int32_t> KeptRows(double keep, uint64_t key, int64_t begin,
                              absl::Span<const float> labels) {
  std::vector<int32_t> kept;
  // The share of all numbers of 64 bits.
  const double end = keep * static_cast<double>(std::numeric_limits<uint64_t>::max());
  for (size_t i = 0; i < labels.size(); ++i) {
    const uint64_t drawn = HashPair(key, static_cast<uint64_t>(begin) + i);
    if (labels[i] != 0 || static_cast<double>(drawn) < end) kept.push_back(static_cast<int32_t>(i));
  }
  if (kept.empty() && !labels.empty()) kept.push_back(0);
  return kept;
}

// The rows of a tensor with one row an example.
Tensor RowsOf(const Tensor& all, absl::Span<const int32_t> kept) {
  Shape shape = all.shape();
  const size_t row_bytes = all.bytes() / static_cast<size_t>(shape.dim(0));
  shape.set_dim(0, static_cast<int64_t>(kept.size()));
  Tensor rows(all.dtype(), shape);
  const auto* from = static_cast<const char*>(all.raw());
  auto* to = static_cast<char*>(rows.mutable_raw());
  for (const int32_t row : kept) {
    std::memcpy(to, from + static_cast<size_t>(row) * row_bytes, row_bytes);
    to += row_bytes;
  }
  return rows;
}

Tensor OffsetsOf(absl::Span<const int32_t> all, absl::Span<const int32_t> kept) {
  Tensor offsets(DType::kI32, Shape{static_cast<int64_t>(kept.size()) + 1});
  int32_t* const out = offsets.mutable_data<int32_t>();
  out[0] = 0;
  for (size_t i = 0; i < kept.size(); ++i) {
    const auto row = static_cast<size_t>(kept[i]);
    out[i + 1] = out[i] + all[row + 1] - all[row];
  }
  return offsets;
}

// The values, or their weights, of lists.
Tensor ListsOf(const Tensor& all, absl::Span<const int32_t> offsets,
               absl::Span<const int32_t> kept) {
  int64_t count = 0;
  for (const int32_t row : kept) {
    count += offsets[static_cast<size_t>(row) + 1] - offsets[static_cast<size_t>(row)];
  }
  Tensor lists(all.dtype(), Shape{count});
  const size_t bytes = SizeOf(all.dtype());
  const auto* from = static_cast<const char*>(all.raw());
  auto* to = static_cast<char*>(lists.mutable_raw());
  for (const int32_t row : kept) {
    const auto first = static_cast<size_t>(offsets[static_cast<size_t>(row)]);
    const size_t size =
        bytes * (static_cast<size_t>(offsets[static_cast<size_t>(row) + 1]) - first);
    if (size > 0) std::memcpy(to, from + first * bytes, size);
    to += size;
  }
  return lists;
}

}  // namespace

bool LeavesOutNegatives(const proto::LabelSpec& label) {
  return label.keep_negatives() > 0 && label.keep_negatives() < 1;
}

absl::Status CheckNegatives(const proto::DatasetSpec& spec) {
  const auto invalid = [](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat("data set: label.keep_negatives: ", what...));
  };
  for (const proto::LabelSpec& label : spec.labels()) {
    if (label.keep_negatives() != 0) return invalid("a data set of several labels keeps all rows");
  }
  const double keep = spec.label().keep_negatives();
  if (keep == 0) return absl::OkStatus();
  if (!(keep > 0 && keep <= 1)) return invalid("wanted above 0 to 1, found ", keep);
  if (spec.label().column().empty()) return invalid("wanted a label's column, found none");
  if (!spec.query().empty()) return invalid("a query keeps all of its rows");
  if (spec.example_ids() && LeavesOutNegatives(spec.label())) {
    return invalid("visits are counted of all rows: wanted one of the two");
  }
  return absl::OkStatus();
}

absl::Status LeaveOutNegatives(double keep, uint64_t key, int64_t begin,
                               absl::Span<const ColumnSpec> columns, Batch* batch) {
  const Tensor* labels = nullptr;
  absl::flat_hash_map<absl::string_view, Tensor> offsets;  // of lists, by their column's name
  for (size_t i = 0; i < columns.size(); ++i) {
    absl::string_view name = columns[i].name;
    if (name == kLabelColumn) labels = &(*batch)[i];
    if (absl::ConsumeSuffix(&name, kOffsets)) offsets.emplace(name, (*batch)[i]);
  }
  if (labels == nullptr || labels->dtype() != DType::kF32) {
    return absl::InternalError("a batch without the label by which its rows are kept");
  }
  const std::vector<int32_t> kept = KeptRows(keep, key, begin, labels->values<float>());
  if (std::ssize(kept) == labels->num_elements()) return absl::OkStatus();
  for (size_t i = 0; i < columns.size(); ++i) {
    const absl::string_view name = columns[i].name;
    Tensor* const tensor = &(*batch)[i];
    const auto lists = offsets.find(name.substr(0, name.rfind('.')));
    if (lists == offsets.end()) {
      *tensor = RowsOf(*tensor, kept);
      continue;
    }
    const absl::Span<const int32_t> all = lists->second.values<int32_t>();
    *tensor = absl::EndsWith(name, kOffsets) ? OffsetsOf(all, kept) : ListsOf(*tensor, all, kept);
  }
  return absl::OkStatus();
}

}  // namespace coxswain::data
