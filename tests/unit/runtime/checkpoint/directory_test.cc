#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/checkpoint/manifest.h"
#include "tests/testing/checkpoints.h"
#include "tests/testing/data_files.h"
#include "tests/testing/forwarding.h"

namespace coxswain::checkpoint {
namespace {

namespace fs = std::filesystem;

// A directory of checkpoints that goes away with the test.
class Checkpoints {
 public:
  explicit Checkpoints(const std::vector<uint64_t>& numbers) {
    for (uint64_t number : numbers) Add(number);
  }
  env::FileSystem* files() { return files_.get(); }
  std::string dir() const { return dir_.Path("checkpoints"); }
  std::string Path(uint64_t number) const {
    return absl::StrCat(dir(), "/", CheckpointName(number));
  }
  std::string File(uint64_t number, int shard) const {
    return absl::StrCat(Path(number), "/shard-0000", shard, ".safetensors");
  }
  std::string ManifestFile(uint64_t number) const {
    return absl::StrCat(Path(number), "/manifest.json");
  }
  void Add(uint64_t number) { WriteCheckpoint(files(), dir(), number); }
  void Flip(const std::string& file) { FlipByte(files(), file, 100); }
  void Put(const std::string& name, const std::string& content) {
    const fs::path path = fs::path(dir()) / name;
    fs::create_directories(path.parent_path());
    REQUIRE(files()->WriteAtomically(path.string(), content).ok());
  }
  absl::Status Prune(int keep, uint64_t known_good = 0) {
    return PruneCheckpoints(files(), dir(), keep, known_good);
  }
  std::vector<std::string> Names() { return *files()->List(dir()); }
  std::vector<uint64_t> Numbers() {
    std::vector<uint64_t> numbers;
    const auto entries = ListCheckpoints(files(), dir());
    REQUIRE(entries.ok());
    for (const CheckpointEntry& entry : *entries) numbers.push_back(entry.number);
    return numbers;
  }
  // Of the newest good one; 0: there is none.
  uint64_t NewestGood(std::vector<absl::Status>* skipped = nullptr) {
    const auto entry = NewestGoodCheckpoint(files(), dir(), skipped);
    return entry.ok() ? entry->number : 0;
  }

 private:
  DataFiles dir_;
  std::unique_ptr<env::FileSystem> files_ = env::NewRealFileSystem();
};

// The real file system, and how much of the files is read through it.
class CountingFileSystem final : public testing::ForwardingFileSystem {
 public:
  absl::StatusOr<Buffer> Map(const std::string& path) override {
    auto content = ForwardingFileSystem::Map(path);
    if (content.ok()) mapped += content->size();
    return content;
  }
  absl::StatusOr<std::string> Read(const std::string& path) override {
    if (!absl::EndsWith(path, "manifest.json")) ++others_read;
    return ForwardingFileSystem::Read(path);
  }
  size_t mapped = 0;
  int others_read = 0;
};

using Numbers = std::vector<uint64_t>;
using Names = std::vector<std::string>;

TEST_CASE("a checkpoint's name tells its number, and no other name does", "[checkpoint]") {
  CHECK(CheckpointName(42) == "checkpoint-000042");
  CHECK(CheckpointName(12345678) == "checkpoint-12345678");
  CHECK(ParseCheckpointName("checkpoint-000042") == 42u);
  CHECK(ParseCheckpointName("checkpoint-12345678") == 12345678u);
  for (const char* name :
       {"", "checkpoint-", "checkpoint-42", "checkpoint-0000042", "checkpoint-000042.tmp",
        "checkpoint- 00042", "checkpoint-+00042", "checkpoint--00042", "checkpoint-best",
        "Checkpoint-000042", "checkpoint-99999999999999999999", "xcheckpoint-000042"}) {
    INFO(name);
    CHECK_FALSE(ParseCheckpointName(name));
  }
}

TEST_CASE("checkpoints are listed newest first, other files are not", "[checkpoint]") {
  Checkpoints c({9, 10, 1000000});
  c.Put("notes.txt", "");
  c.Put("checkpoint-000011.tmp/shard-00001.safetensors", "half");
  c.Put("checkpoint-best/manifest.json", "{}");
  CHECK(c.Numbers() == Numbers{1000000, 10, 9});
  const auto entries = ListCheckpoints(c.files(), c.dir());
  REQUIRE(entries.ok());
  CHECK((*entries)[1].path == c.Path(10));
  REQUIRE((*entries)[1].manifest.ok());
  CHECK((*entries)[1].manifest->number == 10);
  // With a slash at its end it is the same directory.
  CHECK((*ListCheckpoints(c.files(), c.dir() + "/"))[1].path == c.Path(10));
}

TEST_CASE("a directory that is not there has no checkpoints, a file cannot be listed",
          "[checkpoint]") {
  Checkpoints c({});
  REQUIRE(ListCheckpoints(c.files(), c.dir()).ok());
  CHECK(ListCheckpoints(c.files(), c.dir())->empty());
  CHECK(NewestGoodCheckpoint(c.files(), c.dir(), nullptr).status().code() ==
        absl::StatusCode::kNotFound);
  CHECK(c.Prune(1).ok());
  c.Put("file", "");
  CHECK_FALSE(ListCheckpoints(c.files(), c.dir() + "/file").ok());
}

TEST_CASE("checkpoints with bad manifests are listed with what is wrong", "[checkpoint]") {
  Checkpoints c({1, 2, 3, 4, 5});
  c.Flip(c.ManifestFile(1));
  fs::remove(c.ManifestFile(2));
  fs::resize_file(c.ManifestFile(3), 0);
  fs::copy(c.Path(4), c.Path(6), fs::copy_options::recursive);
  c.Put("checkpoint-000007", "a file");
  const auto entries = ListCheckpoints(c.files(), c.dir());
  REQUIRE(entries.ok());
  REQUIRE(entries->size() == 7);
  for (const CheckpointEntry& entry : *entries) {
    CAPTURE(entry.number, entry.manifest.status().ToString());
    if (entry.number == 4 || entry.number == 5) {
      CHECK(entry.manifest.ok());
    } else {
      CHECK_FALSE(entry.manifest.ok());
      CHECK(absl::StrContains(entry.manifest.status().message(), entry.path));
    }
  }
  CHECK(absl::StrContains((*entries)[1].manifest.status().message(), "checkpoint-000004"));
  CHECK(c.NewestGood() == 5);
}

TEST_CASE("a shard's file that is torn, altered or gone is DataLoss naming it", "[checkpoint]") {
  Checkpoints c({1});
  const std::string file = c.File(1, 2);
  const std::string whole = *c.files()->Read(file);
  const auto manifest = ReadManifest(c.files(), c.Path(1));
  REQUIRE(manifest.ok());
  REQUIRE(VerifyCheckpoint(c.files(), c.Path(1), *manifest).ok());
  const auto check = [&](bool size_is_wrong) {
    const absl::Status s = VerifyCheckpoint(c.files(), c.Path(1), *manifest);
    CAPTURE(s.ToString());
    CHECK(s.code() == absl::StatusCode::kDataLoss);
    CHECK(absl::StrContains(s.message(), file));
    CHECK(CheckSizes(c.files(), c.Path(1), *manifest).ok() == !size_is_wrong);
    CHECK(c.NewestGood() == 0);
  };
  for (size_t size : {size_t{0}, size_t{1}, whole.size() / 2, whole.size() - 1}) {
    REQUIRE(c.files()->WriteAtomically(file, whole.substr(0, size)).ok());
    check(true);
  }
  REQUIRE(c.files()->WriteAtomically(file, whole + "x").ok());
  check(true);
  for (size_t at = 0; at < whole.size(); at += 13) {
    std::string bad = whole;
    bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
    REQUIRE(c.files()->WriteAtomically(file, bad).ok());
    check(false);
  }
  fs::remove(file);
  check(true);
  REQUIRE(c.files()->WriteAtomically(file, whole).ok());
  CHECK(c.NewestGood() == 1);
}

TEST_CASE("a delta is a file of the checkpoint as any other", "[checkpoint]") {
  Checkpoints c({1});
  Manifest manifest = *ReadManifest(c.files(), c.Path(1));
  const std::string content = "what has changed";
  proto::SavedDelta* delta = manifest.shards[1].add_deltas();
  delta->set_file("shard-00002.delta-1.safetensors");
  delta->set_bytes(content.size());
  delta->set_crc32(Crc32(0, content.data(), content.size()));
  delta->set_rows(3);
  manifest.shards[1].set_bytes_written(content.size());
  REQUIRE(c.files()->WriteAtomically(c.ManifestFile(1), ToJson(manifest)).ok());
  const std::string file = absl::StrCat(c.Path(1), "/", delta->file());
  const auto check = [&](bool size_is_wrong, bool good) {
    const auto read = ReadManifest(c.files(), c.Path(1));
    REQUIRE(read.ok());
    CHECK(read->bytes() == 660 + static_cast<int64_t>(content.size()));
    CHECK(read->written_bytes() == static_cast<int64_t>(content.size()));
    const absl::Status s = VerifyCheckpoint(c.files(), c.Path(1), *read);
    CAPTURE(s.ToString());
    CHECK(s.ok() == good);
    if (!good) CHECK(absl::StrContains(s.message(), file));
    CHECK(CheckSizes(c.files(), c.Path(1), *read).ok() == !size_is_wrong);
    CHECK(c.NewestGood() == (good ? 1u : 0u));
  };
  check(true, false);
  REQUIRE(c.files()->WriteAtomically(file, "what has changes").ok());
  check(false, false);
  REQUIRE(c.files()->WriteAtomically(file, content).ok());
  check(false, true);
  const proto::SavedShard whole = WithPaths(manifest.shards[1], "/dir");
  CHECK(whole.file() == "/dir/shard-00002.safetensors");
  CHECK(whole.deltas(0).file() == "/dir/shard-00002.delta-1.safetensors");
}

TEST_CASE("the newest good checkpoint is found past damaged ones, which are told", "[checkpoint]") {
  Checkpoints c({1, 2, 3, 4});
  c.Flip(c.ManifestFile(4));
  c.Flip(c.File(3, 1));
  std::vector<absl::Status> skipped;
  CHECK(c.NewestGood(&skipped) == 2);
  REQUIRE(skipped.size() == 2);
  CHECK(absl::StrContains(skipped[0].message(), c.ManifestFile(4)));
  CHECK(absl::StrContains(skipped[1].message(), c.File(3, 1)));
  CHECK(NewestGoodCheckpoint(c.files(), c.dir(), nullptr)->manifest->shards.size() == 3);
  c.Flip(c.File(2, 3));
  fs::remove(c.File(1, 3));
  const auto none = NewestGoodCheckpoint(c.files(), c.dir(), nullptr);
  CHECK(none.status().code() == absl::StatusCode::kDataLoss);
  CHECK(absl::StrContains(none.status().message(), "none of the 4 checkpoints"));
  CHECK(absl::StrContains(none.status().message(), c.ManifestFile(4)));
}

// A job that goes on: when a rows file is first looked at, and `times` in all, the newest
// checkpoint goes and another one comes.
class PruningFileSystem final : public testing::ForwardingFileSystem {
 public:
  PruningFileSystem(std::string directory, uint64_t newest, int times)
      : directory_(std::move(directory)), newest_(newest), times_(times) {}
  absl::StatusOr<uint64_t> Size(const std::string& path) override {
    if (times_-- > 0) {
      WriteCheckpoint(this, directory_, newest_ + 1);
      fs::remove_all(absl::StrCat(directory_, "/", CheckpointName(newest_++)));
    }
    return ForwardingFileSystem::Size(path);
  }

 private:
  const std::string directory_;
  uint64_t newest_;
  int times_;
};

TEST_CASE("a checkpoint that the job removes while it is read is not taken for a damaged one",
          "[checkpoint]") {
  Checkpoints c({5});
  PruningFileSystem once(c.dir(), 5, 1);
  const auto chosen = ChooseCheckpoint(&once, c.dir());
  REQUIRE(chosen.ok());
  REQUIRE(chosen->good);
  CHECK(chosen->good->number == 6);
  CHECK(chosen->skipped.empty());
  PruningFileSystem always(c.dir(), 6, 1000);
  const absl::Status never = ChooseCheckpoint(&always, c.dir()).status();
  CHECK(never.code() == absl::StatusCode::kUnavailable);
  CHECK(absl::StrContains(never.message(), c.dir()));
}

TEST_CASE("what is said of damaged checkpoints tells which one is used instead", "[checkpoint]") {
  Checkpoints c({1, 2, 3});
  c.Flip(c.File(3, 1));
  const auto chosen = ChooseCheckpoint(c.files(), c.dir());
  REQUIRE(chosen.ok());
  CHECK(chosen->newest() == 3);
  REQUIRE(chosen->Notes().size() == 1);
  CHECK(absl::StartsWith(chosen->Notes()[0], "not used: " + c.File(3, 1) + ": wanted CRC-32 "));
  CHECK(absl::EndsWith(chosen->Notes()[0], "; checkpoint-000002 is used instead"));
  // By sizes alone an altered byte is not seen, a missing file is.
  CHECK(ChooseCheckpoint(c.files(), c.dir(), {.sizes_only = true})->good->number == 3);
  fs::remove(c.File(3, 1));
  CHECK(ChooseCheckpoint(c.files(), c.dir(), {.sizes_only = true})->good->number == 2);
}

TEST_CASE("pruning keeps the newest ones and removes what was unfinished", "[checkpoint]") {
  Checkpoints c({1, 2, 3, 4, 5});
  c.Put("checkpoint-000006.tmp/shard-00001.safetensors", "half");
  c.Put("checkpoint-000002.tmp/x/y", "half");
  REQUIRE(c.Prune(2).ok());
  CHECK(c.Names() == Names{"checkpoint-000004", "checkpoint-000005"});
  CHECK(c.NewestGood() == 5);
  REQUIRE(c.Prune(2).ok());
  CHECK(c.Numbers() == Numbers{5, 4});
  REQUIRE(c.Prune(9).ok());
  CHECK(c.Numbers() == Numbers{5, 4});
  REQUIRE(c.Prune(0).ok());  // never all
  CHECK(c.Numbers() == Numbers{5});
  REQUIRE(c.Prune(-1).ok());
  CHECK(c.Numbers() == Numbers{5});
}

TEST_CASE("pruning touches no foreign file", "[checkpoint]") {
  Checkpoints c({2, 3});
  const Names foreign = {"a.tmp/file",
                         "best/manifest.json",
                         "checkpoint-1/file",
                         "checkpoint-best.tmp/file",
                         "checkpoint-000009.tmp.old/file",
                         "checkpoint-000008.tmp",
                         "checkpoint-000001",
                         "notes.txt"};
  for (const std::string& name : foreign) c.Put(name, "mine");
  REQUIRE(c.Prune(1).ok());
  for (const std::string& name : foreign) {
    INFO(name);
    CHECK(fs::exists(fs::path(c.dir()) / name));
  }
  CHECK_FALSE(fs::exists(c.Path(2)));
  CHECK(c.NewestGood() == 3);
}

TEST_CASE("damaged checkpoints do not count as kept and go when they are old", "[checkpoint]") {
  Checkpoints c({1, 2, 3, 4, 5, 6});
  c.Flip(c.ManifestFile(6));
  fs::resize_file(c.File(4, 1), 3);
  fs::remove(c.ManifestFile(2));
  REQUIRE(c.Prune(2).ok());
  CHECK(c.Numbers() == Numbers{6, 5, 4, 3});  // 5 and 3 are whole
  c.Add(7);
  c.Add(8);
  REQUIRE(c.Prune(2).ok());
  CHECK(c.Numbers() == Numbers{8, 7});
}

TEST_CASE("the newest good checkpoint outlives pruning however old it is", "[checkpoint]") {
  Checkpoints c({1, 2, 3, 4, 5});
  for (uint64_t number : {3, 4, 5}) c.Flip(c.File(number, 1));  // nothing but reading shows it
  REQUIRE(c.Prune(2).ok());
  CHECK(c.Numbers() == Numbers{5, 4, 2});
  CHECK(c.NewestGood() == 2);
  REQUIRE(c.Prune(1).ok());
  CHECK(c.Numbers() == Numbers{5, 2});
  c.Add(6);
  REQUIRE(c.Prune(1).ok());
  CHECK(c.Numbers() == Numbers{6});
}

// Somebody else removes each directory a moment earlier.
class RacingFileSystem final : public testing::ForwardingFileSystem {
 public:
  absl::Status Rename(const std::string& from, const std::string& to) override {
    REQUIRE(ForwardingFileSystem::RemoveAll(from).ok());
    return ForwardingFileSystem::Rename(from, to);
  }
  absl::Status RemoveAll(const std::string& path) override {
    REQUIRE(ForwardingFileSystem::RemoveAll(path).ok());
    return absl::NotFoundError(path + ": No such file or directory");
  }
};

TEST_CASE("pruning takes it as done when an old checkpoint is removed meanwhile", "[checkpoint]") {
  Checkpoints c({1, 2, 3});
  c.Put("checkpoint-000002.tmp/half", "x");
  RacingFileSystem racing;
  CHECK(PruneCheckpoints(&racing, c.dir(), /*keep=*/1, /*known_good=*/3).ok());
  CHECK(c.Names() == std::vector<std::string>{CheckpointName(3)});
}

TEST_CASE("pruning after a checkpoint that was just written reads no other", "[checkpoint]") {
  Checkpoints c({1, 2, 3});
  c.Flip(c.File(3, 1));  // unknown to who says that it is good
  REQUIRE(c.Prune(1, /*known_good=*/3).ok());
  CHECK(c.Numbers() == Numbers{3});
  // A number that is not there proves nothing.
  c.Add(4);
  c.Add(5);
  c.Flip(c.File(5, 1));
  REQUIRE(c.Prune(1, /*known_good=*/9).ok());
  CHECK(c.Numbers() == Numbers{5, 4});
}

TEST_CASE("what a new checkpoint makes old is found by sizes: no byte of a shard is mapped",
          "[checkpoint]") {
  Checkpoints c({1, 2, 3, 4, 5, 6});
  CountingFileSystem counting;
  for (uint64_t number : {4, 5, 6}) {
    REQUIRE(CheckSizes(&counting, c.Path(number), *ReadManifest(c.files(), c.Path(number))).ok());
  }
  REQUIRE(PruneCheckpoints(&counting, c.dir(), /*keep=*/3, /*known_good=*/6).ok());
  CHECK(c.Numbers() == Numbers{6, 5, 4});
  CHECK(counting.mapped == 0);
  CHECK(counting.others_read == 0);
  // One that is not known to be good is read, and no other.
  c.Add(7);
  REQUIRE(PruneCheckpoints(&counting, c.dir(), /*keep=*/3).ok());
  CHECK(c.Numbers() == Numbers{7, 6, 5});
  CHECK(counting.mapped == static_cast<size_t>(ReadManifest(c.files(), c.Path(7))->bytes()));
}

}  // namespace
}  // namespace coxswain::checkpoint
