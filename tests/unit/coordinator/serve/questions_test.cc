// Suggestions and neighbours over REST: what the commands say, and what is refused.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "coordinator/serve/index_builder.h"
#include "coordinator/serve/model_service.h"
#include "nlohmann/json.hpp"
#include "runtime/env/compute_pool.h"
#include "tests/testing/saved_jobs.h"

namespace coxswain::serve {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;
using testing::Must;

// 24 users who like the 8 items of one of 4 kinds, and have 6 of them.
struct Suggesting {
  Suggesting() {
    std::string rows = "user,item\n";
    for (int user = 0; user < 24; ++user) {
      for (int i = 0; i < 6; ++i) {
        absl::StrAppend(&rows, "u", user, ",i", user % 4 * 8 + (user / 4 + i) % 8, "\n");
      }
    }
    files.Write("pairs.csv", rows);
    const SavedJob saved = TrainAndSave(
        files,
        "name: pairs\ndataset: {path: pairs.csv}\nfeatures:\n"
        "  - {name: item, kind: categorical}\n"
        "  - {name: history, kind: history, history_of: item, group_by: user}\n"
        "split: {holdout_per: user}\n"
        "model: {kind: two_tower, user: {features: [history]}, item: {feature: item}, dim: 8}\n"
        "loss: {kind: sampled_softmax, negatives: 16}\n"
        "optimizer: {table: {kind: lazy_adam, learning_rate: 0.02}}\ntrain: {batch_size: 32}\n",
        /*epochs=*/40);
    served = Must(LoadServed(saved.directory));
    service = std::make_unique<ModelService>(
        served, ServiceOptions{.name = "m", .max_rows = 3, .admission = {}});
  }
  Answer Ask(const std::string& verb, const json& body) const {
    return service->Handle("POST", absl::StrCat("/v1/models/m:", verb), body.dump());
  }
  json Says(const std::string& verb, const json& body) const {
    const Answer answer = Ask(verb, body);
    INFO(answer.body);
    REQUIRE(answer.status == 200);
    return json::parse(answer.body)["predictions"];
  }

  DataFiles files;
  ServedPtr served;
  std::unique_ptr<ModelService> service;
};

TEST_CASE("serve: :recommend says what the command does, without what is known", "[serve]") {
  const Suggesting s;
  const predict::Recommender& recommender = *s.served->recommender;
  const auto user = recommender.history()->Find("u3");
  REQUIRE(user);
  const std::vector<int64_t> known = recommender.history()->Values(*user);
  const json says = s.Says("recommend", {{"instances", {{{"user", "u3"}}}}, {"k", 4}});
  REQUIRE(says.size() == 1);
  REQUIRE(says[0]["items"].size() == 4);
  const auto wanted = Must(recommender.RecommendTo({recommender.Group(*user)}, {.top = 4}));
  for (size_t i = 0; i < 4; ++i) {
    CHECK(says[0]["items"][i] == recommender.predictor().NameOf(wanted[0][i].id));
    CHECK(says[0]["scores"][i].get<float>() == Approx(wanted[0][i].score));
    CHECK(std::count(known.begin(), known.end(), wanted[0][i].id) == 0);
  }
  // By their items, for someone who is no user of the training; and with what is known.
  std::vector<std::string> items;
  for (const int64_t id : known) items.push_back(recommender.predictor().NameOf(id));
  CHECK(s.Says("recommend", {{"instances", {{{"items", items}}}}, {"k", 4}}) == says);
  const json all = s.Says(
      "recommend", {{"instances", {{{"items", items}}}}, {"k", 32}, {"exclude_known", false}});
  CHECK(all[0]["items"].size() == 32);
  std::set<std::string> names;
  for (const json& name : all[0]["items"]) names.insert(name.get<std::string>());
  for (const std::string& item : items) CHECK(names.count(item) == 1);
}

// Users of a model in a service of its own.
struct Served {
  explicit Served(const std::string& text) {
    std::string rows = "user,item,stars,age\n";
    for (int i = 0; i < 240; ++i) {
      absl::StrAppend(&rows, "u", i % 12, ",i", i % 7 * 3 + i % 3, ",", i % 2, ",", 20 + i % 12,
                      "\n");
    }
    files.Write("rows.csv", rows);
    const SavedJob saved = TrainAndSave(files, text);
    served = Must(LoadServed(saved.directory));
    service = std::make_unique<ModelService>(
        served, ServiceOptions{.name = "m", .max_rows = 3, .admission = {}});
  }
  Answer Ask(const json& body) const {
    return service->Handle("POST", "/v1/models/m:recommend", body.dump());
  }

  DataFiles files;
  ServedPtr served;
  std::unique_ptr<ModelService> service;
};

TEST_CASE("serve: :recommend for users of a matrix_factorization, by name and by value",
          "[serve]") {
  const Served s(
      "name: stars\ndataset: {path: rows.csv}\nfeatures:\n  - {name: user, kind: categorical}\n"
      "  - {name: item, kind: categorical}\nlabel: {column: stars}\nsplit: {test: 0.1}\n"
      "model: {kind: matrix_factorization, user: {feature: user}, item: {feature: item}, dim: 4}\n"
      "train: {batch_size: 32}\n");
  const Answer answer =
      s.Ask({{"instances", {{{"user", "u3"}}, {{"values", {{"user", "u3"}}}}}}, {"k", 4}});
  INFO(answer.body);
  REQUIRE(answer.status == 200);
  const json says = json::parse(answer.body)["predictions"];
  CHECK(says[0] == says[1]);
  const predict::Recommender& recommender = *s.served->recommender;
  const auto wanted =
      Must(recommender.RecommendTo(std::vector{Must(recommender.User("u3"))}, {.top = 4}))[0];
  REQUIRE(says[0]["items"].size() == wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    CHECK(says[0]["items"][i] == recommender.predictor().NameOf(wanted[i].id));
  }
  for (const json& whom :
       {json{{"user", "nobody"}}, json{{"items", {"i1"}}}, json{{"values", {{"usr", "u3"}}}},
        json{{"values", {{"user", "u99"}}}}}) {
    const Answer refused = s.Ask({{"instances", {whom}}});
    CAPTURE(whom.dump(), refused.body);
    CHECK(refused.status == 400);
    CHECK_THAT(refused.body, Contains("instances[0]"));
  }
}

TEST_CASE("serve: whose users share buckets, :recommend wants to be asked for what is known, too",
          "[serve]") {
  const Served s(
      "name: pairs\ndataset: {path: rows.csv}\nfeatures:\n"
      "  - {name: user, kind: categorical, hash_buckets: 3}\n"
      "  - {name: item, kind: categorical}\nsplit: {test: 0.1}\ntrain: {batch_size: 32}\n"
      "model: {kind: two_tower, dim: 4, user: {features: [user]}, item: {feature: item}}\n");
  json request = {{"instances", {{{"values", {{"user", "u3"}}}}}}};
  const Answer refused = s.Ask(request);
  CHECK(refused.status == 400);
  CHECK_THAT(refused.body, Contains("exclude_known"));
  request["exclude_known"] = false;
  const Answer answer = s.Ask(request);
  CAPTURE(answer.body);
  CHECK(answer.status == 200);
}

TEST_CASE("serve: :recommend for someone who is described by values", "[serve]") {
  const Served s(
      "name: pairs\ndataset: {path: rows.csv}\nfeatures:\n  - {name: item, kind: categorical}\n"
      "  - {name: history, kind: history, history_of: item, group_by: user}\n"
      "  - {name: age, kind: numeric}\nsplit: {test: 0.1}\ntrain: {batch_size: 32}\n"
      "model: {kind: two_tower, dim: 4, user: {features: [history, age], hidden: [4]}, "
      "item: {feature: item}}\n");
  const Answer answer = s.Ask(
      {{"instances",
        {{{"values", {{"age", 25}, {"history", {"i0", "i1"}}}}}, {{"values", {{"age", 25}}}}}},
       {"k", 30}});
  INFO(answer.body);
  REQUIRE(answer.status == 200);
  const json says = json::parse(answer.body)["predictions"];
  const size_t items = static_cast<size_t>(s.served->recommender->predictor().choices());
  CHECK(says[0]["items"].size() == items - 2);  // without what the history has
  CHECK(says[1]["items"].size() == items);
  for (const json& whom :
       {json{{"values", {{"history", {"i1"}}}}}, json{{"values", {{"age", 25}, {"agge", 3}}}},
        json{{"values", {{"age", "old"}}}}, json{{"values", 3}}, json{{"user", "u1"}},
        json{{"values", {{"age", 25}}}, {"user", "u1"}}}) {
    const Answer refused = s.Ask({{"instances", {whom}}});
    CAPTURE(whom.dump(), refused.body);
    CHECK(refused.status == 400);
    CHECK_THAT(refused.body, Contains("instances[0]"));
  }
}

TEST_CASE("serve: :nearest says the nearest by cosine, and none of the question's words",
          "[serve]") {
  const Suggesting s;
  const json says =
      s.Says("nearest", {{"instances", {"i1", {{"plus", {"i1", "i2"}}, {"minus", {"i9"}}}}},
                         {"k", 5},
                         {"table", "item"}});
  REQUIRE(says.size() == 2);
  REQUIRE(says[0]["words"].size() == 5);
  for (size_t i = 0; i < 5; ++i) {
    CHECK(says[0]["words"][i] != "i1");
    CHECK(says[1]["words"][i] != "i9");
    if (i > 0) CHECK(says[0]["cosines"][i].get<float>() <= says[0]["cosines"][i - 1].get<float>());
  }
  // The table that has the name of its vocabulary is what is meant.
  const json alone = s.Says("nearest", {{"instances", {"i1"}}, {"k", 5}})[0];
  CHECK(alone["words"] == says[0]["words"]);
  // A product of other shapes may round otherwise.
  CHECK(alone["cosines"][2].get<float>() == Approx(says[0]["cosines"][2].get<float>()));
}

TEST_CASE("serve: with an index, :recommend and :nearest find what they find without", "[serve]") {
  const Suggesting s;
  model::IndexOptions options;
  options.from_rows = 1;
  std::vector<IndexReport> reports;
  absl::Notification over;
  const auto replace = [&](const ServedPtr& model, ServedPtr indexed) {
    s.service->ReplaceIf(model, std::move(indexed));
    over.Notify();
  };
  IndexBuilder builder(options, {replace, [&](const IndexReport& r) { reports.push_back(r); }});
  builder.Build(s.served);
  over.WaitForNotification();
  for (const IndexReport& report : reports) {
    INFO(report.table << ": " << report.status.ToString());
    CHECK(report.rows == 32);
    // Of one number: a cosine is 1 or -1, and a graph of so many equal distances may miss some.
    // Where it does, no index is used.
    if (report.table == "item_bias") continue;
    CHECK(report.status.ok());
    CHECK(report.quality.recall >= 0.95);
    CHECK(report.quality.queries > 0);
  }
  CHECK(reports.size() == 1 + s.served->named.size());
  const Answer metrics = s.service->Handle("GET", "/metrics", "");
  CHECK_THAT(metrics.body, Contains("coxswain_serve_index_recall{table=\"items\"}"));

  // 32 items are few enough for the index to find all of them.
  const auto same = [&](const std::string& verb, json body, const char* names, const char* scores) {
    const json found = s.Says(verb, body);
    body["exact"] = true;
    const json exact = s.Says(verb, body);
    CAPTURE(verb, found, exact);
    REQUIRE(found.size() == exact.size());
    for (size_t i = 0; i < exact.size(); ++i) {
      CHECK(found[i][names] == exact[i][names]);
      REQUIRE(found[i][scores].size() == exact[i][scores].size());
      for (size_t j = 0; j < exact[i][scores].size(); ++j) {
        CHECK(found[i][scores][j].get<float>() ==
              Approx(exact[i][scores][j].get<float>()).margin(1e-5));
      }
    }
  };
  same("recommend", {{"instances", {{{"user", "u3"}}, {{"items", {"i1", "i2"}}}}}, {"k", 4}},
       "items", "scores");
  same("recommend", {{"instances", {{{"user", "u5"}}}}, {"k", 32}, {"exclude_known", false}},
       "items", "scores");
  same("nearest",
       {{"instances", {"i1", {{"plus", {"i1", "i2"}}, {"minus", {"i9"}}}}},
        {"k", 5},
        {"table", "item"}},
       "words", "cosines");
}

TEST_CASE(
    "serve: an index that is not good enough is not used, and a newer model ends the building",
    "[serve]") {
  const Suggesting s;
  model::IndexOptions options;
  options.from_rows = 1;
  options.recall = 1.1;  // nothing is
  std::atomic<int> reports{0};
  absl::Notification over;
  {
    IndexBuilder builder(options,
                         {[](const ServedPtr&, ServedPtr) { FAIL("there is no index"); },
                          [&](const IndexReport& r) {
                            CHECK(absl::IsFailedPrecondition(r.status));
                            if (++reports == 1 + static_cast<int>(s.served->named.size())) {
                              over.Notify();
                            }
                          }});
    builder.Build(s.served);
    over.WaitForNotification();
  }
  // What is asked to stop says so, and nothing of it is used.
  options.recall = 0.95;
  options.stopped = [] { return true; };
  CHECK(absl::IsCancelled(s.served->recommender->WithIndex(options).status()));
  const auto pool = env::NewInlinePool();
  CHECK(absl::IsCancelled(s.served->named[0].WithIndex(options, pool.get()).status()));
  // Another model answers meanwhile: the older one's index comes too late.
  const ServedPtr newer = std::make_shared<const ServedModel>(*s.served);
  s.service->Replace(newer);
  s.service->ReplaceIf(s.served, nullptr);
  CHECK(s.service->Handle("GET", "/readyz", "").status == 200);
}

TEST_CASE("serve: what cannot be suggested or is not known is an error that names it", "[serve]") {
  const Suggesting s;
  const auto wrong = [&](const std::string& verb, const json& body, int status,
                         const std::string& says) {
    const Answer answer = s.Ask(verb, body);
    CAPTURE(verb, body, answer.body);
    CHECK(answer.status == status);
    CHECK_THAT(answer.body, Contains(says));
  };
  wrong("recommend", {{"instances", {{{"user", "u99"}}}}}, 400, "u99");
  wrong("recommend", {{"instances", {{{"items", {"i1", "i99"}}}}}}, 400, "i99");
  wrong("recommend", {{"instances", {{{"name", "u1"}}}}}, 400, "instances[0]");
  wrong("recommend", {{"instances", {{{"user", "u1"}}}}, {"k", 0}}, 400, "1 to 1000");
  wrong("recommend", {{"instances", {{{"user", "u1"}}}}, {"k", 1001}}, 400, "1001");
  wrong("recommend", {{"instances", {{{"user", "u1"}}}}, {"exlude_known", true}}, 400,
        "exclude_known");
  wrong("recommend", {{"instances", {{{"user", "u1"}}}}, {"exact", 1}}, 400, "exact");
  wrong("recommend", json::object(), 400, "instances");
  wrong("nearest", {{"instances", {"i1", "i1", "i1", "i1"}}}, 413, "at most 3");
  wrong("nearest", {{"instances", {"i99"}}}, 400, "i99");
  wrong("nearest", {{"instances", {"i1"}}, {"table", "user"}}, 400, "wanted one of");
  wrong("nearest", {{"instances", {json::object()}}}, 400, "instances[0]");
  wrong("use", {{"version", 1}}, 404, ":predict");  // nothing is followed
}

}  // namespace
}  // namespace coxswain::serve
