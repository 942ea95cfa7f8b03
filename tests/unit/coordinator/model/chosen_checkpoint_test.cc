// Which checkpoint is read of a directory that a running job writes into.
#include "coordinator/model/chosen_checkpoint.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/checkpoints.h"
#include "tests/testing/data_files.h"

namespace coxswain::model {
namespace {

using Catch::Matchers::Contains;
namespace fs = std::filesystem;

struct Directory {
  explicit Directory(uint64_t newest) {
    for (uint64_t number = 1; number <= newest; ++number) Add(number);
  }
  void Add(uint64_t number) { WriteCheckpoint(files.get(), path, number); }
  std::string Of(uint64_t number) const {
    return absl::StrCat(path, "/", checkpoint::CheckpointName(number));
  }
  absl::StatusOr<std::optional<uint64_t>> Choose(const std::string& directory) {
    return ChooseNumber(directory, Verify::kBytes,
                        [this](const std::string& note) { notes.push_back(note); });
  }

  DataFiles dir;
  std::unique_ptr<env::FileSystem> files = env::NewRealFileSystem();
  std::string path = dir.Path("checkpoints");
  std::vector<std::string> notes;
};

TEST_CASE("the newest good checkpoint is chosen, and told where a newer one is damaged",
          "[checkpoint]") {
  Directory d(3);
  CHECK(*d.Choose(d.path) == 3u);
  CHECK(d.notes.empty());
  FlipByte(d.files.get(), d.Of(3) + "/shard-00001.safetensors", 7);
  CHECK(*d.Choose(d.path) == 2u);
  REQUIRE(d.notes.size() == 1);
  CHECK_THAT(d.notes[0], Contains(d.Of(3)) && Contains("checkpoint-000002 is used instead"));
  // One checkpoint is meant alone, good or not.
  CHECK_FALSE(d.Choose(d.Of(3))->has_value());
  CHECK(absl::IsNotFound(d.Choose(d.dir.Path("none")).status()));
  fs::create_directory(d.dir.Path("empty"));
  CHECK(absl::IsNotFound(d.Choose(d.dir.Path("empty")).status()));
}

TEST_CASE("where no checkpoint is good, the error says what is wrong with the newest",
          "[checkpoint]") {
  Directory d(2);
  fs::remove(d.Of(2) + "/manifest.json");
  fs::resize_file(d.Of(1) + "/shard-00002.safetensors", 3);
  const absl::Status status = d.Choose(d.path).status();
  CHECK(absl::IsDataLoss(status));
  CHECK_THAT(std::string(status.message()), Contains(d.Of(2) + "/manifest.json"));
  CHECK(d.notes.empty());
}

TEST_CASE("what was read of a checkpoint that the job has removed is read of the next one",
          "[checkpoint]") {
  Directory d(1);
  std::vector<uint64_t> read;
  const auto note = [](const std::string&) {};
  const auto read_one = [&](std::optional<uint64_t> number) -> absl::StatusOr<uint64_t> {
    read.push_back(*number);
    if (*number < 3) {  // the job goes on
      d.Add(*number + 1);
      fs::remove_all(d.Of(*number));
      return absl::DataLossError("a file is missing");
    }
    return *number;
  };
  CHECK(*ReadChosen(d.path, Verify::kBytes, note, read_one) == 3);
  CHECK(read == std::vector<uint64_t>{1, 2, 3});
  // Other errors are not tried again.
  int tries = 0;
  CHECK(absl::IsDataLoss(ReadChosen(d.path, Verify::kBytes, note, [&](std::optional<uint64_t>) {
    ++tries;
    return absl::DataLossError("a vocabulary has changed");
  })));
  CHECK(tries == 1);
}

}  // namespace
}  // namespace coxswain::model
