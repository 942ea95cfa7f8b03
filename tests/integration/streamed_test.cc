// Jobs whose data is streamed: the promises are those of data in memory.
#include <signal.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/display.h"
#include "runtime/data/hash.h"
#include "tests/integration/jobs.h"
#include "tests/s3/object_store.h"
#include "tests/testing/arrow_specs.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using Strings = std::vector<std::string>;

// 600 ratings in blocks of about 10 rows, two of which are mixed at a time.
Strings Streaming(const DataFiles& files) {
  return {"--set", "dataset.streaming=true",
          "--set", "dataset.block_bytes=100",
          "--set", "dataset.shuffle_window=2",
          "--set", "dataset.memory=30000",
          "--set", absl::StrCat("dataset.cache_directory=", files.Path("cache"))};
}

Strings Join(Strings all, const Strings& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST_CASE("a streamed job learns what the job in memory learns", "[streamed]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  double rmse[2] = {};
  for (const bool streamed : {false, true}) {
    const std::string report = files.Path("report.json");
    const auto result = Coxswain(Join({"train", job, "--local", "2x3", "--count-visits", "--report",
                                       report, "--set", "split.test=0.2"},
                                      streamed ? Streaming(files) : Strings()));
    CAPTURE(result.out, result.err);
    REQUIRE(result.code == 0);
    const nlohmann::json json = ReadJson(report);
    CHECK(json["updates"]["applied"] == json["steps"]);
    CHECK(json["visitation"]["missing"] == 0);
    CHECK(json["visitation"]["repeated"] == 0);
    rmse[streamed ? 1 : 0] = json["metrics"]["rmse"];
  }
  CHECK(rmse[1] == Approx(rmse[0]).margin(0.1));
  CHECK_FALSE(std::filesystem::is_empty(files.Path("cache")));
}

void CheckUnderFire(const DataFiles& files, const std::string& job, const Strings& more,
                    const Process::Environment& environment = {}) {
  const std::string chaos = files.Write("chaos.yaml", R"(seed: 3
baseline: false
faults:
  - {task: worker, at_update: [200, 700, 900], restart_delay: 100ms}
  - {task: ps, at_update: [500], restart_delay: 100ms}
  - {task: coordinator, at_update: [1200], restart_delay: 0s}
)");
  const std::string report = files.Path("report.json");
  const auto result = Run(
      CoxswainCommand(Join(
          {"train", job, "--local", "2x2", "--chaos", chaos, "--set", "checkpoint.every_steps=150",
           "--report", report, "--chaos-dir", files.Path("run"), "--set", "train.epochs=1500",
           "--set", "evaluate.every_epochs=1500", "--set", "train.steps_per_function=3"},
          Join(Streaming(files), more))),
      environment, absl::Seconds(200));
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.out, Contains("every promise was kept"));
  const nlohmann::json json = ReadJson(report);
  CHECK(json["updates"]["applied"] == json["steps"]);
  CHECK(json["updates"]["scheduled"] == json["steps"]);
  CHECK(json["visitation"]["examples"].get<int64_t>() > 0);
  CHECK(json["visitation"]["missing"] == 0);
  CHECK(json["visitation"]["repeated"] == 0);
  CHECK(json["chaos"]["injected"]["worker"]["kill"] == 3);
}

TEST_CASE("a streamed job under fire uses every example once and applies every update once",
          "[streamed]") {
  const DataFiles files;
  CheckUnderFire(files, WriteMatrixFactorization(files), {});
}

TEST_CASE("a streamed job that is split by time, under fire: every example is used once",
          "[streamed]") {
  const DataFiles files;
  CheckUnderFire(files, WriteMatrixFactorization(files),
                 {"--set", "split.by=rating", "--set", "split.validation=0.1"});
}

TEST_CASE("a streamed job with histories and held-out rows, under fire: all is used once",
          "[streamed]") {
  const DataFiles files;
  CheckUnderFire(files, WriteTwoTower(files), {});
  // Workers that came back found the files of the histories, and of what users are known to have.
  int made = 0;
  for (const auto& entry : std::filesystem::directory_iterator(files.Path("cache/unpacked"))) {
    CHECK(entry.path().extension() == ".groups");
    ++made;
  }
  CHECK(made == 2);
}

TEST_CASE("a streamed job with histories learns what the job in memory learns, and saves the same",
          "[streamed]") {
  const DataFiles files;
  const std::string job = WriteTwoTower(files);
  std::string names[2];
  double metric[2] = {};
  for (const size_t streamed : {0, 1}) {
    const std::string model = files.Path(absl::StrCat("model", streamed));
    const std::string report = files.Path("report.json");
    const auto result = Coxswain(Join({"train", job, "--local", "2x2", "--count-visits", "--report",
                                       report, "--model-dir", model},
                                      streamed == 1 ? Streaming(files) : Strings()));
    CAPTURE(result.out, result.err);
    REQUIRE(result.code == 0);
    const nlohmann::json json = ReadJson(report);
    CHECK(json["visitation"]["missing"] == 0);
    CHECK(json["visitation"]["repeated"] == 0);
    metric[streamed] = json["metrics"]["hit_rate@3"];
    for (const char* file : {"groups.txt", "values.safetensors"}) {
      std::ifstream in(absl::StrCat(model, "/history/", file), std::ios::binary);
      names[streamed].append(std::istreambuf_iterator<char>(in), {});
    }
  }
  CHECK(metric[1] == Approx(metric[0]).margin(0.25));
  CHECK_FALSE(names[0].empty());
  CHECK(names[0] == names[1]);
}

// 80 MB, so that the workers index it.
std::string WriteLargeRatings(const DataFiles& files) {
  std::string csv = "user,item,rating\n";
  for (uint64_t i = 0; csv.size() < size_t{80} << 20; ++i) {
    const uint64_t h = Mix64(i);
    absl::StrAppend(&csv, "u", h % 1000, ",i", h / 1000 % 500, ",", h % 5, "\n");
  }
  return files.Write("large.csv", csv);
}

TEST_CASE("workers that are killed while they index large data only cost time", "[streamed]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), large = WriteLargeRatings(files);
  const std::string report = files.Path("report.json");
  // By time, workers read all of it twice.
  const Strings split = GENERATE(Strings(), Strings{"--set", "split.by=rating"});
  const auto train = [&](const Strings& more) {
    return Run(CoxswainCommand(Join(
                   {"train", job, "--local", "1x2", "--set", "dataset.path=" + large, "--set",
                    "dataset.streaming=true", "--set", "train.epochs=", "--set", "train.steps=20",
                    "--set", "evaluate.max_examples=1000", "--report", report},
                   Join(split, more))),
               {}, absl::Seconds(200));
  };
  const auto calm = train({"--set", "dataset.cache_directory=" + files.Path("calm")});
  CAPTURE(calm.out, calm.err);
  REQUIRE(calm.code == 0);
  const std::string chaos = files.Write("chaos.yaml", R"(seed: 3
baseline: false
faults:
  - {task: worker, at: [300ms, 400ms, 600ms, 800ms], restart_delay: 50ms}
)");
  const auto fire = train({"--set", "dataset.cache_directory=" + files.Path("fire"), "--chaos",
                           chaos, "--chaos-dir", files.Path("run")});
  CAPTURE(fire.out, fire.err);
  REQUIRE(fire.code == 0);
  const auto index = [&](const std::string& directory) {
    std::string bytes;
    for (const auto& entry : std::filesystem::directory_iterator(files.Path(directory))) {
      if (entry.path().extension() != ".index") continue;
      std::ifstream file(entry.path(), std::ios::binary);
      bytes.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    return bytes;
  };
  CHECK_FALSE(index("calm").empty());
  CHECK(index("fire") == index("calm"));
}

TEST_CASE("a command in one process says that it unpacks a packed file, and where", "[streamed]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  std::ifstream csv(files.Path("ratings.csv"));
  const std::string text((std::istreambuf_iterator<char>(csv)), std::istreambuf_iterator<char>());
  const std::string packed = files.WriteGzip("ratings.csv.gz", text);
  const auto result = Coxswain(
      Join({"train", job, "--in-process", "--set", "dataset.path=" + packed}, Streaming(files)));
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.err, Contains("ratings.csv.gz is packed and cannot be entered in the middle") &&
                             Contains(files.Path("cache/unpacked")));
}

TEST_CASE("a packed file under fire is unpacked once, and every example of it is used once",
          "[streamed]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  std::ifstream csv(files.Path("ratings.csv"));
  const std::string text((std::istreambuf_iterator<char>(csv)), std::istreambuf_iterator<char>());
  const std::string packed = files.WriteGzip("ratings.csv.gz", text);
  CheckUnderFire(files, job, {"--set", "dataset.path=" + packed});
  int copies = 0;
  for (const auto& entry : std::filesystem::directory_iterator(files.Path("cache/unpacked"))) {
    CHECK(entry.file_size() == text.size());
    ++copies;
  }
  CHECK(copies == 1);
}

TEST_CASE("Parquet under fire: every example of its row groups is used once", "[streamed]") {
  if (!HasArrow()) return;
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  const std::string parquet = WriteParquet(files, files.Path("ratings.csv"), "ratings.parquet", 30,
                                           {"user:text", "item:text", "rating:i8"});
  // Each block decodes its row group: steps take several times as long as those of the others.
  CheckUnderFire(files, job,
                 {"--set", "dataset.path=" + parquet, "--set", "dataset.format=parquet", "--set",
                  "train.epochs=300", "--set", "evaluate.every_epochs=300"});
}

TEST_CASE(
    "queries under fire, with a history: every one is used once, as a whole, wherever blocks end",
    "[streamed]") {
  const DataFiles files;
  std::string csv = "search,user,position,kind,grade\n";
  for (int query = 0, row = 0; query < 120; ++query) {
    for (int i = 0; i <= query * 7 % 6; ++i, ++row) {
      absl::StrAppend(&csv, "s", query, ",u", query % 7, ",", row % 10, ",k", row % 4, ",", row % 4,
                      "\n");
    }
  }
  files.Write("searches.csv", csv);
  const std::string job = files.Write("job.yaml", R"(
dataset: {path: searches.csv, query: search}
features:
  - {name: position, kind: numeric}
  - {name: kind, kind: categorical}
  - {name: seen, kind: history, history_of: kind, group_by: user, by: position, max_values: 5}
label: {column: grade}
split: {test: 0.2}
model: {kind: mlp, hidden: [4]}
loss: {kind: lambdarank}
evaluate: {metrics: [ndcg@3]}
train: {batch_size: 10, epochs: 1}
)");
  CheckUnderFire(files, job, {});
}

TEST_CASE("data in an object store under fire: every example is used once", "[streamed]") {
  if (!HasArrow()) return;
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  std::ifstream csv(files.Path("ratings.csv"));
  const std::string text((std::istreambuf_iterator<char>(csv)), std::istreambuf_iterator<char>());
  ObjectStore store;
  store.Put("films/ratings/all.csv", text);
  CheckUnderFire(files, job,
                 {"--set", "dataset.path=s3://films/ratings", "--set", "dataset.block_bytes=2000",
                  "--set", "dataset.memory=100000"},
                 store.environment());
  CHECK(store.bytes() > static_cast<int64_t>(text.size()));
}

TEST_CASE("a streamed job goes on where it was, and not with blocks of another size",
          "[streamed]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), report = files.Path("report.json");
  const Strings command =
      Join({"train", job, "--local", "1x2", "--resume", "--checkpoint-dir", files.Path("saved"),
            "--report", report, "--count-visits", "--set", "train.epochs=1500", "--set",
            "evaluate.every_epochs=1500", "--set", "checkpoint.every_seconds=0.1"},
           Streaming(files));
  {
    Process first(CoxswainCommand(command));
    const bool there = first.WaitForError(" written, ");
    CAPTURE(first.out(), first.err());
    REQUIRE(there);
    first.Kill(SIGKILL);
    first.Wait();
  }
  const auto other = Coxswain(Join(command, {"--set", "dataset.block_bytes=200"}));
  CHECK(other.code == 2);
  CHECK_THAT(other.err, Contains("the data is not what the checkpoint was trained on"));
  const auto batch = Coxswain(Join(command, {"--set", "train.batch_size=7"}));
  CHECK(batch.code == 2);
  CHECK_THAT(batch.err, Contains("train.batch_size: the checkpoint was written with "));
  const auto result = Coxswain(command);
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.err, Contains("resuming from "));
  const nlohmann::json json = ReadJson(report);
  CHECK(json["updates"]["applied"] == json["steps"]);
  CHECK(json["visitation"]["missing"] == 0);
  CHECK(json["visitation"]["repeated"] == 0);
}

// Whole windows are scheduled ahead: here all of an epoch.
TEST_CASE("a streamed job that is interrupted with windows scheduled ahead uses each example once",
          "[streamed]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), report = files.Path("report.json");
  const Strings command =
      Join(Streaming(files), {"--set", "train.epochs=60", "--set", "train.batch_size=2", "--set",
                              "dataset.shuffle_window=20", "--set", "evaluate.every_epochs=60",
                              "--set", "dataset.memory=60000"});
  const Strings train = Join({"train", job, "--local", "1x2", "--resume", "--checkpoint-dir",
                              files.Path("saved"), "--report", report, "--count-visits"},
                             command);
  {
    Process first(CoxswainCommand(train));
    REQUIRE(first.WaitForOutput(" steps"));
    first.Kill(SIGINT);
    const auto interrupted = first.Wait();
    CAPTURE(interrupted.out, interrupted.err);
    REQUIRE(interrupted.code == 75);
  }
  const auto result = Coxswain(train);
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.err, Contains("resuming from "));
  const nlohmann::json json = ReadJson(report);
  CHECK(json["steps"] == 60 * 238);  // 475 examples
  CHECK(json["updates"]["applied"] == json["steps"]);
  CHECK(json["visitation"]["missing"] == 0);
  CHECK(json["visitation"]["repeated"] == 0);
}

TEST_CASE("a file that shrinks while it is streamed ends the job with an error that names it",
          "[streamed]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  Process train(
      CoxswainCommand(Join({"train", job, "--local", "1x2", "--checkpoint-dir", files.Path("saved"),
                            "--set", "train.epochs=", "--set", "train.steps=1000000000", "--set",
                            "evaluate.every_epochs=1000000000", "--set",
                            "checkpoint.every_seconds=0.1", "--set", "dataset.memory=3000"},
                           Streaming(files))));
  const bool there = train.WaitForError(" written, ");
  CAPTURE(train.out(), train.err());
  REQUIRE(there);
  std::filesystem::resize_file(files.Path("ratings.csv"), 100);
  const auto result = train.Wait();
  CHECK(result.code == 3);
  CHECK_THAT(train.err(), Contains("ratings.csv: changed since it was indexed: wanted "));
}

// 40,000 ratings in a file, and the same file with another byte that nobody looks at before
// training: of the same size and time, between the first page and the second one of the samples.
class LongRatings {
 public:
  LongRatings(const DataFiles& files, const std::string& name) : files_(files), name_(name) {
    for (int i = 0; i < 40'000; ++i)
      absl::StrAppend(&text_, "u", i % 9, ",i", i % 7, ",", 1 + i % 5, "\n");
    files_.Write(name_, text_);
  }
  std::string path() const { return files_.Path(name_); }
  void ChangeUnseen() {
    const auto time = std::filesystem::last_write_time(path());
    text_.replace(text_.find(",3\n", 6000), 3, ",4\n");
    files_.Write(name_, text_);
    std::filesystem::last_write_time(path(), time);
  }

 private:
  const DataFiles& files_;
  const std::string name_;
  std::string text_ = "user,item,rating\n";
};

TEST_CASE("a file that differs where no sample is fails one run, and the next one indexes it anew",
          "[streamed]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  LongRatings ratings(files, "ratings.csv");
  const Strings command = Join({"train", job, "--local", "1x1", "--set", "dataset.streaming=true",
                                "--set", "dataset.cache_directory=" + files.Path("cache"), "--set",
                                "train.epochs=1", "--set", "dataset.block_bytes=65536"},
                               {});
  REQUIRE(Coxswain(command).code == 0);
  ratings.ChangeUnseen();
  const auto failed = Coxswain(command);
  CAPTURE(failed.out, failed.err);
  CHECK(failed.code == 3);
  CHECK_THAT(failed.err, Contains("ratings.csv: changed since it was indexed") &&
                             Contains("the saved index is removed: the next run makes another"));
  const auto again = Coxswain(command);
  CAPTURE(again.err);
  CHECK(again.code == 0);
}

TEST_CASE("a job that follows removes the saved index of a test part that has changed",
          "[streamed][follow]") {
  const DataFiles files;
  std::filesystem::create_directory(files.Path("come"));
  files.Write("come/a.csv", "user,item,rating\nu1,i1,3\n");
  files.Write("come/_DONE", "");
  LongRatings test(files, "test.csv");
  const std::string job = files.Write("job.yaml", R"(
dataset: {path: come, follow: true, cache_directory: cache, block_bytes: 65536}
features:
  - {name: user, kind: categorical, hash_buckets: 10}
  - {name: item, kind: categorical, hash_buckets: 10}
label: {column: rating}
split: {test_path: test.csv}
model: {kind: linear_regression}
)");
  const Strings command = {"train", job, "--local", "1x1"};
  const auto first = Coxswain(command);
  CAPTURE(first.out, first.err);
  REQUIRE(first.code == 0);
  test.ChangeUnseen();
  const auto failed = Coxswain(command);
  CAPTURE(failed.out, failed.err);
  CHECK(failed.code == 3);
  CHECK_THAT(failed.err, Contains("test.csv: changed since it was indexed") &&
                             Contains("the saved index is removed: the next run makes another"));
  CHECK(Coxswain(command).code == 0);
}

TEST_CASE("an evaluation that finds a saved index useless removes it, too", "[streamed]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), model = files.Path("model");
  REQUIRE(Coxswain({"train", job, "--in-process", "--model-dir", model}).code == 0);
  LongRatings later(files, "later.csv");
  const Strings command = {"eval",
                           "--model-dir",
                           model,
                           "--local=1x1",
                           "--allow-training-rows",
                           "--set",
                           "dataset.path=" + later.path(),
                           "--set",
                           "dataset.streaming=true",
                           "--set",
                           "dataset.cache_directory=" + files.Path("cache"),
                           "--set",
                           "dataset.block_bytes=65536"};
  const auto first = Coxswain(command);
  CAPTURE(first.out, first.err);
  REQUIRE(first.code == 0);
  later.ChangeUnseen();
  const auto failed = Coxswain(command);
  CAPTURE(failed.err);
  CHECK(failed.code == 3);
  CHECK_THAT(failed.err, Contains("the saved index is removed: the next run makes another"));
  CHECK(Coxswain(command).code == 0);
}

// What happens to a file while a streamed job trains on it.
enum class Harm { kVanishes, kShrinks };

struct HarmedJob {
  Process::Result result;
  nlohmann::json report;  // null when there is none
};

// Few blocks are kept, so that workers read the file again all the time.
HarmedJob TrainWithHarm(const DataFiles& files, Harm harm, const std::string& on_error,
                        const Strings& more) {
  const std::string job = WriteMatrixFactorization(files), report = files.Path("report.json");
  Process train(CoxswainCommand(
      Join(Join({"train", job, "--local", "1x2", "--report", report, "--set",
                 "train.on_error=" + on_error, "--checkpoint-dir", files.Path("saved")},
                Streaming(files)),
           Join({"--set", "train.epochs=1500", "--set", "checkpoint.every_seconds=0.1"}, more))));
  const bool there = train.WaitForError(" written, ");
  CAPTURE(train.out(), train.err());
  REQUIRE(there);
  if (harm == Harm::kVanishes) {
    std::filesystem::remove(files.Path("ratings.csv"));
  } else {
    std::filesystem::resize_file(files.Path("ratings.csv"), 100);
  }
  HarmedJob harmed{train.Wait(), nlohmann::json()};
  if (std::filesystem::exists(report)) harmed.report = ReadJson(report);
  return harmed;
}

const char* ErrorOf(Harm harm) {
  return harm == Harm::kVanishes ? "ratings.csv: No such file or directory"
                                 : "ratings.csv: changed since it was indexed: wanted ";
}

TEST_CASE(
    "train.on_error ignore: what is skipped is told at the first error and counted at the end",
    "[streamed]") {
  const Harm harm = GENERATE(Harm::kVanishes, Harm::kShrinks);
  const DataFiles files;
  const HarmedJob job =
      TrainWithHarm(files, harm, "ignore", {"--set", "split=", "--set", "evaluate="});
  CAPTURE(job.result.out, job.result.err);
  CHECK(job.result.code == 0);
  CHECK_THAT(job.result.err, Contains("a closure failed and is skipped"));
  CHECK_THAT(job.result.err, Contains(ErrorOf(harm)));
  REQUIRE(job.report.is_object());
  const int64_t failed = job.report["closures"]["failed"],
                all = job.report["closures"]["scheduled"];
  CHECK(failed > 0);
  CHECK_THAT(job.result.err,
             Contains(absl::StrCat(cli::WithCommas(failed), " of ", cli::WithCommas(all),
                                   " closures failed and were skipped (train.on_error: ignore); "
                                   "the first: /job:worker/task:")));
}

TEST_CASE(
    "train.on_error collect: the first error is told at once, and all at the end of the epoch",
    "[streamed]") {
  const Harm harm = GENERATE(Harm::kVanishes, Harm::kShrinks);
  const DataFiles files;
  const HarmedJob job =
      TrainWithHarm(files, harm, "collect", {"--set", "split=", "--set", "evaluate="});
  CAPTURE(job.result.out, job.result.err);
  CHECK(job.result.code == 3);
  CHECK_THAT(job.result.err, Contains("error: "));
  CHECK_THAT(job.result.err, Contains(ErrorOf(harm)));
  CHECK_THAT(job.result.err, !Contains("were skipped"));
}

TEST_CASE("train.on_error ignore: an evaluation that meets an error ends the job, and says why",
          "[streamed]") {
  const Harm harm = GENERATE(Harm::kVanishes, Harm::kShrinks);
  const DataFiles files;
  const HarmedJob job = TrainWithHarm(
      files, harm, "ignore", {"--set", "split.test=0.2", "--set", "evaluate.every_epochs=1500"});
  CAPTURE(job.result.out, job.result.err);
  CHECK(job.result.code == 3);
  CHECK_THAT(job.result.err, Contains(" closures failed and were skipped"));
  CHECK_THAT(job.result.err, Contains("error: an evaluation, whose errors end the job whatever "
                                      "train.on_error says: /job:worker/task:"));
  CHECK_THAT(job.result.err, Contains(ErrorOf(harm)));
}

}  // namespace
}  // namespace coxswain
