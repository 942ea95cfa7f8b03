// Suggestions of a model that sees the last of what a user had: whoever asks for a user, and
// however the model came to know the history, the last items are the last ones by `by`.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "httplib.h"
#include "tests/integration/jobs.h"
#include "tests/integration/server_port.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;

constexpr int kItems = 20, kUsers = 100, kVisits = 9;

std::string User(int user) { return absl::StrCat("u", user); }
std::string Item(int item) { return absl::StrCat("i", 100 + item % kItems); }
int FirstOf(int user) { return user * 7; }

// Everybody goes round the same ring of items, so that what comes next follows from the last item
// alone. The newest rows come first.
std::string Visits(int first_user, int from, int to) {
  std::string rows = "user,item,time\n";
  for (int visit = to - 1; visit >= from; --visit) {
    for (int user = first_user; user < kUsers; ++user) {
      absl::StrAppend(&rows, User(user), ",", Item(FirstOf(user) + visit), ",", visit, "\n");
    }
  }
  return rows;
}

std::string Job(const std::string& path, int max_values = 1) {
  return absl::StrCat(
      "name: ring\ndataset: {path: ", path,
      "}\nfeatures:\n  - {name: item, kind: categorical}\n"
      "  - {name: seen, kind: history, history_of: item, group_by: user, by: time, max_values: ",
      max_values,
      "}\nsplit: {holdout_per: user, by: time, holdout_last: true}\n"
      "model: {kind: two_tower, dim: 16, user: {features: [seen]}, item: {feature: item, bias: "
      "false}}\nloss: {kind: full_softmax}\ntrain: {epochs: 15, batch_size: 32}\n"
      "optimizer: {table: {kind: adagrad, learning_rate: 0.5}}\n"
      "evaluate: {metrics: [hit_rate@1], show: [u3, u42]}\n");
}

Process::Result Train(const std::string& job, std::vector<std::string> more) {
  more.insert(more.begin(), {"train", job, "--in-process"});
  const auto trained = Coxswain(more);
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  return trained;
}

// The best item for each user, of --batch.
std::map<std::string, std::string> Best(const std::string& flag, const std::string& directory) {
  const auto all = Coxswain({"recommend", flag, directory, "--batch", "--top", "1"});
  INFO(all.err);
  REQUIRE(all.code == 0);
  std::map<std::string, std::string> best;
  for (const absl::string_view line : absl::StrSplit(all.out, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> cells = absl::StrSplit(line, ',');
    best[cells[0]] = cells[1];
  }
  best.erase("user");
  return best;
}

void CheckNext(const std::map<std::string, std::string>& best, int first_user, int visit) {
  for (int user = first_user; user < kUsers; ++user) {
    CAPTURE(user);
    const auto found = best.find(User(user));
    REQUIRE(found != best.end());
    CHECK(found->second == Item(FirstOf(user) + visit));
  }
}

// As versions left it that did not keep the order.
void ForgetOrder(const std::string& directory, const std::string& manifest) {
  const std::string marker = "history/ordered", path = absl::StrCat(directory, "/", manifest);
  REQUIRE(std::filesystem::remove(absl::StrCat(directory, "/", marker)));
  json saved = ReadJson(path);
  json files = json::array();
  for (const json& file : saved["files"]) {
    if (file != marker) files.push_back(file);
  }
  saved["files"] = files;
  saved["checksums"].erase(marker);
  std::ofstream(path) << saved.dump(2) << "\n";
}

TEST_CASE("recommend: what a two_tower sees of a user it knows are the last items by `by`",
          "[model]") {
  const DataFiles files;
  files.Write("visits.csv", Visits(0, 0, kVisits));
  const std::string model = files.Path("model"), checkpoints = files.Path("checkpoints");
  const auto trained = Train(files.Write("job.yaml", Job("visits.csv")),
                             {"--model-dir", model, "--checkpoint-dir", checkpoints});
  // What training shows.
  CHECK_THAT(trained.out, Contains(absl::StrCat("u3   ", Item(FirstOf(3) + kVisits - 1), ",")));
  CHECK_THAT(trained.out, Contains(absl::StrCat("u42  ", Item(FirstOf(42) + kVisits - 1), ",")));
  CheckNext(Best("--model-dir", model), 0, kVisits - 1);
  CheckNext(Best("--checkpoint-dir", checkpoints), 0, kVisits - 1);
  const auto one = Coxswain({"recommend", "--model-dir", model, "--user", "u3", "--top", "1"});
  CHECK_THAT(one.out, Contains(absl::StrCat("u3  ", Item(FirstOf(3) + kVisits - 1))));
  for (const char* flag : {"--model-dir", "--follow"}) {
    CAPTURE(flag);
    const bool whole = flag == std::string("--model-dir");
    Process server(CoxswainCommand(
        {"serve", flag, whole ? model : checkpoints, "--name", "ring", "--http", "127.0.0.1:0"}));
    httplib::Client client("127.0.0.1", PortOf(server));
    if (!whole) REQUIRE(server.WaitForOutput(" steps\n"));
    const auto answer =
        client.Post("/v1/models/ring:recommend", R"({"instances": [{"user": "u42"}], "k": 1})",
                    "application/json");
    REQUIRE(answer);
    INFO(answer->body);
    REQUIRE(answer->status == 200);
    CHECK(json::parse(answer->body)["predictions"][0]["items"][0] ==
          Item(FirstOf(42) + kVisits - 1));
  }
}

TEST_CASE("recommend: a model that was trained on keeps the order of the days before",
          "[model][warm-start]") {
  const DataFiles files;
  files.Write("day1.csv", Visits(0, 0, kVisits));
  // Some users stay away on the second day.
  files.Write("day2.csv", Visits(kUsers / 2, kVisits, kVisits + 4));
  const std::string model1 = files.Path("model1"), model2 = files.Path("model2");
  const std::string day2 = files.Write("day2.yaml", Job("day2.csv"));
  Train(files.Write("day1.yaml", Job("day1.csv")), {"--model-dir", model1});
  Train(day2, {"--model-dir", model2, "--init-from", model1});
  const auto best = Best("--model-dir", model2);
  CheckNext(best, kUsers / 2, kVisits + 3);
  for (int user = 0; user < kUsers / 2; ++user) {
    CAPTURE(user);
    CHECK(best.at(User(user)) == Item(FirstOf(user) + kVisits - 1));
  }
  // Of a model that lost the order nothing is known of the days before.
  ForgetOrder(model1, "model.json");
  Train(day2, {"--model-dir", model2, "--init-from", model1});
  const auto refused = Coxswain({"recommend", "--model-dir", model2, "--user", "u80"});
  CAPTURE(refused.err);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, Contains("trained on from another one"));
}

TEST_CASE("recommend: a model of a version that lost the order of histories is refused",
          "[model]") {
  const DataFiles files;
  files.Write("visits.csv", Visits(0, 0, kVisits));
  const std::string model = files.Path("model"), checkpoints = files.Path("checkpoints");
  const auto ask = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"recommend", "--model-dir", model, "--top", "1"});
    return Coxswain(more);
  };
  SECTION("where it sees less than users have") {
    Train(files.Write("job.yaml", Job("visits.csv")),
          {"--model-dir", model, "--checkpoint-dir", checkpoints});
    ForgetOrder(model, "model.json");
    ForgetOrder(absl::StrCat(checkpoints, "/inputs"), "inputs.json");
    const auto check = [](const Process::Result& refused) {
      CAPTURE(refused.out, refused.err);
      CHECK(refused.code == 2);
      CHECK(refused.out.empty());
      CHECK_THAT(refused.err, Contains("earlier version") && Contains("\"time\"") &&
                                  Contains("the last 1 ") && Contains("train it again"));
    };
    check(ask({"--user", "u3"}));
    check(ask({"--batch"}));
    check(Coxswain({"recommend", "--checkpoint-dir", checkpoints, "--batch"}));
    // It is still told what someone has.
    const auto items = ask({"--items", absl::StrCat(Item(1), ",", Item(4))});
    CAPTURE(items.err);
    CHECK(items.out == absl::StrCat(Item(5), "\n"));
    Process server(CoxswainCommand(
        {"serve", "--model-dir", model, "--name", "ring", "--http", "127.0.0.1:0"}));
    httplib::Client client("127.0.0.1", PortOf(server));
    const auto answer = client.Post("/v1/models/ring:recommend",
                                    R"({"instances": [{"user": "u42"}]})", "application/json");
    REQUIRE(answer);
    CHECK(answer->status == 400);
    CHECK_THAT(answer->body, Contains("earlier version"));
  }
  SECTION("but not where it sees all of it") {
    Train(files.Write("job.yaml", Job("visits.csv", kVisits)), {"--model-dir", model});
    const auto before = ask({"--batch"});
    ForgetOrder(model, "model.json");
    const auto after = ask({"--batch"});
    CAPTURE(after.err);
    CHECK(after.code == 0);
    CHECK(after.out == before.out);
  }
}

}  // namespace
}  // namespace coxswain
