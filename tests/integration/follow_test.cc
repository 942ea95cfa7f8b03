// Jobs whose files come while they run: each row is used once, whatever is killed.
#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/jobs.h"
#include "tests/s3/object_store.h"
#include "tests/testing/arrow_specs.h"
#include "tests/testing/data_files.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using Strings = std::vector<std::string>;
namespace fs = std::filesystem;

constexpr char kJob[] = R"(
dataset: {path: clicks, follow: true, block_bytes: 200, shuffle_window: 2, cache_directory: cache}
features:
  - {name: n, kind: categorical, id: raw}
  - {name: color, kind: categorical, hash_buckets: 20}
  - {name: size, kind: numeric}
label: {column: clicked}
model: {kind: logistic_regression}
train: {batch_size: 8}
)";

// A directory that a job follows. Each row has a number of its own.
class Clicks {
 public:
  Clicks() {
    fs::create_directory(files_.Path("clicks"));
    job_ = files_.Write("job.yaml", kJob);
  }
  // The text of a file with the next rows.
  std::string Rows(int rows) {
    std::string text = "n,color,size,clicked\n";
    for (int i = 0; i < rows; ++i, ++rows_) {
      absl::StrAppend(&text, rows_, ",", rows_ % 3 == 0 ? "red" : "blue", ",", rows_ % 7, ",",
                      rows_ % 3 == 0 ? 1 : 0, "\n");
    }
    return text;
  }
  // A file with this number of rows, renamed into place as whoever follows expects it.
  void Add(const std::string& name, int rows) { AddText(name, Rows(rows)); }
  void AddText(const std::string& name, const std::string& text) const {
    const std::string written = files_.Write("clicks/" + name + ".tmp", text);
    fs::rename(written, files_.Path("clicks/" + name));
  }
  void End() const { files_.Write("clicks/_DONE", ""); }

  Strings Train(const Strings& more = {}) const {
    Strings all = {"train",         job_,
                   "--report",      files_.Path("report.json"),
                   "--set",         "cluster.lease_seconds=0.5",
                   "--count-visits"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Of a job without an end, at a directory of checkpoints.
  Strings Resumable(const Strings& more = {}) const {
    Strings all = Train({"--resume", "--checkpoint-dir", files_.Path("saved"), "--set",
                         "checkpoint.every_seconds=0.1"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Each row that was written was used once, and each update applied once.
  void CheckWhole() const {
    const nlohmann::json report = ReadJson(files_.Path("report.json"));
    INFO(report.dump());
    CHECK(report["examples"] == rows_);
    CHECK(report["updates"]["applied"] == report["steps"]);
    CHECK(report["updates"]["scheduled"] == report["steps"]);
    CHECK(report["updates"]["shards_off"] == 0);
    CHECK(report["visitation"]["examples"] == rows_);
    CHECK(report["visitation"]["missing"] == 0);
    CHECK(report["visitation"]["repeated"] == 0);
    CHECK(report["closures"]["scheduled"] == report["closures"]["completed"]);
  }
  void CheckDone(const Process::Result& result) const {
    CAPTURE(result.out, result.err);
    REQUIRE(result.code == 0);
    CheckWhole();
  }
  const DataFiles& files() const { return files_; }
  int rows() const { return rows_; }

 private:
  const DataFiles files_;
  std::string job_;
  int rows_ = 0;
};

TEST_CASE("a job trains once on each file that comes while it runs, until the end is there",
          "[follow]") {
  Clicks clicks;
  Process train(CoxswainCommand(clicks.Train({"--local", "2x2"})));
  REQUIRE(train.WaitForOutput("come with the files"));
  clicks.Add("a.csv", 30);
  clicks.Add("b.csv", 1);
  REQUIRE(train.WaitForOutput("epoch 1: "));
  clicks.Add("c.csv", 0);
  clicks.Add("d.csv", 100);
  clicks.End();
  clicks.CheckDone(train.Wait());
}

TEST_CASE("a job trains once on each object that comes into a store while it runs", "[follow]") {
  if (!HasArrow()) return;
  Clicks clicks;
  ObjectStore store;
  store.Put("shop/other", "what makes the bucket");
  Process train(
      CoxswainCommand(clicks.Train({"--local", "2x2", "--set", "dataset.path=s3://shop/clicks"})),
      store.environment());
  REQUIRE(train.WaitForOutput("come with the files"));
  store.Put("shop/clicks/a.csv", clicks.Rows(30));
  store.Put("shop/clicks/_being_written.csv", "no rows");
  REQUIRE(train.WaitForOutput("epoch 1: "));
  store.Put("shop/clicks/b.csv", clicks.Rows(100));
  store.Put("shop/clicks/_DONE", "");
  clicks.CheckDone(train.Wait());
}

TEST_CASE("a job that follows a store that refuses it ends with an error that names it",
          "[follow]") {
  if (!HasArrow()) return;
  Clicks clicks;
  ObjectStore store;
  store.Put("shop/clicks/a.csv", clicks.Rows(30));
  Process train(
      CoxswainCommand(clicks.Train({"--local", "1x1", "--set", "dataset.path=s3://shop/clicks",
                                    "--set", "dataset.follow_idle=8"})),
      store.environment());
  REQUIRE(train.WaitForOutput("epoch 1: "));
  store.Deny("shop");
  const Process::Result result = train.Wait();
  CAPTURE(result.out, result.err);
  CHECK(result.code != 0);
  CHECK_THAT(result.err, Contains("s3://shop/clicks"));
}

TEST_CASE("a job that follows ends when nothing has come for long enough, or its steps are over",
          "[follow]") {
  Clicks clicks;
  clicks.Add("a.csv", 30);
  clicks.CheckDone(Coxswain(clicks.Train({"--local", "1x1", "--set", "dataset.follow_idle=0.1"})));
  const auto steps = Coxswain(clicks.Train({"--local", "1x1", "--set", "train.steps=2"}));
  CAPTURE(steps.out, steps.err);
  REQUIRE(steps.code == 0);
  CHECK(ReadJson(clicks.files().Path("report.json"))["examples"] == 16);
}

TEST_CASE("a job that follows trains once on each query of each file, however blocks cut them",
          "[follow]") {
  Clicks clicks;
  // Queries of 7 rows, whose last one in a file is shorter; blocks of 200 bytes have about 14 rows.
  constexpr int kRowsPerQuery = 7;
  const std::vector<int> file_rows = {30, 100, 3};
  int row = 0, queries = 0, query = 0;
  for (size_t file = 0; file < file_rows.size(); ++file) {
    std::string text = "search,n,color,size,clicked\n";
    for (int i = 0; i < file_rows[file]; ++i, ++row) {
      if (i % kRowsPerQuery == 0) query = queries++;
      absl::StrAppend(&text, "s", query, ",", row, ",", row % 3 == 0 ? "red" : "blue", ",", row % 7,
                      ",", row % 3 == 0 ? 1 : 0, "\n");
    }
    const std::string written =
        clicks.files().Write(absl::StrCat("clicks/", file, ".csv.tmp"), text);
    fs::rename(written, clicks.files().Path(absl::StrCat("clicks/", file, ".csv")));
  }
  clicks.End();
  const auto result = Coxswain(clicks.Train(
      {"--local", "2x2", "--set", "dataset.query=search", "--set", "loss={kind: lambdarank}",
       "--set", "model={kind: mlp, hidden: [4]}", "--set", "train.batch_size=2"}));
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  const nlohmann::json report = ReadJson(clicks.files().Path("report.json"));
  INFO(report.dump());
  CHECK(report["examples"] == queries);
  CHECK(report["visitation"]["examples"] == queries);
  CHECK(report["visitation"]["missing"] == 0);
  CHECK(report["visitation"]["repeated"] == 0);
  CHECK(report["updates"]["applied"] == report["steps"]);
}

TEST_CASE("a job that follows goes on with smaller learning rates within an epoch", "[follow]") {
  Clicks clicks;
  clicks.Add("a.csv", 100);
  clicks.Add("b.csv", 60);
  clicks.End();
  clicks.files().Write("test.csv", "n,color,size,clicked\n1,red,2,1\n2,blue,3,0\n");
  const auto result =
      Coxswain(clicks.Train({"--local", "1x1", "--set", "split={test_path: test.csv}", "--set",
                             "evaluate={metrics: [logloss], every_steps: 4}", "--set",
                             "train.reduce_on_plateau={min_delta: 100, factor: 0.5}"}));
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  clicks.CheckWhole();  // what counts visits has the rate that it had
  const nlohmann::json report = ReadJson(clicks.files().Path("report.json"));
  REQUIRE(report["evaluations"].size() > 3);
  CHECK(report["evaluations"].back()["learning_rate_factor"] < 0.5);
}

TEST_CASE("a job that follows is killed, goes on, and uses no row twice and leaves none out",
          "[follow]") {
  Clicks clicks;
  clicks.Add("0.csv", 400);
  for (int kill = 0; kill < 3; ++kill) {
    // Kept short of its end by a file that is longer than what comes between two checkpoints.
    Process train(CoxswainCommand(clicks.Resumable({"--local", "2x2"})));
    const bool there = train.WaitForError(" written, ");
    CAPTURE(train.out(), train.err());
    REQUIRE(there);
    clicks.Add(absl::StrCat("more_", kill, ".csv"), 300);
    train.Kill(SIGKILL);
    train.Wait();
  }
  clicks.End();
  clicks.CheckDone(Coxswain(clicks.Resumable({"--local", "2x2"})));
}

TEST_CASE("a job that follows is interrupted while it waits, and goes on with new files",
          "[follow]") {
  Clicks clicks;
  clicks.Add("a.csv", 50);
  {
    Process train(CoxswainCommand(clicks.Resumable({"--local", "1x2"})));
    REQUIRE(train.WaitForError(" written, "));
    train.Kill(SIGINT);
    const auto interrupted = train.Wait();
    CAPTURE(interrupted.out, interrupted.err);
    REQUIRE(interrupted.code == 75);
  }
  clicks.Add("b.csv", 20);
  clicks.End();
  clicks.CheckDone(Coxswain(clicks.Resumable({"--local", "1x2"})));
  // After its end it goes on, too: without the end, and with what has come.
  // Files that are trained, and in a checkpoint, may be taken away.
  for (const char* name : {"_DONE", "a.csv", "b.csv"}) {
    fs::remove(clicks.files().Path(absl::StrCat("clicks/", name)));
  }
  clicks.Add("c.csv", 9);
  clicks.CheckDone(
      Coxswain(clicks.Resumable({"--local", "1x2", "--set", "dataset.follow_idle=0.1"})));
}

TEST_CASE("a job that follows stops within an epoch at train.steps, and has the rest later",
          "[follow]") {
  Clicks clicks;
  clicks.Add("a.csv", 100);
  clicks.End();
  const auto first = Coxswain(clicks.Resumable({"--local", "1x2", "--set", "train.steps=5"}));
  CAPTURE(first.out, first.err);
  REQUIRE(first.code == 0);
  clicks.CheckDone(Coxswain(clicks.Resumable({"--local", "1x2"})));
}

TEST_CASE("workers and a parameter server are killed while a job follows: every row is used once",
          "[follow]") {
  Clicks clicks;
  Daemons daemons(clicks.files(), 2, 2);
  Process train(CoxswainCommand(clicks.Resumable({"--cluster", daemons.cluster_file()})));
  clicks.Add("a.csv", 3000);
  REQUIRE(train.WaitForOutput("epoch 1: "));
  daemons.worker(0).Kill(SIGKILL);
  daemons.worker(0).Wait();
  clicks.Add("b.csv", 2000);
  daemons.RestartWorker(0);
  REQUIRE(train.WaitForOutput("epoch 2: "));
  daemons.ps(1).Kill(SIGKILL);
  daemons.ps(1).Wait();
  clicks.Add("c.csv", 500);
  daemons.RestartPs(1);
  clicks.End();
  clicks.CheckDone(train.Wait());
}

TEST_CASE("a file that is written to after it was taken ends a job that follows, and is named",
          "[follow]") {
  Clicks clicks;
  clicks.Add("a.csv", 10);
  Process train(CoxswainCommand(clicks.Train({"--local", "1x1"})));
  REQUIRE(train.WaitForOutput("epoch 1: "));
  clicks.files().Write("clicks/a.csv", "n,color,size,clicked\n1,red,1,1\n");
  const auto result = train.Wait();
  CHECK(result.code != 0);
  CHECK_THAT(result.err, Contains("clicks/a.csv: changed since it was indexed"));
}

TEST_CASE("a new file that cannot be read ends a job that follows, and nothing trained is lost",
          "[follow]") {
  Clicks clicks;
  clicks.Add("a.csv", 30);
  const Strings command =
      clicks.Resumable({"--local", "1x1", "--set", "checkpoint.every_seconds=1000"});
  Process train(CoxswainCommand(command));
  REQUIRE(train.WaitForOutput("epoch 1: "));
  clicks.AddText("b.csv", "n,color,size,clicked\n77,red,many,1\n");
  const auto failed = train.Wait();
  CAPTURE(failed.out, failed.err);
  CHECK(failed.code == 3);
  CHECK_THAT(failed.err, Contains("clicks/b.csv:2:") && Contains("write it as NAME.tmp") &&
                             Contains("a checkpoint has all that was trained: --resume"));
  // The file is away: all that there was is trained.
  fs::remove(clicks.files().Path("clicks/b.csv"));
  clicks.Add("c.csv", 20);
  clicks.End();
  const auto result = Coxswain(command);
  CHECK_THAT(result.err, Contains("resuming from "));
  CHECK_THAT(result.err, !Contains("step 0"));
  CHECK_THAT(result.out, !Contains("epoch 1: "));
  clicks.CheckDone(result);
}

TEST_CASE(
    "a job that follows and has trained nothing writes no checkpoint for a file it cannot read",
    "[follow]") {
  Clicks clicks;
  clicks.Add("a.csv", 30);
  clicks.AddText("b.csv", "n,color,size,clicked\n77,red,many,1\n");
  for (int run = 0; run < 2; ++run) {
    const auto failed = Coxswain(clicks.Resumable({"--local", "1x1"}));
    CAPTURE(run, failed.out, failed.err);
    CHECK(failed.code == 3);
    CHECK_THAT(failed.err, Contains("b.csv:2:") && !Contains("--resume goes on"));
  }
  fs::remove(clicks.files().Path("clicks/b.csv"));
  clicks.End();
  clicks.CheckDone(Coxswain(clicks.Resumable({"--local", "1x1"})));
}

TEST_CASE("a pattern that asks for names of unfinished files gets them", "[follow]") {
  Clicks clicks;
  clicks.Add("a.part", 30);
  clicks.Add("left.csv", 20);
  clicks.End();
  const auto result = Coxswain(clicks.Train(
      {"--local", "1x1", "--set", "dataset.path=" + clicks.files().Path("clicks/*.part")}));
  CAPTURE(result.out, result.err);
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Contains("epoch 1: 30 rows of "));
}

TEST_CASE("a packed file that is not whole yet ends a job that follows with what to do",
          "[follow]") {
  Clicks clicks;
  const std::string whole = clicks.files().WriteGzip("whole.gz", clicks.Rows(2000));
  fs::resize_file(whole, fs::file_size(whole) / 2);
  clicks.Add("a.csv", 30);
  Process train(CoxswainCommand(clicks.Train({"--local", "1x1"})));
  REQUIRE(train.WaitForOutput("epoch 1: "));
  fs::rename(whole, clicks.files().Path("clicks/b.csv.gz"));
  const auto result = train.Wait();
  CAPTURE(result.out, result.err);
  CHECK(result.code == 3);
  CHECK_THAT(result.err, Contains("b.csv.gz") && Contains("write it as NAME.tmp and rename it"));
}

TEST_CASE("train.on_error ignore: a new file that cannot be read is told and left out",
          "[follow]") {
  Clicks clicks;
  clicks.AddText("bad.csv", "n,color,size,clicked\n77,red,many,1\n");
  clicks.Add("good.csv", 30);
  Process train(
      CoxswainCommand(clicks.Train({"--local", "1x1", "--set", "train.on_error=ignore"})));
  const bool begun = train.WaitForOutput("epoch 1: ");
  CAPTURE(train.out(), train.err());
  REQUIRE(begun);
  // One that is alone is no epoch.
  clicks.AddText("alone.csv", "n,color,size,clicked\n78,red,many,1\n");
  REQUIRE(train.WaitForError("alone.csv:2:"));
  // Put right it is a file like any other.
  clicks.Add("alone.csv", 20);
  clicks.End();
  const auto result = train.Wait();
  CHECK_THAT(result.err,
             Contains("a file is left out (train.on_error: ignore): ") && Contains("bad.csv:2:"));
  CHECK_THAT(result.out, Contains("epoch 2: 20 rows of "));
  clicks.CheckDone(result);
}

TEST_CASE("a file that was no good before a job that follows began is told as one that comes later",
          "[follow]") {
  Clicks clicks;
  clicks.Add("good.csv", 30);
  const std::string whole = clicks.files().WriteGzip("whole.gz", clicks.Rows(2000));
  fs::resize_file(whole, fs::file_size(whole) / 2);
  const auto tries = [&clicks](const std::string& bad, const char* why) {
    const auto failed = Coxswain(clicks.Train({"--local", "1x1"}));
    CAPTURE(bad, failed.out, failed.err);
    CHECK(failed.code == 3);
    CHECK_THAT(failed.err, Contains(bad) && Contains(why));
    const auto ignored = Coxswain(clicks.Train(
        {"--local", "1x1", "--set", "train.on_error=ignore", "--set", "dataset.follow_idle=0.1"}));
    CAPTURE(ignored.out, ignored.err);
    CHECK(ignored.code == 0);
    CHECK_THAT(ignored.err,
               Contains("a file is left out (train.on_error: ignore): ") && Contains(bad));
    CHECK_THAT(ignored.out, Contains("epoch 1: 30 rows of "));
  };
  fs::rename(whole, clicks.files().Path("clicks/a.csv.gz"));
  tries("a.csv.gz", "write it as NAME.tmp and rename it");
  fs::remove(clicks.files().Path("clicks/a.csv.gz"));
  clicks.AddText("b.csv", "");
  tries("b.csv", "write it as NAME.tmp and rename it");
  fs::remove(clicks.files().Path("clicks/b.csv"));
  clicks.AddText("c.csv", "n,colour,size,clicked\n77,red,3,1\n");
  tries("c.csv", "wanted a column \"color\", found none of that name; did you mean \"colour\"?");
}

TEST_CASE("validate says that it has not read the files of a job that follows, or reads them",
          "[follow]") {
  Clicks clicks;
  clicks.AddText("a.csv", "n,color,size,clicked\n1,\"re");  // the rest is missing
  const std::string job = clicks.files().Path("job.yaml");
  const auto columns = Coxswain({"validate", job});
  CHECK(columns.code == 0);
  CHECK_THAT(columns.out, Contains("files that have come so far were not read; --data reads"));
  const auto all = Coxswain({"validate", job, "--data"});
  CHECK(all.code == 2);
  CHECK_THAT(all.err, Contains("a.csv:2:3: wanted a closing quote"));
  CHECK_THAT(all.out, !Contains("is valid"));
}

TEST_CASE(
    "a mistake in a column's name is told before a job that follows begins, as one of the job",
    "[follow]") {
  Clicks clicks;
  clicks.Add("a.csv", 30);
  clicks.Add("b.csv", 30);
  const auto result = Coxswain(clicks.Train({"--local", "1x1", "--set", "label.column=clickt"}));
  CAPTURE(result.out, result.err);
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains("unknown column 'clickt'; did you mean 'clicked'?") &&
                             Contains("a.csv") && !Contains("b.csv") && !Contains("write it as"));
}

TEST_CASE("a job that follows a directory that is not there is refused", "[follow]") {
  Clicks clicks;
  const auto result = Coxswain(clicks.Train({"--local", "1x1", "--set", "dataset.path=nowhere"}));
  CAPTURE(result.out, result.err);
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains("nowhere: dataset.follow: wanted a directory"));
}

// Rows name items whose prices are in a table that is replaced while the job runs.
class Shop {
 public:
  Shop() {
    fs::create_directory(files_.Path("clicks"));
    job_ = files_.Write("job.yaml", R"(
dataset: {path: clicks, follow: true, cache_directory: cache, join: [{path: items.csv, on: item}]}
features: [{name: price, kind: numeric}]
label: {column: clicked}
model: {kind: logistic_regression}
train: {batch_size: 8}
checkpoint: {every_seconds: 0.1, keep: 1000}
cluster: {lease_seconds: 0.5}
)");
    rows_ = files_.Write("rows.csv", "item\n0\n1\n2\n");
    Replace(1);
  }
  // Items with other prices, and more of them.
  void Replace(int times) const {
    std::string text = "item,price\n";
    for (int i = 0; i < 3 + times; ++i) absl::StrAppend(&text, i, ",", (i % 2) * times + 0.5, "\n");
    const std::string written = files_.Write("items.csv.new", text);
    fs::rename(written, files_.Path("items.csv"));
  }
  void Add(const std::string& name) const {
    std::string text = "item,clicked\n";
    for (int i = 0; i < 60; ++i) absl::StrAppend(&text, i % 3, ",", i % 3 == 1 ? 1 : 0, "\n");
    const std::string written = files_.Write("clicks/" + name + ".tmp", text);
    fs::rename(written, files_.Path("clicks/" + name));
  }
  void End() const { files_.Write("clicks/_DONE", ""); }
  Strings Train(const Strings& more) const {
    Strings all = {"train", job_,          "--resume",          "--checkpoint-dir",
                   saved(), "--model-dir", files_.Path("model")};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string Predict(const Strings& from) const {
    Strings all = {"predict", "--input", rows_};
    all.insert(all.end(), from.begin(), from.end());
    const auto result = Coxswain(all);
    CAPTURE(result.out, result.err);
    REQUIRE(result.code == 0);
    return result.out;
  }
  // The number of the newest checkpoint.
  std::string Newest() const {
    std::string newest;
    for (const auto& entry : fs::directory_iterator(saved())) {
      const std::string name = entry.path().filename();
      if (name.rfind("checkpoint-", 0) == 0 && name.find('.') == std::string::npos) {
        newest = std::max(newest, name);
      }
    }
    return newest.substr(newest.find_first_not_of("checkpoint-0"));
  }
  std::string saved() const { return files_.Path("saved"); }
  const DataFiles& files() const { return files_; }

 private:
  const DataFiles files_;
  std::string job_, rows_;
};

TEST_CASE(
    "each checkpoint of a job that follows predicts with the joined table that it trained with",
    "[follow]") {
  Shop shop;
  shop.Add("1.csv");
  {
    Process train(CoxswainCommand(shop.Train({"--local", "1x1"})));
    REQUIRE(train.WaitForOutput("epoch 1: "));
    REQUIRE(train.WaitForError(" written, "));
    train.Kill(SIGINT);
    const auto interrupted = train.Wait();
    CAPTURE(interrupted.out, interrupted.err);
    REQUIRE(interrupted.code == 75);
  }
  const std::string first = shop.Newest();
  const std::string by_first = shop.Predict({"--checkpoint-dir", shop.saved()});
  shop.Replace(7);
  shop.Add("2.csv");
  Process train(CoxswainCommand(shop.Train({"--local", "1x1"})));
  REQUIRE(train.WaitForOutput("epoch 2: "));
  shop.Replace(9);
  shop.Add("3.csv");
  shop.End();
  const auto result = train.Wait();
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.out, Contains("epoch 3: "));
  const std::string by_last = shop.Predict({"--checkpoint-dir", shop.saved()});
  CHECK(by_last == shop.Predict({"--model-dir", shop.files().Path("model")}));
  CHECK(by_last != by_first);
  CHECK(shop.Predict({"--checkpoint-dir", shop.saved(), "--checkpoint", first}) == by_first);
}

// What the job ends with that stops within its first epoch; `replace`: its table is another one
// when it goes on.
std::string PredictedAfterStop(bool replace) {
  Shop shop;
  shop.Add("1.csv");
  shop.End();
  const Strings with = {"--local", "1x1", "--set", "train.closures_in_flight=1"};
  Strings stops = with;
  stops.insert(stops.end(), {"--set", "train.steps=3"});
  const auto stopped = Coxswain(shop.Train(stops));
  CAPTURE(stopped.out, stopped.err);
  REQUIRE(stopped.code == 0);
  if (replace) shop.Replace(7);
  fs::remove_all(shop.files().Path("model"));
  const auto result = Coxswain(shop.Train(with));
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK((result.err.find("goes on with the tables that it began with") != std::string::npos) ==
        replace);
  return shop.Predict({"--checkpoint-dir", shop.saved()});
}

TEST_CASE("a job that follows goes on within an epoch with the joined table that this began with",
          "[follow]") {
  CHECK(PredictedAfterStop(/*replace=*/true) == PredictedAfterStop(/*replace=*/false));
}

TEST_CASE("a worker comes back to a job that follows and whose joined table was replaced",
          "[follow]") {
  Shop shop;
  Daemons daemons(shop.files(), 1, 1);
  Process train(CoxswainCommand(shop.Train({"--cluster", daemons.cluster_file()})));
  shop.Add("1.csv");
  REQUIRE(train.WaitForOutput("epoch 1: "));
  shop.Replace(7);
  shop.Add("2.csv");
  REQUIRE(train.WaitForOutput("epoch 2: "));
  daemons.worker(0).Kill(SIGKILL);
  daemons.worker(0).Wait();
  shop.Add("3.csv");
  shop.End();
  daemons.RestartWorker(0);
  const auto result = train.Wait();
  CAPTURE(result.out, result.err);
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Contains("epoch 3: "));
}

TEST_CASE("a job that follows is saved with the joined table of an object store", "[follow]") {
  if (!HasArrow()) return;
  Shop shop;
  ObjectStore store;
  const std::string text = "item,price\n0,0.5\n1,2\n2,0.5\n";
  store.Put("shop/items.csv", text);
  shop.Add("1.csv");
  shop.End();
  Process train(
      CoxswainCommand(shop.Train(
          {"--local", "1x1", "--set", "dataset.join=[{path: s3://shop/items.csv, on: item}]"})),
      store.environment());
  const auto result = train.Wait();
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  std::ifstream saved(shop.files().Path("model/joined/0.csv"));
  CHECK(std::string(std::istreambuf_iterator<char>(saved), {}) == text);
}

}  // namespace
}  // namespace coxswain
