#include <catch2/catch.hpp>
#include <vector>

#include "absl/strings/match.h"
#include "coxswain/tensor.h"

namespace coxswain {
namespace {

TEST_CASE("values that do not fill a shape are an error", "[tensor]") {
  const absl::StatusOr<Tensor> t = Tensor::FromVector<float>({1, 2, 3, 4, 5, 6}, Shape{2, 3});
  REQUIRE(t.ok());
  CHECK(t->shape() == Shape{2, 3});
  CHECK(t->data<float>()[5] == 6.0f);
  for (const Shape& shape : {Shape{2, 2}, Shape{}, Shape{0}, Shape{kUnknownDim, 3}}) {
    INFO(shape.ToString());
    const absl::Status status = Tensor::FromVector<float>({1, 2, 3, 4, 5, 6}, shape).status();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(), "found 6"));
  }
}

TEST_CASE("a tensor that is read as another dtype is an error", "[tensor]") {
  const Tensor t = Tensor::FromVector<float>({1, 2});
  const auto values = t.As<float>();
  REQUIRE(values.ok());
  CHECK(std::vector<float>(values->begin(), values->end()) == std::vector<float>{1, 2});
  const absl::Status wrong = t.As<int64_t>().status();
  CHECK(wrong.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(wrong.message(), "wanted a tensor of i64, found f32[2]"));
  CHECK(Tensor().As<float>().status().code() == absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace coxswain
