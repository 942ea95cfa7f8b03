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

TEST_CASE("a parameter server that comes back without the directory is named, with its address",
          "[checkpoint_directory]") {
  const DataFiles files;
  fs::create_directory(files.Path("root"));
  int starts = 0;
  Daemons daemons(files, 2, 1, [&](const std::string& job, int task) {
    const bool again = job == "ps" && task == 1 && starts++ > 0;
    return Daemons::Launch{{}, {"--root", files.Path(again ? "root" : "")}};
  });
  const auto train = std::make_unique<Process>(CoxswainCommand(
      {"train", WriteMatrixFactorization(files), "--cluster", daemons.cluster_file(),
       "--checkpoint-dir", files.Path("checkpoints"), "--set", "checkpoint.every_steps=20", "--set",
       "train.epochs=", "--set", "train.steps=1000000000"}));
  REQUIRE(train->WaitForError("checkpoint 1 written"));
  daemons.ps(1).Kill(SIGKILL);
  daemons.RestartPs(1);
  const std::string name = absl::StrCat("/job:ps/task:1 at ", daemons.config().ps[1], ": '",
                                        files.Path("checkpoints"), "/checkpoint-");
  // The checkpoint is whole, and stays for a server that may read it.
  const auto result = train->Wait();
  CAPTURE(result.err);
  CHECK(result.code == 3);
  CHECK_THAT(result.err, Contains("shards cannot be restored: " + name) && Contains("see --root") &&
                             !Contains("is not used"));
  CHECK(fs::exists(files.Path("checkpoints/checkpoint-000001/manifest.json")));
}

}  // namespace
}  // namespace coxswain
