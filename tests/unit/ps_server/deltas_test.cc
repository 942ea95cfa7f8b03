// Incremental saves: what has changed since an older checkpoint is written, the rest are links.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/graph/builder.h"
#include "tests/testing/data_files.h"
#include "tests/testing/hash_specs.h"
#include "tests/testing/ps_daemon.h"
#include "tests/testing/ps_specs.h"

namespace coxswain::ps {
namespace {

namespace fs = std::filesystem;

using Catch::Contains;
using testing::ClusterOps;
using testing::Ids;
using testing::OptimizerOf;
using testing::PsDaemon;
using testing::RandomTensor;
using testing::ShardOf;
using testing::SplitOf;
using testing::VariableOf;
using testing::WholeOf;

constexpr int64_t kRows = 400;
const std::vector<ShardId> kAll = {2, 3, 4, 5, 6, 7};

proto::ShardSpec Narrow() {
  proto::VariableSpec spec =
      VariableOf("narrow", {kRows, 4}, true, OptimizerOf("rowwise_adagrad"), DType::kBF16);
  spec.mutable_initializer()->set_kind("normal");
  spec.set_rounding("stochastic");
  return WholeOf(spec, 3);
}

proto::ShardSpec Hash() {
  proto::HashTableSpec hash;
  hash.set_min_count(2);
  hash.set_ttl_steps(6);
  return testing::HashShardsOf(testing::HashTableOf("ids", 4, OptimizerOf("adagrad"), hash), 1,
                               4)[0];
}

// Tables, one of which nobody updates, and a dense variable of each kind: updated and not.
std::vector<proto::ShardSpec> Specs() {
  return {
      SplitOf(VariableOf("users", {2 * kRows, 4}, true, OptimizerOf("lazy_adam")), 2, "mod", 1)[1],
      Narrow(),
      Hash(),
      WholeOf(VariableOf("still", {50, 4}, true, OptimizerOf("sgd")), 5),
      WholeOf(VariableOf("w", {3, 2}, false, OptimizerOf("adam")), 6),
      WholeOf(VariableOf("bias", {5}, false, OptimizerOf("momentum"), DType::kF64), 7)};
}

graph::Function Step() {
  graph::GraphBuilder b("step", &ClusterOps());
  const Output ids = b.Argument("ids", DType::kI64, Shape{kUnknownDim});
  const Output rows = b.Argument("rows", DType::kF32, Shape{kUnknownDim, 4});
  for (const ShardId table : {2, 3, 4}) b.Target("ApplySparse", {ids, rows}, ShardOf(table));
  b.Target("ApplyDense", {b.Argument("w", DType::kF32, Shape{3, 2})}, ShardOf(6));
  auto function = b.Finish();
  REQUIRE(function.ok());
  return *std::move(function);
}

// Rows that differ from step to step, some of which come again.
net::Message StepFrame(const PsDaemon& ps, ClosureId closure) {
  const auto c = static_cast<int64_t>(closure);
  return ps.Frame(1, closure,
                  {Ids({c % 5, 10 + c * 7 % 31, 200 + c / 4, kRows - 1 - c % 3}),
                   RandomTensor(Shape{4, 4}, closure), RandomTensor(Shape{3, 2}, closure + 1)});
}

struct Trained {
  explicit Trained(const std::vector<proto::ShardSpec>& specs = Specs()) {
    REQUIRE(ps.Create(specs).ok());
    REQUIRE(ps.Register(1, Step()).ok());
    worker = ps.ConnectWorker(0);
  }
  void Steps(int n) {
    for (int i = 0; i < n; ++i) {
      REQUIRE(PsDaemon::Push(worker.get(), StepFrame(ps, ++closure)).ok());
    }
  }
  // Into the directory `name`, with what was saved in another one as bases.
  proto::ControlRequest SaveRequest(const std::string& name, const proto::ShardsSaved& bases,
                                    const std::string& base, int max_deltas = 8,
                                    double share = 0.5) {
    REQUIRE(env::NewRealFileSystem()->MakeDirs(files.Path(name)).ok());
    proto::ControlRequest request = PsDaemon::SaveRequest(files.Path(name), kAll);
    request.mutable_save_shards()->set_max_deltas(max_deltas);
    request.mutable_save_shards()->set_max_delta_share(share);
    for (const proto::SavedShard& shard : bases.shards()) {
      *request.mutable_save_shards()->add_bases() = checkpoint::WithPaths(shard, files.Path(base));
    }
    return request;
  }
  proto::ShardsSaved Save(const std::string& name, const proto::ShardsSaved& bases = {},
                          const std::string& base = "", int max_deltas = 8, double share = 0.5) {
    const auto reply = ps.Call(SaveRequest(name, bases, base, max_deltas, share));
    INFO(reply.status().ToString());
    REQUIRE(reply.ok());
    return reply->shards_saved();
  }
  // Whole files of all that the daemon has: what two must have in common.
  static std::vector<std::string> State(PsDaemon* daemon, const std::string& directory) {
    REQUIRE(env::NewRealFileSystem()->MakeDirs(directory).ok());
    const auto saved = daemon->Save(directory, kAll);
    REQUIRE(saved.ok());
    std::vector<std::string> state;
    for (const auto& shard : saved->shards()) state.push_back(shard.SerializeAsString());
    return state;
  }
  std::vector<std::string> State() { return State(&ps, files.Path("state")); }
  // What a daemon has that was restored from a save.
  std::vector<std::string> Restored(const std::string& name, const proto::ShardsSaved& saved) {
    PsDaemon other(1);
    const absl::Status restored = other.Restore(files.Path(name), saved);
    INFO(restored.ToString());
    REQUIRE(restored.ok());
    return State(&other, files.Path("other"));
  }
  std::string Content(const std::string& name, const std::string& file) const {
    return env::NewRealFileSystem()->Read(absl::StrCat(files.Path(name), "/", file)).value();
  }
  uint64_t Names(const std::string& name, const std::string& file) const {
    return fs::hard_link_count(absl::StrCat(files.Path(name), "/", file));
  }

  const DataFiles files;
  PsDaemon ps;
  std::unique_ptr<testing::PsPeer> worker;
  ClosureId closure = 0;
};

TEST_CASE("a chain of deltas gives back every shard as it was, bit for bit", "[ps_deltas]") {
  Trained t;
  t.Steps(5);
  std::vector<proto::ShardsSaved> saved = {t.Save("0")};
  for (const auto& shard : saved[0].shards()) {
    CHECK(shard.deltas().empty());
    CHECK(shard.bytes_written() == shard.bytes());
  }
  std::vector<std::vector<std::string>> states = {t.State()};
  for (int i = 1; i <= 4; ++i) {
    t.Steps(3);
    saved.push_back(t.Save(absl::StrCat(i), saved.back(), absl::StrCat(i - 1), 8, /*share=*/20));
    states.push_back(t.State());
    for (const auto& shard : saved.back().shards()) {
      INFO(shard.ShortDebugString());
      const ShardId id = shard.shard().id();
      CHECK(shard.deltas_size() == (id <= 4 ? i : 0));
      CHECK(t.Names(absl::StrCat(i), shard.file()) ==
            (id == 6 ? 1u : static_cast<uint64_t>(i) + 1));
      // The dense variable that changes is written as a whole.
      CHECK((shard.bytes_written() == 0) == (id == 5 || id == 7));
      if (id == 6) CHECK(shard.bytes_written() == shard.bytes());
      if (id > 4) continue;
      const proto::SavedDelta& last = shard.deltas(i - 1);
      CHECK(last.file() == absl::StrCat("shard-0000", id, ".delta-", i, ".safetensors"));
      CHECK(last.bytes() == shard.bytes_written());
      CHECK(last.bytes() == t.Content(absl::StrCat(i), last.file()).size());
      if (id <= 3) CHECK(last.rows() <= 12);
      if (id <= 3) CHECK(last.rows() >= 8);
    }
  }
  // Rows of the hash table went and others took their places meanwhile.
  CHECK(saved.back().shards(2).hash().evicted() > 0);
  for (size_t i = 0; i < saved.size(); ++i) {
    INFO(i);
    CHECK(t.Restored(absl::StrCat(i), saved[i]) == states[i]);
  }
  // What was restored goes on as what was saved.
  PsDaemon other(1);
  REQUIRE(other.Restore(t.files.Path("4"), saved[4]).ok());
  REQUIRE(other.Register(1, Step()).ok());
  auto worker = other.ConnectWorker(0);
  for (ClosureId c = t.closure + 1; c <= t.closure + 20; ++c) {
    REQUIRE(PsDaemon::Push(worker.get(), StepFrame(other, c)).ok());
  }
  t.Steps(20);
  CHECK(Trained::State(&other, t.files.Path("other")) == t.State());
}

TEST_CASE("rows that an update at a learning rate of zero made or counted are in the next delta",
          "[ps_deltas]") {
  for (const std::string optimizer : {"sgd", "ftrl"}) {
    CAPTURE(optimizer);
    std::vector<proto::ShardSpec> specs = Specs();
    proto::OptimizerSpec stops = OptimizerOf(optimizer);
    stops.mutable_schedule()->set_kind("linear_decay");
    stops.mutable_schedule()->set_decay_steps(5);
    *specs[2].mutable_variable()->mutable_optimizer() = stops;
    specs[2].mutable_variable()->mutable_hash()->Clear();  // no row goes
    Trained t(specs);
    t.Steps(10);
    const proto::ShardsSaved base = t.Save("base");
    t.Steps(10);
    const std::vector<std::string> state = t.State();
    const proto::ShardsSaved saved = t.Save("next", base, "base", 8, /*share=*/20);
    CHECK(saved.shards(2).deltas_size() == 1);
    CHECK(saved.shards(2).hash().places() > base.shards(2).hash().places());
    CHECK(t.Restored("next", saved) == state);
  }
}

TEST_CASE("a delta is a consistent cut while training goes on", "[ps_deltas]") {
  Trained t;
  t.Steps(5);
  const proto::ShardsSaved base = t.Save("base");
  t.Steps(4);
  const std::vector<std::string> state = t.State();
  t.ps.Send(t.SaveRequest("moving", base, "base"));
  int steps = 0;
  do {
    t.Steps(1);
    ++steps;
    CHECK_FALSE(t.ps.coordinator->HasMessage());
  } while (t.ps.env.step_pool.RunOne() && !t.ps.coordinator->HasMessage());
  CHECK(steps > 8);
  const proto::ControlReply moving = t.ps.coordinator->ReceiveReply();
  REQUIRE(cluster::FromProto(moving.status()).ok());
  CHECK(moving.shards_saved().shards(0).deltas_size() == 1);
  CHECK(t.Restored("moving", moving.shards_saved()) == state);
}

TEST_CASE("a chain that grows too long or too large ends with a whole file", "[ps_deltas]") {
  Trained t;
  t.Steps(1);
  proto::ShardsSaved last = t.Save("0");
  for (int i = 1; i <= 3; ++i) {
    t.Steps(1);
    last = t.Save(absl::StrCat(i), last, absl::StrCat(i - 1), /*max_deltas=*/2, /*share=*/10);
    for (const int shard : {0, 1, 2}) {
      CHECK(last.shards(shard).deltas_size() == (i < 3 ? i : 0));
      CHECK((last.shards(shard).bytes_written() == last.shards(shard).bytes()) == (i == 3));
    }
  }
  // Of 400 rows 4 are 1 %; those of a delta carry their number, too.
  t.Steps(1);
  const proto::ShardsSaved over = t.Save("over", last, "3", 8, 0.009);
  CHECK(over.shards(0).deltas().empty());
  const proto::ShardsSaved within = t.Save("within", last, "3", 8, 0.02);
  CHECK(within.shards(0).deltas_size() == 1);
  t.Steps(1);
  CHECK(t.Save("filled", within, "within", 8, 0.02).shards(0).deltas().empty());
  CHECK(t.Save("none", within, "within", 0).shards(0).deltas().empty());
  CHECK(t.Restored("within", within) != t.State());
}

TEST_CASE("where a base cannot be had or linked, all is written", "[ps_deltas]") {
  Trained t;
  t.Steps(5);
  const proto::ShardsSaved first = t.Save("first");
  t.Steps(2);
  const proto::ShardsSaved base = t.Save("base", first, "first");
  t.Steps(2);
  const std::vector<std::string> state = t.State();
  const auto whole = [&](const std::string& name, const proto::ShardsSaved& bases, int shard) {
    INFO(name);
    const proto::ShardsSaved saved = t.Save(name, bases, "base");
    CHECK(saved.shards(shard).deltas().empty());
    CHECK(saved.shards(shard).bytes_written() == saved.shards(shard).bytes());
    CHECK(t.Restored(name, saved) == state);
    // What was linked in vain is no more there.
    for (const auto& file : fs::directory_iterator(t.files.Path(name))) {
      CHECK_THAT(file.path().filename().string(),
                 !Contains(absl::StrCat("shard-0000", kAll[static_cast<size_t>(shard)], ".delta")));
    }
  };
  t.ps.env.disk.links = false;
  whole("unlinked", base, 0);
  t.ps.env.disk.links = true;
  proto::ShardsSaved other = base;
  other.mutable_shards(0)->mutable_shard()->mutable_variable()->mutable_optimizer()->set_kind(
      "adagrad");
  whole("optimizer", other, 0);
  other = base;
  other.mutable_shards(2)->mutable_hash()->set_places(1000);
  whole("places", other, 2);
  other = base;
  other.mutable_shards(1)->set_applied(1000);
  whole("newer", other, 1);
  const auto real = env::NewRealFileSystem();
  REQUIRE(
      real->RemoveAll(absl::StrCat(t.files.Path("base"), "/shard-00002.delta-1.safetensors")).ok());
  whole("missing", base, 0);
}

TEST_CASE("a save never writes into the files of an older checkpoint", "[ps_deltas]") {
  Trained t;
  t.Steps(5);
  const proto::ShardsSaved base = t.Save("base");
  const std::vector<std::string> before = t.State();
  t.Steps(2);
  // Into one directory twice: first there are links, then whole files in their place.
  t.Save("next", base, "base");
  const proto::ShardsSaved again = t.Save("next");
  CHECK(again.shards(0).deltas().empty());
  CHECK(t.Restored("next", again) == t.State());
  CHECK(t.Restored("base", base) == before);
  // The older one may go.
  const proto::ShardsSaved last = t.Save("last", base, "base");
  CHECK(last.shards(0).deltas_size() == 1);
  REQUIRE(env::NewRealFileSystem()->RemoveAll(t.files.Path("base")).ok());
  CHECK(t.Restored("last", last) == t.State());
}

TEST_CASE("a disk that fills up in a delta is an error that names it", "[ps_deltas]") {
  Trained t;
  t.Steps(5);
  const proto::ShardsSaved base = t.Save("base");
  t.Steps(2);
  t.ps.env.disk.room = 4100;
  const auto full = t.ps.Call(t.SaveRequest("next", base, "base"));
  CHECK(full.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK_THAT(std::string(full.status().message()),
             Contains("next/shard-00002.delta-1.safetensors"));
  t.ps.env.disk.room = int64_t{1} << 60;
  CHECK(t.Restored("later", t.Save("later", base, "base")) == t.State());
}

TEST_CASE("a delta that is not what was saved is refused by name", "[ps_deltas]") {
  Trained t;
  t.Steps(5);
  const proto::ShardsSaved base = t.Save("base");
  t.Steps(8);
  const proto::ShardsSaved saved = t.Save("next", base, "base", 8, /*share=*/20);
  REQUIRE(saved.shards(2).deltas_size() == 1);
  const std::vector<std::string> before = t.State();
  const auto real = env::NewRealFileSystem();
  const auto refuse = [&](const proto::ShardsSaved& from, const std::string& file,
                          const std::string& why) {
    const absl::Status status = t.ps.Restore(t.files.Path("next"), from);
    INFO(status.ToString());
    CHECK((absl::IsDataLoss(status) || absl::IsNotFound(status)));
    CHECK_THAT(std::string(status.message()), Contains(file) && Contains(why));
    CHECK(t.State() == before);
  };
  for (const int shard : {0, 2}) {
    const std::string file = saved.shards(shard).deltas(0).file();
    const std::string path = absl::StrCat(t.files.Path("next"), "/", file);
    const std::string content = real->Read(path).value();
    for (const size_t at : {size_t{9}, content.size() - 1}) {
      std::string flipped = content;
      flipped[at] = static_cast<char>(flipped[at] ^ 4);
      REQUIRE(real->WriteAtomically(path, flipped).ok());
      refuse(saved, file, "altered");
    }
    REQUIRE(real->WriteAtomically(path, content.substr(0, content.size() - 1)).ok());
    refuse(saved, file, "bytes");
    REQUIRE(real->RemoveAll(path).ok());
    refuse(saved, file, "No such file");
    // The rows of it: out of order, and beyond the shard.
    const size_t rows = env::kDirectBlock;  // behind the header
    for (const char first : {char{120}, char{-1}}) {
      std::string other = content;
      other[rows] = first;
      if (first < 0) other[rows + 7] = first;
      REQUIRE(real->WriteAtomically(path, other).ok());
      proto::ShardsSaved changed = saved;
      changed.mutable_shards(shard)->mutable_deltas(0)->set_crc32(
          checkpoint::Crc32(0, other.data(), other.size()));
      refuse(changed, file, "ascending rows");
    }
    proto::ShardsSaved fewer = saved;
    fewer.mutable_shards(shard)->mutable_deltas(0)->set_rows(2);
    REQUIRE(real->WriteAtomically(path, content).ok());
    refuse(fewer, file, "wanted tensor 'row'");
  }
  // The chain of a hash table is as long as its state says.
  proto::ShardsSaved cut = saved;
  cut.mutable_shards(2)->clear_deltas();
  refuse(cut, saved.shards(2).file(), "wanted tensor");
  proto::ShardsSaved moved = saved;
  *moved.mutable_shards(4)->add_deltas() = saved.shards(0).deltas(0);
  refuse(moved, saved.shards(0).deltas(0).file(), "no table");
  REQUIRE(t.ps.Restore(t.files.Path("next"), saved).ok());
}

TEST_CASE("a file that is none of a shard gets no second name in a checkpoint", "[ps_deltas]") {
  Trained t;
  t.Steps(3);
  const proto::ShardsSaved base = t.Save("base");
  t.files.Write("base/.bash_profile", "evil");
  for (const char* name :
       {".bash_profile", "manifest.json", "shard-.safetensors", "shard-1.safetensors.x",
        "shard-00001.delta-.safetensors", "shard-00001.delta-1.safetensors/..", ""}) {
    proto::ShardsSaved wrong = base;
    wrong.mutable_shards(0)->set_file(name);
    const auto reply = t.ps.Call(t.SaveRequest("next", wrong, "base"));
    INFO(name << ": " << reply.status());
    CHECK(absl::IsInvalidArgument(reply.status()));
    CHECK_FALSE(std::filesystem::exists(t.files.Path("next/.bash_profile")));
  }
  // A delta's name, too.
  proto::ShardsSaved wrong = base;
  wrong.mutable_shards(0)->add_deltas()->set_file(".bash_profile");
  CHECK(absl::IsInvalidArgument(t.ps.Call(t.SaveRequest("next", wrong, "base")).status()));
  CHECK_FALSE(std::filesystem::exists(t.files.Path("next/.bash_profile")));
}

}  // namespace
}  // namespace coxswain::ps
