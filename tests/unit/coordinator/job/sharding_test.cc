// Keys that say how tables are cut into shards.
#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/job/job_parser.h"

namespace coxswain::job {
namespace {

using Catch::Contains;

std::string Text(const std::string& tables, const std::string& user = "") {
  return absl::StrCat(
      "name: j\ndataset: {path: a.csv}\nfeatures:\n  - {name: user, kind: categorical", user,
      "}\n  - {name: film, kind: categorical}\nlabel: {column: y}\n"
      "model: {kind: matrix_factorization, user: {feature: user}, item: {feature: film}, dim: 4}\n",
      tables);
}

TEST_CASE("job: each table has its number of shards and its sharding", "[job]") {
  const auto job =
      ParseJob(Text("tables:\n  user: {shards: 7, sharding: hash}\n  film: {sharding: div}\n"),
               "j.yaml", {});
  INFO(job.status().message());
  REQUIRE(job.ok());
  CHECK(job->FindTable("user")->shards == 7);
  CHECK(job->FindTable("user")->sharding == "hash");
  CHECK(job->FindTable("film")->shards == 0);
  CHECK(job->FindTable("film")->sharding == "div");
  CHECK(job->FindTable("user_bias")->sharding == "mod");
}

TEST_CASE("job: a sharding that is none, and one of a hash table, are errors", "[job]") {
  const auto error = [](const std::string& text) {
    return std::string(ParseJob(text, "j.yaml", {}).status().message());
  };
  CHECK_THAT(error(Text("tables: {user: {sharding: range}}\n")),
             Contains("tables.user.sharding") && Contains("'range'") && Contains("hash"));
  CHECK_THAT(error(Text("tables: {user: {shards: -1}}\n")), Contains("tables.user.shards"));
  CHECK_THAT(error(Text("tables: {user: {sharding: div}}\n", ", id: hash")),
             Contains("tables.user.sharding") && Contains("hash table"));
  CHECK(error(Text("tables: {user: {shards: 3}}\n", ", id: hash")).empty());
}

}  // namespace
}  // namespace coxswain::job
