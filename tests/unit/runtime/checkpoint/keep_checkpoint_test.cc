// A second directory of a checkpoint: what it has, and that the first one may go.
#include "runtime/checkpoint/keep_checkpoint.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "tests/testing/checkpoints.h"
#include "tests/testing/data_files.h"
#include "tests/testing/forwarding.h"

namespace coxswain::checkpoint {
namespace {

namespace fs = std::filesystem;

// A file system that has no links.
class NoLinks : public testing::ForwardingFileSystem {
 public:
  absl::Status Link(const std::string& from, const std::string&) override {
    return absl::InternalError("no links: " + from);
  }
};

struct Checkpoint {
  absl::Status Keep(env::FileSystem* system) const { return KeepCheckpoint(system, path, to); }
  absl::Status Keep() const { return Keep(files.get()); }
  bool Whole() const {
    const auto manifest = ReadManifest(files.get(), to);
    return manifest.ok() && VerifyCheckpoint(files.get(), to, *manifest).ok();
  }

  DataFiles directory;
  std::unique_ptr<env::FileSystem> files = env::NewRealFileSystem();
  std::string path = WriteCheckpoint(files.get(), directory.Path("checkpoints"), 7);
  std::string to = directory.Path("kept");
};

TEST_CASE("a kept checkpoint is whole, of links, and stays when the first one goes",
          "[checkpoint]") {
  const Checkpoint checkpoint;
  REQUIRE(checkpoint.Keep().ok());
  for (const auto& entry : fs::directory_iterator(checkpoint.to)) {
    CHECK(fs::hard_link_count(entry.path()) == 2);
  }
  fs::remove_all(checkpoint.path);
  CHECK(checkpoint.Whole());
}

TEST_CASE("where there are no links a checkpoint is copied", "[checkpoint]") {
  const Checkpoint checkpoint;
  NoLinks files;
  REQUIRE(checkpoint.Keep(&files).ok());
  for (const auto& entry : fs::directory_iterator(checkpoint.to)) {
    CHECK(fs::hard_link_count(entry.path()) == 1);
  }
  CHECK(checkpoint.Whole());
}

TEST_CASE("what an interruption left of keeping a checkpoint is replaced", "[checkpoint]") {
  const Checkpoint checkpoint;
  fs::create_directory(checkpoint.to + ".tmp");
  std::ofstream(checkpoint.to + ".tmp/manifest.json") << "half";
  REQUIRE(checkpoint.Keep().ok());
  CHECK(checkpoint.Whole());
  CHECK(!fs::exists(checkpoint.to + ".tmp"));
}

TEST_CASE("a checkpoint that is gone, or not whole, is not kept, and nothing is left",
          "[checkpoint]") {
  const Checkpoint checkpoint;
  const std::string file = checkpoint.path + "/shard-00001.safetensors";
  fs::resize_file(file, 3);
  CHECK(absl::IsDataLoss(checkpoint.Keep()));
  fs::remove(file);
  CHECK(absl::IsDataLoss(checkpoint.Keep()));
  fs::remove_all(checkpoint.path);
  CHECK(absl::IsUnavailable(checkpoint.Keep()));
  CHECK(!fs::exists(checkpoint.to));
  CHECK(!fs::exists(checkpoint.to + ".tmp"));
}

TEST_CASE("a manifest that names files elsewhere is no checkpoint to keep", "[checkpoint]") {
  const Checkpoint checkpoint;
  Manifest manifest = SampleManifest(7);
  manifest.shards[0].set_file("../secret");
  REQUIRE(
      checkpoint.files->WriteAtomically(checkpoint.path + "/manifest.json", ToJson(manifest)).ok());
  CHECK(absl::IsDataLoss(checkpoint.Keep()));
  CHECK(!fs::exists(checkpoint.to));
}

}  // namespace
}  // namespace coxswain::checkpoint
