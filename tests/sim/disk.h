// The disk that all nodes of a simulated world share.
//
// What was not synced when its writer dies is lost, but for a prefix of it. A rename is atomic and,
// as production's syncs the directory, lasts; a link may be lost with who made it before its
// directory is synced. A lock goes with the process that has it. The disk can be full for a while,
// links may be impossible, and bits can rot.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/env/file_system.h"
#include "tests/sim/world.h"

namespace coxswain::sim {

class Disk {
 public:
  explicit Disk(World* world) : world_(world) {}

  // The disk as one process sees it. The disk must outlive it.
  std::unique_ptr<env::FileSystem> NewFileSystem(LifePtr life);

  // Its unsynced bytes are lost, but for a prefix.
  void OnDeath(const Life* life);
  void set_full(bool full) { full_ = full; }
  bool full() const { return full_; }
  // Whether a file can have a second name.
  void set_links(bool can) { can_link_ = can; }
  // Changes one byte of a file below `directory`; false when there is none with bytes.
  bool Rot(const std::string& directory);

  // Names in a directory, sorted; for tests.
  std::vector<std::string> List(const std::string& path) const;
  int64_t torn_files() const { return torn_; }

 private:
  friend class SimFileSystem;
  friend class SimFile;
  friend class SimFileLock;
  struct File {
    std::string content;
    size_t synced = 0;
    uint64_t writer = 0;  // the life that has it open for writing
  };
  using FilePtr = std::shared_ptr<File>;
  struct Lock {
    uint64_t number = 0;
    uint64_t life = 0;  // whose it is
  };

  // The links in this directory last.
  void SyncLinks(const std::string& directory);
  bool IsDir(const std::string& path) const { return path.empty() || dirs_.count(path) > 0; }

  World* const world_;
  bool full_ = false;
  bool can_link_ = true;
  int64_t torn_ = 0;
  std::map<std::string, uint64_t> unsynced_links_;  // and the lives that made them
  std::map<std::string, FilePtr> files_;
  std::map<std::string, Lock> locks_;  // by path
  uint64_t last_lock_ = 0;
  std::set<std::string> dirs_;
};

}  // namespace coxswain::sim
