#include "coordinator/job/check_columns.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/job/job_format.h"
#include "runtime/base/status.h"
#include "runtime/config/yaml_reader.h"
#include "runtime/data/csv_rows.h"
#include "runtime/data/data_format.h"
#include "runtime/data/file_list.h"

namespace coxswain::job {
namespace {

// The columns of side tables, which rows have by their key.
absl::Status AddJoinedColumns(const JobSpec& job, std::vector<std::string>* all) {
  for (int i = 0; i < job.dataset.joins_size(); ++i) {
    const proto::JoinSpec& join = job.dataset.joins(i);
    const std::string where = job.Where(absl::StrCat("dataset.join.", i, ".path"));
    const auto fail = [&where](const absl::Status& status) {
      return WithDetail(Annotate(status, where), {ErrorCause::kConfiguration, false, "", 0});
    };
    const auto reader = data::CsvReader::Open(join.path(), data::CsvFormatOf(join.csv()));
    if (!reader.ok()) return fail(reader.status());
    const auto key = (*reader)->FindColumn(join.right_on());
    if (!key.ok()) return fail(key.status());
    for (const std::string& column : (*reader)->columns()) {
      all->push_back(absl::StrCat(join.prefix(), column));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckColumns(const JobSpec& job) {
  if (!FormatOf(job).has_columns || !FormatOf(job).lists_columns) return absl::OkStatus();
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
  std::vector<std::string> all = (*reader)->columns();
  const absl::Status joined = AddJoinedColumns(job, &all);
  if (!joined.ok()) return joined;
  std::vector<std::string> problems;
  const auto check = [&](const std::string& column, const std::string& key) {
    if (column.empty() || std::find(all.begin(), all.end(), column) != all.end()) return;
    // Names that are no text would end up in the message.
    const std::string garbled = (*reader)->HeaderProblem();
    const std::string unknown = garbled.empty() ? config::UnknownName("column", column, all)
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
  for (int i = 0; i < job.dataset.joins_size(); ++i) {
    check(job.dataset.joins(i).left_on(), absl::StrCat("dataset.join.", i, ".left_on"));
  }
  check(job.dataset.split().holdout_per(), "split.holdout_per");
  check(job.dataset.split().by(), "split.by");
  if (problems.empty()) return absl::OkStatus();
  return config::ConfigurationError(absl::StrJoin(problems, "\n"));
}

}  // namespace coxswain::job
