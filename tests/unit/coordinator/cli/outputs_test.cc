// What the files that a command writes may replace, and where a model goes that cannot be saved.
#include "coordinator/cli/outputs.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/save_somewhere.h"
#include "runtime/base/status.h"
#include "tests/testing/data_files.h"
#include "tests/testing/tiny_disk.h"

namespace coxswain::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kReport[] =
    R"({"job": "films", "version": "0.1.0", "steps": 7, "metrics": {"auc": 0.5}})";
constexpr char kTraceBegin[] =
    "[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"tid\":0,\"args\":{\"name\":\"x\"}},\n";

std::string Content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The message; empty: it may be written. An error is a mistake of the user, told by exit code 2.
std::string Said(const absl::Status& status) {
  if (!status.ok()) CHECK(ToExitCode(status) == kExitUsage);
  return std::string(status.message());
}

std::string Refused(const std::string& path, OutputKind kind = OutputKind::kTrainingReport,
                    const std::vector<CommandInput>& inputs = {}) {
  return Said(CheckOutputFile("--report", path, kind, inputs));
}

TEST_CASE("a report replaces a report, a trace a trace, and neither anything else", "[outputs]") {
  const DataFiles dir;
  CHECK(Refused(dir.Path("new.json")).empty());
  CHECK_FALSE(fs::exists(dir.Path("new.json")));
  CHECK(Refused(dir.Write("empty", "")).empty());
  const std::string report = dir.Write("report.json", kReport);
  const std::string trace = dir.Write("trace.json", kTraceBegin);
  CHECK(Refused(report).empty());
  CHECK(Refused(trace, OutputKind::kTrace).empty());
  CHECK(absl::StrContains(Refused(trace),
                          "holds something else than a report of training, which stays"));
  CHECK(absl::StrContains(Refused(report, OutputKind::kTrace), "something else than a trace"));
  for (const char* other :
       {"user,item\n1,2\n", "name: films\n", "{}", "[1, 2]", R"({"dataset": {"path": "a.csv"}})",
        R"({"format": "coxswain-model", "job": "films", "metrics": {}})"}) {
    INFO(other);
    const std::string path = dir.Write("other", other);
    CHECK_FALSE(Refused(path).empty());
    CHECK_FALSE(Refused(path, OutputKind::kTrace).empty());
    CHECK(Content(path) == other);
  }
  CHECK(absl::StrContains(Refused(dir.Path("")), "is a directory"));
  CHECK(absl::StrContains(Refused(dir.Path("none/report.json")), "none"));
  CHECK(absl::StrContains(Refused(dir.Path("empty/report.json")), "is no directory"));
  fs::create_symlink(dir.Path("gone"), dir.Path("link"));
  CHECK(absl::StrContains(Refused(dir.Path("link")), "is a link to nothing"));
  CHECK(Refused("").empty());
}

TEST_CASE("a user's JSON that resembles a report or a trace stays", "[outputs]") {
  const DataFiles dir;
  for (const char* mine :
       {R"({"job": "my notes", "metrics": [1, 2, 3]})", R"({"job": "my notes", "metrics": {}})",
        R"({"job": 3, "version": "1", "steps": 7, "metrics": {}})",
        R"({"job": "a", "version": 1, "steps": 7, "metrics": {}})",
        R"({"job": "a", "version": "1", "steps": "7", "metrics": {}})",
        R"({"job": "a", "part": "mine", "metrics": {}})", "[\n  {\"my\": \"data\"}\n]\n",
        "[\n{\"ph\":\"X\",\"name\":\"a trace of another program\"}\n]\n", "[\n"}) {
    INFO(mine);
    const std::string path = dir.Write("mine.json", mine);
    CHECK(absl::StrContains(Refused(path), "mine.json holds something else than a report"));
    CHECK(absl::StrContains(Refused(path, OutputKind::kTrace),
                            "mine.json holds something else than a trace"));
    CHECK(Content(path) == mine);
  }
  // The trace of a cluster that no task was asked of.
  const std::string last =
      "[\n{\"ph\":\"M\",\"name\":\"trace\",\"pid\":0,\"tid\":0,\"args\":{}}\n]\n";
  CHECK(Refused(dir.Write("trace.json", last), OutputKind::kTrace).empty());
}

TEST_CASE("reports of training and of evaluations do not replace each other", "[outputs]") {
  const DataFiles dir;
  const std::string evaluation = dir.Write("eval.json", R"({"job": "films", "part": "test",
      "held_out": true, "examples": 12, "metrics": {"auc": 0.5}})");
  const std::string training = dir.Write("train.json", kReport);
  CHECK(Refused(training).empty());
  CHECK(Refused(evaluation, OutputKind::kEvaluationReport).empty());
  CHECK(absl::StrContains(Refused(training, OutputKind::kEvaluationReport),
                          "train.json holds a report of training, which a report of an evaluation "
                          "does not replace: name another file, or remove this one"));
  CHECK(absl::StrContains(Refused(evaluation),
                          "eval.json holds a report of an evaluation, which a report of training "
                          "does not replace"));
  CHECK(absl::StrContains(Refused(dir.Write("mine.json", "{}"), OutputKind::kEvaluationReport),
                          "something else than a report of an evaluation, which stays"));
}

TEST_CASE("what the command reads is never written over, whatever it is called", "[outputs]") {
  const DataFiles dir;
  // It looks like a report, so that nothing else saves it.
  const std::string job = dir.Write("job.json", kReport);
  fs::create_symlink(job, dir.Path("soft"));
  fs::create_hard_link(job, dir.Path("hard"));
  fs::create_directory_symlink(dir.Path(""), dir.Path("here"));
  const std::vector<CommandInput> inputs = {{"the job's data", dir.Path("none.csv")},
                                            {"the job file", job}};
  for (const std::string& path :
       {job, dir.Path("soft"), dir.Path("hard"), dir.Path("here/job.json"),
        dir.Path("../") + fs::path(dir.Path("")).parent_path().filename().string() + "/job.json"}) {
    INFO(path);
    CHECK(absl::StrContains(Refused(path, OutputKind::kTrainingReport, inputs), "is the job file"));
    CHECK(absl::StrContains(Refused(path, OutputKind::kTrace, inputs), "is the job file"));
  }
  CHECK(Refused(dir.Write("report.json", kReport), OutputKind::kTrainingReport, inputs).empty());
}

TEST_CASE("a job's inputs are all files that it names", "[outputs]") {
  job::JobSpec job;
  job.file = "job.yaml";
  job.dataset.add_paths("a.csv");
  job.dataset.add_paths("b.csv");
  job.dataset.mutable_split()->add_test_paths("test.csv");
  job.dataset.add_features()->set_vocabulary_file("words.txt");
  job.evaluate.word_similarity = "pairs.tsv";
  job.evaluate.analogies = "questions.txt";
  std::vector<std::string> paths;
  for (const CommandInput& input : InputsOf(job)) paths.push_back(input.path);
  CHECK(paths == std::vector<std::string>{"job.yaml", "a.csv", "b.csv", "test.csv", "words.txt",
                                          "pairs.tsv", "questions.txt"});
}

TEST_CASE("of a directory or a pattern of data each file is an input", "[outputs]") {
  const DataFiles dir;
  for (const char* name : {"data", "held_out"}) fs::create_directory(dir.Path(name));
  const std::string a = dir.Write("data/a.csv", "1\n"), b = dir.Write("held_out/b.csv", "1\n");
  dir.Write("data/_log", "1\n");
  job::JobSpec job;
  job.dataset.add_paths(dir.Path("data"));
  job.dataset.mutable_split()->add_test_paths(dir.Path("held_out/*.csv"));
  job.tables.emplace_back().rows_file.emplace().path = dir.Write("vectors.txt", "1\n");
  const std::vector<CommandInput> inputs = InputsOf(job);
  for (const std::string& file : {a, b, dir.Path("vectors.txt")}) {
    CAPTURE(file);
    CHECK(absl::StrContains(Refused(file, OutputKind::kForced, inputs), "it stays"));
  }
  CHECK(Refused(dir.Path("data/_log"), OutputKind::kForced, inputs).empty());
}

TEST_CASE("no output becomes a part of the job's data", "[outputs]") {
  const DataFiles dir;
  for (const char* name : {"data", "days/1", "out"}) fs::create_directories(dir.Path(name));
  dir.Write("data/a.csv", "1\n");
  fs::create_directory_symlink(dir.Path("data"), dir.Path("link"));
  job::JobSpec job;
  for (const char* path : {"data", "days/*/*.csv", "empty"}) job.dataset.add_paths(dir.Path(path));
  fs::create_directory(dir.Path("empty"));
  const std::vector<CommandInput> inputs = InputsOf(job);
  for (const char* bad : {"data/r.json", "link/r.json", "days/1/p.csv", "empty/trace"}) {
    CAPTURE(bad);
    CHECK(absl::StrContains(Refused(dir.Path(bad), OutputKind::kForced, inputs),
                            " would be read as the job's data, which is all of "));
  }
  for (const char* good :
       {"data/.r.json", "data/_r.json", "days/1/r.json", "days/p.csv", "out/r.json", "r.json"}) {
    CAPTURE(good);
    CHECK(Refused(dir.Path(good), OutputKind::kForced, inputs).empty());
  }
  const auto directory = [&](const std::string& path) {
    return Said(CheckNoInput({"--model-dir", dir.Path(path)}, inputs));
  };
  for (const char* bad : {"data", "data/", "link", "empty"}) {
    CAPTURE(bad);
    CHECK(absl::StrContains(directory(bad), " is the job's data "));
  }
  for (const char* good : {"data/model", "days", "days/1", "out", "new"})
    CHECK(directory(good).empty());
}

TEST_CASE("a report goes into a device or a pipe, and a link stays a link", "[outputs]") {
  const DataFiles dir;
  CHECK(Refused("/dev/null").empty());
  REQUIRE(WriteReport("/dev/null", kReport).ok());
  CHECK(fs::is_character_file("/dev/null"));
  dir.Write("report.json", kReport);
  fs::create_symlink(dir.Path("report.json"), dir.Path("link"));
  REQUIRE(WriteReport(dir.Path("link"), "{}").ok());
  CHECK(fs::is_symlink(dir.Path("link")));
  CHECK(Content(dir.Path("report.json")) == "{}");
}

TEST_CASE("directories that a command writes lie apart", "[outputs]") {
  const DataFiles dir;
  fs::create_directories(dir.Path("model"));
  fs::create_directory_symlink(dir.Path("model"), dir.Path("link"));
  const auto apart = [&](const std::string& a, const std::string& b) {
    return Said(CheckApart({"--model-dir", dir.Path(a)}, {"--checkpoint-dir", dir.Path(b)}));
  };
  CHECK(apart("model", "checkpoints").empty());
  CHECK(apart("model", "model-2").empty());
  CHECK(absl::StrContains(apart("model", "model/checkpoints"), "lies in --model-dir"));
  CHECK(absl::StrContains(apart("model", "link/checkpoints"), "lies in --model-dir"));
  CHECK(absl::StrContains(apart("run/model", "run"), "lies in --checkpoint-dir"));
  CHECK(absl::StrContains(apart("model", "model/"), "are the same"));
  CHECK(absl::StrContains(apart("model", "x/../link"), "are the same"));
  CHECK(Said(CheckApart({"--model-dir", ""}, {"--checkpoint-dir", "x"})).empty());
  const auto outside = [&](const std::string& file, const std::string& directory) {
    return Said(CheckOutside({"--report", dir.Path(file)}, {"--model-dir", dir.Path(directory)}));
  };
  CHECK(outside("report.json", "model").empty());
  CHECK(absl::StrContains(outside("model/report.json", "model"), "which is replaced as a whole"));
  CHECK(absl::StrContains(outside("link/report.json", "model"), "which is replaced as a whole"));
}

TEST_CASE("no file is written where a directory is to be", "[outputs]") {
  const DataFiles dir;
  const auto said = [&](const std::string& directory, const std::string& file) {
    return Said(
        CheckNotUnderFile({"--checkpoint-dir", dir.Path(directory)}, {"--report", dir.Path(file)}));
  };
  CHECK(absl::StrContains(said("cx", "cx"), "is to be a file, and --checkpoint-dir"));
  CHECK(absl::StrContains(said("cx/a", "x/../cx"), "is to be a file"));
  CHECK(said("cx", "cx/report.json").empty());
  CHECK(said("cx", "cx.json").empty());
}

// Where a model is saved, with some places that do not work.
struct Saving {
  SaveOptions options;
  std::vector<std::string> broken, tried;
  absl::Status error = absl::ResourceExhaustedError("no space left on device");

  SaveOutcome Run() {
    return SaveSomewhere(options, [this](const std::string& directory) {
      tried.push_back(directory);
      for (const std::string& begin : broken) {
        if (absl::StartsWith(directory, begin)) return error;
      }
      fs::create_directories(directory);
      return absl::OkStatus();
    });
  }
};

TEST_CASE("a model that cannot be saved where it should be goes to the next place", "[outputs]") {
  const DataFiles dir;
  Saving s;
  s.options.directory = dir.Path("full/model");
  s.options.places = {dir.Path("full/model-"), dir.Path("other/model-")};
  s.broken = {dir.Path("full")};
  const SaveOutcome outcome = s.Run();
  CHECK(absl::IsResourceExhausted(outcome.status));  // it is told, and no success
  CHECK_FALSE(outcome.chosen);
  CHECK(absl::StartsWith(outcome.directory, dir.Path("other/model-")));
  CHECK(s.tried.size() == 3);
  // A name that nothing has.
  CHECK(s.Run().directory != outcome.directory);
  s.broken.clear();
  const SaveOutcome saved = s.Run();
  CHECK(saved.status.ok());
  CHECK(saved.directory == s.options.directory);
}

TEST_CASE("a model that a checkpoint has is saved nowhere else", "[outputs]") {
  const DataFiles dir;
  Saving s;
  s.options.directory = dir.Path("full/model");
  s.options.places = {dir.Path("other/model-")};
  s.options.checkpoints = dir.Path("checkpoints");
  s.broken = {dir.Path("full")};
  const SaveOutcome outcome = s.Run();
  CHECK_FALSE(outcome.status.ok());
  CHECK(outcome.directory.empty());
  CHECK(s.tried.size() == 1);
}

TEST_CASE("a cluster that is lost is no matter of places", "[outputs]") {
  const DataFiles dir;
  Saving s;
  s.options.directory = dir.Path("model");
  s.options.places = {dir.Path("other-")};
  s.options.ask = [](const std::string&) -> std::optional<std::string> {
    FAIL("asked");
    return std::nullopt;
  };
  s.broken = {dir.Path("")};
  s.error = WithDetail(absl::InternalError("gone"), {ErrorCause::kTaskLost, true, "ps:0", 1});
  CHECK_FALSE(s.Run().status.ok());
  CHECK(s.tried.size() == 1);
}

TEST_CASE("when no place will do the user is asked until one does", "[outputs]") {
  const DataFiles dir;
  fs::create_directories(dir.Path("project"));
  dir.Write("project/job.yaml", "");
  Saving s;
  s.options.directory = dir.Path("full/model");
  s.options.places = {dir.Path("full/model-")};
  s.broken = {dir.Path("full")};
  std::vector<std::string> answers = {dir.Path("good"), dir.Path("project"), dir.Path("full/2")};
  std::vector<std::string> asked;
  s.options.ask = [&](const std::string& why) -> std::optional<std::string> {
    asked.push_back(why);
    if (answers.empty()) return std::nullopt;
    const std::string answer = answers.back();
    answers.pop_back();
    return answer;
  };
  const SaveOutcome outcome = s.Run();
  CHECK(outcome.chosen);
  CHECK(outcome.directory == dir.Path("good"));
  REQUIRE(asked.size() == 3);
  CHECK(absl::StrContains(asked[0], "no space left"));
  CHECK(absl::StrContains(asked[1], "no space left"));
  CHECK(absl::StrContains(asked[2], "job.yaml"));
  CHECK(Content(dir.Path("project/job.yaml")).empty());
  CHECK(fs::exists(dir.Path("project/job.yaml")));
  // Nobody answers any more.
  const SaveOutcome lost = s.Run();
  CHECK_FALSE(lost.chosen);
  CHECK(lost.directory.empty());
  CHECK(absl::IsResourceExhausted(lost.status));
}

TEST_CASE("a directory that the user is asked for goes into no saved model", "[outputs]") {
  const DataFiles dir;
  fs::create_directories(dir.Path("old"));
  dir.Write("old/model.json", R"({"format": "coxswain-model"})");
  Saving s;
  s.options.directory = dir.Path("full/model");
  s.options.places = {dir.Path("old/model-")};
  s.options.check = [](const std::string& directory) {
    return CheckModelOutsideSaved({"the directory", directory});
  };
  s.broken = {dir.Path("full")};
  std::vector<std::string> answers = {dir.Path("good"), dir.Path("old/new")}, asked;
  s.options.ask = [&](const std::string& why) -> std::optional<std::string> {
    asked.push_back(why);
    const std::string answer = answers.back();
    answers.pop_back();
    return answer;
  };
  CHECK(s.Run().directory == dir.Path("good"));
  REQUIRE(asked.size() == 2);
  CHECK(absl::StrContains(asked[1], "old/new lies in a saved model"));
  CHECK(s.tried == std::vector<std::string>{dir.Path("full/model"), dir.Path("good")});
}

TEST_CASE("what is written stays on this machine", "[outputs]") {
  const std::string there = "s3://bucket/out";
  for (const std::string& said :
       {Said(CheckOutsideSaved({"--eval-dir", there})),
        Said(CheckModelOutsideSaved({"--model-dir", there})),
        Said(CheckOutputDirectory("--eval-dir", there)),
        Said(CheckOutputFile("--report", there, OutputKind::kTrainingReport, {}))}) {
    CHECK(absl::StrContains(said, "s3://bucket/out: wanted a path of this machine"));
  }
  CHECK_FALSE(fs::exists("s3:"));
}

TEST_CASE("a report goes in the place of what a killed process left of one", "[outputs]") {
  const DataFiles dir;
  const std::string left = dir.Write("report.json.71-1.tmp", "{"),
                    other = dir.Write("other.json.71-1.tmp", "{");
  REQUIRE(WriteReport(dir.Path("report.json"), kReport).ok());
  CHECK_FALSE(fs::exists(left));
  CHECK(fs::exists(other));
  CHECK(Content(dir.Path("report.json")) == kReport);
}

TEST_CASE("a report may have the longest name, and a longer one is told at once", "[outputs]") {
  const DataFiles dir;
  for (const size_t bytes : {245, 255}) {
    const std::string path = dir.Path(std::string(bytes, 'r'));
    CHECK(Refused(path).empty());
    REQUIRE(WriteReport(path, kReport).ok());
    CHECK(Content(path) == kReport);
    CHECK(Refused(path).empty());
  }
  CHECK(absl::StrContains(Refused(dir.Path(std::string(256, 'r'))), "File name too long"));
}

TEST_CASE("a full disk of checkpoints is a warning, and what is no directory an error",
          "[outputs]") {
  const DataFiles dir;
  const auto check = [](const std::string& path) {
    return CheckCheckpointDirectory("--checkpoint-dir", path);
  };
  CHECK(check(dir.Path("new")).value().empty());
  CHECK(fs::is_empty(dir.Path("new")));
  CHECK(absl::StrContains(Said(check(dir.Write("file", "")).status()), "it is no directory"));
  const TinyDisk disk(dir.Path("disk"), "64k");
  if (!disk.mounted()) return;
  disk.Fill();
  const std::string warning = check(dir.Path("disk/c")).value();
  CHECK(absl::StrContains(warning, "disk/c is full: checkpoints fail until there is room"));
  CHECK(absl::StrContains(warning, "No space left on device"));
  CHECK(fs::is_empty(dir.Path("disk/c")));
  // Of other directories it is an error.
  CHECK(absl::StrContains(Said(CheckOutputDirectory("--eval-dir", dir.Path("disk/c"))),
                          "No space left on device"));
}

TEST_CASE("nothing is written into a saved model or a checkpoint", "[outputs]") {
  const DataFiles dir;
  const auto said = [&](const std::string& path) {
    return Said(CheckOutsideSaved({"--report", dir.Path(path)}));
  };
  fs::create_directories(dir.Path("model/vocabulary"));
  fs::create_directories(dir.Path("checkpoint-7"));
  CHECK(said("model/report.json").empty());
  dir.Write("model/model.json", R"({"format": "coxswain-model"})");
  dir.Write("checkpoint-7/manifest.json", R"({"format": "coxswain-checkpoint"})");
  fs::create_directory_symlink(dir.Path("model"), dir.Path("link"));
  for (const char* inside : {"model", "model/", "model/new", "model/new/report.json",
                             "model/vocabulary/report.json", "link/manifest.json"}) {
    CAPTURE(inside);
    CHECK(absl::StrContains(said(inside), "lies in a saved model"));
  }
  CHECK(absl::StrContains(said("checkpoint-7/report.json"), "lies in a checkpoint"));
  CHECK(said("report.json").empty());
  CHECK(said("models/report.json").empty());
  // Another program's model.json, or one that is torn, makes no saved model.
  fs::create_directories(dir.Path("other"));
  dir.Write("other/model.json", R"({"format": 3})");
  CHECK(said("other/report.json").empty());
  dir.Write("other/model.json", "{");
  CHECK(said("other/report.json").empty());
}

TEST_CASE("a model goes into no checkpoint, no job's inputs and no other model", "[outputs]") {
  const DataFiles dir;
  const auto said = [&](const std::string& path) {
    return Said(CheckModelOutsideSaved({"--model-dir", dir.Path(path)}));
  };
  for (const char* made : {"model", "jobs/checkpoint-000001", "jobs/inputs", "empty", "inputs"}) {
    fs::create_directories(dir.Path(made));
  }
  dir.Write("model/model.json", R"({"format": "coxswain-model"})");
  dir.Write("jobs/checkpoint-000001/manifest.json", R"({"format": "coxswain-checkpoint"})");
  fs::create_directory_symlink(dir.Path("jobs"), dir.Path("link"));
  // A model may be replaced, and lie wherever nothing is saved as a whole.
  for (const char* good : {"model", "model/", "new", "empty", "empty/new", "inputs", "inputs/model",
                           "best-000000007", "checkpoint-000001", "jobs/model", "jobs/best"}) {
    CAPTURE(good);
    CHECK(said(good).empty());
  }
  CHECK(absl::StrContains(said("model/sub"), "lies in a saved model, " + dir.Path("model")));
  CHECK(absl::StrContains(said("link/checkpoint-000001/model"), "lies in a checkpoint, "));
  for (const char* of_job :
       {"jobs/checkpoint-000001", "jobs/checkpoint-000009", "link/checkpoint-000009/model",
        "jobs/checkpoint-000009.tmp/a/b", "jobs/best-000000007", "jobs/best-000000007/model",
        "jobs/inputs", "jobs/inputs/model"}) {
    CAPTURE(of_job);
    CHECK(absl::StrContains(said(of_job), "the job whose checkpoints are in " + dir.Path("jobs") +
                                              " removes or replaces what is called"));
  }
  // A folder of the user's own, which no job replaces.
  dir.Write("jobs/inputs/mine.csv", "1\n");
  CHECK(said("jobs/inputs/model").empty());
  // Inputs are known by their manifest, too: a side-car keeps some without the job's checkpoints.
  dir.Write("inputs/inputs.json", R"({"format": "coxswain-inputs"})");
  CHECK(absl::StrContains(said("inputs/model"), "lies in the inputs of a job"));
  CHECK(absl::StrContains(Said(CheckOutsideSaved({"--report", dir.Path("inputs/r.json")})),
                          "lies in the inputs of a job"));
}

}  // namespace
}  // namespace coxswain::cli
