#include "ps_server/shard.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "ps_server/shard_snapshot.h"
#include "tests/testing/ps_specs.h"
#include "tests/testing/shards.h"

namespace coxswain::ps {
namespace {

using Catch::Contains;
using Kind = graph::Update::Kind;
using testing::Apply;
using testing::Ids;
using testing::Make;
using testing::OptimizerOf;
using testing::RandomTensor;
using testing::SplitOf;
using testing::UpdateOf;
using testing::ValuesOf;
using testing::VariableOf;
using testing::WholeOf;

std::string ErrorOf(const absl::Status& status) {
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

proto::VariableSpec RandomTable(const std::string& optimizer, int64_t rows, int64_t dim) {
  proto::VariableSpec spec = VariableOf("users", {rows, dim}, true, OptimizerOf(optimizer));
  spec.mutable_initializer()->set_kind("normal");
  spec.mutable_initializer()->set_seed(5);
  return spec;
}

// Weights and slots of all shards, by global row.
std::vector<std::vector<float>> Assemble(const std::vector<std::unique_ptr<Shard>>& shards,
                                         int64_t rows) {
  std::vector<std::vector<float>> all(static_cast<size_t>(rows));
  for (const auto& shard : shards) {
    for (int p = 0; p <= shard->optimizer().slots(); ++p) {
      const Tensor values = shard->ReadRows(0, shard->layout().rows(), p).value();
      const size_t width = static_cast<size_t>(shard->layout().row_elements());
      for (int64_t r = 0; r < shard->layout().rows(); ++r) {
        const float* row = values.data<float>() + static_cast<size_t>(r) * width;
        auto& global = all[static_cast<size_t>(shard->layout().ToGlobal(r))];
        global.insert(global.end(), row, row + width);
      }
    }
  }
  return all;
}

// Sends each shard the part of a sparse update that it holds.
void ApplySplit(const std::vector<std::unique_ptr<Shard>>& shards, const std::vector<int64_t>& ids,
                const Tensor& gradient) {
  const size_t width = static_cast<size_t>(gradient.num_elements() / gradient.dim(0));
  for (const auto& shard : shards) {
    std::vector<int64_t> local;
    std::vector<float> rows;
    for (size_t i = 0; i < ids.size(); ++i) {
      const int64_t row = shard->layout().ToLocal(ids[i]);
      if (row < 0) continue;
      local.push_back(row);
      const float* from = gradient.data<float>() + i * width;
      rows.insert(rows.end(), from, from + width);
    }
    const int64_t n = static_cast<int64_t>(local.size());
    Apply(shard.get(),
          UpdateOf(Kind::kSparse, shard->id(),
                   Tensor::FromVector(rows, shard->layout().RowsShape(n)).value(), Ids(local)));
  }
}

}  // namespace

TEST_CASE("a table's values and updates do not depend on how it is split") {
  for (const char* optimizer :
       {"sgd", "momentum", "adagrad", "rmsprop", "adam", "lazy_adam", "adamw", "ftrl"}) {
    for (bool table : {true, false}) {
      proto::VariableSpec variable = RandomTable(optimizer, 50, 20);
      variable.set_table(table);
      std::vector<std::vector<std::vector<float>>> results;
      for (const auto& [count, strategy] : std::vector<std::pair<int, std::string>>{{1, "div"},
                                                                                    {1, "mod"},
                                                                                    {3, "div"},
                                                                                    {3, "mod"},
                                                                                    {7, "mod"},
                                                                                    {1, "hash"},
                                                                                    {4, "hash"}}) {
        std::vector<std::unique_ptr<Shard>> shards;
        for (const auto& spec : SplitOf(variable, count, strategy)) shards.push_back(Make(spec));
        for (uint64_t step = 0; step < 4; ++step) {
          const std::vector<int64_t> ids = {0, 49, 7, 8, 9, static_cast<int64_t>(10 + step), 33};
          ApplySplit(shards, ids, RandomTensor(Shape{7, 20}, step));
        }
        results.push_back(Assemble(shards, 50));
      }
      INFO(optimizer << " table " << table);
      for (const auto& result : results) CHECK((result == results[0]));
    }
  }
}

TEST_CASE("a dense variable's updates do not depend on how it is split") {
  for (const char* optimizer : {"sgd", "momentum", "adagrad", "rmsprop", "adam", "ftrl"}) {
    proto::VariableSpec variable = VariableOf("w", {23, 5}, false, OptimizerOf(optimizer));
    variable.mutable_initializer()->set_kind("glorot_uniform");
    std::vector<std::vector<std::vector<float>>> results;
    for (int count : {1, 3, 5}) {
      std::vector<std::unique_ptr<Shard>> shards;
      for (const auto& spec : SplitOf(variable, count, "div")) shards.push_back(Make(spec));
      for (uint64_t step = 0; step < 4; ++step) {
        const Tensor gradient = RandomTensor(Shape{23, 5}, step);
        for (const auto& shard : shards) {
          const int64_t begin = shard->layout().ToGlobal(0);
          Apply(shard.get(), UpdateOf(Kind::kDense, 1,
                                      gradient.SliceRows(begin, begin + shard->layout().rows())));
        }
      }
      results.push_back(Assemble(shards, 23));
    }
    INFO(optimizer);
    CHECK((results[1] == results[0]));
    CHECK((results[2] == results[0]));
  }
}

TEST_CASE("a table and a dense variable come to the same weights and slots") {
  for (const char* optimizer :
       {"sgd", "momentum", "adagrad", "rmsprop", "adam", "lazy_adam", "adamw", "ftrl"}) {
    proto::VariableSpec variable = RandomTable(optimizer, 30, 17);
    std::vector<std::unique_ptr<Shard>> table, dense;
    table.push_back(Make(WholeOf(variable)));
    variable.set_table(false);
    dense.push_back(Make(WholeOf(variable)));
    for (uint64_t step = 0; step < 3; ++step) {
      const graph::Update sparse =
          UpdateOf(Kind::kSparse, 1, RandomTensor(Shape{4, 17}, step), Ids({29, 0, 3, 4}));
      const graph::Update all = UpdateOf(Kind::kDense, 1, RandomTensor(Shape{30, 17}, 50 + step));
      for (const graph::Update& update : {sparse, all}) {
        Apply(table[0].get(), update);
        Apply(dense[0].get(), update);
      }
    }
    INFO(optimizer);
    CHECK((Assemble(table, 30) == Assemble(dense, 30)));
  }
}

TEST_CASE("a tensor that was read does not change when the variable does") {
  for (bool table : {false, true}) {
    proto::VariableSpec variable = VariableOf("w", {5, 4}, table, OptimizerOf("sgd", 1));
    variable.mutable_initializer()->set_kind("ones");
    const auto shard = Make(WholeOf(variable));
    const Tensor before = shard->Read().value();
    const std::vector<float> ones(20, 1), twos(20, 2);
    const Tensor gradient = Tensor::FromVector(std::vector<float>(20, -1), Shape{5, 4}).value();
    Apply(shard.get(), UpdateOf(Kind::kDense, 1, gradient));
    CHECK(ValuesOf<float>(before) == ones);
    const Tensor after = shard->Read().value();
    CHECK(ValuesOf<float>(after) == twos);
    const Tensor rows = Tensor::FromVector(std::vector<float>(4, 9), Shape{1, 4}).value();
    Apply(shard.get(), UpdateOf(Kind::kScatterAdd, 1, rows, Ids({2})));
    Apply(shard.get(), UpdateOf(Kind::kAssign, 1, gradient));
    REQUIRE(shard->WriteRows(0, rows).ok());
    CHECK(ValuesOf<float>(after) == twos);
    CHECK(ValuesOf<float>(before) == ones);
  }
}

TEST_CASE("a dense variable that nobody holds is updated in place, and its reads copy nothing") {
  const auto shard = Make(WholeOf(VariableOf("w", {1000}, false, OptimizerOf("sgd"))));
  const void* at = shard->Read().value().raw();
  Apply(shard.get(), UpdateOf(Kind::kDense, 1, RandomTensor(Shape{1000}, 1)));
  CHECK(shard->Read().value().raw() == at);
  const Tensor held = shard->Read().value();
  Apply(shard.get(), UpdateOf(Kind::kDense, 1, RandomTensor(Shape{1000}, 1)));
  CHECK(shard->Read().value().raw() != at);
}

TEST_CASE("adding a variable to itself doubles it") {
  proto::VariableSpec variable = VariableOf("w", {4}, false, {});
  variable.mutable_initializer()->set_kind("ones");
  const auto shard = Make(WholeOf(variable));
  Apply(shard.get(), UpdateOf(Kind::kAssignAdd, 1, shard->Read().value()));
  CHECK(ValuesOf<float>(shard->Read().value()) == std::vector<float>(4, 2));
}

// A difference that is added goes by what was read: with several under way a moving average leaves
// the range of all that it is of.
TEST_CASE("a moving average stays between what it was and what it goes to, whoever else moves it") {
  proto::VariableSpec variable = VariableOf("v", {2}, false, {});
  const auto shard = Make(WholeOf(variable));
  graph::Update update =
      UpdateOf(Kind::kAssignMovingAverage, 1, Tensor::FromVector<float>({8, -4}, Shape{2}).value());
  update.rate = 0.75;
  float wanted[2] = {0, 0};
  for (int i = 0; i < 6; ++i) {
    Apply(shard.get(), update);
    wanted[0] += 0.75f * (8 - wanted[0]);
    wanted[1] += 0.75f * (-4 - wanted[1]);
    CHECK(ValuesOf<float>(shard->Read().value()) == std::vector<float>{wanted[0], wanted[1]});
    CHECK(wanted[0] < 8);
  }
  CHECK(shard->applied() == 6);
  CHECK(shard->gradient_steps() == 0);
  for (const double rate : {0.0, 1.5, -1.0, std::nan("")}) {
    update.rate = rate;
    const absl::Status refused = shard->Validate(update);
    CHECK(absl::IsInvalidArgument(refused));
    CHECK(absl::StrContains(refused.message(), "0 < rate <= 1"));
  }
}

TEST_CASE("a moving average is of f32 or f64") {
  graph::Update update = UpdateOf(Kind::kAssignMovingAverage, 1, Ids({1}));
  update.rate = 0.5;
  const auto counter = Make(WholeOf(VariableOf("n", {1}, false, {}, DType::kI64)));
  CHECK(absl::StrContains(counter->Validate(update).message(), "wanted f32 or f64"));
  const auto f64 = Make(WholeOf(VariableOf("d", {1}, false, {}, DType::kF64)));
  update.values = Tensor::FromVector<double>({3});
  Apply(f64.get(), update);
  CHECK(ValuesOf<double>(f64->Read().value()) == std::vector<double>{1.5});
}

TEST_CASE("gathered rows are those asked for, in order, for any width and dtype") {
  for (int64_t dim : {1, 8, 16, 32, 64, 5, 400}) {
    proto::VariableSpec variable = RandomTable("adagrad", 200, dim);
    for (bool table : {true, false}) {
      variable.set_table(table);
      const auto shard = Make(WholeOf(variable));
      const std::vector<float> all = ValuesOf<float>(shard->Read().value());
      std::vector<int64_t> ids;
      for (int64_t i = 0; i < 150; ++i) ids.push_back(i * 37 % 200);
      ids.push_back(ids[0]);
      const Tensor rows = shard->Gather(Ids(ids)).value();
      REQUIRE(rows.shape() == Shape{151, dim});
      for (int64_t i = 0; i < 151 * dim; ++i) {
        const int64_t row = ids[static_cast<size_t>(i / dim)];
        CHECK(rows.data<float>()[i] == all[static_cast<size_t>(row * dim + i % dim)]);
      }
    }
  }
  const auto empty = Make(WholeOf(RandomTable("sgd", 5, 3)));
  CHECK(empty->Gather(Ids({})).value().shape() == Shape{0, 3});
}

TEST_CASE("counters in i64 assign, add, scatter and wrap") {
  proto::VariableSpec variable = VariableOf("n", {3}, false, {}, DType::kI64);
  variable.mutable_initializer()->set_kind("constant");
  variable.mutable_initializer()->set_value(10);
  const auto shard = Make(WholeOf(variable));
  Apply(shard.get(), UpdateOf(Kind::kAssignAdd, 1, Ids({1, 2, 3})));
  Apply(shard.get(), UpdateOf(Kind::kScatterAdd, 1, Ids({100, 100}), Ids({1, 1})));
  CHECK(ValuesOf<int64_t>(shard->Read().value()) == std::vector<int64_t>{11, 212, 13});
  CHECK(ValuesOf<int64_t>(shard->Gather(Ids({2})).value()) == std::vector<int64_t>{13});
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  Apply(shard.get(), UpdateOf(Kind::kAssign, 1, Ids({kMax, 0, 0})));
  Apply(shard.get(), UpdateOf(Kind::kAssignAdd, 1, Ids({1, 0, 0})));
  CHECK(shard->Read().value().data<int64_t>()[0] == std::numeric_limits<int64_t>::min());
  CHECK(shard->applied() == 4);
  CHECK(shard->gradient_steps() == 0);
}

TEST_CASE("scalars and f64 variables train") {
  proto::VariableSpec variable = VariableOf("bias", {}, false, OptimizerOf("adam"), DType::kF64);
  const auto shard = Make(WholeOf(variable));
  CHECK(shard->Read().value().shape() == Shape{});
  Apply(shard.get(), UpdateOf(Kind::kDense, 1, Tensor::Scalar<double>(-3)));
  CHECK(*shard->Read().value().data<double>() == Approx(0.1).epsilon(1e-5));
  CHECK(shard->ReadRows(0, 1).value().shape() == Shape{1});
  const Tensor one = Tensor::FromVector(std::vector<double>{7}, Shape{1}).value();
  REQUIRE(shard->WriteRows(0, one).ok());
  CHECK(*shard->Read().value().data<double>() == 7);
}

TEST_CASE("Adam's bias correction counts segments with a gradient, not their updates") {
  const proto::VariableSpec variable = VariableOf("w", {4}, false, OptimizerOf("adam", 0.01));
  const auto shard = Make(WholeOf(variable));
  Apply(shard.get(), UpdateOf(Kind::kAssign, 1, Tensor::Zeros(DType::kF32, Shape{4})));
  const graph::Update gradient = UpdateOf(Kind::kDense, 1, RandomTensor(Shape{4}, 2));
  const graph::Update none = UpdateOf(Kind::kAssignAdd, 1, Tensor::Zeros(DType::kF32, Shape{4}));
  const std::vector<const graph::Update*> segment = {&gradient, &none};
  shard->ApplySegment(segment, {});
  CHECK(shard->applied() == 2);
  CHECK(shard->gradient_steps() == 1);
  for (float w : ValuesOf<float>(shard->Read().value()))
    CHECK(std::abs(w) == Approx(0.01f).epsilon(1e-3));
}

TEST_CASE("ids out of range are refused by name before anything is read or changed") {
  const auto shard = Make(WholeOf(RandomTable("adagrad", 100, 4), 9));
  const std::vector<float> before = ValuesOf<float>(shard->Read().value());
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (int64_t bad : {int64_t{100}, int64_t{-1}, kMin, kMax, kMin + 50}) {
    const Tensor ids = Ids({0, 99, bad, 5});
    const std::string name = std::to_string(bad);
    CHECK_THAT(ErrorOf(shard->Gather(ids).status()),
               Contains(name) && Contains("users") && Contains("shard 9") && Contains("[0, 100)"));
    for (Kind kind : {Kind::kSparse, Kind::kScatterAdd}) {
      const graph::Update update = UpdateOf(kind, 9, RandomTensor(Shape{4, 4}, 1), ids);
      CHECK_THAT(ErrorOf(shard->Validate(update)), Contains(name));
    }
    CHECK_FALSE(shard->WriteRowsAt({bad}, RandomTensor(Shape{1, 4}, 1)).ok());
  }
  CHECK(ValuesOf<float>(shard->Read().value()) == before);
  const auto empty = Make([] {
    proto::ShardSpec spec = WholeOf(RandomTable("sgd", 0, 4));
    return spec;
  }());
  CHECK_FALSE(empty->Gather(Ids({0})).ok());
}

TEST_CASE("updates of the wrong shape, dtype or kind are refused") {
  const auto shard = Make(WholeOf(RandomTable("adagrad", 10, 4)));
  const auto refused = [&](const graph::Update& update) {
    return ErrorOf(shard->Validate(update));
  };
  const Tensor ids = Ids({1, 2});
  CHECK_THAT(refused(UpdateOf(Kind::kSparse, 1, RandomTensor(Shape{2, 5}, 1), ids)),
             Contains("f32[2,4]") && Contains("f32[2,5]"));
  CHECK_THAT(refused(UpdateOf(Kind::kSparse, 1, RandomTensor(Shape{3, 4}, 1), ids)),
             Contains("f32[2,4]"));
  CHECK_THAT(refused(UpdateOf(Kind::kSparse, 1, RandomTensor(Shape{2, 4}, 1))),
             Contains("row ids"));
  CHECK_THAT(refused(UpdateOf(Kind::kSparse, 1, {}, ids)), Contains("f32[2,4]"));
  const Tensor narrow = Tensor::FromVector(std::vector<int32_t>{1, 2});
  CHECK_THAT(refused(UpdateOf(Kind::kSparse, 1, RandomTensor(Shape{2, 4}, 1), narrow)),
             Contains("i32[2]"));
  const Tensor square = Ids({1, 2, 3, 4}).Reshaped(Shape{2, 2});
  CHECK_THAT(refused(UpdateOf(Kind::kSparse, 1, RandomTensor(Shape{4, 4}, 1), square)),
             Contains("[2,2]"));
  CHECK_THAT(refused(UpdateOf(Kind::kDense, 1, RandomTensor(Shape{9, 4}, 1))),
             Contains("f32[10,4]"));
  CHECK_THAT(refused(UpdateOf(Kind::kAssign, 1, Ids({1}))), Contains("i64[1]"));
  CHECK_THAT(refused(UpdateOf(static_cast<Kind>(17), 1, {})), Contains("17"));
  const auto plain = Make(WholeOf(VariableOf("w", {2}, false, {})));
  CHECK_THAT(ErrorOf(plain->Validate(UpdateOf(Kind::kDense, 1, RandomTensor(Shape{2}, 1)))),
             Contains("no optimizer"));
  const auto scalar = Make(WholeOf(VariableOf("s", {}, false, OptimizerOf("sgd"))));
  CHECK_THAT(
      ErrorOf(scalar->Validate(UpdateOf(Kind::kSparse, 1, RandomTensor(Shape{1}, 1), Ids({0})))),
      Contains("scalar"));
}

TEST_CASE("a shard's bad spec is refused, with what is wrong") {
  const auto refused = [](const proto::ShardSpec& spec) {
    const auto shard = Shard::Create(spec);
    REQUIRE_FALSE(shard.ok());
    return ErrorOf(shard.status());
  };
  const proto::ShardSpec good = WholeOf(RandomTable("adagrad", 10, 4));
  const auto with = [&](auto&& change) {
    proto::ShardSpec spec = good;
    change(spec);
    return refused(spec);
  };
  using Spec = proto::ShardSpec;
  CHECK_THAT(with([](Spec& s) { s.mutable_variable()->mutable_optimizer()->set_kind("x"); }),
             Contains("users"));
  CHECK_THAT(with([](Spec& s) { s.mutable_variable()->set_dtype(2); }), Contains("f64"));
  CHECK_THAT(with([](Spec& s) { s.mutable_variable()->set_dtype(99); }), Contains("99"));
  CHECK_THAT(with([](Spec& s) { s.mutable_variable()->mutable_shape()->set_dims(1, -1); }),
             Contains("-1"));
  CHECK_THAT(with([](Spec& s) { s.mutable_variable()->mutable_shape()->set_dims(1, 0); }),
             Contains("dimension 1"));
  CHECK_THAT(with([](Spec& s) { s.mutable_variable()->mutable_shape()->clear_dims(); }),
             Contains("scalar"));
  CHECK_THAT(with([](Spec& s) { s.set_count(0); }), Contains("index"));
  CHECK_THAT(with([](Spec& s) { s.set_index(1); }), Contains("index 1"));
  CHECK_THAT(with([](Spec& s) { s.set_rows(9); }), Contains("9"));
  CHECK_THAT(with([](Spec& s) { s.set_strategy("range"); }), Contains("range"));
  CHECK_THAT(with([](Spec& s) { s.set_count(3), s.set_strategy("hash"), s.set_rows(3); }),
             Contains("'hash' shard 0 of 3"));
  CHECK_THAT(with([](Spec& s) { s.set_count(2), s.set_row_begin(6), s.set_rows(5); }),
             Contains("within"));
  CHECK_THAT(with([](Spec& s) { s.set_count(3), s.set_strategy("mod"), s.set_rows(3); }),
             Contains("4"));
  CHECK_THAT(with([](Spec& s) {
               s.mutable_variable()->mutable_shape()->set_dims(0, int64_t{1} << 40);
               s.mutable_variable()->mutable_shape()->set_dims(1, int64_t{1} << 40);
             }),
             Contains("too many"));
  CHECK_THAT(with([](Spec& s) {
               s.mutable_variable()->mutable_shape()->set_dims(0, int64_t{1} << 52);
               s.set_rows(int64_t{1} << 52);
             }),
             Contains("too large"));
  CHECK_THAT(refused(WholeOf(VariableOf("n", {3}, false, OptimizerOf("sgd"), DType::kI64))),
             Contains("i64"));
  proto::ShardSpec scalar = WholeOf(VariableOf("s", {}, false, {}));
  scalar.set_count(2);
  CHECK_THAT(refused(scalar), Contains("scalar"));
}

TEST_CASE("rows that no machine can hold are an error, not a crash") {
  proto::ShardSpec spec = WholeOf(RandomTable("lazy_adam", int64_t{1} << 42, 64));
  CHECK(Shard::Create(spec).status().code() == absl::StatusCode::kResourceExhausted);
}

TEST_CASE("global and local rows map to each other") {
  for (const char* strategy : {"div", "mod", "hash"}) {
    const auto specs = SplitOf(RandomTable("sgd", 11, 2), 4, strategy);
    std::vector<int> owners(11, 0);
    for (const auto& spec : specs) {
      const ShardLayout layout = ShardLayout::Create(spec).value();
      for (int64_t r = 0; r < layout.rows(); ++r) {
        const int64_t global = layout.ToGlobal(r);
        CHECK(layout.ToLocal(global) == r);
        ++owners[static_cast<size_t>(global)];
      }
      int64_t held = 0;
      for (int64_t g = -3; g < 20; ++g) held += layout.ToLocal(g) >= 0 ? 1 : 0;
      CHECK(held == layout.rows());
    }
    CHECK(owners == std::vector<int>(11, 1));
  }
}

TEST_CASE("a shard written from another's rows, slots and counters goes on as that one does") {
  for (bool table : {true, false}) {
    proto::VariableSpec variable = RandomTable("lazy_adam", 40, 10);
    variable.set_table(table);
    const auto first = Make(WholeOf(variable));
    const graph::Update update =
        UpdateOf(Kind::kSparse, 1, RandomTensor(Shape{3, 10}, 1), Ids({7, 9, 0}));
    Apply(first.get(), update);
    const auto second = Shard::Create(WholeOf(variable), Shard::Fill::kZeros).value();
    CHECK(ValuesOf<float>(second->Read().value()) == std::vector<float>(400, 0));
    for (int p = 0; p < first->parts(); ++p) {
      CHECK(first->part(p).name ==
            std::vector<std::string>{"weights", "m", "v", "touched"}[static_cast<size_t>(p)]);
      for (int64_t begin = 0; begin < 32; begin += 16) {
        REQUIRE(second->WriteRows(begin, first->ReadRows(begin, 16, p).value(), p).ok());
      }
      const Tensor rest = first->ReadRows(32, 8, p).value();
      REQUIRE(second->WriteRowsAt({32, 33, 34, 35, 36, 37, 38, 39}, rest, p).ok());
    }
    REQUIRE(second->RestoreCounters(first->applied(), first->gradient_steps()).ok());
    Apply(first.get(), update);
    Apply(second.get(), update);
    CHECK(ValuesOf<float>(first->Read().value()) == ValuesOf<float>(second->Read().value()));
    CHECK(second->applied() == 2);
    CHECK_FALSE(second->RestoreCounters(1, 2).ok());
    CHECK_FALSE(second->ReadRows(30, 11).ok());
    CHECK_FALSE(second->ReadRows(-1, 2).ok());
    CHECK_FALSE(second->ReadRows(0, 1, second->parts()).ok());
    CHECK_FALSE(second->WriteRows(39, RandomTensor(Shape{2, 10}, 1)).ok());
    CHECK_FALSE(second->WriteRows(0, RandomTensor(Shape{2, 9}, 1)).ok());
  }
}

TEST_CASE("a snapshot shows one moment, whatever is changed after it") {
  for (bool table : {true, false}) {
    proto::VariableSpec variable = RandomTable("adagrad", 5000, 32);  // several slabs
    variable.set_table(table);
    auto shard = Make(WholeOf(variable));
    const auto parts_of = [](const auto& source) {
      std::vector<std::vector<float>> parts;
      for (int p = 0; p < 2; ++p) {
        parts.push_back(ValuesOf<float>(source.ReadRows(0, 5000, p).value()));
      }
      return parts;
    };
    const auto sparse = [](uint64_t seed, std::vector<int64_t> ids) {
      const int64_t n = static_cast<int64_t>(ids.size());
      return UpdateOf(Kind::kSparse, 1, RandomTensor(Shape{n, 32}, seed), Ids(ids));
    };
    Apply(shard.get(), sparse(1, {1, 4999}));
    const auto at_first = parts_of(*shard);
    const auto first = shard->Snapshot();
    Apply(shard.get(), sparse(2, {1, 2000}));
    const auto at_second = parts_of(*shard);
    auto second = shard->Snapshot();
    Apply(shard.get(), sparse(3, {2000, 2001, 3}));
    if (table) CHECK(first->preserved_bytes() == 4 * (256 + 8));  // rows 1, 2000, 2001 and 3
    CHECK((parts_of(*first) == at_first));
    CHECK((parts_of(*second) == at_second));
    CHECK(first->applied() == 1);
    CHECK(second->gradient_steps() == 2);
    second.reset();
    Apply(shard.get(), UpdateOf(Kind::kDense, 1, RandomTensor(Shape{5000, 32}, 4)));
    Apply(shard.get(), UpdateOf(Kind::kScatterAdd, 1, RandomTensor(Shape{1, 32}, 4), Ids({77})));
    REQUIRE(shard->WriteRows(10, RandomTensor(Shape{3, 32}, 5), 1).ok());
    CHECK((parts_of(*first) == at_first));
    CHECK((parts_of(*shard) != at_first));
    CHECK_FALSE(first->ReadRows(4999, 2, 0).ok());
    CHECK_FALSE(first->ReadRows(0, 1, first->parts()).ok());
    shard.reset();  // moved away while it is being written
    CHECK((parts_of(*first) == at_first));
  }
}

}  // namespace coxswain::ps
