// Queries: rows that follow each other and belong together, each of them one example of its part.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/data/batch.h"
#include "runtime/data/row_places.h"
#include "runtime/data/split.h"

namespace coxswain::data {

// Batch columns of queries.
inline constexpr char kQueryOffsets[] = "query.offsets";
inline constexpr char kQueryGroup[] = "query.group";

// The error of a query at `place`, "file:line", whose rows are not together.
absl::Status QueryComesAgain(const std::string& place, const std::string& name);

// Thread model: immutable after Build.
class Queries {
 public:
  // `of_row`: for each row the number of its value in the query's column, by first appearance. A
  // query ends with its file. Rows from `own_rows` on are the test part; the part of any other
  // query is that which `draw` has for its first row. Errors: InvalidArgument "file:line: ..." for
  // a value that comes again in its file behind others.
  absl::Status Build(absl::Span<const int32_t> of_row, const std::vector<std::string>& names,
                     const RowPlaces& places, int64_t own_rows, const PartDraw& draw);

  int64_t count(Part part) const { return static_cast<int64_t>(of(part).begins.size()) - 1; }
  // The rows of each part, query by query.
  PartRows TakeRows();
  // A query's rows are [begin, begin of the next) of its part's.
  int64_t begin(Part part, int64_t query) const {
    return of(part).begins[static_cast<size_t>(query)];
  }

 private:
  struct OfPart {
    std::vector<uint32_t> begins{0};
    std::vector<uint32_t> rows;
  };
  const OfPart& of(Part part) const { return parts_[static_cast<size_t>(part)]; }

  std::array<OfPart, 3> parts_;
};

// For each row the least of the numbers that the rows of its query have: of times, when the query
// begins. `rows`: those that TakeRows gave.
std::vector<double> LeastOfQueries(const Queries& queries, const PartRows& rows,
                                   absl::Span<const double> numbers);

// Appends query.offsets and query.group: queries end behind these rows, and have these numbers.
template <typename Number>
void AppendQueries(absl::Span<const int32_t> ends, absl::Span<const Number> numbers, Batch* batch) {
  const auto queries = static_cast<int64_t>(ends.size());
  Tensor offsets(DType::kI32, Shape{queries + 1});
  Tensor groups(DType::kI64, Shape{ends.empty() ? 0 : int64_t{ends.back()}});
  int32_t* const offset = offsets.mutable_data<int32_t>();
  int64_t* group = groups.mutable_data<int64_t>();
  offset[0] = 0;
  for (size_t q = 0; q < ends.size(); ++q) {
    offset[q + 1] = ends[q];
    group = std::fill_n(group, offset[q + 1] - offset[q], static_cast<int64_t>(numbers[q]));
  }
  batch->push_back(std::move(offsets));
  batch->push_back(std::move(groups));
}

// query.offsets and query.group of batches whose examples are queries.
class QueryColumn : public Column {
 public:
  void Describe(std::vector<ColumnSpec>* specs) const override;
  absl::Status Gather(const BatchRows& rows, Batch* batch) const override;
};

}  // namespace coxswain::data
