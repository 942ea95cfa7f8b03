// format: csv
#include <set>

#include "absl/strings/str_cat.h"
#include "coordinator/job/formats/job_formats.h"

namespace coxswain::job {
namespace {

using enum KeyType;

constexpr SchemaKey kKeys[] = {
    Field<proto::CsvOptions>(kString, "separator", "\",\"",
                             "what stands between two fields, one or more characters"),
    Field<proto::CsvOptions>(kBool, "header", "=true, unless `columns` is given",
                             "the first line of each file names the columns"),
    Field<proto::CsvOptions>(kStrings, "columns", "",
                             "the names of the columns, for files without a header"),
    Field<proto::CsvOptions>(kBool, "quoting", "true",
                             "`\"a,b\"` is one field, `\"\"` inside it a quote"),
    Field<proto::CsvOptions>(kInt, "skip_lines", "0",
                             "number of lines at the beginning of each file that are neither a "
                             "header nor rows")
        .Min(0),
    Field<proto::CsvOptions>(kString, "comment", "",
                             "lines that begin with this are left out, such as `\"#\"`"),
    Field<proto::CsvOptions>(kBool, "trim", "false",
                             "spaces and tabs around fields are no part of them; within quotes "
                             "they are"),
    Field<proto::CsvOptions>(kStrings, "missing_values", "",
                             "fields that stand for a missing value, such as `[\"?\", NA]`: they "
                             "are read as empty ones; as a label they are errors"),
};

void CheckComment(const JobReader& reader, const proto::CsvOptions& csv) {
  if (csv.comment().find_first_of("\r\n") != std::string::npos) {
    reader.Error("dataset.comment", "wanted no end of a line in it");
  } else if (csv.quoting() && csv.comment().substr(0, 1) == "\"") {
    reader.Error("dataset.comment", "a comment that begins with a quote needs quoting: false");
  }
}

void ReadCsv(const JobReader& reader, const SectionView& view) {
  proto::CsvOptions* csv = reader.job->dataset.mutable_csv();
  ReadKeys(kKeys, view, csv);
  CheckSeparator(reader, "dataset.separator", csv->separator(), csv->quoting());
  CheckComment(reader, *csv);
  if (!view.Has("header")) csv->set_header(!view.Has("columns"));
  std::set<std::string> seen;
  for (const std::string& column : csv->columns()) {
    if (!seen.insert(column).second) {
      reader.Error("dataset.columns", absl::StrCat("column '", column, "' is there twice"));
    }
  }
  if (csv->header() && csv->columns_size() > 0) {
    reader.Error("dataset.header", "the names come from a header or from dataset.columns");
  } else if (!csv->header() && csv->columns_size() == 0) {
    reader.Error("dataset.header", "files without a header need dataset.columns");
  }
}

}  // namespace

const JobFormat& CsvJobFormat() {
  static constexpr JobFormat kFormat = {.name = "csv", .keys = kKeys, .read = ReadCsv};
  return kFormat;
}

}  // namespace coxswain::job
