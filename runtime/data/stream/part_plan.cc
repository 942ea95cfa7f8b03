// Small files together; files that can be cut, by row groups or by rows.
#include "runtime/data/stream/part_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "runtime/base/status.h"
#include "runtime/data/data_file.h"
#include "runtime/data/data_format.h"
#include "runtime/data/file_error.h"
#include "runtime/data/hash.h"
#include "runtime/data/stream/file_identity.h"
#include "runtime/data/stream/first_row.h"
#include "runtime/env/random_access_file.h"

namespace coxswain::data {
namespace {

// A file of fewer bytes than this many parts is not cut, and rows of more are not kept.
constexpr int64_t kSmallParts = 2, kMostParts = 4;
// So many wrong guesses in a file are taken before each part waits for the one in front.
constexpr int kWrongGuesses = 8;
// The assumed compression ratio of a packed file.
constexpr int64_t kPacked = 4;

int64_t UnpackedBytes(const std::string& path, int64_t bytes) {
  const bool packed = absl::EndsWith(path, ".gz") || absl::EndsWith(path, ".zst");
  return packed ? bytes * kPacked : bytes;
}

}  // namespace

PartPlan::PartPlan(const proto::DatasetSpec& spec, int64_t part_bytes, PartFiles* shared,
                   const std::vector<proto::ValueRange>& count)
    : spec_(spec), part_bytes_(std::max<int64_t>(1, part_bytes)), shared_(*shared) {
  *of_parts_.mutable_spec() = spec;
  of_parts_.mutable_spec()->clear_paths();
  of_parts_.mutable_spec()->mutable_split()->clear_test_paths();
  *of_parts_.mutable_count() = {count.begin(), count.end()};
  paths_.assign(spec.paths().begin(), spec.paths().end());
  paths_.insert(paths_.end(), spec.split().test_paths().begin(), spec.split().test_paths().end());
}

PlannedPart PartPlan::Begin() const {
  PlannedPart part;
  part.read = of_parts_;
  part.read.set_test(file_ >= static_cast<size_t>(spec_.paths_size()));
  part.first_file = static_cast<int32_t>(file_);
  return part;
}

absl::StatusOr<std::optional<PlannedPart>> PartPlan::Next() {
  if (over() || waits_) return std::nullopt;
  absl::StatusOr<PlannedPart> part = open_ ? NextRange() : NextFiles();
  if (!part.ok()) return InFile(part.status(), paths_[file_]);
  return *std::move(part);
}

absl::StatusOr<PlannedPart> PartPlan::NextFiles() {
  PlannedPart part = Begin();
  const auto own = static_cast<size_t>(spec_.paths_size());
  int64_t bytes = 0;
  for (; file_ < paths_.size() && bytes < part_bytes_; ++file_) {
    const bool first = part.read.files_size() == 0;
    if (!first && file_ == own) break;  // test rows are parts of their own
    const std::string& path = paths_[file_];
    ASSIGN_OR_RETURN(proto::IndexedFile identity, IdentifyFile(path));
    const int64_t size = UnpackedBytes(path, identity.bytes());
    const bool large = size >= kSmallParts * part_bytes_;
    if (large && !first) break;
    if (large) {
      ASSIGN_OR_RETURN(open_, Open(identity));
      if (open_) {
        at_ = open_->begin;
        return NextRange();
      }
      part.in_turn = size >= kMostParts * part_bytes_;
    }
    part.read.mutable_spec()->add_paths(path);
    *part.read.add_files() = std::move(identity);
    bytes += size;
  }
  return part;
}

absl::StatusOr<std::optional<PartPlan::OpenFile>> PartPlan::Open(
    const proto::IndexedFile& identity) const {
  const DataFormat& format = FormatOf(spec_);
  std::optional<OpenFile> open;
  if (format.has_groups()) {
    open = OpenGroups();
  } else if (format.has_ranges()) {
    ASSIGN_OR_RETURN(open, OpenRows(identity.bytes()));
  }
  if (!open) return open;
  const auto columns = open->identity.columns();
  open->identity = identity;
  *open->identity.mutable_columns() = columns;
  return open;
}

std::optional<PartPlan::OpenFile> PartPlan::OpenGroups() const {
  const std::string& path = paths_[file_];
  const auto sizes = FormatOf(spec_).GroupSizes(path);
  const auto file = IdentifyFile(path);
  if (!sizes.ok() || !file.ok() || sizes->size() < 2)
    return std::nullopt;  // whoever reads it tells
  double rows = 0;
  for (const int64_t size : *sizes) rows += static_cast<double>(size);
  OpenFile open;
  open.size = static_cast<int64_t>(sizes->size());
  for (const int64_t size : *sizes) {
    const double share = rows > 0 ? static_cast<double>(size) / rows : 0;
    open.groups.push_back(static_cast<int64_t>(share * static_cast<double>(file->bytes())));
  }
  return open;
}

absl::StatusOr<std::optional<PartPlan::OpenFile>> PartPlan::OpenRows(int64_t size) const {
  const std::string& path = paths_[file_];
  // What is wrong with the file is told by whoever reads it.
  const auto first = FindFirstRow(spec_, path, &shared_);
  if (!first.ok() || first->packed || first->offset >= size) return std::nullopt;
  OpenFile open;
  open.begin = first->offset;
  open.size = size;
  open.line = first->line;
  *open.identity.mutable_columns() = {first->columns.begin(), first->columns.end()};
  ASSIGN_OR_RETURN(const auto file, OpenDataFile(path));
  std::string bytes(static_cast<size_t>(first->offset), '\0');
  RETURN_IF_ERROR(file->Read(0, bytes.data(), bytes.size()));
  StreamHash content;
  content.Update(bytes);
  open.content = content.Save();
  return open;
}

absl::StatusOr<int64_t> PartPlan::GuessEnd() const {
  const int64_t block_bytes = SizesOf(spec_.stream()).block_bytes;
  ASSIGN_OR_RETURN(const auto file, OpenDataFile(paths_[file_]));
  const auto& columns = open_->identity.columns();
  const std::vector<std::string> names(columns.begin(), columns.end());
  int64_t end = at_;
  while (end - at_ < part_bytes_ && end < open_->size) {
    ASSIGN_OR_RETURN(end, FormatOf(spec_).FindRow(spec_, names, *file, end, end + block_bytes));
  }
  return std::min(end, open_->size);
}

int64_t PartPlan::GroupsEnd(bool* large) const {
  int64_t end = at_, bytes = 0;
  while (end < open_->size && bytes < part_bytes_) bytes += open_->groups[size_t(end++)];
  *large = bytes >= kMostParts * part_bytes_;
  return end;
}

absl::StatusOr<PlannedPart> PartPlan::NextRange() {
  PlannedPart part = Begin();
  part.read.mutable_spec()->add_paths(paths_[file_]);
  *part.read.add_files() = open_->identity;
  part.read.set_begin(at_);
  part.begins_files = at_ == open_->begin;
  if (FormatOf(spec_).has_groups()) {
    at_ = GroupsEnd(&part.in_turn);
  } else {
    if (part.begins_files) {
      part.line = open_->line;
      part.content = open_->content;
    }
    ASSIGN_OR_RETURN(at_, GuessEnd());
  }
  part.read.set_end(at_);
  part.ends_files = at_ == open_->size;
  waits_ = !part.ends_files && wrong_guesses_ >= kWrongGuesses;
  if (part.ends_files) {
    open_.reset();
    ++file_;
    wrong_guesses_ = 0;
  }
  return part;
}

absl::Status PartPlan::GoOnAt(const PlannedPart& part, int64_t end) {
  file_ = static_cast<size_t>(part.first_file);
  ASSIGN_OR_RETURN(open_, Open(part.read.files(0)));
  if (!open_) return ChangedError(paths_[file_], part.read.files(0));
  ++wrong_guesses_;
  at_ = end;
  waits_ = false;
  if (end >= open_->size) {
    open_.reset();
    ++file_;
  }
  return absl::OkStatus();
}

}  // namespace coxswain::data
