#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/env/file_system.h"
#include "runtime/env/keep_access.h"
#include "runtime/env/system_error.h"
#include "runtime/env/unnamed_file.h"
#include "tests/testing/data_files.h"
#include "tests/testing/tiny_disk.h"

namespace coxswain::env {
namespace {

std::vector<std::string> MustList(FileSystem* files, const std::string& path) {
  auto names = files->List(path);
  REQUIRE(names.ok());
  return *names;
}

TEST_CASE("what was written atomically is read back, and nothing else is left", "[env]") {
  const auto files = NewRealFileSystem();
  const DataFiles dir;
  const std::string path = dir.Path("manifest.json");
  for (const std::string& content :
       {std::string("first"), std::string(), std::string(300000, 'x') + '\0' + "y"}) {
    REQUIRE(files->WriteAtomically(path, content).ok());
    auto back = files->Read(path);
    REQUIRE(back.ok());
    CHECK(*back == content);
  }
  CHECK(MustList(files.get(), dir.Path("")) == std::vector<std::string>{"manifest.json"});
}

TEST_CASE("a pipe or a directory in a file's place is refused, and nobody waits for it", "[env]") {
  const auto files = NewRealFileSystem();
  const DataFiles dir;
  const std::string pipe = dir.Path("model.json");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  for (const auto& [path, found] : {std::pair{pipe, "a pipe"}, {dir.Path(""), "a directory"}}) {
    const std::string wanted = absl::StrCat(path, ": wanted a file, found ", found);
    CHECK(absl::StrContains(files->Read(path).status().message(), wanted));
    CHECK(absl::StrContains(files->Map(path).status().message(), wanted));
  }
}

TEST_CASE("a link that somebody has put where an atomic write begins is not followed", "[env]") {
  const auto files = NewRealFileSystem();
  const DataFiles dir;
  const std::string victim = dir.Write("victim", "mine"), path = dir.Path("report.json");
  for (int i = 1; i < 3000; ++i) {  // whatever was written in this process before
    const std::string planted = absl::StrCat(path, ".", getpid(), "-", i, ".tmp");
    REQUIRE(symlink(victim.c_str(), planted.c_str()) == 0);
  }
  for (int i = 0; i < 3; ++i) {
    const absl::Status written = files->WriteAtomically(path, "a report");
    // After so many names that are taken it may give up, with an error that says so.
    if (written.ok()) CHECK(*files->Read(path) == "a report");
    CHECK(*files->Read(victim) == "mine");
  }
}

TEST_CASE("a reader never sees a part of a file that is written atomically", "[env]") {
  const auto files = NewRealFileSystem();
  const DataFiles dir;
  const std::string path = dir.Path("file");
  const auto content = [](int i) {
    return std::string(static_cast<size_t>(1000 + i * 777), static_cast<char>('a' + i));
  };
  REQUIRE(files->WriteAtomically(path, content(0)).ok());
  std::atomic<bool> stop{false};
  std::atomic<int> reads{0}, torn{0};
  std::thread reader([&] {
    while (!stop || reads < 3) {
      auto seen = files->Read(path);
      ++reads;
      if (!seen.ok() || seen->empty() || *seen != content((*seen)[0] - 'a')) ++torn;
    }
  });
  // Several writers of one file, too: the last one wins, whole.
  std::atomic<int> failed{0};
  std::vector<std::thread> writers;
  for (int w = 0; w < 2; ++w) {
    writers.emplace_back([&, w] {
      for (int i = 0; i < 25; ++i) {
        failed += !files->WriteAtomically(path, content((w * 10 + i) % 26)).ok();
      }
    });
  }
  for (std::thread& w : writers) w.join();
  stop = true;
  reader.join();
  CHECK(torn == 0);
  CHECK(failed == 0);
  CHECK(MustList(files.get(), dir.Path("")) == std::vector<std::string>{"file"});
}

TEST_CASE("a large file has every byte in its place, whatever the pieces", "[env]") {
  const auto files = NewRealFileSystem();
  const DataFiles dir;
  const std::string path = dir.Path("large");
  std::string wanted;
  auto file = files->CreateLarge(path);
  REQUIRE(file.ok());
  const auto append = [&](size_t bytes) {
    std::string piece(bytes, '\0');
    for (size_t i = 0; i < bytes; ++i) piece[i] = static_cast<char>((wanted.size() + i) * 31 >> 4);
    REQUIRE((*file)->Append(piece.data(), piece.size()).ok());
    wanted += piece;
  };
  const auto on_disk = [&] { return files->Read(path).value(); };
  append(3);
  append(4096 * 2 + 1);
  REQUIRE((*file)->Sync().ok());
  CHECK((on_disk() == wanted));
  append(0);
  append(size_t{5} << 20);
  append(17);
  REQUIRE((*file)->Sync().ok());
  CHECK((on_disk() == wanted));
  REQUIRE((*file)->Sync().ok());
  append((size_t{2} << 20) - wanted.size() % (size_t{2} << 20));  // to the end of a block
  REQUIRE((*file)->Sync().ok());
  CHECK((on_disk() == wanted));
  append(4097);
  append(4095);
  // Aligned memory, at a place that is and at one that is not.
  for (int i = 0; i < 2; ++i) {
    const size_t bytes = (size_t{1} << 20) + 5;
    const Buffer memory = Buffer::Allocate(bytes + kDirectBlock);
    char* piece = static_cast<char*>(memory.data());
    piece += kDirectBlock - reinterpret_cast<uintptr_t>(piece) % kDirectBlock;
    for (size_t j = 0; j < bytes; ++j) piece[j] = static_cast<char>(j * 7 >> 3);
    REQUIRE((*file)->Append(piece, bytes).ok());
    wanted.append(piece, bytes);
  }
  REQUIRE((*file)->Close().ok());
  CHECK((on_disk() == wanted));
}

TEST_CASE("a file system without direct writes takes large files too", "[env]") {
  const auto files = NewRealFileSystem();
  const std::string path = absl::StrCat("/dev/shm/coxswain-env-test-", getpid());
  auto file = files->CreateLarge(path);
  if (!file.ok()) {
    WARN("skipped: no /dev/shm: " << file.status());
    return;
  }
  REQUIRE((*file)->Append("hello", 5).ok());
  REQUIRE((*file)->Close().ok());
  CHECK(files->Read(path).value() == "hello");
  unlink(path.c_str());
}

// A limit on the size of files stands for a disk that is full.
TEST_CASE("a write that fails half way leaves the old file and nothing else", "[env]") {
  const auto files = NewRealFileSystem();
  const DataFiles dir;
  const std::string path = dir.Path("file");
  REQUIRE(files->WriteAtomically(path, "old").ok());
  rlimit before;
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 4096;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const absl::Status status = files->WriteAtomically(path, std::string(100000, 'n'));
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  INFO(status.ToString());
  CHECK_FALSE(status.ok());
  CHECK(absl::StrContains(status.message(), path));
  auto back = files->Read(path);
  REQUIRE(back.ok());
  CHECK(*back == "old");
  CHECK(MustList(files.get(), dir.Path("")) == std::vector<std::string>{"file"});
}

TEST_CASE("a file in a folder that is not there is an error that names it", "[env]") {
  const auto files = NewRealFileSystem();
  const DataFiles dir;
  const std::string path = dir.Path("missing/file");
  for (const absl::Status& status :
       {files->WriteAtomically(path, "x"), files->Create(path).status(), files->Read(path).status(),
        files->List(dir.Path("missing")).status(), files->Rename(path, dir.Path("b"))}) {
    INFO(status.ToString());
    CHECK(status.code() == absl::StatusCode::kNotFound);
    CHECK(absl::StrContains(status.message(), "missing"));
  }
  // A file where a folder is wanted, and the other way round.
  dir.Write("plain", "x");
  CHECK_FALSE(files->WriteAtomically(dir.Path("plain/file"), "x").ok());
  CHECK_FALSE(files->MakeDirs(dir.Path("plain/sub")).ok());
  REQUIRE(files->MakeDirs(dir.Path("folder/inner")).ok());
  CHECK_FALSE(files->WriteAtomically(dir.Path("folder"), "x").ok());
  CHECK_FALSE(files->Read(dir.Path("folder")).ok());
  CHECK(MustList(files.get(), dir.Path("")) == std::vector<std::string>{"folder", "plain"});
}

TEST_CASE("a file that is written atomically has the mode of the one before", "[env]") {
  const auto files = NewRealFileSystem();
  const DataFiles dir;
  const std::string path = dir.Write("report.json", "old");
  for (const auto mode : {0600, 0640, 0444}) {
    CAPTURE(mode);
    std::filesystem::permissions(path, static_cast<std::filesystem::perms>(mode));
    REQUIRE(files->WriteAtomically(path, "new").ok());
    CHECK(files->Read(path).value() == "new");
    CHECK(static_cast<int>(std::filesystem::status(path).permissions()) == mode);
  }
}

TEST_CASE("a file without its group gives that group's rights to nobody", "[env]") {
  if (geteuid() != 0) return;  // only the superuser can be somebody else
  const DataFiles dir;
  const std::string old = dir.Write("old", "x"), made = dir.Write("made", "x");
  REQUIRE(chown(old.c_str(), 0, 1) == 0);
  std::filesystem::permissions(old, static_cast<std::filesystem::perms>(0664));
  std::filesystem::permissions(dir.Path(""), std::filesystem::perms::all);
  REQUIRE(chown(made.c_str(), 65534, 65534) == 0);
  const gid_t group = getegid();
  REQUIRE(setegid(65534) == 0);
  REQUIRE(seteuid(65534) == 0);
  KeepAccess(old, made);
  REQUIRE(seteuid(0) == 0);
  REQUIRE(setegid(group) == 0);
  CHECK(static_cast<int>(std::filesystem::status(made).permissions()) == 0644);
  KeepAccess(old, made);
  CHECK(static_cast<int>(std::filesystem::status(made).permissions()) == 0664);
}

TEST_CASE("a folder that may not be written is PermissionDenied", "[env]") {
  const auto files = NewRealFileSystem();
  const DataFiles dir;
  const std::string path = dir.Path("locked/file");
  REQUIRE(files->MakeDirs(dir.Path("locked")).ok());
  std::filesystem::permissions(
      dir.Path("locked"), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  std::filesystem::permissions(dir.Path(""), std::filesystem::perms::all);
  // The superuser may write anywhere: be somebody else for a moment.
  const bool superuser = geteuid() == 0;
  if (superuser && seteuid(65534) != 0) return;
  const absl::Status status = files->WriteAtomically(path, "x");
  if (superuser) REQUIRE(seteuid(0) == 0);
  std::filesystem::permissions(dir.Path("locked"), std::filesystem::perms::all);
  INFO(status.ToString());
  CHECK(status.code() == absl::StatusCode::kPermissionDenied);
  CHECK(absl::StrContains(status.message(), "locked"));
  CHECK(MustList(files.get(), dir.Path("locked")).empty());
}

TEST_CASE("files are listed in order, renamed over others and removed with their folders",
          "[env]") {
  const auto files = NewRealFileSystem();
  const DataFiles dir;
  for (const char* name : {"b", "c", "a"}) dir.Write(name, name);
  CHECK(MustList(files.get(), dir.Path("")) == std::vector<std::string>{"a", "b", "c"});
  REQUIRE(files->Rename(dir.Path("a"), dir.Path("b")).ok());
  CHECK_FALSE(files->Exists(dir.Path("a")));
  CHECK(*files->Read(dir.Path("b")) == "a");
  REQUIRE(files->MakeDirs(dir.Path("x/y/z")).ok());
  REQUIRE(files->MakeDirs(dir.Path("x/y/z")).ok());  // there already
  dir.Write("x/y/z/file", "deep");
  REQUIRE(files->RemoveAll(dir.Path("x")).ok());
  CHECK_FALSE(files->Exists(dir.Path("x")));
  REQUIRE(files->RemoveAll(dir.Path("x")).ok());  // gone already
}

TEST_CASE("a file has as many names as it was linked under, and goes with the last", "[env]") {
  const auto files = NewRealFileSystem();
  const DataFiles dir;
  REQUIRE(files->WriteAtomically(dir.Path("a"), "content").ok());
  REQUIRE(files->Link(dir.Path("a"), dir.Path("b")).ok());
  CHECK(files->SyncDirectory(dir.Path("")).ok());
  REQUIRE(files->RemoveAll(dir.Path("a")).ok());
  CHECK(files->Read(dir.Path("b")).value() == "content");
  // What is written under one name leaves the others alone.
  REQUIRE(files->Link(dir.Path("b"), dir.Path("c")).ok());
  REQUIRE(files->WriteAtomically(dir.Path("c"), "other").ok());
  CHECK(files->Read(dir.Path("b")).value() == "content");
  const absl::Status there = files->Link(dir.Path("b"), dir.Path("c"));
  CHECK_FALSE(there.ok());
  const absl::Status gone = files->Link(dir.Path("a"), dir.Path("d"));
  CHECK(absl::IsNotFound(gone));
  CHECK(absl::StrContains(gone.message(), dir.Path("a")));
  CHECK_FALSE(files->SyncDirectory(dir.Path("nowhere")).ok());
}

TEST_CASE("space that a disk has not got is refused, and what it has is left to others", "[env]") {
  const DataFiles dir;
  const TinyDisk disk(dir.Path("disk"), "1m");
  if (!disk.mounted()) return;
  const int fd = OpenUnnamedFile(dir.Path("disk")).value();
  REQUIRE(SetAside(fd, dir.Path("disk"), 0, 64 << 10).ok());
  struct statvfs before {
  }, after{};
  REQUIRE(statvfs(dir.Path("disk").c_str(), &before) == 0);
  const absl::Status refused = SetAside(fd, dir.Path("disk"), 64 << 10, 2 << 20);
  CHECK(absl::IsResourceExhausted(refused));
  CHECK(absl::StrContains(refused.message(), "wanted 1.938 MiB in "));
  CHECK(absl::StrContains(refused.message(), "free are 960 KiB"));
  REQUIRE(statvfs(dir.Path("disk").c_str(), &after) == 0);
  CHECK(after.f_bavail == before.f_bavail);
  struct stat file {};
  REQUIRE(fstat(fd, &file) == 0);
  CHECK(file.st_size == 64 << 10);
  CHECK(SetAside(fd, dir.Path("disk"), 64 << 10, 128 << 10).ok());
  close(fd);
}

TEST_CASE("what room would help with is told from what else there is not enough of", "[env]") {
  for (const int error : {ENOSPC, EDQUOT}) CHECK(SaysNoRoom(SystemError(error, "write", "f")));
  for (const int error : {EMFILE, EFBIG, EACCES, EIO}) {
    CHECK_FALSE(SaysNoRoom(SystemError(error, "write", "f")));
  }
  CHECK_FALSE(SaysNoRoom(absl::ResourceExhaustedError("no memory for 8 bytes")));
  CHECK_FALSE(SaysNoRoom(absl::OkStatus()));
}

TEST_CASE("whether a group may write new files is for the umask to say", "[env]") {
  const auto files = NewRealFileSystem();
  const DataFiles dir;
  const mode_t before = umask(002);
  const auto mode = [&](const char* name) {
    struct stat info {};
    REQUIRE(stat(dir.Path(name).c_str(), &info) == 0);
    return info.st_mode & 0777;
  };
  const bool made = files->Create(dir.Path("a")).ok() && files->CreateLarge(dir.Path("b")).ok() &&
                    files->WriteAtomically(dir.Path("c"), "text").ok();
  umask(022);
  const bool private_too = files->Create(dir.Path("d")).ok();
  umask(before);
  REQUIRE(made);
  REQUIRE(private_too);
  for (const char* name : {"a", "b", "c"}) CHECK(mode(name) == 0664);
  CHECK(mode("d") == 0644);
}

TEST_CASE("a file may be written in pieces, synced and closed", "[env]") {
  const auto files = NewRealFileSystem();
  const DataFiles dir;
  auto file = files->Create(dir.Path("f"));
  REQUIRE(file.ok());
  REQUIRE((*file)->Append("one ", 4).ok());
  REQUIRE((*file)->Append("", 0).ok());
  REQUIRE((*file)->Append("two", 3).ok());
  REQUIRE((*file)->Sync().ok());
  REQUIRE((*file)->Close().ok());
  CHECK_FALSE((*file)->Append("late", 4).ok());
  CHECK(*files->Read(dir.Path("f")) == "one two");
}

}  // namespace
}  // namespace coxswain::env
