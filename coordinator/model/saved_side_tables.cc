#include "coordinator/model/saved_side_tables.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain::model {
namespace {

constexpr char kFolder[] = "joined";

std::string PathOf(const std::string& directory, int join, const std::string& path) {
  return absl::StrCat(directory, "/", kFolder, "/", join,
                      absl::EndsWith(path, ".gz") ? ".csv.gz" : ".csv");
}

}  // namespace

absl::Status WriteSideTables(const proto::DatasetSpec& spec, env::FileSystem* files,
                             const std::string& directory) {
  if (spec.joins_size() == 0) return absl::OkStatus();
  RETURN_IF_ERROR(files->MakeDirs(absl::StrCat(directory, "/", kFolder)));
  for (int i = 0; i < spec.joins_size(); ++i) {
    const std::string& path = spec.joins(i).path();
    ASSIGN_OR_RETURN(const std::string content, files->Read(path));
    RETURN_IF_ERROR(files->WriteAtomically(PathOf(directory, i, path), content));
  }
  return absl::OkStatus();
}

void UseSavedSideTables(const std::string& directory, proto::DatasetSpec* spec) {
  std::error_code error;
  for (int i = 0; i < spec->joins_size(); ++i) {
    const std::string saved = PathOf(directory, i, spec->joins(i).path());
    if (std::filesystem::exists(saved, error)) spec->mutable_joins(i)->set_path(saved);
  }
}

}  // namespace coxswain::model
