// Keys of hash tables in a job.
#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/testing/job_texts.h"

namespace coxswain::job {
namespace {

using Catch::Contains;
using testing::ErrorOf;
using testing::MustParse;

// A job on two features, with more in `user` (of the feature) and `rest`.
std::string Text(const std::string& user, const std::string& rest = "") {
  return absl::StrCat(
      "name: j\n"
      "dataset: {path: a.csv}\n"
      "features:\n"
      "  - {name: user, kind: categorical",
      user,
      "}\n"
      "  - {name: film, kind: categorical}\n"
      "label: {column: y}\n"
      "model: {kind: matrix_factorization, user: {feature: user}, item: {feature: film}, dim: 4}\n",
      rest);
}

TEST_CASE("job: a feature with id raw or hash has hash tables, another one has not", "[job]") {
  for (const std::string id : {"raw", "hash"}) {
    const JobSpec job = MustParse(Text(", id: " + id));
    CHECK(job.FindFeature("user")->id() == id);
    CHECK(job.FindTable("user")->hash.has_value());
    CHECK(job.FindTable("user_bias")->hash.has_value());
    CHECK_FALSE(job.FindTable("film")->hash.has_value());
    CHECK(job.FindTable("user")->hash->min_count() == 0);
  }
  CHECK(MustParse(Text(", id: vocabulary")).FindFeature("user")->id().empty());
}

TEST_CASE("job: admission and eviction are set for each table", "[job]") {
  const JobSpec job =
      MustParse(Text(", id: hash",
                     "tables:\n"
                     "  user: {hash_table: {min_count: 3, ttl_steps: 1000, ttl_seconds: 86400, "
                     "max_rows: 5000, evict: frequency}}\n"
                     "  user_bias: {hash_table: {admission_probability: 0.25}}\n"));
  const proto::HashTableSpec& user = *job.FindTable("user")->hash;
  CHECK(user.min_count() == 3);
  CHECK(user.ttl_steps() == 1000);
  CHECK(user.ttl_seconds() == 86400);
  CHECK(user.max_rows() == 5000);
  CHECK(user.evict() == "frequency");
  CHECK(user.admission_probability() == 0);
  CHECK(job.FindTable("user_bias")->hash->admission_probability() == 0.25);
}

TEST_CASE("job: what contradicts hash tables is told with its place", "[job]") {
  CHECK_THAT(ErrorOf(Text(", id: hash, min_count: 2")),
             Contains("job.yaml:4:") && Contains("there is no vocabulary"));
  CHECK_THAT(ErrorOf(Text(", id: text")), Contains("vocabulary, raw, hash"));
  CHECK_THAT(ErrorOf(Text(", id: hash", "tables: {film: {hash_table: {max_rows: 5}}}\n")),
             Contains("job.yaml:8:") && Contains("table 'film' is not a hash table"));
  CHECK_THAT(ErrorOf(Text(", id: hash",
                          "tables: {user: {hash_table: {min_count: 2, "
                          "admission_probability: 0.5}}}\n")),
             Contains("give this or min_count"));
  CHECK_THAT(ErrorOf(Text(", id: hash", "tables: {user: {hash_table: {evict: frequency}}}\n")),
             Contains("without max_rows"));
  CHECK_THAT(ErrorOf(Text(", id: hash", "tables: {user: {hash_table: {ttl_steps: -1}}}\n")),
             Contains("ttl_steps"));
  CHECK_THAT(
      ErrorOf("name: j\n"
              "dataset: {path: a.csv}\n"
              "features:\n"
              "  - {name: user, kind: history, history_of: item, group_by: who}\n"
              "  - {name: item, kind: categorical, id: hash}\n"
              "model: {kind: two_tower, user: {features: [user]}, item: {feature: item}}\n"),
      Contains("needs a vocabulary: all of it is ranked") && Contains("and so no vocabulary"));
}

}  // namespace
}  // namespace coxswain::job
