// The kinds of models that have hidden layers share their keys (kinds/shared_keys.h); what each
// makes of them is pinned here: the options with their defaults, and the variables with their
// sizes.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/testing/trained_model.h"

namespace coxswain::model {
namespace {

using testing::Must;
using testing::Trained;

constexpr char kRows[] = "shop,seen,age,click,stars\na,1,1,1,3\nb,2,-2,0,1.5\na,1,0,0,2\n";

std::string Job(const std::string& model, bool tasks) {
  const std::string labels = tasks ? "labels:\n  - {name: click, column: click}\n  - {name: stars, "
                                     "column: stars, loss: {kind: mse}}\n"
                                   : "label: {column: click}\n";
  return absl::StrCat("features:\n  - {name: shop, kind: categorical}\n",
                      "  - {name: age, kind: numeric}\n", labels, "model: ", model, "\n");
}

std::string OptionsOf(const std::string& model, bool tasks = false) {
  const std::string job = absl::StrCat("dataset: {path: a.csv}\n", Job(model, tasks));
  return Must(job::ParseJob(job, "job.yaml")).model->Options();
}

std::string VariablesOf(const std::string& model, bool tasks = false) {
  const Trained trained(kRows, Job(model, tasks), 3, /*steps=*/1);
  std::string text;
  for (const auto& [name, values] : trained.values) {
    absl::StrAppend(&text, text.empty() ? "" : " ", name, ":", values.size());
  }
  return text;
}

TEST_CASE("kinds with hidden layers show all their options, in the order of their keys") {
  const std::string style = "activation: relu, layer_norm: false, dropout: 0, batch_norm: none";
  CHECK(OptionsOf("{kind: mlp}") ==
        "features: [shop, age], hidden: [128, 64], " + style + ", classes: 1");
  CHECK(OptionsOf("{kind: wide_deep}") ==
        "wide: {features: [shop, age]}, deep: {features: [shop, age], hidden: [128, 64]}, " +
            style);
  CHECK(OptionsOf("{kind: dlrm}") ==
        "dim: 16, features: [shop, age], bottom: [512, 256], top: [512, 256], " + style);
  CHECK(OptionsOf("{kind: deepfm, dim: 3}") ==
        "dim: 3, features: [shop, age], hidden: [128, 64], " + style);
  CHECK(OptionsOf("{kind: dcn_v2}") ==
        "features: [shop, age], cross_layers: 3, rank: 0, structure: stacked, "
        "hidden: [128, 64], " +
            style);
  CHECK(OptionsOf("{kind: shared_bottom}", true) ==
        "features: [shop, age], hidden: [128, 64], tower: [32], " + style);
  CHECK(OptionsOf("{kind: mmoe}", true) ==
        "features: [shop, age], experts: 8, hidden: [128, 64], tower: [32], " + style);
}

TEST_CASE("keys of hidden layers that are given reach each kind") {
  const std::string given =
      "activation: tanh, layer_norm: false, dropout: 0.25, batch_norm: {momentum: 0.5}}";
  const std::string shown =
      "activation: tanh, layer_norm: false, dropout: 0.25, "
      "batch_norm: {momentum: 0.5, epsilon: 0.001}";
  for (const std::string kind : {"mlp", "wide_deep", "dlrm", "deepfm", "dcn_v2"}) {
    INFO(kind);
    CHECK(absl::StrContains(OptionsOf(absl::StrCat("{kind: ", kind, ", ", given)), shown));
  }
  for (const std::string kind : {"shared_bottom", "mmoe"}) {
    INFO(kind);
    CHECK(absl::StrContains(OptionsOf(absl::StrCat("{kind: ", kind, ", ", given), true), shown));
  }
}

TEST_CASE("a two_tower has no batch_norm") {
  const auto error = [](const std::string& model) {
    const std::string job = absl::StrCat("dataset: {path: a.csv}\n", Job(model, false));
    return std::string(job::ParseJob(job, "job.yaml").status().message());
  };
  CHECK_THAT(error("{kind: two_tower, user: {features: [age]}, item: {feature: shop}, "
                   "batch_norm: {}}"),
             Catch::Matchers::Contains("key 'batch_norm' in model is not for kind"));
}

// A layer of these sizes, as it is named, with the scale and shift of a normalised one.
std::string Layer(const std::string& name, int inputs, int outputs, bool norm = false) {
  std::string text = absl::StrCat(name, "/bias:", outputs, " ", name, "/kernel:", inputs * outputs);
  if (norm)
    absl::StrAppend(&text, " ", name, "/norm_scale:", outputs, " ", name, "/norm_shift:", outputs);
  return text;
}

// The tower of a task on 4 numbers.
std::string Tower(const std::string& task) {
  const std::string name = absl::StrCat("tower/", task);
  return absl::StrCat(Layer(name + "/layer_0", 4, 2, true), " ", Layer(name + "/layer_1", 2, 1));
}

// The features side by side are 17 wide: 16 for the shop, and the age.
TEST_CASE("the variables of hidden layers keep their names and sizes") {
  const std::string norm = "layer_norm: true}";
  const std::string deep =
      absl::StrCat(Layer("deep/layer_0", 17, 4, true), " ", Layer("deep/layer_1", 4, 1));
  CHECK(VariablesOf("{kind: mlp, hidden: [4], batch_norm: {}}") ==
        absl::StrCat(Layer("deep/layer_0", 17, 4, true),
                     " deep/layer_0/running_mean:4 deep/layer_0/running_variance:4 ",
                     Layer("deep/layer_1", 4, 1), " shop:48"));
  CHECK(VariablesOf("{kind: wide_deep, deep: {hidden: [4]}, " + norm) ==
        deep + " shop:48 shop_linear:3 wide/age:1 wide/bias:1");
  CHECK(VariablesOf("{kind: dlrm, dim: 3, bottom: [4], top: [5], " + norm) ==
        absl::StrCat(Layer("bottom/layer_0", 1, 4, true), " ", Layer("bottom/layer_1", 4, 3),
                     " shop:9 ", Layer("top/layer_0", 4, 5, true), " ",
                     Layer("top/layer_1", 5, 1)));
  CHECK(VariablesOf("{kind: deepfm, dim: 3, hidden: [4], " + norm) ==
        absl::StrCat(Layer("deep/layer_0", 6, 4, true), " ", Layer("deep/layer_1", 4, 1),
                     " numbers/vectors:3 shop:9 shop_linear:3 wide/age:1 wide/bias:1"));
  CHECK(VariablesOf("{kind: dcn_v2, cross_layers: 1, hidden: [4], " + norm) ==
        absl::StrCat("cross/layer_0/bias:17 cross/layer_0/kernel:289 ", deep, " shop:48"));
  CHECK(VariablesOf("{kind: shared_bottom, hidden: [4], tower: [2], " + norm, true) ==
        absl::StrCat(Layer("bottom/layer_0", 17, 4, true), " shop:48 ", Tower("click"), " ",
                     Tower("stars")));
  CHECK(VariablesOf("{kind: mmoe, experts: 2, hidden: [4], tower: [2], " + norm, true) ==
        absl::StrCat(Layer("expert_0/layer_0", 17, 4, true), " ",
                     Layer("expert_1/layer_0", 17, 4, true), " gate/click:34 gate/stars:34 ",
                     "shop:48 ", Tower("click"), " ", Tower("stars")));
}

}  // namespace
}  // namespace coxswain::model
