#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ps_server/shard.h"
#include "ps_server/shard_store.h"
#include "runtime/tensor/initializer.h"
#include "tests/testing/data_files.h"
#include "tests/testing/hash_shards.h"
#include "tests/testing/hash_specs.h"
#include "tests/testing/logged.h"
#include "tests/testing/shards.h"

namespace coxswain::ps {
namespace {

using Catch::Contains;
using Kind = graph::Update::Kind;
using testing::Apply;
using testing::HashShardsOf;
using testing::HashTableOf;
using testing::Ids;
using testing::Make;
using testing::MakeHash;
using testing::OptimizerOf;
using testing::PickOfShard;
using testing::RandomTensor;
using testing::StepOf;
using testing::UpdateOf;
using testing::ValuesOf;
using testing::VariableOf;
using testing::WholeOf;

// One step: each id's row gets a gradient of ones.
void Step(Shard* shard, const std::vector<int64_t>& ids, const UpdateTime& time = {}) {
  Tensor ones(DType::kF32, Shape{static_cast<int64_t>(ids.size()), shard->layout().row_elements()});
  std::fill_n(ones.mutable_data<float>(), ones.num_elements(), 1.0f);
  Apply(shard, UpdateOf(Kind::kSparse, 1, ones, Ids(ids)), time);
}

std::vector<float> RowOf(const Shard& shard, int64_t id) {
  return ValuesOf<float>(shard.Gather(Ids({id})).value());
}

std::vector<float> InitialOf(const std::string& name, int64_t dim, int64_t id) {
  proto::InitializerSpec spec;
  spec.set_kind("normal");
  spec.set_seed(5);
  std::vector<float> row(static_cast<size_t>(dim));
  Initializer::Create(spec, name, Shape{-1, dim}, DType::kF32)
      .value()
      .FillRow(id, absl::MakeSpan(row));
  return row;
}

std::set<int64_t> IdsIn(const Shard& shard) {
  const std::vector<int64_t> ids = ValuesOf<int64_t>(shard.ReadIds(0, shard.rows()).value().ids);
  const std::set<int64_t> set(ids.begin(), ids.end());
  CHECK(set.size() == ids.size());
  CHECK(static_cast<int64_t>(set.size()) == shard.hash()->rows());
  return set;
}

std::string ErrorOf(const absl::Status& status) {
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST_CASE("hash table: reading makes no row, and an id without one reads what it will begin with") {
  auto shard = MakeHash(6);
  for (const int64_t id : {int64_t{0}, int64_t{-3}, std::numeric_limits<int64_t>::min(),
                           std::numeric_limits<int64_t>::max()}) {
    CHECK(RowOf(*shard, id) == InitialOf("users", 6, id));
  }
  CHECK(shard->hash()->rows() == 0);
  Step(shard.get(), {7, -3});
  CHECK(IdsIn(*shard) == std::set<int64_t>{-3, 7});
  std::vector<float> wanted = InitialOf("users", 6, -3);
  for (float& w : wanted) w -= 0.1f;
  CHECK(RowOf(*shard, -3) == wanted);
  // Some with rows and some without, in one gather.
  const auto rows = ValuesOf<float>(shard->Gather(Ids({5, -3, 6})).value());
  CHECK(std::vector<float>(rows.begin() + 6, rows.begin() + 12) == wanted);
  CHECK(std::vector<float>(rows.begin() + 12, rows.end()) == InitialOf("users", 6, 6));
  CHECK(shard->hash()->rows() == 2);
  // Adding rows makes them too.
  Apply(shard.get(),
        UpdateOf(Kind::kScatterAdd, 1,
                 Tensor::FromVector<float>({1, 1, 1, 1, 1, 1}, Shape{1, 6}).value(), Ids({9})));
  CHECK(RowOf(*shard, 9)[2] == InitialOf("users", 6, 9)[2] + 1);
}

TEST_CASE("hash table: every bit is that of a fixed table, whatever the shards and the order") {
  for (const char* optimizer :
       {"sgd", "adagrad", "rmsprop", "adam", "lazy_adam", "adamw", "ftrl", "rowwise_adagrad"}) {
    constexpr int64_t kIds = 700, kDim = 5;
    proto::VariableSpec fixed = VariableOf("users", {kIds, kDim}, true, OptimizerOf(optimizer));
    fixed.mutable_initializer()->set_kind("normal");
    fixed.mutable_initializer()->set_seed(5);
    auto reference = Make(WholeOf(fixed));
    std::vector<std::vector<std::unique_ptr<Shard>>> tables;
    for (const int count : {1, 2, 5}) {
      auto& shards = tables.emplace_back();
      const auto spec = HashTableOf("users", kDim, OptimizerOf(optimizer));
      for (const auto& s : HashShardsOf(spec, count)) shards.push_back(Make(s));
    }
    std::mt19937_64 random(3);
    for (int step = 0; step < 60; ++step) {
      std::set<int64_t> drawn;
      while (drawn.size() < 40) drawn.insert(static_cast<int64_t>(random() % kIds));
      std::vector<int64_t> ids(drawn.begin(), drawn.end());
      std::shuffle(ids.begin(), ids.end(), random);
      const Tensor rows = RandomTensor(Shape{40, kDim}, random());
      Apply(reference.get(), UpdateOf(Kind::kSparse, 1, rows, Ids(ids)));
      for (auto& shards : tables) {
        const auto count = static_cast<int64_t>(shards.size());
        for (int64_t s = 0; s < count; ++s) {
          const auto own = PickOfShard(ids, rows, s, count);
          Apply(shards[static_cast<size_t>(s)].get(),
                UpdateOf(Kind::kSparse, 1, own.rows, Ids(own.ids)));
        }
      }
    }
    for (auto& shards : tables) {
      CAPTURE(optimizer, shards.size());
      for (int64_t id = 0; id < kIds; ++id) {
        const int64_t s = HashShard(id, static_cast<int64_t>(shards.size()));
        REQUIRE(RowOf(*shards[static_cast<size_t>(s)], id) == RowOf(*reference, id));
      }
    }
  }
}

TEST_CASE("hash table: an id repeated in an update takes both gradients, also when it is new") {
  auto shard = MakeHash(2);
  Step(shard.get(), {4, 4});
  CHECK(RowOf(*shard, 4)[0] == InitialOf("users", 2, 4)[0] - 0.1f - 0.1f);
  CHECK(shard->hash()->rows() == 1);
}

TEST_CASE("hash table: with min_count an id gets its row with its third update, not before") {
  proto::HashTableSpec spec;
  spec.set_min_count(3);
  auto shard = MakeHash(2, spec);
  for (int i = 0; i < 2; ++i) {
    Step(shard.get(), {1, 2});
    CHECK(RowOf(*shard, 1) == InitialOf("users", 2, 1));
    CHECK(shard->hash()->rows() == 0);
    CHECK(shard->hash()->waiting() == 2);
    CHECK(shard->hash()->dropped() == 2 * (i + 1));
  }
  Step(shard.get(), {3, 1, 4});
  CHECK(IdsIn(*shard) == std::set<int64_t>{1});
  CHECK(RowOf(*shard, 1)[1] == InitialOf("users", 2, 1)[1] - 0.1f);
  CHECK(shard->hash()->waiting() == 3);
  CHECK(shard->hash()->dropped() == 6);
  CHECK(shard->applied() == 3);
}

TEST_CASE("hash table: admission by probability depends on id and step, not on shards or order") {
  proto::HashTableSpec spec;
  spec.set_admission_probability(0.25);
  constexpr int64_t kIds = 4000;
  const auto admitted = [&](int count, bool backwards) {
    std::set<int64_t> all;
    for (const auto& s : HashShardsOf(HashTableOf("users", 2, OptimizerOf("sgd"), spec), count)) {
      auto shard = Make(s);
      std::vector<int64_t> ids;
      for (int64_t id = 0; id < kIds; ++id) {
        if (HashShard(id, count) == s.index()) ids.push_back(id);
      }
      if (backwards) std::reverse(ids.begin(), ids.end());
      Step(shard.get(), ids, {9, 0, 0});
      all.merge(IdsIn(*shard));
    }
    return all;
  };
  const std::set<int64_t> one = admitted(1, false);
  CHECK(std::abs(static_cast<double>(one.size()) - 0.25 * kIds) < 110);  // 4 standard deviations
  CHECK(admitted(1, true) == one);
  CHECK(admitted(3, false) == one);
  // Another step draws anew.
  auto shard = MakeHash(2, spec);
  for (uint32_t step = 0; step < 60; ++step) Step(shard.get(), {1, 2, 3}, {9, step, 0});
  CHECK(IdsIn(*shard) == std::set<int64_t>{1, 2, 3});
}

TEST_CASE("hash table: rows that no update has touched for ttl_steps go, the others stay") {
  proto::HashTableSpec spec;
  spec.set_ttl_steps(10);
  auto shard = MakeHash(2, spec);
  Step(shard.get(), {1, 2, 3});
  for (int i = 0; i < 9; ++i) Step(shard.get(), {2});
  CHECK(IdsIn(*shard) == std::set<int64_t>{1, 2, 3});
  Step(shard.get(), {2});  // the tenth after theirs
  CHECK(IdsIn(*shard) == std::set<int64_t>{2});
  CHECK(shard->hash()->evicted() == 2);
  CHECK(RowOf(*shard, 1) == InitialOf("users", 2, 1));
  // Back it begins anew, in a place that was free.
  Step(shard.get(), {1});
  CHECK(RowOf(*shard, 1)[0] == InitialOf("users", 2, 1)[0] - 0.1f);
  CHECK(shard->rows() == 3);
}

TEST_CASE("hash table: an update at a learning rate of zero uses its rows as any other does") {
  for (const std::string optimizer : {"sgd", "momentum", "adagrad", "rowwise_adagrad", "rmsprop",
                                      "adam", "lazy_adam", "adamw", "ftrl"}) {
    CAPTURE(optimizer);
    proto::OptimizerSpec spec = OptimizerOf(optimizer);
    spec.mutable_schedule()->set_kind("linear_decay");
    spec.mutable_schedule()->set_decay_steps(1);
    proto::HashTableSpec hash;
    hash.set_ttl_steps(10);
    auto shard = Make(HashShardsOf(HashTableOf("users", 2, spec, hash), 1)[0]);
    Step(shard.get(), {1, 2, 3});
    // From here on the rate is zero; id 4 comes by such an update.
    for (int i = 0; i < 10; ++i) Step(shard.get(), {2, 4});
    CHECK(IdsIn(*shard) == std::set<int64_t>{2, 4});
  }
}

TEST_CASE("hash table: rows that no update has touched for ttl_seconds go, by the updates' clock") {
  proto::HashTableSpec spec;
  spec.set_ttl_seconds(100);
  auto shard = MakeHash(2, spec);
  const double start = 1.7e9;
  Step(shard.get(), {1, 2}, {1, 0, start});
  double now = start;
  while (now < start + 99) Step(shard.get(), {2}, {1, 0, now += 0.5});
  CHECK(IdsIn(*shard) == std::set<int64_t>{1, 2});
  // Kept to a 64th of the time.
  while (now < start + 102) Step(shard.get(), {2}, {1, 0, now += 0.5});
  CHECK(IdsIn(*shard) == std::set<int64_t>{2});
  // After a long break all is old but what is updated now.
  Step(shard.get(), {5}, {1, 0, now + 1000});
  CHECK(IdsIn(*shard) == std::set<int64_t>{5});
}

std::vector<int64_t> IdsFrom(int64_t begin, int64_t n) {
  std::vector<int64_t> ids(static_cast<size_t>(n));
  std::iota(ids.begin(), ids.end(), begin);
  return ids;
}

TEST_CASE("hash table: with ttl_steps it is bounded, however many new ids each update brings") {
  constexpr int64_t kTtl = 3, kNew = 30'000;  // more than an update looks at else
  proto::HashTableSpec spec;
  spec.set_ttl_steps(kTtl);
  auto shard = MakeHash(1, spec);
  for (int64_t step = 0; step < 40; ++step) Step(shard.get(), IdsFrom(step * kNew, kNew));
  CHECK(shard->hash()->rows() <= (2 * kTtl + 2) * kNew);
  CHECK(shard->rows() <= (2 * kTtl + 2) * kNew);
}

TEST_CASE("hash table: ttl_seconds is kept in a large table whose updates name few ids") {
  constexpr int64_t kRows = 300'000;
  proto::HashTableSpec spec;
  spec.set_ttl_seconds(600);
  auto shard = MakeHash(1, spec);
  double now = 1000;
  for (int64_t id = 0; id < kRows; id += 10'000) {
    Step(shard.get(), IdsFrom(id, 10'000), {1, 0, now});
  }
  while (now < 1000 + 590) Step(shard.get(), {-1}, {1, 0, now += 1});
  CHECK(shard->hash()->rows() == kRows + 1);
  // A sixth of the time later: they are counted in 64ths, and all have had their turn in an eighth.
  while (now < 1000 + 700) Step(shard.get(), {-1}, {1, 0, now += 1});
  CHECK(shard->hash()->rows() == 1);
}

TEST_CASE("hash table: a long rest does not make one update look at all of a large table") {
  constexpr int64_t kRows = 60'000;
  proto::HashTableSpec spec;
  spec.set_ttl_seconds(100);
  auto shard = MakeHash(1, spec);
  Step(shard.get(), IdsFrom(0, kRows), {1, 0, 1000});
  Step(shard.get(), {-1}, {1, 0, 1e15});
  CHECK(shard->hash()->evicted() == 1 << 14);
  for (int i = 0; i < 3; ++i) Step(shard.get(), {-1}, {1, 0, 1e15 + 50 * (i + 1)});
  CHECK(shard->hash()->rows() == 1);
}

TEST_CASE("hash table: with min_count ids get their rows however many others wait") {
  constexpr int64_t kIds = 1'200'000, kAtOnce = 50'000;  // once in each round
  proto::HashTableSpec spec;
  spec.set_min_count(2);
  auto shard = MakeHash(1, spec);
  for (int round = 0; round < 2; ++round) {
    CHECK(shard->hash()->rows() == 0);
    for (int64_t id = 0; id < kIds; id += kAtOnce) Step(shard.get(), IdsFrom(id, kAtOnce));
  }
  CHECK(shard->hash()->rows() == kIds);
  CHECK(shard->hash()->waiting() == 0);
}

// The id with this hash.
int64_t WithHash(uint64_t hash) {
  const auto unshifted = [](uint64_t x, int bits) {
    uint64_t before = x;
    for (int known = bits; known < 64; known += bits) before = x ^ (before >> bits);
    return before;
  };
  // The factor whose product with an odd one is 1: each step doubles the bits that are right.
  const auto inverse = [](uint64_t odd) {
    uint64_t to = odd;
    for (int i = 0; i < 6; ++i) to *= 2 - odd * to;
    return to;
  };
  uint64_t x = unshifted(hash, 31);
  x = unshifted(x * inverse(0x94d049bb133111ebu), 27);
  x = unshifted(x * inverse(0xbf58476d1ce4e5b9u), 30);
  const auto id = static_cast<int64_t>(x - kSplitMixStep);
  REQUIRE(HashId(id) == hash);
  return id;
}

TEST_CASE("hash table: when too many ids wait for their rows, the shard says so, once") {
  // In one set, so that not millions are needed.
  constexpr int64_t kTold = 129'024, kAtOnce = 10'000;
  proto::HashTableSpec spec;
  spec.set_min_count(2);
  auto shard = MakeHash(1, spec);
  const DataFiles files;
  uint64_t next = 1;
  const auto come = [&](int64_t n) {
    return testing::Logged(files, [&] {
      for (int64_t done = 0; done < n; done += kAtOnce) {
        std::vector<int64_t> ids(static_cast<size_t>(std::min(kAtOnce, n - done)));
        for (int64_t& id : ids) id = WithHash(next++ << 41);
        Step(shard.get(), ids);
      }
    });
  };
  CHECK(come(kTold) == "");
  CHECK_THAT(come(kAtOnce), Contains("table 'users', shard 0 of 1") &&
                                Contains("at most 8257536") && Contains("min_count"));
  CHECK(come(3 * kTold) == "");
  CHECK(shard->hash()->rows() == 0);
  CHECK(shard->hash()->waiting() == WaitingIds::kWays);
}

TEST_CASE("hash table: a row that is made has not changed before, also in a place that was free") {
  const std::string optimizer = GENERATE("adagrad", "adam");
  CAPTURE(optimizer);
  proto::HashTableSpec spec;
  spec.set_max_rows(100);
  auto shard = MakeHash(2, spec, optimizer);
  const auto late = [&](const std::vector<int64_t>& ids) {
    Tensor ones(DType::kF32, Shape{static_cast<int64_t>(ids.size()), 2});
    std::fill_n(ones.mutable_data<float>(), ones.num_elements(), 1.0f);
    const graph::Update update = UpdateOf(Kind::kSparse, 1, ones, Ids(ids));
    const graph::Update* const one = &update;
    REQUIRE(shard->Reserve(ones.dim(0)).ok());
    return shard->ApplySegment(absl::MakeConstSpan(&one, 1),
                               {1, 0, 0.0, std::min<int64_t>(5, shard->applied())});
  };
  for (int64_t step = 0; step < 50; ++step) {
    const Shard::NamedRows rows = late(IdsFrom(step * 20, 20));
    CHECK(rows.all == 20);
    CHECK(rows.changed == 0);
  }
  CHECK(shard->hash()->evicted() > 800);
  CHECK(late({999}).changed == 1);
  // A checkpoint of the changes has all rows that were made.
  std::vector<int64_t> touched;
  const int64_t before = shard->applied();
  const Shard::NamedRows rows = late(IdsFrom(5000, 20));
  REQUIRE(rows.all == 20);
  const auto snapshot = shard->Snapshot();
  REQUIRE(snapshot->FindTouched(0, shard->rows(), before, &touched).ok());
  std::set<int64_t> found;
  for (const int64_t place : touched) {
    if (!shard->hash()->IsFree(place)) found.insert(shard->hash()->id(place));
  }
  for (int64_t id = 5000; id < 5020; ++id)
    CHECK(found.contains(id) == (IdsIn(*shard).contains(id)));
}

// Exactly the ids of the last updates, most recent first.
class RecentIds {
 public:
  explicit RecentIds(size_t most) : most_(most) {}
  void Update(const std::vector<int64_t>& ids, int64_t step) {
    for (const int64_t id : ids) last_[id] = step;
    while (last_.size() > most_) {
      last_.erase(std::min_element(last_.begin(), last_.end(), [](const auto& a, const auto& b) {
        return a.second < b.second;
      }));
    }
  }
  int64_t Below(int64_t id) const {
    return std::count_if(last_.begin(), last_.end(), [id](const auto& e) { return e.first < id; });
  }

 private:
  const size_t most_;
  std::map<int64_t, int64_t> last_;
};

TEST_CASE("hash table: max_rows keeps what was updated last, or most often") {
  for (const std::string evict : {"recency", "frequency"}) {
    CAPTURE(evict);
    proto::HashTableSpec spec;
    spec.set_max_rows(1000);
    spec.set_evict(evict);
    auto shard = MakeHash(2, spec);
    RecentIds exact(1000);
    std::mt19937_64 random(4);
    // 500 ids come again and again, among others that come once.
    int64_t next = 1000;
    for (int step = 0; step < 300; ++step) {
      std::vector<int64_t> ids;
      for (int i = 0; i < 20; ++i) ids.push_back(next++);
      for (int i = 0; i < 30; ++i) ids.push_back(static_cast<int64_t>(random() % 500));
      Step(shard.get(), ids);
      exact.Update(ids, step);
      REQUIRE(shard->hash()->rows() <= 1000);
    }
    const std::set<int64_t> left = IdsIn(*shard);
    CHECK(left.size() == 1000);
    const auto often = std::count_if(left.begin(), left.end(), [](int64_t id) { return id < 500; });
    // A sample of rows decides who goes, so it is nearly what an exact order would give.
    if (evict == "recency") CHECK(often > 9 * exact.Below(500) / 10);
    if (evict == "frequency") CHECK(often >= 490);
    // Of those that came once, the latest.
    const auto late =
        std::count_if(left.begin(), left.end(), [&](int64_t id) { return id >= next - 1200; });
    CHECK(late > 1000 - often - 100);
    CHECK(shard->rows() <= 1100);  // places of rows that went are taken again
  }
}

TEST_CASE("hash table: a row budget is split among the shards, no row too many or too few") {
  proto::HashTableSpec spec;
  spec.set_max_rows(10);
  int64_t all = 0;
  for (const auto& s : HashShardsOf(HashTableOf("users", 2, OptimizerOf("sgd"), spec), 3)) {
    auto shard = Make(s);
    std::vector<int64_t> ids;
    for (int64_t id = 0; id < 100; ++id) {
      if (HashShard(id, 3) == s.index()) ids.push_back(id);
    }
    Step(shard.get(), ids);
    all += shard->hash()->rows();
  }
  CHECK(all == 10);
}

TEST_CASE("hash table: the same updates evict the same rows") {
  const auto run = [] {
    proto::HashTableSpec spec;
    spec.set_max_rows(300);
    spec.set_ttl_steps(40);
    spec.set_min_count(2);
    auto shard = MakeHash(2, spec);
    std::mt19937_64 random(8);
    for (int step = 0; step < 400; ++step) {
      std::vector<int64_t> ids;
      for (int i = 0; i < 30; ++i) ids.push_back(static_cast<int64_t>(random() % 2000));
      std::sort(ids.begin(), ids.end());
      Step(shard.get(), ids);
    }
    return std::pair(IdsIn(*shard), shard->hash()->evicted());
  };
  CHECK(run() == run());
  CHECK(run().second > 1000);
}

TEST_CASE("hash table: rows are read and written by id, whether they are there or not") {
  auto shard = MakeHash(3);
  Step(shard.get(), {1, 2, 3});
  const Tensor rows = RandomTensor(Shape{2, 3}, 1);
  REQUIRE(shard->WriteIds(Ids({2, 50}), rows).ok());
  CHECK(IdsIn(*shard) == std::set<int64_t>{1, 2, 3, 50});
  CHECK(ValuesOf<float>(shard->Gather(Ids({2, 50})).value()) == ValuesOf<float>(rows));
  CHECK(shard->applied() == 1);
  // In pieces, and a part of them.
  std::map<int64_t, int64_t> touched;
  for (int64_t begin = 0; begin < shard->rows(); ++begin) {
    const auto read = shard->ReadIds(begin, 1, shard->plan().Find(kTouchedPart)).value();
    for (int64_t i = 0; i < read.ids.dim(0); ++i) {
      touched[read.ids.data<int64_t>()[i]] = read.rows.data<int64_t>()[i];
    }
  }
  CHECK(touched == std::map<int64_t, int64_t>{{1, 1}, {2, 2}, {3, 1}, {50, 2}});
}

TEST_CASE("hash table: what it cannot do is refused, and says why") {
  const auto shards = HashShardsOf(HashTableOf("users", 2, OptimizerOf("sgd")), 2);
  auto shard = Make(shards[0]);
  CHECK_THAT(ErrorOf(shard->Read().status()), Contains("cannot be read whole"));
  const Tensor row = RandomTensor(Shape{1, 2}, 1);
  CHECK_THAT(ErrorOf(shard->Validate(UpdateOf(Kind::kAssign, 1, RandomTensor(Shape{0, 2}, 1)))),
             Contains("updated by ids"));
  int64_t other = 0;
  while (HashShard(other, 2) == 0) ++other;
  CHECK_THAT(ErrorOf(shard->Gather(Ids({other})).status()), Contains("belongs to shard 1 of 2"));
  CHECK_THAT(ErrorOf(shard->Validate(UpdateOf(Kind::kSparse, 1, row, Ids({other})))),
             Contains("belongs to shard 1 of 2"));
  CHECK(shard->Reserve(HashIndex::kMaxRows).code() == absl::StatusCode::kResourceExhausted);
  CHECK(shard->Reserve(5).ok());
  const auto bad = [&](auto change) {
    proto::ShardSpec spec = shards[0];
    change(spec, *spec.mutable_variable()->mutable_hash());
    return ErrorOf(Shard::Create(spec).status());
  };
  using Spec = proto::ShardSpec;
  using Hash = proto::HashTableSpec;
  CHECK_THAT(bad([](Spec& s, Hash&) { s.set_strategy("mod"); }), Contains("strategy hash"));
  CHECK_THAT(bad([](Spec& s, Hash&) { s.set_rows(3); }), Contains("begins without rows"));
  CHECK_THAT(bad([](Spec& s, Hash&) { s.mutable_variable()->mutable_shape()->set_dims(0, 5); }),
             Contains("-1"));
  CHECK_THAT(bad([](Spec& s, Hash&) {
               s.mutable_variable()->mutable_initializer()->set_kind("glorot_uniform");
             }),
             Contains("known number of rows"));
  CHECK_THAT(bad([](Spec&, Hash& h) { h.set_min_count(-1); }), Contains("min_count"));
  CHECK_THAT(bad([](Spec&, Hash& h) { h.set_admission_probability(1.5); }),
             Contains("admission_probability") && Contains("1.5"));
  CHECK_THAT(bad([](Spec&, Hash& h) { h.set_min_count(2), h.set_admission_probability(0.5); }),
             Contains("both"));
  CHECK_THAT(bad([](Spec&, Hash& h) { h.set_ttl_seconds(-1); }), Contains("ttl_seconds"));
  CHECK_THAT(bad([](Spec&, Hash& h) { h.set_max_rows(1); }), Contains("at least one a shard"));
  CHECK_THAT(bad([](Spec&, Hash& h) { h.set_evict("random"); }), Contains("'frequency'"));
}

TEST_CASE("hash table: updates of one segment find room together, and none is taken twice") {
  ShardStore store;
  REQUIRE(store.Add(HashShardsOf(HashTableOf("users", 4, OptimizerOf("adagrad")), 1)[0]).ok());
  for (ClosureId closure = 1; closure <= 30; ++closure) {
    for (int attempt = 0; attempt < 2; ++attempt) {
      SegmentTransaction segment(&store);
      for (uint32_t key = 0; key < 3; ++key) {
        std::vector<int64_t> ids;
        for (int64_t i = 0; i < 5000; ++i) {
          ids.push_back((static_cast<int64_t>(closure * 3 + key) << 32) + i);
        }
        graph::Update update =
            UpdateOf(Kind::kSparse, 1, RandomTensor(Shape{5000, 4}, key), Ids(ids));
        update.key = key;
        REQUIRE(segment.Stage(std::move(update)).ok());
      }
      const CommitResult result = segment.Commit(StepOf(closure));
      CHECK(result.applied == (attempt == 0 ? 1 : 0));
      CHECK(result.duplicates == attempt);
    }
  }
  const std::vector<ShardStats> stats = store.Stats();
  CHECK(stats[0].rows == 30 * 15000);
  CHECK(stats[0].bytes > 30 * 15000 * (32 + 16));
  CHECK(stats[0].pushed == 30 * 15000);  // what came twice is not counted
  SegmentTransaction reads(&store);
  REQUIRE(reads.Gather(1, Ids({1, 2, 3})).ok());
  CHECK(store.Stats()[0].pulled == 3);
}

}  // namespace
}  // namespace coxswain::ps
