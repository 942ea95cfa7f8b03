#include "runtime/data/queries.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/data/names.h"

namespace coxswain::data {

absl::Status Queries::Build(absl::Span<const int32_t> of_row, const std::vector<std::string>& names,
                            const RowPlaces& places, int64_t own_rows, const PartDraw& draw) {
  std::vector<int64_t> last_file(names.size(), -1);  // by value: the file that had it last
  OfPart* now = nullptr;
  int64_t file = -1;
  const auto rows = static_cast<int64_t>(of_row.size());
  for (int64_t row = 0; row < rows; ++row) {
    const auto value = static_cast<size_t>(of_row[static_cast<size_t>(row)]);
    const bool new_file = places.StartsFile(row);
    file += new_file ? 1 : 0;
    if (new_file || of_row[static_cast<size_t>(row)] != of_row[static_cast<size_t>(row) - 1]) {
      if (last_file[value] == file) {
        return absl::InvalidArgumentError(absl::StrCat(
            places.Of(row), ": wanted the rows of a query together, found ", Quoted(names[value]),
            " again behind others; sort the file by its column"));
      }
      last_file[value] = file;
      const Part part = row >= own_rows ? Part::kTest : draw(row);
      now = &parts_[static_cast<size_t>(part)];
      now->begins.push_back(now->begins.back());
    }
    now->rows.push_back(static_cast<uint32_t>(row));
    ++now->begins.back();
  }
  return absl::OkStatus();
}

PartRows Queries::TakeRows() {
  PartRows rows;
  for (size_t part = 0; part < rows.size(); ++part) rows[part] = std::move(parts_[part].rows);
  return rows;
}

void QueryColumn::Describe(std::vector<ColumnSpec>* specs) const {
  specs->push_back({kQueryOffsets, {DType::kI32, Shape{kUnknownDim}}});
  specs->push_back({kQueryGroup, {DType::kI64, Shape{kUnknownDim}}});
}

absl::Status QueryColumn::Gather(const BatchRows& rows, Batch* batch) const {
  const auto queries = static_cast<int64_t>(rows.query_ends.size());
  Tensor offsets(DType::kI32, Shape{queries + 1}), groups(DType::kI64, Shape{rows.size()});
  int32_t* const offset = offsets.mutable_data<int32_t>();
  int64_t* group = groups.mutable_data<int64_t>();
  offset[0] = 0;
  for (int64_t q = 0; q < queries; ++q) {
    offset[q + 1] = rows.query_ends[static_cast<size_t>(q)];
    group = std::fill_n(group, offset[q + 1] - offset[q],
                        static_cast<int64_t>(rows.numbers[static_cast<size_t>(q)]));
  }
  batch->push_back(std::move(offsets));
  batch->push_back(std::move(groups));
  return absl::OkStatus();
}

}  // namespace coxswain::data
