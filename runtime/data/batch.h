// Batches and the columns that fill them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "coxswain/tensor.h"
#include "runtime/data/hash.h"
#include "runtime/graph/graph.h"

namespace coxswain::data {

// A tensor of a batch. The first dimension is unknown, and the only one but of vectors.
struct ColumnSpec {
  std::string name;
  TensorType type;
};

using Batch = std::vector<Tensor>;  // parallel to the column specs

// The examples of a batch.
struct BatchRows {
  absl::Span<const uint32_t> rows;  // row of each example in the data set
  // Number of each example in the file order of its part; empty: begin, begin + 1, ...
  absl::Span<const uint32_t> numbers;
  // Where examples are queries: behind the last row of each. `numbers` is not empty then.
  absl::Span<const int32_t> query_ends;
  bool training = false;
  int64_t begin = 0;       // position of the first example in the epoch's order
  uint64_t epoch_key = 0;  // drawn from seed, part and epoch

  int64_t size() const { return static_cast<int64_t>(rows.size()); }
  // What samples for row `i` are drawn by: its example's position, or where an example has several
  // rows, the row's number.
  uint64_t SampleKey(int64_t i, uint64_t column) const {
    const uint64_t place = query_ends.empty() ? static_cast<uint64_t>(begin + i)
                                              : uint64_t{rows[static_cast<size_t>(i)]};
    return HashPair(HashPair(epoch_key, place), column);
  }
};

// Gives one or more tensors of a batch. Thread model: immutable.
class Column {
 public:
  virtual ~Column() = default;
  virtual void Describe(std::vector<ColumnSpec>* specs) const = 0;
  // Appends a tensor for each spec.
  // Errors: ResourceExhausted when a batch has 2^31 values or more.
  virtual absl::Status Gather(const BatchRows& rows, Batch* batch) const = 0;
};

}  // namespace coxswain::data
