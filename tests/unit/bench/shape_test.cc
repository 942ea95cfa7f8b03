// The reference shapes are what the scripts of other systems run.
#include "tests/bench/step/shape.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "tests/bench/step/batches.h"

namespace coxswain {
namespace {

StepShape Find(const std::string& name) {
  const auto shape = FindStepShape(name);
  REQUIRE(shape.ok());
  return *shape;
}

double Flops(const StepShape& shape) {
  double sum = 0;
  for (const ProductShape& product : Products(shape)) sum += product.flops();
  return sum;
}

double Rows(const StepShape& shape) {
  const std::vector<double> rows = UniqueRows(shape, MakeBatches(shape));
  return std::accumulate(rows.begin(), rows.end(), 0.0);
}

TEST_CASE("a step's products are the layers' and their gradients', pairs of vectors included",
          "[bench]") {
  CHECK(Products(Find("null")).empty());
  CHECK(Products(Find("sparse32")).empty());
  // Each layer forward, its weights' gradient and its inputs', for the tables below learn.
  CHECK(Flops(Find("talk")) == 3 * 2.0 * 512 * (128 * 256 + 256 * 128 + 128 * 64 + 64));
  CHECK(Flops(Find("ctr")) == 3 * 2.0 * 1000 * (260 * 400 + 2 * 400 * 400 + 400));
  CHECK(Flops(Find("ctr_adam")) == Flops(Find("ctr")));
  // The numbers at the bottom do not learn; 351 pairs of 27 vectors.
  const double bottom = 2.0 * 512 * (2 * 13 * 512 + 3 * (512 * 256 + 256 * 64));
  const double top = 3 * 2.0 * 512 * (415 * 512 + 512 * 256 + 256);
  CHECK(Flops(Find("dlrm")) == bottom + top + 3 * 2.0 * 512 * 351 * 64);
  CHECK(TopInputs(Find("dlrm")) == 415);
}

TEST_CASE("layers have the weights and biases that are said", "[bench]") {
  CHECK(DenseValues(Find("sparse32")) == 0);
  CHECK(DenseValues(Find("talk")) == 128 * 256 + 256 + 256 * 128 + 128 + 128 * 64 + 64 + 64 + 1);
  CHECK(DenseValues(Find("dlrm")) == 13 * 512 + 512 + 512 * 256 + 256 + 256 * 64 + 64 + 415 * 512 +
                                         512 + 512 * 256 + 256 + 256 + 1);
}

TEST_CASE("batches have as many distinct rows as those of other systems", "[bench]") {
  CHECK(Rows(Find("null")) == 0);
  CHECK(Rows(Find("sparse32")) == Approx(30).margin(1));
  CHECK(Rows(Find("talk")) == Approx(2 * 357).epsilon(0.01));
  CHECK(Rows(Find("ctr")) == Approx(10544).epsilon(0.01));
  CHECK(Rows(Find("dlrm")) == Approx(26 * 328).epsilon(0.01));
}

}  // namespace
}  // namespace coxswain
