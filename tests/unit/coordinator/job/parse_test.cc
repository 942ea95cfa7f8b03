// What a valid JOB.yaml becomes.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "coordinator/job/metric_kind.h"
#include "coordinator/job/unused_features.h"
#include "kernels/optimizers/optimizer_spec.h"
#include "tests/testing/job_texts.h"

namespace coxswain::job {
namespace {

using Catch::Matchers::Contains;
using testing::LossName;
using testing::MustParse;

std::vector<std::string> TableNames(const JobSpec& job) {
  std::vector<std::string> names;
  for (const TableSpec& table : job.tables) names.push_back(table.name);
  return names;
}

using Strings = std::vector<std::string>;

constexpr char kCensus[] = R"(
dataset: {path: [a.csv, b.csv.gz], separator: "::", columns: [age, job, tags, pay], quoting: false}
features:
  - {name: age, kind: numeric, normalization: min_max, missing_value: 30}
  - {name: work, kind: categorical, column: job, hash_buckets: 1000, dim: 4}
  - {name: tags, kind: categorical, value_separator: "|", weight_separator: "=", max_values: 5, combiner: sum, max_size: 9}
label: {column: pay, positive_values: [">50K", 50001]}
split: {validation: 0.2, test: 0.1}
model: {kind: wide_deep, wide: {features: [work]}, deep: {hidden: [8], features: [age, work, tags]}}
)";

TEST_CASE("a job of csv columns becomes the data set that it describes") {
  const JobSpec job = MustParse(kCensus, {"train.seed=7", "train.shuffle=false"});
  CHECK(job.name == "job");
  const proto::DatasetSpec& dataset = job.dataset;
  CHECK(dataset.format() == "csv");
  REQUIRE(dataset.paths_size() == 2);
  CHECK(dataset.paths(1) == "b.csv.gz");
  CHECK(dataset.csv().separator() == "::");
  CHECK_FALSE(dataset.csv().header());
  CHECK_FALSE(dataset.csv().quoting());
  CHECK(dataset.csv().columns_size() == 4);
  CHECK(dataset.seed() == 7);
  CHECK_FALSE(dataset.shuffle());
  CHECK(dataset.label().column() == "pay");
  CHECK(dataset.label().positive_values_size() == 2);
  CHECK(dataset.label().positive_values(1) == "50001");
  CHECK(dataset.split().validation_fraction() == 0.2);
  CHECK(dataset.split().test_fraction() == 0.1);

  const proto::FeatureSpec& age = *job.FindFeature("age");
  CHECK(age.kind() == proto::FeatureSpec::NUMERIC);
  CHECK(age.column() == "age");
  CHECK(age.normalization() == proto::FeatureSpec::MIN_MAX);
  CHECK(age.missing_value() == 30);
  const proto::FeatureSpec& work = *job.FindFeature("work");
  CHECK(work.column() == "job");
  CHECK(work.hash_buckets() == 1000);
  CHECK(work.oov_buckets() == 0);
  CHECK(work.min_count() == 0);
  CHECK(work.dim() == 4);
  const proto::FeatureSpec& tags = *job.FindFeature("tags");
  CHECK(tags.multi_valued());
  CHECK(tags.value_separator() == "|");
  CHECK(tags.weight_separator() == "=");
  CHECK(tags.max_values() == 5);
  CHECK(tags.combiner() == "sum");
  CHECK(tags.max_size() == 9);
  CHECK(tags.oov_buckets() == 1);
  CHECK(tags.dim() == 16);
}

TEST_CASE("features that nothing names are found") {
  CHECK(UnusedFeatures(MustParse(kCensus)).empty());
  const std::string forgotten =
      absl::StrReplaceAll(kCensus, {{"features: [age, work, tags]", "features: [work]"}});
  CHECK(UnusedFeatures(MustParse(forgotten)) == Strings{"age", "tags"});
  // What is left out of the key is all of them.
  const std::string all = absl::StrReplaceAll(kCensus, {{", features: [age, work, tags]", ""}});
  CHECK(UnusedFeatures(MustParse(all)).empty());
  // One that another feature is made of is used.
  const std::string crossed = absl::StrReplaceAll(
      kCensus, {{"features: [age, work, tags]", "features: [age, tags, both]"},
                {"label:",
                 "  - {name: again, kind: categorical, column: job}\n"
                 "  - {name: both, kind: crossed, features: [work, again], dim: 4}\nlabel:"},
                {"wide: {features: [work]}", "wide: {features: [both]}"}});
  CHECK(UnusedFeatures(MustParse(crossed)).empty());
}

TEST_CASE("bytes are plain or have a unit") {
  const auto bytes = [](const std::string& text) {
    return MustParse(kCensus, {"dataset.memory=" + text}).dataset.stream().memory();
  };
  CHECK(bytes("1000") == 1000);
  CHECK(bytes("8MiB") == 8 << 20);
  CHECK(bytes("1.5 GiB") == int64_t{3} << 29);
  CHECK(bytes("64KiB") == 65536);
  CHECK(bytes("2TiB") == int64_t{2} << 40);
  CHECK(bytes("3KB") == 3000);
  CHECK(bytes("0.5MB") == 500000);
  CHECK(bytes("20GB") == 20'000'000'000);
  CHECK(MustParse(kCensus).dataset.stream().memory() == 512 << 20);
}

TEST_CASE("how workers train together is read") {
  const Consistency sync =
      MustParse(kCensus, {"train.consistency={mode: sync, replicas: 3, reduce: sum}"})
          .train.consistency;
  CHECK(sync.mode == ConsistencyMode::kSync);
  CHECK(sync.replicas == 3);
  CHECK(sync.reduce == GradientReduction::kSum);
  CHECK(sync.batches_per_update() == 3);
  const Consistency singles =
      MustParse(kCensus, {"train.consistency={mode: sync, replicas: 3, reduce: none, "
                          "staleness_rate: root}"})
          .train.consistency;
  CHECK(singles.reduce == GradientReduction::kNone);
  CHECK(singles.batches() == 3);
  CHECK(singles.batches_per_update() == 1);
  const Consistency bounded =
      MustParse(kCensus, {"train.consistency={mode: bounded, max_staleness: 0}"}).train.consistency;
  CHECK(bounded.mode == ConsistencyMode::kBounded);
  CHECK(bounded.max_staleness == 0);
  CHECK(bounded.reduce == GradientReduction::kMean);
  CHECK(bounded.staleness_rate == StalenessRate::kNone);
  CHECK_FALSE(bounded.in_steps());
  CHECK(MustParse(kCensus, {"train.consistency.staleness_rate=root"})
            .train.consistency.staleness_rate == StalenessRate::kRoot);
  const Consistency backups =
      MustParse(kCensus, {"train.consistency={mode: sync, replicas: 3, backup: 1, accumulate: 2}"})
          .train.consistency;
  CHECK(backups.backup == 1);
  CHECK(backups.batches() == 6);
  const Consistency hybrid =
      MustParse(kCensus, {"train.consistency={mode: hybrid, group_size: 4}"}).train.consistency;
  CHECK(hybrid.mode == ConsistencyMode::kHybrid);
  CHECK(hybrid.batches() == 4);
  CHECK(hybrid.in_steps());
  const Consistency micro =
      MustParse(kCensus, {"train.consistency.accumulate=3"}).train.consistency;
  CHECK(micro.mode == ConsistencyMode::kAsync);
  CHECK(micro.batches() == 3);
  CHECK(micro.in_steps());
}

TEST_CASE("defaults are filled in where the file says nothing") {
  const JobSpec job = MustParse(kCensus);
  CHECK(job.train.epochs == 1);
  CHECK(job.train.steps == 0);
  CHECK(job.train.batch_size == 256);
  CHECK(job.train.closures_in_flight == 3);
  CHECK(job.dataset.shuffle());
  CHECK_FALSE(job.train.early_stopping.has_value());
  CHECK(job.train.consistency.mode == ConsistencyMode::kAsync);
  CHECK(LossName(job) == "sigmoid_cross_entropy");
  CHECK(job.dense_optimizer.kind() == "adam");
  CHECK(job.dense_optimizer.learning_rate() == 0.001);
  CHECK(job.FindTable("work")->optimizer.kind() == "lazy_adam");
  CHECK(job.FindTable("work")->optimizer.learning_rate() == 0.005);
  CHECK(job.evaluate.enabled);
  CHECK(job.evaluate.part == Part::kValidation);
  CHECK(job.evaluate.batch_size == 256);
  REQUIRE(job.evaluate.metrics.size() == 3);
  CHECK(job.evaluate.metrics[0].kind == FindMetricKind("auc"));
  CHECK(job.evaluate.metrics[0].kind->higher_is_better);
  CHECK_FALSE(job.evaluate.metrics[1].kind->higher_is_better);
  CHECK(job.partitioner.kind == PartitionerKind::kMinSize);
  CHECK(job.partitioner.min_shard_bytes == 256 << 10);
}

TEST_CASE("each table of a model has its own optimizer, penalty and initial values") {
  const JobSpec job = MustParse(std::string(kCensus) + R"(
optimizer: {table: {kind: adagrad, l2: 0.5}, dense: {kind: momentum, momentum: 0, nesterov: true}}
tables:
  work_linear: {optimizer: {kind: ftrl, l1: 0.1, l2: 0.2}}
  tags: {l2: 0.01, init_stddev: 0}
)");
  CHECK(TableNames(job) == Strings{"work", "tags", "work_linear"});
  const TableSpec& work = *job.FindTable("work");
  CHECK(work.role == TableSpec::Role::kEmbedding);
  CHECK(work.dim == 4);
  CHECK(work.optimizer.kind() == "adagrad");
  CHECK(work.optimizer.learning_rate() == 0.05);
  CHECK(kernels::FindParameter(work.optimizer, "l2") == 0.5);
  CHECK(work.initializer.kind() == "normal");
  CHECK(work.initializer.stddev() == 0.1);
  const TableSpec& tags = *job.FindTable("tags");
  CHECK(tags.optimizer.kind() == "adagrad");
  CHECK(kernels::FindParameter(tags.optimizer, "l2") == 0.01);
  CHECK(tags.initializer.kind() == "zeros");
  const TableSpec& linear = *job.FindTable("work_linear");
  CHECK(linear.role == TableSpec::Role::kLinear);
  CHECK(linear.feature == "work");
  CHECK(linear.dim == 1);
  CHECK(linear.optimizer.kind() == "ftrl");
  CHECK(kernels::FindParameter(linear.optimizer, "l1") == 0.1);
  CHECK(kernels::FindParameter(linear.optimizer, "learning_rate_power") == -0.5);
  CHECK(linear.initializer.kind() == "zeros");
  CHECK(kernels::FindParameter(job.dense_optimizer, "momentum") == 0);
  CHECK(kernels::FindParameter(job.dense_optimizer, "nesterov") == 1);
}

TEST_CASE("a row of each user that is held out for validation is what is evaluated") {
  const JobSpec job = MustParse(R"(
dataset: {path: x.csv}
features:
  - {name: user, kind: categorical}
  - {name: item, kind: categorical}
label: {column: y}
split: {holdout_per: user, by: t, holdout_last: true, holdout_validation: true}
model: {kind: matrix_factorization, user: {feature: user}, item: {feature: item}, dim: 4}
evaluate: {metrics: [rmse]}
)");
  CHECK(job.dataset.split().holdout_validation());
  CHECK(job.evaluate.part == Part::kValidation);
}

TEST_CASE("a two_tower predicts its item and takes its width from the model") {
  const JobSpec job = MustParse(R"(
dataset: {path: x.csv}
features:
  - {name: item, kind: categorical, vocabulary_file: names.txt}
  - {name: age, kind: numeric}
  - {name: seen, kind: history, history_of: item, group_by: user}
split: {holdout_per: user, holdout_min: 4}
model:
  kind: two_tower
  dim: 24
  user: {features: [seen, age], hidden: [48]}
  item: {feature: item, bias: false}
loss: {negatives: 10, distribution: popularity, temperature: 0.5}
evaluate: {metrics: [hit_rate@5, hit_rate@50], show: [a, b]}
)");
  CHECK(job.dataset.label().feature() == "item");
  CHECK(job.dataset.split().holdout_per() == "user");
  CHECK(job.dataset.split().holdout_min() == 4);
  CHECK(job.evaluate.part == Part::kTest);
  CHECK(job.FindFeature("item")->oov_buckets() == 1);
  CHECK(job.FindFeature("item")->dim() == 24);
  const proto::FeatureSpec& seen = *job.FindFeature("seen");
  CHECK(seen.multi_valued());
  CHECK(seen.history_of() == "item");
  CHECK(seen.group_by() == "user");
  CHECK(seen.dim() == 24);
  CHECK(job.model->Options() ==
        "user: {features: [seen, age], hidden: [48]}, item: {feature: item, features: [], "
        "hidden: [], bias: "
        "false}, dim: 24, normalize: false, activation: relu, layer_norm: false, "
        "dropout: 0");
  CHECK(job.model->item() == "item");
  CHECK(TableNames(job) == Strings{"seen", "item"});
  CHECK(LossName(job) == "sampled_softmax");
  CHECK(job.loss->sampling()->negatives == 10);
  CHECK(job.loss->sampling()->distribution == Distribution::kPopularity);
  CHECK(job.loss->sampling()->temperature == 0.5);
  CHECK(job.evaluate.part == Part::kTest);
  REQUIRE(job.evaluate.metrics.size() == 2);
  CHECK(job.evaluate.metrics[1].k == 50);
  CHECK(job.evaluate.metrics[1].name == "hit_rate@50");
}

TEST_CASE("an mlp with classes may have its label in a column or in a categorical feature") {
  const std::string text = R"(
dataset: {path: iris.csv}
features:
  - {name: length, kind: numeric}
  - {name: species, kind: categorical}
label: {feature: species}
split: {test_path: test.csv}
model: {kind: mlp, hidden: [], classes: 3, activation: tanh}
)";
  const JobSpec job = MustParse(text);
  CHECK(job.model->Options() ==
        "features: [length], hidden: [], activation: tanh, layer_norm: false, dropout: 0, "
        "batch_norm: none, classes: 3");
  CHECK(job.tables.empty());
  CHECK(LossName(job) == "softmax_cross_entropy");
  CHECK(job.evaluate.part == Part::kTest);
  CHECK(job.evaluate.metrics[0].kind == FindMetricKind("accuracy"));
  const JobSpec column = MustParse(text, {"label.feature=", "label.column=number"});
  CHECK(column.dataset.label().column() == "number");
  CHECK(absl::StartsWith(column.model->Options(), "features: [length, species], "));
}

TEST_CASE("a libsvm data set has one weighted feature whose embedding can be set") {
  const std::string text = R"(
dataset: {format: libsvm, path: a.txt, feature_count: 126, zero_based: true}
label: {positive: "> 1"}
model: {kind: wide_deep}
)";
  const JobSpec job = MustParse(text);
  CHECK(job.dataset.libsvm_features() == 126);
  CHECK(job.dataset.zero_based());
  CHECK(job.dataset.label().positive_comparison() == ">");
  CHECK(job.dataset.label().positive_threshold() == 1);
  CHECK(job.FindFeature(kLibsvmFeature)->combiner() == "sum");
  CHECK(job.FindTable("features")->dim == 16);
  CHECK(job.FindTable("features_linear")->dim == 1);
  CHECK_FALSE(job.evaluate.enabled);
  const JobSpec wide =
      MustParse(text + "features: [{name: features, kind: categorical, dim: 3}]\n");
  CHECK(wide.FindTable("features")->dim == 3);
  CHECK(wide.FindFeature(kLibsvmFeature)->combiner() == "sum");
}

TEST_CASE("every comparison of label.positive is read") {
  for (const std::string op : {">=", "<=", "==", "!=", ">", "<"}) {
    const JobSpec job =
        MustParse(kCensus, {"label.positive_values=", "label.positive=" + op + " -2.5"});
    CHECK(job.dataset.label().positive_comparison() == op);
    CHECK(job.dataset.label().positive_threshold() == -2.5);
  }
}

TEST_CASE("each partitioner is read with its own keys") {
  JobSpec job =
      MustParse(kCensus, {"parameter_servers.partitioner={kind: fixed_shards, shards: 5}"});
  CHECK(job.partitioner.kind == PartitionerKind::kFixedShards);
  CHECK(job.partitioner.shards == 5);
  job = MustParse(kCensus, {"parameter_servers.partitioner={kind: max_size, max_shard_bytes: 99}"});
  CHECK(job.partitioner.kind == PartitionerKind::kMaxSize);
  CHECK(job.partitioner.max_shard_bytes == 99);
  CHECK(job.partitioner.max_shards == 0);
}

TEST_CASE("a job tells where each of its keys stands") {
  const JobSpec job = MustParse(kCensus, {"train.batch_size=8"});
  CHECK(job.Where("dataset.separator") == "job.yaml:2:36");
  CHECK(job.Where("features.work.column") == "job.yaml:5:37");
  CHECK(job.Where("label.positive_values.1") == "job.yaml:7:48");
  // A default stands where its section does.
  CHECK(job.Where("features.age.column") == "job.yaml:4:5");
  CHECK(job.Where("parameter_servers.partitioner") == "job.yaml:1:1");
  CHECK(job.Where("train.batch_size") == "--set train.batch_size=8");
}

TEST_CASE("overrides replace, add and remove keys before anything is checked") {
  const JobSpec job = MustParse(
      kCensus, {"train.batch_size=64", "features.age.kind=numeric", "features.1.dim=7",
                "features.tags.max_values=", "dataset.path=c.csv", "dataset.separator=\"\\t\"",
                "model.deep.hidden=[3, 2]", "tables.tags.init_stddev=2", "name=other"});
  CHECK(job.name == "other");
  CHECK(job.train.batch_size == 64);
  CHECK(job.FindFeature("work")->dim() == 7);
  CHECK(job.FindFeature("tags")->max_values() == 0);
  CHECK(job.dataset.paths(0) == "c.csv");
  CHECK(job.dataset.csv().separator() == "\t");
  CHECK(absl::StrContains(job.model->Options(),
                          "deep: {features: [age, work, tags], hidden: [3, 2]}"));
  CHECK(job.FindTable("tags")->initializer.stddev() == 2);
}

TEST_CASE("paths that lead to nothing here are refused with what to write") {
  constexpr char kJob[] =
      "dataset: {path: a.csv}\nfeatures: [{name: x, kind: numeric}]\nlabel: {column: y}\n"
      "model: {kind: logistic_regression}\n";
  const auto error = [&](const std::string& set) {
    return std::string(ParseKeptJob(kJob, "job.yaml", "/jobs", {set}).status().message());
  };
  CHECK_THAT(error("dataset.path=gs://bucket/a.csv"),
             Contains("dataset.path: \"gs://bucket/a.csv\": wanted a path of this machine or "
                      "s3://BUCKET/NAME, found one of gs://"));
  CHECK_THAT(error("dataset.cache_directory=s3://bucket/cache"),
             Contains("dataset.cache_directory: \"s3://bucket/cache\": wanted a path of this "
                      "machine; only data is read from object stores"));
  CHECK_THAT(error("split.test_path=https://a.org/a.csv"), Contains("found one of https://"));
  CHECK_THAT(error("dataset.path=~/a.csv"),
             Contains("dataset.path: \"~/a.csv\": '~' is not expanded in a job file"));
  CHECK_THAT(error("checkpoint.directory=~/saved"), Contains("checkpoint.directory: \"~/saved\""));
  CHECK_THAT(error("dataset.join=[{path: ~/side.csv, on: x}]"),
             Contains("dataset.join.0.path: \"~/side.csv\": '~' is not expanded"));
  CHECK_THAT(error("features=[{name: x, kind: categorical, vocabulary_file: ~/x.txt}]"),
             Contains("features.x.vocabulary_file: \"~/x.txt\": '~' is not expanded"));
  const std::string one_hot = "features=[{name: x, kind: categorical}]";
  const auto of_table = [&](const std::string& initializer) {
    return std::string(
        ParseKeptJob(kJob, "job.yaml", "/jobs",
                     {one_hot, "model={kind: mlp, hidden: [2]}",
                      absl::StrCat("tables={x: {initializer: {kind: file, ", initializer, "}}}")})
            .status()
            .message());
  };
  CHECK_THAT(of_table("path: ~/rows.npz, words: words.txt"),
             Contains("tables.x.initializer.path: \"~/rows.npz\": '~' is not expanded"));
  CHECK_THAT(of_table("path: rows.npz, words: ~/words.txt"),
             Contains("tables.x.initializer.words: \"~/words.txt\": '~' is not expanded"));
  constexpr char kText[] = "dataset: {path: a.txt, format: text}\nmodel: {kind: word2vec}\n";
  for (const char* key : {"word_similarity", "analogies"}) {
    const std::string set = absl::StrCat("evaluate.", key, "=~/words.txt");
    CHECK_THAT(std::string(ParseKeptJob(kText, "job.yaml", "/jobs", {set}).status().message()),
               Contains(absl::StrCat("evaluate.", key, ": \"~/words.txt\": '~' is not expanded")));
  }
  for (const char* good :
       {"dataset.path=s3://bucket/a.csv", "dataset.path=a~b/~c.csv", "dataset.path=/x/a:b.csv"}) {
    INFO(good);
    CHECK(ParseKeptJob(kJob, "job.yaml", "/jobs", {good}).ok());
  }
}

}  // namespace
}  // namespace coxswain::job
