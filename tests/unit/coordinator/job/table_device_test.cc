// Keys that say in whose memory tables are.
#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/job/job_parser.h"

namespace coxswain::job {
namespace {

using Catch::Contains;

std::string Text(const std::string& more, const std::string& user = "") {
  return absl::StrCat(
      "name: j\ndataset: {path: a.csv}\nfeatures:\n  - {name: user, kind: categorical", user,
      "}\n  - {name: film, kind: categorical}\nlabel: {column: y}\n"
      "model: {kind: matrix_factorization, user: {feature: user}, item: {feature: film}, dim: 4}\n",
      more);
}

TEST_CASE("job: each table has its device, or that of all", "[job]") {
  const auto job =
      ParseJob(Text("tables: {user: {device: cpu}}\nparameter_servers: {table_device: gpu}\n"),
               "j.yaml", {});
  INFO(job.status().message());
  REQUIRE(job.ok());
  CHECK(job->FindTable("user")->device == "cpu");
  CHECK(job->FindTable("film")->device == "gpu");
  CHECK(job->FindTable("user_bias")->device == "gpu");
  const auto plain = ParseJob(Text("tables: {film: {device: gpu}}\n"), "j.yaml", {});
  REQUIRE(plain.ok());
  CHECK(plain->FindTable("user")->device == "cpu");
  CHECK(plain->FindTable("film")->device == "gpu");
  const auto hashed = ParseJob(Text("tables: {user: {device: gpu}}\n", ", id: hash"), "j.yaml", {});
  REQUIRE(hashed.ok());
  CHECK(hashed->FindTable("user")->hash);
  CHECK(hashed->FindTable("user")->device == "gpu");
}

TEST_CASE("job: tables that cannot be in a GPU's memory, and devices that are none, are errors",
          "[job]") {
  const auto error = [](const std::string& text) {
    return std::string(ParseJob(text, "j.yaml", {}).status().message());
  };
  CHECK_THAT(error(Text("tables: {user: {device: tpu}}\n")),
             Contains("tables.user.device") && Contains("'tpu'") && Contains("gpu"));
  CHECK_THAT(error(Text("tables: {film: {device: gpu, dtype: bf16}}\n")),
             Contains("tables.film.device") && Contains("bf16"));
  CHECK_THAT(error(Text("optimizer: {table: {kind: adam}}\ntables: {film: {device: gpu}}\n")),
             Contains("tables.film.device") && Contains("lazy_adam"));
  CHECK(error(Text("tables: {film: {device: gpu, trainable: false}}\n"
                   "optimizer: {table: {kind: adam}}\n"))
            .empty());
}

TEST_CASE("job: tables may be on disk, but for those of which each step moves all rows", "[job]") {
  const auto job = ParseJob(
      Text("parameter_servers: {table_device: disk}\ntables: {film: {device: cpu, dtype: bf16}, "
           "user: {dtype: bf16}}\n"),
      "j.yaml", {});
  INFO(job.status().message());
  REQUIRE(job.ok());
  CHECK(job->FindTable("user")->device == "disk");
  CHECK(job->FindTable("film")->device == "cpu");
  const auto adam = ParseJob(Text("optimizer: {table: {kind: adam}}\n"
                                  "parameter_servers: {table_device: disk}\n"),
                             "j.yaml", {});
  CHECK_THAT(std::string(adam.status().message()),
             Contains("j.yaml:9:21: tables.user.device (by parameter_servers.table_device): disk: "
                      "the optimizer adam moves all rows") &&
                 Contains("kept in memory; lazy_adam moves those of a batch"));
}

// A model of items, with the loss.
std::string Items(const std::string& loss, const std::string& more) {
  return absl::StrCat(
      "dataset: {path: a.csv}\nfeatures:\n  - {name: user, kind: categorical}\n"
      "  - {name: item, kind: categorical}\n"
      "model: {kind: two_tower, user: {features: user}, item: {feature: item}}\nloss: {kind: ",
      loss, "}\n", more);
}

TEST_CASE("job: a loss over all items wants the items' tables on the host, by key and line",
          "[job]") {
  const auto error = [](const std::string& text, const std::vector<std::string>& sets = {}) {
    return std::string(ParseJob(text, "j.yaml", sets).status().message());
  };
  const std::string one = error(Items("full_softmax", "tables: {item: {device: gpu}}\n"));
  CHECK(one ==
        "j.yaml:7:17: tables.item.device: gpu: the loss full_softmax moves all rows of the table "
        "'item' in each step, and such tables are kept on the host");
  // The table of the biases, which nobody named, is named with the items' own.
  const std::string all = error(Items("full_softmax", "parameter_servers: {table_device: gpu}\n"));
  CHECK_THAT(all, Contains("j.yaml:7:21: tables.item.device (by parameter_servers.table_device)"));
  CHECK_THAT(all, Contains("j.yaml:7:21: tables.item_bias.device (by parameter_servers"));
  CHECK_THAT(all, Contains("'item_bias' in each step") && Contains("wanted cpu for this one"));
  CHECK_THAT(all, !Contains("user"));
  for (const char* host : {"tables: {item: {device: cpu}, item_bias: {device: cpu}}\n",
                           "tables: {item: {trainable: false}, item_bias: {device: cpu}}\n"}) {
    CHECK(error(Items("full_softmax", host), {"parameter_servers.table_device=gpu"}).empty());
  }
  CHECK(error(Items("in_batch_softmax", "parameter_servers: {table_device: gpu}\n")).empty());
}

TEST_CASE("job: averages and delay compensation of tables on GPUs are errors of their keys",
          "[job]") {
  const auto error = [](const std::string& more, const std::vector<std::string>& sets) {
    return std::string(ParseJob(Text(more), "j.yaml", sets).status().message());
  };
  const std::string gpu = "parameter_servers.table_device=gpu";
  const std::string none = ": not for tables in the memory of GPUs, such as '";
  const std::string ema = "train:\n  ema: {decay: 0.9}\n";
  CHECK(error(ema, {gpu}) == absl::StrCat("j.yaml:9:3: train.ema", none,
                                          "user'; wanted none, or tables.user.device: cpu"));
  CHECK(error(ema, {}).empty());
  const std::string of_all = "train: {consistency: {delay_compensation: 0.1}}\n";
  CHECK_THAT(error(of_all, {gpu}), Contains("j.yaml:8:23: train.consistency.delay_compensation"));
  CHECK_THAT(error("optimizer: {table: {kind: sgd, delay_compensation: 0.1}}\n", {gpu}),
             Contains(absl::StrCat("j.yaml:8:32: optimizer.table.delay_compensation", none)));
  const std::string of_film = "tables: {film: {optimizer: {kind: sgd, delay_compensation: 0.1}}}\n";
  CHECK_THAT(error(of_film, {gpu}),
             Contains(absl::StrCat("j.yaml:8:40: tables.film.optimizer.delay_compensation", none,
                                   "film'")));
  // Of tables on the host, of those that nothing moves, and where an optimizer says that it has
  // none, they may be.
  CHECK(error(of_film, {gpu, "tables.film.device=cpu"}).empty());
  CHECK(error(of_film, {gpu, "tables.film.trainable=false"}).empty());
  CHECK(error(of_all, {gpu, "optimizer.table={kind: sgd, delay_compensation: 0}"}).empty());
}

}  // namespace
}  // namespace coxswain::job
