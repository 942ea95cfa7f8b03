// Jobs on plain text: defaults, and what is told when one does not fit.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "coordinator/job/metric_kind.h"
#include "coordinator/job/unused_features.h"
#include "tests/testing/job_texts.h"

namespace coxswain::job {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using testing::ErrorOf;
using testing::MustParse;

constexpr char kWords[] = R"(dataset: {format: text, path: a.txt}
model: {kind: word2vec}
evaluate:
  word_similarity: pairs.tsv
  analogies: /data/questions.txt
)";

std::string Changed(const std::string& from, const std::string& to) {
  return testing::Changed(kWords, from, to);
}

TEST_CASE("a word2vec has the defaults of word2vec, and a table for words on either side") {
  const JobSpec job = MustParse(kWords);
  CHECK(testing::ModelName(job) == "word2vec");
  CHECK(job.model->Options() == "dim: 100");
  const proto::TextOptions& text = job.dataset.text();
  CHECK(text.window() == 5);
  CHECK(text.min_count() == 5);
  CHECK(text.max_size() == 0);
  CHECK(text.subsample() == 0.001);
  CHECK_FALSE(text.lower_case());
  CHECK(testing::LossName(job) == "negative_sampling");
  CHECK(job.loss->sampling()->negatives == 128);
  CHECK(job.loss->sampling()->negatives_per_pair == 5);
  CHECK(job.loss->sampling()->distortion == 0.75);
  REQUIRE(job.tables.size() == 2);
  CHECK(job.FindTable("word")->dim == 100);
  CHECK(job.FindTable("word")->initializer.stddev() == 0.005);
  CHECK(job.FindTable("word_output")->dim == 100);
  CHECK(job.FindTable("word_output")->initializer.kind() == "zeros");
  CHECK(job.evaluate.enabled);
  REQUIRE(job.evaluate.metrics.size() == 2);
  CHECK(job.evaluate.metrics[0].name == "word_similarity");
  CHECK(job.evaluate.metrics[1].name == "analogies");
  CHECK(job.evaluate.metrics[0].kind->higher_is_better);
}

TEST_CASE("the words of a text are used by the model, though no key names them") {
  CHECK(UnusedFeatures(MustParse(kWords)).empty());
}

TEST_CASE("a word2vec without files of words is trained and not measured") {
  const JobSpec job = MustParse("dataset: {format: text, path: a.txt}\nmodel: {kind: word2vec}\n");
  CHECK_FALSE(job.evaluate.enabled);
}

TEST_CASE("a word2vec is measured on what is held out of its text, by its loss") {
  const JobSpec job = MustParse(absl::StrCat(kWords, "split: {validation: 0.02}\n"));
  CHECK(job.dataset.split().validation_fraction() == 0.02);
  REQUIRE(job.evaluate.metrics.size() == 3);
  CHECK(job.evaluate.metrics[2].name == "validation_loss");
  CHECK_FALSE(job.evaluate.metrics[2].kind->higher_is_better);
  const JobSpec alone = MustParse(
      "dataset: {format: text, path: a.txt}\nmodel: {kind: word2vec}\nsplit: {validation: 0.1}\n"
      "train: {early_stopping: {patience: 1}}\n");
  CHECK(alone.evaluate.enabled);
  CHECK(alone.train.early_stopping->metric == "validation_loss");
}

TEST_CASE("early stopping of a word2vec goes by one of its metrics") {
  const std::string text = absl::StrCat(kWords, "train: {early_stopping: {metric: analogies}}\n");
  CHECK(MustParse(text).train.early_stopping->metric == "analogies");
  CHECK_THAT(ErrorOf(absl::StrReplaceAll(text, {{"metric: analogies", "metric: auc"}})),
             Contains("train.early_stopping.metric"));
}

TEST_CASE("a sampled softmax over words is drawn as it says") {
  const JobSpec job = MustParse(absl::StrCat(
      kWords, "loss: {kind: sampled_softmax, distribution: popularity, distortion: 0.5}\n"));
  CHECK(testing::LossName(job) == "sampled_softmax");
  CHECK(job.loss->sampling()->negatives == 1024);
  CHECK(job.loss->sampling()->distortion == 0.5);
  CHECK_THAT(ErrorOf(absl::StrCat(kWords, "loss: {kind: sampled_softmax, distortion: 0.5}\n")),
             StartsWith("job.yaml:6:") && Contains("only with distribution: popularity"));
}

TEST_CASE("what a text does not have is told with its place") {
  CHECK_THAT(Changed("kind: word2vec", "kind: mlp"),
             Contains("job.yaml:2") && Contains("a text is for word2vec"));
  CHECK_THAT(Changed("format: text,", "format: csv,"), Contains("job.yaml"));
  const auto with = [](const char* more) { return ErrorOf(absl::StrCat(kWords, more)); };
  CHECK_THAT(with("split: {test: 0.1}\n"),
             StartsWith("job.yaml:6:") && Contains("split.test: of a text there is a validation"));
  CHECK_THAT(with("split: {validation: 1}\n"), Contains("split.validation: leaves nothing"));
  CHECK_THAT(with("label: {column: x}\n"), StartsWith("job.yaml:6:1") && Contains("label"));
  CHECK_THAT(with("features: [{name: a, kind: numeric}]\n"),
             StartsWith("job.yaml:6:1") && Contains("'word'"));
  CHECK_THAT(with("loss: {kind: mse}\n"),
             Contains("mse is not for a word2vec; it has: negative_sampling, sampled_softmax"));
  CHECK_THAT(with("tables: {words: {l2: 1}}\n"), Contains("words") && Contains("word"));
  CHECK_THAT(Changed("  analogies: /data/questions.txt", "  metrics: [auc]"),
             StartsWith("job.yaml:5:") && Contains("evaluate.metrics"));
  CHECK_THAT(Changed("path: a.txt", "path: a.txt, window: 0"), Contains("integer 1..100"));
  CHECK_THAT(Changed("path: a.txt", "path: a.txt, subsample: 2"), Contains("0..1"));
}

TEST_CASE("files of words are for a word2vec only") {
  const std::string job = R"(dataset: {path: a.csv, columns: [a, b]}
features: [{name: a, kind: categorical}]
label: {column: b}
split: {test: 0.1}
model: {kind: logistic_regression}
evaluate: {word_similarity: a.tsv}
)";
  CHECK_THAT(ErrorOf(job), StartsWith("job.yaml:6:") &&
                               Contains("evaluate.word_similarity: only for a word2vec"));
}

}  // namespace
}  // namespace coxswain::job
