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
#include "runtime/data/stream/followed_files.h"

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

// What a file's columns are called.
struct FileColumns {
  std::vector<std::string> names;
  std::string problem;  // why a name may not be found
};

absl::StatusOr<FileColumns> ColumnsOf(const proto::DatasetSpec& spec, const std::string& path) {
  FileColumns columns;
  const data::DataFormat& files = data::FormatOf(spec);
  if (files.has_groups()) {
    ASSIGN_OR_RETURN(columns.names, files.GroupColumns(path));
    return columns;
  }
  ASSIGN_OR_RETURN(const auto reader, data::CsvReader::Open(path, data::CsvFormatOf(spec.csv())));
  columns.names = reader->columns();
  // Names that are no text would end up in the message.
  columns.problem = reader->HeaderProblem();
  return columns;
}

// Of a job whose files come: the first one that is whole already; empty where there is none.
std::string FirstThere(const JobSpec& job, const absl::StatusOr<std::vector<std::string>>& files) {
  if (!files.ok() || files->front() == job.dataset.paths(0)) return "";
  const auto whole = std::find_if(files->begin(), files->end(), [&](const std::string& file) {
    return data::HasWholeName(file, job.dataset.paths(0));
  });
  return whole == files->end() ? "" : *whole;
}

}  // namespace

absl::Status CheckColumns(const JobSpec& job) {
  if (!FormatOf(job).has_columns || !FormatOf(job).lists_columns) return absl::OkStatus();
  if (job.dataset.paths().empty()) return absl::OkStatus();
  proto::DatasetSpec spec = job.dataset;
  data::FormatOf(spec).FillDefaults(&spec);
  const auto at_path = [&](const absl::Status& status) {
    return WithDetail(Annotate(status, job.Where("dataset.path")),
                      {ErrorCause::kConfiguration, false, "", 0});
  };
  const auto files = data::ListFiles(job.dataset.paths(0));
  if (!files.ok() && !job.follow.enabled) return at_path(files.status());
  const std::string path = job.follow.enabled ? FirstThere(job, files) : files->front();
  if (path.empty()) return absl::OkStatus();
  const auto columns = ColumnsOf(spec, path);
  if (!columns.ok()) return at_path(columns.status());
  std::vector<std::string> all = columns->names;
  const absl::Status joined = AddJoinedColumns(job, &all);
  if (!joined.ok()) return joined;
  std::vector<std::string> problems;
  const auto check = [&](const std::string& column, const std::string& key) {
    const auto here = std::count(columns->names.begin(), columns->names.end(), column);
    const bool joined_has = std::find(all.begin(), all.end(), column) != all.end();
    if (column.empty() || here == 1 || (here == 0 && joined_has)) return;
    if (here > 1) {
      problems.push_back(absl::StrCat(job.Where(key), ": column '", column, "' is there ", here,
                                      " times, wanted once (", path, ")"));
      return;
    }
    const std::string unknown = columns->problem.empty()
                                    ? config::UnknownName("column", column, all)
                                    : absl::StrCat("unknown column '", column, "'");
    problems.push_back(
        absl::StrCat(job.Where(key), ": ", unknown, " (", path, ")", columns->problem));
  };
  for (const proto::FeatureSpec& f : job.dataset.features()) {
    if (f.columns().empty()) check(f.column(), absl::StrCat("features.", f.name(), ".column"));
    for (const std::string& column : f.columns()) {
      check(column, absl::StrCat("features.", f.name(), ".columns"));
    }
    check(f.group_by(), absl::StrCat("features.", f.name(), ".group_by"));
    check(f.by(), absl::StrCat("features.", f.name(), ".by"));
  }
  check(job.dataset.query(), "dataset.query");
  check(job.dataset.label().column(), "label.column");
  check(job.dataset.label().weight(), "label.weight");
  for (const proto::LabelSpec& label : job.dataset.labels()) {
    check(label.column(), absl::StrCat("labels.", label.name(), ".column"));
    check(label.weight(), absl::StrCat("labels.", label.name(), ".weight"));
  }
  for (int i = 0; i < job.dataset.joins_size(); ++i) {
    check(job.dataset.joins(i).left_on(), absl::StrCat("dataset.join.", i, ".left_on"));
  }
  check(job.dataset.split().holdout_per(), "split.holdout_per");
  check(job.dataset.split().by(), "split.by");
  if (problems.empty()) return absl::OkStatus();
  return config::ConfigurationError(absl::StrJoin(problems, "\n"));
}

}  // namespace coxswain::job
