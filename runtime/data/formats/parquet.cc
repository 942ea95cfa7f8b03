// parquet: columns in row groups, read by Apache Arrow.
#include "runtime/data/arrow/arrow_rows.h"
#include "runtime/data/formats/format_list.h"

namespace coxswain::data {
namespace {

class Parquet final : public DataFormat {
 public:
  const char* name() const override { return "parquet"; }
  bool has_groups() const override { return true; }

  absl::StatusOr<std::vector<std::string>> GroupColumns(const std::string& path) const override {
    return ReadArrowColumns(COX_ARROW_PARQUET, path);
  }
  absl::StatusOr<std::vector<int64_t>> GroupSizes(const std::string& path) const override {
    return ReadArrowGroups(COX_ARROW_PARQUET, path);
  }
  absl::StatusOr<std::vector<std::vector<ByteRange>>> GroupRanges(const std::string& path,
                                                                  OpenArrowFiles* open_files,
                                                                  TableRows* rows) const override {
    return FindArrowGroups(COX_ARROW_PARQUET, path, open_files, rows);
  }
  absl::Status Read(const proto::DatasetSpec&, const std::string& path,
                    TableRows* rows) const override {
    return ReadArrowRows(COX_ARROW_PARQUET, path, rows);
  }
  absl::Status ReadGroups(const std::string& path, int64_t first, int64_t end,
                          TableRows* rows) const override {
    return ReadArrowGroupRows(COX_ARROW_PARQUET, path, first, end, rows);
  }
  absl::Status ReadBlock(const proto::DatasetSpec&, FileBlock block,
                         TableRows* rows) const override {
    return ReadArrowBlock(COX_ARROW_PARQUET, block, rows);
  }
};

}  // namespace

const DataFormat& ParquetFiles() {
  static const auto* const format = new Parquet;
  return *format;
}

}  // namespace coxswain::data
