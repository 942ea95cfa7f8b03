#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ps_server/shard.h"
#include "ps_server/shard_snapshot.h"
#include "tests/testing/ps_specs.h"
#include "tests/testing/shards.h"

namespace coxswain::ps {
namespace {

using Kind = graph::Update::Kind;
using testing::Apply;
using testing::AsFloats;
using testing::Ids;
using testing::Make;
using testing::OptimizerOf;
using testing::RandomTensor;
using testing::UpdateOf;
using testing::ValuesOf;
using testing::VariableOf;
using testing::WholeOf;

std::unique_ptr<Shard> Table(const std::string& optimizer, int64_t rows, int64_t dim) {
  return Make(WholeOf(VariableOf("t", {rows, dim}, true, OptimizerOf(optimizer))));
}

std::vector<int64_t> TouchedOf(const Shard& shard) {
  return ValuesOf<int64_t>(
      shard.ReadRows(0, shard.rows(), shard.plan().Find(kTouchedPart)).value());
}

}  // namespace

TEST_CASE("parts of a row do not overlap, are aligned, and lie in as few cache lines as can be") {
  for (const char* optimizer :
       {"sgd", "momentum", "adagrad", "rowwise_adagrad", "rmsprop", "lazy_adam", "adamw", "ftrl"}) {
    for (int64_t dim : {1, 2, 3, 7, 8, 10, 16, 17, 33, 64, 100}) {
      const auto shard = Table(optimizer, 3, dim);
      const PartPlan& plan = shard->plan();
      size_t wide = 0;
      std::vector<int> row(plan.row_stride, 0), side(plan.side_stride, 0);
      for (const ShardPart& part : plan.parts) {
        INFO(optimizer << " dim " << dim << " part " << part.name);
        CHECK(part.offset % SizeOf(part.dtype) == 0);
        CHECK((part.per_row || !part.side));
        if (!part.per_row) wide += part.row_bytes();
        std::vector<int>& block = part.side ? side : row;
        REQUIRE(part.offset + part.row_bytes() <= block.size());
        for (size_t b = 0; b < part.row_bytes(); ++b) CHECK(++block[part.offset + b] == 1);
      }
      INFO(optimizer << " dim " << dim << " stride " << plan.row_stride);
      const bool power = (plan.row_stride & (plan.row_stride - 1)) == 0;
      CHECK((plan.row_stride % 64 == 0 || (power && plan.row_stride < 64)));
      CHECK(plan.row_stride + plan.side_stride < wide + 8 + 64);
      CHECK(shard->memory_bytes() ==
            static_cast<int64_t>(3 * (plan.row_stride + plan.side_stride)));
    }
  }
  CHECK(Table("sgd", 3, 1)->plan().row_stride == 16);  // 4 bytes, and 8 for "touched"
  CHECK(Table("sgd", 3, 16)->plan().side_stride == 8);
  CHECK(Table("sgd", 3, 10)->plan().side_stride == 0);  // there is room behind 40 bytes
}

TEST_CASE("each row of a table knows the update that changed it last") {
  for (int64_t dim : {10, 16}) {  // behind the row, and beside it
    const auto shard = Table("adagrad", 6, dim);
    CHECK(TouchedOf(*shard) == std::vector<int64_t>(6, 0));
    const auto sparse = [&](Kind kind, std::vector<int64_t> ids) {
      const int64_t n = static_cast<int64_t>(ids.size());
      return UpdateOf(kind, 1, RandomTensor(Shape{n, dim}, 1), Ids(ids));
    };
    Apply(shard.get(), sparse(Kind::kSparse, {1, 4}));
    Apply(shard.get(), sparse(Kind::kSparse, {}));
    const auto snapshot = shard->Snapshot();
    const graph::Update first = sparse(Kind::kSparse, {4}), second = sparse(Kind::kScatterAdd, {0});
    const std::vector<const graph::Update*> segment = {&first, &second};
    shard->ApplySegment(segment, {});
    CHECK(TouchedOf(*shard) == std::vector<int64_t>{3, 1, 0, 0, 3, 0});
    CHECK(ValuesOf<int64_t>(snapshot->ReadRows(0, 6, snapshot->parts() - 1).value()) ==
          std::vector<int64_t>{0, 1, 0, 0, 1, 0});
    REQUIRE(shard->WriteRows(2, RandomTensor(Shape{2, dim}, 2), 1).ok());
    REQUIRE(shard->WriteRowsAt({5}, RandomTensor(Shape{1, dim}, 2)).ok());
    CHECK(TouchedOf(*shard) == std::vector<int64_t>{3, 1, 4, 4, 3, 4});
    Apply(shard.get(), UpdateOf(Kind::kDense, 1, RandomTensor(Shape{6, dim}, 2)));
    CHECK(TouchedOf(*shard) == std::vector<int64_t>(6, 4));
  }
}

TEST_CASE("a part's bytes in a snapshot are its rows, wherever a chunk begins") {
  const auto shard = Table("adagrad", 40, 16);
  Apply(shard.get(), UpdateOf(Kind::kDense, 1, RandomTensor(Shape{40, 16}, 1)));
  const auto snapshot = shard->Snapshot();
  std::vector<std::vector<float>> before;
  for (int p = 0; p < shard->parts(); ++p) {
    before.push_back(AsFloats(shard->ReadRows(0, 40, p).value()));
  }
  Apply(shard.get(), UpdateOf(Kind::kSparse, 1, RandomTensor(Shape{3, 16}, 2), Ids({0, 7, 39})));
  for (int p = 0; p < shard->parts(); ++p) {
    const ShardPart& part = snapshot->part(p);
    const Tensor rows(part.dtype, part.RowsShape(shard->layout(), 40));
    REQUIRE(snapshot->tensor_bytes(p) == static_cast<int64_t>(rows.bytes()));
    char* to = static_cast<char*>(rows.buffer().data());
    for (int64_t at = 0; at < snapshot->tensor_bytes(p); at += 13) {
      const int64_t n = std::min<int64_t>(13, snapshot->tensor_bytes(p) - at);
      REQUIRE(snapshot->CopyBytes(at, n, p, to + at).ok());
    }
    CHECK(AsFloats(rows) == before[static_cast<size_t>(p)]);
    CHECK_FALSE(snapshot->CopyBytes(snapshot->tensor_bytes(p), 1, p, to).ok());
  }
  char byte = 0;
  CHECK_FALSE(snapshot->CopyBytes(0, 1, snapshot->parts(), &byte).ok());
  CHECK_FALSE(snapshot->CopyBytes(0, 1, -1, &byte).ok());
}

TEST_CASE("rows that are written during a save are kept, and no others") {
  const auto shard = Table("adagrad", 4000, 16);
  const auto snapshot = shard->Snapshot();
  const std::vector<float> before = AsFloats(shard->ReadRows(0, 4000).value());
  const int64_t kept = static_cast<int64_t>(shard->plan().row_stride + shard->plan().side_stride);
  REQUIRE(shard->WriteRows(3990, RandomTensor(Shape{10, 16}, 2)).ok());
  CHECK(snapshot->preserved_bytes() == 10 * kept);
  REQUIRE(shard->WriteRows(3995, RandomTensor(Shape{1, 16}, 3), 1).ok());
  REQUIRE(shard->WriteRows(7, RandomTensor(Shape{2, 16}, 4)).ok());
  REQUIRE(shard->WriteRows(4000, RandomTensor(Shape{0, 16}, 4)).ok());
  CHECK(snapshot->preserved_bytes() == 12 * kept);
  CHECK(AsFloats(snapshot->ReadRows(0, 4000, 0).value()) == before);
  CHECK(AsFloats(shard->ReadRows(0, 4000).value()) != before);
}

}  // namespace coxswain::ps
