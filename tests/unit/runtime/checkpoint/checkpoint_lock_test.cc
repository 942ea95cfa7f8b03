// Who may write checkpoints into a directory, when coordinators of the same daemons follow each
// other and one of them stands still.
#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/checkpoint_lock.h"
#include "tests/testing/data_files.h"
#include "tests/testing/forwarding.h"

namespace coxswain::checkpoint {
namespace {

CheckpointHolder Coordinator(int64_t pid, Epoch epoch, const std::string& cluster = "ps0:7000") {
  CheckpointHolder holder;
  holder.host = "host";
  holder.pid = pid;
  holder.job = "films";
  holder.cluster = cluster;
  holder.epoch = epoch;
  return holder;
}

std::shared_ptr<env::FileLock> MustTake(const std::shared_ptr<env::FileSystem>& files,
                                        const DataFiles& dir, const CheckpointHolder& me,
                                        const std::shared_ptr<env::FileLock>& had = nullptr) {
  auto lock = TakeCheckpoints(files, dir.Path(""), me, had);
  INFO(lock.status().ToString());
  REQUIRE(lock.ok());
  return *std::move(lock);
}

TEST_CASE("checkpoints are taken from an older session with the same daemons, and no other",
          "[checkpoint]") {
  const DataFiles dir;
  const std::shared_ptr<env::FileSystem> files = env::NewRealFileSystem();
  const auto older = MustTake(files, dir, Coordinator(1, 4));
  const auto newer = MustTake(files, dir, Coordinator(2, 5));
  CHECK_FALSE(older->Held());
  CHECK(newer->Held());
  const auto refused = [&](const CheckpointHolder& me) {
    const absl::Status status = TakeCheckpoints(files, dir.Path(""), me, nullptr).status();
    REQUIRE(absl::IsUnavailable(status));
    CHECK(GetDetail(status)->cause == ErrorCause::kClusterHeld);
    CHECK(absl::StrContains(status.message(), "job 'films' (process 2 on host"));
    CHECK(newer->Held());
  };
  refused(Coordinator(1, 4));  // stood still after it had got the daemons
  refused(Coordinator(3, 5));
  refused(Coordinator(3, 9, "ps1:7000"));
  refused(Coordinator(3, 9, ""));
  CHECK(ReadCheckpointHolder(files.get(), dir.Path("")).epoch == 5);
}

TEST_CASE("a lock whose file was removed is made again, unless another job came first",
          "[checkpoint]") {
  const DataFiles dir;
  const std::shared_ptr<env::FileSystem> files = env::NewRealFileSystem();
  const std::string path = dir.Path(".lock");
  const auto lock = MustTake(files, dir, Coordinator(1, 4));
  REQUIRE(files->RemoveAll(path).ok());
  CHECK(lock->Held());
  CHECK(ReadCheckpointHolder(files.get(), dir.Path("")).pid == 1);
  CHECK(absl::IsUnavailable(
      TakeCheckpoints(files, dir.Path(""), Coordinator(2, 9, "ps1:7000"), nullptr).status()));
  REQUIRE(files->RemoveAll(path).ok());
  const auto other = MustTake(files, dir, Coordinator(2, 9, "ps1:7000"));
  CHECK_FALSE(lock->Held());
  CHECK(other->Held());
}

TEST_CASE("checkpoints that an older session took nevertheless are taken back", "[checkpoint]") {
  const DataFiles dir;
  const std::shared_ptr<env::FileSystem> files = env::NewRealFileSystem();
  const std::string path = dir.Path(".lock");
  const auto newer = MustTake(files, dir, Coordinator(2, 5));
  const auto by = [&](const std::string& content) {
    auto taken = files->TakeLock(path, content);
    REQUIRE(taken.ok());
    return *std::move(taken);
  };
  auto thief = by(R"({"host":"host","pid":1,"cluster":"ps0:7000","epoch":4})");
  CHECK(newer->Held());
  CHECK_FALSE(thief->Held());
  CHECK(ReadCheckpointHolder(files.get(), dir.Path("")).pid == 2);
  thief = by(R"({"host":"host","pid":3,"cluster":"ps0:7000","epoch":6})");
  CHECK_FALSE(newer->Held());
  CHECK(thief->Held());
  thief = by(R"({"host":"host","pid":3,"cluster":"ps1:7000","epoch":4})");
  CHECK_FALSE(newer->Held());
}

class FullDisk final : public testing::ForwardingFileSystem {
 public:
  absl::StatusOr<std::unique_ptr<env::FileLock>> TakeLock(const std::string&,
                                                          absl::string_view) override {
    return absl::ResourceExhaustedError("no space left");
  }
};

TEST_CASE("a lock whose epoch cannot be written is kept without it", "[checkpoint]") {
  const DataFiles dir;
  const auto files = std::make_shared<FullDisk>();
  auto early = LockCheckpoints(files, dir.Path(""), Coordinator(2, 0));
  REQUIRE(early.ok());
  CHECK(MustTake(files, dir, Coordinator(2, 5), *early)->Held());
  const auto refused = TakeCheckpoints(files, dir.Path(""), Coordinator(3, 6), nullptr);
  CHECK(absl::IsResourceExhausted(refused.status()));
}

TEST_CASE("a lock from before the session gets its epoch, and nobody comes in between",
          "[checkpoint]") {
  const DataFiles dir;
  const std::shared_ptr<env::FileSystem> files = env::NewRealFileSystem();
  std::shared_ptr<env::FileLock> lock;
  {
    auto early = LockCheckpoints(files, dir.Path(""), Coordinator(2, 0));
    REQUIRE(early.ok());
    CHECK(ReadCheckpointHolder(files.get(), dir.Path("")).epoch == 0);
    lock = MustTake(files, dir, Coordinator(2, 5), *early);
  }
  CHECK(lock->Held());
  CHECK(ReadCheckpointHolder(files.get(), dir.Path("")).epoch == 5);
  CHECK(absl::IsUnavailable(LockCheckpoints(files, dir.Path(""), Coordinator(3, 0)).status()));
  lock.reset();
  CHECK(LockCheckpoints(files, dir.Path(""), Coordinator(3, 0)).ok());
}

}  // namespace
}  // namespace coxswain::checkpoint
