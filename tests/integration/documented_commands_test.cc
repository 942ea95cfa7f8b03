// The command lines that the pages show run as they are shown: each is taken from its page, only
// addresses and places of other machines are replaced, and a shell runs it in a folder that has
// what the page speaks of. A page with a line that nothing here runs fails the last test.
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tests/integration/jobs.h"
#include "tests/integration/server_port.h"
#include "tests/integration/user_folder.h"
#include "tests/testing/pages.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;
namespace fs = std::filesystem;

// A worker that is not in the cluster file yet.
std::unique_ptr<Process> ThirdWorker() {
  return std::make_unique<Process>(
      std::vector<std::string>{COXSWAIN_BINARY_DIR "/bin/coxswain-worker", "--port", "0", "--task",
                               "2", "--exit-with-parent"});
}

void EndByInterrupt(Process* process) {
  process->Kill(SIGINT);
  const auto ended = process->Wait();
  CAPTURE(ended.out, ended.err);
  CHECK(ended.code == 0);
}

// How a row of the front page's table of commands is run.
struct Example {
  Changes places;    // what stands for the row's capitals
  std::string more;  // flags that say where
  std::string says;  // on stdout
};

const std::map<std::string, Example>& Examples() {
  static const auto* const examples = new std::map<std::string, Example>{
      {"train", {{}, "--in-process --model-dir model --checkpoint-dir checkpoints", "test"}},
      {"eval", {{}, "", "rmse"}},
      {"predict", {{{"FILE", "rows.csv"}}, "", "prediction\n"}},
      {"serve", {{{"HOST:PORT", "127.0.0.1:0"}}, "", "/v1/models/"}},
      {"recommend", {{}, "--user ada", "ada  "}},
      {"nearest", {{{"WORD", "Heat"}}, "--table film", "Collateral"}},
      {"export", {{{"FILE", "model.npz"}}, "", ""}},
      {"table", {{}, "", "film"}},
      {"explain", {{}, "", "component worker"}},
      {"generate", {{{"FILE", "made"}, {" N", " 100"}}, "--force", ""}},
      {"validate", {{}, "", "is valid"}},
      {"checkpoint", {{{" DIR", " checkpoints"}}, "", "pending"}},
      {"chaos",
       {{{"CHAOS.yaml", "chaos.yaml"}, {"FILE", "cluster.yaml"}},
        "--set checkpoint.every_steps=150",
        "every promise was kept"}},
      {"add-worker", {{}, "", "is worker:2"}},
      {"status", {{}, "", "ps:0"}},
      {"make-certificates", {{{" DIR", " tls"}}, "", ""}},
      {"make-secret", {{{"FILE", "secret"}}, "", ""}},
      {"help", {{{"COMMAND", "train"}}, "", "Usage: coxswain train"}},
      {"version", {{}, "", "coxswain "}},
  };
  return *examples;
}

// What a cell such as `coxswain eval [JOB.yaml] --model-dir DIR` stands for: with and without what
// is in brackets, and with either word of `a\|b`.
std::vector<std::string> Meanings(const std::string& cell) {
  const size_t open = cell.find('['), close = cell.find("] "), bar = cell.find("\\|");
  if (open != std::string::npos) {
    return {absl::StrCat(cell.substr(0, open), cell.substr(close + 2)),
            absl::StrCat(cell.substr(0, open), cell.substr(open + 1, close - open - 1),
                         cell.substr(close + 1))};
  }
  if (bar == std::string::npos) return {cell};
  const size_t begin = cell.rfind(' ', bar) + 1, end = cell.find(' ', bar);
  return {absl::StrCat(cell.substr(0, bar), cell.substr(end)),
          absl::StrCat(cell.substr(0, begin), cell.substr(bar + 2))};
}

void RunExample(const Folder& folder, const std::string& cell, const Example& example) {
  for (const std::string& meaning : Meanings(cell)) {
    std::string line = absl::StrReplaceAll(meaning, example.places);
    line = absl::StrReplaceAll(line, {{"JOB.yaml", "films.yaml"},
                                      {"--model-dir DIR", "--model-dir model"},
                                      {"--cluster FILE", "--cluster cluster.yaml"}});
    absl::StrAppend(&line, " ", example.more);
    CAPTURE(line);
    if (absl::StartsWith(line, "coxswain serve")) {
      const auto server = folder.Start(line);
      PortOf(*server);
      EndByInterrupt(server.get());
      continue;
    }
    const std::string out = folder.MustDo(line);
    CHECK_THAT(out, Contains(example.says));
  }
}

TEST_CASE("docs: each command of the front page's table runs as it is shown there", "[docs]") {
  const Folder folder;
  WriteFilms(folder.files);
  folder.files.Write("chaos.yaml",
                     "baseline: false\nfaults:\n"
                     "  - {task: \"worker:1\", action: stop, at_update: [20], stop_for: 100ms}\n");
  const Daemons daemons(folder.files, 1, 2);
  const auto added = ThirdWorker();
  std::set<std::string> run;
  for (const std::string& cell : FirstCells(kReadme, "command")) {
    if (!absl::StartsWith(cell, "`coxswain ")) continue;  // the daemons, which run
    const std::string line = absl::StrReplaceAll(cell, {{"`", ""}});
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    INFO(line);  // a row that has no example yet
    REQUIRE(Examples().count(words[1]) == 1);
    Example example = Examples().at(words[1]);
    example.places.emplace_back("HOST:PORT...", AddressOf(*added));
    RunExample(folder, line, example);
    run.insert(words[1]);
  }
  CHECK(run.size() == Examples().size());
  for (const char* left : {"model/model.json", "model.npz", "made", "secret"}) {
    INFO(left);
    CHECK(fs::exists(folder.files.Path(left)));
  }
}

TEST_CASE("docs: the front page's commands validate, train, and run a cluster", "[docs]") {
  const Folder folder;
  WriteFilms(folder.files);
  const std::vector<std::string> blocks = CodeBlocks(kReadme, "yaml");
  REQUIRE(blocks.size() == 2);
  std::string cluster = blocks[1];
  for (int host = 1; host <= 5; ++host) {
    cluster = absl::StrReplaceAll(cluster, {{absl::StrCat("10.0.0.", host, ":7000"),
                                             absl::StrCat("127.0.0.1:", FreePort())}});
  }
  folder.files.Write("cluster.yaml", cluster);
  std::vector<std::unique_ptr<Process>> daemons;
  const std::vector<std::string> lines = CommandLines(kReadme);
  REQUIRE(lines.size() > 5);
  for (const std::string& shown : lines) {
    const std::string line = absl::StrReplaceAll(shown, {{"/shared", folder.files.Path("")}});
    CAPTURE(line);
    if (absl::StartsWith(line, "coxswain-")) {
      // The line of a worker is that of three.
      for (int task = 0; task < (absl::StartsWith(line, "coxswain-worker") ? 3 : 1); ++task) {
        daemons.push_back(folder.Start(
            absl::StrCat(absl::StrReplaceAll(line, {{"--task 0", absl::StrCat("--task ", task)}}),
                         " --exit-with-parent")));
        AddressOf(*daemons.back());
      }
      continue;
    }
    folder.MustDo(line);
  }
  CHECK(daemons.size() == 5);
  CHECK(fs::exists(folder.files.Path("model/model.json")));
}

TEST_CASE("docs: the page on serving's commands serve, follow, and answer curl", "[docs][serve]") {
  if (Run({"/bin/sh", "-c", "command -v curl"}).code != 0) {
    WARN("skipped: curl is not installed");
    return;
  }
  const Folder folder;
  WriteFilms(folder.files);
  folder.MustDo("coxswain train films.yaml --in-process --quiet --model-dir model");
  folder.MustDo("coxswain make-certificates made");
  for (const char* copy : {"tls.crt server.crt", "tls.key server.key", "ca.crt clients.crt"}) {
    folder.MustDo(absl::StrCat("cp -p made/", copy));
  }
  std::map<std::string, int> ports;  // of a saved model, and of a job that is followed
  std::vector<std::unique_ptr<Process>> servers;
  std::vector<const Process*> following;
  int asked = 0;
  for (std::string line : CommandLines("docs/serving.md")) {
    CAPTURE(line);
    if (absl::StartsWith(line, "coxswain serve")) {
      const bool follows = absl::StrContains(line, "--follow"),
                 named = absl::StrContains(line, "--name");
      line =
          absl::StrReplaceAll(line, {{" --http 127.0.0.1:8501", ""}, {" --http 0.0.0.0:8501", ""}});
      servers.push_back(folder.Start(absl::StrCat(line, " --http 127.0.0.1:0")));
      const int port = PortOf(*servers.back());
      if (follows) following.push_back(servers.back().get());
      if (named) ports[follows ? "followed" : "saved"] = port;
      continue;
    }
    if (absl::StartsWith(line, "coxswain ")) {
      folder.MustDo(line);
      for (const Process* server : following) CHECK(server->WaitForOutput(" steps\n"));
      continue;
    }
    const bool use = absl::StrContains(line, ":use");
    // The checkpoint of 1,200 steps is that of as many as there are here.
    const std::string steps = !use ? ""
                                   : absl::StrCat(json::parse(folder.MustDo(
                                         "coxswain checkpoint list checkpoints --json"))[0]["steps"]
                                                      .get<int64_t>());
    line = absl::StrReplaceAll(
        line, {{"127.0.0.1:8501", absl::StrCat("127.0.0.1:", ports[use ? "followed" : "saved"])},
               {"1200", steps}});
    const json answer =
        json::parse(folder.MustDo(absl::StrCat(line, " --silent --show-error --fail")));
    if (use) {
      CHECK(answer == json{{"version", steps}, {"following", asked == 2}});
    } else {
      CHECK(answer.at("predictions").size() == 1);
    }
    ++asked;
  }
  CHECK(asked == 3);
  for (const auto& server : servers) EndByInterrupt(server.get());
}

TEST_CASE("docs: the page on predictions' commands predict and suggest", "[docs]") {
  const Folder folder;
  WriteUsers(folder.files);
  folder.MustDo(
      "coxswain train pairs.yaml --in-process --quiet --model-dir model "
      "--checkpoint-dir checkpoints");
  folder.MustDo("coxswain train described.yaml --in-process --quiet --model-dir described");
  const Daemons daemons(folder.files, 1, 1);
  for (const std::string& shown : CommandLines("docs/predict.md")) {
    std::string line = shown;
    if (absl::StrContains(line, "--value")) {
      line = absl::StrReplaceAll(line, {{"--model-dir model", "--model-dir described"}});
    }
    CAPTURE(line);
    const bool writes = absl::StrContains(line, "--output ");
    CHECK(folder.MustDo(line).empty() == writes);
    for (const char* output : {"predictions.csv", "suggestions.csv"}) {
      if (absl::StrContains(line, output)) CHECK(fs::remove(folder.files.Path(output)));
    }
  }
}

TEST_CASE("docs: the page on export's commands write what they name", "[docs]") {
  const Folder folder;
  WriteFilms(folder.files, {{"film", "item"}, {"Heat", "git"}});
  folder.MustDo(
      "coxswain train films.yaml --in-process --quiet --model-dir model "
      "--checkpoint-dir checkpoints --set checkpoint.keep=100 --set checkpoint.every_steps=2 "
      "--set train.batch_size=32");
  for (const std::string& line : CommandLines("docs/export.md")) {
    CAPTURE(line);
    const std::string out = folder.MustDo(line);
    const size_t named = line.find("--out ");
    if (named == std::string::npos) {
      CHECK_THAT(out, Contains("item") || Contains("git"));
      continue;
    }
    const std::vector<std::string> words = absl::StrSplit(line.substr(named), ' ');
    CHECK(fs::exists(folder.files.Path(words[1])));
  }
}

TEST_CASE("docs: the page on evaluation's commands train, and evaluate what is followed",
          "[docs][sidecar]") {
  const Folder folder;
  WriteFilms(folder.files);
  for (const char* directory : {"models", "clicks"}) {
    fs::create_directories(folder.files.Path(directory));
  }
  folder.MustDo("coxswain train films.yaml --in-process --quiet --model-dir models/monday");
  folder.files.Write("clicks/tuesday.csv", "user,film,stars\nada,Heat,3\nu1,Ronin,2\n");
  for (const std::string& line : CommandLines("docs/evaluation.md")) {
    CAPTURE(line);
    if (absl::StrContains(line, "--follow")) {
      const auto side = folder.Start(line);
      const bool evaluated = side->WaitForOutput("rmse");
      CAPTURE(side->out(), side->err());
      REQUIRE(evaluated);
      EndByInterrupt(side.get());
      continue;
    }
    CHECK_THAT(folder.MustDo(line), Contains("rmse"));
  }
}

TEST_CASE("docs: the pages on failures, secrets, traces and reports show commands that run",
          "[docs]") {
  const Folder folder;
  WriteFilms(folder.files);
  const Daemons daemons(folder.files, 1, 2);
  const auto added = ThirdWorker();
  const Changes changes = {{"10.0.0.9:7000", AddressOf(*added)},
                           {"/shared/films", folder.files.Path("DIR")}};
  for (const char* page :
       {"docs/failures.md", "docs/security.md", "docs/performance.md", "docs/report.md"}) {
    const std::vector<std::string> lines = CommandLines(page);
    CHECK_FALSE(lines.empty());
    for (const std::string& line : lines) {
      CAPTURE(page, line);
      CHECK_FALSE(folder.MustDo(absl::StrReplaceAll(line, changes)).empty());
    }
  }
}

TEST_CASE("docs: no page shows a command that is not run by a test", "[docs]") {
  const std::set<std::string> run = {
      "README.md",     "serving.md",  "predict.md",     "export.md", "evaluation.md",
      "failures.md",   "security.md", "performance.md", "report.md",
      "chaos.md",       // by `./dev chaos` and chaos_test.cc
      "disk.md",        // disk_test.cc
      "gpu.md",         // wants a GPU: gpu_test.cc
      "monitoring.md",  // metrics_test.cc
  };
  std::set<std::string> showing;
  for (const auto& entry : fs::directory_iterator(COXSWAIN_SOURCE_DIR "/docs")) {
    const std::string name = entry.path().filename();
    if (entry.path().extension() != ".md") continue;
    if (!CommandLines(absl::StrCat("docs/", name)).empty()) showing.insert(name);
  }
  showing.insert(kReadme);
  CHECK(showing == run);
}

}  // namespace
}  // namespace coxswain
