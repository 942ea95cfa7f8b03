// Directories and patterns; the files of one path; those of a data set.
#include "runtime/data/file_list.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/message.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/data/file_error.h"
#include "runtime/data/name_pattern.h"
#include "runtime/data/names.h"
#include "runtime/data/remote_files.h"
#include "runtime/data/utf8.h"
#include "runtime/env/remote_path.h"

namespace coxswain::data {
namespace {

namespace fs = std::filesystem;

bool IsPattern(const std::string& text) { return text.find_first_of("*?[") != std::string::npos; }

struct Listed {
  std::vector<std::string> files;
  int64_t directories = 0;  // in the same place, which are not read
};

// Of a file or a directory that counts.
bool Counts(const fs::path& path) { return !IsOthersName(path.filename().string()); }

std::string NotRead(int64_t directories) {
  return absl::StrCat(directories, directories == 1 ? " directory is" : " directories are",
                      " not read; wanted one path for each, or a pattern such as 'DIR/*/*.csv'");
}

// Who may not read it has named a wrong one; other errors may be gone the next time.
absl::Status CannotList(const std::string& directory, const std::error_code& error,
                        absl::string_view wanted_by) {
  const std::string text =
      absl::StrCat(wanted_by, directory, ": cannot be listed: ", error.message());
  return error == std::errc::permission_denied || error == std::errc::operation_not_permitted
             ? absl::PermissionDeniedError(text)
             : absl::UnavailableError(text);
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
  if (error) return CannotList(path, error, "");
  if (listed.files.empty()) {
    return absl::NotFoundError(
        absl::StrCat(path, ": wanted a file, found a directory without any",
                     listed.directories > 0 ? absl::StrCat("; its ", NotRead(listed.directories))
                                            : " (names that begin with '.' or '_' do not count)"));
  }
  std::sort(listed.files.begin(), listed.files.end());
  return listed;
}

// Of "a\\b": "ab".
std::string WithoutEscapes(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    plain.push_back(text[i]);
  }
  return plain;
}

// The names that a pattern matches. glob() leaves out what lies in directories that it cannot read,
// and a data set would be smaller than it is without a word.
class Matcher {
 public:
  explicit Matcher(const std::string& pattern) : pattern_(pattern) {
    for (const fs::path& part : fs::path(pattern)) parts_.push_back(part.string());
  }

  // Sorted.
  absl::StatusOr<std::vector<fs::path>> Matches() {
    RETURN_IF_ERROR(Below(fs::path(), 0));
    std::sort(found_.begin(), found_.end(),
              [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
    return std::move(found_);
  }

 private:
  absl::Status Below(const fs::path& directory, size_t part) {
    if (part == parts_.size()) return Add(directory);
    if (!IsPattern(parts_[part])) {
      return Below(directory / WithoutEscapes(parts_[part]), part + 1);
    }
    std::error_code error;
    std::vector<std::string> names;
    for (fs::directory_iterator it(directory.empty() ? "." : directory, error), end;
         !error && it != end; it.increment(error)) {
      names.push_back(it->path().filename().string());
    }
    if (error && !IsNothing(error)) return Cannot(directory, error);
    for (const std::string& name : names) {
      if (!MatchesName(parts_[part], name)) continue;
      RETURN_IF_ERROR(Below(directory / name, part + 1));
    }
    return absl::OkStatus();
  }

  // If it is there, as what comes behind the last wildcard need not be.
  absl::Status Add(const fs::path& path) {
    std::error_code error;
    const bool there = fs::exists(fs::symlink_status(path, error));
    if (there) found_.push_back(path);
    return there || IsNothing(error) ? absl::OkStatus() : Cannot(path.parent_path(), error);
  }

  static bool IsNothing(const std::error_code& error) {
    return !error || error == std::errc::no_such_file_or_directory ||
           error == std::errc::not_a_directory;
  }
  absl::Status Cannot(const fs::path& directory, const std::error_code& error) const {
    return CannotList(directory.empty() ? "." : directory.string(), error,
                      absl::StrCat(pattern_, ": "));
  }

  const std::string pattern_;
  std::vector<std::string> parts_;
  std::vector<fs::path> found_;
};

absl::StatusOr<Listed> Matches(const std::string& pattern) {
  ASSIGN_OR_RETURN(const std::vector<fs::path> found, Matcher(pattern).Matches());
  Listed listed;
  for (const fs::path& path : found) {
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) {
      listed.files.push_back(path.string());
    } else if (Counts(path)) {
      ++listed.directories;
    }
  }
  if (listed.files.empty()) {
    return absl::NotFoundError(absl::StrCat(
        pattern, ": wanted files that match, found none",
        listed.directories > 0 ? absl::StrCat("; ", NotRead(listed.directories)) : ""));
  }
  return listed;
}

absl::StatusOr<Listed> List(const std::string& path) {
  const bool pattern = IsPattern(path);
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
// `mark`: files of this name have no rows, unless a path is such a file; empty: there are none.
absl::Status Expand(const std::string& mark,
                    google::protobuf::RepeatedPtrField<std::string>* paths) {
  google::protobuf::RepeatedPtrField<std::string> files;
  absl::flat_hash_map<std::string, std::string> names;  // by identity
  for (const std::string& path : *paths) {
    const absl::StatusOr<Listed> listed = List(path);
    if (!listed.ok()) return InFile(listed.status(), path);
    const Listed& of_path = *listed;
    for (const std::string& file : of_path.files) {
      if (!mark.empty() && file != path && fs::path(file).filename() == mark) continue;
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

// Messages between tasks cannot have other texts.
absl::Status CheckTexts(const google::protobuf::Message& message) {
  const google::protobuf::Reflection& fields = *message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> there;
  fields.ListFields(message, &there);
  for (const google::protobuf::FieldDescriptor* field : there) {
    const int count = field->is_repeated() ? fields.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (field->type() == google::protobuf::FieldDescriptor::TYPE_MESSAGE) {
        RETURN_IF_ERROR(CheckTexts(field->is_repeated()
                                       ? fields.GetRepeatedMessage(message, field, i)
                                       : fields.GetMessage(message, field)));
        continue;
      }
      if (field->type() != google::protobuf::FieldDescriptor::TYPE_STRING) continue;
      std::string own;
      const std::string& text = field->is_repeated()
                                    ? fields.GetRepeatedStringReference(message, field, i, &own)
                                    : fields.GetStringReference(message, field, &own);
      if (IsUtf8(text)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(field->name(), ": wanted text in UTF-8, found ", Quoted(text)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ListFiles(const std::string& path) {
  ASSIGN_OR_RETURN(Listed listed, List(path));
  return std::move(listed.files);
}

absl::StatusOr<proto::DatasetSpec> WithFiles(proto::DatasetSpec spec) {
  RETURN_IF_ERROR(Expand(spec.follow_end(), spec.mutable_paths()));
  RETURN_IF_ERROR(Expand("", spec.mutable_split()->mutable_test_paths()));
  RETURN_IF_ERROR(CheckTexts(spec));
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
