// Locks on files, names that change places, and directories that replace others.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/env/replace_directory.h"
#include "tests/testing/data_files.h"
#include "tests/testing/forwarding.h"

namespace coxswain::env {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

Names NamesIn(const std::string& directory) {
  return NewRealFileSystem()->List(directory).value_or(Names{"cannot be listed"});
}

std::string Content(const std::string& path) {
  return NewRealFileSystem()->Read(path).value_or("cannot be read");
}

TEST_CASE("a lock keeps others out until its holder lets go, and tells who that is", "[env]") {
  const auto files = NewRealFileSystem();
  const DataFiles dir;
  const std::string path = dir.Path("lock");
  auto first = files->Lock(path, "the first");
  REQUIRE(first.ok());
  CHECK((*first)->Held());
  const auto second = NewRealFileSystem()->Lock(path, "the second");
  CHECK(absl::IsUnavailable(second.status()));
  CHECK(absl::StrContains(second.status().message(), path));
  CHECK(Content(path) == "the first");
  first->reset();
  CHECK(Content(path).empty());
  auto third = files->Lock(path, "3");
  REQUIRE(third.ok());
  CHECK(Content(path) == "3");
  CHECK(NamesIn(dir.Path("")) == Names{"lock"});
}

TEST_CASE("a lock goes with its process when that is killed", "[env]") {
  const auto files = NewRealFileSystem();
  const DataFiles dir;
  const std::string path = dir.Path("lock");
  int told[2];
  REQUIRE(pipe(told) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto lock = NewRealFileSystem()->Lock(path, "the child");
    const char ok = lock.ok() ? 1 : 0;
    if (write(told[1], &ok, 1) == 1) pause();
    _exit(1);
  }
  REQUIRE(child > 0);
  char ok = 0;
  REQUIRE(read(told[0], &ok, 1) == 1);
  CHECK(ok == 1);
  CHECK(absl::IsUnavailable(files->Lock(path, "me").status()));
  kill(child, SIGKILL);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  CHECK(files->Lock(path, "me").ok());
  close(told[0]);
  close(told[1]);
}

TEST_CASE("a lock that is taken over is lost by who had it, and kept by who took it", "[env]") {
  const auto files = NewRealFileSystem();
  const DataFiles dir;
  const std::string path = dir.Path("lock");
  auto old = files->Lock(path, "old");
  REQUIRE(old.ok());
  auto taken = files->TakeLock(path, "new");
  REQUIRE(taken.ok());
  CHECK_FALSE((*old)->Held());
  CHECK((*taken)->Held());
  CHECK(Content(path) == "new");
  old->reset();  // what it lets go is no lock any more
  CHECK(absl::IsUnavailable(files->Lock(path, "third").status()));
  CHECK(Content(path) == "new");
  taken->reset();
  CHECK(files->Lock(path, "third").ok());
  CHECK(NamesIn(dir.Path("")) == Names{"lock"});
  // Nobody took the lock of a file that was removed.
  auto lost = files->Lock(path, "fourth");
  REQUIRE(lost.ok());
  fs::remove(path);
  CHECK((*lost)->Held());
}

TEST_CASE("a file's size is known without reading it", "[env]") {
  const auto files = NewRealFileSystem();
  const DataFiles dir;
  CHECK(files->Size(dir.Write("file", "12345")).value() == 5);
  CHECK(absl::IsNotFound(files->Size(dir.Path("none")).status()));
}

// The real file system without the step that exchanges two names, which fails where a test wants.
class OldFileSystem final : public testing::ForwardingFileSystem {
 public:
  absl::Status Exchange(const std::string& a, const std::string& b) override {
    return exchanges ? ForwardingFileSystem::Exchange(a, b) : FileSystem::Exchange(a, b);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (++renames == failing) return absl::PermissionDeniedError("not this one");
    return ForwardingFileSystem::Rename(from, to);
  }
  bool exchanges = false;
  int renames = 0, failing = 0;
};

struct Replaced {
  explicit Replaced(OldFileSystem* files) : files(files), target(dir.Path("model")) {
    // What a user may have beside it.
    fs::create_directories(dir.Path("model.old"));
    fs::create_directories(dir.Path("model.tmp"));
    NewDirectory directory = MakeDirectoryBeside(files, target).value();
    made = directory.path;
    lock = std::move(directory.lock);
    std::filesystem::create_directory(target);
    dir.Write("model/old", "old");
    REQUIRE(files->WriteAtomically(absl::StrCat(made, "/new"), "new").ok());
    files->renames = 0;
  }
  absl::Status Run() {
    return ReplaceDirectory(
        files, NewDirectory{made, nullptr}, target, [this](const std::string& path) {
          asked.push_back(path);
          return static_cast<int>(asked.size()) == refused ? absl::FailedPreconditionError("no")
                                                           : absl::OkStatus();
        });
  }
  const DataFiles dir;
  OldFileSystem* files;
  std::string target, made;
  std::unique_ptr<FileLock> lock;
  Names asked;
  int refused = 0;
};

TEST_CASE("a directory takes the place of another, and nothing else is touched", "[env]") {
  for (const bool exchanges : {true, false}) {
    INFO(exchanges);
    OldFileSystem files;
    files.exchanges = exchanges;
    Replaced r(&files);
    REQUIRE(r.Run().ok());
    CHECK(NamesIn(r.target) == Names{"new"});
    CHECK(NamesIn(r.dir.Path("")) == Names{"model", "model.old", "model.tmp"});
    CHECK(r.asked.size() == 2);  // once more when it is out of everybody's way
  }
}

TEST_CASE("a directory has the mode of the one that it replaces, and is as private before",
          "[env]") {
  for (const int mode : {0700, 02750, 0555}) {
    for (const bool exchanges : {true, false}) {
      for (const bool empty : {true, false}) {
        CAPTURE(mode, exchanges, empty);
        OldFileSystem files;
        files.exchanges = exchanges;
        Replaced r(&files);
        if (empty) fs::remove(r.dir.Path("model/old"));
        fs::permissions(r.target, static_cast<fs::perms>(mode));
        const auto mode_of = [](const std::string& path) {
          return static_cast<int>(fs::status(path).permissions());
        };
        const NewDirectory other = MakeDirectoryBeside(&files, r.target).value();
        CHECK(mode_of(other.path) == (mode | 0700));
        REQUIRE(r.Run().ok());
        CHECK(NamesIn(r.target) == Names{"new"});
        CHECK(mode_of(r.target) == mode);
      }
    }
  }
}

TEST_CASE("a directory that cannot be replaced is there as before, whatever fails", "[env]") {
  for (const bool exchanges : {true, false}) {
    for (int failing = 1; failing <= 2; ++failing) {
      for (const bool refuse : {true, false}) {
        if (exchanges && !refuse) continue;  // it is one step
        CAPTURE(exchanges, failing, refuse);
        OldFileSystem files;
        files.exchanges = exchanges;
        Replaced r(&files);
        (refuse ? r.refused : files.failing) = failing;
        CHECK_FALSE(r.Run().ok());
        CHECK(NamesIn(r.target) == Names{"old"});
        CHECK(NamesIn(r.made) == Names{"new"});
        CHECK(NamesIn(r.dir.Path("")).size() == 4);
      }
    }
  }
}

TEST_CASE("a directory takes a place that is free or empty", "[env]") {
  OldFileSystem files;
  for (const bool empty : {false, true}) {
    Replaced r(&files);
    fs::remove_all(r.target);
    if (empty) fs::create_directory(r.target);
    REQUIRE(r.Run().ok());
    CHECK(NamesIn(r.target) == Names{"new"});
  }
  // Names are its own, also of two at once.
  const DataFiles dir;
  const NewDirectory one = MakeDirectoryBeside(&files, dir.Path("a/b/model")).value();
  const NewDirectory two = MakeDirectoryBeside(&files, dir.Path("a/b/model")).value();
  CHECK(one.path != two.path);
  CHECK(NamesIn(dir.Path("a/b")).size() == 2);
}

TEST_CASE("what a process left that was killed while it wrote goes, and nothing of others",
          "[env]") {
  OldFileSystem files;
  const DataFiles dir;
  const std::string target = dir.Path("model");
  NewDirectory left = MakeDirectoryBeside(&files, target).value();
  REQUIRE(files.WriteAtomically(left.path + "/half", "half").ok());
  // Names that look like it: a user's, and another target's.
  for (const char* name :
       {"model.0123456789abcdef.tmp", "model.tmp", "models.0123456789abcdef.tmp"}) {
    fs::create_directories(dir.Path(name));
  }
  dir.Write(std::string("models.0123456789abcdef.tmp/") + kBeingWritten, "");
  const size_t before = NamesIn(dir.Path("")).size();
  const NewDirectory beside = MakeDirectoryBeside(&files, target).value();
  CHECK(NamesIn(dir.Path("")).size() == before + 1);  // that one is still being written
  left.lock.reset();
  const NewDirectory next = MakeDirectoryBeside(&files, target).value();
  CHECK_FALSE(fs::exists(left.path));
  CHECK(fs::exists(beside.path));
  CHECK(NamesIn(dir.Path("")).size() == before + 1);
}

TEST_CASE("what was left goes only where it holds nothing but what the writer makes", "[env]") {
  OldFileSystem files;
  const DataFiles dir;
  const std::string target = dir.Path("model");
  const auto is_part = [](const std::string& name) { return name == "part" || name == "in/part"; };
  // Each with the lock's file and a part.
  const auto leave = [&](const std::string& digits) {
    const std::string left = absl::StrCat(target, ".", digits, ".tmp");
    fs::create_directories(left + "/in");
    for (const char* name : {kBeingWritten, "part", "in/part"}) {
      REQUIRE(files.WriteAtomically(absl::StrCat(left, "/", name), "").ok());
    }
    return left;
  };
  const std::string ours = leave("0000000000000001"), noted = leave("0000000000000002"),
                    linked = leave("0000000000000003");
  REQUIRE(files.WriteAtomically(noted + "/in/notes", "mine").ok());
  fs::remove(linked + "/part");
  dir.Write("elsewhere", "mine");
  fs::create_symlink(dir.Path("elsewhere"), linked + "/part");
  // A link of such a name, to a directory that looks like one.
  fs::rename(leave("0000000000000004"), dir.Path("target"));
  fs::create_directory_symlink(dir.Path("target"), target + ".0000000000000004.tmp");
  const NewDirectory made = MakeDirectoryBeside(&files, target, is_part).value();
  CHECK_FALSE(fs::exists(ours));
  CHECK(NamesIn(noted) == Names{kBeingWritten, "in", "part"});
  CHECK(NamesIn(linked) == Names{kBeingWritten, "in", "part"});
  CHECK(NamesIn(dir.Path("target")) == Names{kBeingWritten, "in", "part"});
  if (geteuid() != 0) return;
  const std::string foreign = leave("0000000000000005");
  REQUIRE(chown(foreign.c_str(), 65534, 65534) == 0);
  MakeDirectoryBeside(&files, target, is_part).value();
  CHECK(fs::exists(foreign));
}

// Killed, as it were, while the old directory is removed: its second file stays.
class KilledFileSystem final : public testing::ForwardingFileSystem {
 public:
  absl::Status RemoveAll(const std::string& path) override {
    if (kill && absl::StrContains(path, ".tmp") && !absl::EndsWith(path, kBeingWritten) &&
        ++removed > 1) {
      return absl::AbortedError("killed");
    }
    return ForwardingFileSystem::RemoveAll(path);
  }
  bool kill = true;
  int removed = 0;
};

TEST_CASE("what is left of a directory that was being replaced goes with the next save", "[env]") {
  KilledFileSystem files;
  const DataFiles dir;
  const std::string target = dir.Path("model");
  fs::create_directory(target);
  dir.Write("model/a", "old");
  dir.Write("model/b", "old");
  NewDirectory made = MakeDirectoryBeside(&files, target).value();
  REQUIRE(files.WriteAtomically(made.path + "/a", "new").ok());
  REQUIRE(ReplaceDirectory(&files, std::move(made), target, [](const std::string&) {
            return absl::OkStatus();
          }).ok());
  CHECK(NamesIn(target) == Names{"a"});
  CHECK(NamesIn(dir.Path("")).size() == 2);
  files.kill = false;
  MakeDirectoryBeside(&files, target).value();
  const Names names = NamesIn(dir.Path(""));
  CHECK(names.size() == 2);  // the one that was made last, and not the old one
  for (const std::string& name : names) CHECK_FALSE(fs::exists(dir.Path(name) + "/b"));
}

}  // namespace
}  // namespace coxswain::env
