// arrow: Arrow's own files (IPC, Feather V2), columns in batches.
#include "runtime/data/arrow/arrow_rows.h"
#include "runtime/data/formats/format_list.h"

namespace coxswain::data {
namespace {

class ArrowIpc final : public DataFormat {
 public:
  const char* name() const override { return "arrow"; }
  bool has_groups() const override { return true; }

  absl::StatusOr<std::vector<std::string>> GroupColumns(const std::string& path) const override {
    return ReadArrowColumns(COX_ARROW_IPC, path);
  }
  absl::StatusOr<std::vector<int64_t>> GroupSizes(const std::string& path) const override {
    return ReadArrowGroups(COX_ARROW_IPC, path);
  }
  absl::StatusOr<std::vector<std::vector<ByteRange>>> GroupRanges(const std::string& path,
                                                                  OpenArrowFiles* open_files,
                                                                  TableRows* rows) const override {
    return FindArrowGroups(COX_ARROW_IPC, path, open_files, rows);
  }
  absl::Status Read(const proto::DatasetSpec&, const std::string& path,
                    TableRows* rows) const override {
    return ReadArrowRows(COX_ARROW_IPC, path, rows);
  }
  absl::Status ReadGroups(const std::string& path, int64_t first, int64_t end,
                          TableRows* rows) const override {
    return ReadArrowGroupRows(COX_ARROW_IPC, path, first, end, rows);
  }
  absl::Status ReadBlock(const proto::DatasetSpec&, FileBlock block,
                         TableRows* rows) const override {
    return ReadArrowBlock(COX_ARROW_IPC, block, rows);
  }
};

}  // namespace

const DataFormat& ArrowFiles() {
  static const auto* const format = new ArrowIpc;
  return *format;
}

}  // namespace coxswain::data
