// The values of the best evaluation: where they are, and that they come back.
#include "coordinator/runner/best_values.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "coordinator/api/variable_info.h"
#include "coxswain/checkpoint.h"
#include "runtime/checkpoint/safetensors.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"

namespace coxswain::runner {
namespace {

using testing::Must;
namespace fs = std::filesystem;

// A table, a hash table and a dense variable, with checkpoints of them.
struct Program {
  Program() : checkpoints(OptionsFor(directory)) {
    table = Must(strategy.CreateTable("table", {.rows = 5, .dim = 2}));
    TableOptions hashed;
    hashed.dim = 2;
    hashed.hash = HashTableOptions{};
    ids = Must(strategy.CreateTable("ids", hashed));
    dense = Must(strategy.CreateVariable("dense", {.shape = {3}}));
    Must(checkpoints.Start(cluster, [] { return std::string("{}"); }));
  }
  static CheckpointOptions OptionsFor(const std::string& directory) {
    CheckpointOptions options;
    options.directory = directory;
    options.every = absl::ZeroDuration();
    options.keep = 1;
    return options;
  }
  void Set(float value) {
    Must(strategy.Assign(table, Filled({5, 2}, value)));
    Must(strategy.Assign(dense, Filled({3}, value)));
    Must(strategy.RemoveIds(ids.info()));
    const std::vector<int64_t> some = {7, static_cast<int64_t>(value)};
    Must(strategy.WriteIds(ids.info(), *Tensor::FromVector<int64_t>(some, Shape{2}),
                           Filled({2, 2}, value)));
  }
  static Tensor Filled(const Shape& shape, float value) {
    Tensor t(DType::kF32, shape);
    for (int64_t i = 0; i < t.num_elements(); ++i) t.mutable_data<float>()[i] = value;
    return t;
  }
  bool Holds(float value) {
    bool same = testing::Same(Must(strategy.Read(table)), Filled({5, 2}, value)) &&
                testing::Same(Must(strategy.Read(dense)), Filled({3}, value));
    int64_t rows = 0;
    for (int s = 0; s < static_cast<int>(ids.info().shards.size()); ++s) {
      const auto read = Must(strategy.ReadIds(ids.info(), s, 0, 1000));
      rows += read.ids.dim(0);
      same = same && testing::Same(read.rows, Filled({read.ids.dim(0), 2}, value));
    }
    return same && rows == 2;
  }
  BestValues Best(bool with_directory) {
    return BestValues(&strategy, with_directory ? directory : "",
                      [this] { return checkpoints.Save(); });
  }

  DataFiles files;
  std::string directory = files.Path("checkpoints");
  Cluster cluster = testing::MustStart(2, 1);
  ParameterServerStrategy strategy{cluster};
  CheckpointManager checkpoints;
  EmbeddingTable table, ids;
  Variable dense;
};

TEST_CASE("best values come back, from memory and from links to a checkpoint", "[runner]") {
  for (const bool with_directory : {false, true}) {
    CAPTURE(with_directory);
    Program program;
    program.Set(1);
    BestValues best = program.Best(with_directory);
    const std::string name = Must(best.Keep(1200));
    CHECK(name == (with_directory ? "best-000001200" : ""));
    program.Set(2);
    REQUIRE(program.Holds(2));
    Must(best.Restore(name));
    CHECK(program.Holds(1));
  }
}

TEST_CASE("best values are there for a resumed job, when their checkpoint has gone", "[runner]") {
  Program program;
  program.Set(1);
  std::string name;
  {
    BestValues best = program.Best(true);
    name = Must(best.Keep(7));
  }
  for (const float value : {2.0f, 3.0f}) {
    program.Set(value);
    Must(program.checkpoints.Save());
  }
  std::error_code gone;  // one is kept: it may be gone already
  fs::remove_all(program.directory + "/checkpoint-000001", gone);
  BestValues resumed = program.Best(true);
  Must(resumed.Restore(name));
  CHECK(program.Holds(1));
  Must(resumed.Restore(""));  // there are none
  CHECK(program.Holds(1));
}

TEST_CASE("best values that are kept again, as after a resume, take the others' place",
          "[runner]") {
  Program program;
  program.Set(1);
  BestValues best = program.Best(true);
  Must(best.Keep(7));
  program.Set(2);
  const std::string name = Must(best.Keep(7));
  program.Set(3);
  Must(best.Restore(name));
  CHECK(program.Holds(2));
}

TEST_CASE("best values that no checkpoint names go, and a user's own files stay", "[runner]") {
  Program program;
  BestValues best = program.Best(true);
  program.files.Write("checkpoints/best-of-all.txt", "mine");
  program.files.Write("checkpoints/best-000000001.safetensors", "of an earlier version");
  for (int i = 1; i <= 4; ++i) {
    program.Set(static_cast<float>(i));
    Must(best.Keep(10 * i));
  }
  CHECK(!fs::exists(program.directory + "/best-000000001.safetensors"));
  CHECK(!fs::exists(program.directory + "/best-000000010"));
  CHECK(fs::exists(program.directory + "/best-000000040"));
  CHECK(fs::exists(program.directory + "/best-of-all.txt"));
}

TEST_CASE("best values that an earlier version wrote as a file are read", "[runner]") {
  Program program;
  program.Set(1);
  const auto files = env::NewRealFileSystem();
  const Tensor table = Program::Filled({5, 2}, 4), dense = Program::Filled({3}, 4),
               rows = Program::Filled({2, 2}, 4);
  const Tensor ids = *Tensor::FromVector<int64_t>({7, 4}, Shape{2});
  auto writer = Must(checkpoint::SafetensorsWriter::Create(
      files.get(), program.directory + "/best-000000009.safetensors",
      {{"table", DType::kF32, table.shape()},
       {"ids", DType::kF32, rows.shape()},
       {"ids/ids", DType::kI64, ids.shape()},
       {"dense", DType::kF32, dense.shape()}}));
  for (const Tensor* t : {&table, &rows, &ids, &dense}) Must(writer->Append(t->raw(), t->bytes()));
  Must(writer->Finish());
  Must(program.Best(true).Restore("best-000000009.safetensors"));
  CHECK(program.Holds(4));
}

TEST_CASE("best values that are damaged or gone are named", "[runner]") {
  Program program;
  program.Set(1);
  BestValues best = program.Best(true);
  const std::string name = Must(best.Keep(7));
  for (const auto& entry : fs::directory_iterator(program.directory + "/" + name)) {
    if (entry.path().extension() == ".safetensors") fs::resize_file(entry.path(), 9);
  }
  const absl::Status damaged = best.Restore(name);
  CHECK(absl::IsDataLoss(damaged));
  CHECK_THAT(std::string(damaged.message()), Catch::Matchers::Contains("best epoch's values"));
  CHECK(!best.Restore("best-000000099").ok());
}

}  // namespace
}  // namespace coxswain::runner
