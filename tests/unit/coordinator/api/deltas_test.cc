// Incremental checkpoints of a program: who reads them sees all rows.
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/api/table_words.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/export/selected_rows.h"
#include "coordinator/model/saved_reader.h"
#include "coxswain/checkpoint.h"
#include "runtime/checkpoint/manifest.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"

namespace coxswain {
namespace {

namespace fs = std::filesystem;

using testing::Must;
using testing::MustStart;
using testing::Same;

constexpr int64_t kRows = 3000, kDim = 4;

CheckpointOptions In(const DataFiles& dir) {
  CheckpointOptions options;
  options.directory = dir.Path("checkpoints");
  options.every = absl::ZeroDuration();  // only by Save
  options.keep = 3;
  options.max_delta_share = 10;
  return options;
}

// A table in each order of rows, and one of any ids.
struct Program {
  Program(const Cluster& cluster, CheckpointManager* checkpoints)
      : strategy(cluster), coordinator(strategy) {
    Must(checkpoints->Restore(&strategy));
    for (const char* order : {"mod", "div", "hash"}) {
      TableOptions options;
      options.rows = kRows;
      options.dim = kDim;
      options.optimizer = Adagrad{.learning_rate = 0.1};
      options.initializer = UniformInit(-1, 1, 3);
      options.partitioner = FixedShards(2);
      if (std::string(order) == "hash") {
        options.hash.emplace().ttl_steps = 60;
      } else {
        options.sharding = Must(ParseSharding(order));
      }
      tables.push_back(Must(strategy.CreateTable(order, options)));
    }
    step = Must(strategy.Define("step", [&](FunctionBuilder& g) {
      const Output ids = g.Argument("ids", DType::kI64, Shape{3});
      Output loss = g.Sum(g.Square(g.Lookup(tables[0], ids)));
      for (size_t t = 1; t < tables.size(); ++t) {
        loss = g.Add(loss, g.Sum(g.Square(g.Lookup(tables[t], ids))));
      }
      g.Minimize(loss);
      g.Result("loss", loss);
    }));
  }
  void Steps(int64_t n) {
    for (int64_t i = 0; i < n; ++i, ++done) {
      coordinator.Schedule(step, {Tensor::FromVector<int64_t>({done * 7 % kRows, done % 10 + 2000,
                                                               (done / 5) * 11 % 500 + 2500})});
    }
    Must(coordinator.Join());
  }
  std::map<int64_t, std::vector<float>> HashRows() {
    std::map<int64_t, std::vector<float>> rows;
    for (int shard = 0; shard < 2; ++shard) {
      int64_t place = 0;
      do {
        const auto read = Must(strategy.ReadIds(tables[2].info(), shard, place, 100));
        for (int64_t i = 0; i < read.ids.dim(0); ++i) {
          const float* row = read.rows.data<float>() + i * kDim;
          rows[read.ids.data<int64_t>()[i]] = {row, row + kDim};
        }
        place = read.next;
      } while (place > 0);
    }
    return rows;
  }

  ParameterServerStrategy strategy;
  ClusterCoordinator coordinator;
  std::vector<EmbeddingTable> tables;
  RemoteFunction step;
  int64_t done = 0;
};

std::map<int64_t, std::vector<float>> LiveRows(const model::SavedRows& rows) {
  std::map<int64_t, std::vector<float>> live;
  std::vector<int64_t> ids(static_cast<size_t>(rows.rows()));
  std::vector<char> used(ids.size());
  std::vector<float> values(ids.size() * kDim);
  Must(rows.ReadIds(0, rows.rows(), ids.data()));
  Must(rows.ReadLive(0, rows.rows(), used.data()));
  Must(rows.ReadFloats(0, rows.rows(), values.data()));
  for (size_t i = 0; i < ids.size(); ++i) {
    const float* row = values.data() + i * kDim;
    if (used[i]) live[ids[i]] = {row, row + kDim};
  }
  return live;
}

// The newest checkpoint has what the program has.
void CheckSaved(Program* program, const std::string& directory) {
  const auto source = Must(model::SavedSource::OpenCheckpoint(directory, std::nullopt));
  for (const int t : {0, 1}) {
    INFO("table " << t);
    const model::SavedRows rows = Must(source.Open(t == 0 ? "mod" : "div"));
    Must(rows.Verify());
    Tensor read(DType::kF32, Shape{kRows, kDim});
    Must(rows.ReadFloats(0, kRows, read.mutable_data<float>()));
    CHECK(Same(read, Must(program->strategy.Read(program->tables[static_cast<size_t>(t)]))));
  }
  const model::SavedRows hash = Must(source.Open("hash"));
  CHECK(LiveRows(hash) == program->HashRows());
  CHECK(Must(hash.FindId(program->HashRows().begin()->first)) >= 0);
  CHECK(Must(hash.FindId(77777)) == -1);
}

TEST_CASE("a checkpoint with deltas is read, exported and gone on from as a whole one",
          "[checkpoint][deltas]") {
  const DataFiles dir;
  std::vector<Tensor> last;
  {
    CheckpointManager checkpoints(In(dir));
    const Cluster cluster = MustStart(2, 1);
    Program program(cluster, &checkpoints);
    Must(checkpoints.Start(cluster));
    int64_t before = 0;
    for (uint64_t number = 1; number <= 6; ++number) {
      INFO("checkpoint " << number);
      program.Steps(40);
      Must(checkpoints.Save());
      CheckSaved(&program, In(dir).directory);
      const std::string path =
          absl::StrCat(In(dir).directory, "/", checkpoint::CheckpointName(number));
      const checkpoint::Manifest manifest =
          Must(checkpoint::ReadManifest(env::NewRealFileSystem().get(), path));
      const int64_t written = cluster.Stats().checkpoints.bytes - before;
      before += written;
      CHECK(manifest.written_bytes() == written);
      CHECK((manifest.written_bytes() < manifest.bytes()) == (number > 2));
      for (const proto::SavedShard& shard : manifest.shards) {
        if (!shard.shard().variable().table()) continue;
        CHECK(shard.deltas_size() == static_cast<int>(number - 1) / 2);
        for (const checkpoint::ShardFile& file : checkpoint::FilesOf(shard)) {
          // In common with every second one, and never with the one before.
          const fs::path name = fs::path(path) / file.file;
          const fs::path older =
              fs::path(In(dir).directory) / checkpoint::CheckpointName(number - 1) / file.file;
          if (fs::exists(older)) CHECK_FALSE(fs::equivalent(name, older));
        }
      }
    }
    for (const int t : {0, 1}) {
      last.push_back(Must(program.strategy.Read(program.tables[static_cast<size_t>(t)])));
    }
    // What changed since the one before: rows of 40 steps.
    const auto source = Must(model::SavedSource::OpenCheckpoint(In(dir).directory, 6));
    const auto older = Must(model::SavedSource::OpenCheckpoint(In(dir).directory, 5));
    const model::SavedRows base = Must(older.Open("mod"));
    const exporter::SelectedRows changed =
        Must(exporter::SelectedRows::Create(Must(source.Open("mod")), &base, nullptr));
    CHECK(changed.rows() == 40 + 10 + 8);
  }
  CheckpointManager checkpoints(In(dir));
  Must(checkpoints.Find());
  REQUIRE(checkpoints.found());
  CHECK(checkpoints.manifest().number == 6);
  ClusterOptions options;
  options.threads = 2;
  options.min_epoch = checkpoints.min_epoch();
  const Cluster cluster = Must(Cluster::InProcess(3, 1, options));
  Program program(cluster, &checkpoints);
  program.done = 240;
  CHECK(Must(checkpoints.RunPending(&program.coordinator, {program.step})).empty());
  for (const int t : {0, 1}) {
    CHECK(Same(Must(program.strategy.Read(program.tables[static_cast<size_t>(t)])),
               last[static_cast<size_t>(t)]));
  }
  Must(checkpoints.Start(cluster));
  // The second one builds on what the program went on from.
  for (uint64_t number = 7; number <= 8; ++number) {
    program.Steps(40);
    Must(checkpoints.Save());
    CheckSaved(&program, In(dir).directory);
    const std::string path =
        absl::StrCat(In(dir).directory, "/", checkpoint::CheckpointName(number));
    const checkpoint::Manifest manifest =
        Must(checkpoint::ReadManifest(env::NewRealFileSystem().get(), path));
    CHECK(manifest.shards[0].deltas_size() == (number == 7 ? 0 : 3));
  }
}

TEST_CASE("rows that are written from outside are in the next checkpoint", "[checkpoint][deltas]") {
  const DataFiles dir;
  CheckpointOptions options = In(dir);
  options.keep = 1;
  CheckpointManager checkpoints(options);
  const Cluster cluster = MustStart(1, 1);
  Program program(cluster, &checkpoints);
  Must(checkpoints.Start(cluster));
  program.Steps(10);
  Must(checkpoints.Save());
  // No update tells of it.
  Must(program.strategy.Assign(program.tables[0], Tensor::Zeros(DType::kF32, Shape{kRows, kDim})));
  Must(checkpoints.Save());
  CheckSaved(&program, options.directory);
  program.Steps(10);
  Must(checkpoints.Save());
  CheckSaved(&program, options.directory);
  const auto found = Must(
      checkpoint::NewestGoodCheckpoint(env::NewRealFileSystem().get(), options.directory, nullptr));
  CHECK(found.manifest->shards.back().deltas_size() == 1);
}

}  // namespace
}  // namespace coxswain
