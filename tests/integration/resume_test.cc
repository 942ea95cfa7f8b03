// Jobs that end before they are done, and go on.
#include <signal.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/jobs.h"
#include "tests/unit/runtime/net/relay.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
namespace fs = std::filesystem;

// A job of 480 examples and 15 steps an epoch, run again and again on the same checkpoints.
class Runs {
 public:
  Runs(int64_t epochs, int64_t evaluate_every) : epochs_(epochs), every_(evaluate_every) {
    job_ = WriteMatrixFactorization(files_);
  }

  // `where`: --cluster FILE, --local 2x2.
  std::vector<std::string> Command(const std::vector<std::string>& where) const {
    std::vector<std::string> arguments = {"train",
                                          job_,
                                          "--resume",
                                          "--checkpoint-dir",
                                          directory(),
                                          "--report",
                                          files_.Path("report.json"),
                                          "--set",
                                          absl::StrCat("train.epochs=", epochs_),
                                          "--set",
                                          absl::StrCat("evaluate.every_epochs=", every_),
                                          "--set",
                                          "split.validation=0.2",
                                          "--set",
                                          "checkpoint.every_seconds=0.1",
                                          "--set",
                                          "cluster.lease_seconds=0.5"};
    arguments.insert(arguments.end(), extra_.begin(), extra_.end());
    arguments.insert(arguments.end(), where.begin(), where.end());
    return CoxswainCommand(arguments);
  }
  void Add(const std::vector<std::string>& arguments) {
    extra_.insert(extra_.end(), arguments.begin(), arguments.end());
  }
  const DataFiles& files() const { return files_; }
  std::string directory() const { return files_.Path("checkpoints"); }
  nlohmann::json Report() const { return ReadJson(files_.Path("report.json")); }

  // The run is over: every step and every evaluation is there once, whatever happened.
  void CheckWhole(int64_t resumes) const {
    const nlohmann::json report = Report();
    const nlohmann::json updates = report["updates"];
    INFO(updates << report["closures"] << report["failures"]);
    const int64_t examples = (600 - report["evaluated"]["examples"].get<int64_t>()) * epochs_;
    const int64_t steps = report["steps"];
    CHECK(steps % epochs_ == 0);
    CHECK(updates["scheduled"] == steps);
    CHECK(updates["applied"] == steps);
    CHECK(updates["shards_off"] == 0);
    CHECK(updates["shards"] >= 4);
    CHECK(updates["lost"] == 0);
    CHECK(report["examples"] == examples);
    CHECK(report["closures"]["scheduled"] == steps);
    CHECK(report["closures"]["completed"] == steps);
    CHECK(report["failures"]["coordinator"] == resumes);
    std::vector<int64_t> evaluated, wanted;
    for (const auto& e : report["evaluations"]) {
      evaluated.push_back(e["epoch"]);
      CHECK(e["steps"].get<int64_t>() == e["epoch"].get<int64_t>() * steps / epochs_);
    }
    for (int64_t e = every_; e < epochs_; e += every_) wanted.push_back(e);
    wanted.push_back(epochs_);
    CHECK(evaluated == wanted);
  }

 private:
  const DataFiles files_;
  const int64_t epochs_, every_;
  std::string job_;
  std::vector<std::string> extra_;
};

std::string Written(int number) { return absl::StrCat("checkpoint ", number, " written"); }

TEST_CASE("a job whose steps were over within an epoch goes on with the rest of that epoch",
          "[resume]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), report = files.Path("report.json");
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"train",
                                          job,
                                          "--resume",
                                          "--in-process",
                                          "--report",
                                          report,
                                          "--set",
                                          "train.batch_size=32",
                                          "--set",
                                          "split.validation=0.2",
                                          "--set",
                                          "train.early_stopping={metric: rmse, patience: 100}",
                                          "--set",
                                          "evaluate.every_epochs=1",
                                          "--checkpoint-dir",
                                          files.Path("checkpoints")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Process::Result result = Coxswain(arguments);
    INFO(result.out << result.err);
    REQUIRE(result.code == 0);
    return ReadJson(report);
  };
  const std::vector<std::string> few = {"--set", "train.epochs=", "--set", "train.steps=5"};
  const nlohmann::json first = train(few), again = train(few);  // nothing is left to do
  CHECK(first["examples"] == 5 * 32);
  CHECK(again["examples"] == 5 * 32);
  CHECK(again["evaluations"].size() == first["evaluations"].size());
  const nlohmann::json whole = train({"--set", "train.epochs=3"});
  const int64_t examples = 600 - whole["evaluated"]["examples"].get<int64_t>();
  CHECK(whole["examples"] == 3 * examples);
  CHECK(whole["updates"]["applied"] == 3 * ((examples + 31) / 32));
}

// A job of which the first evaluation counts as the best for ever, and that goes on after 5 steps.
struct EarlyBest {
  EarlyBest() : job(WriteMatrixFactorization(files)) {}
  Process::Result Train(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {
        "train",
        job,
        "--resume",
        "--in-process",
        "--report",
        report,
        "--checkpoint-dir",
        checkpoints,
        "--set",
        "train.batch_size=32",
        "--set",
        "split.validation=0.2",
        "--set",
        "evaluate.every_epochs=1",
        "--set",
        "train.early_stopping={metric: rmse, patience: 100, min_delta: 1000}"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Coxswain(arguments);
  }
  double Rmse(const std::vector<std::string>& more) const {
    const Process::Result result = Train(more);
    INFO(result.out << result.err);
    REQUIRE(result.code == 0);
    return ReadJson(report)["metrics"]["rmse"];
  }
  double RmseOfFirstSteps() const {
    return Rmse({"--set", "train.epochs=", "--set", "train.steps=5"});
  }

  const DataFiles files;
  const std::string job, report = files.Path("report.json"),
                         checkpoints = files.Path("checkpoints");
};

TEST_CASE("a job that goes on without early stopping ends with its last values", "[resume]") {
  const EarlyBest runs;
  const double first = runs.RmseOfFirstSteps();
  CHECK(runs.Rmse({"--set", "train.epochs=3"}) == Approx(first).epsilon(1e-6));
  const EarlyBest others;
  const double others_first = others.RmseOfFirstSteps();
  const double last = others.Rmse({"--set", "train.epochs=3", "--set", "train.early_stopping="});
  CHECK(last < 0.999 * others_first);
}

TEST_CASE("a job that goes on without reduce_on_plateau has the rates that it names", "[resume]") {
  const EarlyBest runs;
  const std::string off = "train.early_stopping=";
  const std::string plateau =
      "train.reduce_on_plateau={metric: rmse, min_delta: 1000, patience: 1, factor: 1e-6}";
  runs.Rmse({"--set", off, "--set", plateau, "--set", "train.epochs=4"});
  const double before = ReadJson(runs.report)["metrics"]["rmse"];
  const double after = runs.Rmse({"--set", off, "--set", "train.epochs=8"});
  CHECK(after < 0.999 * before);
  CHECK(ReadJson(runs.report)["evaluations"].back()["learning_rate_factor"] == 1);
}

TEST_CASE("the evaluation after what was the last epoch counts for the plateau, too", "[resume]") {
  const EarlyBest runs;
  const std::string plateau = "train.reduce_on_plateau={metric: rmse, patience: 1}";
  for (const char* epochs : {"train.epochs=2", "train.epochs=4"}) {
    runs.Rmse({"--set", "train.early_stopping=", "--set", plateau, "--set", epochs});
  }
  const nlohmann::json report = ReadJson(runs.report);
  for (int64_t epoch = 1; epoch <= 4; ++epoch) {
    CHECK(report["evaluations"][static_cast<size_t>(epoch - 1)]["epoch"] == epoch);
  }
}

TEST_CASE("best values that are damaged are told of when a job goes on, and cost it nothing",
          "[resume]") {
  const EarlyBest runs;
  const double first = runs.RmseOfFirstSteps();
  int damaged = 0;
  for (const auto& entry : fs::recursive_directory_iterator(runs.checkpoints)) {
    const std::string path = entry.path().string();
    if (!absl::StrContains(path, "/best-") || entry.path().extension() != ".safetensors") continue;
    // A file of its own, which no checkpoint shares.
    fs::copy(path, path + ".other");
    fs::rename(path + ".other", path);
    std::fstream(path, std::ios::in | std::ios::out | std::ios::binary)
        .seekp(-1, std::ios::end)
        .put(7);
    ++damaged;
  }
  REQUIRE(damaged > 0);
  const Process::Result result = runs.Train({"--set", "train.epochs=3"});
  CAPTURE(result.out, result.err, first);
  CHECK(result.code == 0);
  CHECK_THAT(result.err, Contains("early stopping begins anew, the best values so far are gone: "));
}

TEST_CASE("a job whose steps were over within an update counts the updates of those that follow",
          "[resume]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), report = files.Path("report.json");
  const std::string modes[] = {"{mode: sync, replicas: 4}", "{mode: sync, replicas: 4, backup: 1}",
                               "{mode: hybrid, group_size: 4}", "{accumulate: 4}"};
  for (const std::string& mode : modes) {
    CAPTURE(mode);
    const std::string checkpoints = files.Path(absl::StrCat("checkpoints-", &mode - modes));
    // Each time within an update of 4, as it is counted from where the time before ended.
    for (const char* steps : {"5", "11", "17", "30"}) {
      CAPTURE(steps);
      const Process::Result result = Coxswain({"train",
                                               job,
                                               "--in-process",
                                               "--resume",
                                               "--report",
                                               report,
                                               "--checkpoint-dir",
                                               checkpoints,
                                               "--set",
                                               "train.batch_size=32",
                                               "--set",
                                               "split=",
                                               "--set",
                                               "train.epochs=",
                                               "--set",
                                               absl::StrCat("train.steps=", steps),
                                               "--set",
                                               "evaluate=",
                                               "--set",
                                               absl::StrCat("train.consistency=", mode)});
      INFO(result.out << result.err);
      REQUIRE(result.code == 0);
      const nlohmann::json updates = ReadJson(report)["updates"];
      CHECK(updates["applied"] == updates["scheduled"]);
      CHECK(updates["shards_off"] == 0);
    }
  }
}

TEST_CASE("a job whose coordinator is killed goes on and applies each step once", "[resume]") {
  Runs runs(/*epochs=*/1500, /*evaluate_every=*/100);
  Daemons daemons(runs.files(), 2, 2);
  const std::vector<std::string> where = {"--cluster", daemons.cluster_file()};
  int64_t resumes = 0;
  for (int kill = 0; kill < 4; ++kill) {
    Process job(runs.Command(where));
    // In the middle of an epoch, or of an evaluation: wherever it is just then.
    const bool there = job.WaitForError(" written, ");
    CAPTURE(job.out(), job.err());
    REQUIRE(there);
    job.Kill(SIGKILL);
    CHECK(job.Wait().code == 128 + SIGKILL);
    if (kill > 0) ++resumes;
  }
  const auto result = Run(runs.Command(where));
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.err, Contains("resuming from " + runs.directory() + "/checkpoint-"));
  runs.CheckWhole(resumes + 1);
}

TEST_CASE("a parameter server and then the coordinator are lost: nothing is lost or doubled",
          "[resume]") {
  Runs runs(/*epochs=*/1500, /*evaluate_every=*/250);
  Daemons daemons(runs.files(), 2, 2);
  const std::vector<std::string> where = {"--cluster", daemons.cluster_file()};
  {
    Process job(runs.Command(where));
    REQUIRE(job.WaitForError(Written(2)));
    daemons.ps(1).Kill(SIGKILL);
    const bool lost = job.WaitForError("/job:ps/task:1 is lost, closures wait");
    daemons.RestartPs(1);
    const bool recovered = job.WaitForError("recovered: all shards went back to checkpoint");
    const bool written = job.WaitForError(Written(4));
    job.Kill(SIGKILL);
    const auto result = job.Wait();
    CAPTURE(result.out, result.err);
    CHECK(lost);
    CHECK(recovered);
    REQUIRE(written);
  }
  const auto result = Run(runs.Command(where));
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  runs.CheckWhole(/*resumes=*/1);
  const nlohmann::json failures = runs.Report()["failures"];
  CHECK(failures["ps"] == 1);  // it was counted in the session before
  CHECK(failures["recovered"] >= 1);
  CHECK(failures["recovery_seconds"].size() >= 1);
}

TEST_CASE("Ctrl-C ends a job with checkpoints by code 75, and --resume finishes it", "[resume]") {
  Runs runs(/*epochs=*/1000, /*evaluate_every=*/250);
  // The second half on another number of parameter servers and workers.
  Process first(runs.Command({"--local", "2x2", "--threads", "1", "--connect-timeout", "42"}));
  REQUIRE(first.WaitForOutput(" steps"));
  first.Kill(SIGINT);
  const auto interrupted = first.Wait();
  CAPTURE(interrupted.out, interrupted.err);
  REQUIRE(interrupted.code == 75);
  CHECK_THAT(interrupted.err, Contains("no checkpoint in " + runs.directory() + " yet"));
  CHECK_THAT(interrupted.err, Contains("interrupted; resume with\n  coxswain train ") &&
                                  Contains(" --local 2x2 --threads 1 --connect-timeout 42 ") &&
                                  Contains(" --resume\n"));
  CHECK_FALSE(fs::exists(runs.files().Path("report.json")));
  Process second(runs.Command({"--local", "1x1"}));
  REQUIRE(second.WaitForOutput(" steps"));
  second.Kill(SIGTERM);
  CHECK(second.Wait().code == 75);
  const auto last = Run(runs.Command({"--local", "3x1"}));
  CAPTURE(last.out, last.err);
  REQUIRE(last.code == 0);
  runs.CheckWhole(/*resumes=*/2);
  CHECK(runs.Report()["parameter_servers"] == 3);
}

// As when a job that was preempted is preempted again before its daemons are back.
TEST_CASE("a job that goes on and is interrupted before it trains ends with code 75", "[resume]") {
  Runs runs(/*epochs=*/1, /*evaluate_every=*/1);
  const net_testing::ListeningSocket silent;
  REQUIRE(silent.ok());
  const std::string cluster = runs.files().Write(
      "cluster.yaml",
      absl::StrCat("ps: [\"", silent.address(), "\"]\nworker: [\"127.0.0.1:", FreePort(), "\"]\n"));
  Process job(runs.Command({"--cluster", cluster, "--connect-timeout", "300"}));
  pollfd asked{silent.fd(), POLLIN, 0};
  REQUIRE(poll(&asked, 1, /*timeout=*/60'000) == 1);
  job.Kill(SIGTERM);
  const auto result = job.Wait();
  CAPTURE(result.err);
  CHECK(result.code == 75);
  CHECK_THAT(result.err, Contains("interrupted; resume with\n  coxswain train "));
}

TEST_CASE("an interrupted job without checkpoints ends with code 130", "[resume]") {
  const DataFiles files;
  Process job(CoxswainCommand({"train", WriteMatrixFactorization(files), "--in-process", "--set",
                               "train.epochs=", "--set", "train.steps=1000000000", "--set",
                               "evaluate.every_epochs=1000000000"}));
  REQUIRE(job.WaitForOutput(" steps"));
  job.Kill(SIGINT);
  const auto result = job.Wait();
  CHECK(result.code == 130);
  CHECK_THAT(result.err, Contains("interrupted") && !Contains("resume"));
}

// Each time the job has evaluated, and written a checkpoint, when it is killed.
nlohmann::json ReportAfterTwoKills(Runs* runs) {
  Daemons daemons(runs->files(), 1, 1);
  const std::vector<std::string> where = {"--cluster", daemons.cluster_file()};
  for (int kill = 0; kill < 2; ++kill) {
    Process job(runs->Command(where));
    REQUIRE(job.WaitForError(" written, "));
    REQUIRE(job.WaitForOutput("rmse"));
    job.Kill(SIGKILL);
    job.Wait();
  }
  const auto result = Run(runs->Command(where));
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  return runs->Report();
}

TEST_CASE("early stopping and its best values live on in a resumed job", "[resume]") {
  Runs runs(/*epochs=*/200, /*evaluate_every=*/1);
  runs.Add({"--set", "train.early_stopping={metric: rmse, patience: 1000}"});
  const nlohmann::json report = ReportAfterTwoKills(&runs);
  double best = 1e9;
  int64_t epoch = 0;
  const auto& all = report["evaluations"];
  REQUIRE(all.size() == 201);  // one for each epoch, and the final one
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    CHECK(all[i]["epoch"] == ++epoch);
    best = std::min(best, all[i]["metrics"]["rmse"].get<double>());
  }
  // The final one is of the best values: the same part, so the same figure.
  CHECK(report["metrics"]["rmse"].get<double>() == Approx(best).epsilon(1e-6));
  CHECK(report["updates"]["applied"] == report["steps"]);
  int files = 0;
  for (const auto& entry : fs::directory_iterator(runs.directory())) {
    if (!absl::StartsWith(entry.path().filename().string(), "best-")) continue;
    ++files;
    // Links to a checkpoint, or all that is left of one; no values that this process wrote.
    CHECK(fs::exists(entry.path() / "manifest.json"));
  }
  CHECK(files >= 1);
  // Those that checkpoints name, one of which may have been about to go, and the last two.
  CHECK(files <= 6);
}

TEST_CASE("learning rates that were made smaller stay so in a resumed job", "[resume]") {
  Runs runs(/*epochs=*/200, /*evaluate_every=*/1);
  // No gain is large enough: the rates go down at each evaluation but the first.
  runs.Add({"--set",
            "train.reduce_on_plateau={metric: rmse, min_delta: 1000, factor: 0.95, "
            "min_factor: 1e-9}"});
  const nlohmann::json report = ReportAfterTwoKills(&runs);
  const auto& all = report["evaluations"];
  REQUIRE(all.size() == 201);  // one for each epoch, and the final one
  // What the evaluation before has made of it: none was judged twice, and none forgotten.
  double wanted = 1;
  for (size_t i = 1; i + 1 < all.size(); ++i) {
    CHECK(all[i]["learning_rate_factor"].get<double>() == Approx(wanted));
    wanted *= 0.95;
  }
  CHECK(report["updates"]["applied"] == report["steps"]);
}

TEST_CASE("a damaged newest checkpoint is named and the one before is used", "[resume]") {
  Runs runs(/*epochs=*/1500, /*evaluate_every=*/1500);
  {
    Process job(runs.Command({"--local", "1x1"}));
    REQUIRE(job.WaitForError(Written(2)));
    job.Kill(SIGINT);
    REQUIRE(job.Wait().code == 75);
  }
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(runs.directory())) {
    const std::string name = entry.path().filename().string();
    if (absl::StartsWith(name, "checkpoint-")) names.push_back(name);  // inputs/ lies beside them
  }
  std::sort(names.begin(), names.end());
  REQUIRE(names.size() >= 2);
  for (const auto& entry : fs::directory_iterator(runs.directory() + "/" + names.back())) {
    if (entry.path().extension() == ".safetensors") fs::resize_file(entry.path(), 100);
  }
  const auto result = Run(runs.Command({"--local", "2x1"}));
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.err, Contains("not used: ") && Contains(names.back() + "/"));
  CHECK_THAT(result.err,
             Contains("resuming from " + runs.directory() + "/" + names[names.size() - 2] + ","));
  runs.CheckWhole(/*resumes=*/1);
}

TEST_CASE(
    "checkpoints that are removed while the job runs come again, with all that belongs to them",
    "[resume]") {
  Runs runs(/*epochs=*/1000000, /*evaluate_every=*/1000000);
  Process job(runs.Command({"--in-process"}));
  REQUIRE(job.WaitForError(Written(2)));
  std::error_code error = std::make_error_code(std::errc::directory_not_empty);
  // A checkpoint may be begun there meanwhile.
  for (int i = 0; i < 100 && error; ++i) fs::remove_all(runs.directory(), error);
  REQUIRE_FALSE(error);
  // Where some of it was still there, it could not be written at first.
  bool told = false;
  for (int i = 0; i < 60 && !told; ++i) {
    told = job.WaitForError("inputs was removed; it is written again", absl::Seconds(1)) ||
           job.WaitForError("inputs is written now", absl::ZeroDuration());
  }
  INFO(job.err());
  REQUIRE(told);
  // That may have been said before the rest was gone, too.
  int written = 3;
  while (job.err().find(Written(written)) != std::string::npos) ++written;
  // One that was being written when it was removed has failed, and its number is not used again.
  bool again = false;
  for (int next = written; next < written + 4 && !again; ++next) {
    again = job.WaitForError(Written(next), absl::Seconds(10));
  }
  REQUIRE(again);
  // Nobody else comes into the directory.
  std::vector<std::string> second = runs.Command({"--in-process", "--connect-timeout", "0.1"});
  const auto refused = Run(second);
  CAPTURE(refused.err);
  CHECK(refused.code == 4);
  job.Kill(SIGINT);
  const auto ended = job.Wait();
  CAPTURE(ended.err);
  REQUIRE(ended.code == 75);
  const auto predicted = Coxswain({"predict", "--checkpoint-dir", runs.directory(), "--input",
                                   runs.files().Write("rows.csv", "user,item\nu1,i1\n")});
  CAPTURE(predicted.err);
  CHECK(predicted.code == 0);
}

TEST_CASE("what cannot be resumed ends with code 2 and says why", "[resume]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), directory = files.Path("checkpoints");
  const auto train = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"train", job, "--in-process", "--quiet"});
    return Coxswain(arguments);
  };
  const auto refused = [&](std::vector<std::string> arguments, const std::string& why) {
    const auto result = train(std::move(arguments));
    CAPTURE(result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains(why));
  };
  refused({"--resume"}, "--resume wants a directory of checkpoints");
  refused({"--checkpoint-every", "3"}, "--checkpoint-every wants a directory of checkpoints");
  refused({"--checkpoint-dir", job}, "--checkpoint-dir");
  const auto first = train({"--checkpoint-dir", directory, "--set", "checkpoint.every_steps=50"});
  INFO(first.err);
  REQUIRE(first.code == 0);
  REQUIRE(fs::exists(directory));
  const auto resume = [&](const std::string& change, const std::string& why) {
    refused({"--resume", "--checkpoint-dir", directory, "--set", change}, why);
  };
  refused({"--checkpoint-dir", directory}, "has checkpoints already");
  resume("train.batch_size=64", "train.batch_size: the checkpoint was written with 32, found 64");
  resume("train.seed=9", "cannot resume");
  resume("train.consistency={mode: sync, replicas: 2}",
         "written with no synchronous steps, found synchronous steps of 2 batches");
  resume("split.validation=0.3", "the data is not what the checkpoint was trained on");
  resume("model.dim=5", "variable 'user': the checkpoint has a table f32[31,4] with adagrad");
  resume("optimizer.table={kind: sgd}", "with sgd optimizer");
  resume("model.biases=false", "variables that the job lacks: ");
  // How long workers may be late, and what is made of that, is not what an update is.
  for (const char* change :
       {"train.consistency={mode: bounded, max_staleness: 3}",
        "train.consistency={staleness_rate: inverse, delay_compensation: 0.04}"}) {
    const auto again = train({"--resume", "--checkpoint-dir", directory, "--set", change});
    INFO(again.err);
    CHECK(again.code == 0);
  }
  // More epochs than before are no other job.
  const auto more = train({"--resume", "--checkpoint-dir", directory, "--set", "train.epochs=31"});
  INFO(more.err);
  CHECK(more.code == 0);
}

TEST_CASE("a job is resumed only with updates of as many batches, combined as before", "[resume]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), directory = files.Path("checkpoints");
  const auto train = [&](const std::string& consistency, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {"train", job, "--in-process", "--quiet", "--checkpoint-dir", directory,
                      "--set", "train.consistency=" + consistency});
    return Coxswain(arguments);
  };
  const auto first = train("{mode: sync, replicas: 2}", {"--set", "checkpoint.every_steps=50"});
  INFO(first.err);
  REQUIRE(first.code == 0);
  const struct {
    const char* consistency;
    const char* found;
  } kOthers[] = {
      {"{mode: async}", "no synchronous steps"},
      {"{mode: sync, replicas: 3}", "synchronous steps of 3 batches"},
      {"{mode: sync, replicas: 2, reduce: sum}", "synchronous steps of 2 batches, summed"},
      {"{mode: sync, replicas: 2, reduce: none}",
       "synchronous steps of 2 batches, each an update of its own"},
      {"{mode: hybrid, group_size: 2}", "updates as they come, of 2 batches"}};
  for (const auto& [consistency, found] : kOthers) {
    const auto result = train(consistency, {"--resume"});
    CAPTURE(result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err,
               Contains(std::string("the checkpoint was written with synchronous steps of 2 "
                                    "batches, found ") +
                        found));
  }
  const auto with_backup = train("{mode: sync, replicas: 2, backup: 1}", {"--resume"});
  INFO(with_backup.err);
  CHECK(with_backup.code == 0);
}

TEST_CASE("a job that goes on says which tables have another learning rate than before",
          "[resume]") {
  const DataFiles files;
  const std::string checkpoints = files.Path("checkpoints");
  const std::string job = WriteTabular(files,
                                       "label: {column: label}\n"
                                       "model: {kind: mlp, hidden: [4]}\n"
                                       "train: {batch_size: 32}\n");
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        "train", job, "--in-process", "--quiet", "--resume", "--checkpoint-dir", checkpoints};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto result = Coxswain(arguments);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result.err;
  };
  const std::vector<std::string> old = {"--set", "optimizer.table.learning_rate=0.001"};
  train(old);
  CHECK_THAT(train(old), !Contains("rate"));
  // Where the keys differ, these are told, and once.
  CHECK_THAT(train({"--set", "train.epochs=2"}),
             Contains("optimizer.table.learning_rate: 0.001, now none") &&
                 !Contains("other learning rates"));
  // Where only the default does, as of a job of an earlier version: its own file says nothing.
  fs::remove_all(checkpoints);
  train(old);
  fs::remove_all(checkpoints + "/inputs");
  CHECK_THAT(train({"--set", "train.epochs=2"}),
             Contains("note: tables have other learning rates than in the checkpoint: color: "
                      "0.001, now 0.005"));
}

TEST_CASE("inputs beside checkpoints that are damaged are written again by --resume", "[resume]") {
  const DataFiles files;
  const std::string checkpoints = files.Path("checkpoints"), inputs = checkpoints + "/inputs";
  const std::string job = WriteTabular(files,
                                       "label: {column: label}\n"
                                       "model: {kind: mlp, hidden: [4]}\n"
                                       "train: {batch_size: 32}\n");
  const std::vector<std::string> train = {
      "train", job, "--in-process", "--quiet", "--resume", "--checkpoint-dir", checkpoints};
  const auto trained = Coxswain(train);
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  const std::string rows = files.Write("rows.csv", "color,size\nred,17\nblue,80\n");
  const std::vector<std::string> predict = {"predict", "--checkpoint-dir", checkpoints, "--input",
                                            rows};
  const std::string before = Coxswain(predict).out;
  for (const char* file : {"vocabulary/color.txt", "features.json", "inputs.json"}) {
    INFO(file);
    std::ofstream(inputs + "/" + file) << "";
    const auto broken = Coxswain(predict);
    CHECK(broken.code == 3);
    CHECK_THAT(broken.err, Contains("`coxswain train` of the job with --resume"));
    const auto again = Coxswain(train);
    INFO(again.err);
    CHECK(again.code == 0);
    const auto predicted = Coxswain(predict);
    CHECK(predicted.code == 0);
    CHECK(predicted.out == before);
  }
  // What is not its own stays.
  files.Write("checkpoints/inputs/notes.txt", "mine");
  std::ofstream(inputs + "/inputs.json") << "";
  Coxswain(train);
  CHECK(std::filesystem::exists(inputs + "/notes.txt"));
}

}  // namespace
}  // namespace coxswain
