// Checkpoints that fail, and their numbers, on a file system that fails or hangs when the test says
// so.
#include "coordinator/core/checkpointer.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "runtime/checkpoint/manifest.h"
#include "tests/testing/data_files.h"
#include "tests/testing/forwarding.h"
#include "tests/testing/played_cluster.h"

namespace coxswain::core {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kPatience = absl::Seconds(60);

// The real file system, but that files written whole may find the disk full.
class FullDisk final : public testing::ForwardingFileSystem {
 public:
  std::atomic<bool> full{false};

  absl::Status WriteAtomically(const std::string& path, absl::string_view content) override {
    if (full) return absl::ResourceExhaustedError("no room for " + path);
    return ForwardingFileSystem::WriteAtomically(path, content);
  }
};

class FullDiskEnv final : public testing::ForwardingEnv {
 public:
  FullDisk disk;

  env::FileSystem* files() override { return &disk; }
};

// A checkpointer of a cluster without shards.
class Checkpoints {
 public:
  Checkpoints() : loop_(env.NewLoop()) {
    CheckpointOptions options;
    options.directory = files.Path("checkpoints");
    Checkpointer::Source source;
    source.cut = [] { return Checkpointer::Cut{1, {}, {}}; };
    source.describe = [this](checkpoint::Manifest* manifest) {
      manifest->next_closure = 1;
      manifest->job_state = "{}";
      return described;
    };
    checkpointer_ =
        std::make_shared<Checkpointer>(&env, loop_, Session{7, 0xab}, options, std::move(source));
    checkpointer_->set_next_number(5);
  }
  ~Checkpoints() { AwaitPool(); }

  absl::Status Write() {
    absl::Notification written;
    absl::Status status;
    loop_->Post([&] {
      checkpointer_->Begin([&](const Checkpointer::Outcome& outcome) {
        status = outcome.status;
        written.Notify();
      });
    });
    REQUIRE(written.WaitForNotificationWithTimeout(kPatience));
    AwaitPool();  // what it left is removed
    return status;
  }
  // How two end of which the second one waits for the first, whose receiver does `then`.
  std::pair<Checkpointer::Outcome, Checkpointer::Outcome> WriteTwo(
      const std::function<void(Checkpointer*)>& then) {
    absl::Notification first, second;
    std::pair<Checkpointer::Outcome, Checkpointer::Outcome> outcomes;
    loop_->Post([&] {
      checkpointer_->Begin([&](const Checkpointer::Outcome& outcome) {
        outcomes.first = outcome;
        then(checkpointer_.get());
        first.Notify();
      });
      checkpointer_->Begin([&](const Checkpointer::Outcome& outcome) {
        outcomes.second = outcome;
        second.Notify();
      });
    });
    for (absl::Notification* ended : {&first, &second}) {
      REQUIRE(ended->WaitForNotificationWithTimeout(kPatience));
    }
    AwaitPool();
    return outcomes;
  }
  bool Exists(const std::string& name) const {
    return fs::exists(fs::path(files.Path("checkpoints")) / name);
  }
  void Leave(const std::string& name) const {
    fs::create_directories(fs::path(files.Path("checkpoints")) / name);
  }

  const DataFiles files;
  FullDiskEnv env;
  absl::Status described;

 private:
  void AwaitPool() {
    absl::Notification idle;
    env.pool()->Schedule([&idle] { idle.Notify(); });
    CHECK(idle.WaitForNotificationWithTimeout(kPatience));
  }

  std::shared_ptr<env::EventLoop> loop_;
  std::shared_ptr<Checkpointer> checkpointer_;
};

TEST_CASE("a full disk loses what earlier sessions left unfinished, and nothing else",
          "[checkpoint]") {
  Checkpoints c;
  c.Leave("checkpoint-000003.6.tmp");
  c.Leave("checkpoint-000002");
  c.Leave("checkpoint-000009.8.tmp");  // of a newer session
  c.env.disk.full = true;
  const absl::Status full = c.Write();
  CHECK(full.code() == absl::StatusCode::kResourceExhausted);
  CHECK(absl::StrContains(full.message(), "checkpoint 5"));
  CHECK_FALSE(c.Exists("checkpoint-000005"));
  CHECK_FALSE(c.Exists("checkpoint-000005.7-ab.tmp"));
  CHECK_FALSE(c.Exists("checkpoint-000003.6.tmp"));
  CHECK(c.Exists("checkpoint-000002"));
  CHECK(c.Exists("checkpoint-000009.8.tmp"));
  c.env.disk.full = false;
  CHECK(c.Write().ok());
  CHECK(c.Exists("checkpoint-000006/manifest.json"));
}

TEST_CASE("a checkpoint whose pending closures are not known any more is not written",
          "[checkpoint]") {
  Checkpoints c;
  c.described = absl::ResourceExhaustedError("more closures than the log keeps");
  const absl::Status failed = c.Write();
  CHECK(absl::StrContains(failed.message(), "more closures than the log keeps"));
  CHECK_FALSE(c.Exists("checkpoint-000005"));
  CHECK_FALSE(c.Exists("checkpoint-000005.7-ab.tmp"));
  c.described = absl::OkStatus();
  CHECK(c.Write().ok());
}

// Its directories are not listed until the test opens it.
class SlowDisk final : public testing::ForwardingFileSystem {
 public:
  absl::Notification asked, open;

  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    if (!asked.HasBeenNotified()) asked.Notify();
    if (!open.WaitForNotificationWithTimeout(kPatience))
      return absl::DeadlineExceededError("hangs");
    return ForwardingFileSystem::List(path);
  }
};

class SlowDiskEnv final : public testing::ForwardingEnv {
 public:
  SlowDisk disk;

  env::FileSystem* files() override { return &disk; }
};

TEST_CASE("a directory of checkpoints that is slow to list holds up nothing else", "[checkpoint]") {
  const DataFiles files;
  fs::create_directories(fs::path(files.Path("checkpoints")) / "checkpoint-000004");
  auto* const env = new SlowDiskEnv;  // as that of PlayedCluster
  testing::PlayedCluster cluster(1, 1, {}, nullptr, absl::Seconds(2), env);
  CheckpointOptions options;
  options.directory = files.Path("checkpoints");
  options.every = absl::ZeroDuration();
  testing::Mailbox<absl::Status> started;
  const auto start = [&] {
    cluster.controller->StartCheckpoints(
        options, nullptr, [&](absl::Status status) { started.Put(std::move(status)); });
  };
  start();
  REQUIRE(env->disk.asked.WaitForNotificationWithTimeout(kPatience));
  CHECK(cluster.Stats().checkpoints.written == 0);  // the controller answers
  start();
  CHECK(absl::IsFailedPrecondition(started.Take("the refusal of another start")));
  CHECK(started.empty());
  env->disk.open.Notify();
  CHECK(started.Take("the start").ok());
  testing::Mailbox<absl::StatusOr<checkpoint::Manifest>> written;
  cluster.controller->Checkpoint([&](auto manifest) { written.Put(std::move(manifest)); });
  CHECK(written.Take("a checkpoint")->number == 5);
}

TEST_CASE("a start of checkpoints that waits for its directory ends with the controller",
          "[checkpoint]") {
  auto* const env = new SlowDiskEnv;  // as that of PlayedCluster
  testing::PlayedCluster cluster(1, 1, {}, nullptr, absl::Seconds(2), env);
  testing::Mailbox<absl::Status> started;
  cluster.controller->StartCheckpoints(
      {.directory = "/checkpoints"}, nullptr,
      [&](absl::Status status) { started.Put(std::move(status)); });
  REQUIRE(env->disk.asked.WaitForNotificationWithTimeout(kPatience));
  cluster.controller.reset();
  CHECK(absl::IsCancelled(started.Take("its end")));
  env->disk.open.Notify();
}

TEST_CASE("a session that fails at the end of a checkpoint begins none that waits for it",
          "[checkpoint]") {
  // Nor another one in its place, where something else has no room.
  const absl::Status why = GENERATE(absl::AbortedError("NaN"),
                                    absl::ResourceExhaustedError("rows: No space left on device"));
  Checkpoints c;
  const auto go_on = c.WriteTwo([](Checkpointer*) {});
  CHECK(go_on.first.status.ok());
  CHECK(go_on.second.status.ok());
  CHECK(c.Exists("checkpoint-000006/manifest.json"));
  const auto [first, second] = c.WriteTwo([&why](Checkpointer* writer) { writer->Abort(why); });
  CHECK(first.status.ok());
  CHECK(second.status == absl::Status(why.code(), absl::StrCat("checkpoint 8: ", why.message())));
  CHECK_FALSE(second.may_be_visible);
  CHECK(c.Exists("checkpoint-000007/manifest.json"));
  CHECK_FALSE(c.Exists("checkpoint-000008"));
}

}  // namespace
}  // namespace coxswain::core
