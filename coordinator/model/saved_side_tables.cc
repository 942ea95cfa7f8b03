#include "coordinator/model/saved_side_tables.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain::model {
namespace {

constexpr char kFolder[] = "joined";

bool IsVersion(const std::string& name) {
  return name.size() == 16 && std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isxdigit(static_cast<unsigned char>(c));
         });
}

}  // namespace

std::string SideTableFolder(const std::string& version) {
  return version.empty() ? absl::StrCat(kFolder, "/") : absl::StrCat(kFolder, "/", version, "/");
}

std::string SideTableFile(const std::string& version, int join, const std::string& path) {
  return absl::StrCat(SideTableFolder(version), join,
                      absl::EndsWith(path, ".gz") ? ".csv.gz" : ".csv");
}

absl::Status WriteSideTables(const data::Dataset& data, const proto::DatasetSpec& spec,
                             const std::string& version, env::FileSystem* files,
                             const std::string& directory) {
  if (spec.joins_size() == 0) return absl::OkStatus();
  const data::SideTableFilesPtr tables = data.side_tables().Get();
  if (tables == nullptr || std::ssize(tables->contents) != spec.joins_size()) {
    return absl::InternalError("the data set was loaded without the files of its side tables");
  }
  RETURN_IF_ERROR(files->MakeDirs(absl::StrCat(directory, "/", SideTableFolder(version))));
  for (int i = 0; i < spec.joins_size(); ++i) {
    const std::string name = SideTableFile(version, i, spec.joins(i).path());
    RETURN_IF_ERROR(files->WriteAtomically(absl::StrCat(directory, "/", name),
                                           tables->contents[static_cast<size_t>(i)]));
  }
  return absl::OkStatus();
}

absl::Status UseSavedSideTables(const std::string& directory, const std::string& version,
                                proto::DatasetSpec* spec) {
  std::error_code error;
  for (int i = 0; i < spec->joins_size(); ++i) {
    const std::string saved =
        absl::StrCat(directory, "/", SideTableFile(version, i, spec->joins(i).path()));
    if (std::filesystem::exists(saved, error)) {
      spec->mutable_joins(i)->set_path(saved);
    } else if (!version.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(
          saved, " is not there: it is the joined table that the checkpoint was trained with, and ",
          spec->joins(i).path(), " may have been replaced since; a newer checkpoint has its own"));
    }
  }
  return absl::OkStatus();
}

absl::Status JoinKeptSideTables(const std::string& directory, const ManifestKind& kind,
                                std::string version, proto::DatasetSpec* spec) {
  if (spec->joins().empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const nlohmann::json manifest, ReadModelManifest(directory, kind));
  RETURN_IF_ERROR(CheckModelFiles(directory, manifest, kind));
  if (version.empty()) version = SideTablesOf(manifest);
  std::error_code ignored;
  const std::string absolute = std::filesystem::absolute(directory, ignored).string();
  return UseSavedSideTables(absolute, version, spec);
}

std::string SideTablesOf(const checkpoint::Manifest& checkpoint) {
  return SideTablesOf(nlohmann::json::parse(checkpoint.job_state, nullptr, false));
}

std::string SideTablesOf(const nlohmann::json& manifest) {
  if (!manifest.is_object()) return "";
  const auto version = manifest.find(kSideTables);
  if (version == manifest.end() || !version->is_string()) return "";
  std::string name = version->get<std::string>();
  return IsVersion(name) ? name : "";
}

std::vector<std::string> SideTableVersions(env::FileSystem* files, const std::string& directory) {
  std::vector<std::string> versions;
  const auto names = files->List(absl::StrCat(directory, "/", kFolder));
  if (!names.ok()) return versions;
  std::copy_if(names->begin(), names->end(), std::back_inserter(versions), IsVersion);
  return versions;
}

}  // namespace coxswain::model
