// Commands that read a directory of checkpoints, of which the newest is damaged.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/env/file_system.h"
#include "tests/integration/jobs.h"
#include "tests/testing/checkpoints.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
namespace fs = std::filesystem;

// Two checkpoints of a job that is over, the newest first.
struct TwoCheckpoints {
  TwoCheckpoints() {
    const auto trained =
        Coxswain({"train", WriteTwoTower(files), "--in-process", "--quiet", "--checkpoint-dir",
                  directory, "--set", "checkpoint.every_steps=60", "--set", "checkpoint.keep=2",
                  "--set", "evaluate.metrics=[hit_rate@3]"});
    INFO(trained.err);
    REQUIRE(trained.code == 0);
    for (const auto& entry : fs::directory_iterator(directory)) {
      const std::string name = entry.path().filename().string();
      if (const auto number = checkpoint::ParseCheckpointName(name)) numbers.push_back(*number);
    }
    std::sort(numbers.rbegin(), numbers.rend());
    REQUIRE(numbers.size() == 2);
    rows = files.Write("rows.csv", "history\ni1|i2\ni9\n");
  }
  std::string Path(size_t i) const {
    return absl::StrCat(directory, "/", checkpoint::CheckpointName(numbers[i]));
  }
  // A file of rows that the other checkpoint does not share.
  std::string RowsFile(size_t i) const {
    std::string found;
    for (const auto& entry : fs::directory_iterator(Path(i))) {
      if (entry.path().extension() == ".safetensors" && fs::hard_link_count(entry.path()) == 1) {
        found = std::max(found, entry.path().string());
      }
    }
    REQUIRE(!found.empty());
    return found;
  }
  std::vector<std::vector<std::string>> Commands() const {
    const std::string out = files.Path("out");
    return {{"predict", "--input", rows},
            {"recommend", "--user", "u1"},
            {"nearest", "--table", "item", "i3"},
            {"eval"},
            {"export", "--to", "safetensors", "--out", out, "--force"}};
  }
  Process::Result Run(std::vector<std::string> command, std::vector<std::string> more = {}) const {
    command.insert(command.end(), {"--checkpoint-dir", directory});
    command.insert(command.end(), more.begin(), more.end());
    return Coxswain(command);
  }

  DataFiles files;
  std::string directory = files.Path("checkpoints"), rows;
  std::vector<uint64_t> numbers;
};

TEST_CASE("commands read the checkpoint before the newest where that is damaged, and say so",
          "[checkpoint][cli]") {
  const TwoCheckpoints c;
  const auto real = env::NewRealFileSystem();
  const std::string file = c.RowsFile(0), manifest = c.Path(0) + "/manifest.json";
  const std::string rows = real->Read(file).value(), text = real->Read(manifest).value();
  const std::vector<std::pair<std::string, std::function<void()>>> damages = {
      {file, [&] { FlipByte(real.get(), file, rows.size() - 1); }},
      {file, [&] { fs::resize_file(file, rows.size() / 2); }},
      {file, [&] { fs::remove(file); }},
      {manifest, [&] { FlipByte(real.get(), manifest, 50); }},
      {manifest, [&] { fs::remove(manifest); }}};
  const std::string newest = absl::StrCat(c.numbers[0]), before = absl::StrCat(c.numbers[1]);
  for (size_t d = 0; d < damages.size(); ++d) {
    REQUIRE(real->WriteAtomically(file, rows).ok());
    REQUIRE(real->WriteAtomically(manifest, text).ok());
    damages[d].second();
    for (const std::vector<std::string>& command : c.Commands()) {
      const auto told = c.Run(command);
      CAPTURE(d, command, told.out, told.err);
      REQUIRE(told.code == 0);
      CHECK_THAT(told.err,
                 Contains("not used: " + damages[d].first) &&
                     Contains("; " + fs::path(c.Path(1)).filename().string() + " is used instead"));
      CHECK(told.out == c.Run(command, {"--checkpoint", before}).out);
      // What is asked for by its number is that one.
      const auto alone = c.Run(command, {"--checkpoint", newest});
      CAPTURE(alone.out, alone.err);
      CHECK(alone.code == 3);
      CHECK_THAT(alone.err, Contains(damages[d].first));
    }
  }
  // A table's few rows are read without all others: of sizes and manifests it tells, too.
  const auto lookup = c.Run({"table", "lookup", "item", "i3"});
  CHECK(lookup.code == 0);
  CHECK_THAT(lookup.err, StartsWith("not used: " + manifest));
}

TEST_CASE("where no checkpoint is good, commands end with code 3 and say why the newest is not",
          "[checkpoint][cli]") {
  const TwoCheckpoints c;
  fs::resize_file(c.RowsFile(1), 10);
  fs::remove(c.Path(0) + "/manifest.json");
  for (const std::vector<std::string>& command : c.Commands()) {
    const auto told = c.Run(command);
    CAPTURE(command, told.out, told.err);
    CHECK(told.code == 3);
    CHECK_THAT(told.err, Contains("error: none of the 2 checkpoints in " + c.directory) &&
                             Contains(c.Path(0) + "/manifest.json: the file is missing"));
  }
}

TEST_CASE("what a job keeps of its features is held against its checksum by eval, too",
          "[checkpoint][cli]") {
  const TwoCheckpoints c;
  const auto real = env::NewRealFileSystem();
  const std::string file = c.directory + "/inputs/features.json";
  std::string text = real->Read(file).value();
  // Still good JSON, of another hash.
  const size_t digit = text.find_last_of("0123456789");
  REQUIRE(digit != std::string::npos);
  text[digit] = text[digit] == '1' ? '2' : '1';
  REQUIRE(real->WriteAtomically(file, text).ok());
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"eval", "--checkpoint-dir", c.directory},
        {"eval", "--follow", c.directory, "--until-finished"}}) {
    const auto told = Coxswain(command);
    CAPTURE(command, told.out, told.err);
    CHECK(told.code == 3);
    CHECK_THAT(told.err, Contains("features.json"));
  }
}

TEST_CASE(
    "a vocabulary that is missing beside checkpoints is told, and rows are not taken for names",
    "[checkpoint][cli]") {
  const TwoCheckpoints c;
  const std::vector<std::string> lookup = {"table", "lookup", "item", "i3"};
  REQUIRE(c.Run(lookup).code == 0);
  fs::remove(c.directory + "/inputs/vocabulary/item.txt");
  const auto told = c.Run(lookup);
  CAPTURE(told.out, told.err);
  CHECK(told.code == 3);
  CHECK_THAT(told.err, Contains("vocabulary/item.txt"));
  fs::remove_all(c.directory + "/inputs");
  const auto by_id = c.Run({"table", "lookup", "item", "--ids", "0"});
  CAPTURE(by_id.out, by_id.err);
  CHECK(by_id.code == 0);
  CHECK_THAT(by_id.err, Contains("rows have no names, but their ids"));
}

}  // namespace
}  // namespace coxswain
