// What someone meets who tries the programs for the first time: each mistake is told in words that
// lead on, and nothing waits for ever.
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/integration/jobs.h"
#include "tests/testing/tiny_disk.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
namespace fs = std::filesystem;

constexpr char kLogistic[] = "model: {kind: logistic_regression}\nlabel: {column: label}\n";

TEST_CASE("a pipe in place of a job or of its data is refused, and nobody waits for it", "[cli]") {
  const DataFiles files;
  const std::string pipe = files.Path("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  for (const char* command : {"validate", "explain"}) {
    const auto job = Coxswain({command, pipe});
    CHECK(job.code == 2);
    CHECK_THAT(job.err, Contains(pipe + ": wanted a file, found a pipe"));
  }
  const std::string job = WriteTabular(files, kLogistic);
  const std::vector<std::string> with_pipe = {"--set", "dataset.path=" + pipe};
  for (std::vector<std::string> arguments :
       {std::vector<std::string>{"validate", job}, {"train", job, "--in-process"}}) {
    arguments.insert(arguments.end(), with_pipe.begin(), with_pipe.end());
    const auto data = Coxswain(arguments);
    CAPTURE(arguments, data.err);
    CHECK(data.code == 2);
    CHECK_THAT(data.err, Contains("wanted a file, found a pipe"));
  }
}

TEST_CASE("a report for a pipe that nobody reads ends at the first signal, and costs no model",
          "[cli]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kLogistic), pipe = files.Path("pipe"),
                    trace = files.Path("trace"), model = files.Path("model");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  Process train(CoxswainCommand(
      {"train", job, "--in-process", "--report", pipe, "--model-dir", model, "--trace", trace}));
  // The trace is whole when training is over; the report comes next.
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  const auto trained = [&] {
    std::ifstream file(trace);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return absl::EndsWith(absl::StripAsciiWhitespace(text), "]");
  };
  while (!trained() && absl::Now() < deadline) continue;
  REQUIRE(trained());
  train.Kill(SIGTERM);
  const auto result = train.Wait();
  CAPTURE(result.out, result.err);
  CHECK(result.code == 130);
  CHECK_THAT(result.err, Contains("nobody reads the pipe " + pipe));
  CHECK(fs::exists(model + "/model.json"));
}

TEST_CASE("a header line that is not in UTF-8 is told", "[cli]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kLogistic);
  const auto told = [&](const std::string& csv) {
    files.Write("table.csv", csv);
    const auto result = Coxswain({"validate", job});
    CHECK(result.code == 2);
    return result.err;
  };
  const std::string text = "color,size,label,kind\nred,1,0,0\n";
  std::string utf16;
  for (const char c : text) utf16 += {c, '\0'};
  CHECK_THAT(told("\xff\xfe" + utf16), Contains("found UTF-16") && Contains("iconv"));
  CHECK_THAT(told(utf16), Contains("zero bytes, as text in UTF-16 has"));
  CHECK_THAT(told("c\xf3lor,size,label,kind\nred,1,0,0\n"),
             Contains("the header line is not in UTF-8, see its column 1"));
  CHECK_THAT(told("colour,size,label,kind\nred,1,0,0\n"), !Contains("UTF"));
}

TEST_CASE("what does not fit a model, a parameter server or a directory is the user's mistake",
          "[cli]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), model = files.Path("model");
  const auto mistake = [](const std::vector<std::string>& arguments, const std::string& told) {
    const auto result = Coxswain(arguments);
    CAPTURE(arguments, result.out, result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, StartsWith("error: ") && Contains(told));
  };
  mistake({"train", job, "--in-process", "--set", "features.user.hash_buckets=20000000000"},
          "0000000000");
  REQUIRE(Coxswain({"train", job, "--in-process", "--quiet", "--model-dir", model}).code == 0);
  mistake({"eval", "--model-dir", model, "--set", "model.dim=9"}, ",9], found f32[");
  const TinyDisk disk(files.Path("disk"), "1m");
  if (!disk.mounted()) return;
  REQUIRE(mount(nullptr, files.Path("disk").c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) ==
          0);
  for (const char* format : {"csv", "projector", "hnsw", "npz"}) {
    mistake({"export", "--model-dir", model, "--to", format, "--out", files.Path("disk/export")},
            "Read-only file system");
  }
}

TEST_CASE("a report to - is the report alone on stdout, and all else on stderr", "[cli]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), model = files.Path("model");
  const std::string here = fs::current_path().string();
  for (const char* where : {"--in-process", "--local=1x1"}) {
    const auto train = Coxswain({"train", job, where, "--model-dir", model, "--report", "-"});
    CAPTURE(train.out, train.err);
    REQUIRE(train.code == 0);
    const auto report = nlohmann::json::parse(train.out);
    CHECK(report["metrics"].contains("rmse"));
    CHECK_THAT(train.err, Contains("steps, ") && Contains("rmse"));
  }
  const auto eval = Coxswain({"eval", "--model-dir", model, "--report", "-"});
  REQUIRE(eval.code == 0);
  CHECK(nlohmann::json::parse(eval.out)["metrics"].contains("rmse"));
  CHECK_THAT(eval.err, Contains("rmse"));
  CHECK_FALSE(fs::exists(here + "/-"));
}

TEST_CASE("an auc of labels that are all the same is undefined, and said to be", "[train]") {
  const DataFiles files;
  std::string job = WriteTabular(files, kLogistic);
  files.Write("same.csv", "color,size,label,kind\nred,1,0,0\nblue,2,0,0\n");
  const std::string report = files.Path("report.json"), model = files.Path("model");
  const std::vector<std::string> split = {"--set", "split={test_path: same.csv}"};
  std::vector<std::string> train = {"train",          job,           "--in-process",
                                    "--report",       report,        "--set",
                                    "train.epochs=1", "--model-dir", model};
  train.insert(train.end(), split.begin(), split.end());
  const auto result = Coxswain(train);
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.out, Contains("auc undefined: all labels are 0"));
  CHECK(ReadJson(report)["metrics"]["auc"].is_null());
  CHECK(ReadJson(report)["metrics"]["logloss"].is_number());
  const auto eval = [&](const std::string& to) {
    return Coxswain({"eval", "--model-dir", model, "--report", to});
  };
  const std::string evaluated = files.Path("evaluated.json");
  for (int time = 0; time < 2; ++time) {  // the second time it replaces its own
    const auto again = eval(evaluated);
    CHECK(again.code == 0);
    CHECK_THAT(again.out, Contains("auc  undefined: all labels are 0"));
    CHECK(ReadJson(evaluated)["metrics"]["auc"].is_null());
  }
  const auto over_training = eval(report);
  CHECK(over_training.code == 2);
  CHECK_THAT(over_training.err, Contains("report.json holds a report of training"));
  CHECK(ReadJson(report).contains("steps"));
}

TEST_CASE("an evaluation of no rows is a mistake that is told, and no result", "[train]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kLogistic), model = files.Path("model");
  files.Write("none.csv", "color,size,label,kind\n");
  for (const char* split : {"split={test_path: none.csv}", "split={test: 0.000001}"}) {
    const auto result = Coxswain({"train", job, "--in-process", "--set", split});
    CAPTURE(split, result.out, result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("split: it keeps no rows for the ") &&
                               Contains(" part, which is to be evaluated"));
  }
  // A job that evaluates nothing trains, and has no model whose quality could be asked for.
  const auto train = Coxswain({"train", job, "--in-process", "--set", "split=", "--set",
                               "train.epochs=1", "--model-dir", model});
  CAPTURE(train.err);
  REQUIRE(train.code == 0);
  const auto eval = Coxswain({"eval", "--model-dir", model});
  CHECK(eval.code == 2);
  CHECK_THAT(eval.err, Contains("there is nothing to evaluate"));
}

TEST_CASE("early stopping waits for a metric that is defined", "[train]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kLogistic), report = files.Path("report.json");
  files.Write("same.csv", "color,size,label,kind\nred,1,0,0\nblue,2,0,0\n");
  const auto result = Coxswain({"train", job, "--in-process", "--report", report, "--set",
                                "split={test_path: same.csv}", "--set", "train.epochs=4", "--set",
                                "evaluate={part: test, metrics: [auc]}", "--set",
                                "train.early_stopping={metric: auc, patience: 1}"});
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK_FALSE(ReadJson(report)["stopped_early"].get<bool>());
  CHECK_THAT(result.out, !Contains("stopped early"));
}

TEST_CASE("flags and keys that would do nothing are told", "[train]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kLogistic);
  const auto chaos = Coxswain({"train", job, "--in-process", "--chaos-dir", files.Path("chaos")});
  CHECK(chaos.code == 2);
  CHECK_THAT(chaos.err, Contains("--chaos-dir is for a run with --chaos"));
  const auto checkpoints = Coxswain({"train", job, "--in-process", "--set", "train.epochs=1",
                                     "--set", "checkpoint={every_seconds: 1}"});
  CHECK(checkpoints.code == 0);
  CHECK_THAT(checkpoints.err, Contains("note: no checkpoints are written"));
  const auto plain = Coxswain({"train", job, "--in-process", "--set", "train.epochs=1"});
  CHECK_THAT(plain.err, !Contains("no checkpoints"));
}

TEST_CASE("a worker's TF_CONFIG does not make a coordinator", "[cli]") {
  const DataFiles files;
  const std::string config = R"({"cluster": {"worker": ["127.0.0.1:1"], "ps": ["127.0.0.1:2"]},)"
                             R"( "task": {"type": "worker", "index": 0}})";
  const auto result =
      Run(CoxswainCommand({"train", WriteTabular(files, kLogistic)}), {{"TF_CONFIG", config}});
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains("TF_CONFIG says that this is worker 0: run coxswain-worker"));
}

std::vector<std::string> Names(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST_CASE(
    "the option resume of a finished job writes no other checkpoint, and of a longer one does",
    "[resume]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), directory = files.Path("checkpoints");
  const auto train = [&](const std::string& epochs, const std::string& more) {
    const auto result =
        Coxswain({"train", job, "--in-process", "--resume", "--checkpoint-dir", directory, "--set",
                  "checkpoint.every_seconds=0", "--set", "train.epochs=" + epochs, "--report",
                  files.Path("report.json"), "--set", more});
    CAPTURE(result.out, result.err);
    REQUIRE(result.code == 0);
    return ReadJson(files.Path("report.json"));
  };
  const std::string early = GENERATE("evaluate.every_epochs=1",
                                     "train.early_stopping={metric: rmse, patience: 1, min_delta: "
                                     "9}");
  CAPTURE(early);
  const nlohmann::json first = train("3", early);
  const std::vector<std::string> names = Names(directory);
  const nlohmann::json again = train("3", early);
  CHECK(Names(directory) == names);
  CHECK(again["steps"] == first["steps"]);
  CHECK(again["metrics"]["rmse"].get<double>() ==
        Approx(first["metrics"]["rmse"].get<double>()).epsilon(1e-6));
  if (early == "evaluate.every_epochs=1") {
    CHECK(train("4", early)["steps"] > first["steps"]);
    CHECK(Names(directory) != names);
  }
}

TEST_CASE("checkpoints and reports do not go into a saved model", "[files]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), model = files.Path("model");
  REQUIRE(Coxswain({"train", job, "--in-process", "--quiet", "--model-dir", model}).code == 0);
  const std::vector<std::string> names = Names(model);
  for (const std::vector<std::string>& flags :
       std::vector<std::vector<std::string>>{{"--checkpoint-dir", model},
                                             {"--checkpoint-dir", model + "/checkpoints"},
                                             {"--report", model + "/manifest.json"},
                                             {"--trace", model + "/trace.json"}}) {
    std::vector<std::string> arguments = {"train", job, "--in-process"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const auto result = Coxswain(arguments);
    CAPTURE(flags, result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, StartsWith("error: " + flags[0]) && Contains("lies in a saved model"));
    CHECK(result.out.empty());
    CHECK(Names(model) == names);
  }
}

TEST_CASE("sizes that no machine holds are told before training, with the key", "[cli]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, "model: {kind: mlp}\nlabel: {column: label}\n");
  const auto told = [&](const std::vector<std::string>& sets) {
    std::vector<std::string> command = {"train", job, "--in-process"};
    for (const std::string& set : sets) command.insert(command.end(), {"--set", set});
    const auto result = Coxswain(command);
    CAPTURE(sets, result.out);
    CHECK(result.code == 2);
    return result.err;
  };
  CHECK_THAT(told({"features.color.oov_buckets=1000000000000"}),
             Contains("features.color.oov_buckets: wanted integer 0..268435456; found"));
  // What a layer makes of a batch.
  CHECK_THAT(told({"model.hidden=[1048576]", "train.batch_size=16777216"}),
             Contains("train.batch_size: batches of 16777216 times the 1048576 of the variable "
                      "'deep/layer_0/kernel'; wanted at most 1099511627776 numbers"));
  CHECK_THAT(told({"model.hidden=[65537]", "model.classes=16777216",
                   "loss.kind=softmax_cross_entropy", "train.batch_size=1"}),
             Contains("model: the variable 'deep/layer_1/kernel' would be [65537,16777216]"));
  // Rows that only the data tells.
  files.Write("many.libsvm", "1 4000000000:1 7:1\n0 8:1\n1 9:1\n0 7:1\n");
  const auto many =
      Coxswain({"train",
                files.Write("many.yaml",
                            "dataset: {format: libsvm, path: many.libsvm}\n"
                            "features: [{name: features, kind: categorical, dim: 512}]\n"
                            "model: {kind: mlp}\n"),
                "--in-process"});
  INFO(many.err);
  CHECK(many.code == 2);
  CHECK_THAT(many.err,
             Contains("many.yaml:2:12: features.features: the table 'features' would have "
                      "4000000000 rows of 512 numbers"));
}

TEST_CASE("a model does not go where a job removes it, nor into another model", "[files]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), model = files.Path("model"),
                    checkpoints = files.Path("checkpoints");
  REQUIRE(Coxswain({"train", job, "--in-process", "--quiet", "--model-dir", model,
                    "--checkpoint-dir", checkpoints})
              .code == 0);
  const std::vector<std::string> in_model = Names(model), in_checkpoints = Names(checkpoints);
  for (const std::string& bad :
       {checkpoints + "/checkpoint-000001/model", checkpoints + "/inputs/model",
        checkpoints + "/best-000000007", model + "/sub"}) {
    const auto result =
        Coxswain({"train", job, "--in-process", "--init-from", model, "--model-dir", bad});
    CAPTURE(bad, result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, StartsWith("error: --model-dir " + bad) && Contains("another place"));
    CHECK(result.out.empty());
    CHECK(Names(model) == in_model);
    CHECK(Names(checkpoints) == in_checkpoints);
  }
}

TEST_CASE("the best values that somebody kept of an earlier job are not removed by a new one",
          "[files]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), checkpoints = files.Path("checkpoints");
  fs::create_directories(checkpoints + "/best-000000126");
  files.Write("checkpoints/best-000000126/mine", "mine");
  for (const bool resume : {false, true}) {
    std::vector<std::string> arguments = {"train",
                                          job,
                                          "--in-process",
                                          "--checkpoint-dir",
                                          checkpoints,
                                          "--set",
                                          "train.early_stopping={metric: rmse, patience: 2}"};
    if (resume) arguments.push_back("--resume");
    const auto result = Coxswain(arguments);
    CAPTURE(resume, result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, StartsWith("error: ") && Contains("checkpoints has best-000000126") &&
                               Contains("move best-000000126 elsewhere"));
    CHECK(fs::exists(checkpoints + "/best-000000126/mine"));
  }
}

TEST_CASE("no command makes a directory of an address in an object store, or waits for one",
          "[files]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"train", job, "--in-process", "--model-dir", "s3://b/x"},
           {"train", job, "--in-process", "--set", "dataset.streaming=true", "--set",
            "dataset.cache_directory=s3://b/c"},
           {"generate", "ratings", "--rows", "10", "--out", "s3://b/g.csv"},
           {"make-secret", "s3://b/sec"},
           {"serve", "--follow", "s3://b/ck"},
           {"eval", "--follow", "s3://b/ck"},
           {"eval", "--follow", "s3://b/ck", "--eval-dir", files.Path("eval")}}) {
    std::vector<std::string> here = {"/usr/bin/env", "-C", files.Path(""), kProgram};
    here.insert(here.end(), command.begin(), command.end());
    const auto result = Run(here);
    CAPTURE(command, result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, StartsWith("error: ") && Contains("s3://b/") &&
                               Contains("wanted a path of this machine"));
    CHECK_FALSE(fs::exists(files.Path("s3:")));
    CHECK_FALSE(fs::exists(files.Path("eval")));
  }
}

TEST_CASE(
    "the option local without daemons beside the program says where they belong, and what there is",
    "[local]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  const std::string alone = files.Path("coxswain");
  fs::copy_file(kProgram, alone);
  Process train({alone, "train", job, "--local", "1x1"});
  const auto result = train.Wait();
  CHECK(result.code == 2);
  CHECK_THAT(result.err,
             Contains(files.Path("coxswain-ps") + ", which cannot be run: No such file") &&
                 Contains("--cluster") && !Contains("daemon_directory"));
}

TEST_CASE("a value without an id is told by file and line", "[cli]") {
  const DataFiles files;
  // A record of two lines and a blank line: records are no lines.
  files.Write("a.csv", "x,y\n\"a\nb\",1\n\na,2\n\"a\nb\",1\na,3\n");
  files.Write("b.csv", "x,y\na,1\nz,2\n");
  const std::string job = files.Write("job.yaml", R"(name: classes
dataset: {path: a.csv, quoting: true}
features:
  - {name: x, kind: categorical, oov_buckets: 0}
  - {name: y, kind: numeric}
label: {feature: x}
split: {test_path: b.csv}
model: {kind: mlp, features: [y], classes: 2, hidden: [2]}
)");
  const auto result = Coxswain({"validate", job, "--data"});
  CAPTURE(result.err);
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains("\"z\"") && Contains("b.csv:3)"));
}

}  // namespace
}  // namespace coxswain
