// criteo: Criteo's click logs, lines of 40 fields with tabs between them.
#include <utility>

#include "runtime/data/criteo.h"
#include "runtime/data/csv_rows.h"
#include "runtime/data/formats/format_list.h"

namespace coxswain::data {
namespace {

class Criteo final : public DataFormat {
 public:
  const char* name() const override { return kCriteoFormat; }

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
