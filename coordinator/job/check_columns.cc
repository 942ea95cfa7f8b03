#include "coordinator/job/check_columns.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/job/job_format.h"
#include "runtime/base/status.h"
#include "runtime/config/yaml_reader.h"
#include "runtime/data/csv_rows.h"
#include "runtime/data/data_format.h"
#include "runtime/data/file_list.h"

namespace coxswain::job {

absl::Status CheckColumns(const JobSpec& job) {
  if (!FormatOf(job).has_columns) return absl::OkStatus();
  if (job.dataset.paths().empty()) return absl::OkStatus();
  proto::DatasetSpec spec = job.dataset;
  data::FormatOf(spec).FillDefaults(&spec);
  const auto files = data::ListFiles(job.dataset.paths(0));
  if (!files.ok()) {
    return WithDetail(Annotate(files.status(), job.Where("dataset.path")),
                      {ErrorCause::kConfiguration, false, "", 0});
  }
  const std::string& path = files->front();
  auto reader = data::CsvReader::Open(path, data::CsvFormatOf(spec.csv()));
  if (!reader.ok()) {
    return WithDetail(Annotate(reader.status(), job.Where("dataset.path")),
                      {ErrorCause::kConfiguration, false, "", 0});
  }
  std::vector<std::string> problems;
  const auto check = [&](const std::string& column, const std::string& key) {
    if (column.empty() || (*reader)->FindColumn(column).ok()) return;
    // Names that are no text would end up in the message.
    const std::string garbled = (*reader)->HeaderProblem();
    const std::string unknown = garbled.empty()
                                    ? config::UnknownName("column", column, (*reader)->columns())
                                    : absl::StrCat("unknown column '", column, "'");
    problems.push_back(absl::StrCat(job.Where(key), ": ", unknown, " (", path, ")", garbled));
  };
  for (const proto::FeatureSpec& f : job.dataset.features()) {
    check(f.column(), absl::StrCat("features.", f.name(), ".column"));
    check(f.group_by(), absl::StrCat("features.", f.name(), ".group_by"));
    check(f.by(), absl::StrCat("features.", f.name(), ".by"));
  }
  check(job.dataset.label().column(), "label.column");
  check(job.dataset.label().weight(), "label.weight");
  check(job.dataset.split().holdout_per(), "split.holdout_per");
  check(job.dataset.split().by(), "split.by");
  if (problems.empty()) return absl::OkStatus();
  return config::ConfigurationError(absl::StrJoin(problems, "\n"));
}

}  // namespace coxswain::job
