// format: csv
#include <set>

#include "absl/strings/str_cat.h"
#include "coordinator/job/formats/csv_keys.h"
#include "coordinator/job/formats/job_formats.h"

namespace coxswain::job {
namespace {

void CheckComment(const JobReader& reader, const std::string& path, const proto::CsvOptions& csv) {
  if (csv.comment().find_first_of("\r\n") != std::string::npos) {
    reader.Error(path, "wanted no end of a line in it");
  } else if (csv.quoting() && csv.comment().substr(0, 1) == "\"") {
    reader.Error(path, "a comment that begins with a quote needs quoting: false");
  }
}

void ReadCsv(const JobReader& reader, const SectionView& view) {
  ReadCsvOptions(reader, view, "dataset", reader.job->dataset.mutable_csv());
}

}  // namespace

void ReadCsvOptions(const JobReader& reader, const SectionView& view, const std::string& path,
                    proto::CsvOptions* csv) {
  ReadKeys(kCsvKeys, view, csv);
  CheckSeparator(reader, absl::StrCat(path, ".separator"), csv->separator(), csv->quoting());
  CheckComment(reader, absl::StrCat(path, ".comment"), *csv);
  if (!view.Has("header")) csv->set_header(!view.Has("columns"));
  std::set<std::string> seen;
  for (const std::string& column : csv->columns()) {
    if (!seen.insert(column).second) {
      reader.Error(absl::StrCat(path, ".columns"),
                   absl::StrCat("column '", column, "' is there twice"));
    }
  }
  if (csv->header() && csv->columns_size() > 0) {
    reader.Error(absl::StrCat(path, ".header"),
                 absl::StrCat("the names come from a header or from ", path, ".columns"));
  } else if (!csv->header() && csv->columns_size() == 0) {
    reader.Error(absl::StrCat(path, ".header"),
                 absl::StrCat("files without a header need ", path, ".columns"));
  }
}

const JobFormat& CsvJobFormat() {
  static constexpr JobFormat kFormat = {.name = "csv", .keys = kCsvKeys, .read = ReadCsv};
  return kFormat;
}

}  // namespace coxswain::job
