// criteo: Criteo's click logs, lines of 40 fields with tabs between them.
#include <algorithm>
#include <utility>

#include "runtime/data/criteo.h"
#include "runtime/data/csv_rows.h"
#include "runtime/data/formats/format_list.h"

namespace coxswain::data {
namespace {

class Criteo final : public DataFormat {
 public:
  const char* name() const override { return kCriteoFormat; }
  bool names_columns() const override { return false; }
  bool passes_over_rows() const override { return true; }

  // Files to predict have no label, like the log's own test file.
  std::vector<std::string> FixedColumns(absl::string_view first_row) const override {
    std::vector<std::string> columns = CriteoColumns();
    const auto fields = std::count(first_row.begin(), first_row.end(), '\t') + 1;
    if (fields + 1 == static_cast<int64_t>(columns.size())) columns.erase(columns.begin());
    return columns;
  }

  void FillDefaults(proto::DatasetSpec* spec) const override {
    proto::CsvOptions csv;
    csv.set_separator("\t");
    for (const std::string& column : CriteoColumns()) csv.add_columns(column);
    *spec->mutable_csv() = std::move(csv);
    if (spec->features().empty()) AddCriteoFeatures(kCriteoBuckets, spec);
    if (spec->label().column().empty() && spec->label().feature().empty()) {
      spec->mutable_label()->set_column(kCriteoLabel);
    }
  }

  std::unique_ptr<FieldSink> Checked(const std::string& column,
                                     std::unique_ptr<FieldSink> sink) const override {
    return CheckedCriteoSink(column, std::move(sink));
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

const DataFormat& CriteoFiles() {
  static const auto* const format = new Criteo;
  return *format;
}

}  // namespace coxswain::data
