// Shapes that kernels cut into pieces: rows of many widths, sorts of several tiles and passes, runs
// of one key over many chunks, nothing at all.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/cuda/device_run.h"
#include "tests/ops/op_run.h"

namespace coxswain::testing {
namespace {

void CheckOnDevice(const OpCase& op_case, int32_t compute = COX_COMPUTE_F32) {
  const TestedDevice* on = OpenTestedDevice();
  if (on == nullptr) return;
  INFO(op_case.op << ": " << op_case.label);
  const auto wanted = RunOnCpu(op_case);
  REQUIRE(wanted.ok());
  const DeviceRun run = RunOnDevice(*on, op_case, TypesOf(*wanted), {.compute = compute});
  REQUIRE(run.message == "");
  CHECK(run.fault.kind == COX_FAULT_NONE);
  Problems problems;
  for (size_t i = 0; i < wanted->size(); ++i) {
    const double tolerance = IsFloating((*wanted)[i].dtype()) ? op_case.tolerance : 0.0;
    CompareValues(absl::StrCat("output ", i), run.outputs[i], (*wanted)[i], tolerance, &problems);
  }
  CHECK(absl::StrJoin(problems, "\n") == "");
  // Sums have one order: a second run gives the same bits.
  const DeviceRun again =
      RunOnDevice(*on, op_case, TypesOf(*wanted), {.backwards = true, .compute = compute});
  for (size_t i = 0; i < wanted->size(); ++i) CHECK(SameBytes(again.outputs[i], run.outputs[i]));
}

// `n` numbers in [0, rows). `skewed`: half of them are one and the same.
template <typename Id>
Tensor Places(int64_t n, int64_t rows, bool skewed, uint64_t seed) {
  std::vector<Id> ids;
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < n; ++i) {
    const auto id = static_cast<Id>(random() % static_cast<uint64_t>(rows));
    ids.push_back(skewed && i % 2 == 0 ? static_cast<Id>(rows / 3) : id);
  }
  return Tensor::FromVector(ids, Shape{n}).value();
}

TEST_CASE("rows of any width are summed, exponentiated and compared on the device") {
  for (const int64_t width : {1, 2, 31, 32, 33, 100, 1024, 1025, 5000}) {
    const std::string label = absl::StrCat("rows of ", width);
    const Tensor x = RandomF32({13, width}, 1, -4, 4), y = RandomF32({13, width}, 2, 0, 1);
    const Tensor labels = Places<int64_t>(13, width, false, 3);
    CheckOnDevice({.op = "RowDot", .label = label, .inputs = {x, y}, .tolerance = 1e-4});
    CheckOnDevice({.op = "Softmax", .label = label, .inputs = {x}});
    CheckOnDevice({.op = "LogSoftmaxGrad", .label = label, .inputs = {y, x}, .tolerance = 1e-3});
    CheckOnDevice(
        {.op = "SoftmaxCrossEntropy", .label = label, .inputs = {x, y}, .tolerance = 1e-4});
    CheckOnDevice({.op = "SparseSoftmaxCrossEntropy",
                   .label = label,
                   .inputs = {x, labels},
                   .tolerance = 1e-4});
    CheckOnDevice({.op = "NegativeSamplingLoss", .label = label, .inputs = {x}, .tolerance = 1e-4});
    CheckOnDevice({.op = "TopK", .label = label, .inputs = {x}, .attrs = {{"k", 1 + width / 100}}});
    CheckOnDevice({.op = "ArgMax", .label = label, .inputs = {x}});
  }
}

TEST_CASE("sums over rows, columns and all are cut into parts on the device") {
  using Axes = std::vector<int64_t>;
  const std::vector<Shape> shapes = {{20000},      {3, 9001}, {9001, 3}, {700, 65}, {5, 400, 7},
                                     {2, 3, 4, 5}, {0, 4},    {4, 0},    {1, 1}};
  for (const Shape& shape : shapes) {
    const Tensor x = RandomF32(shape, 4);
    std::vector<Axes> all = {{}, {0}, {-1}};
    if (shape.rank() == 4) all.insert(all.end(), {{0, 2}, {1, 3}, {0, 3}, {1, 2}});
    for (const Axes& axes : all) {
      for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax"}) {
        CheckOnDevice({.op = op,
                       .label = absl::StrCat(shape.ToString(), " over ", absl::StrJoin(axes, ",")),
                       .inputs = {x},
                       .attrs = {{"axes", axes}}});
      }
    }
  }
}

TEST_CASE("segments are summed whatever their number, their rows and their order") {
  struct Size {
    int64_t entries, rows, width;
  };
  const std::vector<Size> sizes = {
      {1, 1, 1},      {31, 5, 3},      {32, 5, 3},       {33, 1, 3},    {64, 1, 1}, {4096, 256, 2},
      {4097, 255, 2}, {20000, 257, 3}, {9000, 70000, 1}, {300, 3, 130}, {0, 4, 2}};
  for (const Size& size : sizes) {
    for (const bool skewed : {false, true}) {
      const std::string label = absl::StrCat(size.entries, " entries of ", size.rows, " rows");
      const Tensor ids = Places<int64_t>(size.entries, size.rows, skewed, 5);
      const Tensor inverse = Places<int32_t>(size.entries, size.rows, skewed, 6);
      const Tensor data = RandomF32({size.entries, size.width}, 7);
      const Tensor like = RandomF32({size.rows, size.width}, 8);
      CheckOnDevice(
          {.op = "SegmentSumLike", .label = label, .inputs = {data, ids, like}, .tolerance = 1e-4});
      CheckOnDevice({.op = "PairDotGrad",
                     .label = label,
                     .inputs = {RandomF32({size.entries}, 9), like, ids,
                                Places<int64_t>(size.entries, size.rows, false, 10), like},
                     .tolerance = 1e-3});
      // Bags of 0 to 3 entries.
      std::vector<int32_t> offsets = {0};
      while (offsets.back() < size.entries) {
        const auto next = offsets.back() + static_cast<int32_t>(offsets.size() % 4);
        offsets.push_back(std::min(next, static_cast<int32_t>(size.entries)));
      }
      const auto bags = static_cast<int64_t>(offsets.size());
      CheckOnDevice({.op = "EmbeddingBagGrad",
                     .label = label,
                     .inputs = {RandomF32({bags - 1, size.width}, 11), like, inverse,
                                I32({bags}, offsets), RandomF32({size.entries}, 12, 0.5f, 2)},
                     .attrs = {{"combiner", "mean"}},
                     .tolerance = 1e-4});
    }
  }
}

TEST_CASE("elements beyond a block, a tile and a plain stride are computed") {
  const Tensor x = RandomF32({70001}, 13), y = RandomF32({70001}, 14);
  CheckOnDevice({.op = "Mul", .label = "dense", .inputs = {x, y}});
  CheckOnDevice({.op = "Add",
                 .label = "a row and a column",
                 .inputs = {RandomF32({301, 1}, 15), RandomF32({1, 257}, 16)}});
  CheckOnDevice({.op = "Greater",
                 .label = "three dimensions",
                 .inputs = {RandomF32({3, 1, 50}, 17), RandomF32({40, 1}, 18)}});
  CheckOnDevice({.op = "Transpose",
                 .label = "of four",
                 .inputs = {RandomF32({5, 6, 7, 8}, 19)},
                 .attrs = {{"perm", std::vector<int64_t>{2, 0, 3, 1}}}});
  CheckOnDevice({.op = "Gather",
                 .label = "rows of 52 bytes",
                 .inputs = {RandomF32({1000, 13}, 20), Places<int32_t>(3001, 1000, false, 21)}});
  CheckOnDevice({.op = "Gather",
                 .label = "rows of 64 bytes",
                 .inputs = {RandomF32({1000, 16}, 22), Places<int64_t>(3001, 1000, false, 23)}});
}

TEST_CASE("many parts are joined and summed on the device") {
  std::vector<Tensor> parts, terms;
  for (int64_t i = 0; i < 70; ++i) {
    parts.push_back(RandomF32({9, i % 5}, 24 + static_cast<uint64_t>(i)));
    terms.push_back(RandomF32({333}, 200 + static_cast<uint64_t>(i)));
  }
  CheckOnDevice({.op = "Concat", .label = "70 parts", .inputs = parts, .attrs = {{"axis", 1}}});
  CheckOnDevice({.op = "AddN", .label = "70 terms", .inputs = terms});
  int64_t columns = 0;
  for (const Tensor& part : parts) columns += part.dim(1);
  parts.insert(parts.begin(), RandomF32({9, columns}, 300));
  CheckOnDevice({.op = "ConcatGrad", .label = "70 parts", .inputs = parts, .attrs = {{"axis", 1}}});
}

TEST_CASE("pairs of few and of many vectors are multiplied on the device") {
  for (const int64_t count : {1, 2, 27, 33, 67, 90}) {
    for (const int64_t width : {0, 1, 16, 33, 130}) {
      for (const bool with_first : {false, true}) {
        std::vector<Tensor> x;
        for (int64_t i = 0; i < count; ++i) {
          x.push_back(RandomF32({11, width}, 400 + static_cast<uint64_t>(i)));
        }
        const std::string label = absl::StrCat(count, " vectors of ", width);
        CheckOnDevice({.op = "PairwiseDots",
                       .label = label,
                       .inputs = x,
                       .attrs = {{"with_first", with_first}},
                       .tolerance = 1e-4});
        const int64_t columns = count * (count - 1) / 2 + (with_first ? width : 0);
        x.insert(x.begin(), RandomF32({11, columns}, 500));
        CheckOnDevice({.op = "PairwiseDotsGrad",
                       .label = label,
                       .inputs = x,
                       .attrs = {{"with_first", with_first}},
                       .tolerance = 1e-4});
      }
    }
  }
}

// Of segments of these lengths, one behind the other.
Tensor OffsetsOf(const std::vector<int32_t>& lengths) {
  std::vector<int32_t> offsets = {0};
  for (const int32_t length : lengths) offsets.push_back(offsets.back() + length);
  return I32({static_cast<int64_t>(offsets.size())}, offsets);
}

TEST_CASE("sequences of any lengths attend to what is not behind on the device") {
  struct Size {
    std::vector<int32_t> lengths;
    int64_t heads, width;  // of a head
  };
  const std::vector<Size> sizes = {{{1}, 1, 1},
                                   {{8, 8, 16}, 1, 32},
                                   {{7, 0, 1, 33, 32, 31, 9}, 3, 5},
                                   {{65, 64, 63}, 1, 70},
                                   {std::vector<int32_t>(50, 1), 2, 3},
                                   {{300, 0, 0, 5}, 2, 33}};
  for (const Size& size : sizes) {
    const Tensor offsets = OffsetsOf(size.lengths);
    const Shape shape = {offsets.data<int32_t>()[size.lengths.size()], size.heads * size.width};
    const std::string label =
        absl::StrCat(absl::StrJoin(size.lengths, " "), " rows, heads of ", size.width);
    const Tensor q = RandomF32(shape, 600, -2, 2), k = RandomF32(shape, 601, -2, 2),
                 v = RandomF32(shape, 602), g = RandomF32(shape, 603);
    CheckOnDevice({.op = "CausalAttention",
                   .label = label,
                   .inputs = {q, k, v, offsets},
                   .attrs = {{"heads", size.heads}}});
    CheckOnDevice({.op = "CausalAttentionGrad",
                   .label = label,
                   .inputs = {g, q, k, v, offsets},
                   .attrs = {{"heads", size.heads}},
                   .tolerance = 1e-4});
  }
}

TEST_CASE("scores that grow and ones that are infinite are attended to on the device") {
  constexpr int64_t kRows = 100;
  const Tensor one = F32({kRows, 1}, std::vector<float>(kRows, 1)), v = RandomF32({kRows, 1}, 604);
  const Tensor offsets = I32({2}, {0, kRows});
  std::vector<float> rising, hidden(kRows, 1), lost(kRows, 1);
  for (int i = 0; i < kRows; ++i) rising.push_back(static_cast<float>(3 * i - 150));
  // None of the first rows counts once there are others: e^-infinity is 0.
  std::fill(hidden.begin(), hidden.begin() + 40, -std::numeric_limits<float>::infinity());
  lost[50] = std::nanf("");
  lost[70] = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& keys : {rising, hidden, lost}) {
    const Tensor k = F32({kRows, 1}, keys);
    const std::string label = absl::StrCat("scores from ", keys[0], " to ", keys.back());
    CheckOnDevice({.op = "CausalAttention", .label = label, .inputs = {one, k, v, offsets}});
    CheckOnDevice({.op = "CausalAttentionGrad",
                   .label = label,
                   .inputs = {one, one, k, v, offsets},
                   .tolerance = 1e-4});
  }
}

TEST_CASE("queries of any lengths are ranked on the device") {
  const std::vector<std::vector<int32_t>> all = {
      {1}, {1, 0, 2, 31, 32, 33, 300}, {1500}, {0, 1100, 1200}, std::vector<int32_t>(70, 3)};
  for (const std::vector<int32_t>& lengths : all) {
    const Tensor offsets = OffsetsOf(lengths);
    const auto queries = static_cast<int64_t>(lengths.size());
    const int64_t rows = offsets.data<int32_t>()[queries];
    // Scores of which many are equal, and labels of which most are.
    Tensor scores = RandomF32({rows}, 605, -20, 20), labels = RandomF32({rows}, 606, -8, 4);
    for (int64_t i = 0; i < rows; ++i) {
      scores.mutable_data<float>()[i] = std::floor(scores.data<float>()[i]) / 8;
      labels.mutable_data<float>()[i] = std::max(0.0f, std::ceil(labels.data<float>()[i]));
    }
    const Tensor g = RandomF32({queries}, 607);
    const std::string label = absl::StrCat("queries of ", absl::StrJoin(lengths, " "), " rows");
    CheckOnDevice(
        {.op = "ListNet", .label = label, .inputs = {scores, labels, offsets}, .tolerance = 1e-4});
    CheckOnDevice({.op = "ListNetGrad",
                   .label = label,
                   .inputs = {g, scores, labels, offsets},
                   .tolerance = 1e-4});
    for (const int64_t truncate : {0, 10}) {
      CheckOnDevice({.op = "LambdaRank",
                     .label = label,
                     .inputs = {scores, labels, offsets},
                     .attrs = {{"truncate", truncate}},
                     .tolerance = 1e-4});
      CheckOnDevice({.op = "LambdaRankGrad",
                     .label = label,
                     .inputs = {g, scores, labels, offsets},
                     .attrs = {{"truncate", truncate}},
                     .tolerance = 1e-4});
    }
  }
}

TEST_CASE("products have the shapes of their inputs, transposed or not") {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const auto& [m, k, n] : std::vector<std::array<int64_t, 3>>{
               {1, 1, 1}, {5, 13, 7}, {64, 479, 33}, {0, 3, 4}, {3, 0, 4}, {3, 4, 0}}) {
        const OpCase product = {
            .op = "MatMul",
            .label = absl::StrCat(m, " ", k, " ", n, ta ? " a'" : "", tb ? " b'" : ""),
            .inputs = {RandomF32(ta ? Shape{k, m} : Shape{m, k}, 26),
                       RandomF32(tb ? Shape{n, k} : Shape{k, n}, 27)},
            .attrs = {{"transpose_a", ta}, {"transpose_b", tb}},
            .tolerance = 1e-4};
        CheckOnDevice(product);
        OpCase rounded = product;
        rounded.attrs["compute"] = "bf16";
        rounded.label += " in bf16";
        CheckOnDevice(rounded);
      }
    }
  }
}

TEST_CASE("large products of odd sides are as good in TF32 as others") {
  constexpr int64_t kM = 1030, kK = 415, kN = 322;
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const OpCase product = {
          .op = "MatMul",
          .label = absl::StrCat("of odd sides", ta ? " a'" : "", tb ? " b'" : ""),
          .inputs = {RandomF32(ta ? Shape{kK, kM} : Shape{kM, kK}, 28, 0.1f, 1),
                     RandomF32(tb ? Shape{kN, kK} : Shape{kK, kN}, 29, 0.1f, 1)},
          .attrs = {{"transpose_a", ta}, {"transpose_b", tb}},
          .tolerance = 2e-3};
      CheckOnDevice(product, COX_COMPUTE_TF32);
    }
  }
  CheckOnDevice({.op = "FusedDense",
                 .label = "of odd sides",
                 .inputs = {RandomF32({kM, kK}, 30, -1, 1), RandomF32({kK, kN}, 31, 0.1f, 1),
                            RandomF32({kN}, 32, -5, 5)},
                 .attrs = {{"activation", "relu"}},
                 .tolerance = 2e-2},
                COX_COMPUTE_TF32);
}

TEST_CASE("the gradient of a layer's input is masked and summed in parts of any size") {
  for (const auto& [rows, columns] : std::vector<std::array<int64_t, 2>>{
           {0, 4}, {1, 1}, {3, 8}, {17, 5}, {16, 4}, {4099, 12}, {5000, 7}, {300, 520}}) {
    CheckOnDevice({.op = "DenseInputGrad",
                   .label = absl::StrCat(rows, " rows of ", columns),
                   .inputs = {RandomF32({rows, 3}, 33), RandomF32({columns, 3}, 34),
                              RandomF32({rows, columns}, 35)},
                   .tolerance = 1e-3});
  }
}

TEST_CASE("more elements than one launch has threads for are computed") {
  const TestedDevice* on = OpenTestedDevice();
  if (on == nullptr || on->emulated) return;  // launches of the emulated device have no limit
  const int64_t n =
      (int64_t{1} << 26) + 77;  // a launch: 2^16 blocks of 2^8 threads, 4 elements each
  CheckOnDevice({.op = "Neg", .label = "2^26 elements", .inputs = {RandomF32({n}, 28)}});
  CheckOnDevice({.op = "Concat",
                 .label = "2^26 elements",
                 .inputs = {RandomF32({n}, 29), RandomF32({5}, 30)},
                 .attrs = {{"axis", 0}}});
}

}  // namespace
}  // namespace coxswain::testing
