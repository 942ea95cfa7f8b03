// Reading the file and its overrides section by section; then the paths: they are checked, and made
// relative to the directory of the job file.
#include "coordinator/job/job_parser.h"

#include <filesystem>
#include <system_error>

#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/job/idle_keys.h"
#include "coordinator/job/job_sections.h"
#include "coordinator/job/regularization.h"
#include "coordinator/job/schema.h"
#include "runtime/base/status.h"
#include "runtime/config/yaml_reader.h"
#include "runtime/data/names.h"
#include "runtime/env/remote_path.h"

namespace coxswain::job {
namespace {

// "jobs/my packages.yaml" -> "my_packages".
std::string NameOf(const std::string& file) {
  std::string name = file.substr(file.rfind('/') + 1);
  name = name.substr(0, name.rfind('.'));
  for (char& c : name) {
    if (!IsName(absl::string_view(&c, 1))) c = '_';
  }
  return name.empty() ? "job" : name;
}

void ReadName(const JobReader& reader) {
  reader.job->name = NameOf(reader.job->file);
  if (!reader.file.Has("name") || !reader.Good("name")) return;
  reader.job->name = reader.file.String("name");
  if (!IsName(reader.job->name)) {
    reader.Error("name",
                 absl::StrCat("wanted ", kNameCharacters, "; found '", reader.job->name, "'"));
  }
}

// The loss's kind decides which keys `loss` has, and the model's which kind that is by default.
void FillInLoss(config::YamlNode* root) {
  const std::string fallback = DefaultLoss(*root);
  config::YamlEntry* loss = root->Find("loss");
  if (loss == nullptr) {
    loss = &root->entries.emplace_back();
    loss->key = "loss";
    loss->value.kind = config::YamlNode::Kind::kMap;
    loss->value.where = root->where;
  }
  if (loss->value.kind != config::YamlNode::Kind::kMap || loss->value.Find("kind") != nullptr)
    return;
  if (fallback.empty()) return;
  config::YamlEntry& kind = loss->value.entries.emplace_back();
  kind.key = "kind";
  kind.value.kind = config::YamlNode::Kind::kScalar;
  kind.value.text = fallback;
  kind.value.where = loss->value.where;
}

std::string Resolve(const std::string& directory, const std::string& path) {
  if (env::IsRemotePath(path)) return path;
  return path.empty() || absl::StartsWith(path, "/") ? path : directory + path;
}

// Paths that people know from other programs, and that lead to nothing here.
absl::Status CheckPath(const JobSpec& job, const std::string& key, const std::string& path) {
  const auto wrong = [&](absl::string_view what) {
    return config::ConfigurationError(
        absl::StrCat(job.Where(key), ": ", key, ": ", data::Quoted(path), ": ", what));
  };
  if (path == "~" || absl::StartsWith(path, "~/")) {
    return wrong("'~' is not expanded in a job file; wanted the whole path");
  }
  if (key == "dataset.cache_directory" && env::IsRemotePath(path)) {
    return wrong("wanted a path of this machine; only data is read from object stores");
  }
  const size_t end = path.find("://");
  if (env::IsRemotePath(path) || end == std::string::npos || end == 0 ||
      !IsName(absl::string_view(path).substr(0, end))) {
    return absl::OkStatus();
  }
  return wrong(absl::StrCat("wanted a path of this machine or s3://BUCKET/NAME, found one of ",
                            path.substr(0, end + 3)));
}

// Every path that a job has, with its key.
void ForEachPath(JobSpec* job,
                 absl::FunctionRef<void(const std::string& key, std::string* path)> visit) {
  proto::DatasetSpec& dataset = job->dataset;
  for (std::string& path : *dataset.mutable_paths()) visit("dataset.path", &path);
  for (std::string& path : *dataset.mutable_split()->mutable_test_paths()) {
    visit("split.test_path", &path);
  }
  for (int i = 0; i < dataset.joins_size(); ++i) {
    visit(absl::StrCat("dataset.join.", i, ".path"), dataset.mutable_joins(i)->mutable_path());
  }
  visit("dataset.cache_directory", dataset.mutable_stream()->mutable_cache_directory());
  visit("checkpoint.directory", &job->checkpoint.directory);
  for (proto::FeatureSpec& feature : *dataset.mutable_features()) {
    visit(absl::StrCat("features.", feature.name(), ".vocabulary_file"),
          feature.mutable_vocabulary_file());
  }
  for (TableSpec& table : job->tables) {
    if (!table.rows_file) continue;
    const std::string initializer = absl::StrCat("tables.", table.name, ".initializer");
    visit(absl::StrCat(initializer, ".path"), &table.rows_file->path);
    visit(absl::StrCat(initializer, ".words"), &table.rows_file->words);
  }
  visit("evaluate.word_similarity", &job->evaluate.word_similarity);
  visit("evaluate.analogies", &job->evaluate.analogies);
}

}  // namespace

bool IsName(absl::string_view name) {
  for (char c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-') return false;
  }
  return !name.empty();
}

absl::StatusOr<JobSpec> ParseJob(absl::string_view text, const std::string& file_name,
                                 const std::vector<std::string>& overrides, JobUse use) {
  Problems problems;
  JobSpec job;
  job.file = file_name;
  absl::StatusOr<config::YamlNode> root = config::ParseYaml(text, file_name);
  if (!root.ok()) return root.status();
  std::vector<std::string> flag_errors;
  for (const std::string& flag : overrides) {
    const absl::Status status = ApplyOverride(flag, &*root);
    if (!status.ok()) flag_errors.emplace_back(status.message());
  }
  if (root->kind == config::YamlNode::Kind::kMap) FillInLoss(&*root);
  SchemaChecker(&problems, &job.locations, JobSchema()).Check(&*root);
  if (root->kind == config::YamlNode::Kind::kMap) {
    const JobReader reader{SectionView(&*root), &problems, &job, use};
    ReadName(reader);
    ReadDataset(reader);
    ReadSplit(reader);
    ReadTrain(reader);
    ReadPartitioner(reader);
    ReadFailures(reader);
    if (ReadFeatures(reader) && ReadModel(reader)) {
      ReadLabel(reader);
      CheckNoLabelIsInput(reader);
      ReadTables(reader);
      ReadRegularization(reader);
      ReadEvaluate(reader);
    }
    CheckFollow(reader);
    CheckDeterministic(reader);
  }
  const absl::Status status = problems.status();
  if (!status.ok()) flag_errors.emplace_back(status.message());
  if (flag_errors.empty()) return job;
  return config::ConfigurationError(absl::StrJoin(flag_errors, "\n"));
}

absl::StatusOr<JobSpec> ParseKeptJob(absl::string_view text, const std::string& file_name,
                                     const std::string& directory,
                                     const std::vector<std::string>& overrides, JobUse use) {
  ASSIGN_OR_RETURN(JobSpec job, ParseJob(text, file_name, overrides, use));
  const std::string base = absl::StrCat(directory, "/");
  absl::Status checked;
  ForEachPath(&job, [&](const std::string& key, std::string* path) {
    checked.Update(CheckPath(job, key, *path));
    *path = Resolve(base, *path);
  });
  RETURN_IF_ERROR(checked);
  return job;
}

absl::StatusOr<JobSpec> ParseJobFile(const std::string& path,
                                     const std::vector<std::string>& overrides, JobUse use) {
  ASSIGN_OR_RETURN(const std::string text, config::ReadTextFile(path));
  // Absolute, because workers read the same files from whatever directory they run in.
  std::error_code ignored;
  const std::filesystem::path absolute = std::filesystem::absolute(path, ignored);
  ASSIGN_OR_RETURN(JobSpec job,
                   ParseKeptJob(text, path, absolute.parent_path().string(), overrides, use));
  RETURN_IF_ERROR(CheckNoIdleKeys(job));
  return job;
}

std::string JobSpec::Where(absl::string_view key_path) const {
  std::string path(key_path);
  while (!path.empty()) {
    const auto it = locations.find(path);
    if (it != locations.end()) return it->second;
    const size_t dot = path.rfind('.');
    path.resize(dot == std::string::npos ? 0 : dot);
  }
  return absl::StrCat(file, ":1:1");
}

const proto::FeatureSpec* JobSpec::FindFeature(absl::string_view feature) const {
  for (const proto::FeatureSpec& candidate : dataset.features()) {
    if (candidate.name() == feature) return &candidate;
  }
  return nullptr;
}

const TableSpec* JobSpec::FindTable(absl::string_view table) const {
  for (const TableSpec& candidate : tables) {
    if (candidate.name == table) return &candidate;
  }
  return nullptr;
}

}  // namespace coxswain::job
