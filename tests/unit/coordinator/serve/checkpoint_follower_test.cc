// A server that follows a job: what it says of each checkpoint, what it reads for it, and what
// becomes of checkpoints that cannot be served.
#include "coordinator/serve/checkpoint_follower.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "coordinator/model/model_directory.h"
#include "coordinator/serve/model_service.h"
#include "nlohmann/json.hpp"
#include "tests/testing/training_job.h"

namespace coxswain::serve {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;
using testing::Must;
namespace fs = std::filesystem;

constexpr char kPredict[] = "/v1/models/m:predict";

// Rows of n,x,y; x has many values, of which a step touches few.
std::string Rows() {
  std::string rows = "n,x,y\n";
  for (int i = 0; i < 600; ++i) absl::StrAppend(&rows, i % 10, ",v", i % 300, ",", i % 2, "\n");
  return rows;
}

std::string Job(const std::string& x, const std::string& rest = "") {
  return absl::StrCat("name: followed\ndataset: {path: train.csv}\nfeatures:\n",
                      "  - {name: n, kind: numeric}\n  - {name: x, kind: categorical, ", x,
                      "}\ntrain: {batch_size: 8}\nlabel: {column: y}\n",
                      "model: {kind: mlp, hidden: [4]}\n", rest);
}

constexpr char kSome[] = R"({"instances": [{"n": 1, "x": "v1"}, {"n": 2, "x": "v17"},
    {"n": 3, "x": "v299"}, {"n": 9, "x": "v8"}]})";

// A service of what a directory has, without a thread: it looks when it is told to.
struct Following {
  explicit Following(const std::string& directory)
      : follower(directory, files.get(),
                 {.on_version =
                      [this](ServedPtr served, const std::string&) {
                        ++loads;
                        service.Replace(std::move(served));
                      },
                  .on_error = [this](const absl::Status& s) { errors.emplace_back(s.message()); }}),
        service(ServedPtr(),
                {.name = "m",
                 .max_rows = 100,
                 .admission = {.at_once = 8, .waiting = 8, .patience = absl::Hours(1)},
                 .use = [this](std::optional<int64_t> version) { return follower.Use(version); }}) {
  }
  int64_t version() {
    const json status = json::parse(service.Handle("GET", "/v1/models/m", "").body);
    return std::stoll(status["model_version_status"][0]["version"].get<std::string>());
  }
  std::string Says() {
    const Answer answer = service.Handle("POST", kPredict, kSome);
    INFO(answer.body);
    REQUIRE(answer.status == 200);
    return answer.body;
  }
  Answer Use(const std::string& version, bool trusted = true) {
    return service.Handle("POST", "/v1/models/m:use", absl::StrCat("{\"version\": ", version, "}"),
                          {.trusted = trusted});
  }

  std::unique_ptr<env::FileSystem> files = env::NewRealFileSystem();
  int loads = 0;
  std::vector<std::string> errors;
  CheckpointFollower follower;
  ModelService service;
};

// What a saved model says of the same rows.
std::string ModelSays(const std::string& directory) {
  ModelService service(Must(LoadServed(directory)),
                       {.name = "m", .max_rows = 100, .admission = {}});
  return service.Handle("POST", kPredict, kSome).body;
}

TEST_CASE("follow: each checkpoint answers as the model saved at that moment, for every table",
          "[serve]") {
  const std::string bf16 = "tables: {x: {dtype: bf16}}\n";
  for (const auto& [x, rest] : {std::pair<std::string, std::string>{"oov_buckets: 1", ""},
                                {"oov_buckets: 1", "tables: {x: {sharding: hash}}\n"},
                                {"oov_buckets: 1", "tables: {x: {sharding: mod}}\n"},
                                {"oov_buckets: 1", bf16},
                                {"id: hash", ""},
                                {"id: hash", "tables: {x: {hash_table: {max_rows: 60}}}\n"},
                                {"id: hash", "tables: {x: {hash_table: {ttl_steps: 5}}}\n"},
                                {"id: hash", bf16}}) {
    CAPTURE(x, rest);
    const DataFiles files;
    files.Write("train.csv", Rows());
    TrainingJob job(files, Job(x, rest));
    job.SaveInputs();
    Following following(job.directory());
    for (int i = 0; i < 8; ++i) {
      job.Steps(3);
      following.follower.Look();
      CHECK(following.errors.empty());
      CHECK(following.version() == job.steps());
      CHECK(following.Says() == ModelSays(job.Save(files.Path("model"))));
    }
    CHECK(following.loads == 8);
    following.follower.Look();
    CHECK(following.loads == 8);
  }
}

TEST_CASE("follow: of a job with moving averages these answer, as in its saved model", "[serve]") {
  for (const std::string x : {"oov_buckets: 1", "id: hash"}) {
    for (const std::string dtype : {"f32", "bf16"}) {
      CAPTURE(x, dtype);
      const DataFiles files, others;
      files.Write("train.csv", Rows());
      others.Write("train.csv", Rows());
      const std::string tables = absl::StrCat("tables: {x: {dtype: ", dtype, "}}\n");
      const std::string averaged = absl::StrReplaceAll(
          Job(x, tables), {{"batch_size: 8", "batch_size: 8, ema: {decay: 0.9}"}});
      TrainingJob job(files, averaged), plain(others, Job(x, tables));
      job.SaveInputs();
      Following following(job.directory());
      for (int i = 0; i < 4; ++i) {
        job.Steps(3);
        plain.Steps(3);
        following.follower.Look();
        CHECK(following.errors.empty());
        const std::string model = ModelSays(job.Save(files.Path("model")));
        if (dtype == "f32") CHECK(following.Says() == model);
        CHECK(model != ModelSays(plain.Save(others.Path("model"))));
      }
    }
  }
}

TEST_CASE("follow: a file that an earlier checkpoint in memory has is not read again", "[serve]") {
  const DataFiles files;
  files.Write("train.csv", Rows());
  TrainingJob job(files, Job("oov_buckets: 1, dim: 64"));
  job.SaveInputs();
  job.Steps(1);
  const auto loaded = std::make_shared<model::CheckpointTables>();
  const auto load = [&] {
    const uint64_t before = loaded->bytes_read();
    auto predictor =
        Must(predict::Predictor::LoadCheckpoint({.directory = job.directory(), .tables = loaded}));
    return std::pair(std::move(predictor), loaded->bytes_read() - before);
  };
  const auto [first, whole] = load();
  job.Steps(1);
  // Checkpoints build on the last but one: what each loses with a file the other still has.
  const auto [second, other] = load();
  job.Steps(1);
  const auto [third, delta] = load();
  CHECK(delta > 0);
  CHECK(delta < whole / 2);
  const auto [fourth, nothing] = load();
  CHECK(nothing == 0);
}

TEST_CASE("follow: a newer checkpoint costs memory for the rows that it changed", "[serve]") {
  for (const std::string x : {"oov_buckets: 1, dim: 64", "id: hash, dim: 64"}) {
    CAPTURE(x);
    const DataFiles files;
    files.Write("train.csv", Rows());
    TrainingJob job(files, Job(x));
    job.SaveInputs();
    const auto tables = std::make_shared<model::CheckpointTables>();
    const auto load = [&] {
      return Must(
          predict::Predictor::LoadCheckpoint({.directory = job.directory(), .tables = tables}));
    };
    job.Steps(60);  // all rows that the data have
    auto held = load();
    for (int i = 0; i < 6; ++i) {
      const int64_t before = tables->bytes_held();
      job.Steps(1);  // eight rows
      auto next = load();
      CHECK(tables->bytes_held() > before);
      CHECK(tables->bytes_held() < before * 3 / 2);
      held = std::move(next);
    }
    model::CheckpointTables anew;
    const auto alone = Must(predict::Predictor::LoadCheckpoint(
        {.directory = job.directory(),
         .tables = std::shared_ptr<model::CheckpointTables>(&anew, [](auto*) {})}));
    CHECK(tables->bytes_held() < anew.bytes_held() * 3 / 2);
  }
}

TEST_CASE("follow: exact neighbours of a checkpoint are found without its files", "[serve]") {
  for (const char* rest : {"", "tables: {x: {sharding: hash}}\n", "tables: {x: {dtype: bf16}}\n"}) {
    CAPTURE(rest);
    const DataFiles files;
    files.Write("train.csv", Rows());
    TrainingJob job(files, Job("oov_buckets: 1", rest));
    job.SaveInputs();
    Following following(job.directory());
    job.Steps(3);
    following.follower.Look();
    job.Steps(3);  // the second one is a delta
    following.follower.Look();
    CHECK(following.errors.empty());
    ModelService saved(Must(LoadServed(job.Save(files.Path("model")))),
                       {.name = "m", .max_rows = 100, .admission = {}});
    for (const auto& entry : fs::recursive_directory_iterator(job.directory())) {
      if (entry.path().extension() == ".safetensors") fs::resize_file(entry.path(), 0);
    }
    const char* const question = R"({"instances": ["v1", "v299"], "k": 4, "exact": true})";
    const Answer found = following.service.Handle("POST", "/v1/models/m:nearest", question);
    CHECK(found.status == 200);
    CHECK(found.body == saved.Handle("POST", "/v1/models/m:nearest", question).body);
  }
}

TEST_CASE("follow: before the first checkpoint it says that there is none", "[serve]") {
  const DataFiles files;
  Following following(files.Path("none yet"));
  following.follower.Look();
  CHECK(following.errors.empty());
  CHECK(following.service.Handle("POST", kPredict, kSome).status == 503);
  CHECK(following.service.Handle("GET", "/readyz", "").status == 503);
  CHECK(following.service.Handle("GET", "/healthz", "").status == 200);
  CHECK_THAT(following.service.Handle("GET", "/v1/models/m", "").body, Contains("LOADING"));
}

TEST_CASE("follow: a torn checkpoint is told once, the one before answers, the next one is served",
          "[serve]") {
  const DataFiles files;
  files.Write("train.csv", Rows());
  TrainingJob job(files, Job("oov_buckets: 1"));
  job.SaveInputs();
  job.Steps(2);
  Following following(job.directory());
  following.follower.Look();
  const std::string before = following.Says();
  job.Steps(2);
  // A file of the newest one loses its end.
  for (const auto& entry : fs::directory_iterator(job.directory() + "/checkpoint-000002")) {
    const bool own = fs::hard_link_count(entry.path()) == 1;
    if (entry.path().extension() == ".safetensors" && own) {
      fs::resize_file(entry.path(), entry.file_size() - 1);
    }
  }
  following.follower.Look();
  following.follower.Look();
  CHECK(following.version() == 2);
  CHECK(following.Says() == before);
  REQUIRE(following.errors.size() == 1);
  CHECK_THAT(following.errors[0], Contains("checkpoint-000002") && Contains(".safetensors"));
  fs::remove_all(job.directory() + "/checkpoint-000002");
  following.follower.Look();
  CHECK(following.version() == 2);
}

TEST_CASE("follow: a checkpoint is served when the last of its files has come, or was put right",
          "[serve]") {
  const DataFiles files;
  files.Write("train.csv", Rows());
  TrainingJob job(files, Job("oov_buckets: 1"));
  job.SaveInputs();
  job.Steps(2);
  // A copy, as a tool makes it that goes by names: the manifest comes first.
  const fs::path from = fs::path(job.directory()) / "checkpoint-000001", copy = files.Path("copy");
  fs::create_directories(copy);
  fs::copy(fs::path(job.directory()) / "inputs", copy / "inputs", fs::copy_options::recursive);
  fs::create_directories(copy / "checkpoint-000001");
  Following following(copy.string());
  following.follower.Look();
  std::vector<fs::path> names;
  for (const auto& entry : fs::directory_iterator(from)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  REQUIRE(names.size() > 2);
  const size_t told_before = following.errors.size();
  for (size_t i = 0; i + 1 < names.size(); ++i) {
    fs::copy_file(from / names[i], copy / "checkpoint-000001" / names[i]);
    following.follower.Look();
    CHECK(following.loads == 0);
  }
  CHECK(following.errors.size() > told_before);
  const fs::path last = copy / "checkpoint-000001" / names.back();
  fs::copy_file(from / names.back(), last);
  fs::resize_file(last, fs::file_size(last) - 1);
  following.follower.Look();
  CHECK(following.loads == 0);
  fs::copy_file(from / names.back(), last, fs::copy_options::overwrite_existing);
  following.follower.Look();
  CHECK(following.version() == 2);
  CHECK(following.Says() == ModelSays(job.Save(files.Path("model"))));
}

TEST_CASE("follow: where a delta is missing, the version before it answers, and so does the next",
          "[serve]") {
  const DataFiles files;
  files.Write("train.csv", Rows());
  TrainingJob job(files, Job("id: hash"), /*keep=*/5);
  job.SaveInputs();
  Following following(job.directory());
  for (int i = 0; i < 3; ++i) {
    job.Steps(2);
    following.follower.Look();
  }
  const std::string before = following.Says();
  job.Steps(2);
  int removed = 0;
  for (const auto& entry : fs::directory_iterator(job.directory() + "/checkpoint-000004")) {
    const bool own = fs::hard_link_count(entry.path()) == 1;
    if (entry.path().extension() == ".safetensors" && own) removed += fs::remove(entry.path());
  }
  REQUIRE(removed > 0);
  following.follower.Look();
  CHECK(following.version() == 6);
  CHECK(following.Says() == before);
  REQUIRE(following.errors.size() == 1);
  CHECK_THAT(following.errors[0], Contains("checkpoint-000004") && Contains(".safetensors"));
  job.Steps(2);  // builds on the third
  following.follower.Look();
  CHECK(following.errors.size() == 1);
  CHECK(following.version() == 10);
  CHECK(following.Says() == ModelSays(job.Save(files.Path("model"))));
}

TEST_CASE("follow: a checkpoint of another job, or without inputs, is told and not served",
          "[serve]") {
  const DataFiles files, others;
  files.Write("train.csv", Rows());
  others.Write("train.csv", Rows() + "3,v5,1\n");
  TrainingJob job(files, Job("oov_buckets: 1"));
  job.Steps(1);
  Following following(job.directory());
  following.follower.Look();
  REQUIRE(following.errors.size() == 1);
  CHECK_THAT(following.errors[0], Contains("inputs is not there"));
  job.SaveInputs();
  following.follower.Look();
  CHECK(following.version() == 1);
  TrainingJob other(others, Job("oov_buckets: 1"));
  other.SaveInputs();
  other.Steps(5);
  fs::copy(other.directory() + "/checkpoint-000001", job.directory() + "/checkpoint-000007",
           fs::copy_options::recursive);
  following.follower.Look();
  CHECK(following.version() == 1);
  CHECK(following.errors.size() == 2);
}

TEST_CASE("follow: a request goes back to an older checkpoint, and to following", "[serve]") {
  const DataFiles files;
  files.Write("train.csv", Rows());
  TrainingJob job(files, Job("oov_buckets: 1"));
  job.SaveInputs();
  Following following(job.directory());
  std::vector<std::string> said;
  for (int i = 0; i < 3; ++i) {
    job.Steps(2);
    following.follower.Look();
    said.push_back(following.Says());
  }
  const Answer back = following.Use("2");
  INFO(back.body);
  CHECK(back.status == 200);
  CHECK(json::parse(back.body)["following"] == false);
  CHECK(following.Says() == said[0]);
  job.Steps(2);  // newer ones do not matter now, nor that the chosen one is removed
  following.follower.Look();
  std::error_code gone;  // it is the oldest, and may be gone already
  fs::remove_all(job.directory() + "/checkpoint-000001", gone);
  CHECK(following.version() == 2);
  CHECK(following.Says() == said[0]);
  const Answer unknown = following.Use("3");
  CHECK(unknown.status == 404);
  CHECK_THAT(unknown.body, Contains("but of 4, 6, 8"));
  CHECK(following.version() == 2);
  CHECK(following.Use("\"last\"").status == 400);
  CHECK(following.Use("\"-4\"").status == 400);
  // As the status and the answers say it.
  const std::string version = json::parse(following.Use("4").body)["version"].dump();
  CHECK(version == "\"4\"");
  CHECK(following.Use(version).status == 200);
  CHECK(following.version() == 4);
  CHECK(following.Use("4", /*trusted=*/false).status == 403);
  CHECK(following.Use("\"newest\"").status == 200);
  CHECK(following.version() == 8);
  job.Steps(2);
  following.follower.Look();
  CHECK(following.version() == 10);
}

TEST_CASE("follow: no request fails while checkpoints come, and each answer is of one of them",
          "[serve]") {
  const DataFiles files;
  files.Write("train.csv", Rows());
  TrainingJob job(files, Job("oov_buckets: 1"));
  job.SaveInputs();
  Following following(job.directory());
  job.Steps(1);
  following.follower.Look();
  std::atomic<bool> ending{false};
  std::atomic<int> failed{0}, asked{0};
  std::vector<std::thread> clients;
  for (int c = 0; c < 3; ++c) {
    clients.emplace_back([&] {
      while (!ending.load()) {
        failed += following.service.Handle("POST", kPredict, kSome).status != 200;
        ++asked;
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    job.Steps(1);
    following.follower.Look();
    CHECK(following.version() == job.steps());
  }
  ending = true;
  for (std::thread& client : clients) client.join();
  CHECK(asked > 0);
  CHECK(failed == 0);
  CHECK(following.errors.empty());
}

TEST_CASE("follow: versions share their vocabularies, until the inputs are others", "[serve]") {
  const DataFiles files;
  files.Write("train.csv", Rows());
  TrainingJob job(files, Job("oov_buckets: 1"));
  job.SaveInputs();
  const auto inputs = std::make_shared<predict::SharedInputs>();
  const auto load = [&] {
    job.Steps(1);
    return Must(
        predict::Predictor::LoadCheckpoint({.directory = job.directory(), .inputs = inputs}));
  };
  const auto first = load(), second = load();
  REQUIRE(first->VocabularyOf("x") != nullptr);
  CHECK(first->VocabularyOf("x") == second->VocabularyOf("x"));
  fs::rename(job.directory() + "/inputs", job.directory() + "/inputs.old");
  job.SaveInputs();
  const auto third = load();
  CHECK(third->VocabularyOf("x") != first->VocabularyOf("x"));
  CHECK(third->IdOf("v17") == first->IdOf("v17"));
}

TEST_CASE("follow: versions share what users are known to have, until the inputs are others",
          "[serve]") {
  const DataFiles files;
  std::string rows = "user,item\n";
  for (int i = 0; i < 60; ++i) absl::StrAppend(&rows, "u", i % 6, ",i", i % 11, "\n");
  files.Write("train.csv", rows);
  TrainingJob job(files,
                  "name: followed\ndataset: {path: train.csv}\nfeatures:\n"
                  "  - {name: item, kind: categorical}\n"
                  "  - {name: seen, kind: history, history_of: item, group_by: user}\n"
                  "train: {batch_size: 8}\nloss: {kind: sampled_softmax}\n"
                  "model: {kind: two_tower, dim: 4, user: {features: [seen]}, "
                  "item: {feature: item}}\n");
  job.SaveInputs();
  std::vector<ServedPtr> versions;
  const auto system = env::NewRealFileSystem();
  CheckpointFollower follower(
      job.directory(), system.get(),
      {.on_version = [&](ServedPtr served,
                         const std::string&) { versions.push_back(std::move(served)); },
       .on_error = [](const absl::Status& s) { FAIL(s.message()); }});
  for (int i = 0; i < 2; ++i) {
    job.Steps(2);
    follower.Look();
  }
  fs::rename(job.directory() + "/inputs", job.directory() + "/inputs.old");
  job.SaveInputs();  // other files, of the same content
  job.Steps(2);
  follower.Look();
  REQUIRE(versions.size() == 3);
  REQUIRE(versions[0]->recommender->history() != nullptr);
  CHECK(versions[0]->recommender->history() == versions[1]->recommender->history());
  CHECK(versions[1]->recommender->history() != versions[2]->recommender->history());
}

TEST_CASE("follow: inputs take the place of an earlier job's, and of nothing else", "[serve]") {
  const DataFiles files;
  files.Write("train.csv", Rows());
  TrainingJob job(files, Job("oov_buckets: 1"));
  job.SaveInputs();
  const std::string inputs = job.directory() + "/inputs";
  const auto written = fs::last_write_time(inputs + "/inputs.json");
  job.SaveInputs();  // as a job that resumes does
  CHECK(fs::last_write_time(inputs + "/inputs.json") == written);
  CHECK(model::CheckReplaceable(inputs, model::kSavedInputs).ok());
  std::ofstream(inputs + "/mine.txt") << "mine";
  const absl::Status stays = model::CheckReplaceable(inputs, model::kSavedInputs);
  CHECK_THAT(std::string(stays.message()), Contains("mine.txt"));
}

}  // namespace
}  // namespace coxswain::serve
