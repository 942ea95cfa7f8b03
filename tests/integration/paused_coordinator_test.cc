// A coordinator that stands still for longer than its lease: Ctrl-Z, a machine that is moved.
#include <signal.h>

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "protos/control.pb.h"
#include "tests/integration/jobs.h"

namespace coxswain {
namespace {

std::vector<std::string> Command(const DataFiles& files, const Daemons& daemons,
                                 const std::string& report) {
  return CoxswainCommand({"train", WriteMatrixFactorization(files), "--cluster",
                          daemons.cluster_file(), "--report", report, "--set", "train.epochs=600",
                          "--set", "evaluate.every_epochs=600", "--set",
                          "cluster.lease_seconds=0.3"});
}

void ExpectSilence(const Process& daemon) {
  const bool silent = daemon.WaitForError("heard nothing of coordinator");
  INFO(daemon.err());
  REQUIRE(silent);
}

TEST_CASE("a coordinator that was stopped for longer than its lease goes on where it was",
          "[coordinator]") {
  const DataFiles files;
  Daemons daemons(files, 2, 2);
  const std::string report = files.Path("report.json");
  Process job(Command(files, daemons, report));  // without checkpoints
  REQUIRE(job.WaitForOutput(" steps"));
  job.Kill(SIGSTOP);
  for (int task = 0; task < 2; ++task) {
    ExpectSilence(daemons.ps(task));
    ExpectSilence(daemons.worker(task));
  }
  // The daemons are free for others, and keep what they have.
  const nlohmann::json status = daemons.Status();
  INFO(status);
  for (const auto& task : status) CHECK(task.value("held_by", std::string()).empty());
  CHECK(status[0]["shards"].size() > 0);
  job.Kill(SIGCONT);
  const auto result = job.Wait();
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  const nlohmann::json json = ReadJson(report);
  CHECK(json["closures"]["completed"] == json["steps"]);
  CHECK(json["closures"]["rerun"] == 0);
  CHECK(json["updates"]["applied"] == json["updates"]["scheduled"]);
  CHECK(json["failures"]["ps"] == 0);
  CHECK(json["failures"]["worker"] == 0);
}

TEST_CASE("another coordinator takes the daemons of one that stands still, which then ends",
          "[coordinator]") {
  const DataFiles files;
  Daemons daemons(files, 1, 1);
  Process job(Command(files, daemons, files.Path("first.json")));
  REQUIRE(job.WaitForOutput(" steps"));
  job.Kill(SIGSTOP);
  ExpectSilence(daemons.ps(0));
  ExpectSilence(daemons.worker(0));
  const auto second =
      Run(CoxswainCommand({"train", WriteMatrixFactorization(files), "--cluster",
                           daemons.cluster_file(), "--report", files.Path("second.json")}));
  CAPTURE(second.out, second.err);
  CHECK(second.code == 0);
  const nlohmann::json json = ReadJson(files.Path("second.json"));
  CHECK(json["updates"]["applied"] == json["updates"]["scheduled"]);
  job.Kill(SIGCONT);
  const auto first = job.Wait();
  CAPTURE(first.err);
  CHECK(first.code == 3);
  CHECK_THAT(first.err, Catch::Contains("another coordinator has taken over"));
}

}  // namespace
}  // namespace coxswain
