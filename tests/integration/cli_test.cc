// The command line: what it prints, and the exit codes that scripts rely on.
#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/jobs.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

TEST_CASE("the command line tells its version and helps with every subcommand", "[cli]") {
  const auto version = Coxswain({"version"});
  CHECK(version.code == 0);
  CHECK_THAT(version.out, StartsWith("coxswain "));
  const auto help = Coxswain({"--help"});
  CHECK(help.code == 0);
  for (const char* name :
       {"train", "eval", "recommend", "explain", "validate", "status", "version"}) {
    INFO(name);
    CHECK_THAT(help.out, Contains(std::string("  ") + name));
    const auto result = Coxswain({name, "--help"});
    CHECK(result.code == 0);
    CHECK_THAT(result.out, Contains(std::string("Usage: coxswain ") + name));
    CHECK(result.err.empty());
  }
  CHECK_THAT(Coxswain({"train", "--help"}).out, Contains("--connect-timeout"));
}

TEST_CASE("wrong usage ends with code 2 and says what was wanted", "[cli]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  struct Case {
    std::vector<std::string> arguments;
    std::vector<std::string> said;
  };
  const std::vector<Case> cases = {
      {{}, {"subcommand"}},
      {{"trains", job}, {"unknown command \"trains\"", "did you mean \"train\""}},
      {{"train", job, "--in-process", "--modeldir", "m"},
       {"unknown flag \"--modeldir\"", "did you mean \"--model-dir\"",
        "there are: --help, --cluster, --local, --in-process, --set"}},  // --help once
      {{"train", job}, {"--cluster", "--local", "--in-process"}},
      {{"train", job, "--local", "1x1", "--in-process"}, {"--local", "--in-process"}},
      {{"train", job, "--local", "2y2"}, {"--local 2y2", "PSxW"}},
      {{"train", job, "--local", "0x1"}, {"--local 0x1", "PSxW"}},
      {{"train", files.Path("none.yaml"), "--in-process"}, {"none.yaml", "No such file"}},
      {{"train", job, "--cluster", files.Path("none.yaml")}, {"none.yaml", "No such file"}},
      {{"train", job, "--in-process", "--set", "train.epoch=2"},
       {"--set train.epoch=2", "'epoch'", "did you mean 'epochs'"}},
      {{"train", job, "--in-process", "--set", "dataset.path=none.csv"},
       {"none.csv", "No such file"}},
      {{"train", job, "--in-process", "--set", "features.user.column=usr"},
       {"'usr'", "did you mean 'user'", "ratings.csv"}},
      {{"validate", job, "--set", "label.column=ratin"}, {"'ratin'", "did you mean 'rating'"}},
      {{"eval", job, "--model-dir", files.Path("none")}, {"none", "no saved model"}},
      {{"status", "--cluster", files.Path("none.yaml")}, {"none.yaml", "No such file"}},
      {{"explain", job, "--ps", "0"}, {"--ps"}},
      {{"train", job, "--in-process", "--threads", "20000"}, {"--threads", "20000", "1024"}},
      {{"train", job, "--in-process", "--insecure"}, {"--insecure excludes --in-process"}},
      {{"train", job, "--local", "1x1", "--secret-file", "s"}, {"--secret-file excludes --local"}},
      {{"eval", job, "--model-dir", "m", "--insecure"}, {"--insecure requires --cluster"}},
      {{"predict", "--model-dir", "m", "--input", "-", "--force"}, {"--force requires --output"}},
      {{"predict", "--checkpoint-dir", "c", "--input", "-", "--checkpoint", "-1"},
       {"--checkpoint: wanted a number from 0 to ", "found -1"}},
  };
  for (const Case& c : cases) {
    const auto result = Coxswain(c.arguments);
    CAPTURE(c.arguments, result.out, result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, StartsWith("error: "));
    for (const std::string& text : c.said) CHECK_THAT(result.err, Contains(text));
  }
}

TEST_CASE("a flag refuses what is no number, and times that would never be over", "[cli]") {
  const std::vector<std::vector<std::string>> commands = {
      {"train", "job.yaml", "--in-process", "--connect-timeout"},
      {"train", "job.yaml", "--in-process", "--checkpoint-every"},
      {"status", "--cluster", "none.yaml", "--timeout"},
      {"add-worker", "a:1", "--cluster", "none.yaml", "--timeout"},
      {"eval", "--follow", "none", "--idle-seconds"},
      {"serve", "--model-dir", "none", "--index-recall"}};
  for (std::vector<std::string> arguments : commands) {
    const std::string flag = arguments.back();
    arguments.emplace_back();
    for (const std::string wrong : {"nan", "inf", "1e300", "-1", "x"}) {
      arguments.back() = wrong;
      const auto result = Coxswain(arguments);
      CAPTURE(arguments, result.out, result.err);
      CHECK(result.code == 2);
      CHECK_THAT(result.err, StartsWith("error: " + flag + ": wanted a number "));
      CHECK_THAT(result.err, Contains(", found " + wrong + "\n"));
    }
  }
  CHECK_THAT(Coxswain({"status", "--cluster", "none.yaml", "--timeout", "0"}).err,
             StartsWith("error: --timeout: wanted a number > 0, at most 1e+09, found 0\n"));
  CHECK_THAT(Coxswain({"serve", "--model-dir", "none", "--index-recall", "0.4"}).err,
             StartsWith("error: --index-recall: wanted a number from 0.5 to 1, found 0.4\n"));
}

TEST_CASE("an unknown key is told with file, line, column and the nearest key", "[cli]") {
  const DataFiles files;
  WriteMatrixFactorization(files);
  const std::string job = files.Write("wrong.yaml", R"(dataset: {path: ratings.csv}
features:
  - {name: user, kind: categorical}
  - {name: item, kind: categorical}
label: {column: rating}
model:
  kind: matrix_factorization
  user: {feature: user}
  item: {feature: item}
train:
  batch_sise: 32
)");
  const auto result = Coxswain({"train", job, "--in-process"});
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains("wrong.yaml:11:3: "));
  CHECK_THAT(result.err, Contains("did you mean 'batch_size'"));
}

TEST_CASE("what cannot be printed is no success, and a file that may not grow is an error",
          "[cli]") {
  const DataFiles files;
  const std::string coxswain = CoxswainCommand({})[0];
  const auto shell = [&](const std::string& line) {
    Process process({"/bin/sh", "-c", line});
    return process.Wait();
  };
  for (const char* command : {"version", "help", "train --help"}) {
    const auto full = shell(absl::StrCat("exec '", coxswain, "' ", command, " > /dev/full"));
    INFO(command << ": " << full.err);
    CHECK(full.code == 3);
    CHECK_THAT(full.err, Contains("error: cannot write stdout"));
  }
  // A job's results are elsewhere.
  const auto trained =
      shell(absl::StrCat("exec '", coxswain, "' train '", WriteMatrixFactorization(files),
                         "' --in-process --model-dir '", files.Path("model"), "' > /dev/full"));
  INFO(trained.err);
  CHECK(trained.code == 0);
  // SIGXFSZ would end it without a word.
  const auto bounded = shell(absl::StrCat("ulimit -f 8; exec '", coxswain,
                                          "' generate ratings --rows 100000 --out '",
                                          files.Path("generated.csv"), "'"));
  INFO(bounded.err);
  CHECK(bounded.code == 3);
  CHECK_THAT(bounded.err, Contains("generated.csv") && Contains("File too large"));
}

TEST_CASE("a limit of the size of files is told as that, and not as a full disk", "[cli]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  for (const char* flag : {"--report", "--checkpoint-dir", "--model-dir"}) {
    Process process({"/bin/sh", "-c",
                     absl::StrCat("ulimit -f 2; exec '", kProgram, "' train '", job,
                                  "' --in-process ", flag, " '", files.Path("out"), "'")});
    const auto result = process.Wait();
    INFO(flag << ": " << result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains(flag) && Contains("File too large") && Contains("ulimit -f") &&
                               !Contains("No space left"));
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they map terabytes
TEST_CASE("memory that cannot be had is an error, and no abort", "[cli]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  // The coordinator counts how often each of the ids occurs: 2 GiB.
  const auto train = [&](int64_t mib) {
    return Run(
        {"/bin/sh", "-c",
         absl::StrCat(
             "ulimit -c 0; ulimit -v ", mib * 1024, "; exec '", kProgram, "' train '", job,
             "' --in-process --set features.user.oov_buckets=268435456 --set model.dim=2048")});
  };
  // It says how much address space its threads take, which goes by the cores.
  const std::string needs = train(400).err;
  int64_t for_threads = 0;
  const size_t at = needs.find("needs ");
  REQUIRE(at != std::string::npos);
  REQUIRE(absl::SimpleAtoi(needs.substr(at + 6, needs.find(' ', at + 6) - at - 6), &for_threads));
  const auto result = train(for_threads + 200);
  CAPTURE(result.out, result.err);
  CHECK(result.code == 3);
  // With room for what so many threads never take it is the table's memory.
  CHECK_THAT(result.err, Contains("error: ") &&
                             (Contains("out of memory") || Contains("Cannot allocate memory")));
}
#endif

TEST_CASE("a cluster that cannot be reached ends with code 4 and names who is missing", "[cli]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  const std::string address = "127.0.0.1:" + std::to_string(FreePort());
  const std::string other = "127.0.0.1:" + std::to_string(FreePort());
  const std::string cluster =
      files.Write("cluster.yaml", "ps: [\"" + address + "\"]\nworker: [\"" + other + "\"]\n");
  const auto train = Coxswain({"train", job, "--cluster", cluster, "--connect-timeout", "1"});
  CAPTURE(train.err);
  CHECK(train.code == 4);
  CHECK_THAT(train.err, Contains("/job:ps/task:0 at " + address));
  CHECK_THAT(train.err, Contains("/job:worker/task:0 at " + other));
  const auto status = Coxswain({"status", "--cluster", cluster, "--timeout", "1"});
  CHECK(status.code == 4);
  CHECK_THAT(status.out, Contains("ps:0") && Contains(address) && Contains("not there"));
}

TEST_CASE("explain shows each task's component and what they send to each other", "[cli]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  const auto text = Coxswain({"explain", job, "--ps", "2"});
  CHECK(text.code == 0);
  for (const char* part :
       {"component worker", "component ps:0", "component ps:1", "send ", "recv ", "GatherShard"}) {
    CHECK_THAT(text.out, Contains(part));
  }
  CHECK_FALSE(absl::StrContains(Coxswain({"explain", job, "--ps", "1"}).out, "component ps:1"));
}

TEST_CASE("explain --dot writes a graph that Graphviz can draw", "[cli]") {
  const DataFiles files;
  const auto graph = Coxswain({"explain", WriteTwoTower(files), "--ps", "2", "--dot"});
  CHECK(graph.code == 0);
  CHECK_THAT(graph.out,
             StartsWith("digraph") && Contains("->") && Catch::Matchers::EndsWith("}\n"));
  CHECK(std::count(graph.out.begin(), graph.out.end(), '{') ==
        std::count(graph.out.begin(), graph.out.end(), '}'));
  const std::string dot = "/usr/bin/dot";
  if (!std::filesystem::exists(dot)) {
    WARN("Graphviz is not installed: only the structure was looked at");
    return;
  }
  const auto drawn = Run({dot, "-Tsvg", files.Write("graph.dot", graph.out)});
  CAPTURE(drawn.err);
  CHECK(drawn.code == 0);
  CHECK_THAT(drawn.out, Contains("<svg"));
}

TEST_CASE("validate accepts a good job without training it", "[cli]") {
  const DataFiles files;
  const auto result = Coxswain({"validate", WriteMatrixFactorization(files)});
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Contains("job 'ratings' is valid"));
  // Without the data the columns cannot be known.
  const auto no_data =
      Coxswain({"validate", files.Path("mf.yaml"), "--no-data", "--set", "dataset.path=none.csv"});
  CHECK(no_data.code == 0);
}

}  // namespace
}  // namespace coxswain
