#include "tests/sim/disk.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain::sim {
namespace {

std::string Clean(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string Parent(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

absl::Status Error(absl::StatusCode code, absl::string_view action, const std::string& path,
                   absl::string_view reason) {
  return absl::Status(code, absl::StrCat("cannot ", action, " ", path, ": ", reason));
}

// What a call of a dead process gets, should one still be under way.
absl::Status Dead(const std::string& path) {
  return Error(absl::StatusCode::kInternal, "reach", path, "the process is dead");
}

absl::Status Full(absl::string_view action, const std::string& path) {
  return Error(absl::StatusCode::kResourceExhausted, action, path, "no space left on device");
}

absl::Status Missing(absl::string_view action, const std::string& path) {
  return Error(absl::StatusCode::kNotFound, action, path, "no such file or directory");
}

}  // namespace

class SimFile final : public env::WritableFile {
 public:
  SimFile(Disk* disk, LifePtr life, std::string path, Disk::FilePtr file)
      : disk_(disk), life_(std::move(life)), path_(std::move(path)), file_(std::move(file)) {}

  absl::Status Append(const void* data, size_t bytes) override {
    if (!life_->alive) return Dead(path_);
    if (disk_->full_) {
      // As much as there was room for.
      const size_t some =
          static_cast<size_t>(disk_->world_->random().Below(static_cast<int64_t>(bytes) + 1));
      file_->content.append(static_cast<const char*>(data), some);
      return Full("write", path_);
    }
    file_->content.append(static_cast<const char*>(data), bytes);
    return absl::OkStatus();
  }
  absl::Status Sync() override {
    if (!life_->alive) return Dead(path_);
    if (disk_->full_ && disk_->world_->random().Chance(0.2)) return Full("sync", path_);
    file_->synced = file_->content.size();
    return absl::OkStatus();
  }
  absl::Status Close() override { return life_->alive ? absl::OkStatus() : Dead(path_); }

 private:
  Disk* const disk_;
  const LifePtr life_;
  const std::string path_;
  const Disk::FilePtr file_;
};

class SimFileLock final : public env::FileLock {
 public:
  SimFileLock(Disk* disk, LifePtr life, std::string path, uint64_t number)
      : disk_(disk), life_(std::move(life)), path_(std::move(path)), number_(number) {}
  ~SimFileLock() override {
    if (life_->alive && Held()) disk_->locks_.erase(path_);
  }
  bool Held() override {
    const auto it = disk_->locks_.find(path_);
    return it != disk_->locks_.end() && it->second.number == number_;
  }

 private:
  Disk* const disk_;
  const LifePtr life_;
  const std::string path_;
  const uint64_t number_;
};

class SimFileSystem final : public env::FileSystem {
 public:
  SimFileSystem(Disk* disk, LifePtr life) : disk_(disk), life_(std::move(life)) {}

  absl::StatusOr<std::string> Read(const std::string& path) override {
    if (!life_->alive) return Dead(path);
    const auto it = disk_->files_.find(Clean(path));
    if (it == disk_->files_.end()) return Missing("open", path);
    return it->second->content;
  }

  absl::StatusOr<Buffer> Map(const std::string& path) override {
    ASSIGN_OR_RETURN(const std::string content, Read(path));
    if (content.empty()) return Buffer();
    Buffer buffer = Buffer::Allocate(content.size());
    std::memcpy(buffer.data(), content.data(), content.size());
    return buffer;
  }

  absl::StatusOr<uint64_t> Size(const std::string& path) override {
    if (!life_->alive) return Dead(path);
    const auto it = disk_->files_.find(Clean(path));
    if (it == disk_->files_.end()) return Missing("stat", path);
    return it->second->content.size();
  }

  absl::StatusOr<std::unique_ptr<env::WritableFile>> Create(const std::string& path) override {
    if (!life_->alive) return Dead(path);
    const std::string name = Clean(path);
    if (!disk_->IsDir(Parent(name))) return Missing("create", path);
    if (disk_->IsDir(name)) {
      return Error(absl::StatusCode::kInternal, "create", path, "is a directory");
    }
    if (disk_->full_) return Full("create", path);
    // A file that is there is emptied, under all of its names.
    Disk::FilePtr& file = disk_->files_[name];
    if (file == nullptr) file = std::make_shared<Disk::File>();
    file->content.clear();
    file->synced = 0;
    file->writer = life_->number;
    Note("creates", name);
    return std::make_unique<SimFile>(disk_, life_, name, file);
  }

  absl::Status WriteAtomically(const std::string& path, absl::string_view content) override {
    const std::string temporary = absl::StrCat(Clean(path), ".", life_->number, ".tmp");
    ASSIGN_OR_RETURN(auto file, Create(temporary));
    absl::Status s = file->Append(content.data(), content.size());
    if (s.ok()) s = file->Sync();
    if (s.ok()) s = file->Close();
    if (s.ok()) s = Rename(temporary, path);
    if (!s.ok() && life_->alive) disk_->files_.erase(temporary);
    return s;
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (!life_->alive) return Dead(from);
    const std::string source = Clean(from), target = Clean(to);
    if (!disk_->IsDir(Parent(target))) return Missing("rename", from);
    Note("renames to", target);
    disk_->SyncLinks(Parent(target));
    if (const auto it = disk_->files_.find(source); it != disk_->files_.end()) {
      disk_->files_[target] = it->second;
      disk_->files_.erase(source);
      return absl::OkStatus();
    }
    if (!disk_->IsDir(source)) return Missing("rename", from);
    return RenameDir(source, target, from);
  }

  absl::Status Link(const std::string& from, const std::string& to) override {
    if (!life_->alive) return Dead(from);
    const std::string target = Clean(to);
    const auto it = disk_->files_.find(Clean(from));
    if (it == disk_->files_.end() || !disk_->IsDir(Parent(target))) return Missing("link", from);
    if (!disk_->can_link_) {
      return Error(absl::StatusCode::kInternal, "link", from, "operation not supported");
    }
    if (disk_->files_.count(target) > 0 || disk_->IsDir(target)) {
      return Error(absl::StatusCode::kInternal, "link", from, "file exists");
    }
    if (disk_->full_ && disk_->world_->random().Chance(0.5)) return Full("link", from);
    Note("links", target);
    disk_->files_[target] = it->second;
    disk_->unsynced_links_[target] = life_->number;
    return absl::OkStatus();
  }

  absl::Status SyncDirectory(const std::string& path) override {
    if (!life_->alive) return Dead(path);
    if (!disk_->IsDir(Clean(path))) return Missing("sync", path);
    if (disk_->full_ && disk_->world_->random().Chance(0.2)) return Full("sync", path);
    disk_->SyncLinks(Clean(path));
    return absl::OkStatus();
  }

  absl::Status MakeDirs(const std::string& path) override {
    if (!life_->alive) return Dead(path);
    std::string name = Clean(path);
    if (disk_->files_.count(name) > 0) {
      return Error(absl::StatusCode::kInternal, "create directory", path, "file exists");
    }
    if (!disk_->IsDir(name) && disk_->full_) return Full("create directory", path);
    for (; !disk_->IsDir(name); name = Parent(name)) disk_->dirs_.insert(name);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    if (!life_->alive) return Dead(path);
    if (!disk_->IsDir(Clean(path))) return Missing("list", path);
    return disk_->List(path);
  }

  absl::Status RemoveAll(const std::string& path) override {
    if (!life_->alive) return Dead(path);
    const std::string name = Clean(path), below = absl::StrCat(name, "/");
    Note("removes", name);
    disk_->files_.erase(name);
    disk_->dirs_.erase(name);
    disk_->unsynced_links_.erase(name);
    disk_->SyncLinks(name);  // they are gone
    for (auto it = disk_->files_.lower_bound(below);
         it != disk_->files_.end() && absl::StartsWith(it->first, below);) {
      it = disk_->files_.erase(it);
    }
    for (auto it = disk_->dirs_.lower_bound(below);
         it != disk_->dirs_.end() && absl::StartsWith(*it, below);) {
      it = disk_->dirs_.erase(it);
    }
    return absl::OkStatus();
  }

  bool Exists(const std::string& path) override {
    const std::string name = Clean(path);
    return disk_->IsDir(name) || disk_->files_.count(name) > 0;
  }

  absl::StatusOr<std::unique_ptr<env::FileLock>> Lock(const std::string& path,
                                                      absl::string_view content) override {
    if (!life_->alive) return Dead(path);
    if (disk_->locks_.count(Clean(path)) > 0) {
      return Error(absl::StatusCode::kUnavailable, "lock", path, "it is locked");
    }
    return TakeLock(path, content);
  }

  absl::StatusOr<std::unique_ptr<env::FileLock>> TakeLock(const std::string& path,
                                                          absl::string_view content) override {
    if (!life_->alive) return Dead(path);
    const std::string name = Clean(path);
    if (!disk_->IsDir(Parent(name))) return Missing("lock", path);
    auto file = std::make_shared<Disk::File>();
    file->content = std::string(content);
    file->synced = file->content.size();
    disk_->files_[name] = std::move(file);
    const uint64_t number = ++disk_->last_lock_;
    disk_->locks_[name] = {number, life_->number};
    Note("locks", name);
    return std::make_unique<SimFileLock>(disk_, life_, name, number);
  }

 private:
  absl::Status RenameDir(const std::string& source, const std::string& target,
                         const std::string& from) {
    const std::string below = absl::StrCat(source, "/");
    if (disk_->files_.count(target) > 0 || !disk_->List(target).empty()) {
      return Error(absl::StatusCode::kInternal, "rename", from, "directory not empty");
    }
    std::map<std::string, Disk::FilePtr> files;
    std::set<std::string> dirs;
    for (auto& [path, file] : disk_->files_) {
      files[absl::StartsWith(path, below) ? absl::StrCat(target, "/", path.substr(below.size()))
                                          : path] = file;
    }
    for (const std::string& path : disk_->dirs_) {
      dirs.insert(absl::StartsWith(path, below)
                      ? absl::StrCat(target, "/", path.substr(below.size()))
                      : path);
    }
    dirs.erase(source);
    dirs.insert(target);
    disk_->files_ = std::move(files);
    disk_->dirs_ = std::move(dirs);
    return absl::OkStatus();
  }

  void Note(const char* what, const std::string& path) {
    disk_->world_->Note(kNoteFile, life_->number, HashBytes(path.data(), path.size()),
                        [&] { return absl::StrCat(life_->name, " ", what, " ", path); });
  }

  Disk* const disk_;
  const LifePtr life_;
};

std::unique_ptr<env::FileSystem> Disk::NewFileSystem(LifePtr life) {
  return std::make_unique<SimFileSystem>(this, std::move(life));
}

void Disk::SyncLinks(const std::string& directory) {
  std::erase_if(unsynced_links_,
                [&directory](const auto& link) { return Parent(link.first) == directory; });
}

void Disk::OnDeath(const Life* life) {
  std::erase_if(locks_, [life](const auto& lock) { return lock.second.life == life->number; });
  for (auto it = unsynced_links_.begin(); it != unsynced_links_.end();) {
    const auto link = it++;
    if (link->second != life->number) continue;
    if (world_->random().Chance(0.5)) files_.erase(link->first);
    unsynced_links_.erase(link);
  }
  for (auto& [path, file] : files_) {
    if (file->writer != life->number || file->synced == file->content.size()) continue;
    const auto lost = static_cast<int64_t>(file->content.size() - file->synced);
    file->content.resize(file->synced + static_cast<size_t>(world_->random().Below(lost + 1)));
    file->synced = file->content.size();
    ++torn_;
    world_->Note(kNoteFile, life->number, file->content.size(),
                 [&path = path] { return absl::StrCat(path, " is torn"); });
  }
}

bool Disk::Rot(const std::string& directory) {
  const std::string below = absl::StrCat(Clean(directory), "/");
  std::vector<std::pair<std::string, FilePtr>> candidates;
  for (const auto& [path, file] : files_) {
    if (absl::StartsWith(path, below) && !file->content.empty()) candidates.push_back({path, file});
  }
  if (candidates.empty()) return false;
  const auto& [path, file] = candidates[static_cast<size_t>(
      world_->random().Below(static_cast<int64_t>(candidates.size())))];
  const auto at =
      static_cast<size_t>(world_->random().Below(static_cast<int64_t>(file->content.size())));
  file->content[at] = static_cast<char>(file->content[at] ^ (1 << world_->random().Below(8)));
  world_->Note(kNoteFile, 0, at, [&path = path, at] {
    return absl::StrCat("a bit of ", path, " flips, at byte ", at);
  });
  return true;
}

std::vector<std::string> Disk::List(const std::string& path) const {
  const std::string below = absl::StrCat(Clean(path), "/");
  std::set<std::string> names;
  for (auto it = files_.lower_bound(below);
       it != files_.end() && absl::StartsWith(it->first, below); ++it) {
    names.insert(it->first.substr(below.size(), it->first.find('/', below.size()) - below.size()));
  }
  for (auto it = dirs_.lower_bound(below); it != dirs_.end() && absl::StartsWith(*it, below);
       ++it) {
    names.insert(it->substr(below.size(), it->find('/', below.size()) - below.size()));
  }
  return {names.begin(), names.end()};
}

}  // namespace coxswain::sim
