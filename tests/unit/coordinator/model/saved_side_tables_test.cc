// The joined tables that are kept with models and beside checkpoints.
#include "coordinator/model/saved_side_tables.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/env/unfinished_files.h"
#include "tests/testing/data_files.h"
#include "tests/testing/followed_tables.h"
#include "tests/testing/training_job.h"

namespace coxswain::model {
namespace {

using Catch::Matchers::Contains;
using testing::FollowedTables;
using testing::kShopJob;
using testing::Must;
using testing::ReadFile;
namespace fs = std::filesystem;

constexpr char kItems[] = "item,price\na,0.5\nb,2\n";

TEST_CASE("a model is saved with the tables that it was trained with, whatever became of them") {
  DataFiles files;
  files.Write("items.csv", kItems);
  fs::create_directory(files.Path("rows"));
  files.Write("rows/1.csv", "item,y\na,0\nb,1\nb,1\na,0\n");
  TrainingJob job(files, kShopJob);
  job.Steps(1);
  SECTION("written anew") { files.Write("items.csv", "item,price\na,70\nb,80\n"); }
  SECTION("taken away") { fs::remove(files.Path("items.csv")); }
  job.Save(files.Path("model"));
  CHECK(ReadFile(files.Path("model/joined/0.csv")) == kItems);
  job.SaveInputs();
  CHECK(ReadFile(files.Path("checkpoints/inputs/joined/0.csv")) == kItems);
}

TEST_CASE("beside the checkpoints of a job that follows are the tables of each of them") {
  FollowedTables f;
  CHECK(absl::IsNotFound(f.Update()));
  Must(f.Save());
  std::vector<std::string> versions;
  for (uint64_t number = 1; number <= 3; ++number) {
    versions.push_back(f.version());
    f.WriteCheckpoint(number);
    f.Replace(static_cast<int>(number));
  }
  for (size_t i = 0; i < versions.size(); ++i) {
    CHECK(f.TableIn(versions[i]) == FollowedTables::TableOf(static_cast<int>(i)));
  }
  CHECK(f.TableIn(f.version()) == FollowedTables::TableOf(3));
  // Those of checkpoints that are gone go with the next change, but for the last one, which a
  // checkpoint that is being written may be of.
  for (const int number : {1, 2})
    fs::remove_all(f.files.Path(absl::StrCat("saved/checkpoint-00000", number)));
  const std::string last = f.version();
  f.Replace(4);
  CHECK_THAT(f.TableIn(versions[0]), Contains("is not there") && Contains("was trained with"));
  CHECK(f.TableIn(versions[2]) == FollowedTables::TableOf(2));
  CHECK(f.TableIn(last) == FollowedTables::TableOf(3));
  CHECK(SideTableVersions(f.disk.get(), f.files.Path("saved/inputs")).size() == 3);
  // A table that comes again is there again.
  f.Replace(0);
  CHECK(f.TableIn(versions[0]) == FollowedTables::TableOf(0));
}

TEST_CASE(
    "a job that goes on keeps its checkpoints' tables, and clears what a kill left of others") {
  FollowedTables f;
  Must(f.Save());
  const std::string first = f.version();
  f.WriteCheckpoint(1);
  fs::create_directories(f.files.Path("saved/inputs/joined/0123456789abcdef"));
  f.files.Write("saved/inputs/joined/0123456789abcdef/0.csv", "item,pr");
  f.data = f.Read(7);
  Must(f.Save());
  CHECK(f.TableIn(first) == FollowedTables::TableOf(0));
  CHECK(f.TableIn(f.version()) == FollowedTables::TableOf(7));
  CHECK(SideTableVersions(f.disk.get(), f.files.Path("saved/inputs")).size() == 2);
  // What somebody else has put there stays, and is told.
  f.files.Write("saved/inputs/joined/mine.csv", "");
  f.data = f.Read(8);
  CHECK_THAT(std::string(f.Save().message()), Contains("holds joined/mine.csv"));
  // A checkpoint of the tables that there are now is as good as one before.
  CHECK(f.TableIn(f.version()) == FollowedTables::TableOf(8));
  CHECK(f.TableIn(first) == FollowedTables::TableOf(0));
}

TEST_CASE("inputs are written over what a kill left of a change of their tables") {
  FollowedTables f;
  Must(f.Save());
  f.WriteCheckpoint(1);
  const std::string inputs = f.files.Path("saved/inputs/"), version = f.version();
  const std::vector<std::string> left = {
      env::UnfinishedName(inputs + "inputs.json", 8348, 12),
      env::UnfinishedName(inputs + SideTableFile(version, 0, "items.csv"), 8348, 11)};
  for (const std::string& path : left) std::ofstream(path) << "{";
  SECTION("when a job goes on") {
    f.data = f.Read(7);
    Must(f.Save());
  }
  SECTION("when a table is replaced") { f.Replace(7); }
  for (const std::string& path : left) CHECK(!fs::exists(path));
  CHECK(f.TableIn(version) == FollowedTables::TableOf(0));
  CHECK(f.TableIn(f.version()) == FollowedTables::TableOf(7));
}

TEST_CASE("the tables of another job's checkpoints are not touched by a job that follows") {
  FollowedTables f;
  Must(f.Save());
  const std::string before = ReadFile(f.files.Path("saved/inputs/inputs.json"));
  f.job.dataset.set_seed(99);
  f.data = f.Read(5);
  CHECK(absl::IsFailedPrecondition(f.Update()));
  CHECK(ReadFile(f.files.Path("saved/inputs/inputs.json")) == before);
}

}  // namespace
}  // namespace coxswain::model
