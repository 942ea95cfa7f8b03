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
  StepShape adam = shapes.back();
  adam.name = "ctr_adam";
  adam.summary = "ctr with lazy Adam";
  adam.optimizer = "lazy_adam";
  adam.learning_rate = 0.001;
  shapes.push_back(std::move(adam));
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

// The layers' products: forward, the weights' gradients, and the inputs' where something below the
// layers learns.
void AddLayers(int64_t batch, int64_t inputs, const std::vector<int64_t>& widths, bool below,
               std::vector<ProductShape>* products) {
  for (size_t i = 0; i < widths.size(); ++i) {
    products->push_back({batch, widths[i], inputs});
    products->push_back({inputs, widths[i], batch});
    if (i > 0 || below) products->push_back({batch, inputs, widths[i]});
    inputs = widths[i];
  }
}

int64_t LayerValues(int64_t inputs, const std::vector<int64_t>& widths) {
  int64_t values = 0;
  for (const int64_t width : widths) {
    values += inputs * width + width;
    inputs = width;
  }
  return values;
}

int64_t Pairs(const StepShape& shape) {
  const int64_t vectors =
      static_cast<int64_t>(shape.tables.size()) + (shape.bottom.empty() ? 0 : 1);
  return shape.dot_products ? vectors * (vectors - 1) / 2 : 0;
}

}  // namespace

int64_t TopInputs(const StepShape& shape) {
  int64_t width = shape.bottom.empty() ? 0 : shape.bottom.back();
  if (shape.dot_products) return width + Pairs(shape);
  for (const TableShape& table : shape.tables) width += table.dim * table.slots;
  return width;
}

std::vector<ProductShape> Products(const StepShape& shape) {
  std::vector<ProductShape> products;
  AddLayers(shape.batch, shape.dense_inputs, shape.bottom, /*below=*/false, &products);
  AddLayers(shape.batch, TopInputs(shape), shape.top, /*below=*/true, &products);
  if (const int64_t pairs = Pairs(shape); pairs > 0) {
    products.push_back({1, 1, shape.tables[0].dim, 3 * pairs * shape.batch});
  }
  return products;
}

int64_t DenseValues(const StepShape& shape) {
  return LayerValues(shape.dense_inputs, shape.bottom) +
         (shape.top.empty() ? 0 : LayerValues(TopInputs(shape), shape.top));
}

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
