#include "runtime/data/queries.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/data/names.h"

namespace coxswain::data {

absl::Status QueryComesAgain(const std::string& place, const std::string& name) {
  return absl::InvalidArgumentError(
      absl::StrCat(place, ": wanted the rows of a query together, found ", Quoted(name),
                   " again behind others; sort the file by its column"));
}

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
        return QueryComesAgain(places.Of(row), names[value]);
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

std::vector<double> LeastOfQueries(const Queries& queries, const PartRows& rows,
                                   absl::Span<const double> numbers) {
  std::vector<double> least(numbers.begin(), numbers.end());
  for (const Part part : {Part::kTraining, Part::kValidation, Part::kTest}) {
    const std::vector<uint32_t>& of_part = rows[static_cast<size_t>(part)];
    for (int64_t query = 0; query < queries.count(part); ++query) {
      const auto begin = of_part.begin() + queries.begin(part, query);
      const auto end = of_part.begin() + queries.begin(part, query + 1);
      double first = numbers[*begin];
      for (auto row = begin; row != end; ++row) first = std::min(first, numbers[*row]);
      for (auto row = begin; row != end; ++row) least[*row] = first;
    }
  }
  return least;
}

void QueryColumn::Describe(std::vector<ColumnSpec>* specs) const {
  specs->push_back({kQueryOffsets, {DType::kI32, Shape{kUnknownDim}}});
  specs->push_back({kQueryGroup, {DType::kI64, Shape{kUnknownDim}}});
}

absl::Status QueryColumn::Gather(const BatchRows& rows, Batch* batch) const {
  AppendQueries(rows.query_ends, rows.numbers, batch);
  return absl::OkStatus();
}

}  // namespace coxswain::data
