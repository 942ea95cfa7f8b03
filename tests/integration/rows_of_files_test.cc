// Jobs whose tables begin with vectors of a file, by the command line.
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/jobs.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;

std::string ExportedTable(const DataFiles& files, const std::string& model,
                          const std::string& table) {
  const std::string out = files.Path(absl::StrCat("tables-of-", table));
  const auto exported =
      Coxswain({"export", "--model-dir", model, "--to", "csv", "--out", out, "--force"});
  CAPTURE(exported.err);
  REQUIRE(exported.code == 0);
  std::ifstream csv(absl::StrCat(out, "/", table, ".csv"));
  return {std::istreambuf_iterator<char>(csv), std::istreambuf_iterator<char>()};
}

TEST_CASE("train: a table that is not trainable has the rows of its file to the end",
          "[rows_of_files]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), model = files.Path("model");
  files.Write("vectors.txt", "3 4\nu7 1 2 3 4.5\nnobody 0 0 0 0\nu12 -1 0.25 0 1\n");
  const auto result = Coxswain(
      {"train", job, "--local", "2x1", "--model-dir", model, "--report", files.Path("report.json"),
       "--set", "tables={user: {initializer: {kind: file, path: vectors.txt}, trainable: false}}"});
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.out, Contains("initial rows of user from ") &&
                             Contains("vectors.txt: 2, and 28 values that it lacks begin anew; "
                                      "1 of its words have no row"));
  const std::string users = ExportedTable(files, model, "user");
  CHECK_THAT(users, Contains(",u7,1,2,3,4.5\n") && Contains(",u12,-1,0.25,0,1\n"));
  const nlohmann::json report = ReadJson(files.Path("report.json"));
  CHECK(report["updates"]["applied"] == report["steps"]);
}

TEST_CASE("train: rows of a file are trained as others are", "[rows_of_files]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), model = files.Path("model");
  files.Write("vectors.txt", "u7 1 2 3 4.5\n");
  const auto result = Coxswain({"train", job, "--local", "1x1", "--model-dir", model, "--set",
                                "tables={user: {initializer: {kind: file, path: vectors.txt}}}"});
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  const std::string users = ExportedTable(files, model, "user");
  CHECK_THAT(users, Contains(",u7,") && !Contains(",u7,1,2,3,4.5\n"));
  const auto wrong = Coxswain({"train", job, "--local", "1x1", "--set",
                               "tables={user: {initializer: {kind: file, path: missing.txt}}}"});
  CHECK(wrong.code != 0);
  CHECK_THAT(wrong.err, Contains("missing.txt"));
}

// Values with what a vocabulary escapes.
std::string OddValues() {
  std::string csv = "n,y\n";
  for (int i = 0; i < 60; ++i) {
    const char* const values[] = {"plain", "\"a\nb\"", "a\\nb", "a\\b", "\"c\r\nd\""};
    absl::StrAppend(&csv, values[i % 5], ",", i % 5 < 2 ? 1 : 0, "\n");
  }
  return csv;
}

TEST_CASE("train: what export writes of a table is read again, with the model's own vocabulary",
          "[rows_of_files]") {
  const DataFiles files;
  files.Write("a.csv", OddValues());
  const std::string model = files.Path("model"), again = files.Path("again");
  const std::string job = files.Write("job.yaml", R"(name: odd
dataset: {path: a.csv}
features: [{name: n, kind: categorical}]
label: {column: y}
model: {kind: logistic_regression}
optimizer: {table: {kind: adagrad, learning_rate: 0.3}}
train: {epochs: 3, batch_size: 16}
)");
  const auto first = Coxswain({"train", job, "--in-process", "--model-dir", model});
  CAPTURE(first.err);
  REQUIRE(first.code == 0);
  const auto exported =
      Coxswain({"export", "--model-dir", model, "--to", "npz", "--out", files.Path("model.npz")});
  CAPTURE(exported.err);
  REQUIRE(exported.code == 0);
  const bool listed = GENERATE(false, true);
  CAPTURE(listed);
  std::vector<std::string> command = {
      "train",
      job,
      "--in-process",
      "--model-dir",
      again,
      "--set",
      "tables={n_linear: {trainable: false, initializer: {kind: file, path: model.npz, tensor: "
      "n_linear, words: model/vocabulary/n.txt}}}"};
  if (listed) {
    command.insert(command.end(),
                   {"--set",
                    "features=[{name: n, kind: categorical, oov_buckets: 1, vocabulary_file: "
                    "model/vocabulary/n.txt}]"});
  }
  const auto second = Coxswain(command);
  CAPTURE(second.out, second.err);
  REQUIRE(second.code == 0);
  CHECK_THAT(second.out, Contains("initial rows of n_linear from ") &&
                             Contains("model.npz: 5, and 1 of unknown values\n"));
  CHECK(ExportedTable(files, again, "n_linear") == ExportedTable(files, model, "n_linear"));
  std::ifstream was(model + "/vocabulary/n.txt"), is(again + "/vocabulary/n.txt");
  CHECK(std::string(std::istreambuf_iterator<char>(is), {}) ==
        std::string(std::istreambuf_iterator<char>(was), {}));
}

}  // namespace
}  // namespace coxswain
