#include "runtime/data/stream/first_row.h"

#include "runtime/base/status.h"
#include "runtime/data/data_format.h"
#include "runtime/data/table_rows.h"

namespace coxswain::data {
namespace {

// Ends a reader at the first row.
class Stop final : public RowListener {
 public:
  absl::Status OnFile(InputFile* input, absl::Span<const std::string> columns,
                      int64_t next_line) override {
    first.packed = input->packed();
    first.offset = static_cast<int64_t>(input->offset());
    first.line = next_line;
    first.columns = {columns.begin(), columns.end()};
    return absl::CancelledError();
  }
  absl::Status OnRow(InputFile*, int64_t) override { return absl::CancelledError(); }
  absl::Status OnEnd(InputFile*) override { return absl::CancelledError(); }
  absl::Status OnGroup(const RowGroup&) override { return absl::CancelledError(); }
  absl::Status OnGroupRows(int64_t) override { return absl::CancelledError(); }
  int64_t bytes_left(const InputFile&) const override { return 1; }
  int64_t piece_rows() const override { return 1; }

  FirstRow first;
};

}  // namespace

absl::StatusOr<FirstRow> FindFirstRow(const proto::DatasetSpec& spec, const std::string& path,
                                      PartFiles* shared) {
  Table table;
  TableRows rows(&table, 0);
  RETURN_IF_ERROR(shared->Bind(spec, &table, &rows));
  Stop stop;
  rows.set_listener(&stop);
  table.places.StartFile(path);
  const absl::Status status = FormatOf(spec).Read(spec, path, &rows);
  if (!status.ok() && !absl::IsCancelled(status)) return status;
  return stop.first;
}

}  // namespace coxswain::data
