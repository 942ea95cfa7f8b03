// What processes leave that are killed while they write a file.
#include "runtime/env/unfinished_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

#include "runtime/env/cut_name.h"
#include "runtime/env/file_system.h"
#include "tests/testing/data_files.h"

namespace coxswain::env {
namespace {

namespace fs = std::filesystem;

TEST_CASE("files that a killed process left unfinished are removed, and nothing else", "[env]") {
  const DataFiles dir;
  const std::string path = dir.Write("r.json", "whole");
  const std::string left = dir.Write("r.json.71-3.tmp", "ha");
  for (const char* other : {"r.json.tmp", "r.json.71.tmp", "r.json.a-3.tmp", "r.json.71-3.tmp2",
                            "x.r.json.71-3.tmp", "s.json.71-3.tmp", "r.json.71-3-4.tmp"}) {
    dir.Write(other, "");
  }
  dir.Write("target", "mine");
  fs::create_symlink(dir.Path("target"), dir.Path("r.json.71-4.tmp"));
  fs::create_directory(dir.Path("r.json.71-5.tmp"));
  // Of a live process, whatever its number is.
  const std::string live = dir.Write("r.json.71-6.tmp", "ha");
  const int fd = open(live.c_str(), O_WRONLY | O_CLOEXEC);
  REQUIRE(flock(fd, LOCK_EX) == 0);
  int foreign = 0;
  if (geteuid() == 0) {
    foreign = 1;
    const std::string theirs = dir.Write("r.json.71-7.tmp", "");
    REQUIRE(chown(theirs.c_str(), 65534, 65534) == 0);
  }
  RemoveUnfinished(path);
  CHECK_FALSE(fs::exists(left));
  CHECK(std::distance(fs::directory_iterator(dir.Path("")), fs::directory_iterator()) ==
        12 + foreign);
  close(fd);
  RemoveUnfinished(path);
  CHECK_FALSE(fs::exists(live));
  CHECK(NewRealFileSystem()->Read(path).value() == "whole");
  RemoveUnfinished(dir.Path("none/r.json"));
}

TEST_CASE("a file of the longest name is written atomically, and what is left of it goes",
          "[env]") {
  const DataFiles dir;
  const auto files = NewRealFileSystem();
  // The last ones have characters of several bytes where a name is cut.
  for (const std::string& name : {std::string(255, 'r'), std::string(245, 'r'),
                                  "r" + std::string(216, 'r') + "\u00e4\u00f6\u00fc",
                                  std::string(218, 'r') + "\U0001f600\U0001f600\U0001f600"}) {
    CAPTURE(name);
    const std::string path = dir.Path(name);
    REQUIRE(files->WriteAtomically(path, "whole").ok());
    const std::string left = UnfinishedName(path, 4194304, UINT64_MAX);
    CHECK(fs::path(left).filename().string().size() <= 255);
    dir.Write(fs::path(left).filename().string(), "ha");
    REQUIRE(fs::exists(left));
    RemoveUnfinished(path);
    CHECK_FALSE(fs::exists(left));
    CHECK(files->Read(path).value() == "whole");
  }
  CHECK(absl::IsInternal(files->WriteAtomically(dir.Path(std::string(256, 'r')), "")));
}

TEST_CASE("a name is cut before a character that does not fit", "[env]") {
  const std::string full(255, 'a');
  CHECK(CutName("dir/" + full, 0) == "dir/" + full);
  CHECK(CutName("dir/" + full, 5) == "dir/" + std::string(250, 'a'));
  CHECK(CutName(full + "/b", 200) == full + "/b");
  CHECK(CutName(std::string(249, 'a') + "\u00e4\u00f6", 5) == std::string(249, 'a'));
  CHECK(CutName(std::string(248, 'a') + "\u00e4\u00f6", 5) == std::string(248, 'a') + "\u00e4");
}

TEST_CASE("a file that is written beside another goes unless it is moved into its place", "[env]") {
  const DataFiles dir;
  const std::string path = dir.Write("big.csv", "old");
  const auto files = NewRealFileSystem();
  std::string name;
  {
    const UnfinishedFile given_up = UnfinishedFile::Beside(path).value();
    name = given_up.path();
    RemoveUnfinished(path);
    CHECK(fs::exists(name));
  }
  CHECK_FALSE(fs::exists(name));
  {
    UnfinishedFile begun = UnfinishedFile::Beside(path).value();
    UnfinishedFile moved = std::move(begun);
    const auto file = files->Create(moved.path()).value();
    REQUIRE(file->Append("new", 3).ok());
    REQUIRE(file->Close().ok());
    CHECK(files->Read(path).value() == "old");
    REQUIRE(moved.MoveTo(files.get(), path).ok());
  }
  CHECK(files->Read(path).value() == "new");
  CHECK(std::distance(fs::directory_iterator(dir.Path("")), fs::directory_iterator()) == 1);
}

TEST_CASE("a file that is being written is never taken for a leftover", "[env]") {
  const DataFiles dir;
  const std::string path = dir.Path("r.json");
  const auto files = NewRealFileSystem();
  std::atomic<bool> over{false};
  std::thread remover([&] {
    while (!over) RemoveUnfinished(path);
  });
  int failed = 0;
  for (int i = 0; i < 300; ++i) failed += files->WriteAtomically(path, "text").ok() ? 0 : 1;
  over = true;
  remover.join();
  CHECK(failed == 0);
  CHECK(files->Read(path).value() == "text");
}

}  // namespace
}  // namespace coxswain::env
