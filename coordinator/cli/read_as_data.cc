// The files that directories have (FilesIn); patterns against patterns (CouldBeSame); where a
// pattern of data looks (PlacesOf); and the check.
#include "coordinator/cli/read_as_data.h"

#include <fnmatch.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/base/status.h"
#include "runtime/config/yaml_reader.h"
#include "runtime/env/remote_path.h"

namespace coxswain::cli {
namespace {

namespace fs = std::filesystem;
using Parts = std::vector<std::string>;

constexpr char kWildcards[] = "*?[";

// The files of such a directory, '*' for what names of features, tables and numbers make of them.
std::vector<fs::path> FilesIn(DirectoryOf what) {
  const auto below = [](const fs::path& folder, DirectoryOf in, std::vector<fs::path>* files) {
    for (const fs::path& file : FilesIn(in)) files->push_back(folder / file);
  };
  std::vector<fs::path> files;
  switch (what) {
    case DirectoryOf::kModel:
      return {"*.yaml",
              "*.json",
              "*.safetensors",
              "slots/*.safetensors",
              "history/*.txt",
              "joined/*.csv",
              "joined/*.csv.gz",
              "history/*.safetensors",
              "vocabulary/*.txt",
              "vocabulary/*.names",
              "vocabulary/*.counts"};
    case DirectoryOf::kCheckpoints:
      files = {"checkpoint-*/*.json", "checkpoint-*/*.safetensors", "best-*/*.json",
               "best-*/*.safetensors"};
      below("inputs", DirectoryOf::kModel, &files);
      return files;
    case DirectoryOf::kEvaluations:
      files = {"reports.jsonl", "best/*.json", "best/*.safetensors"};
      below("", DirectoryOf::kCheckpoints, &files);
      return files;
    case DirectoryOf::kExport:
      return {"*.json", "*.csv", "*.tsv", "*.hnsw"};
    case DirectoryOf::kChaos:
      files = {"*.json", "logs/*"};
      below("checkpoints", DirectoryOf::kCheckpoints, &files);
      below("baseline-checkpoints", DirectoryOf::kCheckpoints, &files);
      return files;
    case DirectoryOf::kCache:
      return {"*.index", "unpacked/*"};
    case DirectoryOf::kSummaries:
      return {"events.out.tfevents.*.coxswain"};
  }
  return files;
}

bool IsPattern(const std::string& text) {
  return text.find_first_of(kWildcards) != std::string::npos;
}

Parts PartsOf(const fs::path& path) {
  Parts parts;
  for (const fs::path& part : path) {
    if (!part.empty()) parts.push_back(part.string());
  }
  return parts;
}

// Whether a name may match both. Of two patterns only how they begin and end is looked at: a name
// that none of ours has may be found, but none is missed.
bool CouldBeSame(const std::string& wanted, const std::string& ours) {
  if (!IsPattern(ours)) return fnmatch(wanted.c_str(), ours.c_str(), FNM_PERIOD) == 0;
  if (!IsPattern(wanted)) return fnmatch(ours.c_str(), wanted.c_str(), FNM_PERIOD) == 0;
  const auto begin = [](absl::string_view text) {
    return text.substr(0, text.find_first_of(kWildcards));
  };
  const auto end = [](absl::string_view text) { return text.substr(text.find_last_of("*?]") + 1); };
  return (absl::StartsWith(begin(wanted), begin(ours)) ||
          absl::StartsWith(begin(ours), begin(wanted))) &&
         (absl::EndsWith(end(wanted), end(ours)) || absl::EndsWith(end(ours), end(wanted)));
}

// Absolute, without links as far as it is there.
fs::path Resolve(const fs::path& path) {
  std::error_code error;
  fs::path absolute = fs::absolute(path, error).lexically_normal();
  if (absolute.filename().empty()) absolute = absolute.parent_path();
  const fs::path whole = fs::weakly_canonical(absolute, error);
  return error ? absolute : whole;
}

// What an input takes in, as patterns whose begin has no links; none for a single file.
std::vector<Parts> PlacesOf(const std::string& input) {
  if (env::IsRemotePath(input)) return {};
  std::error_code error;
  if (fs::is_directory(input, error)) return {PartsOf(Resolve(input) / "*")};
  if (!IsPattern(input) || fs::exists(input, error)) return {};
  const fs::path pattern = fs::absolute(input, error);
  // As it is written, for directories that are not there yet.
  fs::path plain, rest;
  for (const fs::path& part : pattern) {
    if (rest.empty() && !IsPattern(part.string())) {
      plain /= part;
    } else {
      rest /= part;
    }
  }
  std::vector<Parts> places = {PartsOf(Resolve(plain) / rest)};
  // And the directories that are there, some of which may be links.
  glob_t found = {};
  if (glob(pattern.parent_path().c_str(), 0, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i) {
      places.push_back(PartsOf(Resolve(found.gl_pathv[i]) / pattern.filename()));
    }
  }
  globfree(&found);
  return places;
}

bool TakesIn(const Parts& place, const Parts& directory, const std::vector<fs::path>& files) {
  if (directory.size() >= place.size()) return false;
  const auto is = [](const std::string& wanted, const std::string& name) {
    return wanted == name || fnmatch(wanted.c_str(), name.c_str(), FNM_PERIOD) == 0;
  };
  if (!std::equal(
          directory.begin(), directory.end(), place.begin(),
          [&is](const std::string& name, const std::string& part) { return is(part, name); })) {
    return false;
  }
  const Parts left(place.begin() + static_cast<Parts::difference_type>(directory.size()),
                   place.end());
  return std::any_of(files.begin(), files.end(), [&left](const fs::path& file) {
    const Parts ours = PartsOf(file);
    return left.size() == ours.size() &&
           std::equal(left.begin(), left.end(), ours.begin(), CouldBeSame);
  });
}

// The input that takes in some of the files; null: none does.
const CommandInput* ReadBy(const std::string& directory, DirectoryOf what,
                           const std::vector<CommandInput>& inputs) {
  const Parts parts = PartsOf(Resolve(directory));
  const std::vector<fs::path> files = FilesIn(what);
  for (const CommandInput& input : inputs) {
    for (const Parts& place : PlacesOf(input.path)) {
      if (TakesIn(place, parts, files)) return &input;
    }
  }
  return nullptr;
}

}  // namespace

absl::Status CheckNotReadAsData(const NamedPath& directory, DirectoryOf what,
                                const std::vector<CommandInput>& inputs) {
  if (directory.path.empty()) return absl::OkStatus();
  const CommandInput* const input = ReadBy(directory.path, what, inputs);
  if (input == nullptr) return absl::OkStatus();
  return config::ConfigurationError(
      absl::StrCat(directory.flag, " ", directory.path, ": files in it would be read as ",
                   input->what, ", which is all of ", input->path, ": name another directory"));
}

absl::Status CheckSummaryDirectory(const NamedPath& directory,
                                   const std::vector<CommandInput>& inputs) {
  if (directory.path.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckOutsideSaved(directory));
  RETURN_IF_ERROR(CheckNotReadAsData(directory, DirectoryOf::kSummaries, inputs));
  return CheckOutputDirectory(directory.flag, directory.path);
}

absl::Status CheckCacheNotReadAsData(const job::JobSpec& job) {
  const std::string& directory = job.dataset.stream().cache_directory();
  if (directory.empty()) return absl::OkStatus();
  const std::vector<CommandInput> inputs = InputsOf(job);
  const CommandInput* const input = ReadBy(directory, DirectoryOf::kCache, inputs);
  if (input == nullptr) return absl::OkStatus();
  return config::ConfigurationError(
      absl::StrCat(job.Where("dataset.cache_directory"), ": cache_directory: files in ", directory,
                   " would be read as ", input->what, ", which is all of ", input->path,
                   ": wanted another directory"));
}

}  // namespace coxswain::cli
