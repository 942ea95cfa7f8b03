// A directory for checkpoints into which some parameter server cannot write is found before
// training.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "coxswain/checkpoint.h"
#include "runtime/base/status.h"
#include "tests/integration/fault_cluster.h"
#include "tests/integration/jobs.h"

namespace coxswain {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

// The second of two parameter servers is started like this.
Daemons::LaunchOf Second(const Daemons::Launch& launch) {
  return [launch](const std::string& job, int task) {
    return job == "ps" && task == 1 ? launch : Daemons::Launch();
  };
}

// `command` runs before it, with the directory as $0, where mounts are its own. No prefix: this
// user cannot have that.
Daemons::Launch WithMounts(const std::string& directory, const std::string& command) {
  const char* const unshare = "/usr/bin/unshare";
  if (geteuid() != 0 || access(unshare, X_OK) != 0) return {};
  return {{unshare, "--mount", "/bin/sh", "-c", command + " && exec \"$@\"", directory}, {}};
}

void CheckRefused(const Daemons& daemons, const std::string& job, const std::string& directory,
                  const std::string& why) {
  const std::string name = absl::StrCat("/job:ps/task:1 at ", daemons.config().ps[1], ": ");
  const auto train =
      Coxswain({"train", job, "--cluster", daemons.cluster_file(), "--checkpoint-dir", directory});
  CAPTURE(train.out, train.err);
  CHECK(train.code == 2);
  CHECK_THAT(train.err, Contains(name) && Contains(directory) && Contains(why));
  CHECK_THAT(train.err, !Contains("task:0"));
  CHECK_THAT(train.out, !Contains("epoch 1"));

  // A program is told the same.
  auto cluster = Cluster::Connect(daemons.config());
  REQUIRE(cluster.ok());
  CheckpointOptions options;
  options.directory = directory;
  CheckpointManager checkpoints(options);
  const absl::Status started = checkpoints.Start(*cluster);
  CHECK_THAT(std::string(started.message()), Contains(name) && Contains(why));
  REQUIRE(GetDetail(started).has_value());
  CHECK(GetDetail(started)->cause == ErrorCause::kConfiguration);
}

TEST_CASE("checkpoints outside of a parameter server's root end the job before training",
          "[checkpoint_directory]") {
  const DataFiles files;
  fs::create_directory(files.Path("root"));
  Daemons daemons(files, 2, 1, Second({{}, {"--root", files.Path("root")}}));
  const std::string job = WriteMatrixFactorization(files);
  CheckRefused(daemons, job, files.Path("checkpoints"), "see --root");
  const auto train =
      Coxswain({"train", job, "--cluster", daemons.cluster_file(), "--quiet", "--checkpoint-dir",
                files.Path("root/checkpoints"), "--set", "train.epochs=1"});
  CAPTURE(train.err);
  CHECK(train.code == 0);
}

TEST_CASE("checkpoints where a parameter server may only read end the job before training",
          "[checkpoint_directory]") {
  const DataFiles files;
  const std::string directory = files.Path("checkpoints");
  fs::create_directory(directory);
  const Daemons::Launch launch =
      WithMounts(directory, "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\"");
  if (launch.prefix.empty()) return;
  const Daemons daemons(files, 2, 1, Second(launch));
  CheckRefused(daemons, WriteMatrixFactorization(files), directory, "Read-only file system");
}

TEST_CASE("a machine without the shared file system ends the job before training",
          "[checkpoint_directory]") {
  const DataFiles files;
  const std::string directory = files.Path("checkpoints");
  fs::create_directory(directory);
  const Daemons::Launch launch = WithMounts(directory, "mount -t tmpfs none \"$0\"");
  if (launch.prefix.empty()) return;
  const Daemons daemons(files, 2, 1, Second(launch));
  CheckRefused(daemons, WriteMatrixFactorization(files), directory, "not the same directory");
}

// A job with checkpoints whose second PS is killed, and comes back without their directory.
class WithoutDirectory {
 public:
  explicit WithoutDirectory(Daemons::Launch (*launch)(const DataFiles& files), int ps = 2)
      : lost_(ps - 1), daemons_(files_, ps, 1, [=, this](const std::string& job, int task) {
          const bool again = job == "ps" && task == lost_ && starts_++ > 0 && !mended_;
          if (again) return launch(files_);
          return Daemons::Launch{{}, {"--root", files_.Path("")}};
        }) {}

  void Lose(double return_seconds, const std::vector<std::string>& flags = {}) {
    fs::create_directory(files_.Path("root"));
    std::vector<std::string> command = {
        "train",
        WriteMatrixFactorization(files_),
        "--cluster",
        daemons_.cluster_file(),
        "--checkpoint-dir",
        files_.Path("checkpoints"),
        "--set",
        "checkpoint.every_steps=20",
        "--set",
        "train.epochs=",
        "--set",
        "train.steps=1000000000",
        "--set",
        absl::StrCat("checkpoint.ps_return_seconds=", return_seconds)};
    command.insert(command.end(), flags.begin(), flags.end());
    train_ = std::make_unique<Process>(CoxswainCommand(command));
    REQUIRE(train_->WaitForError("checkpoint 1 written"));
    daemons_.ps(lost_).Kill(SIGKILL);
    daemons_.RestartPs(lost_);
  }
  void Mend() {
    mended_ = true;
    daemons_.ps(lost_).Kill(SIGKILL);
    daemons_.RestartPs(lost_);
  }
  // The error's beginning, with the task's name and address.
  std::string Name() const {
    return absl::StrCat("/job:ps/task:", lost_, " at ",
                        daemons_.config().ps[static_cast<size_t>(lost_)], ": ");
  }
  std::string directory() const { return files_.Path("checkpoints"); }
  Process* train() { return train_.get(); }

 private:
  const DataFiles files_;
  const int lost_;
  int starts_ = 0;
  bool mended_ = false;
  Daemons daemons_;
  std::unique_ptr<Process> train_;
};

Daemons::Launch AnotherRoot(const DataFiles& files) { return {{}, {"--root", files.Path("root")}}; }

// As a network's file system that is not mounted yet. No prefix: see WithMounts.
Daemons::Launch NothingThere(const DataFiles& files) {
  return WithMounts(files.Path("checkpoints"), "mount -t tmpfs none \"$0\"");
}

TEST_CASE(
    "a parameter server that comes back without the directory is named, and others take its rows",
    "[checkpoint_directory]") {
  const auto launch = GENERATE(&AnotherRoot, &NothingThere);
  if (launch == &NothingThere && NothingThere(DataFiles()).prefix.empty()) return;
  WithoutDirectory job(launch);
  job.Lose(/*return_seconds=*/2);
  // The checkpoint is whole, and stays for a server that may read it.
  REQUIRE(job.train()->WaitForError("is there, but not for all parameter servers"));
  REQUIRE(job.train()->WaitForError("went back to checkpoint"));
  job.train()->Kill(SIGTERM);
  const auto result = job.train()->Wait();
  CAPTURE(result.err);
  CHECK_THAT(result.err, Contains(job.Name()) && Contains(job.directory() + "/checkpoint-") &&
                             !Contains("is not used"));
  CHECK(fs::exists(job.directory()));
}

TEST_CASE("a parameter server that has the directory again in time gets its own rows",
          "[checkpoint_directory]") {
  WithoutDirectory job(&AnotherRoot);
  job.Lose(/*return_seconds=*/600);
  REQUIRE(job.train()->WaitForError("is there, but not for all parameter servers"));
  job.Mend();
  REQUIRE(job.train()->WaitForError("went back to checkpoint"));
  job.train()->Kill(SIGTERM);
  CHECK(job.train()->Wait().code == 75);
}

TEST_CASE("a job whose only parameter server has no directory waits for it, and ends with 4",
          "[checkpoint_directory]") {
  WithoutDirectory job(&AnotherRoot, /*ps=*/1);
  job.Lose(/*return_seconds=*/0, {"--set", "cluster.timeout_seconds=4"});
  const auto result = job.train()->Wait();
  CAPTURE(result.err);
  CHECK(result.code == 4);
  CHECK_THAT(result.err, Contains("shards cannot be restored: " + job.Name()) &&
                             Contains("see --root") && !Contains("is not used"));
}

}  // namespace
}  // namespace coxswain
