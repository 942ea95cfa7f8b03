// Files as people have them train by a job alone: nothing prepares them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/data/hash.h"
#include "tests/integration/jobs.h"
#include "tests/testing/paths.h"

namespace coxswain {
namespace {

nlohmann::json Train(const DataFiles& files, const std::string& job,
                     std::vector<std::string> arguments) {
  const std::string report = files.Path("report.json");
  arguments.insert(arguments.begin(), {"train", job, "--in-process", "--report", report});
  const auto result = Coxswain(arguments);
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  return ReadJson(report);
}

// Lines in the format of UCI's Adult, whose label depends on age and education.
std::string AdultLines(int from, int to, bool test) {
  const char* const work[] = {"Private", "State-gov", "Self-emp-inc", "?"};
  const char* const married[] = {"Never-married", "Married-civ-spouse", "Divorced"};
  std::string text = test ? "|1x3 Cross validator\n" : "";
  for (int i = from; i < to; ++i) {
    const uint64_t h = Mix64(static_cast<uint64_t>(i));
    const uint64_t age = 17 + h % 60, education = 1 + (h >> 8) % 16;
    const bool rich = age > 35 && education > 8;
    absl::StrAppend(&text, age, ", ", work[(h >> 16) % 4], ", ", 10000 + h % 90000, ", Bachelors, ",
                    education, ", ", married[(h >> 20) % 3], ", ",
                    (h >> 24) % 5 == 0 ? "?" : "Sales");
    absl::StrAppend(&text, ", Husband, White, Male, ", (h >> 28) % 10 == 0 ? 2174 : 0, ", 0, ",
                    20 + (h >> 32) % 40, ", United-States, ", rich ? ">50K" : "<=50K",
                    test ? ".\n" : "\n");
  }
  return text + "\n";
}

TEST_CASE("UCI Adult's raw files train by examples/adult.yaml, in memory and streamed", "[train]") {
  const DataFiles files;
  const std::string data = files.Write("adult.data", AdultLines(0, 3000, false));
  const std::string test = files.Write("adult.test", AdultLines(5000, 6000, true));
  std::vector<std::string> arguments = {"--set", absl::StrCat("dataset.path=", data),
                                        "--set", absl::StrCat("split.test_path=", test),
                                        "--set", "train.epochs=8"};
  SECTION("in memory") {}
  SECTION("streamed") {
    for (const std::string& set :
         {std::string("dataset.streaming=true"), std::string("dataset.block_bytes=20000"),
          absl::StrCat("dataset.cache_directory=", files.Path("cache"))}) {
      arguments.insert(arguments.end(), {"--set", set});
    }
  }
  const nlohmann::json report =
      Train(files, std::string(COXSWAIN_SOURCE_DIR) + "/examples/adult.yaml", arguments);
  CHECK(report["metrics"]["auc"].get<double>() > 0.9);
}

TEST_CASE("ratings and films of two files train by examples/movielens_genres.yaml", "[train]") {
  const DataFiles files;
  std::string ratings = "userId,movieId,rating,timestamp\n", movies = "movieId,title,genres\n";
  const char* const genres[] = {"Drama", "Comedy", "Action"};
  for (uint64_t movie = 0; movie < 60; ++movie) {
    absl::StrAppend(&movies, movie, ",\"Film, The (19", 10 + movie, ")\",", genres[movie % 3],
                    movie % 2 == 0 ? "|Sci-Fi\n" : "\n");
  }
  for (uint64_t i = 0; i < 4000; ++i) {
    const uint64_t h = Mix64(i), user = h % 50, movie = (h >> 8) % 60;
    absl::StrAppend(&ratings, user, ",", movie, ",", user % 3 == movie % 3 ? "4.5" : "2.0", ",", i,
                    "\n");
  }
  const nlohmann::json report =
      Train(files, std::string(COXSWAIN_SOURCE_DIR) + "/examples/movielens_genres.yaml",
            {"--set", absl::StrCat("dataset.path=", files.Write("ratings.csv", ratings)), "--set",
             absl::StrCat("dataset.join.0.path=", files.Write("movies.csv", movies)), "--set",
             "optimizer.table.learning_rate=0.01", "--set", "train.batch_size=128"});
  CHECK(report["metrics"]["auc"].get<double>() > 0.9);
}

TEST_CASE("films of a table with genres and titles train by examples/movielens_items.yaml",
          "[train][items]") {
  const DataFiles files;
  std::string ratings = "userId,movieId,rating,timestamp\n", movies = "movieId,title,genres\n";
  const char* const genres[] = {"Drama", "Comedy", "Action"};
  // Every tenth film has been rated by nobody, and users rate films of one genre.
  for (int movie = 0; movie < 90; ++movie) {
    absl::StrAppend(&movies, movie, ",\"Film, The (19", 10 + movie, ")\",", genres[movie % 3],
                    "\n");
  }
  for (int user = 0; user < 60; ++user) {
    for (int i = 0; i < 10; ++i) {
      const int movie = (user + i * 7) % 30 * 3 + user % 3;
      if (movie % 10 != 0) absl::StrAppend(&ratings, "u", user, ",", movie, ",4.0,", i, "\n");
    }
  }
  const std::string table = files.Write("movies.csv", movies), model = files.Path("model");
  const nlohmann::json report =
      Train(files, std::string(COXSWAIN_SOURCE_DIR) + "/examples/movielens_items.yaml",
            {"--set", absl::StrCat("dataset.path=", files.Write("ratings.csv", ratings)), "--set",
             absl::StrCat("dataset.join.0.path=", table), "--set",
             absl::StrCat("features.movie.vocabulary_file=", table), "--set",
             "optimizer.table.learning_rate=0.01", "--set", "train.batch_size=64", "--set",
             "train.epochs=20", "--model-dir", model});
  CHECK(report["metrics"]["hit_rate@10"].get<double>() > 0.3);
  // Films 0, 30 and 60 are of the genre that u0 rates, and nobody has rated them.
  const auto all = Coxswain({"recommend", "--model-dir", model, "--user", "u0", "--top", "25"});
  CAPTURE(all.out, all.err);
  REQUIRE(all.code == 0);
  const std::vector<std::string> names = absl::StrSplit(all.out, absl::ByAnyChar(", \n"));
  for (const char* film : {"0", "30", "60"}) {
    CHECK(std::count(names.begin(), names.end(), film) == 1);
  }
}

TEST_CASE("rows of weight 0 neither teach nor count", "[train]") {
  const DataFiles files;
  // Each row has a twin with the wrong label that weighs nothing; without weights all is chance.
  std::string text = "size,label,weight\n";
  for (uint64_t row = 0; row < 600; ++row) {
    const uint64_t size = Mix64(row) % 100;
    absl::StrAppend(&text, size, ",", size < 50 ? 0 : 1, ",2\n", size, ",", size < 50 ? 1 : 0,
                    ",0\n");
  }
  files.Write("rows.csv", text);
  const std::string job = files.Write("job.yaml", R"(
dataset: {path: rows.csv}
features: [{name: size, kind: numeric, normalization: standard}]
label: {column: label, weight: weight}
split: {validation: 0.3}
model: {kind: logistic_regression}
optimizer: {dense: {kind: adam, learning_rate: 0.1}}
train: {epochs: 20, batch_size: 32}
)");
  const nlohmann::json weighted = Train(files, job, {});
  CHECK(weighted["metrics"]["accuracy"].get<double>() > 0.9);
  CHECK(weighted["metrics"]["auc"].get<double>() > 0.95);
  const nlohmann::json unweighted = Train(files, job, {"--set", "label.weight="});
  CHECK(unweighted["metrics"]["accuracy"].get<double>() < 0.65);
}

}  // namespace
}  // namespace coxswain
