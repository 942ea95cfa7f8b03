// Whatever commands write into directories is known where a pattern of data may take it in.
#include "coordinator/cli/read_as_data.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/jobs.h"

namespace coxswain {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using cli::DirectoryOf;

void Succeed(const std::vector<std::string>& arguments) {
  const auto result = Coxswain(arguments);
  CAPTURE(arguments, result.out, result.err);
  REQUIRE(result.code == 0);
}

// Returns the number of files.
int CheckAllKnown(const std::string& directory, DirectoryOf what) {
  const auto refused = [&](const fs::path& pattern) {
    return !cli::CheckNotReadAsData({"--out", directory}, what, {{"the data", pattern.string()}})
                .ok();
  };
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    const fs::path name = entry.path().lexically_relative(directory);
    if (!entry.is_regular_file() || name.string()[0] == '.') continue;
    fs::path folders = directory;
    for (const fs::path& folder : name.parent_path()) {
      if (!folder.empty()) folders /= "*";
    }
    CAPTURE(name.string());
    CHECK(refused(folders / ("*" + name.extension().string())));
    CHECK(refused(folders / "*"));
    CHECK_FALSE(refused(folders / "*.parquet"));
    ++files;
  }
  return files;
}

TEST_CASE("a directory is refused where a pattern would take in any file that is written into it",
          "[files]") {
  const DataFiles files;
  std::string rows = "user,film,label\n";
  for (int i = 0; i < 200; ++i) absl::StrAppend(&rows, "u", i % 9, ",f", i % 7, ",1\n");
  files.Write("rows.csv", rows);
  files.Write("films.csv", "id,genre\nf0,a\nf1,b\nf2,a\n");
  files.WriteGzip("users.csv.gz", "id,age\nu0,30\nu1,40\n");
  const std::string recommender = files.Write("recommender.yaml", R"(
dataset:
  path: rows.csv
  join:
    - {path: films.csv, left_on: film, right_on: id}
    - {path: users.csv.gz, left_on: user, right_on: id}
features:
  - {name: film, kind: categorical}
  - {name: history, kind: history, history_of: film, group_by: user}
  - {name: genre, kind: categorical, hash_buckets: 10, keep_names: true}
  - {name: age, kind: categorical}
split: {test: 0.2}
model:
  kind: two_tower
  dim: 4
  user: {features: [history, age]}
  item: {feature: film, features: [genre]}
optimizer: {table: {kind: lazy_adam}}
train: {epochs: 1, batch_size: 32}
)");
  std::string text;
  for (int i = 0; i < 400; ++i) absl::StrAppend(&text, "w", i % 13, i % 10 == 9 ? "\n" : " ");
  files.Write("text.txt", text);
  const std::string words = files.Write("words.yaml", R"(
dataset: {format: text, path: text.txt}
model: {kind: word2vec, dim: 4}
train: {epochs: 1, batch_size: 64}
)");
  for (const std::string& job : {recommender, words}) {
    CAPTURE(job);
    const std::string out = absl::StrCat(job, ".out/"), model = out + "model",
                      checkpoints = out + "checkpoints";
    Succeed({"train", job, "--in-process", "--quiet", "--model-dir", model, "--model-slots",
             "--checkpoint-dir", checkpoints});
    CHECK(CheckAllKnown(model, DirectoryOf::kModel) > 5);
    CHECK(CheckAllKnown(checkpoints, DirectoryOf::kCheckpoints) > 5);
    for (const char* format : {"csv", "projector", "hnsw"}) {
      const std::string exported = out + format;
      Succeed({"export", "--model-dir", model, "--to", format, "--out", exported});
      CHECK(CheckAllKnown(exported, DirectoryOf::kExport) > 1);
    }
    if (job == words) continue;  // it has nothing to evaluate
    const std::string evaluations = out + "evaluations";
    Succeed({"eval", "--follow", checkpoints, "--eval-dir", evaluations, "--set",
             "evaluate.part=test", "--until-finished"});
    CHECK(CheckAllKnown(evaluations, DirectoryOf::kEvaluations) > 2);
  }
}

TEST_CASE("no command writes a directory where the job's data is looked for", "[files]") {
  const DataFiles files;
  WriteMatrixFactorization(files);
  fs::create_directories(files.Path("days/1"));
  fs::create_directories(files.Path("empty"));
  fs::rename(files.Path("ratings.csv"), files.Path("days/1/ratings.csv"));
  const std::string job = files.Path("mf.yaml");
  const auto train = [&](const std::string& data, std::vector<std::string> more) {
    more.insert(more.begin(), {"train", job, "--in-process", "--quiet", "--set",
                               absl::StrCat("dataset.path=", data), "--set", "train.epochs=1"});
    return Coxswain(more);
  };
  const std::string anything = files.Path("days/*/*"), csv = files.Path("days/*/*.csv"),
                    inside = files.Path("days/inside"), outside = files.Path("outside");
  const auto refuses = [&](const Process::Result& result) {
    CAPTURE(result.out, result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err,
               Contains("would be read as the job's data, which is all of " + anything));
    CHECK_FALSE(fs::exists(inside));
  };
  refuses(train(anything, {"--model-dir", inside}));
  refuses(train(anything, {"--checkpoint-dir", files.Path("days")}));
  refuses(train(anything, {"--set", "dataset.streaming=true", "--set",
                           "dataset.cache_directory=" + files.Path("days")}));
  REQUIRE(train(anything, {"--model-dir", outside, "--checkpoint-dir", outside + "-ck"}).code == 0);
  for (const std::string& from :
       {"--model-dir=" + outside, "--checkpoint-dir=" + outside + "-ck"}) {
    refuses(Coxswain({"export", from, "--to", "csv", "--out", inside}));
  }
  refuses(Coxswain({"eval", "--follow", outside + "-ck", "--eval-dir", inside}));
  // A model has no such files.
  const auto trained = train(csv, {"--model-dir", inside});
  CAPTURE(trained.err);
  CHECK(trained.code == 0);
  CHECK(train(csv, {"--model-dir", inside}).code == 0);
}

}  // namespace
}  // namespace coxswain
