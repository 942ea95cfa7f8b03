// Wrong use of an op is an error that names the node, what was wanted and what was found.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "runtime/base/row_mix.h"
#include "tests/ops/op_case.h"

namespace coxswain::testing {
namespace {

using Catch::Contains;
using Ints = std::vector<int64_t>;

struct Wrong {
  OpCase op_case;
  std::vector<std::string> says;
};

void Check(const std::vector<Wrong>& wrongs) {
  for (const Wrong& wrong : wrongs) {
    const std::string error = ErrorOf(wrong.op_case, AllOps());
    INFO(wrong.op_case.op << " says: " << error);
    CHECK_THAT(error, Contains(absl::StrCat("node 'it' (", wrong.op_case.op, ")")));
    for (const std::string& part : wrong.says) CHECK_THAT(error, Contains(part));
  }
}

OpCase Use(std::string op, std::vector<Tensor> inputs, Attrs attrs = {}) {
  return {.op = std::move(op), .label = "", .inputs = std::move(inputs), .attrs = std::move(attrs)};
}

const Tensor kVector = F32({3}, {1, 2, 3});
const Tensor kMatrix = F32({2, 3}, {1, 2, 3, 4, 5, 6});
const Tensor kIds = I64({2}, {0, 1});

TEST_CASE("an unknown op and a wrong number of inputs are named") {
  Check({{Use("Frobnicate", {kVector}), {"there is no such op"}},
         {Use("Add", {kVector}), {"wanted 2 inputs, found 1"}},
         {Use("Concat", {}, {{"axis", 0}}), {"wanted 1 or more inputs, found 0"}}});
}

TEST_CASE("wrong dtypes are named when the graph is built") {
  Check({{Use("Add", {kVector, F64({3}, {1, 2, 3})}), {"same dtype", "f32[3]", "f64[3]"}},
         {Use("Add", {Bools({1}, {1}), Bools({1}, {1})}),
          {"wanted f32 or f64 or i32 or i64", "bool[1]"}},
         {Use("Div", {kIds, kIds}), {"wanted f32 or f64", "i64[2]"}},
         {Use("Exp", {kIds}), {"wanted f32 or f64", "i64[2]"}},
         {Use("Less", {kVector, kIds}), {"same dtype", "f32[3]", "i64[2]"}},
         {Use("LogicalNot", {kVector}), {"wanted bool", "f32[3]"}},
         {Use("Select", {kVector, kVector, kVector}), {"input 0: wanted bool", "f32[3]"}},
         {Use("ReduceMax", {kIds}), {"wanted f32 or f64", "i64[2]"}},
         {Use("Gather", {kMatrix, kVector}), {"input 1: wanted i32 or i64", "f32[3]"}},
         {Use("SegmentSumLike", {I64({2}, {1, 1}), kIds, kIds}), {"wanted f32 or f64", "i64[2]"}},
         {Use("Unique", {kVector}), {"wanted i32 or i64", "f32[3]"}},
         {Use("TopK", {kIds}, {{"k", 1}}), {"wanted f32 or f64", "i64[2]"}},
         {Use("OneHot", {kVector}, {{"depth", 3}}), {"wanted i32 or i64", "f32[3]"}}});
}

TEST_CASE("wrong shapes are named when the graph is built") {
  Check({{Use("Add", {kVector, F32({2}, {1, 2})}), {"[3]", "[2]", "do not broadcast"}},
         {Use("AddN", {kVector, kMatrix}), {"inputs 0 and 1", "[3]", "[2,3]"}},
         {Use("Select", {Bools({2}, {0, 1}), kVector, kVector}), {"[2]", "[3]"}},
         {Use("ReluGrad", {kVector, kMatrix}), {"inputs 0 and 1", "[3]", "[2,3]"}},
         {Use("SumToLike", {kVector, kMatrix}), {"f32[3]", "f32[2,3]"}},
         {Use("BroadcastLike", {kMatrix, kVector}), {"f32[2,3]", "f32[3]"}},
         {Use("Reshape", {kMatrix}, {{"shape", Shape{4, -1}}}), {"[2,3]", "[4,?]"}},
         {Use("ReshapeLike", {kMatrix, kVector}), {"[2,3]", "[3]"}},
         {Use("Squeeze", {kMatrix}, {{"axis", 0}}), {"wanted size 1 in dimension 0", "[2,3]"}},
         {Use("Concat", {kMatrix, kVector}, {{"axis", 0}}), {"parts 0 and 1", "[2,3]", "[3]"}},
         {Use("Split", {kMatrix}, {{"axis", 1}, {"sizes", Ints{1, 1}}}),
          {"wanted a sum of 3", "found 2"}},
         {Use("Slice", {kVector}, {{"begin", Ints{2}}, {"size", Ints{2}}}),
          {"dimension 0 of [3]", "from 2 of size 2"}},
         {Use("Slice", {kMatrix}, {{"begin", Ints{0}}, {"size", Ints{1}}}),
          {"wanted 2 entries", "found 1"}},
         {Use("Transpose", {kVector}, {{"perm", Ints{1, 0}}}), {"wanted rank 2", "[3]"}},
         {Use("ReduceGrad", {kVector, kMatrix}, {{"axes", Ints{1}}}), {"[2]", "[3]"}},
         {Use("Gather", {F32({}, {1}), kIds}), {"input 0: wanted rank 1 or more"}},
         {Use("SegmentSumLike", {kVector, kIds, kVector}), {"[2]", "[3]"}},
         {Use("Unique", {I64({1, 1}, {1})}), {"wanted rank 1", "i64[1,1]"}},
         {Use("TopK", {kVector}, {{"k", 4}}), {"wanted at most", "[3]", "found 4"}},
         {Use("TakeAlongLast", {kMatrix, kIds}), {"[2,3]", "[2]"}}});
}

TEST_CASE("wrong attributes are named") {
  Check({{Use("Const", {}), {"attribute 'value' is missing"}},
         {Use("Cast", {kVector}), {"attribute 'dtype' is missing"}},
         {Use("Cast", {kVector}, {{"dtype", 3}}), {"attribute 'dtype' has another type"}},
         {Use("Reshape", {kVector}, {{"shape", Shape{-1, -1}}}),
          {"at most one open dimension", "[?,?]"}},
         {Use("ExpandDims", {kVector}, {{"axis", 2}}), {"axis: wanted -2 to 1, found 2"}},
         {Use("ReduceSum", {kMatrix}, {{"axes", Ints{2}}}), {"axis: wanted -2 to 1, found 2"}},
         {Use("ReduceSum", {kMatrix}, {{"axes", Ints{1, -1}}}), {"axis 1 is named twice"}},
         {Use("ReduceSum", {kMatrix}, {{"keep_dims", 1}}),
          {"attribute 'keep_dims' has another type"}},
         {Use("Transpose", {kMatrix}, {{"perm", Ints{0, 0}}}), {"wanted a permutation", "[0,0]"}},
         {Use("TopK", {kVector}, {{"k", 0}}), {"attribute 'k': wanted 1 or more, found 0"}},
         {Use("OneHot", {kIds}, {{"depth", 0}}), {"attribute 'depth': wanted 1 or more, found 0"}},
         {Use("RandomUniform", {}, {{"shape", Shape{-1}}}), {"wanted known dimensions, found [?]"}},
         {Use("RandomUniform", {}, {{"shape", Shape{1}}, {"low", 2}, {"high", 1}}),
          {"wanted low < high", "2 and 1"}},
         {Use("RandomNormal", {}, {{"shape", Shape{1}}, {"stddev", -1.0}}), {"stddev >= 0", "-1"}},
         {Use("RandomInt", {}, {{"shape", Shape{1}}, {"low", 5}, {"high", 5}}),
          {"wanted low < high", "5 and 5"}}});
}

TEST_CASE("sizes that no machine holds are refused before anything is allocated") {
  const int64_t huge = int64_t{1} << 32;
  Check(
      {{Use("RandomInt", {}, {{"shape", Shape{huge, huge}}, {"high", 2}}),
        {"at most 2^40", "[4294967296,4294967296]"}},
       {Use("OneHot", {kIds}, {{"depth", huge * (huge / 4)}}), {"at most 2^40 elements"}},
       {Use("Reshape", {F32({0}, {})}, {{"shape", Shape{huge, huge}}}), {"at most 2^40 elements"}},
       {Use("Split", {kVector}, {{"axis", 0}, {"sizes", Ints{huge * (huge / 4), 3}}}),
        {"wanted 0 to 2^40"}}});
}

TEST_CASE("an index out of range is named with its place and the bound") {
  Check({{Use("Gather", {kMatrix, I64({3}, {0, 1, 2})}), {"index 2 at position 2", "rows 2"}},
         {Use("Gather", {kMatrix, I32({2}, {-1, 0})}), {"index -1 at position 0", "rows 2"}},
         {Use("Gather", {F32({0, 2}, {}), kIds}), {"index 0 at position 0", "rows 0"}},
         {Use("SegmentSumLike", {kMatrix, I64({2}, {0, 3}), kMatrix}),
          {"index 3 at position 1", "rows 2"}},
         {Use("OneHot", {I64({2}, {0, 9})}, {{"depth", 9}}), {"index 9 at position 1", "depth 9"}},
         {Use("TakeAlongLast", {kVector, I64({1}, {3})}),
          {"index 3 at position 0", "last dimension 3"}},
         {Use("ArgMax", {F32({2, 0}, {})}), {"wanted values along dimension 1", "[2,0]"}}});
}

TEST_CASE("a gradient that is NaN or infinite is named by variable, and by id of the whole table") {
  const float inf = std::numeric_limits<float>::infinity();
  const auto rows = [&](std::vector<float> values, const char* strategy, int64_t count,
                        int64_t all) {
    const auto n = static_cast<int64_t>(values.size());
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < n; ++i) ids.push_back(3 * i);
    return Use("CheckGradient", {F32({n, 1}, std::move(values)), I64({n}, ids)},
               {{"variable", "users"},
                {"strategy", strategy},
                {"index", count - 1},
                {"count", count},
                {"rows", all},
                {"row_begin", 100}});
  };
  std::vector<float> late(5000, 1.0f);
  late[4321] = -inf;
  const RowMix mix(40);
  Check({{Use("CheckGradient", {F32({3}, {1, NAN, 3})}, {{"variable", "w"}}),
          {"the gradient of variable 'w' is NaN"}},
         {Use("CheckGradient", {F64({2}, {1e300, -HUGE_VAL})}, {{"variable", "w"}}),
          {"is minus infinite"}},
         {rows({1, 2, inf}, "mod", 4, 1000), {"table 'users', id 27 is infinite"}},  // 6 * 4 + 3
         {rows({1, inf, inf}, "div", 4, 1000), {"id 103 is infinite"}},
         {rows({NAN, 1}, "hash", 4, 40), {absl::StrCat("id ", mix.Row(3), " is NaN")}},
         {rows({1, 1, NAN}, "hash", 4, -1), {"id 6 is NaN"}},
         {rows(late, "div", 1, 100000), {absl::StrCat("id ", 100 + 3 * 4321, " is minus inf")}}});
}

}  // namespace
}  // namespace coxswain::testing
