// A job like the quickstart's, served while it trains: whoever is killed, what is asked is
// answered, newer checkpoints are served soon, and older ones on request.
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "httplib.h"
#include "tests/integration/jobs.h"
#include "tests/integration/server_port.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;

constexpr char kJson[] = "application/json";
// docs/serving.md says within seconds; on a machine that does other work, too, it takes longer.
constexpr absl::Duration kVisible = absl::Seconds(30);

// The version that answers; 0: none yet.
int64_t Version(httplib::Client* client) {
  const auto answer = client->Get("/v1/models/model");
  REQUIRE(answer);
  const json status = json::parse(answer->body).at("model_version_status").at(0);
  int64_t version = 0;
  if (status.at("state") != "AVAILABLE") return 0;
  REQUIRE(absl::SimpleAtoi(status.at("version").get<std::string>(), &version));
  return version;
}

// Waits until that many steps or more are served. False: not in time.
bool AwaitVersion(httplib::Client* client, int64_t steps, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (Version(client) < steps) {
    if (absl::Now() > deadline) return false;
  }
  return true;
}

struct Saved {
  int64_t number = 0;
  int64_t steps = 0;
};
// Newest first.
std::vector<Saved> Checkpoints(const std::string& directory) {
  const auto listed = Coxswain({"checkpoint", "list", directory, "--json"});
  INFO(listed.out << listed.err);
  REQUIRE(listed.code == 0);
  std::vector<Saved> saved;
  for (const json& entry : json::parse(listed.out)) {
    if (!entry.at("ok").get<bool>()) continue;  // removed while it was listed
    saved.push_back({entry.at("number").get<int64_t>(), entry.at("steps").get<int64_t>()});
  }
  return saved;
}

// The workers that this process started with `--local`.
std::vector<pid_t> WorkersOf(pid_t pid) {
  std::vector<pid_t> workers;
  std::error_code error;
  for (const auto& thread :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/task"), error)) {
    std::ifstream children(thread.path() / "children");
    for (pid_t child; children >> child;) {
      std::ifstream command(absl::StrCat("/proc/", child, "/cmdline"));
      std::string program;
      std::getline(command, program, '\0');
      if (absl::EndsWith(program, "coxswain-worker")) workers.push_back(child);
    }
  }
  return workers;
}

// Asks for suggestions, one request after the other, until it is stopped.
class Asking {
 public:
  explicit Asking(int port) : thread_([this, port] { Run(port); }) {}
  ~Asking() { Stop(); }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

  void Stop() {
    ending_ = true;
    if (thread_.joinable()) thread_.join();
  }
  int64_t answered() const { return answered_; }
  int64_t failed() const { return failed_; }

 private:
  void Run(int port) {
    httplib::Client client("127.0.0.1", port);
    while (!ending_) {
      const auto answer = client.Post("/v1/models/model:recommend",
                                      R"({"instances": [{"items": ["i1", "i2"]}], "k": 3})", kJson);
      ++(answer && answer->status == 200 ? answered_ : failed_);
    }
  }

  std::atomic<bool> ending_{false};
  std::atomic<int64_t> answered_{0}, failed_{0};
  std::thread thread_;
};

// One question by curl, as docs/serving.md shows it.
void AskByCurl(int port) {
  const auto answer =
      Run({"/bin/sh", "-c",
           absl::StrCat("curl --silent --show-error --fail -d "
                        "'{\"instances\": [{\"items\": [\"i1\"]}]}' http://127.0.0.1:",
                        port, "/v1/models/model:recommend")});
  if (answer.code == 127) {
    WARN("curl is not installed: only this program's own client was used");
    return;
  }
  INFO(answer.err);
  CHECK(answer.code == 0);
  CHECK_THAT(answer.out, Contains("{\"predictions\":[{\"items\":["));
}

TEST_CASE(
    "serve: a recommender that trains with --local answers each request from its first checkpoint "
    "on, by newer and newer versions, while its workers are killed",
    "[serve]") {
  const DataFiles files;
  const std::string job = WriteTwoTower(files), checkpoints = files.Path("checkpoints");
  Process server(CoxswainCommand({"serve", "--follow", checkpoints, "--http", "127.0.0.1:0"}));
  const int port = PortOf(server);
  httplib::Client client("127.0.0.1", port);
  CHECK(Version(&client) == 0);
  // It has no end but the interrupt below.
  Process training(
      CoxswainCommand({"train", job, "--local", "2x2", "--quiet", "--checkpoint-dir", checkpoints,
                       "--set", "checkpoint.every_steps=500", "--set", "train.epochs=1000000",
                       "--set", "evaluate.every_epochs=1000000"}));
  const bool first = server.WaitForOutput(" steps\n");
  INFO(training.err() << server.err());
  REQUIRE(first);
  Asking asking(port);
  AskByCurl(port);
  int64_t version = Version(&client);
  CHECK(version > 0);
  for (int kill_number = 0; kill_number < 3; ++kill_number) {
    const std::vector<pid_t> workers = WorkersOf(training.pid());
    REQUIRE_FALSE(workers.empty());
    kill(workers[static_cast<size_t>(kill_number) % workers.size()], SIGKILL);
    // What is trained after the kill is served.
    const bool newer = AwaitVersion(&client, version + 1, absl::Seconds(60));
    CAPTURE(kill_number, version, training.err(), server.err());
    REQUIRE(newer);
    const int64_t now = Version(&client);
    CHECK(now > version);
    version = now;
    // So is what is the newest on disk, in a bounded time.
    const std::vector<Saved> saved = Checkpoints(checkpoints);
    REQUIRE_FALSE(saved.empty());
    CHECK(AwaitVersion(&client, saved[0].steps, kVisible));
  }
  training.Kill(SIGINT);
  const auto trained = training.Wait();
  CAPTURE(trained.err, server.err());
  CHECK(trained.code == 75);
  CHECK(AwaitVersion(&client, Checkpoints(checkpoints)[0].steps, kVisible));
  asking.Stop();
  CHECK(asking.answered() > 0);
  CHECK(asking.failed() == 0);
  server.Kill(SIGTERM);
  CHECK(server.Wait().code == 0);
}

// Items and scores, which are f32 whatever number of digits they are written with.
struct Ranking {
  std::vector<std::string> items;
  std::vector<float> scores;

  bool operator==(const Ranking& other) const {
    return items == other.items && scores == other.scores;
  }
};
Ranking RankingOf(const json& prediction) {
  return {prediction.at("items").get<std::vector<std::string>>(),
          prediction.at("scores").get<std::vector<float>>()};
}

// What `predict` says of this checkpoint.
std::vector<Ranking> Predicted(const std::string& checkpoints, const Saved& saved,
                               const std::string& rows) {
  const auto result =
      Coxswain({"predict", "--checkpoint-dir", checkpoints, "--checkpoint",
                absl::StrCat(saved.number), "--input", rows, "--format", "jsonl", "--top", "8"});
  INFO(result.err);
  REQUIRE(result.code == 0);
  std::vector<Ranking> lines;
  for (absl::string_view line : absl::StrSplit(result.out, '\n', absl::SkipEmpty())) {
    lines.push_back(RankingOf(json::parse(std::string(line))));
  }
  return lines;
}

TEST_CASE(
    "serve: on request an older checkpoint answers again, exactly as it did, until the newest is "
    "asked for",
    "[serve]") {
  const DataFiles files;
  const std::string job = WriteTwoTower(files), checkpoints = files.Path("checkpoints");
  const auto trained = Coxswain({"train", job, "--in-process", "--quiet", "--checkpoint-dir",
                                 checkpoints, "--set", "checkpoint.every_steps=20", "--set",
                                 "checkpoint.keep=100", "--set", "train.epochs=500"});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  const std::string rows = files.Write("rows.csv", "history\ni1|i2\ni9\n");
  const std::vector<Saved> saved = Checkpoints(checkpoints);
  REQUIRE(saved.size() > 1);
  const Saved newest = saved.front(), older = saved.back();
  REQUIRE(older.steps < newest.steps);
  const std::vector<Ranking> by_older = Predicted(checkpoints, older, rows),
                             by_newest = Predicted(checkpoints, newest, rows);
  REQUIRE(by_older.size() == 2);
  REQUIRE_FALSE(by_older == by_newest);

  Process server(CoxswainCommand({"serve", "--follow", checkpoints, "--http", "127.0.0.1:0"}));
  httplib::Client client("127.0.0.1", PortOf(server));
  REQUIRE(AwaitVersion(&client, newest.steps, absl::Seconds(60)));
  const auto answers = [&client] {
    const auto answer = client.Post(
        "/v1/models/model:predict",
        R"({"instances": [{"history": ["i1", "i2"]}, {"history": ["i9"]}], "top": 8})", kJson);
    REQUIRE(answer);
    INFO(answer->body);
    REQUIRE(answer->status == 200);
    std::vector<Ranking> rankings;
    const json body = json::parse(answer->body);
    for (const json& prediction : body.at("predictions")) {
      rankings.push_back(RankingOf(prediction));
    }
    return rankings;
  };
  const auto use = [&client](const std::string& version) {
    const auto answer =
        client.Post("/v1/models/model:use", absl::StrCat("{\"version\": ", version, "}"), kJson);
    REQUIRE(answer);
    INFO(answer->body);
    REQUIRE(answer->status == 200);
    return json::parse(answer->body);
  };
  CHECK(answers() == by_newest);
  CHECK(use(absl::StrCat(older.steps)) ==
        json{{"version", absl::StrCat(older.steps)}, {"following", false}});
  CHECK(Version(&client) == older.steps);
  CHECK(answers() == by_older);
  CHECK(use("\"newest\"") == json{{"version", absl::StrCat(newest.steps)}, {"following", true}});
  CHECK(Version(&client) == newest.steps);
  CHECK(answers() == by_newest);
  server.Kill(SIGTERM);
  CHECK(server.Wait().code == 0);
}

}  // namespace
}  // namespace coxswain
