// Training that goes on with other features, or with the same ones in another order: a layer's
// weights stay with what they are on.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "coordinator/api/slot_rows.h"
#include "coordinator/model/layer_fit.h"
#include "coordinator/model/warm_start.h"
#include "tests/testing/next_job.h"
#include "tests/testing/training_job.h"

namespace coxswain::model {
namespace {

using Catch::Matchers::Contains;
using testing::Must;
using Names = std::vector<std::string>;

constexpr int kRows = 240;

std::string Rows() {
  std::string rows = "user,film,place,age,pace,y,z\n";
  for (int i = 0; i < kRows; ++i) {
    absl::StrAppend(&rows, "u", i * 7 % 20, ",f", i % 11, ",p", i % 5, ",", i % 17 - 8, ",",
                    i % 3 - 1, ",", i % 3 == 0, ",", i % 4 == 0, "\n");
  }
  return rows;
}

std::string Feature(const std::string& name) {
  const bool number = name == "age" || name == "pace";
  const std::string column = name == "years" ? ", column: age" : "";
  return absl::StrCat("  - {name: ", name, column,
                      ", kind: ", number || !column.empty() ? "numeric" : "categorical", "}\n");
}

// All rows are one batch.
std::string Job(const std::string& model, const Names& features, const std::string& rate = "0.05") {
  std::string text = "name: warm\ndataset: {path: a.csv}\nfeatures:\n";
  for (const std::string& name : features) absl::StrAppend(&text, Feature(name));
  const bool tasks =
      model.find("shared_bottom") != std::string::npos || model.find("mmoe") != std::string::npos;
  absl::StrAppend(&text, tasks ? "labels:\n  - {name: y, column: y}\n  - {name: z, column: z}\n"
                               : "label: {column: y}\n");
  absl::StrAppend(
      &text, "model: ", model, "\noptimizer:\n  table: {kind: adagrad, learning_rate: ", rate,
      "}\n  dense: {kind: adam, learning_rate: ", rate, "}\ntrain: {batch_size: ", kRows, "}\n");
  return text;
}

std::vector<float> Values(NextJob* next, const std::string& name) {
  for (const auto& info : next->strategy.variables()) {
    if (info->name != name) continue;
    const Tensor value = Must(ReadSlot(next->strategy, *info, 0, 0, info->rows(), 0));
    return {value.values<float>().begin(), value.values<float>().end()};
  }
  FAIL("there is no variable " << name);
  return {};
}

TEST_CASE("warm start: a job with its features in another order goes on as in the old one") {
  const std::string model =
      GENERATE("{kind: mlp, hidden: [4]}", "{kind: mlp, hidden: []}", "{kind: logistic_regression}",
               "{kind: wide_deep, deep: {hidden: [4]}}", "{kind: deepfm, dim: 3, hidden: [4]}",
               "{kind: fm, dim: 3}", "{kind: ffm, dim: 2}",
               "{kind: autoint, dim: 3, head_dim: 2, hidden: [4]}",
               "{kind: dlrm, dim: 4, bottom: [3], top: [5]}", "{kind: dcn_v2, hidden: [4]}",
               "{kind: dcn_v2, hidden: [4], structure: parallel, rank: 2}",
               "{kind: shared_bottom, hidden: [4], tower: [3]}",
               "{kind: shared_bottom, hidden: [], tower: [3]}",
               "{kind: mmoe, experts: 2, hidden: [4], tower: [3]}");
  CAPTURE(model);
  const DataFiles files;
  files.Write("a.csv", Rows());
  const Names features = {"user", "age", "film", "pace", "place"},
              others = {"place", "pace", "user", "film", "age"};
  TrainingJob old(files, Job(model, features));
  old.SaveInputs();
  old.Steps(20);
  const std::string saved = old.Save(files.Path("model"), /*slots=*/true);
  NextJob same(files, Job(model, features), {.directory = saved});
  NextJob other(files, Job(model, others), {.directory = saved});
  NextJob from_checkpoint(files, Job(model, others), {.directory = old.directory()});
  NextJob fresh(files, Job(model, others), {.directory = saved, .names = {}, .slots = false});
  CHECK(other.taken.fresh.empty());
  CHECK(other.taken.with_slots == same.taken.with_slots);
  // Also the second step, which depends on the slots.
  for (int step = 0; step < 3; ++step) {
    const float loss = same.Step();
    CAPTURE(step);
    // Sums are taken in another order, and the loss may be next to nothing.
    const Approx same_loss = Approx(loss).epsilon(1e-5).margin(1e-6);
    CHECK(other.Step() == same_loss);
    CHECK(from_checkpoint.Step() == same_loss);
    const float without_slots = fresh.Step();
    if (step == 0) CHECK(without_slots == Approx(loss).epsilon(1e-5));
    if (step == 2) CHECK(without_slots != Approx(loss).epsilon(1e-5));
  }
}

TEST_CASE("warm start: what ffm's rows have for other features than the job's is not taken") {
  const DataFiles files;
  files.Write("a.csv", Rows());
  const std::string model = "{kind: ffm, dim: 2}";
  TrainingJob old(files, Job(model, {"user", "film", "pace"}));
  old.SaveInputs();
  old.Steps(5);
  const std::string saved = old.Save(files.Path("model"));
  NextJob other(files, Job(model, {"user", "place", "pace"}), {.directory = saved});
  const std::vector<std::string>& fresh = other.taken.fresh;
  CHECK(std::count(fresh.begin(), fresh.end(),
                   "user: its columns are of other features in the job than in the model") == 1);
  NextJob same(files, Job(model, {"pace", "film", "user"}), {.directory = saved});
  CHECK(same.taken.fresh.empty());
}

TEST_CASE("warm start: a feature that is new gets weights of its own, and the others keep theirs") {
  const DataFiles files;
  files.Write("a.csv", Rows());
  const std::string model = "{kind: mlp, hidden: [3]}";
  TrainingJob old(files, Job(model, {"age", "pace"}));
  old.Steps(10);
  const std::string saved = old.Save(files.Path("model"), /*slots=*/true);
  NextJob same(files, Job(model, {"age", "pace"}), {.directory = saved});
  const std::vector<float> kernel = Values(&same, "deep/layer_0/kernel");

  SECTION("beside them") {
    NextJob next(files, Job(model, {"place", "pace", "age"}), {.directory = saved});
    const std::vector<float> wider = Values(&next, "deep/layer_0/kernel");
    const auto place = static_cast<size_t>(wider.size() - kernel.size());
    CHECK(std::vector<float>(wider.begin() + static_cast<long>(place),
                             wider.begin() + static_cast<long>(place) + 3) ==
          std::vector<float>(kernel.begin() + 3, kernel.end()));
    CHECK(std::vector<float>(wider.end() - 3, wider.end()) ==
          std::vector<float>(kernel.begin(), kernel.begin() + 3));
    CHECK_THAT(next.taken.ToString(),
               Contains("deep/layer_0/kernel: all but what is on place, which is new"));
    CHECK(next.Step() > 0);
  }
  SECTION("in the place of one of the same width") {
    NextJob next(files, Job(model, {"age", "years"}), {.directory = saved});
    const std::vector<float> now = Values(&next, "deep/layer_0/kernel");
    REQUIRE(now.size() == kernel.size());
    CHECK(std::vector<float>(now.begin(), now.begin() + 3) ==
          std::vector<float>(kernel.begin(), kernel.begin() + 3));
    CHECK(std::vector<float>(now.begin() + 3, now.end()) !=
          std::vector<float>(kernel.begin() + 3, kernel.end()));
  }
  SECTION("under another name") {
    const NameMap names = Must(NameMap::Parse({"age=years"}));
    NextJob next(files, Job(model, {"pace", "years"}), {.directory = saved, .names = names});
    CHECK(next.taken.fresh.empty());
    CHECK(next.Step() == Approx(same.Step()).epsilon(1e-5));
  }
  SECTION("and nothing else is there") {
    NextJob next(files, Job(model, {"years", "film"}), {.directory = saved});
    CHECK_THAT(next.taken.ToString(), Contains("anew: deep/layer_0/kernel: it is [2,3] in the"));
  }
}

TEST_CASE("warm start: a number whose normalization differs is another one") {
  const std::string change = GENERATE("normalization: standard", "normalization: log1p",
                                      "normalization: divide, divisor: 10");
  const std::string model = GENERATE("{kind: logistic_regression}", "{kind: mlp, hidden: [3]}",
                                     "{kind: wide_deep, deep: {hidden: [3]}}");
  CAPTURE(change, model);
  const DataFiles files;
  files.Write("a.csv", Rows());
  const std::string text = Job(model, {"age", "pace"});
  const std::string other = absl::StrReplaceAll(
      text, {{"name: age, kind: numeric", absl::StrCat("name: age, kind: numeric, ", change)}});
  TrainingJob old(files, text);
  old.SaveInputs();
  old.Steps(10);
  const std::string saved = old.Save(files.Path("model"), /*slots=*/true);
  const std::string from = GENERATE(true, false) ? saved : old.directory();
  NextJob same(files, text, {.directory = from});
  CHECK_THAT(same.taken.ToString(), !Contains("anew"));
  NextJob next(files, other, {.directory = from});
  CHECK_THAT(next.taken.ToString(),
             Contains("anew: age: its normalization differs: none in the model, "));
  if (model.find("mlp") == std::string::npos) {
    CHECK(Values(&same, "wide/age") != std::vector<float>{0});
    CHECK(Values(&next, "wide/age") == std::vector<float>{0});
    CHECK(Values(&next, "wide/pace") == Values(&same, "wide/pace"));
  }
  if (model.find("hidden") != std::string::npos) {
    const std::vector<float> kernel = Values(&same, "deep/layer_0/kernel"),
                             now = Values(&next, "deep/layer_0/kernel");
    REQUIRE(now.size() == kernel.size());
    CHECK(std::vector<float>(now.begin(), now.begin() + 3) !=
          std::vector<float>(kernel.begin(), kernel.begin() + 3));
    CHECK(std::vector<float>(now.begin() + 3, now.end()) ==
          std::vector<float>(kernel.begin() + 3, kernel.end()));
  }
  // Nothing has changed since: it is the same number again.
  const DataFiles others;
  others.Write("a.csv", Rows());
  TrainingJob after(others, other);
  after.Steps(1);
  const NextJob again(others, other, {.directory = after.Save(others.Path("model"))});
  CHECK_THAT(again.taken.ToString(), !Contains("its normalization differs"));
}

TEST_CASE(
    "warm start: rows begin anew of a feature that is crossed of others, or hashed otherwise") {
  const DataFiles files;
  files.Write("a.csv", Rows());
  const auto text = [](const std::string& crossed, const std::string& id) {
    return absl::StrCat(
        "name: warm\ndataset: {path: a.csv}\nfeatures:\n", "  - {name: film, kind: categorical}\n",
        "  - {name: place, kind: categorical}\n",
        "  - {name: user, kind: categorical, column: age, id: ", id, "}\n",
        "  - {name: both, kind: crossed, features: ", crossed,
        ", hash_buckets: 50}\nlabel: {column: y}\nmodel: {kind: mlp, hidden: [3]}\n",
        "train: {batch_size: ", kRows, "}\n");
  };
  const std::string same = text("[film, place]", "raw");
  TrainingJob old(files, same);
  old.SaveInputs();
  old.Steps(2);
  const std::string saved = old.Save(files.Path("model"));
  const std::string from = GENERATE(true, false) ? saved : old.directory();
  CHECK_THAT(NextJob(files, same, {.directory = from}).taken.ToString(), !Contains("anew"));
  CHECK_THAT(
      NextJob(files, text("[place, film]", "raw"), {.directory = from}).taken.ToString(),
      Contains("anew: both: its values are made of film, place in the model, of place, film in "
               "the job"));
  CHECK_THAT(NextJob(files, text("[film, place]", "hash"), {.directory = from}).taken.ToString(),
             Contains("anew: user: its ids differ: raw in the model, hash in the job"));
}

TEST_CASE("warm start: how often labels are 1 is not learned twice, by biases of two names") {
  const DataFiles files;
  files.Write("a.csv", Rows());
  TrainingJob old(files, Job("{kind: mlp, hidden: [3]}", {"film"}));
  old.SaveInputs();
  old.Steps(2);
  NextJob next(files, Job("{kind: wide_deep, deep: {hidden: [3]}}", {"film"}),
               {.directory = old.Save(files.Path("model"))});
  CHECK(Values(&next, "deep/layer_1/bias")[0] == Approx(std::log(0.5)).margin(0.2));
  CHECK(Values(&next, "wide/bias") == std::vector<float>{0});
}

TEST_CASE("warm start: the third hour is not the third day, nor are they the same in a cross") {
  const DataFiles files;
  std::string rows = "t,film,y\n";
  for (int i = 0; i < kRows; ++i)
    absl::StrAppend(&rows, i * 7919, ",f", i % 5, ",", i % 3 == 0, "\n");
  files.Write("a.csv", rows);
  const auto text = [](const std::string& part) {
    return absl::StrCat("name: warm\ndataset: {path: a.csv}\nfeatures:\n",
                        "  - {name: when, kind: calendar, column: t, part: ", part, "}\n",
                        "  - {name: film, kind: categorical}\n",
                        "  - {name: both, kind: crossed, features: [when, film]}\n",
                        "label: {column: y}\nmodel: {kind: mlp, hidden: [3]}\n",
                        "train: {batch_size: ", kRows, "}\n");
  };
  TrainingJob old(files, text("hour"));
  old.SaveInputs();
  old.Steps(2);
  const std::string saved = old.Save(files.Path("model"));
  CHECK_THAT(NextJob(files, text("hour"), {.directory = saved}).taken.ToString(),
             !Contains("anew"));
  const std::string taken = NextJob(files, text("day"), {.directory = saved}).taken.ToString();
  CHECK_THAT(taken, Contains("anew: when: its values differ: hour in the model, day in the job"));
  CHECK_THAT(taken,
             Contains("anew: both: of when: its values differ: hour in the model, day in the "
                      "job"));
}

TEST_CASE("warm start: a number under another name keeps its weights in every part") {
  const std::string model = GENERATE("{kind: logistic_regression}", "{kind: linear_regression}",
                                     "{kind: wide_deep, deep: {hidden: [4]}}");
  CAPTURE(model);
  const DataFiles files;
  files.Write("a.csv", Rows());
  TrainingJob old(files, Job(model, {"age", "film"}));
  old.Steps(10);
  const std::string saved = old.Save(files.Path("model"));
  NextJob same(files, Job(model, {"age", "film"}), {.directory = saved});
  const NameMap names = Must(NameMap::Parse({"age=years"}));
  NextJob next(files, Job(model, {"film", "years"}), {.directory = saved, .names = names});
  CHECK(next.taken.fresh.empty());
  CHECK(next.Step() == Approx(same.Step()).epsilon(1e-5));
}

TEST_CASE("warm start: a layer that was on features is not one on other layers") {
  const DataFiles files;
  files.Write("a.csv", Rows());
  const auto job = [](const std::string& hidden) {
    return Job("{kind: shared_bottom, hidden: " + hidden + ", tower: [3]}", {"user", "film"});
  };
  TrainingJob old(files, job("[]"));
  old.Steps(1);
  const std::string saved = old.Save(files.Path("model"));
  NextJob next(files, job("[32]"), {.directory = saved});  // as wide as two embeddings
  CHECK_THAT(next.taken.ToString(),
             Contains("anew: tower/y/layer_0/kernel: its inputs in the job are others"));
}

std::string Classes(const std::string& model, const std::string& values) {
  return absl::StrCat(R"(name: warm
dataset: {path: a.csv}
features:
  - {name: user, kind: categorical}
  - {name: age, kind: numeric}
  - {name: place, kind: categorical, vocabulary: )",
                      values, R"(}
label: {feature: place}
model: )",
                      model, R"(
optimizer:
  table: {kind: adagrad, learning_rate: 0.05}
  dense: {kind: adagrad, learning_rate: 0.05}
train: {batch_size: 240}
)");
}

TEST_CASE("warm start: what is of classes begins anew where these are others") {
  const std::string model =
      GENERATE("{kind: mlp, hidden: [4], classes: 5, features: [user, age]}",
               "{kind: mlp, hidden: [], classes: 5, features: [user, age]}",
               "{kind: logistic_regression, classes: 5, features: [user, age]}");
  CAPTURE(model);
  const DataFiles files;
  files.Write("a.csv", Rows());
  const std::string text = Classes(model, "[p0, p1, p2, p3, p4]");
  TrainingJob old(files, text);
  old.Steps(10);
  const std::string saved = old.Save(files.Path("model"), /*slots=*/true);
  NextJob same(files, text, {.directory = saved});
  CHECK(same.taken.fresh.empty());
  NextJob other(files, Classes(model, "[p1, p0, p2, p3, p4]"), {.directory = saved});
  const bool linear = model.find("logistic") != std::string::npos;
  // The last layer and its bias; the bias, the number's weights and the users' ones.
  CHECK(other.taken.fresh.size() == (linear ? 3 : 2));
  for (const std::string& fresh : other.taken.fresh) {
    CHECK_THAT(fresh, Contains("its classes are others than in the model, or in another order"));
  }
  NextJob unknown(files, text, {.directory = old.directory()});  // of checkpoints, without inputs
  CHECK_THAT(unknown.taken.ToString(), Contains("nothing tells its classes"));
}

TEST_CASE("warm start: of a checkpoint without its inputs, layers on features begin anew") {
  const DataFiles files;
  files.Write("a.csv", Rows());
  const std::string text = Job("{kind: mlp, hidden: [3]}", {"age", "pace"});
  TrainingJob old(files, text);
  old.Steps(2);
  NextJob next(files, text, {.directory = old.directory()});
  REQUIRE(next.taken.fresh.size() == 1);
  CHECK_THAT(next.taken.fresh[0],
             Contains("deep/layer_0/kernel: nothing tells which features its rows are of"));
  CHECK(next.taken.taken.size() == 3);
}

TEST_CASE("layers fit by what their rows and columns stand for") {
  using job::VariableInputs;
  const NameMap names = Must(NameMap::Parse({"old=new"}));
  const VariableInputs saved = {{{{"a"}, "", 2}, {{"old", "a"}, "product", 1}}, {{{"a"}, "", 1}}};
  const auto fit = [&](const VariableInputs& wanted, const Shape& shape) {
    return FitLayer(wanted, shape, saved, Shape{3, 1}, names);
  };
  // A product is the same in any order; the model's `old` is the job's `new`.
  const LayerFit moved =
      fit({{{{"a", "new"}, "product", 1}, {{"a"}, "", 2}}, {{{"a"}, "", 1}}}, Shape{3, 1});
  REQUIRE(moved.fits);
  REQUIRE(moved.map.has_value());
  CHECK(moved.map->rows == std::vector<int64_t>{2, 0, 1});
  CHECK(moved.map->columns.empty());
  CHECK(moved.missing.empty());
  // One of another width, and one that is made otherwise, are others.
  const LayerFit part = fit({{{{"a"}, "", 2}, {{"a"}, "crossed", 2}, {{"a", "b"}, "product", 1}},
                             {{{"b"}, "", 1}, {{"a"}, "", 1}}},
                            Shape{5, 2});
  REQUIRE(part.fits);
  CHECK(part.map->rows == std::vector<int64_t>{0, 1, -1, -1, -1});
  CHECK(part.map->columns == std::vector<int64_t>{-1, 0});
  CHECK(part.missing == Names{"a (crossed)", "a x b", "b"});
  CHECK_FALSE(fit({{{{"a"}, "", 3}}, {{{"a"}, "", 1}}}, Shape{3, 1}).fits);
  // What is said of the shape has to be true of it.
  CHECK_FALSE(fit({{{{"a"}, "", 2}}, {{{"a"}, "", 1}}}, Shape{3, 1}).fits);
}

}  // namespace
}  // namespace coxswain::model
