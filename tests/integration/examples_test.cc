// examples/ trains on the files that they are made for: on public data, where COXSWAIN_DATA names a
// directory that has them, or on made-up files in the same format.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/data/hash.h"
#include "tests/integration/jobs.h"
#include "tests/integration/user_folder.h"
#include "tests/testing/pages.h"
#include "tests/testing/paths.h"

namespace coxswain {
namespace {

using Sets = std::vector<std::string>;  // "key=value"

// The metrics of an example that is trained in this process.
nlohmann::json MetricsOf(const DataFiles& files, const std::string& example, const Sets& sets) {
  const std::string report = files.Path("report.json");
  std::vector<std::string> command =
      CoxswainCommand({"train", absl::StrCat(COXSWAIN_SOURCE_DIR "/examples/", example, ".yaml"),
                       "--in-process", "--report", report});
  for (const std::string& set : sets) command.insert(command.end(), {"--set", set});
  const auto result = Run(command, {}, absl::Seconds(300));
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  return ReadJson(report)["metrics"];
}

// The path of a public file; empty, with a warning, when it is not there.
std::string PublicFile(const std::string& name) {
  const char* const directory = std::getenv("COXSWAIN_DATA");
  const std::string path = absl::StrCat(directory == nullptr ? "" : directory, "/", name);
  if (directory != nullptr && std::filesystem::exists(path)) return path;
  WARN("skipped: COXSWAIN_DATA names no directory with " << name);
  return "";
}

TEST_CASE("examples/mnist.yaml learns digits, and clothes, of the files as they are",
          "[train][examples]") {
  // A class is a tenth of the images.
  const auto [name, wanted] = GENERATE(std::pair<std::string, double>("mnist", 0.9),
                                       std::pair<std::string, double>("fashion-mnist", 0.75));
  const std::string training = PublicFile(name + "/train-images-idx3-ubyte.gz");
  const std::string test = PublicFile(name + "/t10k-images-idx3-ubyte.gz");
  if (training.empty() || test.empty()) return;
  const DataFiles files;
  const auto metrics = MetricsOf(
      files, "mnist", {"dataset.path=" + training, "split.test_path=" + test, "train.epochs=1"});
  CHECK(metrics["accuracy"].get<double>() > wanted);
}

TEST_CASE("examples/agaricus.yaml tells mushrooms apart", "[train][examples]") {
  const std::string training = PublicFile("agaricus/agaricus.txt.train");
  const std::string test = PublicFile("agaricus/agaricus.txt.test");
  if (training.empty() || test.empty()) return;
  const DataFiles files;
  const auto metrics = MetricsOf(
      files, "agaricus", {"dataset.path=" + training, "split.test_path=" + test, "train.epochs=2"});
  CHECK(metrics["accuracy"].get<double>() > 0.9);  // 52% can be eaten
}

TEST_CASE("examples/reviews.yaml tells praise from blame", "[train][examples]") {
  const std::string praise = PublicFile("rt-polarity/rt-polarity.pos");
  const std::string blame = PublicFile("rt-polarity/rt-polarity.neg");
  if (praise.empty() || blame.empty()) return;
  const DataFiles files;
  const auto metrics =
      MetricsOf(files, "reviews", {absl::StrCat("dataset.path=[", praise, ", ", blame, "]")});
  CHECK(metrics["accuracy"].get<double>() > 0.68);  // half of them are praise
}

TEST_CASE("examples/movielens.yaml predicts ratings better than their mean", "[train][examples]") {
  const std::string packed = PublicFile("movielens/ml-latest-small.zip");
  if (packed.empty()) return;
  const DataFiles files;
  const auto unzipped = Run({"/usr/bin/env", "unzip", "-p", packed, "ml-latest-small/ratings.csv"});
  CAPTURE(unzipped.err);
  REQUIRE(unzipped.code == 0);
  const auto metrics =
      MetricsOf(files, "movielens",
                {"dataset.path=" + files.Write("ratings.csv", unzipped.out), "train.epochs=6"});
  CHECK(metrics["rmse"].get<double>() < 0.95);  // the mean's is 1.04
}

// The three files of MovieLens-100K: users of three occupations, each of which likes one of three
// genres.
struct Films {
  std::string ratings, users, items;
};

Films PlantedFilms() {
  Films films;
  const char* const occupations[] = {"artist", "doctor", "writer"};
  for (uint64_t user = 1; user <= 60; ++user) {
    absl::StrAppend(&films.users, user, "|", 18 + user % 50, "|", user % 2 == 0 ? "F" : "M", "|",
                    occupations[user % 3], "|8571", user % 10, "\n");
  }
  for (uint64_t item = 1; item <= 90; ++item) {
    // A quote in a title is an ordinary character.
    absl::StrAppend(&films.items, item, "|\"Film\" (1995)|01-Jan-1995||http://film/", item);
    for (uint64_t genre = 0; genre < 19; ++genre) {
      absl::StrAppend(&films.items, "|", genre == 1 + item % 3 ? 1 : 0);
    }
    absl::StrAppend(&films.items, "\n");
  }
  for (uint64_t i = 0; i < 6000; ++i) {
    const uint64_t h = Mix64(i), user = 1 + h % 60, item = 1 + (h >> 8) % 90;
    absl::StrAppend(&films.ratings, user, "\t", item, "\t", user % 3 == item % 3 ? 5 : 2, "\t",
                    880000000 + i, "\n");
  }
  return films;
}

TEST_CASE("examples/movielens_100k.yaml reads ratings, users and films of files in that format",
          "[train][examples]") {
  const DataFiles files;
  const Films films = PlantedFilms();
  const auto metrics = MetricsOf(
      files, "movielens_100k",
      {"dataset.path=" + files.Write("u.data", films.ratings),
       "dataset.join.0.path=" + files.Write("u.user", films.users),
       "dataset.join.1.path=" + files.Write("u.item", films.items), "train.batch_size=64"});
  CHECK(metrics["rmse"].get<double>() < 0.5);  // the deviation of ratings is 1.41
}

// The commands that the heads of the job files below examples/ give as `#   coxswain eval ...`.
std::vector<std::string> EvalsOfExamples() {
  std::vector<std::string> lines;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(COXSWAIN_SOURCE_DIR "/examples")) {
    if (entry.path().extension() != ".yaml") continue;
    const std::string job = entry.path().lexically_relative(COXSWAIN_SOURCE_DIR);
    for (absl::string_view line : absl::StrSplit(PageText(job), '\n')) {
      if (!absl::ConsumePrefix(&line, "#   ") || !absl::StartsWith(line, "coxswain eval "))
        continue;
      lines.emplace_back(line);
    }
  }
  return lines;
}

TEST_CASE(
    "`./dev quality` measures the test part of a job that stops by another one, and job files "
    "tell how to",
    "[train][examples]") {
  if (Run({"/bin/sh", "-c", "command -v python3"}).code != 0) {
    WARN("skipped: python3 is not installed");
    return;
  }
  const Folder folder;
  std::filesystem::create_directories(folder.files.Path("data/ml-100k"));
  folder.files.Write("data/ml-100k/u.data", PlantedFilms().ratings);
  folder.MustDo(
      "python3 " COXSWAIN_SOURCE_DIR
      "/tests/quality/quality.py --coxswain \"$(command -v coxswain)\" --data \"$PWD/data\" "
      "--out out --seeds 1 movielens-100k");
  const auto rows = ReadJson(folder.files.Path("out/quality.json"));
  REQUIRE(rows.size() == 1);
  CHECK(rows[0]["values"].size() == 1);
  const std::vector<std::string> lines = EvalsOfExamples();
  CHECK(lines.size() == 2);
  for (const std::string& line : lines) {
    CHECK_THAT(folder.MustDo(absl::StrReplaceAll(line, {{"MODEL", "out/model"}})),
               Catch::Matchers::Contains("  (test, "));
  }
}

}  // namespace
}  // namespace coxswain
