// Whether parameter servers can write checkpoints, found out before training: by the PS, and by the
// coordinator with parameter servers on machines that see other files.
#include "coordinator/core/directory_trial.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/core/controller.h"
#include "runtime/env/roots.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"
#include "tests/testing/played_cluster.h"
#include "tests/testing/ps_daemon.h"

namespace coxswain::core {
namespace {

namespace fs = std::filesystem;

using testing::CauseOf;
using testing::ClusterOps;
using testing::Mailbox;
using testing::ManualLoop;
using testing::Must;
using testing::PlayedCluster;
using testing::PsDaemon;
using testing::PsEnv;

int FilesIn(const std::string& directory) {
  return static_cast<int>(std::distance(fs::directory_iterator(directory), {}));
}

TEST_CASE("a PS that tries a directory leaves nothing in it, however often it is asked", "[ps]") {
  const DataFiles files;
  PsDaemon ps;
  proto::ControlRequest request;
  request.mutable_try_directory()->set_directory(files.Path(""));
  ps.Send(request);
  ps.Send(request);
  CHECK(ps.env.step_pool.RunAll() == 2);
  CHECK(ps.coordinator->ReceiveStatus().ok());
  CHECK(ps.coordinator->ReceiveStatus().ok());
  CHECK(FilesIn(files.Path("")) == 0);
}

TEST_CASE("a PS that cannot write says why", "[ps]") {
  const DataFiles files;
  PsDaemon ps;
  const auto tried = [&ps](const std::string& directory) {
    proto::ControlRequest request;
    request.mutable_try_directory()->set_directory(directory);
    return ps.Call(request).status();
  };
  const absl::Status missing = tried(files.Path("none"));
  CHECK(absl::IsNotFound(missing));
  CHECK(absl::StrContains(missing.message(), files.Path("none")));
  CHECK_FALSE(fs::exists(files.Path("none")));
  CHECK_FALSE(tried(files.Write("file", "")).ok());
  fs::create_directory(files.Path("full"));
  ps.env.disk.room = 0;
  CHECK(absl::IsResourceExhausted(tried(files.Path("full"))));
  CHECK(FilesIn(files.Path("full")) == 0);
}

// A machine on which this directory is another one.
class OtherMachine final : public testing::ForwardingFileSystem {
 public:
  OtherMachine(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}
  absl::StatusOr<std::unique_ptr<env::WritableFile>> Create(const std::string& path) override {
    return ForwardingFileSystem::Create(Here(path));
  }
  absl::Status RemoveAll(const std::string& path) override {
    return ForwardingFileSystem::RemoveAll(Here(path));
  }

 private:
  std::string Here(const std::string& path) const {
    return absl::StartsWith(path, from_) ? to_ + path.substr(from_.size()) : path;
  }
  const std::string from_, to_;
};

class EnvWith final : public testing::ForwardingEnv {
 public:
  explicit EnvWith(std::unique_ptr<env::FileSystem> files) : files_(std::move(files)) {}
  env::FileSystem* files() override { return files_.get(); }

 private:
  std::unique_ptr<env::FileSystem> files_;
};

// A coordinator with two real parameter servers, of which the second has this environment.
class TwoPs {
 public:
  explicit TwoPs(std::unique_ptr<env::Env> second)
      : first_env_(std::make_unique<testing::ForwardingEnv>()), second_env_(std::move(second)) {
    for (int p = 0; p < 2; ++p) {
      env::Env* const env = (p == 0 ? first_env_ : second_env_).get();
      ps_.push_back(
          std::make_unique<ps::PsService>(env, transport_.get(), &ClusterOps(),
                                          cluster::DaemonOptions{"ps", p, absl::StrCat("ps", p)}));
      REQUIRE(ps_.back()->Start().ok());
    }
    ControllerOptions options;
    options.ps = {"ps0", "ps1"};
    options.workers = {"worker"};
    controller_ = std::make_unique<Controller>(PlayedCluster::env, transport_.get(), options);
    const absl::Status started = Await([this](auto done) { controller_->Start(done); });
    INFO(started);
    REQUIRE(started.ok());
  }
  absl::Status Try(const std::string& directory) {
    const absl::Status status =
        Await([&](auto done) { controller_->TryCheckpointDirectory(directory, done); });
    // What was made for that is removed.
    Must(Await([](auto done) {
      PlayedCluster::env->pool()->Schedule([done] { done(absl::OkStatus()); });
    }));
    return status;
  }

 private:
  template <typename Call>
  static absl::Status Await(const Call& call) {
    Mailbox<absl::Status> answer;
    call([&answer](absl::Status status) { answer.Put(std::move(status)); });
    return answer.Take("the answer");
  }

  const std::unique_ptr<net::Transport> transport_ = net::NewInProcessTransport();
  const std::unique_ptr<env::Env> first_env_, second_env_;
  std::vector<std::unique_ptr<ps::PsService>> ps_;
  testing::PlayedTask worker_{transport_.get(), "worker", "worker", 0};
  std::unique_ptr<Controller> controller_;
};

void CheckNamesSecond(const absl::Status& status, const std::string& directory) {
  INFO(status);
  CHECK(absl::IsFailedPrecondition(status));
  CHECK(CauseOf(status) == ErrorCause::kConfiguration);
  CHECK(absl::StrContains(status.message(), directory));
  CHECK(absl::StrContains(status.message(), "/job:ps/task:1 at ps1: "));
  CHECK_FALSE(absl::StrContains(status.message(), "task:0"));
}

TEST_CASE("a directory that all parameter servers can write into is made, and stays empty",
          "[checkpoint]") {
  const DataFiles files;
  TwoPs cluster(std::make_unique<testing::ForwardingEnv>());
  CHECK(cluster.Try(files.Path("a/b/checkpoints")).ok());
  CHECK(cluster.Try(files.Path("a/b/checkpoints")).ok());
  CHECK(FilesIn(files.Path("a/b/checkpoints")) == 0);
}

TEST_CASE("a directory outside of a parameter server's root is told with task, address and root",
          "[checkpoint]") {
  const DataFiles files;
  fs::create_directory(files.Path("root"));
  const auto roots = env::Roots::Make({files.Path("root")});
  REQUIRE(roots.ok());
  TwoPs cluster(env::NewRootedEnv(std::make_unique<testing::ForwardingEnv>(), *roots));
  const absl::Status outside = cluster.Try(files.Path("checkpoints"));
  CheckNamesSecond(outside, files.Path("checkpoints"));
  CHECK(absl::StrContains(outside.message(), "--root"));
  CHECK(cluster.Try(files.Path("root/checkpoints")).ok());
}

TEST_CASE("a parameter server that sees another directory under the same path is named",
          "[checkpoint]") {
  const DataFiles files;
  const std::string shared = files.Path("shared"), own = files.Path("own");
  fs::create_directory(own);  // it is there, and can be written
  TwoPs cluster(std::make_unique<EnvWith>(std::make_unique<OtherMachine>(shared, own)));
  const absl::Status other = cluster.Try(shared);
  CheckNamesSecond(other, shared);
  CHECK(absl::StrContains(other.message(), "not the same directory"));
  CHECK(FilesIn(own) == 0);
}

TEST_CASE("a full disk does not keep a job from starting", "[checkpoint]") {
  const DataFiles files;
  auto disk = std::make_unique<testing::SmallDisk>();
  disk->room = 0;
  TwoPs cluster(std::make_unique<EnvWith>(std::move(disk)));
  CHECK(cluster.Try(files.Path("checkpoints")).ok());
}

TEST_CASE("a directory that cannot be made is told of the coordinator", "[checkpoint]") {
  const DataFiles files;
  TwoPs cluster(std::make_unique<testing::ForwardingEnv>());
  const absl::Status status = cluster.Try(files.Write("file", "") + "/checkpoints");
  INFO(status);
  CHECK(CauseOf(status) == ErrorCause::kConfiguration);
  CHECK(absl::StrContains(status.message(), "the coordinator: "));
}

TEST_CASE("a parameter server that is lost while it tries a directory is no error",
          "[checkpoint]") {
  const DataFiles files;
  PlayedCluster c(1, 1, {},
                  [](const proto::ControlRequest& request) -> std::optional<absl::Status> {
                    if (request.has_try_directory()) return std::nullopt;
                    return absl::OkStatus();
                  });
  Mailbox<absl::Status> answer;
  c.controller->TryCheckpointDirectory(files.Path("checkpoints"),
                                       [&](absl::Status status) { answer.Put(status); });
  CHECK(c.ps->others.Take("the request").has_try_directory());
  CHECK(answer.empty());
  c.ps.reset();
  CHECK(answer.Take("the answer").ok());
  // Nor is one that is not there.
  c.controller->TryCheckpointDirectory(files.Path("checkpoints"),
                                       [&](absl::Status status) { answer.Put(status); });
  CHECK(answer.Take("the answer").ok());
}

TEST_CASE("a trial that another coordinator's cleaning takes away is made once more",
          "[checkpoint]") {
  const DataFiles files;
  const std::string checkpoints = files.Path("checkpoints");
  std::atomic<int> asked = 0;
  std::atomic<bool> always = false;
  PlayedCluster c(1, 1, {},
                  [&](const proto::ControlRequest& request) -> std::optional<absl::Status> {
                    if (!request.has_try_directory()) return absl::OkStatus();
                    if (asked++ == 0 || always) fs::remove_all(checkpoints);
                    if (fs::exists(request.try_directory().directory())) return absl::OkStatus();
                    return absl::NotFoundError("no such directory");
                  });
  Mailbox<absl::Status> answer;
  const auto try_it = [&] {
    asked = 0;
    c.controller->TryCheckpointDirectory(checkpoints,
                                         [&](absl::Status status) { answer.Put(status); });
    return answer.Take("the answer");
  };
  CHECK(try_it().ok());
  CHECK(asked == 2);
  always = true;  // no more than once more
  const absl::Status status = try_it();
  CHECK(CauseOf(status) == ErrorCause::kConfiguration);
  CHECK(asked == 2);
}

TEST_CASE("a trial that nobody answers ends, and says who did not", "[checkpoint]") {
  PsEnv env;  // its pool does nothing
  auto loop = std::make_shared<ManualLoop>();
  std::vector<absl::Status> reports;
  std::make_shared<DirectoryTrial>(&env, loop, "/nowhere", [&](absl::Status status) {
    reports.push_back(status);
  })->Start({});
  CHECK(reports.empty());
  loop->Fire();
  REQUIRE(reports.size() == 1);
  CHECK(CauseOf(reports[0]) == ErrorCause::kConfiguration);
  CHECK(absl::StrContains(reports[0].message(), "the coordinator: made nothing there within 1m"));
  env.step_pool.DropAll();
}

}  // namespace
}  // namespace coxswain::core
