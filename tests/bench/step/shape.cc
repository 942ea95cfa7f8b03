#include "tests/bench/step/shape.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace coxswain {
namespace {

std::vector<TableShape> SameTables(int count, int64_t rows, int64_t dim) {
  std::vector<TableShape> tables;
  for (int i = 0; i < count; ++i) tables.push_back({absl::StrCat("table_", i), rows, dim, 1});
  return tables;
}

std::vector<StepShape> MakeShapes() {
  std::vector<StepShape> shapes;
  shapes.push_back({.name = "null", .summary = "an empty function"});
  shapes.push_back({.name = "sparse32",
                    .summary = "32 rows of 4,194,304 x 64, SGD",
                    .batch = 32,
                    .tables = {{"rows", 4'194'304, 64, 1}},
                    .optimizer = "sgd",
                    .learning_rate = 0.01});
  shapes.push_back({.name = "talk",
                    .summary = "512 x (user, item) of 1,000,000 x 64, MLP 128-256-128-64-1",
                    .batch = 512,
                    .tables = {{"user", 1'000'000, 64, 1}, {"item", 1'000'000, 64, 1}},
                    .top = {256, 128, 64, 1}});
  shapes.push_back({.name = "ctr",
                    .summary = "1,000 x 26 ids of 1,000,001 x 10, MLP 260-400-400-400-1",
                    .batch = 1000,
                    .tables = {{"features", 1'000'001, 10, 26}},
                    .top = {400, 400, 400, 1}});
  shapes.push_back(
      {.name = "dlrm",
       .summary = "512 x 26 tables of 100,000 x 64, 13-512-256-64, dots, 415-512-256-1",
       .batch = 512,
       .tables = SameTables(26, 100'000, 64),
       .dense_inputs = 13,
       .bottom = {512, 256, 64},
       .dot_products = true,
       .top = {512, 256, 1}});
  return shapes;
}

}  // namespace

const std::vector<StepShape>& StepShapes() {
  static const auto* const shapes = new std::vector<StepShape>(MakeShapes());
  return *shapes;
}

absl::StatusOr<StepShape> FindStepShape(const std::string& name) {
  std::vector<std::string> names;
  for (const StepShape& shape : StepShapes()) {
    if (shape.name == name) return shape;
    names.push_back(shape.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no shape '", name, "'; there are ", absl::StrJoin(names, ", ")));
}

}  // namespace coxswain
