// Sizes in a job that no machine has room for, or that overflow together: told when it is read.
#include "coordinator/job/size_limits.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/job/schema.h"
#include "tests/testing/job_texts.h"

namespace coxswain::job {
namespace {

using testing::Changed;
using testing::ErrorOf;

constexpr char kTable[] = R"(dataset: {path: a.csv, columns: [user, film, stars]}
features:
  - {name: user, kind: categorical, oov_buckets: 5}
  - {name: film, kind: categorical, hash_buckets: 7, dim: 8}
label: {column: stars}
model: {kind: wide_deep}
train: {epochs: 2}
)";

TEST_CASE("every integer of a job that memory or a product hangs on has a largest value") {
  // These are compared with what is there, or are seeds.
  const std::vector<std::string> any = {"min_count", "holdout_min",  "skip_lines",   "patience",
                                        "log_every", "max_examples", "every_epochs", "seed"};
  for (const SchemaSection* section : AllSections(JobSchema())) {
    for (const SchemaKey& key : section->keys) {
      const bool whole =
          key.type == KeyType::kInt || key.type == KeyType::kInts || key.type == KeyType::kBytes;
      if (!whole || std::find(any.begin(), any.end(), key.name) != any.end()) continue;
      INFO(section->path << "." << key.name);
      CHECK(std::isfinite(key.max));
      CHECK(key.max <= 0x1p53);  // so that the text of the range is exact
    }
  }
}

TEST_CASE("a size beyond what any machine holds is told with line, column and the largest one") {
  CHECK(Changed(kTable, "oov_buckets: 5", "oov_buckets: 1000000000000") ==
        "job.yaml:3:50: features.user.oov_buckets: wanted integer 0..268435456; found "
        "'1000000000000'");
  CHECK(Changed(kTable, "hash_buckets: 7", "hash_buckets: 4294967297") ==
        "job.yaml:4:51: features.film.hash_buckets: wanted integer 1..4294967296; found "
        "'4294967297'");
  CHECK(Changed(kTable, "epochs: 2", "epochs: 9000000000000000000") ==
        "job.yaml:7:17: train.epochs: wanted integer 1..1000000000; found '9000000000000000000'");
  for (const char* set :
       {"features.film.dim=1048577", "model.deep.hidden=[64, 1048577]", "train.batch_size=16777217",
        "train.epochs=1000000001", "tables.user.shards=65537", "checkpoint.keep=4294967297",
        "dataset.memory=1025TiB", "dataset.block_bytes=2TiB", "dataset.shuffle_window=1048577",
        "features.user.max_size=2147483648", "evaluate.every_steps=9007199254740994",
        "parameter_servers.partitioner.max_shards=65537"}) {
    CAPTURE(set);
    const std::string error = ErrorOf(kTable, {set});
    CHECK(absl::StartsWith(error, absl::StrCat("--set ", set, ": ")));
    CHECK(absl::StrContains(error, "; found "));
  }
  CHECK(absl::StrContains(ErrorOf(kTable, {"dataset.memory=1025TiB"}),
                          "wanted bytes 1..1024TiB, such as 512MiB; found "));
}

TEST_CASE("the largest sizes are allowed one by one") {
  for (const char* set :
       {"features.user.oov_buckets=268435456", "features.film.hash_buckets=4294967296",
        "features.film.dim=1048576", "model.deep.hidden=[1048576]", "train.epochs=1000000000",
        "tables.user.shards=65536", "dataset.memory=1024TiB", "checkpoint.keep=1000000"}) {
    CAPTURE(set);
    CHECK(ErrorOf(kTable, {set}) == "");
  }
}

TEST_CASE("rows times their width are bounded, too, with the key that says how many rows") {
  CHECK(ErrorOf(kTable, {"features.film.hash_buckets=4294967296", "features.film.dim=256"}) == "");
  CHECK(ErrorOf(kTable, {"features.film.hash_buckets=4294967296", "features.film.dim=257"}) ==
        "--set features.film.hash_buckets=4294967296: features.film.hash_buckets: the table 'film' "
        "would have 4294967296 rows of 257 numbers; wanted at most 1099511627776 numbers");
  const std::string many =
      ErrorOf(kTable, {"features.user.oov_buckets=268435456", "features.user.dim=8192"});
  CHECK(
      absl::StrContains(many, "features.user.oov_buckets: the table 'user' would have 268435456"));
  CHECK(ErrorOf("dataset: {path: a.txt, format: libsvm, feature_count: 4294967296}\n"
                "features: [{name: features, kind: categorical, dim: 1024}]\n"
                "model: {kind: mlp}\n") ==
        "job.yaml:1:40: dataset.feature_count: the table 'features' would have 4294967296 rows of "
        "1024 numbers; wanted at most 1099511627776 numbers");
  CHECK(
      absl::StrContains(ErrorOf("dataset: {path: a.tsv, format: criteo, hash_buckets: 4294967296}\n"
                                "model: {kind: dlrm, dim: 1000}\n"),
                        "job.yaml:1:40: dataset.hash_buckets: the table 'C1' would have"));
}

}  // namespace
}  // namespace coxswain::job
