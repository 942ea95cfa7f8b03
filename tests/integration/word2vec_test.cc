// Vectors of words from text with planted clusters: who stands together is near, whatever happens
// to the workers.
#include <signal.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/jobs.h"
#include "tests/testing/paths.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

constexpr int kClusters = 6;
constexpr int kWords = 8;  // of each

std::string Word(int cluster, int word) { return absl::StrCat("c", cluster, "w", word); }

// Sentences of words of one cluster each, with words between that are in all of them; a file of
// pairs, those of one cluster alike; analogies that nobody can know; a job file. Returns its path.
std::string WriteWord2Vec(const DataFiles& files, const std::string& more = "") {
  std::mt19937_64 random(5);
  std::string text, pairs, questions = ": nonsense\n";
  for (int sentence = 0; sentence < 1500; ++sentence) {
    const int cluster = static_cast<int>(random() % kClusters);
    for (int i = 0; i < 12; ++i) {
      absl::StrAppend(&text, Word(cluster, static_cast<int>(random() % kWords)),
                      i % 3 == 0 ? " the " : " ");
    }
    text += "\n";
  }
  for (int i = 0; i < 200; ++i) {
    const int a = static_cast<int>(random() % kClusters),
              b = static_cast<int>(random() % kClusters);
    absl::StrAppend(&pairs, Word(a, static_cast<int>(random() % kWords)), "\t",
                    Word(i % 2 == 0 ? a : b, static_cast<int>(random() % kWords)), "\t",
                    i % 2 == 0 || a == b ? 9 : 1, "\n");
  }
  absl::StrAppend(&pairs, "the\tunknown\t5\n");
  absl::StrAppend(&questions, "c0w0 c0w1 c1w0 c1w1\nc0w0 c0w1 c1w0 nothing\nThe C0W1 c1w0 c1w1\n");
  files.WriteGzip("text.gz", text);
  files.Write("pairs.tsv", pairs);
  files.Write("questions.txt", questions);
  return files.Write("words.yaml", absl::StrCat(R"(
dataset: {format: text, path: text.gz, window: 4, subsample: 0.01}
model: {kind: word2vec, dim: 16}
optimizer: {table: {kind: adagrad, learning_rate: 0.1}}
train: {epochs: 4, batch_size: 512, seed: 3}
evaluate: {word_similarity: pairs.tsv, analogies: questions.txt}
)",
                                                more));
}

nlohmann::json TrainWords(const DataFiles& files, const std::string& job,
                          std::vector<std::string> arguments) {
  const std::string report = files.Path("report.json");
  arguments.insert(arguments.begin(), {"train", job, "--report", report});
  const auto result = Coxswain(arguments);
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.out, Contains("word_similarity") && Contains("of 201 pairs"));
  return ReadJson(report);
}

void CheckQuality(const nlohmann::json& report) {
  const nlohmann::json& evaluations = report["evaluations"];
  REQUIRE(evaluations.size() == 4);
  CHECK(report["evaluated"]["part"] == "words");
  CHECK(evaluations[3]["loss"].get<double>() < evaluations[0]["loss"].get<double>());
  // Only two scores and far more pairs: even cosines that part the two perfectly reach no 1.
  CHECK(report["metrics"]["word_similarity"].get<double>() > 0.75);
  CHECK(report["metrics"].contains("analogies"));
  const nlohmann::json& counts = evaluations[3]["counts"];
  CHECK(counts["word_pairs"] == 200);
  CHECK(counts["word_pairs_skipped"] == 1);
  CHECK(counts["analogy_questions"] == 2);
  CHECK(counts["analogy_questions_skipped"] == 1);
}

TEST_CASE("word2vec: words of one cluster are near, with either loss", "[word2vec]") {
  const DataFiles files;
  const std::string job = WriteWord2Vec(files), model = files.Path("model");
  for (const char* loss : {"loss.kind=negative_sampling", "loss.kind=sampled_softmax"}) {
    INFO(loss);
    CheckQuality(TrainWords(
        files, job,
        {"--in-process", "--model-dir", model, "--set", loss, "--set", "loss.negatives=32"}));
    const auto nearest =
        Coxswain({"nearest", "--model-dir", model, "c2w3", "c5w0", "--top", "7", "--json"});
    CAPTURE(nearest.out, nearest.err);
    REQUIRE(nearest.code == 0);
    const auto answers = nlohmann::json::parse(nearest.out);
    REQUIRE(answers.size() == 2);
    for (const auto& answer : answers) {
      const std::string cluster = answer["of"].get<std::string>().substr(0, 2);
      REQUIRE(answer["nearest"].size() == 7);
      for (const auto& n : answer["nearest"]) {
        CHECK(n["word"].get<std::string>().substr(0, 2) == cluster);
        CHECK(n["word"] != answer["of"]);
      }
    }
  }
  const auto evaluated = Coxswain({"eval", job, "--model-dir", model});
  CAPTURE(evaluated.out, evaluated.err);
  CHECK(evaluated.code == 0);
  CHECK_THAT(evaluated.out, Contains("word_similarity  0.") && Contains("200 of 201 pairs"));
}

TEST_CASE("word2vec: the loss on words that are held out falls", "[word2vec]") {
  const DataFiles files;
  const std::string job = WriteWord2Vec(files, "split: {validation: 0.1}\n");
  const nlohmann::json report = TrainWords(files, job, {"--local", "1x2", "--count-visits"});
  CheckQuality(report);
  // 1500 sentences of 16 words are 23 runs and a rest; 2 are held out.
  CHECK(report["visitation"]["examples"] == 1500 * 16 - 2 * 1024);
  CHECK(report["visitation"]["missing"] == 0);
  const nlohmann::json& evaluations = report["evaluations"];
  const auto held_out = [&](size_t i) {
    return evaluations[i]["metrics"]["validation_loss"].get<double>();
  };
  CHECK(held_out(3) < held_out(0));
  // Of the training loss, a mean over its epoch; words of other clusters are no likelier here.
  CHECK(held_out(3) == Approx(evaluations[3]["loss"].get<double>()).epsilon(0.2));
  CHECK(evaluations[0]["counts"]["held_out_pairs"].get<int64_t>() > 3000);
  CHECK(report["metrics"].contains("validation_loss"));

  // By itself it is enough, and early stopping goes by it.
  const std::string again = files.Path("again.json");
  const auto alone = Coxswain({"train", job, "--in-process", "--report", again, "--set",
                               "evaluate.word_similarity=", "--set", "evaluate.analogies=", "--set",
                               "train.early_stopping={patience: 1, min_delta: 100}"});
  CAPTURE(alone.out, alone.err);
  REQUIRE(alone.code == 0);
  CHECK_THAT(alone.out, Contains("validation_loss") && Contains("held-out pairs"));
  CHECK(ReadJson(again)["evaluations"].size() == 3);  // two epochs, and the best one's values
}

TEST_CASE("word2vec: eval gives the loss that training gave, whatever the batches and workers",
          "[word2vec]") {
  const DataFiles files;
  const std::string job = WriteWord2Vec(files, "split: {validation: 0.1}\n"),
                    model = files.Path("model"), evaluated = files.Path("evaluated.json");
  for (const char* loss : {"loss.kind=negative_sampling", "loss.kind=sampled_softmax"}) {
    const nlohmann::json report = TrainWords(
        files, job,
        {"--local", "1x2", "--model-dir", model, "--set", loss, "--set", "loss.negatives=32"});
    const auto trained = report["metrics"]["validation_loss"].get<double>();
    for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
             {}, {"--local", "2x2"}, {"--set", "train.batch_size=100"}}) {
      std::vector<std::string> arguments = {"eval", "--model-dir", model, "--report", evaluated};
      arguments.insert(arguments.end(), more.begin(), more.end());
      const auto result = Coxswain(arguments);
      CAPTURE(loss, more, result.out, result.err);
      REQUIRE(result.code == 0);
      CHECK(ReadJson(evaluated)["metrics"]["validation_loss"].get<double>() ==
            Approx(trained).epsilon(1e-5));
    }
  }
}

TEST_CASE("word2vec: two workers, packed steps and many shards learn the same", "[word2vec]") {
  const DataFiles files;
  CheckQuality(TrainWords(
      files,
      WriteWord2Vec(files, "parameter_servers: {partitioner: {kind: fixed_shards, shards: 5}}\n"),
      {"--local", "2x2", "--set", "train.steps_per_function=3"}));
}

TEST_CASE("word2vec: a killed worker's pairs are trained on elsewhere, once", "[word2vec]") {
  const DataFiles files;
  Daemons daemons(files, 2, 2);
  const std::string report = files.Path("report.json");
  Process job(CoxswainCommand({"train", WriteWord2Vec(files), "--cluster", daemons.cluster_file(),
                               "--report", report, "--count-visits", "--set", "train.epochs=60",
                               "--set", "evaluate.every_epochs=60"}));
  REQUIRE(job.WaitForOutput(" steps"));
  daemons.worker(1).Kill(SIGKILL);
  const auto result = job.Wait();
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.err, Contains("/job:worker/task:1 is lost"));
  const nlohmann::json json = ReadJson(report);
  const nlohmann::json& visits = json["visitation"];
  CHECK(visits["examples"] == 1500 * 16);
  CHECK(visits["missing"] == 0);
  CHECK(visits["repeated"] == 0);
  CHECK(json["updates"]["applied"] == json["updates"]["scheduled"]);
  CHECK(json["metrics"]["word_similarity"].get<double>() > 0.75);
}

// 24,000 words in some 90 blocks.
std::vector<std::string> Streamed(std::vector<std::string> arguments) {
  for (const char* setting :
       {"dataset.streaming=true", "dataset.block_bytes=1000", "dataset.memory=200000",
        "dataset.shuffle_window=8", "dataset.cache_directory=cache"}) {
    arguments.push_back("--set");
    arguments.push_back(setting);
  }
  return arguments;
}

TEST_CASE("word2vec: a text that is streamed is learned as in memory", "[word2vec]") {
  const DataFiles files;
  const nlohmann::json report =
      TrainWords(files, WriteWord2Vec(files, "split: {validation: 0.1}\n"),
                 Streamed({"--local", "1x2", "--count-visits"}));
  CheckQuality(report);
  CHECK(report["visitation"]["examples"] == 1500 * 16 - 2 * 1024);
  CHECK(report["visitation"]["missing"] == 0);
  CHECK(report["visitation"]["repeated"] == 0);
  CHECK(report["metrics"].contains("validation_loss"));
}

TEST_CASE("word2vec: a text that is streamed, under kills: every place is used once",
          "[word2vec]") {
  const DataFiles files;
  const std::string chaos = files.Write("chaos.yaml", R"(seed: 3
baseline: false
faults:
  - {task: worker, at_update: [200, 700, 900], restart_delay: 100ms}
  - {task: ps, at_update: [500], restart_delay: 100ms}
  - {task: coordinator, at_update: [1200], restart_delay: 0s}
)");
  const std::string report = files.Path("report.json");
  const std::vector<std::string> arguments =
      Streamed({"train", WriteWord2Vec(files), "--local", "2x2", "--chaos", chaos, "--chaos-dir",
                files.Path("run"), "--report", report, "--set", "checkpoint.every_steps=150",
                "--set", "train.epochs=40", "--set", "evaluate.every_epochs=40"});
  const auto result = Run(CoxswainCommand(arguments), {}, absl::Seconds(200));
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.out, Contains("every promise was kept"));
  const nlohmann::json json = ReadJson(report);
  CHECK(json["updates"]["applied"] == json["steps"]);
  CHECK(json["visitation"]["examples"] == 1500 * 16);
  CHECK(json["visitation"]["missing"] == 0);
  CHECK(json["visitation"]["repeated"] == 0);
  CHECK(json["chaos"]["injected"]["worker"]["kill"] == 3);
  CHECK(json["metrics"]["word_similarity"].get<double>() > 0.75);
}

TEST_CASE("nearest: sums of words, unknown words and tables", "[word2vec]") {
  const DataFiles files;
  const std::string model = files.Path("model");
  TrainWords(files, WriteWord2Vec(files), {"--in-process", "--model-dir", model});
  const auto nearest = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"nearest", "--model-dir", model});
    return Coxswain(arguments);
  };
  const auto sum = nearest({"--plus", "c0w1,c1w1", "--minus", "c0w2", "--top", "3"});
  CAPTURE(sum.out, sum.err);
  REQUIRE(sum.code == 0);
  const std::vector<std::string> lines = absl::StrSplit(sum.out, '\n', absl::SkipEmpty());
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] == "c0w1 + c1w1 - c0w2");
  for (size_t i = 1; i < 4; ++i) CHECK_THAT(lines[i], Contains("c1w"));
  CHECK_THAT(nearest({"c1w1", "--table", "word_output"}).out, StartsWith("c1w1\n"));

  const auto unknown = nearest({"c1w11"});
  CHECK(unknown.code == 2);
  CHECK_THAT(unknown.err,
             Contains("\"c1w11\" is not in the vocabulary") && Contains("did you mean \"c1w1\"?"));
  const auto table = nearest({"c1w1", "--table", "words"});
  CHECK(table.code == 2);
  CHECK_THAT(table.err, Contains("words"));
  CHECK(nearest({}).code == 2);
  CHECK(nearest({"--minus", "c1w1"}).code == 2);
  CHECK(nearest({"c0w0", "--plus", "c1w1"}).code == 2);
}

TEST_CASE("nearest: items of a recommender", "[word2vec]") {
  const DataFiles files;
  const std::string model = files.Path("model");
  const auto trained =
      Coxswain({"train", WriteTwoTower(files), "--in-process", "--model-dir", model});
  REQUIRE(trained.code == 0);
  const auto result = Coxswain({"nearest", "--model-dir", model, "i1", "--top", "3"});
  CAPTURE(result.out, result.err);
  CHECK(result.code == 0);
  CHECK_THAT(result.out, StartsWith("i1\n") && Contains("  i"));
  // Whether the items have features, only the job says.
  std::filesystem::remove(model + "/job.yaml");
  const auto lost = Coxswain({"nearest", "--model-dir", model, "i1", "--top", "3"});
  CAPTURE(lost.out, lost.err);
  CHECK(lost.code == 3);
  CHECK_THAT(lost.err, Contains("job.yaml"));
}

TEST_CASE("word2vec: mistakes in the files of words are told before training", "[word2vec]") {
  const DataFiles files;
  const std::string job = WriteWord2Vec(files);
  files.Write("pairs.tsv", "a\tb\t1\nthree words here\n");
  const auto result = Coxswain({"train", job, "--in-process"});
  CAPTURE(result.out, result.err);
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Contains("pairs.tsv:2:1: wanted two words and a number"));
  const auto gone = Coxswain({"train", job, "--in-process", "--set",
                              "evaluate.word_similarity=", "--set", "evaluate.analogies=gone.txt"});
  CHECK(gone.code == 2);
  CHECK_THAT(gone.err, Contains("gone.txt"));
}

TEST_CASE("word2vec on the head of text8: the loss falls and the correlation with people rises",
          "[word2vec]") {
  const char* data = std::getenv("COXSWAIN_DATA");
  const std::string text = absl::StrCat(data == nullptr ? "" : data, "/text/text8.head.gz");
  if (data == nullptr || !std::filesystem::exists(text)) {
    WARN("skipped: COXSWAIN_DATA names no directory with text/text8.head.gz");
    return;
  }
  const DataFiles files;
  const std::string report = files.Path("report.json");
  const auto result = Coxswain(
      {"train", std::string(COXSWAIN_SOURCE_DIR) + "/examples/word2vec.yaml", "--local", "1x2",
       "--report", report, "--set", absl::StrCat("dataset.path=", text), "--set",
       absl::StrCat("evaluate.word_similarity=", data, "/word-eval/wordsim353.tsv"), "--set",
       absl::StrCat("evaluate.analogies=", data, "/word-eval/questions-words.txt"), "--set",
       "train.epochs=3"});
  CAPTURE(result.out, result.err);
  REQUIRE(result.code == 0);
  CHECK_THAT(result.out, Contains("word_similarity"));
  const nlohmann::json json = ReadJson(report);
  const nlohmann::json& evaluations = json["evaluations"];
  REQUIRE(evaluations.size() == 3);
  for (size_t i = 1; i < 3; ++i) {
    CHECK(evaluations[i]["loss"].get<double>() < evaluations[i - 1]["loss"].get<double>());
  }
  const double first = evaluations[0]["metrics"]["word_similarity"];
  const double last = evaluations[2]["metrics"]["word_similarity"];
  CHECK(last > first);
  CHECK(last > 0.3);
}

}  // namespace
}  // namespace coxswain
