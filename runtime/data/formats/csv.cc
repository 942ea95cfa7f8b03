// csv: records of fields with a separator between them.
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/data/csv_rows.h"
#include "runtime/data/formats/format_list.h"
#include "runtime/data/row_search.h"

namespace coxswain::data {
namespace {

class Csv final : public DataFormat {
 public:
  const char* name() const override { return "csv"; }
  bool passes_over_rows() const override { return true; }
  bool tells_missing_values() const override { return true; }

  void FillDefaults(proto::DatasetSpec* spec) const override {
    if (spec->csv().separator().empty()) spec->mutable_csv()->set_separator(",");
  }

  absl::Status Check(const proto::DatasetSpec& spec) const override {
    if (spec.csv().skip_lines() >= 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "data set: csv: wanted skip_lines of at least 0, found ", spec.csv().skip_lines()));
  }

  // Asked for by name, a csv has a header also where the job's files have none.
  void UseForRows(bool other, proto::DatasetSpec* spec) const override {
    proto::CsvOptions* const csv = spec->mutable_csv();
    if (other) csv->set_quoting(true);
    if (!other && !csv->header()) {
      csv->clear_columns();
      csv->clear_skip_lines();
    }
    csv->set_header(true);
  }

  std::string WhyNoBlocks(const proto::DatasetSpec& spec) const override {
    if (spec.csv().header() || !spec.csv().columns().empty()) return "";
    return "dataset.columns: columns without names are counted in each file";
  }

  absl::StatusOr<int64_t> FindRow(const proto::DatasetSpec& spec,
                                  absl::Span<const std::string> columns,
                                  const env::RandomAccessFile& file, int64_t known,
                                  int64_t at) const override {
    if (!spec.csv().quoting()) return FindLine(file, at);
    return FindCsvRecord(file, CsvFormatOf(spec.csv()), columns.size(), known, at);
  }

  absl::Status Read(const proto::DatasetSpec& spec, const std::string& path,
                    TableRows* rows) const override {
    return ReadCsvRows(spec.csv(), path, rows);
  }

  absl::Status ReadBlock(const proto::DatasetSpec& spec, FileBlock block,
                         TableRows* rows) const override {
    return ReadCsvBlock(spec.csv(), std::move(block), rows);
  }
};

}  // namespace

const DataFormat& CsvFiles() {
  static const auto* const format = new Csv;
  return *format;
}

}  // namespace coxswain::data
