#include "runtime/data/file_list.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/data/file_error.h"
#include "runtime/data/remote_files.h"
#include "runtime/env/remote_path.h"

namespace coxswain::data {
namespace {

namespace fs = std::filesystem;

struct Listed {
  std::vector<std::string> files;
  int64_t directories = 0;  // in the same place, which are not read
};

// Of a file or a directory that counts.
bool Counts(const fs::path& path) {
  const std::string name = path.filename().string();
  return !name.empty() && name[0] != '.' && name[0] != '_';
}

std::string NotRead(int64_t directories) {
  return absl::StrCat(directories, directories == 1 ? " directory is" : " directories are",
                      " not read; wanted one path for each, or a pattern such as 'DIR/*/*.csv'");
}

absl::StatusOr<Listed> InDirectory(const std::string& path) {
  Listed listed;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (!Counts(it->path())) continue;
    if (it->is_directory(ignored)) {
      ++listed.directories;
    } else {
      listed.files.push_back(it->path().string());
    }
  }
  if (error) {
    return absl::UnavailableError(absl::StrCat(path, ": cannot be listed: ", error.message()));
  }
  if (listed.files.empty()) {
    return absl::NotFoundError(
        absl::StrCat(path, ": wanted a file, found a directory without any",
                     listed.directories > 0 ? absl::StrCat("; its ", NotRead(listed.directories))
                                            : " (names that begin with '.' or '_' do not count)"));
  }
  std::sort(listed.files.begin(), listed.files.end());
  return listed;
}

absl::StatusOr<Listed> Matches(const std::string& pattern) {
  glob_t found = {};
  const int code = glob(pattern.c_str(), 0, nullptr, &found);
  Listed listed;
  for (size_t i = 0; code == 0 && i < found.gl_pathc; ++i) {
    const fs::path path = found.gl_pathv[i];
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) {
      listed.files.push_back(path.string());
    } else if (Counts(path)) {
      ++listed.directories;
    }
  }
  globfree(&found);
  if (code != 0 && code != GLOB_NOMATCH) {
    return absl::UnavailableError(absl::StrCat(pattern, ": its files cannot be listed"));
  }
  if (listed.files.empty()) {
    return absl::NotFoundError(absl::StrCat(
        pattern, ": wanted files that match, found none",
        listed.directories > 0 ? absl::StrCat("; ", NotRead(listed.directories)) : ""));
  }
  return listed;
}

absl::StatusOr<Listed> List(const std::string& path) {
  const bool pattern = path.find_first_of("*?[") != std::string::npos;
  std::error_code ignored;
  const bool remote = env::IsRemotePath(path);
  if (!remote && fs::is_directory(path, ignored)) return InDirectory(path);
  if (!remote && (!pattern || fs::exists(path, ignored))) return Listed{{path}};
  if (absl::StrContains(path, "**")) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": '**' is no pattern that goes into directories: wanted one '*' for ",
                     "each level of them, as in 'DIR/*/*.csv'"));
  }
  if (!remote) return Matches(path);
  ASSIGN_OR_RETURN(std::vector<std::string> files, ListRemoteFiles(path));
  return Listed{std::move(files)};
}

// What is the same for all names of a file, where there is one.
std::string IdentityOf(const std::string& path) {
  struct stat status {};
  if (env::IsRemotePath(path) || stat(path.c_str(), &status) != 0) return path;
  // Not every file system has numbers of files that are their own.
  return absl::StrCat(status.st_dev, ":", status.st_ino, ":", status.st_size);
}

// Errors: also InvalidArgument for a file that is there twice, under whatever name: its examples
// would be used twice, and of those that are held out, the others trained on.
absl::Status Expand(google::protobuf::RepeatedPtrField<std::string>* paths) {
  google::protobuf::RepeatedPtrField<std::string> files;
  absl::flat_hash_map<std::string, std::string> names;  // by identity
  for (const std::string& path : *paths) {
    const absl::StatusOr<Listed> listed = List(path);
    if (!listed.ok()) return InFile(listed.status(), path);
    const Listed& of_path = *listed;
    for (const std::string& file : of_path.files) {
      const auto [known, is_new] = names.emplace(IdentityOf(file), file);
      if (!is_new) {
        return InFile(
            absl::InvalidArgumentError(absl::StrCat(
                file, " is among the files twice",
                known->second == file ? ""
                                      : absl::StrCat(" (the other time as ", known->second, ")"),
                ": wanted each file once")),
            file);
      }
      *files.Add() = file;
    }
    if (of_path.directories > 0) LogWarning(path, ": ", NotRead(of_path.directories));
  }
  paths->Swap(&files);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ListFiles(const std::string& path) {
  ASSIGN_OR_RETURN(Listed listed, List(path));
  return std::move(listed.files);
}

absl::StatusOr<proto::DatasetSpec> WithFiles(proto::DatasetSpec spec) {
  RETURN_IF_ERROR(Expand(spec.mutable_paths()));
  RETURN_IF_ERROR(Expand(spec.mutable_split()->mutable_test_paths()));
  return spec;
}

absl::Status CheckHeldOut(const proto::DatasetSpec& spec) {
  if (spec.split().test_paths().empty()) return absl::OkStatus();
  absl::flat_hash_map<std::string, std::string> training;  // path by identity
  for (const std::string& path : spec.paths()) {
    for (const std::string& file : ListFiles(path).value_or(std::vector<std::string>())) {
      training.emplace(IdentityOf(file), file);
    }
  }
  for (const std::string& path : spec.split().test_paths()) {
    for (const std::string& file : ListFiles(path).value_or(std::vector<std::string>())) {
      const auto same = training.find(IdentityOf(file));
      if (same == training.end()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(file, " is a file of the training data, too",
                       same->second == file ? "" : absl::StrCat(" (", same->second, ")"),
                       ": wanted files that are not trained on"));
    }
  }
  return absl::OkStatus();
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
