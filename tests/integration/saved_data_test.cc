// A saved model and its data: the data may change, what the model learned of it does not; and what
// is wrong with data is told before training.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/jobs.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
namespace fs = std::filesystem;

void Train(const std::string& job, const std::string& model,
           const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"train",   job,           "--in-process",
                                        "--quiet", "--model-dir", model};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const auto result = Coxswain(arguments);
  INFO(result.err);
  REQUIRE(result.code == 0);
}

struct Evaluated {
  nlohmann::json report;
  std::string err;
};

Evaluated Eval(const DataFiles& files, const std::string& model,
               std::vector<std::string> job = {}) {
  const std::string report = files.Path("evaluated.json");
  std::vector<std::string> arguments = {"eval"};
  arguments.insert(arguments.end(), job.begin(), job.end());
  arguments.insert(arguments.end(), {"--model-dir", model, "--report", report});
  const auto result = Coxswain(arguments);
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  return {ReadJson(report), result.err};
}

void Append(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::app | std::ios::binary) << text;
}

// Ratings of items, `from` .. `to` of 20, by 30 users: the sum of a user's and an item's number.
std::string Ratings(int from, int to, int twice = -1) {
  std::string csv;
  for (int user = 0; user < 30; ++user) {
    for (int item = from; item < to; ++item) {
      const int times = item == twice ? 40 : 1;
      for (int i = 0; i < times; ++i) {
        absl::StrAppend(&csv, "u", user, ",i", item, ",", 1 + user % 3 + item % 3, ",", user * 7,
                        "\n");
      }
    }
  }
  return csv;
}

constexpr char kHeader[] = "user,item,rating,age\n";

// A job whose test part is in a file of its own.
std::string WriteJob(const DataFiles& files, const std::string& model) {
  files.Write("train.csv", kHeader + Ratings(2, 20));
  files.Write("test.csv", kHeader + Ratings(17, 20));
  return files.Write("job.yaml", absl::StrCat(R"(name: ratings
dataset: {path: train.csv}
features:
  - {name: user, kind: categorical}
  - {name: item, kind: categorical}
  - {name: age, kind: numeric, normalization: standard}
label: {column: rating}
split: {test_path: test.csv}
)",
                                              model));
}

constexpr char kFactors[] = R"(
model:
  kind: matrix_factorization
  user: {feature: user}
  item: {feature: item}
  dim: 4
optimizer:
  table: {kind: adagrad, learning_rate: 0.1}
  dense: {kind: adagrad, learning_rate: 0.1}
train: {epochs: 60, batch_size: 32}
evaluate: {metrics: [rmse]}
)";
constexpr char kLayers[] = R"(
model: {kind: mlp, hidden: [16]}
loss: {kind: mse}
optimizer:
  table: {kind: adagrad, learning_rate: 0.1}
  dense: {kind: adagrad, learning_rate: 0.1}
train: {epochs: 30, batch_size: 32}
evaluate: {metrics: [rmse]}
)";

TEST_CASE("training goes on from a model with the next day's data, and ids come and go",
          "[model][warm-start]") {
  const DataFiles files;
  const std::string job = WriteJob(files, kFactors), first = files.Path("first"),
                    second = files.Path("second"), third = files.Path("third");
  Train(job, first);
  const double rmse = Eval(files, first).report["metrics"]["rmse"];
  CHECK(rmse < 0.5);
  // Users 0 .. 9 stay away; there are new ones, and new items.
  std::string day = kHeader;
  for (int user = 10; user < 40; ++user) {
    for (int item = 2; item < 22; ++item) {
      absl::StrAppend(&day, "u", user, ",i", item, ",", 1 + user % 3 + item % 3, ",", user, "\n");
    }
  }
  files.Write("train.csv", day);
  const std::vector<std::string> little = {"--set", "train.epochs=", "--set", "train.steps=1"};
  auto from_first = little;
  from_first.insert(from_first.end(), {"--init-from", first});
  Train(job, second, from_first);
  // One step more has not made it worse, also for the users of whom the second day has no row.
  CHECK(Eval(files, second).report["metrics"]["rmse"] == Approx(rmse).margin(0.25));
  auto from_second = little;
  from_second.insert(from_second.end(), {"--init-from", second});
  const auto again = Coxswain({"train", job, "--in-process", "--model-dir", third, "--set",
                               "train.epochs=", "--set", "train.steps=1", "--init-from", second});
  CAPTURE(again.out, again.err);
  REQUIRE(again.code == 0);
  CHECK_THAT(again.out, Contains("initial values from " + second) && Contains("user: 41 rows\n") &&
                            Contains("item: 21 rows\n") && !Contains("new"));
  CHECK(Eval(files, third).report["metrics"]["rmse"] == Approx(rmse).margin(0.25));
  // From nothing it takes more than a step.
  Train(job, third, little);
  CHECK(Eval(files, third).report["metrics"]["rmse"] > rmse + 0.5);
}

TEST_CASE("a feature that was given another name goes on with its values' rows",
          "[model][warm-start]") {
  const DataFiles files;
  const std::string job = WriteJob(files, kFactors), first = files.Path("first");
  Train(job, first);
  const auto train = [&](const std::string& entry) {
    return Coxswain({"train", job, "--in-process", "--model-dir", files.Path("second"), "--set",
                     "features.user.column=user", "--set", "features.user.name=person", "--set",
                     "model.user.feature=person", "--set", "train.epochs=", "--set",
                     "train.steps=1", "--init-from", first, "--init-map", entry});
  };
  const auto renamed = train("user=person");
  CAPTURE(renamed.out, renamed.err);
  REQUIRE(renamed.code == 0);
  CHECK_THAT(renamed.out, Contains("person from user: 31 rows\n") &&
                              Contains("person_bias from user_bias: 31 rows\n") &&
                              !Contains("anew") && !Contains("not taken over"));
  const auto wrong = train("usr=person");
  CHECK(wrong.code == 2);
  CHECK_THAT(wrong.err, Contains("--init-map usr=person: wanted") && Contains("has no \"usr\""));
}

TEST_CASE(
    "a job that was started from a model is resumed with it, and asks for it where it is not given",
    "[model][warm-start]") {
  const DataFiles files;
  const std::string job = WriteJob(files, kFactors), model = files.Path("a model"),
                    checkpoints = files.Path("checkpoints");
  Train(job, model);
  std::string day = kHeader;
  for (int user = 20; user < 40; ++user) {
    absl::StrAppend(&day, "u", user, ",i1,", 1 + user % 3, ",", user, "\n");
  }
  files.Write("train.csv", day);
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command = {
        "train", job, "--in-process", "--quiet", "--checkpoint-dir", checkpoints};
    command.insert(command.end(), more.begin(), more.end());
    return Coxswain(command);
  };
  const auto begun = train({"--init-from", model, "--set", "train.epochs=1"});
  INFO(begun.err);
  REQUIRE(begun.code == 0);
  const auto without = train({"--resume", "--set", "train.epochs=2"});
  CHECK(without.code == 2);
  CHECK_THAT(without.err, Contains("cannot resume: the job was started from a model") &&
                              Contains("--init-from '" + model + "'") && !Contains("split"));
  const auto with = train({"--resume", "--set", "train.epochs=2", "--init-from", model});
  INFO(with.err);
  CHECK(with.code == 0);
  // The data is to blame where it is other data.
  files.Write("train.csv", day + "u20,i2,3,20\n");
  const auto other = train({"--resume", "--set", "train.epochs=3", "--init-from", model});
  CHECK(other.code == 2);
  CHECK_THAT(other.err, Contains("the data is not what the checkpoint was trained on") &&
                            Contains("that the job was started from, " + model));
}

TEST_CASE("training from a directory without a model is refused before it begins, with exit code 2",
          "[model][warm-start]") {
  const DataFiles files;
  const std::string job = WriteJob(files, kFactors);
  const auto result =
      Coxswain({"train", job, "--in-process", "--init-from", files.Path("nothing")});
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains("--init-from: ") &&
                             Contains("wanted a saved model, or checkpoints, found neither"));
}

TEST_CASE("rows that are appended after training change no number of an evaluation", "[model]") {
  const DataFiles files;
  const std::string model = files.Path("model");
  const std::string kind = GENERATE(kFactors, kLayers);
  const std::string job = WriteJob(files, kind);
  Train(job, model);
  const Evaluated before = Eval(files, model, {job});
  CHECK(before.err.empty());
  const double rmse = before.report["metrics"]["rmse"];
  CHECK(rmse < 0.5);
  // The least frequent items become the most frequent ones, there are new users and items, and ages
  // of another scale.
  Append(files.Path("train.csv"), Ratings(0, 20, 19) + "new,i3,5,9000\nu1,fresh,5,9000\n");
  const Evaluated after = Eval(files, model, {job});
  CHECK(after.report["examples"] == before.report["examples"]);
  CHECK(after.report["metrics"]["rmse"].get<double>() == Approx(rmse).epsilon(1e-9));
  CHECK_THAT(after.err, Contains("note: the data has changed") && Contains("540 training"));
  // New examples of what the model knows are measured as well as the old ones.
  Append(files.Path("test.csv"), Ratings(4, 12));
  const Evaluated more = Eval(files, model, {job});
  CHECK(more.report["examples"].get<int>() == before.report["examples"].get<int>() + 30 * 8);
  CHECK(more.report["metrics"]["rmse"].get<double>() < 0.5);
}

TEST_CASE("unknown names are guessed by what is known beside them", "[model]") {
  const DataFiles files;
  const std::string model = files.Path("model");
  const std::string job = WriteJob(files, kFactors);
  Train(job, model);
  // Nothing is known of the item: the mean and the user's own number are left. Items differ by
  // 0..2.
  std::string csv = kHeader;
  for (int user = 0; user < 30; ++user) {
    absl::StrAppend(&csv, "u", user, ",unheard,", 2 + user % 3, ",0\n");
  }
  files.Write("test.csv", csv);
  CHECK(Eval(files, model, {job}).report["metrics"]["rmse"].get<double>() < 0.3);
}

TEST_CASE("recommend and eval take the job that was saved with the model", "[model]") {
  const DataFiles files;
  const std::string job = WriteTwoTower(files), model = files.Path("model");
  Train(job, model, {"--set", "model.dim=6"});
  const std::vector<std::string> ask = {"recommend", "--model-dir", model,   "--item", "i0",
                                        "--item",    "i1",          "--top", "3"};
  const auto before = Coxswain(ask);
  INFO(before.err);
  REQUIRE(before.code == 0);
  const auto evaluated = Eval(files, model).report;
  // The job file is another one now, or gone.
  files.Write("two_tower.yaml", "name: something else\n");
  CHECK(Coxswain(ask).out == before.out);
  fs::remove(job);
  CHECK(Coxswain(ask).out == before.out);
  CHECK(Eval(files, model).report["metrics"] == evaluated["metrics"]);
  // Newer pairs, most of them of an item that training never met.
  std::string newer;
  for (int i = 0; i < 500; ++i) absl::StrAppend(&newer, "x", i, ",brand new\nx", i, ",i9\n");
  Append(files.Path("pairs.csv"), newer);
  CHECK(Coxswain(ask).out == before.out);
  // Users that came later are not in what the model keeps.
  const auto user = Coxswain({"recommend", "--model-dir", model, "--user", "x3", "--top", "30"});
  CHECK(user.code == 2);
  CHECK_THAT(user.err, Contains("'x3'") && Contains("--items"));
}

TEST_CASE("recommend needs nothing but the model, for one user or all of them", "[model]") {
  const DataFiles files;
  const std::string job = WriteTwoTower(files), model = files.Path("moved");
  Train(job, files.Path("model"));
  const auto ask = [](const std::string& directory, std::vector<std::string> more) {
    more.insert(more.begin(), {"recommend", "--model-dir", directory});
    auto result = Coxswain(more);
    CAPTURE(result.err);
    CHECK(result.code == 0);
    return result.out;
  };
  // A model of a version that kept no histories reads its data again, and says the same.
  const std::vector<std::string> users = {"--user", "u3", "--user", "u4", "--top", "5"};
  const std::string before = ask(files.Path("model"), users);
  const std::string old = files.Path("old");
  fs::copy(files.Path("model"), old, fs::copy_options::recursive);
  fs::remove_all(old + "/history");
  nlohmann::json manifest = ReadJson(old + "/model.json");
  manifest.erase("format_version");
  manifest.erase("checksums");
  std::ofstream(old + "/model.json") << manifest;
  CHECK(ask(old, users) == before);
  fs::rename(files.Path("model"), model);
  fs::remove(job);
  fs::remove(files.Path("pairs.csv"));
  CHECK(ask(model, users) == before);
  CHECK(Coxswain({"recommend", "--model-dir", old, "--batch"}).code == 2);

  const std::string all = files.Path("all.csv");
  CHECK(ask(model, {"--batch", "--top", "5", "--output", all}).empty());
  std::ifstream file(all);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  REQUIRE(lines.size() == 25);
  CHECK_THAT(lines[0], StartsWith("user,item_1,score_1,item_2,score_2"));
  // The same items as for the user alone: "  u3  i1, i2, ...".
  const std::vector<std::string> cells = absl::StrSplit(lines[4], ',');
  REQUIRE(cells.size() == 11);
  CHECK(cells[0] == "u3");
  std::string joined = "  u3  ";
  for (size_t i = 1; i < cells.size(); i += 2) {
    absl::StrAppend(&joined, i > 1 ? ", " : "", cells[i]);
  }
  CHECK_THAT(before, StartsWith(joined + "\n"));
  // What is known is left out, but where it is asked for.
  const std::vector<std::string> known = {"--items", "i0,i1,i2", "--top", "32"};
  CHECK_THAT(ask(model, known), !Contains("i0\n") && !Contains("i1\n"));
  std::vector<std::string> with = known;
  with.push_back("--include-known");
  CHECK_THAT(ask(model, with), Contains("i0\n"));
}

TEST_CASE("an item whose name holds a comma can be asked for", "[model]") {
  const DataFiles files;
  std::string csv = "user,item\n";
  for (int user = 0; user < 24; ++user) {
    for (int i = 0; i < 6; ++i) {
      absl::StrAppend(&csv, "u", user, ",\"i", user % 4 * 8 + (user / 4 + i) % 8, ", The\"\n");
    }
  }
  const std::string job = WriteTwoTower(files), model = files.Path("model");
  files.Write("pairs.csv", csv);
  Train(job, model);
  const auto ask = [&model](const std::vector<std::string>& items) {
    std::vector<std::string> arguments = {"recommend", "--model-dir", model, "--top", "3"};
    arguments.insert(arguments.end(), items.begin(), items.end());
    return Coxswain(arguments);
  };
  const auto one = ask({"--item", "i0, The", "--item", "i1, The"});
  INFO(one.err);
  REQUIRE(one.code == 0);
  CHECK_THAT(one.out, Contains(", The\n"));
  CHECK(ask({"--items", "\"i0, The\",\"i1, The\""}).out == one.out);
  const auto open = ask({"--items", "\"i0, The"});
  CHECK(open.code == 2);
  CHECK_THAT(open.err, Contains("--items") && Contains("not closed"));
  CHECK(ask({"--items", "i0, The"}).code == 2);
  CHECK(ask({"--user", "u1", "--item", "i1"}).code == 2);
  CHECK(ask({}).code == 2);
}

TEST_CASE("a model that was saved by an earlier version is refused with a reason", "[model]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), model = files.Path("model");
  Train(job, model);
  fs::remove(fs::path(model) / "features.json");
  const auto result = Coxswain({"eval", job, "--model-dir", model});
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains(model + " has no features.json") &&
                             Contains("earlier version of coxswain") && Contains("Train"));
  // What needs no data needs no more than before.
  CHECK(Coxswain({"nearest", "--model-dir", model, "u1", "--table", "user"}).code == 0);
}

TEST_CASE("a job whose data grew does not go on with another vocabulary", "[resume]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files);
  const std::vector<std::string> train = {"train",
                                          job,
                                          "--in-process",
                                          "--quiet",
                                          "--checkpoint-dir",
                                          files.Path("ck"),
                                          "--resume",
                                          "--set",
                                          "checkpoint.every_steps=20"};
  REQUIRE(Coxswain(train).code == 0);
  std::vector<std::string> longer = train;
  longer.insert(longer.end(), {"--set", "train.epochs=40"});
  Append(files.Path("ratings.csv"), "u0,i77,3\n");
  const auto result = Coxswain(longer);
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains("cannot resume") &&
                             Contains("the data is not what the checkpoint was trained on"));
}

struct Mistake {
  std::string csv;
  std::vector<std::string> flags;
  std::vector<std::string> told;
};

TEST_CASE("labels and values that are wrong end training and validation with 2, file and line",
          "[cli]") {
  const DataFiles files;
  const std::string lr = "model: {kind: logistic_regression}\nlabel: {column: label}\n";
  const std::string mlp = "model: {kind: mlp, classes: 3, hidden: [4]}\nlabel: {column: kind}\n";
  const std::string good = "color,size,label,kind\nred,1,0,0\nred,2,1,1\nblue,3,0,2\n";
  for (const Mistake& m : std::vector<Mistake>{
           {"color,size,label,kind\nred,1,0,0\nred,2,0,0\n",
            {"split="},
            {"tabular.yaml", "label: wanted labels that differ, found 0 in all 2"}},
           {good + "red,5,4,1\n", {"split="}, {"table.csv:5:7", "a label from 0 to 1", "\"4\""}},
           {good + "red,five,1,1\n", {"split="}, {"table.csv:5:5", "a finite number"}},
           {good + "r\xe9"
                   "d,5,1,1\n",
            {"split="},
            {"table.csv:5:1", "UTF-8"}},
           {good + "red,5,1\n", {"split="}, {"table.csv:5", "wanted 4 fields"}},
       }) {
    const std::string job = WriteTabular(files, lr);
    files.Write("table.csv", m.csv);
    for (std::vector<std::string> arguments :
         {std::vector<std::string>{"validate", job, "--data"},
          std::vector<std::string>{"train", job, "--in-process"}}) {
      for (const std::string& flag : m.flags) arguments.insert(arguments.end(), {"--set", flag});
      const auto result = Coxswain(arguments);
      CAPTURE(m.csv, arguments, result.out, result.err);
      CHECK(result.code == 2);
      for (const std::string& told : m.told) CHECK_THAT(result.err, Contains(told));
    }
  }
  const std::string job = WriteTabular(files, mlp);
  for (const auto& [row, told] : {std::pair{"red,5,1,3\n", "an integer from 0 to 2"},
                                  {"red,5,1,-1\n", "an integer from 0 to 2"},
                                  {"red,5,1,1.5\n", "an integer from 0 to 2"}}) {
    files.Write("table.csv", good + row);
    const auto result = Coxswain({"train", job, "--in-process", "--set", "split="});
    CAPTURE(row, result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("table.csv:5:9") && Contains(told));
  }
}

TEST_CASE("an mlp learns classes by their names, and says how they are spread", "[cli]") {
  const DataFiles files;
  WriteTabular(files, "");
  const std::string job = files.Write("names.yaml", R"(name: names
dataset: {path: table.csv}
features:
  - {name: color, kind: categorical, dim: 4}
  - {name: size, kind: numeric, normalization: standard}
  - {name: kind, kind: categorical}
label: {feature: kind}
split: {validation: 0.2}
model: {kind: mlp, classes: 3, hidden: [8]}
optimizer: {table: {kind: adagrad}, dense: {kind: adam, learning_rate: 0.02}}
train: {epochs: 40, batch_size: 32}
)");
  const auto result = Coxswain({"train", job, "--in-process", "--report", files.Path("r.json"),
                                "--model-dir", files.Path("model")});
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.out, Contains("labels of ") && Contains(" training examples: 0 "));
  CHECK(ReadJson(files.Path("r.json"))["metrics"]["accuracy"].get<double>() > 0.85);
  CHECK(Eval(files, files.Path("model")).report["metrics"]["accuracy"].get<double>() > 0.85);
  const auto few = Coxswain({"train", job, "--in-process", "--set", "model.classes=2"});
  CHECK(few.code == 2);
  CHECK_THAT(few.err, Contains("model.classes") && Contains("has 3 values"));
}

TEST_CASE("validate --data reads all of it and shows what is in it", "[cli]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, R"(
model: {kind: logistic_regression}
label: {column: label}
)");
  const auto result = Coxswain({"validate", job, "--data"});
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.out, Contains("is valid") && Contains("examples: training 4") &&
                             Contains("read: into memory\n") && Contains("labels of ") &&
                             Contains("feature color: 5 values") &&
                             Contains("feature size: numbers, (x - "));
  const auto streamed = Coxswain({"validate", job, "--data", "--set", "dataset.streaming=true",
                                  "--set", "dataset.cache_directory=" + files.Path("cache")});
  CHECK_THAT(streamed.out, Contains("read: streamed, by blocks\n"));
  // A mistake far down in a file that the columns' check does not see.
  Append(files.Path("table.csv"), "red,1,1,1\nred,x,1,1\n");
  CHECK(Coxswain({"validate", job}).code == 0);
  const auto wrong = Coxswain({"validate", job, "--data"});
  CHECK(wrong.code == 2);
  CHECK_THAT(wrong.err, StartsWith("error: ") && Contains("table.csv:603:5"));
  CHECK(Coxswain({"validate", job, "--data", "--no-data"}).code == 2);
}

TEST_CASE("validate --data counts the rows for which a joined table has nothing", "[cli]") {
  const DataFiles files;
  files.Write("films.csv", "film,studio\nheat,a\nalien,b\n");
  files.Write("studios.csv", "studio,country\na,us\n");
  std::string rows = "film,y\n";
  for (int i = 0; i < 2500; ++i) {
    absl::StrAppend(&rows,
                    i % 4 == 0   ? "none"
                    : i % 4 == 1 ? ""
                    : i % 4 == 2 ? "heat"
                                 : "alien",
                    ",", i % 2, "\n");
  }
  files.Write("rows.csv", rows);
  const std::string job = files.Write("job.yaml", R"(
dataset:
  path: rows.csv
  cache_directory: cache
  join: [{path: films.csv, on: film}, {path: studios.csv, on: studio}]
features:
  - {name: film, kind: categorical}
  - {name: country, kind: categorical}
label: {column: y}
model: {kind: logistic_regression}
)");
  files.Write("test.csv", "film,y\nheat,1\nheat,0\n");
  for (const char* streaming : {"false", "true"}) {
    const auto result =
        Coxswain({"validate", job, "--data", "--set", absl::StrCat("dataset.streaming=", streaming),
                  "--set", "split={test_path: test.csv}"});
    CAPTURE(result.out, result.err);
    REQUIRE(result.code == 0);
    CHECK_THAT(result.out,
               Contains("films.csv by film: lacks the key of 1,250 of 2,502 rows (50.0%)") &&
                   Contains("studios.csv by studio: lacks the key of 1,875 of 2,502 rows (74.9%)"));
  }
  files.Write("films.csv", "film,studio\nheat,a\nalien,a\nnone,a\n,a\n");
  const auto all = Coxswain({"validate", job, "--data"});
  CAPTURE(all.out, all.err);
  CHECK_THAT(all.out, Contains("films.csv by film: has all 2,500 rows\n") &&
                          Contains("studios.csv by studio: has all 2,500 rows\n"));
}

TEST_CASE("a saved model whose files were altered is not used, and the file is named", "[saved]") {
  const DataFiles files;
  const std::string job = WriteMatrixFactorization(files), model = files.Path("model");
  Train(job, model, {"--set", "train.epochs=2"});
  for (const std::string altered : {"user", "item"}) {
    const std::string file = absl::StrCat(model, "/", altered, ".safetensors");
    std::ifstream in(file, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    std::string other = bytes;
    other[other.size() - 7] ^= 1;  // a number stays a number
    files.Write(absl::StrCat("model/", altered, ".safetensors"), other);
    std::vector<std::vector<std::string>> commands = {
        {"train", job, "--in-process", "--quiet", "--init-from", model},
        {"eval", "--model-dir", model}};
    if (altered == "item")
      commands.push_back({"nearest", "--model-dir", model, "--table", "item", "i1"});
    for (const std::vector<std::string>& command : commands) {
      const auto result = Coxswain(command);
      CAPTURE(altered, command[0], result.out, result.err);
      CHECK(result.code == 3);
      CHECK_THAT(result.err, Contains(file) && Contains("altered"));
    }
    files.Write(absl::StrCat("model/", altered, ".safetensors"), bytes);
  }
}

}  // namespace
}  // namespace coxswain
