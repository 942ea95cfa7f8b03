// Jobs of clicks: the format criteo, the models dlrm and deepfm.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "tests/testing/job_texts.h"

namespace coxswain::job {
namespace {

using Strings = std::vector<std::string>;
using testing::Changed;
using testing::ErrorOf;
using testing::MustParse;

constexpr char kCriteo[] = R"(dataset: {format: criteo, path: day_0.gz, hash_buckets: 5000}
features:
  - {name: I2, kind: numeric, normalization: standard}
  - {name: C3, kind: categorical, min_count: 10}
split: {test: 0.1}
model: {kind: dlrm, dim: 8}
)";

constexpr char kShop[] = R"(dataset: {path: shop.csv}
features:
  - {name: user, kind: categorical}
  - {name: tags, kind: categorical, value_separator: "|", combiner: sqrtn}
  - {name: age, kind: numeric}
  - {name: price, kind: numeric, normalization: log1p}
label: {column: bought}
split: {validation: 0.1}
model: {kind: deepfm, hidden: [32], activation: tanh}
)";

TEST_CASE("a criteo data set has its features, but for those that the file lists") {
  const JobSpec job = MustParse(kCriteo);
  REQUIRE(job.dataset.features_size() == 39);
  CHECK(job.dataset.label().column() == "label");
  CHECK(job.FindFeature("I1")->normalization() == proto::FeatureSpec::LOG1P);
  CHECK(job.FindFeature("I2")->normalization() == proto::FeatureSpec::STANDARD);
  CHECK(job.FindFeature("I2")->column() == "I2");
  CHECK(job.FindFeature("C1")->hash_buckets() == 5000);
  CHECK(job.FindFeature("C3")->hash_buckets() == 0);
  CHECK(job.FindFeature("C3")->min_count() == 10);
  CHECK(job.FindFeature("C3")->dim() == 8);
  CHECK(job.model->Tables().size() == 39);
  CHECK(job.tables.size() == 26);
  CHECK(job.FindTable("C26")->dim == 8);
}

TEST_CASE("a criteo data set may have further features of its columns") {
  const JobSpec job = MustParse(std::string(kCriteo) + R"(label: {positive: "== 0"})",
                                {"features.0.name=small", "features.0.column=I5"});
  CHECK(job.dataset.features_size() == 40);
  CHECK(job.FindFeature("small")->column() == "I5");
  CHECK(job.dataset.label().column() == "label");
  CHECK(Changed(kCriteo, "name: I2", "name: small") ==
        "job.yaml:3:6: features.small.name: unknown column 'small'; there is: label, "
        "I1, I2, I3, I4, I5, I6, I7, I8, I9, I10, I11, I12, I13, C1, C2, C3, C4, "
        "C5, C6, C7, C8, C9, C10, C11, C12, C13, C14, C15, C16, C17, C18, C19, C20, C21, C22, C23, "
        "C24, C25, C26");
}

TEST_CASE("a criteo data set without buckets has hash tables") {
  const JobSpec job = MustParse(kCriteo, {"dataset.hash_buckets=0"});
  CHECK(job.FindFeature("C1")->id() == "hash");
  CHECK(job.FindFeature("C1")->hash_buckets() == 0);
  CHECK(job.FindTable("C1")->hash.has_value());
  CHECK_FALSE(job.FindTable("C3")->hash.has_value());  // which has a vocabulary
}

TEST_CASE("hash_buckets and csv's keys are each for their format") {
  CHECK(Changed(kCriteo, "hash_buckets: 5000", "header: true") ==
        "job.yaml:1:43: key 'header' in dataset is not for format criteo, only for csv");
  CHECK(Changed(kShop, "path: shop.csv", "path: shop.csv, hash_buckets: 3") ==
        "job.yaml:1:27: key 'hash_buckets' in dataset is not for format csv, only for criteo");
}

TEST_CASE("dlrm has layers below and above its products") {
  const JobSpec job = MustParse(kCriteo);
  CHECK(testing::ModelName(job) == "dlrm");
  CHECK(absl::StartsWith(job.model->Options(), "dim: 8, features: [I1, I2, I3, "));
  CHECK(absl::EndsWith(job.model->Options(),
                       "bottom: [512, 256], top: [512, 256], activation: relu, "
                       "layer_norm: false, dropout: 0, batch_norm: none"));
  CHECK(testing::LossName(job) == "sigmoid_cross_entropy");
  const JobSpec small = MustParse(kCriteo, {"model.bottom=[]", "model.top=[4]",
                                            "model.features=[I1, C3, C4]", "loss.kind=mse"});
  CHECK(small.model->Options() ==
        "dim: 8, features: [I1, C3, C4], bottom: [], top: [4], activation: relu, "
        "layer_norm: false, dropout: 0, batch_norm: none");
  CHECK(small.tables.size() == 2);
}

TEST_CASE("deepfm has a vector and a weight for each feature") {
  const JobSpec job = MustParse(kShop);
  CHECK(testing::ModelName(job) == "deepfm");
  CHECK(job.model->Options() ==
        "dim: 16, features: [user, tags, age, price], hidden: [32], activation: tanh, "
        "layer_norm: false, dropout: 0, batch_norm: none");
  Strings tables;
  for (const TableSpec& table : job.tables) tables.push_back(table.name);
  CHECK(tables == Strings{"user", "tags", "user_linear", "tags_linear"});
  CHECK(job.FindTable("tags")->dim == 16);
  CHECK(job.FindTable("tags_linear")->dim == 1);
}

TEST_CASE("vectors that are to meet in products must have one width") {
  CHECK(
      Changed(kShop, "name: user,", "name: user, dim: 4,") ==
      "job.yaml:3:18: features.user.dim: a product of two vectors needs them of one width: it has "
      "to be model.dim, 16; found 4");
  CHECK(Changed(kCriteo, "min_count: 10", "min_count: 10, dim: 16") ==
        "job.yaml:4:50: features.C3.dim: a product of two vectors needs them of one width: it has "
        "to be model.dim, 8; found 16");
}

TEST_CASE("the rows of ffm's tables have a vector for each feature") {
  const std::string ffm = absl::StrReplaceAll(
      kShop, {{"{kind: deepfm, hidden: [32], activation: tanh}", "{kind: ffm}"}});
  for (const TableSpec& table : MustParse(ffm).tables) {
    CHECK(table.dim == (absl::EndsWith(table.name, "_linear") ? 1 : 4 * 4));
  }
  CHECK(Changed(ffm, "name: user,", "name: user, dim: 16,") == "");
  CHECK(Changed(ffm, "name: user,", "name: user, dim: 4,") ==
        "job.yaml:3:18: features.user.dim: a feature has a vector of model.dim for each of 4: "
        "wanted 16, or nothing, found 4");
}

TEST_CASE("a model of products needs two vectors") {
  CHECK(ErrorOf(kShop, {"model.features=[user]"}) ==
        "--set model.features=[user]: model.features: wanted features that make two or more "
        "vectors, found 1 categorical and 0 numeric ones");
  CHECK(ErrorOf(kShop, {"model.features=[age, price]"}) == "");
  // In dlrm all numbers make one vector.
  CHECK(Changed(kCriteo, "dim: 8", "dim: 8, features: [I1, I2, I3]") ==
        "job.yaml:6:29: model.features: wanted features that make two or more vectors, found 0 "
        "categorical and 3 numeric ones");
}

TEST_CASE("keys of dlrm and deepfm are each for their kind") {
  CHECK(Changed(kShop, "hidden: [32]", "top: [32]") ==
        "job.yaml:9:23: key 'top' in model is not for kind deepfm, only for dlrm");
  CHECK(Changed(kCriteo, "dim: 8", "hidden: [8]") ==
        "job.yaml:6:21: key 'hidden' in model is not for kind dlrm, only for mlp, deepfm, "
        "dcn_v2, din, shared_bottom, mmoe, autoint");
  CHECK(Changed(kCriteo, "dim: 8", "classes: 2") ==
        "job.yaml:6:21: key 'classes' in model is not for kind dlrm, only for mlp, "
        "logistic_regression");
  CHECK(Changed(kCriteo, "test: 0.1}", "test: 0.1}\nloss: {kind: sampled_softmax}") ==
        "job.yaml:6:8: loss.kind: sampled_softmax is not for a dlrm; it has: "
        "sigmoid_cross_entropy, hinge, focal, mse, mae, huber, lambdarank, "
        "listnet");
}

}  // namespace
}  // namespace coxswain::job
