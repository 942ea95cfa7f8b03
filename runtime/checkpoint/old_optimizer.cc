#include "runtime/checkpoint/old_optimizer.h"

#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace coxswain::checkpoint {
namespace {

// What a parameter of an optimizer was when its field was 0. No other fields were looked at.
struct OldDefault {
  absl::string_view kind;
  const char* field;
  double value;
};
constexpr OldDefault kOldDefaults[] = {
    {"sgd", "l2", 0},
    {"momentum", "momentum", 0.9},
    {"momentum", "nesterov", 0},
    {"momentum", "l2", 0},
    {"adagrad", "initial_accumulator", 0.1},
    {"adagrad", "epsilon", 1e-7},
    {"adagrad", "l2", 0},
    {"rowwise_adagrad", "initial_accumulator", 0},
    {"rowwise_adagrad", "epsilon", 1e-7},
    {"rowwise_adagrad", "l2", 0},
    {"adam", "beta1", 0.9},
    {"adam", "beta2", 0.999},
    {"adam", "epsilon", 1e-7},
    {"adam", "l2", 0},
    {"lazy_adam", "beta1", 0.9},
    {"lazy_adam", "beta2", 0.999},
    {"lazy_adam", "epsilon", 1e-7},
    {"lazy_adam", "l2", 0},
    {"ftrl", "l1", 0},
    {"ftrl", "l2", 0},
    {"ftrl", "learning_rate_power", -0.5},
    {"ftrl", "initial_accumulator", 0.1},
};

constexpr const char* kOldFields[] = {"momentum", "nesterov", "beta1",
                                      "beta2",    "epsilon",  "initial_accumulator",
                                      "l1",       "l2",       "learning_rate_power"};

Json OldValue(const Json& optimizer, const OldDefault& old) {
  const auto value = optimizer.find(old.field);
  if (value == optimizer.end()) return old.value;
  if (value->is_boolean()) return value->get<bool>() ? 1.0 : 0.0;
  if (value->is_number() && value->get<double>() == 0) return old.value;
  return *value;
}

}  // namespace

void BringUpToDate(Json* optimizer) {
  if (!optimizer->is_object() || optimizer->contains("parameters")) return;
  const auto kind = optimizer->find("kind");
  if (kind == optimizer->end() || !kind->is_string()) return;
  const std::string name = kind->get<std::string>();
  Json parameters = Json::array();
  for (const OldDefault& old : kOldDefaults) {
    if (old.kind != name) continue;
    parameters.push_back({{"name", old.field}, {"value", OldValue(*optimizer, old)}});
  }
  for (const char* field : kOldFields) optimizer->erase(field);
  if (name.empty()) optimizer->erase("learning_rate");  // it was 0
  (*optimizer)["parameters"] = std::move(parameters);
}

}  // namespace coxswain::checkpoint
