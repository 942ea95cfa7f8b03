// The plugin's calls as C++; files of directories and patterns; ranges of a file.
#include "runtime/data/remote_files.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/base/status.h"
#include "runtime/data/arrow/arrow_file.h"
#include "runtime/data/name_pattern.h"
#include "runtime/data/store_calls.h"
#include "runtime/env/remote_path.h"

namespace coxswain::data {
namespace {

using Ask = int32_t (*)(const char*, CoxArrowFoundFunction, void*, CoxArrowError*);

constexpr char kWildcards[] = "*?[";

absl::StatusOr<const CoxArrowApi*> Plugin(const std::string& address) {
  auto api = LoadArrowPlugin();
  if (!api.ok()) return Annotate(api.status(), address);
  return api;
}

absl::Status StatusOf(const std::string& address, int32_t code, const CoxArrowError& error) {
  if (code == 0) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(code),
                      absl::StrCat(address, ": ", error.message));
}

// What the store says of an address or of what lies in it, sorted.
absl::StatusOr<std::vector<RemoteEntry>> AskStore(const std::string& address,
                                                  Ask CoxArrowApi::*ask) {
  ASSIGN_OR_RETURN(const CoxArrowApi* const api, Plugin(address));
  const auto all = std::make_shared<std::vector<RemoteEntry>>();
  RETURN_IF_ERROR(CallStore(address, [api, ask, address, all] {
    CoxArrowError error = {};
    const auto add = [](void* context, const CoxArrowStored* found) {
      static_cast<std::vector<RemoteEntry>*>(context)->push_back(
          {found->address, found->is_directory != 0, found->bytes, found->modified_ns});
    };
    return StatusOf(address, (api->*ask)(address.c_str(), add, all.get(), &error), error);
  }));
  std::sort(all->begin(), all->end(),
            [](const RemoteEntry& a, const RemoteEntry& b) { return a.address < b.address; });
  return std::move(*all);
}

std::string NameOf(const std::string& address) {
  return address.substr(address.find_last_of('/') + 1);
}

// Part by part: only directories that match so far are listed.
absl::StatusOr<std::vector<std::string>> Matches(const std::string& pattern) {
  const std::vector<std::string> parts =
      absl::StrSplit(absl::string_view(pattern).substr(env::kS3.size()), '/', absl::SkipEmpty());
  if (parts.empty() || parts[0].find_first_of(kWildcards) != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(pattern, ": wanted a bucket's name, found a pattern"));
  }
  std::vector<std::string> matched = {absl::StrCat(env::kS3, parts[0])};
  for (size_t i = 1; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    std::vector<std::string> further;
    for (const std::string& directory : matched) {
      if (!last && parts[i].find_first_of(kWildcards) == std::string::npos) {
        further.push_back(absl::StrCat(directory, "/", parts[i]));
        continue;
      }
      const auto all = AskStore(directory, &CoxArrowApi::list_stored);
      if (absl::IsNotFound(all.status())) continue;
      RETURN_IF_ERROR(all.status());
      for (const RemoteEntry& found : *all) {
        const bool matches = MatchesName(parts[i], NameOf(found.address));
        if (matches && found.is_directory != last) further.push_back(found.address);
      }
    }
    matched = std::move(further);
  }
  if (matched.empty()) {
    return absl::NotFoundError(absl::StrCat(pattern, ": wanted files that match, found none"));
  }
  return matched;
}

// Shared by calls that nobody waits for any more.
using OpenedRead = std::shared_ptr<CoxArrowStoredRead>;
using OpenedFile = std::shared_ptr<CoxArrowStoredFile>;

// Runs `read`, which fills the bytes that it is given.
template <typename Read>
absl::Status ReadFromStore(const std::string& address, void* out, size_t bytes, Read read) {
  const std::shared_ptr<char[]> got(new char[bytes]);
  RETURN_IF_ERROR(CallStore(address, [address, got, read] {
    CoxArrowError error = {};
    return StatusOf(address, read(got.get(), &error), error);
  }));
  std::memcpy(out, got.get(), bytes);
  return absl::OkStatus();
}

class StoredRead final : public env::PendingRead {
 public:
  StoredRead(const CoxArrowApi* api, OpenedRead read, const std::string& address, size_t bytes)
      : api_(api), read_(std::move(read)), address_(address), bytes_(bytes) {}

  absl::Status Wait(void* out) override {
    return ReadFromStore(address_, out, bytes_,
                         [api = api_, read = read_](char* got, CoxArrowError* error) {
                           return api->take_read(read.get(), got, error);
                         });
  }

 private:
  const CoxArrowApi* const api_;
  const OpenedRead read_;
  const std::string address_;
  const size_t bytes_;
};

class StoredFile final : public env::RandomAccessFile {
 public:
  StoredFile(const CoxArrowApi* api, OpenedFile file, const CoxArrowStored& about)
      : RandomAccessFile(about.address, static_cast<uint64_t>(about.bytes), about.modified_ns),
        api_(api),
        file_(std::move(file)) {}

  std::unique_ptr<env::PendingRead> Start(uint64_t offset, size_t bytes) const override {
    if (bytes == 0 || offset > size() || bytes > size() - offset) return nullptr;
    CoxArrowStoredRead* read = nullptr;
    CoxArrowError error = {};
    const int32_t code = api_->start_read(file_.get(), static_cast<int64_t>(offset),
                                          static_cast<int64_t>(bytes), &read, &error);
    if (code != 0) return nullptr;
    return std::make_unique<StoredRead>(api_, OpenedRead(read, api_->drop_read), path(), bytes);
  }

 private:
  absl::Status ReadRange(uint64_t offset, char* out, size_t bytes) const override {
    if (bytes == 0) return absl::OkStatus();
    return ReadFromStore(
        path(), out, bytes,
        [api = api_, file = file_, offset, bytes](char* got, CoxArrowError* error) {
          return api->read_stored(file.get(), static_cast<int64_t>(offset),
                                  static_cast<int64_t>(bytes), got, error);
        });
  }

  const CoxArrowApi* const api_;
  const OpenedFile file_;
};

}  // namespace

absl::StatusOr<std::optional<RemoteEntry>> FindRemote(const std::string& address) {
  ASSIGN_OR_RETURN(std::vector<RemoteEntry> there, AskStore(address, &CoxArrowApi::find_stored));
  if (there.empty()) return std::nullopt;
  return std::move(there[0]);
}

absl::StatusOr<std::vector<RemoteEntry>> ListRemoteDirectory(const std::string& directory) {
  ASSIGN_OR_RETURN(std::vector<RemoteEntry> all, AskStore(directory, &CoxArrowApi::list_stored));
  std::erase_if(all, [](const RemoteEntry& found) {
    return found.is_directory || IsOthersName(NameOf(found.address));
  });
  if (!all.empty()) return all;
  return absl::NotFoundError(absl::StrCat(
      directory, ": wanted a file, found a directory without any (names that begin with '.' or ",
      "'_' do not count)"));
}

absl::StatusOr<std::vector<std::string>> ListRemoteFiles(const std::string& address) {
  ASSIGN_OR_RETURN(const std::optional<RemoteEntry> there, FindRemote(address));
  if (there && there->is_directory) {
    ASSIGN_OR_RETURN(const std::vector<RemoteEntry> files, ListRemoteDirectory(address));
    std::vector<std::string> addresses;
    for (const RemoteEntry& file : files) addresses.push_back(file.address);
    return addresses;
  }
  const bool pattern = address.find_first_of(kWildcards) != std::string::npos;
  if (!pattern || there) return std::vector<std::string>{address};
  return Matches(address);
}

absl::StatusOr<RemoteFile> OpenRemoteFile(const std::string& address) {
  ASSIGN_OR_RETURN(const CoxArrowApi* const api, Plugin(address));
  struct Opened {
    OpenedFile file;
    CoxArrowStored about = {};
  };
  const auto found = std::make_shared<Opened>();
  RETURN_IF_ERROR(CallStore(address, [api, address, found] {
    CoxArrowStoredFile* file = nullptr;
    CoxArrowError error = {};
    const int32_t code = api->open_stored(address.c_str(), &file, &found->about, &error);
    if (code == 0) found->file = OpenedFile(file, api->close_stored);
    return StatusOf(address, code, error);
  }));
  RemoteFile opened;
  opened.tag = found->about.tag;
  opened.file = std::make_unique<StoredFile>(api, found->file, found->about);
  return opened;
}

}  // namespace coxswain::data
