// The joined tables that are kept with models and beside checkpoints.
#include "coordinator/model/saved_side_tables.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/model/saved_inputs.h"
#include "coordinator/model/saved_manifest.h"
#include "coordinator/runner/arrivals.h"
#include "tests/testing/checkpoints.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"
#include "tests/testing/training_job.h"

namespace coxswain::model {
namespace {

using Catch::Matchers::Contains;
using testing::Must;
namespace fs = std::filesystem;

constexpr char kJob[] = R"(
name: shop
dataset: {path: rows, cache_directory: cache, join: [{path: items.csv, on: item}]}
features:
  - {name: item, kind: categorical, hash_buckets: 8}
  - {name: price, kind: numeric}
label: {column: y}
model: {kind: logistic_regression}
train: {batch_size: 4}
)";
constexpr char kItems[] = "item,price\na,0.5\nb,2\n";

std::string ReadFile(const std::string& path) { return Must(env::NewRealFileSystem()->Read(path)); }

TEST_CASE("a model is saved with the tables that it was trained with, whatever became of them") {
  DataFiles files;
  files.Write("items.csv", kItems);
  fs::create_directory(files.Path("rows"));
  files.Write("rows/1.csv", "item,y\na,0\nb,1\nb,1\na,0\n");
  TrainingJob job(files, kJob);
  job.Steps(1);
  SECTION("written anew") { files.Write("items.csv", "item,price\na,70\nb,80\n"); }
  SECTION("taken away") { fs::remove(files.Path("items.csv")); }
  job.Save(files.Path("model"));
  CHECK(ReadFile(files.Path("model/joined/0.csv")) == kItems);
  job.SaveInputs();
  CHECK(ReadFile(files.Path("checkpoints/inputs/joined/0.csv")) == kItems);
}

// A job that follows, at a directory of checkpoints; each of its tables has one price.
struct Followed {
  Followed() {
    fs::create_directory(files.Path("rows"));
    job = Must(
        job::ParseKeptJob(kJob, files.Path("job.yaml"), files.Path(""), {"dataset.follow=true"}));
    info.job_text = kJob;
    data = Read(0);
  }
  std::unique_ptr<data::Dataset> Read(int price) const {
    files.Write("items.csv", TableOf(price));
    return MustLoad(runner::SpecBeforeFiles(job.dataset));
  }
  static std::string TableOf(int price) { return absl::StrCat("item,price\na,", price, "\n"); }
  std::string version() const { return data->side_tables().Get()->version; }
  absl::Status Save() const { return SaveInputs(*data, job, info, files.Path("saved")); }
  absl::Status Update() const { return UpdateSideTables(*data, job, files.Path("saved")); }
  // As an epoch with another table does.
  void Replace(int price) const {
    data->side_tables().Set(Read(price)->side_tables().Get());
    Must(Update());
    const std::string inputs = files.Path("saved/inputs");
    Must(CheckModelFiles(inputs, Must(ReadModelManifest(inputs, kSavedInputs)), kSavedInputs));
  }
  void WriteCheckpoint(uint64_t number) const {
    checkpoint::Manifest manifest = SampleManifest(number);
    manifest.job_state = absl::StrCat("{\"", kSideTables, "\": \"", version(), "\"}");
    const std::string path = files.Path("saved/" + checkpoint::CheckpointName(number));
    fs::create_directories(path);
    Must(disk->WriteAtomically(path + "/manifest.json", checkpoint::ToJson(manifest)));
  }
  // The table that rows get their prices from; or why there is none.
  std::string TableIn(const std::string& of_version) const {
    proto::DatasetSpec spec = job.dataset;
    const absl::Status used = UseSavedSideTables(files.Path("saved/inputs"), of_version, &spec);
    return used.ok() ? ReadFile(spec.joins(0).path()) : std::string(used.message());
  }

  DataFiles files;
  const std::unique_ptr<env::FileSystem> disk = env::NewRealFileSystem();
  job::JobSpec job;
  SavedModelInfo info;
  std::unique_ptr<data::Dataset> data;
};

TEST_CASE("beside the checkpoints of a job that follows are the tables of each of them") {
  Followed f;
  CHECK(absl::IsNotFound(f.Update()));
  Must(f.Save());
  std::vector<std::string> versions;
  for (uint64_t number = 1; number <= 3; ++number) {
    versions.push_back(f.version());
    f.WriteCheckpoint(number);
    f.Replace(static_cast<int>(number));
  }
  for (size_t i = 0; i < versions.size(); ++i) {
    CHECK(f.TableIn(versions[i]) == Followed::TableOf(static_cast<int>(i)));
  }
  CHECK(f.TableIn(f.version()) == Followed::TableOf(3));
  // Those of checkpoints that are gone go with the next change, but for the last one, which a
  // checkpoint that is being written may be of.
  for (const int number : {1, 2})
    fs::remove_all(f.files.Path(absl::StrCat("saved/checkpoint-00000", number)));
  const std::string last = f.version();
  f.Replace(4);
  CHECK_THAT(f.TableIn(versions[0]), Contains("is not there") && Contains("was trained with"));
  CHECK(f.TableIn(versions[2]) == Followed::TableOf(2));
  CHECK(f.TableIn(last) == Followed::TableOf(3));
  CHECK(SideTableVersions(f.disk.get(), f.files.Path("saved/inputs")).size() == 3);
  // A table that comes again is there again.
  f.Replace(0);
  CHECK(f.TableIn(versions[0]) == Followed::TableOf(0));
}

TEST_CASE(
    "a job that goes on keeps its checkpoints' tables, and clears what a kill left of others") {
  Followed f;
  Must(f.Save());
  const std::string first = f.version();
  f.WriteCheckpoint(1);
  fs::create_directories(f.files.Path("saved/inputs/joined/0123456789abcdef"));
  f.files.Write("saved/inputs/joined/0123456789abcdef/0.csv", "item,pr");
  f.data = f.Read(7);
  Must(f.Save());
  CHECK(f.TableIn(first) == Followed::TableOf(0));
  CHECK(f.TableIn(f.version()) == Followed::TableOf(7));
  CHECK(SideTableVersions(f.disk.get(), f.files.Path("saved/inputs")).size() == 2);
  // What somebody else has put there stays, and is told.
  f.files.Write("saved/inputs/joined/mine.csv", "");
  f.data = f.Read(8);
  CHECK_THAT(std::string(f.Save().message()), Contains("holds joined/mine.csv"));
}

TEST_CASE("the tables of another job's checkpoints are not touched by a job that follows") {
  Followed f;
  Must(f.Save());
  const std::string before = ReadFile(f.files.Path("saved/inputs/inputs.json"));
  f.job.dataset.set_seed(99);
  f.data = f.Read(5);
  CHECK(absl::IsFailedPrecondition(f.Update()));
  CHECK(ReadFile(f.files.Path("saved/inputs/inputs.json")) == before);
}

}  // namespace
}  // namespace coxswain::model
