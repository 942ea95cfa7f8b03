// What a side-car keeps of the inputs of a job that follows.
#include "coordinator/sidecar/side_directory.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "coordinator/model/saved_inputs.h"
#include "runtime/checkpoint/manifest.h"
#include "tests/testing/followed_tables.h"

namespace coxswain::sidecar {
namespace {

using testing::FollowedTables;
using testing::Must;
using testing::ReadFile;
namespace fs = std::filesystem;

struct Kept {
  SideDirectory Open() {
    return Must(SideDirectory::Open(job.disk.get(), own, "shop", {"logloss", false}));
  }
  // The job's next checkpoint, which is evaluated; then the job replaces its table.
  void Checkpoint(uint64_t number, double logloss, SideDirectory* side) {
    const std::string version = job.version();
    const std::string name = checkpoint::CheckpointName(number);
    fs::remove_all(job.files.Path("saved/" + checkpoint::CheckpointName(number - 1)));
    job.WriteCheckpoint(number);
    Must(side->TakeInputs(saved));
    const std::string taken = Must(side->Take(saved, number));
    CHECK(job.TableIn(side->inputs(), version) == ReadFile(job.files.Path("items.csv")));
    EvaluatedCheckpoint evaluated;
    evaluated.number = number;
    evaluated.identity = IdentityOf(job.disk.get(), taken);
    evaluated.job = "shop";
    evaluated.metrics = {{"logloss", logloss}};
    Must(side->Report(&evaluated));
    job.Replace(static_cast<int>(number));
  }
  size_t Tables() const { return model::SideTableVersions(job.disk.get(), own + "/inputs").size(); }

  FollowedTables job;
  const std::string saved = job.files.Path("saved"), own = job.files.Path("side");
};

TEST_CASE("sidecar: the joined table of the best checkpoint stays when the job has no more of it",
          "[sidecar]") {
  Kept kept;
  Must(kept.job.Save());
  const std::string best = kept.job.version();
  SideDirectory side = kept.Open();
  for (uint64_t number = 1; number <= 4; ++number) {
    kept.Checkpoint(number, 0.1 * static_cast<double>(number), &side);
  }
  Must(side.TakeInputs(kept.saved));
  CHECK(kept.job.TableIn(best) != FollowedTables::TableOf(0));
  CHECK(kept.job.TableIn(side.inputs(), best) == FollowedTables::TableOf(0));
  FollowedTables::CheckWhole(side.inputs());
  CHECK(!Must(side.TakeInputs(kept.saved)));
  // Besides those that the job has: of its last checkpoint, and of the epoch that it trains.
  CHECK(kept.Tables() == 3);
  // One that is better needs another.
  kept.Checkpoint(5, 0.01, &side);
  Must(side.TakeInputs(kept.saved));
  CHECK(kept.job.TableIn(side.inputs(), best) != FollowedTables::TableOf(0));
  CHECK(kept.Tables() == 2);
  FollowedTables::CheckWhole(side.inputs());
}

TEST_CASE("sidecar: killed over the job's inputs, the next one has the best checkpoint's table",
          "[sidecar]") {
  Kept kept;
  Must(kept.job.Save());
  const std::string best = kept.job.version();
  {
    SideDirectory side = kept.Open();
    for (uint64_t number = 1; number <= 3; ++number) {
      kept.Checkpoint(number, 0.1 * static_cast<double>(number), &side);
    }
    Must(side.TakeInputs(kept.saved));
  }
  const std::string inputs = kept.own + "/inputs";
  SECTION("behind what it made anew") { fs::rename(inputs, inputs + ".tmp"); }
  SECTION("before it was whole") {
    fs::create_directories(inputs + ".tmp/joined");
    kept.job.files.Write("side/inputs.tmp/joined/0.csv", "item,pr");
  }
  kept.job.Replace(9);
  SideDirectory side = kept.Open();
  CHECK(Must(side.TakeInputs(kept.saved)));
  CHECK(kept.job.TableIn(inputs, best) == FollowedTables::TableOf(0));
  CHECK(kept.job.TableIn(inputs, kept.job.version()) == FollowedTables::TableOf(9));
  FollowedTables::CheckWhole(inputs);
  CHECK(!fs::exists(inputs + ".tmp"));
}

TEST_CASE("sidecar: a kept table that was damaged is left behind, and the others are whole",
          "[sidecar]") {
  Kept kept;
  Must(kept.job.Save());
  const std::string best = kept.job.version();
  SideDirectory side = kept.Open();
  for (uint64_t number = 1; number <= 3; ++number) {
    kept.Checkpoint(number, 0.1 * static_cast<double>(number), &side);
  }
  Must(side.TakeInputs(kept.saved));
  kept.job.files.Write("side/inputs/" + model::SideTableFile(best, 0, "items.csv"), "item,price\n");
  kept.job.Replace(9);
  CHECK(Must(side.TakeInputs(kept.saved)));
  CHECK_THAT(kept.job.TableIn(side.inputs(), best), Catch::Matchers::Contains("is not there"));
  FollowedTables::CheckWhole(side.inputs());
}

}  // namespace
}  // namespace coxswain::sidecar
