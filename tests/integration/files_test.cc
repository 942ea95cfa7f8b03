// A user's files: what a job may replace, what it refuses before training, and what becomes of a
// model that cannot be saved.
#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/jobs.h"
#include "tests/integration/user_folder.h"
#include "tests/testing/tiny_disk.h"

namespace coxswain {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

// Every file below a directory and what is in it.
std::map<std::string, std::string> Everything(const std::string& directory) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    std::string& content = all[entry.path().lexically_relative(directory).string()];
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    content.assign(std::istreambuf_iterator<char>(in), {});
  }
  return all;
}

Process::Result Train(const std::string& job, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(),
                   {"train", job, "--in-process", "--quiet", "--set", "train.epochs=2"});
  return Coxswain(arguments);
}

TEST_CASE("a model is saved in place of an older one, and what lies beside it stays", "[files]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), model = files.Path("model");
  const auto first = Train(job, {"--model-dir", model});
  INFO(first.err);
  REQUIRE(first.code == 0);
  // What users do before they train again.
  fs::rename(model, files.Path("model.old"));
  fs::create_directory(files.Path("model.tmp"));
  files.Write("model.tmp/mine", "mine");
  const auto old = Everything(files.Path("model.old"));
  for (int again = 0; again < 2; ++again) {
    const auto result = Train(job, {"--model-dir", model, "--set", "train.seed=9"});
    INFO(result.err);
    REQUIRE(result.code == 0);
    CHECK(Everything(files.Path("model.old")) == old);
    CHECK(fs::exists(files.Path("model.tmp/mine")));
    CHECK(Everything(model).size() == old.size());
    CHECK(Everything(model) != old);
  }
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(files.Path(""))) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  CHECK(names ==
        std::vector<std::string>{"mf.yaml", "model", "model.old", "model.tmp", "ratings.csv"});
}

TEST_CASE("a private model directory and report are private after training, too", "[files]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), model = files.Path("model");
  const std::string report = files.Write("report.json", "");
  fs::create_directory(model);
  fs::permissions(model, fs::perms::owner_all);
  fs::permissions(report, fs::perms::owner_read | fs::perms::owner_write);
  for (int again = 0; again < 2; ++again) {
    const auto result = Train(job, {"--model-dir", model, "--report", report});
    INFO(result.err);
    REQUIRE(result.code == 0);
    CHECK(fs::exists(model + "/model.json"));
    CHECK(fs::status(model).permissions() == fs::perms::owner_all);
    CHECK(fs::status(report).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
  }
}

TEST_CASE("an empty path is a mistake, and not a flag that is not given", "[files]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), model = files.Path("model");
  REQUIRE(Train(job, {"--model-dir", model}).code == 0);
  const std::vector<std::string> train = {"train", job, "--in-process", "--quiet"};
  const std::vector<std::string> eval = {"eval", "--model-dir", model};
  const std::vector<std::string> to_csv = {"export", "--model-dir", model, "--to", "csv"};
  struct Case {
    std::vector<std::string> command;
    std::string flag;
  };
  const auto before = Everything(files.Path(""));
  for (const Case& c : std::vector<Case>{{train, "--model-dir"},
                                         {train, "--report"},
                                         {train, "--checkpoint-dir"},
                                         {train, "--trace"},
                                         {train, "--chaos-dir"},
                                         {train, "--secret-file"},
                                         {{"train", job}, "--local"},
                                         {{"train", job}, "--cluster"},
                                         {{"eval"}, "--model-dir"},
                                         {eval, "--report"},
                                         {to_csv, "--out"},
                                         {{"table", "stat"}, "--checkpoint-dir"},
                                         {{"status"}, "--cluster"},
                                         {{"generate", "ratings", "--rows", "9"}, "--out"}}) {
    std::vector<std::string> command = c.command;
    command.insert(command.end(), {c.flag, ""});
    const auto result = Coxswain(command);
    CAPTURE(command, result.out, result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, StartsWith("error: " + c.flag + ": ") && Contains("is empty"));
    CHECK(Everything(files.Path("")) == before);
  }
  const auto job_file = Coxswain({"eval", "", "--model-dir", model});
  CHECK(job_file.code == 2);
  CHECK_THAT(job_file.err, StartsWith("error: JOB: ") && Contains("is empty"));
}

TEST_CASE("an output that would cost a file is refused by code 2, before training", "[files]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), data = files.Path("ratings.csv");
  files.Write("notes.txt", "mine");
  fs::create_symlink(data, files.Path("link"));
  fs::create_directories(files.Path("results/run1"));
  files.Write("results/run1/table.csv", "mine");
  fs::create_directory(files.Path("in"));
  fs::copy_file(data, files.Path("in/ratings.csv"));
  const std::string in_folder = "dataset.path=" + files.Path("in");
  const auto saved = Train(job, {"--model-dir", files.Path("model")});
  INFO(saved.err);
  REQUIRE(saved.code == 0);
  const auto before = Everything(files.Path(""));
  struct Case {
    std::vector<std::string> flags;
    std::string said;
  };
  const auto path = [&](const std::string& name) { return files.Path(name); };
  for (const Case& c : std::vector<Case>{
           {{"--model-dir", path("results")}, "is not a saved model: it holds run1"},
           {{"--model-dir", path("")}, "is not a saved model"},
           {{"--model-dir", path("notes.txt")}, "is no directory"},
           {{"--model-dir", path("notes.txt/model")}, "--model-dir"},
           {{"--report", job}, "is the job file"},
           {{"--report", data}, "is the job's data"},
           {{"--report", path("link")}, "is the job's data"},
           {{"--report", path("notes.txt")}, "holds something else than a report"},
           {{"--report", path("model/model.json")}, "something else than a report"},
           {{"--report", path("none/report.json")}, "cannot be written"},
           {{"--report", path("model/report.json"), "--model-dir", path("model")},
            "replaced as a whole"},
           {{"--report", path("x.json"), "--trace", path("x.json")}, "are the same"},
           {{"--trace", path("link")}, "is the job's data"},
           {{"--trace", path("notes.txt")}, "holds something else than a trace"},
           {{"--model-dir", path("new"), "--checkpoint-dir", path("new/checkpoints")}, "lies in"},
           {{"--model-dir", path("c/model"), "--checkpoint-dir", path("c")}, "lies in"},
           {{"--model-dir", path("new"), "--checkpoint-dir", path("new")}, "are the same"},
           {{"--checkpoint-dir", path("notes.txt")}, "is no directory"},
           {{"--checkpoint-dir", path("cx"), "--report", path("cx")}, "is to be a file"},
           {{"--checkpoint-dir", path("cx/y"), "--trace", path("cx")}, "is to be a file"},
           {{"--report", path("in/r.json"), "--set", in_folder}, "would be read as the job's data"},
           {{"--trace", path("in/trace"), "--set", in_folder}, "would be read as the job's data"},
           {{"--model-dir", path("in"), "--set", in_folder}, "is the job's data"},
       }) {
    const auto result = Train(job, c.flags);
    CAPTURE(c.flags, result.out, result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, StartsWith("error: ") && Contains(c.said));
    CHECK(Everything(files.Path("")) == before);
  }
  // The directory of the project itself.
  const auto here = Run({"/usr/bin/env", "-C", files.Path(""), kProgram, "train", "mf.yaml",
                         "--in-process", "--model-dir", "."});
  CAPTURE(here.err);
  CHECK(here.code == 2);
  CHECK_THAT(here.err, Contains("this program works in"));
  CHECK(Everything(files.Path("")) == before);
}

TEST_CASE("other commands' outputs cost no file either", "[files]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), model = files.Path("model");
  const auto saved = Train(job, {"--model-dir", model, "--checkpoint-dir", files.Path("ckpt")});
  INFO(saved.err);
  REQUIRE(saved.code == 0);
  files.Write("data.csv", "user,item\n");
  fs::create_directory(files.Path("folder"));
  const std::string tables = files.Path("tables");
  const auto exported = Coxswain({"export", "--model-dir", model, "--to", "csv", "--out", tables});
  INFO(exported.err);
  REQUIRE(exported.code == 0);
  files.Write("tables/mine", "mine");
  fs::create_symlink(files.Path("nothing"), files.Path("dangling"));
  const auto before = Everything(files.Path(""));
  const std::string ckpt = files.Path("ckpt/checkpoint-000001");
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"eval", job, "--model-dir", model, "--report", job},
           {"eval", job, "--model-dir", model, "--report", files.Path("data.csv")},
           {"export", "--model-dir", model, "--to", "npz", "--out", model + "/user.safetensors",
            "--force"},
           {"export", "--model-dir", model, "--to", "csv", "--out", tables, "--force"},
           {"export", "--model-dir", model, "--to", "csv", "--out", files.Path(""), "--force"},
           {"export", "--model-dir", model, "--to", "npz", "--out", "/dev/null", "--force"},
           {"export", "--model-dir", model, "--to", "npz", "--out", job, "--force"},
           {"export", "--checkpoint-dir", ckpt, "--to", "npz", "--out", ckpt + "/x.npz"},
           {"generate", "ratings", "--rows", "10", "--out", files.Path("folder"), "--force"},
           {"generate", "ratings", "--rows", "10", "--out", "/dev/null", "--force"},
           {"generate", "ratings", "--rows", "10", "--out", files.Path("none/x.csv")},
           {"generate", "ratings", "--rows", "10", "--out", model + "/user.safetensors", "--force"},
           {"generate", "ratings", "--rows", "10", "--out", model + "/new.csv"},
           {"generate", "ratings", "--rows", "10", "--out", ckpt + "/new.csv"},
           {"generate", "ratings", "--rows", "10", "--out", files.Path("dangling")},
           {"generate", "ratings", "--rows", "10", "--out", files.Path("dangling"), "--force"},
           {"export", "--model-dir", model, "--to", "npz", "--out", files.Path("dangling")},
           {"export", "--model-dir", model, "--to", "csv", "--out", files.Path("dangling"),
            "--force"},
       }) {
    const auto result = Coxswain(command);
    CAPTURE(command, result.out, result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, StartsWith("error: "));
    CHECK(Everything(files.Path("")) == before);
    CHECK(fs::is_symlink(files.Path("dangling")));
  }
  CHECK(fs::is_character_file("/dev/null"));
  // What was exported may be exported again.
  fs::remove(tables + "/mine");
  CHECK(
      Coxswain({"export", "--model-dir", model, "--to", "csv", "--out", tables, "--force"}).code ==
      0);
}

TEST_CASE("a file that is replaced by force keeps its mode, and a link to it stays a link",
          "[files]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), model = files.Path("model");
  // Large enough for a file of data beside an ONNX model.
  REQUIRE(Train(job, {"--model-dir", model, "--set", "model.dim=256"}).code == 0);
  const auto mode = [](const std::string& path) { return fs::status(path).permissions(); };
  constexpr fs::perms kPrivate = fs::perms::owner_read | fs::perms::owner_write;
  const std::string target = files.Write("private", "old"), link = files.Path("link");
  fs::create_symlink(target, link);
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"generate", "ratings", "--rows", "10", "--out", link, "--force"},
           {"export", "--model-dir", model, "--to", "npz", "--out", link, "--force"},
           {"export", "--model-dir", model, "--to", "onnx", "--out", link, "--force"},
       }) {
    fs::permissions(target, kPrivate);
    files.Write("private", "old");
    const auto result = Coxswain(command);
    CAPTURE(command, result.err);
    CHECK(result.code == 0);
    CHECK(fs::is_symlink(link));
    CHECK(mode(target) == kPrivate);
    CHECK(fs::file_size(target) > 3);
  }
  // The data beside an ONNX model is as private as the model.
  const std::string onnx = files.Write("m.onnx", "old");
  fs::permissions(onnx, kPrivate);
  for (int i = 0; i < 2; ++i) {
    const auto result = Coxswain({"export", "--model-dir", model, "--to", "onnx", "--external-data",
                                  "--out", onnx, "--force"});
    CAPTURE(i, result.err);
    CHECK(result.code == 0);
    int data = 0;
    for (const auto& entry : fs::directory_iterator(files.Path(""))) {
      if (!absl::StartsWith(entry.path().filename().string(), "m.onnx")) continue;
      CHECK(mode(entry.path().string()) == kPrivate);
      ++data;
    }
    CHECK(data == 2);
  }
}

TEST_CASE("the file that stdout is redirected to keeps what it has, whatever flag names stdout",
          "[files]") {
  const Folder folder;
  WriteUsers(folder.files);
  folder.MustDo("coxswain train pairs.yaml --in-process --quiet --model-dir model");
  const std::string rows = folder.MustDo("coxswain predict --model-dir model --input rows.csv"),
                    users = folder.MustDo("coxswain recommend --model-dir model --batch --top 2");
  const auto written = [&](const std::string& command) {
    folder.files.Write("log.txt", "precious\n");
    folder.MustDo(command + " >>log.txt");
    return Everything(folder.files.Path(""))["log.txt"];
  };
  for (const char* stream : {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"}) {
    CAPTURE(stream);
    CHECK(written(absl::StrCat("coxswain predict --model-dir model --input rows.csv --output ",
                               stream)) == "precious\n" + rows);
    CHECK(written(absl::StrCat("coxswain recommend --model-dir model --batch --top 2 --output ",
                               stream)) == "precious\n" + users);
    for (const char* flag : {"--report", "--trace"}) {
      const std::string all = written(
          absl::StrCat("coxswain train pairs.yaml --in-process --quiet ", flag, " ", stream));
      CAPTURE(flag, all);
      CHECK(absl::StartsWith(all, "precious\n"));
      CHECK(all.size() > 100);
    }
    for (const char* command :
         {"export --model-dir model --to npz --force", "generate ratings --rows 10 --force"}) {
      folder.files.Write("log.txt", "precious\n");
      const auto refused =
          folder.Do(absl::StrCat("coxswain ", command, " --out ", stream, " >>log.txt"));
      CAPTURE(command, refused.err);
      CHECK(refused.code == 2);
      CHECK(Everything(folder.files.Path(""))["log.txt"] == "precious\n");
    }
  }
}

TEST_CASE("a full disk is told before training", "[files]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  const TinyDisk disk(files.Path("disk"), "256k");
  if (!disk.mounted()) return;
  const std::string report =
      files.Write("disk/report.json", R"({"job": "a", "version": "1", "steps": 2, "metrics": {}})");
  disk.Fill();
  const auto before = Everything(files.Path("disk"));
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--report", report}, {"--model-dir", files.Path("disk/model")}}) {
    const auto result = Train(job, flags);
    CAPTURE(flags, result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, StartsWith("error: " + flags[0]) && Contains("No space left on device"));
  }
  CHECK(Everything(files.Path("disk")) == before);
  // There is room for the test of it, but not for the model.
  fs::remove(files.Path("disk/filler"));
  files.Write("disk/some", std::string(16 << 10, 'x'));
  const auto large = Train(job, {"--model-dir", files.Path("disk/model"), "--set", "model.dim=2000",
                                 "--set", "train.epochs=1000000"});
  CAPTURE(large.err);
  CHECK(large.code == 2);
  CHECK_THAT(large.err, Contains("the model needs"));
}

TEST_CASE("a full disk keeps no job from starting on its checkpoints, nor from going on",
          "[files]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), model = files.Path("model"),
                    checkpoints = files.Path("disk/checkpoints"),
                    warning = "warning: --checkpoint-dir " + checkpoints +
                              " is full: checkpoints fail until there is room";
  const TinyDisk disk(files.Path("disk"), "1m");
  if (!disk.mounted()) return;
  disk.Fill();
  const std::vector<std::string> flags = {"--checkpoint-dir", checkpoints, "--model-dir", model};
  const auto fresh = Train(job, flags);
  CAPTURE(fresh.err);
  CHECK(fresh.code == 0);  // the model is saved elsewhere
  CHECK_THAT(fresh.err, StartsWith(warning) && Contains("checkpoint not written") &&
                            Contains(checkpoints + "/inputs is not written"));
  CHECK(Everything(checkpoints).size() == 1);  // .lock, and nothing half
  // With room the same directory is used by the next start.
  fs::remove(files.Path("disk/filler"));
  const auto roomy = Train(job, flags);
  CAPTURE(roomy.err);
  REQUIRE(roomy.code == 0);
  CHECK_THAT(roomy.err, !Contains("is full"));
  const auto before = Everything(checkpoints);
  disk.Fill();
  const auto resumed = Train(job, {"--checkpoint-dir", checkpoints, "--model-dir", model,
                                   "--resume", "--set", "train.epochs=3"});
  CAPTURE(resumed.err);
  CHECK(resumed.code == 0);
  CHECK_THAT(resumed.err, StartsWith(warning) && Contains("the last good one stays"));
  CHECK(Everything(checkpoints) == before);
  fs::remove(files.Path("disk/filler"));
  CHECK(Coxswain({"nearest", "--table", "film", "--checkpoint-dir", checkpoints, "--json", "f1"})
            .err.find("not used") == std::string::npos);
}

TEST_CASE("where not even a lock can be made among new checkpoints, the job does not start",
          "[files]") {
  const DataFiles files;
  const TinyDisk disk(files.Path("disk"), "1m,nr_inodes=3");
  if (!disk.mounted()) return;
  const std::string checkpoints = files.Path("disk/checkpoints");
  files.Write("disk/one", "");
  fs::create_directory(checkpoints);
  const auto result = Train(WriteMatrixFactorization(files), {"--checkpoint-dir", checkpoints});
  CAPTURE(result.err);
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains("error: --checkpoint-dir " + checkpoints + " cannot be locked") &&
                             Contains(checkpoints + "/.lock: No space left on device"));
  CHECK(fs::is_empty(checkpoints));
}

// A job that has begun to train; then the disk that its model goes to is filled.
class DiskFills {
 public:
  DiskFills() : disk_(files.Path("disk"), "1m") {
    job = WriteMatrixFactorization(files);
    fs::create_directory(files.Path("tmp"));
  }
  bool possible() const { return disk_.mounted(); }
  Process::Result Run(std::vector<std::string> flags) {
    std::vector<std::string> arguments = {"train",
                                          job,
                                          "--in-process",
                                          "--report",
                                          files.Path("report.json"),
                                          "--model-dir",
                                          files.Path("disk/model"),
                                          "--set",
                                          "train.epochs=1000"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    Process process(CoxswainCommand(arguments), {{"TMPDIR", files.Path("tmp")}});
    CHECK(process.WaitForOutput(" steps"));
    process.Kill(SIGSTOP);
    disk_.Fill();
    process.Kill(SIGCONT);
    Process::Result result = process.Wait(absl::Seconds(250));
    // Nothing is left there that keeps it full.
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(files.Path("disk"))) {
      names.push_back(entry.path().filename().string());
    }
    CHECK(names == std::vector<std::string>{"filler"});
    return result;
  }

  const DataFiles files;
  std::string job;

 private:
  const TinyDisk disk_;
};

TEST_CASE("a job with early stopping goes on while its disk for checkpoints is full", "[files]") {
  const DataFiles files;
  const TinyDisk disk(files.Path("disk"), "1m");
  if (!disk.mounted()) return;
  const std::string report = files.Path("report.json");
  // A rate at which each epoch is a little better than the one before.
  Process process(CoxswainCommand(
      {"train", WriteMatrixFactorization(files), "--in-process", "--report", report, "--model-dir",
       files.Path("model"), "--checkpoint-dir", files.Path("disk/checkpoints"), "--set",
       "train.epochs=60", "--set", "train.early_stopping={metric: rmse, patience: 1000}", "--set",
       "optimizer.table={kind: sgd, learning_rate: 0.001}"}));
  REQUIRE(process.WaitForOutput("rmse"));
  process.Kill(SIGSTOP);
  disk.Fill();
  process.Kill(SIGCONT);
  const Process::Result result = process.Wait(absl::Seconds(250));
  CAPTURE(result.out, result.err);
  CHECK(result.code == 0);
  CHECK_THAT(result.err, Contains("the best so far, are not kept: "));
  CHECK(ReadJson(report)["steps"] == 60 * 15);
}

TEST_CASE("a model that finds its disk full after training is saved elsewhere, and the report told",
          "[files]") {
  DiskFills d;
  if (!d.possible()) return;
  const auto result = d.Run({});
  CAPTURE(result.out, result.err);
  CHECK(result.code == 3);
  CHECK_THAT(result.err,
             Contains("error: cannot save the model in " + d.files.Path("disk/model")) &&
                 Contains("No space left on device"));
  const nlohmann::json report = ReadJson(d.files.Path("report.json"));
  CHECK(report["updates"]["applied"] == report["steps"]);
  const size_t at = result.err.find("it is saved in ");
  REQUIRE(at != std::string::npos);
  const std::string saved = result.err.substr(at + 15, result.err.find(" instead", at) - at - 15);
  CAPTURE(saved);
  const auto eval = Coxswain({"eval", d.job, "--model-dir", saved});
  INFO(eval.err);
  CHECK(eval.code == 0);
  fs::remove_all(saved);  // it may be in the working directory
}

TEST_CASE("a model that finds its disk full is in the last checkpoint, which saves it later",
          "[files]") {
  DiskFills d;
  if (!d.possible()) return;
  const std::string checkpoints = d.files.Path("checkpoints");
  const auto result =
      d.Run({"--checkpoint-dir", checkpoints, "--set", "checkpoint.every_seconds=0"});
  CAPTURE(result.out, result.err);
  CHECK(result.code == 3);
  CHECK_THAT(result.err, Contains("nothing is lost: the newest checkpoint in " + checkpoints) &&
                             Contains(" --resume"));
  const nlohmann::json report = ReadJson(d.files.Path("report.json"));
  fs::remove(d.files.Path("disk/filler"));
  const auto later =
      Coxswain({"train", d.job, "--in-process", "--quiet", "--checkpoint-dir", checkpoints,
                "--resume", "--model-dir", d.files.Path("disk/model"), "--report",
                d.files.Path("later.json"), "--set", "train.epochs=1000"});
  CAPTURE(later.err);
  REQUIRE(later.code == 0);
  CHECK(fs::exists(d.files.Path("disk/model/model.json")));
  const nlohmann::json again = ReadJson(d.files.Path("later.json"));
  CHECK(again["steps"] == report["steps"]);
  CHECK(again["updates"]["applied"] == report["steps"]);
  CHECK(again["metrics"] == report["metrics"]);
}

TEST_CASE("two jobs on one directory of checkpoints: the second ends by code 4 and names the first",
          "[files]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), directory = files.Path("checkpoints");
  const auto arguments = [&](const std::string& where, const std::string& epochs) {
    return std::vector<std::string>{"train",
                                    job,
                                    "--local",
                                    where,
                                    "--resume",
                                    "--checkpoint-dir",
                                    directory,
                                    "--set",
                                    "train.epochs=" + epochs,
                                    "--connect-timeout",
                                    "5",
                                    "--set",
                                    "evaluate.every_epochs=1000000",
                                    "--set",
                                    "checkpoint.every_seconds=0.1"};
  };
  Process first(CoxswainCommand(arguments("1x1", "1000000")));
  REQUIRE(first.WaitForError(" written, "));
  const auto second = Coxswain(arguments("1x1", "2"));
  CAPTURE(second.out, second.err);
  CHECK(second.code == 4);
  CHECK_THAT(second.err, Contains("error: the checkpoints in " + directory +
                                  " belong to job 'ratings' (process "));
  // Nothing keeps the directory of a job that is killed.
  first.Kill(SIGKILL);
  first.Wait();
  CHECK_THAT(first.err(), !Contains("failed"));
  const auto third = Coxswain(arguments("1x1", "1"));
  CAPTURE(third.err);
  CHECK(third.code == 0);
}

// Trains or goes on, with many checkpoints and a short lease.
std::vector<std::string> TrainOn(const Daemons& daemons, const std::string& job,
                                 const std::string& checkpoints, const std::string& report,
                                 const std::string& epochs) {
  return {"train",
          job,
          "--cluster",
          daemons.cluster_file(),
          "--resume",
          "--checkpoint-dir",
          checkpoints,
          "--report",
          report,
          "--set",
          "train.epochs=" + epochs,
          "--set",
          "evaluate.every_epochs=1000000",
          "--set",
          "checkpoint.every_seconds=0.1",
          "--set",
          "cluster.lease_seconds=0.5"};
}

TEST_CASE("a coordinator that stands still loses its checkpoints to the one that has the daemons",
          "[files]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), directory = files.Path("checkpoints");
  const Daemons daemons(files, 1, 1);
  const auto endless = TrainOn(daemons, job, directory, files.Path("report.json"), "1000000");
  Process first(CoxswainCommand(endless));
  REQUIRE(first.WaitForError(" written, "));
  first.Kill(SIGSTOP);
  Process second(CoxswainCommand(endless));
  const bool written = second.WaitForError(" written, ");
  CAPTURE(second.err());
  CHECK(written);
  first.Kill(SIGCONT);
  const auto old = first.Wait();
  CAPTURE(old.err);
  CHECK(old.code != 0);
  // A third one of another cluster is kept out by the second.
  const auto third = Coxswain({"train", job, "--in-process", "--resume", "--checkpoint-dir",
                               directory, "--connect-timeout", "1"});
  CHECK(third.code == 4);
  second.Kill(SIGINT);
  CHECK(second.Wait().code == 75);
}

TEST_CASE("a coordinator whose successor is over does not begin again on daemons that forgot both",
          "[files]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), directory = files.Path("checkpoints"),
                    report = files.Path("report.json");
  Daemons daemons(files, 1, 1);
  Process first(CoxswainCommand(TrainOn(daemons, job, directory, report, "1000000")));
  REQUIRE(first.WaitForError(" written, "));
  first.Kill(SIGSTOP);
  // The epochs that are over are more than it wants, so it ends at once.
  const auto second = Coxswain(TrainOn(daemons, job, directory, report, "1"));
  CAPTURE(second.out, second.err);
  REQUIRE(second.code == 0);
  const nlohmann::json written = ReadJson(report);
  daemons.ps(0).Kill(SIGKILL);
  daemons.ps(0).Wait();
  daemons.RestartPs(0);
  first.Kill(SIGCONT);
  const auto old = first.Wait();
  CAPTURE(old.out, old.err);
  CHECK(old.code == 3);
  CHECK_THAT(old.err, Contains("another coordinator has had the cluster since"));
  CHECK(ReadJson(report) == written);
}

TEST_CASE("a job ends with a checkpoint of what it saves, also when it stopped early", "[files]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  for (const bool early : {false, true}) {
    INFO(early);
    const std::string name = early ? "early" : "whole";
    const std::string checkpoints = files.Path(name + "-checkpoints"),
                      model = files.Path(name + "-model"), report = files.Path(name + ".json");
    std::vector<std::string> arguments = {"train",
                                          job,
                                          "--in-process",
                                          "--quiet",
                                          "--checkpoint-dir",
                                          checkpoints,
                                          "--set",
                                          "checkpoint.every_seconds=0",
                                          "--model-dir",
                                          model,
                                          "--report",
                                          report,
                                          "--set",
                                          "evaluate.every_epochs=1"};
    if (early) {
      // The first evaluation is the best one as long as nothing gains so much.
      arguments.insert(arguments.end(),
                       {"--set", "train.early_stopping={metric: rmse, patience: 2, min_delta: 9}"});
    }
    const auto result = Coxswain(arguments);
    INFO(result.err);
    REQUIRE(result.code == 0);
    const nlohmann::json told = ReadJson(report);
    CHECK(told["stopped_early"] == early);
    // Values that are assigned, as the best epoch's are, make a checkpoint of their own.
    CHECK(told["checkpoint"]["written"].get<int>() >= 1);
    const auto list = Coxswain({"checkpoint", "list", checkpoints, "--json"});
    const auto listed = nlohmann::json::parse(list.out, nullptr, false);
    REQUIRE(listed.is_array());
    REQUIRE(!listed.empty());
    CHECK(listed[0]["steps"] == told["steps"]);
    // The same values, to the bit.
    for (const char* source : {"--model-dir", "--checkpoint-dir"}) {
      const bool of_model = std::string(source) == "--model-dir";
      const auto exported =
          Coxswain({"export", source, of_model ? model : checkpoints, "--to", "csv", "--variables",
                    "user,item", "--out", files.Path(name + source)});
      INFO(exported.err);
      REQUIRE(exported.code == 0);
    }
    for (const char* table : {"user", "item"}) {
      const auto rows = [&](const char* source) {
        const std::string file = files.Path(absl::StrCat(name, source, "/", table, ".csv"));
        std::ifstream in(file);
        REQUIRE(in.good());
        std::vector<std::string> lines;
        for (std::string line; std::getline(in, line);) lines.push_back(line);
        return lines;
      };
      const auto of_model = rows("--model-dir"), of_checkpoint = rows("--checkpoint-dir");
      REQUIRE(of_model.size() == of_checkpoint.size());
      for (size_t i = 1; i < of_model.size(); ++i) {
        // A model's has the word beside the id.
        const auto values = [](const std::string& line) {
          size_t at = line.size();
          for (int commas = 0; commas < 4; ++commas) at = line.rfind(',', at - 1);
          return line.substr(at);
        };
        CHECK(values(of_model[i]) == values(of_checkpoint[i]));
      }
    }
  }
}

TEST_CASE("the last epoch has its line, and training its last progress", "[files]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  const auto lines = [&](std::vector<std::string> changes) {
    std::vector<std::string> arguments = {"train", job, "--in-process"};
    for (const std::string& change : changes) {
      arguments.insert(arguments.end(), {"--set", change});
    }
    const auto result = Coxswain(arguments);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return "\n" + result.out;
  };
  const auto every = lines({"train.epochs=4", "evaluate.every_epochs=1"});
  for (int epoch = 1; epoch <= 4; ++epoch) {
    CHECK_THAT(every, Contains(absl::StrCat("\nepoch ", epoch, ": loss ")));
  }
  CHECK_THAT(every, Contains(" 60/60 steps"));
  CHECK_THAT(lines({"train.epochs=5", "evaluate.every_epochs=3"}),
             Contains("\nepoch 3: loss ") && Contains("\nepoch 5: loss "));
  const auto early = lines({"train.epochs=5", "evaluate.every_epochs=3",
                            "train.early_stopping={metric: rmse, patience: 9}"});
  CHECK_THAT(early, Contains("\nepoch 3: loss ") && Contains("\nepoch 5: loss "));
  const size_t last = early.find("\nepoch 5: loss ");
  CHECK(early.find("\nepoch 5: loss ", last + 1) == std::string::npos);  // once
  CHECK_THAT(lines({"train.epochs=", "train.steps=20"}), Contains("\nepoch 2: loss "));
}

TEST_CASE("a mistake that is found before training ends by code 2", "[files]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  const auto code = [&](const std::vector<std::string>& changes) {
    std::vector<std::string> flags;
    for (const std::string& change : changes) flags.insert(flags.end(), {"--set", change});
    const auto result = Train(job, flags);
    CAPTURE(changes, result.out, result.err);
    CHECK_THAT(result.err, StartsWith("error: "));
    return result.code;
  };
  files.Write("empty.csv", "user,item,rating\n");
  files.Write("torn.csv", "user,item,rating\nu1,i1,5\nu2,i2,many\n");
  files.Write("short.csv", "user,item,rating\nu1,i1,5\nu2\n");
  CHECK(code({"dataset.path=empty.csv"}) == 2);
  CHECK(code({"dataset.path=torn.csv"}) == 2);
  CHECK(code({"dataset.path=short.csv"}) == 2);
  CHECK(code({"split.validation=0", "split.test_path=none.csv"}) == 2);
  CHECK(Coxswain({"train", job, "--local", "1x9999"}).code == 2);
}

TEST_CASE("help of a command is what --help of it says", "[cli]") {
  CHECK(Coxswain({"help"}).out == Coxswain({"--help"}).out);
  CHECK(Coxswain({"help", "train"}).out == Coxswain({"train", "--help"}).out);
  CHECK(Coxswain({"help", "checkpoint", "list"}).out ==
        Coxswain({"checkpoint", "list", "--help"}).out);
  CHECK(Coxswain({"help"}).code == 0);
  const auto unknown = Coxswain({"help", "trains"});
  CHECK(unknown.code == 2);
  CHECK_THAT(unknown.err, Contains("did you mean \"train\""));
}

}  // namespace
}  // namespace coxswain
