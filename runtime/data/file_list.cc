#include "runtime/data/file_list.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/remote_files.h"
#include "runtime/env/remote_path.h"

namespace coxswain::data {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<std::vector<std::string>> InDirectory(const std::string& path) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::error_code ignored;
    if (name[0] == '.' || name[0] == '_' || it->is_directory(ignored)) continue;
    files.push_back(it->path().string());
  }
  if (error) {
    return absl::UnavailableError(absl::StrCat(path, ": cannot be listed: ", error.message()));
  }
  if (files.empty()) {
    return absl::NotFoundError(absl::StrCat(
        path, ": wanted a file, found a directory without any (names that begin with '.' or '_' ",
        "do not count)"));
  }
  std::sort(files.begin(), files.end());
  return files;
}

absl::StatusOr<std::vector<std::string>> Matches(const std::string& pattern) {
  glob_t found = {};
  const int code = glob(pattern.c_str(), 0, nullptr, &found);
  std::vector<std::string> files;
  for (size_t i = 0; code == 0 && i < found.gl_pathc; ++i) {
    std::error_code ignored;
    if (!fs::is_directory(found.gl_pathv[i], ignored)) files.emplace_back(found.gl_pathv[i]);
  }
  globfree(&found);
  if (code != 0 && code != GLOB_NOMATCH) {
    return absl::UnavailableError(absl::StrCat(pattern, ": its files cannot be listed"));
  }
  if (files.empty()) {
    return absl::NotFoundError(absl::StrCat(pattern, ": wanted files that match, found none"));
  }
  return files;
}

absl::Status Expand(google::protobuf::RepeatedPtrField<std::string>* paths) {
  google::protobuf::RepeatedPtrField<std::string> files;
  for (const std::string& path : *paths) {
    ASSIGN_OR_RETURN(const std::vector<std::string> of_path, ListFiles(path));
    for (const std::string& file : of_path) *files.Add() = file;
  }
  paths->Swap(&files);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ListFiles(const std::string& path) {
  if (env::IsRemotePath(path)) return ListRemoteFiles(path);
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return InDirectory(path);
  const bool pattern = path.find_first_of("*?[") != std::string::npos;
  if (!pattern || fs::exists(path, ignored)) return std::vector<std::string>{path};
  return Matches(path);
}

absl::StatusOr<proto::DatasetSpec> WithFiles(proto::DatasetSpec spec) {
  RETURN_IF_ERROR(Expand(spec.mutable_paths()));
  RETURN_IF_ERROR(Expand(spec.mutable_split()->mutable_test_paths()));
  return spec;
}

std::vector<std::string*> FilesOf(proto::DatasetSpec* spec) {
  std::vector<std::string*> paths;
  const auto add = [&paths](std::string* path) {
    if (!path->empty()) paths.push_back(path);
  };
  for (std::string& path : *spec->mutable_paths()) add(&path);
  for (std::string& path : *spec->mutable_split()->mutable_test_paths()) add(&path);
  for (proto::FeatureSpec& feature : *spec->mutable_features()) {
    if (!feature.vocabulary_file().empty()) add(feature.mutable_vocabulary_file());
  }
  for (proto::JoinSpec& join : *spec->mutable_joins()) add(join.mutable_path());
  for (auto* features : {spec->mutable_learned(), spec->mutable_known()}) {
    for (proto::LearnedFeature& feature : *features) {
      if (!feature.vocabulary_file().empty()) add(feature.mutable_vocabulary_file());
      if (!feature.counts_file().empty()) add(feature.mutable_counts_file());
      if (!feature.names_file().empty()) add(feature.mutable_names_file());
    }
  }
  return paths;
}

}  // namespace coxswain::data
