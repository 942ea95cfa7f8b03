// What an invalid JOB.yaml is told. The messages are the claim here, so they are compared whole.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tests/testing/job_texts.h"

namespace coxswain::job {
namespace {

using Catch::Contains;
using testing::Changed;
using testing::ErrorOf;

constexpr char kTower[] = R"(dataset:
  path: packages.csv
features:
  - name: item
    kind: categorical
  - name: history
    kind: history
    history_of: item
    group_by: user
split: {holdout_per: user}
model:
  kind: two_tower
  user: {features: [history]}
  item: {feature: item}
train:
  batch_size: 512
evaluate: {metrics: [hit_rate@10]}
)";

constexpr char kTable[] = R"(dataset: {path: a.csv, columns: [user, film, age, stars]}
features:
  - {name: user, kind: categorical}
  - {name: film, kind: categorical}
  - {name: age, kind: numeric}
label: {column: stars}
model: {kind: wide_deep}
)";

TEST_CASE("a feature that reads the label's column is refused") {
  CHECK(Changed(kTable, "  - {name: age, kind: numeric}",
                "  - {name: age, kind: numeric, column: stars}") ==
        "job.yaml:5:5: features.age: reads the column 'stars', the label's: the model would be "
        "given what it is to predict");
  CHECK(absl::StrContains(
      Changed(kTower, "  - name: history",
              "  - {name: again, kind: categorical, column: item}\n  - name: history"),
      "features.again: reads the column 'item', the label's"));
}

TEST_CASE("a feature that is called like a variable of the model's own is refused with its line") {
  const std::string age = "  - {name: age, kind: numeric}";
  const std::string bias = "  - {name: bias, kind: numeric, column: age}";
  const std::string wanted =
      "job.yaml:5:5: features.bias: its weight would be called 'wide/bias', like the bias of all; "
      "give the feature another name";
  for (const char* model : {"wide_deep", "deepfm", "logistic_regression", "linear_regression"}) {
    CAPTURE(model);
    CHECK(Changed(absl::StrReplaceAll(kTable, {{"wide_deep", model}}), age, bias) == wanted);
  }
  CHECK(Changed(kTable, age, "  - {name: bias, kind: vector, columns: [age]}") == wanted);
  // Such a table is bias_linear; and only a linear part has a bias of all.
  CHECK(Changed(kTable, age, "  - {name: bias, kind: categorical, column: age}").empty());
  CHECK(Changed(absl::StrReplaceAll(kTable, {{"wide_deep", "mlp"}}), age, bias).empty());

  const std::string of_tables = ": its table would be called '";
  const std::string factors = absl::StrReplaceAll(
      kTable, {{"name: film", "name: mean, column: film"},
               {"{kind: wide_deep}",
                "{kind: matrix_factorization, user: {feature: user}, item: {feature: mean}}"}});
  CHECK(absl::StartsWith(ErrorOf(factors), "job.yaml:4:5: features.mean" + of_tables + "mean'"));
  CHECK(ErrorOf(factors, {"model.biases=false"}).empty());
  const std::string sequences = absl::StrReplaceAll(
      kTower, {{"name: item\n", "name: positions\n    column: item\n"},
               {"history_of: item", "history_of: positions"},
               {"group_by: user", "group_by: user\n    by: time\n    max_values: 5"},
               {"kind: two_tower\n  user: {features: [history]}\n  item: {feature: item}",
                "kind: sasrec\n  history: history"}});
  CHECK(absl::StartsWith(ErrorOf(sequences),
                         "job.yaml:4:5: features.positions" + of_tables + "positions'"));
}

TEST_CASE("a vector that has the label's column among its columns is refused, also in a range") {
  const std::string age = "  - {name: age, kind: numeric}";
  CHECK(Changed(kTable, age, "  - {name: v, kind: vector, columns: [age, stars]}") ==
        "job.yaml:5:29: features.v.columns: wanted columns without the label's, found "
        "'stars': the model would be given what it is to predict");
  const auto of_range = [&age](const std::string& label) {
    return ErrorOf(
        absl::StrReplaceAll(kTable, {{"[user, film, age, stars]", "[user, film, p0, p1, p2]"},
                                     {"column: stars", absl::StrCat("column: ", label)},
                                     {age, "  - {name: v, kind: vector, columns: \"p{0..1}\"}"}}));
  };
  CHECK(absl::StrContains(of_range("p1"),
                          "job.yaml:5:29: features.v.columns: wanted columns without the label's, "
                          "found 'p1'"));
  CHECK(of_range("p2").empty());
}

TEST_CASE("a crossed feature that is made of the label is refused") {
  const std::string text = R"(dataset: {path: a.csv}
features:
  - {name: user, kind: categorical}
  - {name: group, kind: categorical}
  - {name: both, kind: crossed, features: [user, group], hash_buckets: 100, dim: 4}
label: {feature: group}
model: {kind: mlp, classes: 3, features: [user, both]}
)";
  CHECK(ErrorOf(text) ==
        "job.yaml:5:33: features.both.features: wanted features other than the label, found "
        "'group': the model would be given what it is to predict");
}

TEST_CASE("of many mistakes the first are told, and of many names, too") {
  std::string text =
      "dataset: {path: a.csv}\nlabel: {column: y}\nmodel: {kind: logistic_regression}\n"
      "features:\n";
  for (int i = 0; i < 300; ++i) absl::StrAppend(&text, "  - {name: f", i, ", kind: categorical}\n");
  text += "tables:\n";
  for (int i = 0; i < 300; ++i) absl::StrAppend(&text, "  t", i, ": {shards: 1}\n");
  const std::string error = ErrorOf(text);
  CHECK(std::count(error.begin(), error.end(), '\n') == 100);
  CHECK_THAT(error, Catch::Matchers::EndsWith("\nand 200 more") &&
                        Catch::Matchers::Contains(" and 260 more"));
}

TEST_CASE("an unknown key is told with its place, the nearest key and all valid ones") {
  CHECK(Changed(kTower, "batch_size", "bacth_size") ==
        "job.yaml:16:3: unknown key 'bacth_size' in train; did you mean 'batch_size'? valid keys: "
        "epochs, steps, batch_size, steps_per_function, closures_in_flight, compute, device, seed, "
        "shuffle, "
        "visitation, "
        "log_every, on_error, early_stopping, reduce_on_plateau, consistency, deterministic, clip, "
        "ema");
  CHECK(Changed(kTable, "label: {column: stars}", "label: {column: stars, epochs: 3}") ==
        "job.yaml:6:24: unknown key 'epochs' in label; there is one in train; valid keys: column, "
        "positive, missing_value, positive_values, feature, weight, keep_negatives");
  CHECK(Changed(kTable, "label:", "zzz: 1\nlabel:") ==
        "job.yaml:6:1: unknown key 'zzz' in the file; valid keys: name, dataset, features, label, "
        "labels, "
        "split, model, loss, optimizer, regularization, tables, train, evaluate, "
        "parameter_servers, checkpoint, cluster");
}

TEST_CASE("a key of another kind is told, with the kinds that it is for") {
  CHECK(Changed(kTower, "item: {feature: item}", "item: {feature: item}\n  classes: 3") ==
        "job.yaml:15:3: key 'classes' in model is not for kind two_tower, only for mlp, "
        "logistic_regression");
  CHECK(Changed(kTable, "kind: numeric", "kind: numeric, dim: 3") ==
        "job.yaml:5:32: key 'dim' in features.age is not for kind numeric, only for categorical, "
        "history, crossed, bucketized, calendar");
  CHECK(Changed(kTable, "path: a.csv", "path: a.csv, zero_based: true") ==
        "job.yaml:1:24: key 'zero_based' in dataset is not for format csv, only for libsvm");
}

TEST_CASE("a wrong type tells what was wanted and what was found") {
  CHECK(Changed(kTower, "batch_size: 512", "batch_size: many") ==
        "job.yaml:16:15: train.batch_size: wanted integer 1..16777216; found the text 'many'");
  CHECK(Changed(kTower, "batch_size: 512", "batch_size: 5.5") ==
        "job.yaml:16:15: train.batch_size: wanted integer 1..16777216; found '5.5'");
  CHECK(Changed(kTower, "batch_size: 512", "batch_size: \"512\"") ==
        "job.yaml:16:15: train.batch_size: wanted integer 1..16777216; found the text '512'");
  CHECK(Changed(kTower, "batch_size: 512", "batch_size: 0") ==
        "job.yaml:16:15: train.batch_size: wanted integer 1..16777216; found '0'");
  CHECK(Changed(kTower, "batch_size: 512", "shuffle: yes") ==
        "job.yaml:16:12: train.shuffle: wanted true or false; found the text 'yes'");
  CHECK(Changed(kTower, "batch_size: 512", "early_stopping: {min_delta: .inf}") ==
        "job.yaml:16:31: train.early_stopping.min_delta: wanted number >= 0; found the text "
        "'.inf'");
  CHECK(Changed(kTower, "path: packages.csv", "path:") ==
        "job.yaml:2:3: dataset.path: wanted string or list of strings, found nothing");
  CHECK(Changed(kTower, "path: packages.csv", "path: []") ==
        "job.yaml:2:9: dataset.path: wanted string or list of strings, found an empty one");
  CHECK(Changed(kTower, "path: packages.csv", "path: [a, [b]]") ==
        "job.yaml:2:13: dataset.path.1: wanted string; found a list");
  CHECK(Changed(kTower, "{holdout_per: user}", "user") ==
        "job.yaml:10:8: split: wanted keys such as validation, test, holdout_per, holdout_min, by, "
        "validation_from, test_from, holdout_last, found the text 'user'");
  CHECK(Changed(kTower, "user: {features: [history]}", "user: history") ==
        "job.yaml:13:9: model.user: wanted keys features, hidden, found the text 'history'");
  CHECK(Changed(kTower, "kind: two_tower", "kind: two_towers") ==
        "job.yaml:12:9: model.kind: wanted one of two_tower, matrix_factorization, wide_deep, mlp, "
        "logistic_regression, dlrm, deepfm, word2vec, linear_regression, dcn_v2, din, "
        "shared_bottom, mmoe, sasrec, fm, ffm, autoint; found the text 'two_towers'; did you mean "
        "'two_tower'?");
  CHECK(Changed(kTable, "wide_deep}", "mlp, hidden: [3, -1]}") ==
        "job.yaml:7:32: model.hidden.1: wanted integer 1..1048576; found '-1'");
  for (const char* bytes : {"8MB/s", "MiB", "1e300GiB", "-1KiB", "nanMiB", "8 Mib"}) {
    CHECK_THAT(
        Changed(kTower, "path: packages.csv", absl::StrCat("path: a.csv\n  memory: ", bytes)),
        Catch::Contains("dataset.memory: wanted bytes 1..1024TiB, such as 512MiB; found ") &&
            Catch::Contains(bytes));
  }
}

TEST_CASE("a number that is none in 32 bits, or 0 where more is wanted, is told with its key") {
  const auto error_of = [](const char* set) { return ErrorOf(kTable, {set}); };
  CHECK(error_of("optimizer.table={kind: sgd, learning_rate: 1e-320}") ==
        "--set optimizer.table={kind: sgd, learning_rate: 1e-320}: optimizer.table.learning_rate: "
        "wanted number > 0; found '1e-320', which is 0 as a number of 32 bits");
  CHECK(error_of("features.age.missing_value=1e39") ==
        "--set features.age.missing_value=1e39: features.age.missing_value: wanted number; found "
        "'1e39', which is beyond the numbers of 32 bits, up to 3.40282e+38");
  for (const char* wrong :
       {"features.age.missing_value=-1e39", "features.age.divisor=1e-320",
        "tables.film.initializer={kind: constant, value: 1e39}", "tables.film.init_stddev=1e300"}) {
    CAPTURE(wrong);
    CHECK(absl::StrContains(error_of(wrong), "number"));
  }
  // The smallest and the largest, and 0 where that is a choice.
  for (const char* right :
       {"optimizer.table={kind: sgd, learning_rate: 1e-45}", "features.age.missing_value=-3.4e38",
        "tables.film.init_stddev=1e-320", "features.age.missing_value=0"}) {
    CAPTURE(right);
    CHECK(error_of(right) == "");
  }
}

TEST_CASE("a missing key tells where, its type and what it is for") {
  CHECK(Changed(kTower, "    group_by: user\n", "") ==
        "job.yaml:6:5: features.history: 'group_by' is missing (string): the column by which rows "
        "are grouped, such as the user");
  CHECK(Changed(kTable, "label: {column: stars}\n", "") ==
        "job.yaml:1:1: label: 'column' is missing (string): the column with the label");
  CHECK(
      ErrorOf("train: {epochs: 3}\n") ==
      "job.yaml:1:1: the file: 'dataset' is missing (keys such as format, path, query, "
      "max_bad_rows, streaming, memory, shuffle_window, block_bytes): the data files, their "
      "format, "
      "and how they are read\n"
      "job.yaml:1:1: the file: 'model' is missing (keys such as kind, user, item, dim, normalize, "
      "activation, layer_norm, dropout): the model to train");
  CHECK(
      ErrorOf("") ==
      "job.yaml:1:1: the file: wanted keys such as name, dataset, features, label, labels, split, "
      "model, loss, found nothing");
}

TEST_CASE("a missing kind is told with the names of all kinds, and not with what each of them is") {
  CHECK(ErrorOf(kTable, {"tables.film.initializer={value: 1}"}) ==
        "--set tables.film.initializer={value: 1}: tables.film.initializer: 'kind' is missing (one "
        "of zeros, ones, constant, uniform, normal, truncated_normal, glorot_uniform, file)");
}

TEST_CASE("a column that the file does not list is told with the nearest one") {
  CHECK(Changed(kTable, "{column: stars}", "{column: star}") ==
        "job.yaml:6:9: label.column: unknown column 'star'; did you mean 'stars'? there is: user, "
        "film, age, stars");
  CHECK(Changed(kTable, "{name: film,", "{name: film, column: movie,") ==
        "job.yaml:4:18: features.film.column: unknown column 'movie'; there is: user, film, age, "
        "stars");
}

TEST_CASE("names that lead nowhere are told with the nearest name") {
  CHECK(Changed(kTower, "history_of: item", "history_of: itme") ==
        "job.yaml:8:5: features.history.history_of: unknown feature 'itme'; did you mean 'item'? "
        "there is: item");
  CHECK(Changed(kTower, "{features: [history]}", "{features: [histroy]}") ==
        "job.yaml:13:21: model.user.features.0: unknown feature 'histroy'; did you mean 'history'? "
        "there is: item, history");
  CHECK(ErrorOf(kTower, {"tables.items.l2=1"}) ==
        "--set tables.items.l2=1: tables.items: unknown table 'items'; did you mean 'item'? there "
        "is: history, item, item_bias");
  CHECK(
      ErrorOf(kTower, {"evaluate.metrics=[hitrate@10]"}) ==
      "--set evaluate.metrics=[hitrate@10]: evaluate.metrics.0: unknown metric 'hitrate@10'; did "
      "you mean 'hit_rate@10'? there is: auc, logloss, accuracy, rmse, hit_rate@10, ndcg@10, mrr, "
      "map@10, precision@10, recall@10, pr_auc, f1, calibration, calibration_error, "
      "auc_by_group, logloss_by_group, accuracy@5, mae");
}

// One flag each on top of a valid file, and the end of the message.
struct Contradiction {
  std::string flag;
  std::string message;
};

void CheckAll(const std::string& text, const std::vector<Contradiction>& contradictions) {
  for (const auto& [flag, message] : contradictions) {
    INFO(flag);
    CHECK(ErrorOf(text, {flag}) == "--set " + flag + ": " + message);
  }
}

TEST_CASE("keys of a two_tower that contradict each other are errors") {
  CheckAll(
      kTower,
      {{"features.history.history_of=history",
        "features.history.history_of: feature 'history' is not a categorical one with a single "
        "value"},
       {"features.item.dim=8",
        "features.item.dim: without hidden layers it has to be model.dim, 32; found 8"},
       {"features.item.hash_buckets=8",
        "features.item.hash_buckets: the item of a two_tower needs a vocabulary"},
       {"model.item.feature=itme",
        "model.item.feature: unknown feature 'itme'; did you mean 'item'? there is: item, history"},
       {"label.column=x", "label.column: a two_tower predicts its item, 'item'"},
       {"label.positive=>3",
        "label.positive: this is for labels that become 0 and 1, and this model's do not"},
       {"loss.kind=mse",
        "loss.kind: mse is not for a two_tower; it has: sampled_softmax, bpr, "
        "in_batch_softmax, full_softmax"},
       {"evaluate.metrics=rmse",
        "evaluate.metrics.0: 'rmse' says nothing about this model; its metrics: hit_rate@10, "
        "ndcg@10, mrr, map@10, precision@10, recall@10"},
       {"evaluate.group=itme",
        "evaluate.group: to rank items, give evaluate.group, the feature that names the user: "
        "wanted a categorical one of a single value"},
       {"loss={kind: bpr, distortion: 0.5}", "loss.distortion: only with distribution: popularity"},
       {"evaluate.metrics=hit_rate@x",
        "evaluate.metrics.0: wanted hit_rate@K with a K >= 1, found 'hit_rate@x'"},
       {"evaluate.metrics=[hit_rate@3, hit_rate@3]",
        "evaluate.metrics.1: 'hit_rate@3' is there twice"},
       {"evaluate.part=validation", "evaluate.part: split keeps no rows for validation"},
       {"split.test=0.1", "split.test: give one of test, holdout_per and test_path"},
       {"split.test_path=t.csv", "split.test_path: give one of test, holdout_per and test_path"},
       {"split.validation=1",
        "split.validation: validation and test are 1 of the rows and leave "
        "none for training"},
       {"train.early_stopping={metric: auc}",
        "train.early_stopping.metric: unknown metric of evaluate 'auc'; there is: hit_rate@10"},
       {"train.reduce_on_plateau={metric: auc}",
        "train.reduce_on_plateau.metric: unknown metric of evaluate 'auc'; there is: "
        "hit_rate@10"}});
  CHECK(absl::EndsWith(ErrorOf(kTower, {"model.user.features=item", "train.batch_size=3"}),
                       "model.user.features.0: 'item' is what is to be predicted"));
}

TEST_CASE("the item of a two_tower is a single value and not what the user brings") {
  CHECK(ErrorOf(kTower, {"model.item.feature=history"}) ==
        "--set model.item.feature=history: model.item.feature: wanted a categorical feature with a "
        "single value; 'history' is not\n"
        "job.yaml:13:21: model.user.features.0: 'history' is what is to be predicted");
}

TEST_CASE("each way to train together wants its own keys, and synchronous steps a few others") {
  CheckAll(
      kTable,
      {{"train.consistency={mode: bounded}",
        "train.consistency: mode `bounded` wants `max_staleness`"},
       {"train.consistency={mode: sync}", "train.consistency: mode `sync` wants `replicas`"},
       {"train.consistency={mode: async, replicas: 2}",
        "train.consistency.replicas: only with mode `sync`"},
       {"train.consistency={mode: sync, replicas: 2, max_staleness: 1}",
        "train.consistency.max_staleness: only with mode `bounded`"},
       {"train.consistency={mode: bounded, max_staleness: 1, reduce: sum}",
        "train.consistency.reduce: only with modes `sync` and `hybrid`, or with `accumulate`"},
       {"train.consistency={accumulate: 2, reduce: none}",
        "train.consistency.reduce: with `accumulate` an update is of all its microbatches; wanted "
        "mean or sum"},
       {"train.consistency={accumulate: 2, delay_compensation: 0.04}",
        "train.consistency.delay_compensation: only where an update is of one batch and applied "
        "as it comes, with `async` and `bounded`"},
       {"train.consistency={mode: hybrid}", "train.consistency: mode `hybrid` wants `group_size`"},
       {"train.consistency={mode: sync, replicas: 2, group_size: 2}",
        "train.consistency.group_size: only with mode `hybrid`"},
       {"train.consistency={mode: hybrid, group_size: 2, backup: 1}",
        "train.consistency.backup: only with mode `sync`"},
       {"train.consistency={mode: sync, replicas: 2000, accumulate: 3}",
        "train.consistency: an update has at most 4096 batches, found 6000"},
       {"train={consistency: {accumulate: 2}, on_error: ignore}",
        "train.on_error: an update of several batches can be neither applied nor left out without "
        "one of them; wanted fail_fast"},
       {"train.consistency={mode: sync, replicas: 2, staleness_rate: root}",
        "train.consistency.staleness_rate: with mode `sync` no gradient is late; wanted none"},
       {"train={consistency: {mode: sync, replicas: 2}, steps_per_function: 4}",
        "train.steps_per_function: an update of several batches is of one batch for each function; "
        "wanted 1"},
       {"train={consistency: {mode: sync, replicas: 2}, on_error: ignore}",
        "train.on_error: an update of several batches can be neither applied nor left out without "
        "one of them; wanted fail_fast"}});
  CHECK(ErrorOf(kTable, {"train.consistency={mode: sync, replicas: 2}",
                         "checkpoint={directory: d, on_ps_loss: replay}"}) ==
        "--set checkpoint={directory: d, on_ps_loss: replay}: checkpoint.on_ps_loss: updates "
        "of several batches want all shards to go back together; wanted rollback");
}

TEST_CASE("a deterministic job is refused where its result would depend on time or machines") {
  CheckAll(kTable,
           {{"train={deterministic: true, consistency: {mode: hybrid, group_size: 2}}",
             "train.consistency: with train.deterministic the order of updates must not depend on "
             "who is faster; wanted the mode async, bounded or sync, and `accumulate` only with "
             "sync"},
            {"train={deterministic: true, consistency: {accumulate: 2}}",
             "train.consistency: with train.deterministic the order of updates must not depend on "
             "who is faster; wanted the mode async, bounded or sync, and `accumulate` only with "
             "sync"},
            {"train={deterministic: true, consistency: {mode: bounded, max_staleness: 4096}}",
             "train.consistency.max_staleness: with train.deterministic this many batches and one "
             "more are held until all are there; wanted at most 4095"},
            {"train={deterministic: true, on_error: ignore}",
             "train.on_error: an update of several batches can be neither applied nor left out "
             "without one of them; wanted fail_fast; train.deterministic applies batches in steps, "
             "whatever the mode"},
            {"train={deterministic: true, consistency: {mode: sync, replicas: 2, backup: 1}}",
             "train.consistency.backup: with train.deterministic no batch is left for later "
             "for being slow; wanted 0"},
            {"train={deterministic: true, device: gpu, "
             "consistency: {mode: sync, replicas: 2}}",
             "train.device: with train.deterministic sums have a fixed order, which they "
             "have on CPUs; wanted cpu or auto"},
            {"train={deterministic: true, visitation: per_worker, "
             "consistency: {mode: sync, replicas: 2}}",
             "train.visitation: with train.deterministic examples do not depend on the "
             "worker; wanted exactly_once"}});
  const JobSpec job = testing::MustParse(
      kTable, {"train={deterministic: true, consistency: {mode: sync, replicas: 2}}"});
  CHECK(job.train.deterministic);
  CHECK(job.train.device == DeviceChoice::kCpu);
}

TEST_CASE("a window is for asynchronous training that is deterministic") {
  CheckAll(
      kTable,
      {{"train.consistency.window=4", "train.consistency.window: only with train.deterministic"},
       {"train={deterministic: true, consistency: {mode: sync, replicas: 2, window: 4}}",
        "train.consistency.window: only with mode `async`"},
       {"train={deterministic: true, consistency: {window: 4, reduce: sum}}",
        "train.consistency.reduce: with train.deterministic the updates of a window are applied "
        "one by one; wanted no `reduce`, or the mode `sync`"},
       {"train={deterministic: true, consistency: {window: 4, delay_compensation: 1}}",
        "train.consistency.delay_compensation: only where an update is of one batch and "
        "applied as it comes, with `async` and `bounded`; train.deterministic applies batches in "
        "steps, whatever the mode"}});
  const auto parse = [](const std::string& train) {
    return testing::MustParse(kTable, {"train=" + train}).train.consistency;
  };
  const Consistency given = parse("{deterministic: true, consistency: {window: 4}}");
  CHECK(given.mode == ConsistencyMode::kSync);
  CHECK(given.reduce == GradientReduction::kNone);
  CHECK(given.batches() == 4);
  CHECK(given.batches_per_update() == 1);
  CHECK(parse("{deterministic: true}").batches() == 8);
  CHECK(parse("{deterministic: true, consistency: {staleness_rate: root}}").staleness_rate ==
        StalenessRate::kRoot);
  // So late a gradient may be, and no later.
  CHECK(parse("{deterministic: true, consistency: {mode: bounded, max_staleness: 5}}").batches() ==
        6);
  CHECK_FALSE(parse("{consistency: {mode: bounded, max_staleness: 5}}").in_steps());
  CHECK_FALSE(parse("{}").in_steps());
}

TEST_CASE("metrics by group want a group, and early stopping a metric that compares models") {
  const std::string text = std::string(kTable) + "split: {validation: 0.1}\n";
  const auto error = [&](const std::string& evaluate, const std::string& train) {
    return ErrorOf(text, {"label.positive=>3", "evaluate=" + evaluate, "train=" + train});
  };
  CHECK(error("{metrics: [auc_by_group], group: user}", "{epochs: 1}").empty());
  CHECK(error("{slices: [user, film]}", "{epochs: 1}").empty());
  CHECK(absl::EndsWith(error("{slices: [user, user]}", "{epochs: 1}"),
                       "evaluate.slices.1: 'user' is there twice"));
  CHECK(absl::EndsWith(error("{slices: age}", "{epochs: 1}"),
                       "evaluate.slices.0: wanted a categorical feature with a single value; 'age' "
                       "is not"));
  CHECK(absl::EndsWith(error("{metrics: [ndcg@10]}", "{epochs: 1}"),
                       "its metrics: auc, logloss, accuracy, pr_auc, f1, calibration, "
                       "calibration_error, auc_by_group, logloss_by_group"));
  CHECK(absl::EndsWith(error("{metrics: [auc_by_group]}", "{epochs: 1}"),
                       "evaluate.metrics.0: 'auc_by_group' wants evaluate.group, a feature: "
                       "examples with the same value of it belong together"));
  CHECK(absl::EndsWith(error("{group: age}", "{epochs: 1}"),
                       "evaluate.group: wanted a categorical feature with a single value; 'age' "
                       "is not"));
  CHECK(
      absl::EndsWith(error("{metrics: [calibration]}", "{early_stopping: {patience: 1}}"),
                     "train.early_stopping.metric: 'calibration' does not say which of two models "
                     "is better"));
  CHECK(absl::EndsWith(error("{exclude_known: training}", "{epochs: 1}"),
                       "evaluate.exclude_known: only where items are ranked"));
  CHECK(absl::EndsWith(error("{metrics: [auc]}", "{clip: {limit: 0}}"),
                       "train.clip.limit: wanted number > 0; found '0'"));
  CHECK(absl::EndsWith(error("{metrics: [auc]}", "{ema: {decay: 1}}"),
                       "train.ema.decay: wanted number > 0, < 1; found '1'"));
}

TEST_CASE("an evaluation leaves out the rules of training that go by metrics it does not compute") {
  const std::vector<std::string> rules = {
      "train.early_stopping={metric: mae, patience: 7}", "train.reduce_on_plateau={metric: mae}",
      "loss={kind: mse}", "split={test: 0.5}", "evaluate.metrics=[rmse]"};
  CHECK_THAT(ErrorOf(kTable, rules), Contains("train.early_stopping.metric: unknown metric") &&
                                         Contains("train.reduce_on_plateau.metric: unknown"));
  const auto evaluated = [&](const char* metrics) {
    std::vector<std::string> flags = rules;
    flags.push_back(metrics);
    auto job = ParseJob(kTable, "job.yaml", flags, JobUse::kEvaluation);
    INFO(job.status().message());
    REQUIRE(job.ok());
    return *std::move(job);
  };
  CHECK_FALSE(evaluated("evaluate.metrics=[rmse]").train.early_stopping);
  CHECK_FALSE(evaluated("evaluate.metrics=[rmse]").train.reduce_on_plateau);
  // What the best checkpoint is chosen by, where it can be.
  const JobSpec both = evaluated("evaluate.metrics=[rmse, mae]");
  REQUIRE(both.train.early_stopping);
  CHECK(both.train.early_stopping->metric == "mae");
  CHECK(both.train.reduce_on_plateau);
  // What is wrong for any metric stays wrong.
  CHECK_THAT(std::string(ParseJob(kTable, "job.yaml", {"train.early_stopping={patience: 0}"},
                                  JobUse::kEvaluation)
                             .status()
                             .message()),
             Contains("train.early_stopping.patience: wanted integer >= 1"));
}

TEST_CASE("keys of a model on columns that contradict each other are errors") {
  CheckAll(
      kTable,
      {{"train={steps: 3, epochs: 2}",
        "train.steps: give one of steps and epochs (on the command line, --set train.epochs= "
        "removes it)"},
       {"evaluate.every_epochs=2", "evaluate: split keeps no rows for validation or test"},
       {"train.early_stopping={patience: 1}",
        "train.early_stopping: there is no evaluation; split keeps no rows for one"},
       {"label.positive=3",
        "label.positive: wanted a comparison such as '>= 4', or 'present', found '3'"},
       {"label.feature=film", "label.feature: only for two_tower, and for models with classes"},

       {"dataset.header=true",
        "dataset.header: the names come from a header or from dataset.columns"},
       {"dataset.separator=\"\"",
        "dataset.separator: wanted one or more characters, none of them the end of a line"},
       {"features.film.combiner=sum",
        "features.film.combiner: only for several values (value_separator)"},
       {"features.film.weight_separator=\":\"",
        "features.film.weight_separator: only for several values (value_separator)"},
       {"features.film={name: film, kind: categorical, value_separator: \":\", weight_separator: "
        "\":\"}",
        "features.film.weight_separator: wanted another one than value_separator"},
       {"features.film={name: film, kind: categorical, value_separator: \"|\", weight_separator: "
        "\".\"}",
        "features.film.weight_separator: wanted one or more characters, none of them in a number "
        "or the end of a line"},
       {"features.film.vocabulary=[a, b, a]", "features.film.vocabulary: a value is there twice"},

       {"split.holdout_per=flim",
        "split.holdout_per: unknown column 'flim'; did you mean 'film'? "
        "there is: user, film, age, stars"},
       {"split.holdout_min=3", "split.holdout_min: only with holdout_per"},
       {"split.holdout_validation=true", "split.holdout_validation: only with holdout_per"},
       {"split={holdout_per: film, validation: 0.1, holdout_validation: true}",
        "split.holdout_validation: give one of validation and holdout_validation"},
       {"model.wide.features=[user, user]", "model.wide.features.1: 'user' is there twice"},
       {"loss.kind=softmax_cross_entropy",
        "loss.kind: softmax_cross_entropy is not for a wide_deep; it has: sigmoid_cross_entropy, "
        "hinge, focal, mse, mae, huber, lambdarank, listnet"},
       {"name=a b", "name: wanted ASCII letters, digits, '_' and '-'; found 'a b'"}});
}

TEST_CASE("flags that cannot be applied are told with the flag") {
  const std::string usage = "wanted key=value, where key is a path such as train.batch_size";
  CheckAll(
      kTable,
      {{"train", usage},
       {"=3", usage},
       {"train..x=3", usage},
       {"features.cinema.dim=3", "'features' has no element 'cinema'; it has: user, film, age"},
       {"features.7.dim=3", "'features' has no element '7'; it has: user, film, age"},
       {"model.kind.x=3", "'model.kind' is a value and has no keys below it"},
       {"checkpoint.keep=", "there is no 'checkpoint' to remove it from"},
       {"train.clip.limit=", "there is no 'train' to remove it from"},
       {"dataset.path=[a",
        "value:1:1: a key must be a word, found a list or keys; perhaps a bracket is not closed"}});
}

TEST_CASE("all errors are reported, not only the first") {
  const std::string error = ErrorOf(R"(dataset: {path: 3, separater: ";"}
features:
  - {name: a, kind: numerical}
  - {kind: numeric}
model: {kind: mlp, hiden: [3]}
train: {batch_size: 0, epochs: 1, steps: 1}
)",
                                    {"evaluate.show_top=x", "broken"});
  const std::vector<std::string> lines = absl::StrSplit(error, '\n');
  const auto has = [&](const std::string& start) {
    return std::any_of(lines.begin(), lines.end(),
                       [&](const std::string& line) { return absl::StartsWith(line, start); });
  };
  INFO(error);
  CHECK(lines.size() == 7);
  CHECK(has("--set broken: wanted key=value"));
  CHECK(has("--set evaluate.show_top=x: evaluate.show_top: wanted integer"));
  CHECK(has("job.yaml:1:20: unknown key 'separater' in dataset; did you mean 'separator'?"));
  CHECK(has("job.yaml:3:21: features.a.kind: wanted one of"));
  CHECK(has("job.yaml:4:5: features.1: 'name' is missing"));
  CHECK(has("job.yaml:5:20: unknown key 'hiden' in model; did you mean 'hidden'?"));
  CHECK(has("job.yaml:6:21: train.batch_size: wanted integer"));
}

TEST_CASE("text that is not YAML is told with its place") {
  CHECK(ErrorOf("a: [1, 2\n") == "job.yaml:2:1: not valid YAML: end of sequence flow not found");
  CHECK(ErrorOf("name: a\nname: b\n") ==
        "job.yaml:2:1: key 'name' is given twice, first at job.yaml:1:1");
  CHECK(absl::StrContains(ErrorOf("name: a\n---\nname: b\n"), "a second document"));
  CHECK(absl::StrContains(ErrorOf("{[a]: b}\n"), "a key must be a word"));
  CHECK(absl::StrContains(ErrorOf("a: &x [*x]\n"), "job.yaml:1:"));
  CHECK(absl::StrContains(ErrorOf(std::string(5000, '[')), "job.yaml:1:"));
  // Nine levels of nine aliases each would be 400 million nodes.
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string ref = "*a" + std::to_string(i - 1);
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 9; ++j) laughs += (j > 0 ? ", " : "") + ref;
    laughs += "]\n";
  }
  CHECK(absl::StrContains(ErrorOf(laughs), "the document is too large"));
}

TEST_CASE("no damaged file crashes the parser, and every message has a place") {
  std::mt19937 random(7);
  const std::string alphabet = "{}[]:,-&*#'\"|>!%@ \n\t\\~0a_.";
  int rejected = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = round % 2 == 0 ? kTower : kTable;
    for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
      const size_t at = random() % text.size();
      const char c = alphabet[random() % alphabet.size()];
      switch (random() % 4) {
        case 0:
          text[at] = c;
          break;
        case 1:
          text.insert(at, 1, c);
          break;
        case 2:
          text.erase(at, 1 + random() % 12);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
      }
      if (text.empty()) text = " ";
    }
    const absl::StatusOr<JobSpec> job = ParseJob(text, "job.yaml");
    if (job.ok()) continue;
    ++rejected;
    if (!absl::StartsWith(job.status().message(), "job.yaml:")) {
      INFO(text);
      FAIL(job.status().message());
    }
  }
  CHECK(rejected > 1500);
}

}  // namespace
}  // namespace coxswain::job
