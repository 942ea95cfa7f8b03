#include "coordinator/job/check_columns.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/job/job_format.h"
#include "runtime/base/mistake.h"
#include "runtime/base/status.h"
#include "runtime/config/yaml_reader.h"
#include "runtime/data/csv_rows.h"
#include "runtime/data/data_format.h"
#include "runtime/data/file_list.h"
#include "runtime/data/side_table.h"
#include "runtime/data/stream/followed_files.h"

namespace coxswain::job {
namespace {

// The columns of side tables, which rows have by their key.
absl::StatusOr<std::vector<std::string>> JoinedColumns(const JobSpec& job) {
  std::vector<std::string> all;
  for (int i = 0; i < job.dataset.joins_size(); ++i) {
    const proto::JoinSpec& join = job.dataset.joins(i);
    const std::string where = job.Where(absl::StrCat("dataset.join.", i, ".path"));
    const auto fail = [&where](const absl::Status& status) {
      return AsMistake(Annotate(status, where));
    };
    const auto reader = data::OpenSideTable(join);
    if (!reader.ok()) return fail(reader.status());
    const auto key = (*reader)->FindColumn(join.right_on());
    if (!key.ok()) return fail(key.status());
    for (const std::string& column : (*reader)->columns()) {
      all.push_back(absl::StrCat(join.prefix(), column));
    }
  }
  return all;
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

// `joined`: what side tables have.
absl::Status CheckNames(const JobSpec& job, const std::string& path, const FileColumns& columns,
                        const std::vector<std::string>& joined) {
  std::vector<std::string> all = columns.names;
  all.insert(all.end(), joined.begin(), joined.end());
  std::vector<std::string> problems;
  const auto check = [&](const std::string& column, const std::string& key) {
    const auto here = std::count(columns.names.begin(), columns.names.end(), column);
    const bool joined_has = std::find(all.begin(), all.end(), column) != all.end();
    if (column.empty() || here == 1 || (here == 0 && joined_has)) return;
    if (here > 1) {
      problems.push_back(absl::StrCat(job.Where(key), ": column '", column, "' is there ", here,
                                      " times, wanted once (", path, ")"));
      return;
    }
    const std::string unknown = columns.problem.empty()
                                    ? config::UnknownName("column", column, all)
                                    : absl::StrCat("unknown column '", column, "'");
    problems.push_back(
        absl::StrCat(job.Where(key), ": ", unknown, " (", path, ")", columns.problem));
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

// Of a job whose files come, those that are there already, so that a mistake in a name is told at
// once. The first ones are looked at until one has all columns: a file that cannot be read, or has
// others than the rest, is told or left out when the job comes to it, as those that come later are.
absl::Status CheckFollowed(const JobSpec& job, const proto::DatasetSpec& spec,
                           const std::vector<std::string>& joined) {
  constexpr size_t kMost = 16;  // each may be a request to a store
  const auto files = data::ListFiles(job.dataset.paths(0));
  if (!files.ok() || files->front() == job.dataset.paths(0)) return absl::OkStatus();
  absl::Status first;
  size_t looked_at = 0;
  for (const std::string& path : *files) {
    if (!data::HasWholeName(path, job.dataset.paths(0))) continue;
    if (++looked_at > kMost) break;
    const auto columns = ColumnsOf(spec, path);
    if (!columns.ok()) continue;
    const absl::Status status = CheckNames(job, path, *columns, joined);
    if (status.ok()) return status;
    if (first.ok()) first = status;
  }
  return first;
}

}  // namespace

absl::Status CheckColumns(const JobSpec& job) {
  if (!FormatOf(job).has_columns || !FormatOf(job).lists_columns) return absl::OkStatus();
  if (job.dataset.paths().empty()) return absl::OkStatus();
  proto::DatasetSpec spec = job.dataset;
  data::FormatOf(spec).FillDefaults(&spec);
  const auto at_path = [&](const absl::Status& status) {
    return AsMistake(Annotate(status, job.Where("dataset.path")));
  };
  if (job.follow.enabled) {
    ASSIGN_OR_RETURN(const std::vector<std::string> joined, JoinedColumns(job));
    return CheckFollowed(job, spec, joined);
  }
  const auto files = data::ListFiles(job.dataset.paths(0));
  if (!files.ok()) return at_path(files.status());
  for (int i = 1; i < job.dataset.paths_size(); ++i) {
    RETURN_IF_ERROR(at_path(data::ListFiles(job.dataset.paths(i)).status()));
  }
  const auto columns = ColumnsOf(spec, files->front());
  if (!columns.ok()) return at_path(columns.status());
  ASSIGN_OR_RETURN(const std::vector<std::string> joined, JoinedColumns(job));
  return CheckNames(job, files->front(), *columns, joined);
}

}  // namespace coxswain::job
