// The columns of a data set in memory, one entry per row: numbers, ids, lists of ids.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "runtime/data/batch.h"

namespace coxswain::data {

// Ids in 4 bytes each until one needs 8.
class IdArray {
 public:
  void push_back(int64_t id) {
    if (!wide_.empty() || id > std::numeric_limits<int32_t>::max() ||
        id < std::numeric_limits<int32_t>::min()) {
      Widen();
      wide_.push_back(id);
    } else {
      narrow_.push_back(static_cast<int32_t>(id));
    }
  }
  void Append(absl::Span<const int64_t> ids) {
    uint64_t high = 0;  // bits that do not fit into 4 bytes
    for (const int64_t id : ids) high |= static_cast<uint64_t>(id ^ id >> 63) >> 31;
    if (!wide_.empty() || high != 0) {
      Widen();
      wide_.insert(wide_.end(), ids.begin(), ids.end());
      return;
    }
    const size_t before = narrow_.size();
    narrow_.resize(before + ids.size());
    for (size_t i = 0; i < ids.size(); ++i) narrow_[before + i] = static_cast<int32_t>(ids[i]);
  }
  // All ids, if each takes 4 bytes (narrow) or 8 bytes (wide); else null.
  const int32_t* narrow() const { return narrow_.empty() ? nullptr : narrow_.data(); }
  const int64_t* wide() const { return wide_.empty() ? nullptr : wide_.data(); }
  // Reserves room for this total number of ids.
  void Reserve(size_t ids) { wide_.empty() ? narrow_.reserve(ids) : wide_.reserve(ids); }
  size_t size() const { return wide_.empty() ? narrow_.size() : wide_.size(); }
  int64_t operator[](size_t i) const { return wide_.empty() ? narrow_[i] : wide_[i]; }
  // Calls `f` with a pointer to the ids, int32_t or int64_t, so that loops are compiled for each.
  template <typename F>
  auto Visit(F f) const {
    return wide_.empty() ? f(narrow_.data()) : f(wide_.data());
  }
  void clear() {
    narrow_.clear();
    wide_.clear();
  }
  // Memory of the ids, in bytes.
  int64_t bytes() const {
    return static_cast<int64_t>(narrow_.size() * sizeof(int32_t) + wide_.size() * sizeof(int64_t));
  }
  void ShrinkToFit() {
    narrow_.shrink_to_fit();
    wide_.shrink_to_fit();
  }

 private:
  void Widen() {
    if (!wide_.empty()) return;
    wide_.reserve(narrow_.capacity());
    wide_.assign(narrow_.begin(), narrow_.end());
    std::vector<int32_t>().swap(narrow_);
  }

  std::vector<int32_t> narrow_;
  std::vector<int64_t> wide_;  // when not empty, all ids are here
};

// <name>: f32 [B], or with a width [B, width]
class NumericColumn : public Column {
 public:
  NumericColumn(std::string name, std::vector<float> values, int64_t width = 0)
      : name_(std::move(name)), values_(std::move(values)), width_(width) {}
  void Describe(std::vector<ColumnSpec>* specs) const override;
  absl::Status Gather(const BatchRows& rows, Batch* batch) const override;
  float value(uint32_t row) const { return values_[row]; }

 private:
  std::string name_;
  std::vector<float> values_;  // for vectors: row after row
  int64_t width_;
};

// An empty column of `rows` numbers, or vectors of a width above 0.
Tensor NewNumbers(int64_t rows, int64_t width);

// <name>: i64 [B], the number of each example in its part
class ExampleIdColumn : public Column {
 public:
  explicit ExampleIdColumn(std::string name) : name_(std::move(name)) {}
  void Describe(std::vector<ColumnSpec>* specs) const override;
  absl::Status Gather(const BatchRows& rows, Batch* batch) const override;

 private:
  std::string name_;
};

// A column whose ids can be counted.
class CategoricalColumn : public Column {
 public:
  // Adds the occurrences of each id in `rows` to counts[id].
  virtual void Count(absl::Span<const uint32_t> rows, absl::Span<int64_t> counts) const = 0;
};

// <name>: i64 [B]
class IdColumn : public CategoricalColumn {
 public:
  IdColumn(std::string name, IdArray ids) : name_(std::move(name)), ids_(std::move(ids)) {}
  void Describe(std::vector<ColumnSpec>* specs) const override;
  absl::Status Gather(const BatchRows& rows, Batch* batch) const override;
  void Count(absl::Span<const uint32_t> rows, absl::Span<int64_t> counts) const override;
  const IdArray& ids() const { return ids_; }

 private:
  std::string name_;
  IdArray ids_;
};

// Lists of ids, all in one array: row r has [offsets[r], offsets[r + 1]).
struct RaggedIds {
  IdArray ids;
  std::vector<int64_t> offsets{0};
  std::vector<float> weights;  // parallel to ids, or empty

  void clear() {
    ids.clear();
    offsets.assign(1, 0);
    weights.clear();
  }
};

// <name>.values: i64 [n], <name>.offsets: i32 [B+1] and, when there are weights, <name>.weights:
// f32 [n]. A list longer than max_values (when > 0) gives a sample.
class RaggedColumn : public CategoricalColumn {
 public:
  // `index` makes the samples of several columns independent.
  RaggedColumn(std::string name, RaggedIds lists, bool weighted, int64_t max_values, uint64_t index)
      : name_(std::move(name)),
        lists_(std::move(lists)),
        weighted_(weighted),
        max_values_(max_values),
        index_(index) {}
  void Describe(std::vector<ColumnSpec>* specs) const override;
  absl::Status Gather(const BatchRows& rows, Batch* batch) const override;
  void Count(absl::Span<const uint32_t> rows, absl::Span<int64_t> counts) const override;

 private:
  template <typename Id>
  void Fill(const BatchRows& rows, const int32_t* offsets, const Id* ids, int64_t* values,
            float* weights) const;

  std::string name_;
  RaggedIds lists_;
  bool weighted_;
  int64_t max_values_;
  uint64_t index_;
};

// Specs of a ragged pair of tensors.
void DescribeRagged(const std::string& name, std::vector<ColumnSpec>* specs);
// Offsets i32 [B+1] from the B lengths that `length(i)` gives.
// Errors: ResourceExhausted when their sum does not fit.
template <typename Length>
absl::Status FillOffsets(const std::string& name, int64_t count, Length length, Tensor* offsets) {
  *offsets = Tensor(DType::kI32, Shape{count + 1});
  int32_t* out = offsets->mutable_data<int32_t>();
  int64_t total = 0;
  out[0] = 0;
  for (int64_t i = 0; i < count; ++i) {
    total += length(i);
    if (total > std::numeric_limits<int32_t>::max()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("feature ", name, ": a batch of ", count,
                       " examples has more than 2^31 - 1 values; make batches smaller"));
    }
    out[i + 1] = static_cast<int32_t>(total);
  }
  return absl::OkStatus();
}

}  // namespace coxswain::data
