#include "runtime/data/stream/followed_files.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/data/name_pattern.h"
#include "runtime/data/stream/file_identity.h"

namespace coxswain::data {
namespace {

constexpr const char* kUnfinished[] = {".tmp", ".part", ".crdownload", ".swp", "~"};

}  // namespace

bool HasWholeName(const std::string& path, absl::string_view wanted) {
  const std::string name = std::filesystem::path(path).filename().string();
  const auto ends = [&](const char* suffix) {
    return absl::EndsWith(name, suffix) && !absl::EndsWith(wanted, suffix);
  };
  return !IsOthersName(name) && std::none_of(std::begin(kUnfinished), std::end(kUnfinished), ends);
}

const char kWholeFilesHint[] =
    "with dataset.follow a file has all its rows when it gets its name (write it as NAME.tmp and "
    "rename it)";

FollowedFiles::FollowedFiles(const std::vector<std::string>& paths, std::string end)
    : paths_(paths), end_(std::move(end)) {
  for (const std::string& path : paths) places_.push_back(MakeFollowedPlace(path));
}

absl::Status FollowedFiles::Check() const {
  for (const auto& place : places_) RETURN_IF_ERROR(place->Check());
  return absl::OkStatus();
}

bool FollowedFiles::remote() const {
  return std::any_of(places_.begin(), places_.end(), [](const auto& p) { return p->remote(); });
}

void FollowedFiles::Take(const FollowedFile& file) {
  taken_[file.path] = file.identity;
  names_.try_emplace(IdentityOf(file.identity), file.path);
}

void FollowedFiles::LeaveOut(const FollowedFile& file) {
  taken_.erase(file.path);
  names_.erase(IdentityOf(file.identity));
  left_out_[file.path] = file.identity;
}

bool FollowedFiles::IsLeftOut(const ListedFile& file) {
  const auto found = left_out_.find(file.path);
  if (found == left_out_.end()) return false;
  const proto::IndexedFile& before = found->second;
  if (file.bytes == before.bytes() && file.modified_ns == before.modified_ns()) return true;
  left_out_.erase(found);
  return false;
}

bool FollowedFiles::PassesOver(const FollowedFile& file) const {
  const auto found = names_.find(IdentityOf(file.identity));
  if (found == names_.end()) return false;
  LogWarning("dataset.follow: ", file.path, " is passed over: it was taken as ", found->second);
  return true;
}

absl::StatusOr<bool> FollowedFiles::Ended() const {
  if (end_.empty()) return false;
  for (const auto& place : places_) {
    ASSIGN_OR_RETURN(const bool there, place->Has(end_));
    if (!there) return false;
  }
  return true;
}

absl::StatusOr<std::vector<ListedFile>> FollowedFiles::List() const {
  std::vector<ListedFile> all;
  for (size_t i = 0; i < places_.size(); ++i) {
    ASSIGN_OR_RETURN(std::vector<ListedFile> files, places_[i]->List());
    for (ListedFile& file : files) {
      // The mark has no rows, whatever its name is.
      const bool is_end = !end_.empty() && std::filesystem::path(file.path).filename() == end_;
      if (!is_end && HasWholeName(file.path, paths_[i])) all.push_back(std::move(file));
    }
  }
  const auto path = [](const ListedFile& file) -> const std::string& { return file.path; };
  std::sort(all.begin(), all.end(),
            [&](const auto& a, const auto& b) { return path(a) < path(b); });
  all.erase(std::unique(all.begin(), all.end(),
                        [&](const auto& a, const auto& b) { return path(a) == path(b); }),
            all.end());
  return all;
}

absl::Status FollowedFiles::CheckTaken(const ListedFile& file, proto::IndexedFile* identity) {
  if (file.bytes == identity->bytes() && file.modified_ns == identity->modified_ns()) {
    return absl::OkStatus();
  }
  const absl::Status same = CheckUnchanged(file.path, *identity, /*same_machine=*/false);
  if (same.ok()) {
    identity->set_modified_ns(file.modified_ns);  // it was only touched
    names_.try_emplace(IdentityOf(*identity), file.path);
    return same;
  }
  if (!absl::IsFailedPrecondition(same))
    return absl::OkStatus();  // it has gone, or the next look tells
  return absl::FailedPreconditionError(
      absl::StrCat(same.message(), "; ", kWholeFilesHint, ", and new rows go into new files"));
}

absl::StatusOr<FollowedFiles::Look> FollowedFiles::LookForNew() {
  Look look;
  ASSIGN_OR_RETURN(look.ended, Ended());
  ASSIGN_OR_RETURN(const std::vector<ListedFile> all, List());
  for (const ListedFile& file : all) {
    if (const auto taken = taken_.find(file.path); taken != taken_.end()) {
      RETURN_IF_ERROR(CheckTaken(file, &taken->second));
      continue;
    }
    if (IsLeftOut(file)) continue;
    absl::StatusOr<proto::IndexedFile> identity = IdentifyFile(file.path);
    if (absl::IsNotFound(identity.status())) continue;  // it has gone meanwhile
    RETURN_IF_ERROR(identity.status());
    // As it is listed, which is what later looks see: of an open object the time has no fractions.
    identity->set_modified_ns(file.modified_ns);
    look.files.push_back({file.path, *std::move(identity)});
  }
  std::sort(look.files.begin(), look.files.end(), [](const auto& a, const auto& b) {
    return std::pair(a.identity.modified_ns(), a.path) <
           std::pair(b.identity.modified_ns(), b.path);
  });
  // Those of one look are told from each other by whoever reads them.
  const auto is_old = [this](const FollowedFile& file) {
    if (!PassesOver(file)) return false;
    taken_[file.path] = file.identity;  // it is told once
    return true;
  };
  look.files.erase(std::remove_if(look.files.begin(), look.files.end(), is_old), look.files.end());
  for (const FollowedFile& file : look.files) Take(file);
  return look;
}

}  // namespace coxswain::data
