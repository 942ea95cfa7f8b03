// Hash tables through the public interface.
#include <catch2/catch.hpp>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "coordinator/api/variable_info.h"
#include "tests/testing/cluster.h"

namespace coxswain {
namespace {

using Catch::Contains;
using testing::Must;
using testing::MustStart;
using testing::ToVector;

TableOptions HashOptions(int64_t dim, int64_t shards) {
  TableOptions options;
  options.dim = dim;
  options.hash.emplace();
  options.optimizer = Sgd{.learning_rate = 1};
  options.initializer = NormalInit(0.5, 3);
  options.partitioner = FixedShards(shards);
  return options;
}

using Rows = std::map<int64_t, std::vector<float>>;

Rows RowsOf(ParameterServerStrategy* strategy, const EmbeddingTable& table) {
  Rows rows;
  const VariableInfo& info = table.info();
  for (int shard = 0; shard < static_cast<int>(info.shards.size()); ++shard) {
    int64_t place = 0;
    do {
      const auto read = Must(strategy->ReadIds(info, shard, place, 5));  // in pieces
      const std::vector<float> values = ToVector<float>(read.rows);
      for (int64_t i = 0; i < read.ids.dim(0); ++i) {
        const auto begin = values.begin() + i * table.dim();
        rows[read.ids.data<int64_t>()[i]] = {begin, begin + table.dim()};
      }
      place = read.next;
    } while (place > 0);
  }
  return rows;
}

Rows AllRowsOf(ParameterServerStrategy* strategy, const EmbeddingTable& table) {
  Rows rows;
  ParameterServerStrategy::TableCursor at;
  while (!at.done()) {
    const auto read = Must(strategy->ReadIds(table, 5, &at));
    const std::vector<float> values = ToVector<float>(read.rows);
    for (int64_t i = 0; i < read.ids.dim(0); ++i) {
      const auto begin = values.begin() + i * table.dim();
      const bool is_new =
          rows.emplace(read.ids.data<int64_t>()[i], std::vector<float>(begin, begin + table.dim()))
              .second;
      CHECK(is_new);
    }
  }
  CHECK(absl::IsOutOfRange(strategy->ReadIds(table, 5, &at).status()));
  return rows;
}

const std::vector<int64_t> kIds = {5,
                                   -7,
                                   1234567890123,
                                   std::numeric_limits<int64_t>::min(),
                                   5,
                                   0,
                                   17,
                                   -7,
                                   99,
                                   std::numeric_limits<int64_t>::max()};

// The rows of a table after three steps that add 1 to each id as often as it is in kIds.
Rows Train(int64_t shards, std::vector<float>* first_lookup) {
  const Cluster cluster = MustStart(2, 1);
  ParameterServerStrategy strategy(cluster);
  const EmbeddingTable table = Must(strategy.CreateTable("t", HashOptions(3, shards)));
  CHECK(static_cast<int64_t>(table.info().shards.size()) == shards);
  const RemoteFunction step = Must(strategy.Define("step", [&](FunctionBuilder& f) {
    Output rows = f.Lookup(table, f.Argument("ids", DType::kI64, Shape{kUnknownDim}));
    f.Minimize(f.Neg(f.Sum(rows)));
    f.Result("rows", rows);
  }));
  ClusterCoordinator coordinator(strategy);
  for (int i = 0; i < 3; ++i) {
    RemoteValue value = coordinator.Schedule(step, {Tensor::FromVector(kIds)});
    Must(coordinator.Join());
    if (i == 0) *first_lookup = ToVector<float>(Must(value.Get())[0]);
  }
  return RowsOf(&strategy, table);
}

TEST_CASE("hash table: a program trains rows of any ids, the same whatever the shards", "[api]") {
  std::vector<float> lookup;
  const Rows rows = Train(1, &lookup);
  CHECK(rows.size() == std::set<int64_t>(kIds.begin(), kIds.end()).size());
  // 5 and -7 are there twice in a step; what was first read were the initial values.
  for (int column = 0; column < 3; ++column) {
    CHECK(rows.at(5)[column] == Approx(lookup[static_cast<size_t>(column)] + 6));
    CHECK(rows.at(0)[column] == Approx(lookup[static_cast<size_t>(15 + column)] + 3));
  }
  for (const int64_t shards : {2, 5}) {
    std::vector<float> other;
    CHECK(Train(shards, &other) == rows);
    CHECK(other == lookup);
  }
}

TEST_CASE("hash table: its shards are spread over the parameter servers", "[api]") {
  const Cluster cluster = MustStart(3, 1);
  ParameterServerStrategy strategy(cluster);
  const EmbeddingTable table = Must(strategy.CreateTable("t", HashOptions(4, 6)));
  std::map<int, int> on;
  for (const proto::ShardSpec& shard : table.info().shards) ++on[shard.ps()];
  CHECK(on == std::map<int, int>{{0, 2}, {1, 2}, {2, 2}});
  // By default one for each.
  TableOptions plain = HashOptions(4, 1);
  plain.partitioner = nullptr;
  CHECK(Must(strategy.CreateTable("plain", plain)).info().shards.size() == 3);
  // Bounds on bytes need a bound on rows.
  TableOptions bounded = HashOptions(4, 1);
  bounded.hash->max_rows = 1000;
  bounded.partitioner = MaxSize(4000);
  CHECK(Must(strategy.CreateTable("bounded", bounded)).info().shards.size() == 4);
}

TEST_CASE("hash table: rows can be written by id and read back", "[api]") {
  const Cluster cluster = MustStart(2, 1);
  ParameterServerStrategy strategy(cluster);
  const EmbeddingTable table = Must(strategy.CreateTable("t", HashOptions(2, 3)));
  const Tensor rows = Tensor::FromVector<float>({1, 2, 3, 4, 5, 6}, Shape{3, 2}).value();
  Must(strategy.WriteIds(table.info(), Tensor::FromVector<int64_t>({-1, 70, 8}), rows));
  CHECK(RowsOf(&strategy, table) == Rows{{-1, {1, 2}}, {70, {3, 4}}, {8, {5, 6}}});
  Must(strategy.RemoveIds(table.info()));
  CHECK(RowsOf(&strategy, table).empty());
  Must(strategy.WriteIds(table.info(), Tensor::FromVector<int64_t>({70, 9, 8}), rows));
  CHECK(RowsOf(&strategy, table) == Rows{{70, {1, 2}}, {9, {3, 4}}, {8, {5, 6}}});
  const absl::Status wrong =
      strategy.WriteIds(table.info(), Tensor::FromVector<int64_t>({-1, 70}), rows);
  CHECK(wrong.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(wrong.message()), Contains("i64[2]") && Contains("f32[3,2]"));
}

TEST_CASE("hash table: it has no whole to read or to assign, and says so", "[api]") {
  const Cluster cluster = MustStart(1, 1);
  ParameterServerStrategy strategy(cluster);
  const EmbeddingTable table = Must(strategy.CreateTable("t", HashOptions(2, 1)));
  CHECK_THAT(std::string(strategy.Read(table).status().message()), Contains("'t' is a hash table"));
  CHECK_THAT(std::string(strategy.Assign(table, Tensor::Zeros(DType::kF32, {2, 2})).message()),
             Contains("'t' is a hash table"));
  const auto defined =
      strategy.Define("all", [&](FunctionBuilder& f) { f.Result("all", f.Sum(f.Read(table))); });
  CHECK_THAT(std::string(defined.status().message()), Contains("look rows up by id"));
  TableOptions options = HashOptions(2, 4);
  options.hash->max_rows = 3;
  CHECK(Must(strategy.CreateTable("few", options)).info().shards.size() == 3);  // a row each
  options = HashOptions(2, 1);
  options.initializer = GlorotUniform(1);
  CHECK_THAT(std::string(strategy.CreateTable("glorot", options).status().message()),
             Contains("known number of rows"));
}

TEST_CASE("a program reads all rows of a hash table, whatever its shards", "[api][hash]") {
  for (const int shards : {1, 3}) {
    ParameterServerStrategy strategy(MustStart(2, 1));
    const EmbeddingTable table = Must(strategy.CreateTable("t", HashOptions(2, shards)));
    CHECK(table.num_shards() == shards);
    CHECK(AllRowsOf(&strategy, table).empty());
    std::vector<int64_t> ids;
    std::vector<float> values;
    for (int64_t id = 0; id < 100; ++id) {
      ids.push_back(id * 7919 - 300);
      values.insert(values.end(), {static_cast<float>(id), -static_cast<float>(id)});
    }
    Must(strategy.WriteIds(table.info(), Tensor::FromVector(ids),
                           Tensor::FromVector(values, Shape{100, 2}).value()));
    const Rows rows = AllRowsOf(&strategy, table);
    CHECK(rows == RowsOf(&strategy, table));
    CHECK(rows.size() == 100);
  }
}

}  // namespace
}  // namespace coxswain
