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

constexpr char kJob[] = "films";

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
    options.job = kJob;
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
    return BestValues(&strategy, with_directory ? directory : "", kJob,
                      [this] { return checkpoints.Save(); });
  }

  void WriteFileOfEarlierVersion(const std::string& name, float value) {
    const auto real = env::NewRealFileSystem();
    const Tensor values = Filled({5, 2}, value), three = Filled({3}, value),
                 rows = Filled({2, 2}, value);
    const Tensor numbers = *Tensor::FromVector<int64_t>({7, static_cast<int64_t>(value)}, Shape{2});
    auto writer =
        Must(checkpoint::SafetensorsWriter::Create(real.get(), directory + "/" + name,
                                                   {{"table", DType::kF32, values.shape()},
                                                    {"ids", DType::kF32, rows.shape()},
                                                    {"ids/ids", DType::kI64, numbers.shape()},
                                                    {"dense", DType::kF32, three.shape()}}));
    for (const Tensor* t : {&values, &rows, &numbers, &three}) {
      Must(writer->Append(t->raw(), t->bytes()));
    }
    Must(writer->Finish());
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
    Must(best.Restore(name, 0));
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
  Must(resumed.Restore(name, 0));
  CHECK(program.Holds(1));
  Must(resumed.Restore("", 0));  // there are none
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
  Must(best.Restore(name, 0));
  CHECK(program.Holds(2));
}

TEST_CASE("best values that no checkpoint names go, and a user's own files stay", "[runner]") {
  Program program;
  BestValues best = program.Best(true);
  program.files.Write("checkpoints/best-of-all.txt", "mine");
  program.WriteFileOfEarlierVersion("best-000000001.safetensors", 1);
  // One that a killed process had begun.
  fs::create_directory(program.directory + "/best-000000002.tmp");
  program.files.Write("checkpoints/best-000000002.tmp/table.safetensors", "");
  for (int i = 1; i <= 4; ++i) {
    program.Set(static_cast<float>(i));
    Must(best.Keep(10 * i));
  }
  CHECK(!fs::exists(program.directory + "/best-000000001.safetensors"));
  CHECK(!fs::exists(program.directory + "/best-000000002.tmp"));
  CHECK(!fs::exists(program.directory + "/best-000000010"));
  CHECK(fs::exists(program.directory + "/best-000000040"));
  CHECK(fs::exists(program.directory + "/best-of-all.txt"));
}

TEST_CASE("what has the name of best values but is not this job's stays", "[runner]") {
  Program program;
  program.Set(1);
  Must(program.checkpoints.Save());
  const fs::path directory = program.directory;
  fs::create_directory(directory / "best-000000007");
  program.files.Write("checkpoints/best-000000007/mine", "mine");
  program.files.Write("checkpoints/best-000000008", "mine");
  program.files.Write("checkpoints/best-000000008.safetensors", "mine");
  fs::create_directory(directory / "best-000000009.tmp");
  program.files.Write("checkpoints/best-000000009.tmp/mine", "mine");
  // Another job's, in the same directory.
  BestValues other(&program.strategy, program.directory, "books",
                   [&program] { return program.checkpoints.Save(); });
  const std::string of_films = Must(program.Best(true).Keep(6));
  CHECK(absl::IsFailedPrecondition(other.Keep(6).status()));
  for (int i = 1; i <= 4; ++i) Must(other.Keep(10 * i));
  CHECK(fs::exists(directory / of_films / "manifest.json"));
  BestValues best = program.Best(true);
  for (int i = 7; i <= 9; ++i) {
    const auto kept = best.Keep(i);
    CHECK(absl::IsFailedPrecondition(kept.status()));
    CHECK_THAT(std::string(kept.status().message()),
               Catch::Matchers::Contains("which this job has not made: it stays"));
  }
  for (int i = 5; i <= 8; ++i) Must(best.Keep(10 * i));
  for (const char* mine : {"best-000000007/mine", "best-000000008", "best-000000008.safetensors",
                           "best-000000009.tmp/mine"}) {
    CAPTURE(mine);
    CHECK(fs::exists(directory / mine));
  }
}

TEST_CASE("best values that an earlier version wrote as a file are read", "[runner]") {
  Program program;
  program.Set(1);
  program.WriteFileOfEarlierVersion("best-000000009.safetensors", 4);
  Must(program.Best(true).Restore("best-000000009.safetensors", 0));
  CHECK(program.Holds(4));
}

TEST_CASE("values that are better and could not be kept stay, as long as they are there",
          "[runner]") {
  Program program;
  program.Set(1);
  BestValues best = program.Best(true);
  const std::string name = Must(best.Keep(7));
  program.Set(2);
  fs::create_directory(program.directory + "/best-000000009");
  program.files.Write("checkpoints/best-000000009/notes", "mine");
  CHECK(absl::IsFailedPrecondition(best.Keep(9).status()));
  Must(best.Restore(name, 9));
  CHECK(program.Holds(2));
  Must(best.Restore(name, 12));
  CHECK(program.Holds(1));
}

TEST_CASE("best values that are damaged or gone are named", "[runner]") {
  Program program;
  program.Set(1);
  BestValues best = program.Best(true);
  const std::string name = Must(best.Keep(7));
  for (const auto& entry : fs::directory_iterator(program.directory + "/" + name)) {
    if (entry.path().extension() == ".safetensors") fs::resize_file(entry.path(), 9);
  }
  CHECK(absl::IsDataLoss(best.Verify(name)));
  const absl::Status damaged = best.Restore(name, 0);
  CHECK(absl::IsDataLoss(damaged));
  CHECK_THAT(std::string(damaged.message()), Catch::Matchers::Contains("best epoch's values"));
  CHECK(!best.Restore("best-000000099", 0).ok());
}

}  // namespace
}  // namespace coxswain::runner
