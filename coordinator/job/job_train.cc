// train, evaluate.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "coordinator/job/job_sections.h"

namespace coxswain {
namespace {

// The metrics that tell something about a model trained with the loss, the defaults first.
std::vector<std::string> Metrics(LossKind loss) {
  switch (loss) {
    case LossKind::kSampledSoftmax:
      return {"hit_rate@10"};
    case LossKind::kSigmoidCrossEntropy:
      return {"auc", "logloss", "accuracy"};
    case LossKind::kSoftmaxCrossEntropy:
      return {"accuracy", "logloss"};
    case LossKind::kMse:
      return {"rmse"};
    case LossKind::kNegativeSampling:
      break;
  }
  return {};
}

void ReadMetric(const JobReader& reader, const std::string& path, const std::string& text,
                EvaluateSpec* evaluate) {
  const std::vector<std::pair<std::string, MetricKind>> known = {
      {"auc", MetricKind::kAuc},
      {"logloss", MetricKind::kLogLoss},
      {"accuracy", MetricKind::kAccuracy},
      {"rmse", MetricKind::kRmse},
      {"hit_rate@10", MetricKind::kHitRate}};
  MetricSpec metric;
  metric.name = text;
  std::string kind = text;
  if (absl::StartsWith(text, "hit_rate@")) {
    if (!absl::SimpleAtoi(text.substr(text.find('@') + 1), &metric.k) || metric.k < 1) {
      reader.Error(path, absl::StrCat("wanted hit_rate@K with a K >= 1, found '", text, "'"));
      return;
    }
    kind = "hit_rate@10";
  }
  const auto it = std::find_if(known.begin(), known.end(),
                               [&](const auto& metric) { return metric.first == kind; });
  if (it == known.end()) {
    std::vector<std::string> names;
    for (const auto& [name, meaning] : known) names.push_back(name);
    reader.Error(path, UnknownName("metric", text, names));
    return;
  }
  metric.kind = it->second;
  const std::vector<std::string> fitting = Metrics(reader.job->loss.kind);
  if (std::find(fitting.begin(), fitting.end(), kind) == fitting.end()) {
    reader.Error(path, absl::StrCat("'", text, "' says nothing about this model; its metrics: ",
                                    absl::StrJoin(fitting, ", ")));
    return;
  }
  for (const MetricSpec& other : evaluate->metrics) {
    if (other.name == text) reader.Error(path, absl::StrCat("'", text, "' is there twice"));
  }
  evaluate->metrics.push_back(std::move(metric));
}

// Which part is evaluated; false when the file keeps none.
bool ReadPart(const JobReader& reader, const SectionView& view, Part* part) {
  const proto::SplitSpec& split = reader.job->dataset.split();
  const bool validation = split.validation_fraction() > 0;
  const bool test =
      split.test_fraction() > 0 || !split.holdout_per().empty() || split.test_paths_size() > 0;
  *part = validation ? Part::kValidation : Part::kTest;
  if (view.Has("part")) {
    *part = view.String("part") == "test" ? Part::kTest : Part::kValidation;
  }
  const bool there = *part == Part::kTest ? test : validation;
  const bool wanted = reader.job->locations.count("evaluate") > 0;
  if (!there && wanted) {
    reader.Error(view.Has("part") ? "evaluate.part" : "evaluate",
                 absl::StrCat("split keeps no rows for ",
                              view.Has("part") ? view.String("part") : "validation or test"));
  }
  return there;
}

void CheckTwoTowerKeys(const JobReader& reader, const SectionView& view) {
  const ModelSpec& model = reader.job->model;
  for (const char* key : {"show", "show_top", "popularity_baseline"}) {
    if (view.Given(key) && model.kind != ModelKind::kTwoTower) {
      reader.Error(absl::StrCat("evaluate.", key), "only for a two_tower");
    }
  }
  if (model.kind != ModelKind::kTwoTower || !view.Has("show")) return;
  for (const std::string& name : model.user.features) {
    const proto::FeatureSpec* feature = reader.job->FindFeature(name);
    if (feature != nullptr && !feature->history_of().empty()) return;
  }
  reader.Error("evaluate.show", "there is no group without a history among model.user.features");
}

void ReadEarlyStopping(const JobReader& reader) {
  const SectionView train = reader.file.Sub("train");
  if (!train.Has("early_stopping") || !reader.Good("train.early_stopping")) return;
  const EvaluateSpec& evaluate = reader.job->evaluate;
  if (!evaluate.enabled) {
    reader.Error("train.early_stopping", "there is no evaluation; split keeps no rows for one");
    return;
  }
  const SectionView view = train.Sub("early_stopping");
  EarlyStopping stopping;
  std::vector<std::string> names;
  for (const MetricSpec& metric : evaluate.metrics) names.push_back(metric.name);
  stopping.metric = view.Has("metric") ? view.String("metric") : names[0];
  stopping.patience = view.Int("patience");
  stopping.min_delta = view.Real("min_delta");
  if (std::find(names.begin(), names.end(), stopping.metric) == names.end()) {
    reader.Error("train.early_stopping.metric",
                 UnknownName("metric of evaluate", stopping.metric, names));
  }
  reader.job->train.early_stopping = stopping;
}

// What people know of words, and the loss on a held-out part.
void ReadWordEvaluation(const JobReader& reader, const SectionView& view) {
  EvaluateSpec* evaluate = &reader.job->evaluate;
  evaluate->word_similarity = view.String("word_similarity");
  evaluate->analogies = view.String("analogies");
  const auto add = [&](MetricKind kind, const char* name) {
    MetricSpec metric;
    metric.kind = kind;
    metric.name = name;
    evaluate->metrics.push_back(std::move(metric));
  };
  if (!evaluate->word_similarity.empty()) add(MetricKind::kWordSimilarity, "word_similarity");
  if (!evaluate->analogies.empty()) add(MetricKind::kAnalogies, "analogies");
  if (reader.job->dataset.split().validation_fraction() > 0) {
    add(MetricKind::kValidationLoss, "validation_loss");
  }
  evaluate->enabled = !evaluate->metrics.empty();
  for (const char* key : {"part", "metrics", "max_examples", "batch_size", "show", "show_top",
                          "popularity_baseline"}) {
    if (view.Given(key)) {
      reader.Error(absl::StrCat("evaluate.", key),
                   "a word2vec is measured with word_similarity, analogies and split.validation");
    }
  }
  evaluate->every_epochs = view.Int("every_epochs");
  evaluate->batch_size = reader.job->train.batch_size;
  if (!evaluate->enabled && reader.job->locations.count("evaluate") > 0) {
    reader.Error("evaluate", "give word_similarity, analogies or split.validation");
  }
  if (reader.Good("evaluate")) ReadEarlyStopping(reader);
}

}  // namespace

void ReadTrain(const JobReader& reader) {
  if (!reader.Good("train")) return;
  const SectionView view = reader.file.Sub("train");
  TrainSpec* train = &reader.job->train;
  train->steps = view.Int("steps");
  train->epochs = view.Int("epochs");
  if (view.Has("steps") && view.Has("epochs")) {
    reader.Error(
        "train.steps",
        "give one of steps and epochs (on the command line, --set train.epochs= removes it)");
  }
  if (!view.Has("steps") && !view.Has("epochs")) train->epochs = 1;
  train->batch_size = view.Int("batch_size");
  train->steps_per_function = view.Int("steps_per_function");
  train->closures_in_flight = view.Int("closures_in_flight");
  train->seed = static_cast<uint64_t>(view.Int("seed"));
  train->log_every = view.Int("log_every");
  train->compute_bf16 = view.String("compute") == "bf16";
  train->on_error = view.Choice<ErrorPolicy>("on_error", {{"fail_fast", ErrorPolicy::kFailFast},
                                                          {"collect", ErrorPolicy::kCollect},
                                                          {"ignore", ErrorPolicy::kIgnore}});
  reader.job->dataset.set_seed(train->seed);
  reader.job->dataset.set_shuffle(view.Bool("shuffle"));
  if (view.String("visitation") == "per_worker") {
    reader.job->dataset.set_per_worker(true);
    if (!view.Bool("shuffle")) {
      reader.Error("train.visitation", "per_worker is about shuffling, and `shuffle` is false");
    }
  }
}

void ReadEvaluate(const JobReader& reader) {
  if (!reader.Good("evaluate") || !reader.Good("split")) return;
  const SectionView view = reader.file.Sub("evaluate");
  EvaluateSpec* evaluate = &reader.job->evaluate;
  if (reader.job->model.kind == ModelKind::kWord2Vec) {
    ReadWordEvaluation(reader, view);
    return;
  }
  for (const char* key : {"word_similarity", "analogies"}) {
    if (view.Given(key)) reader.Error(absl::StrCat("evaluate.", key), "only for a word2vec");
  }
  evaluate->enabled = ReadPart(reader, view, &evaluate->part);
  const std::vector<std::string> metrics = view.Strings("metrics");
  for (size_t i = 0; i < metrics.size(); ++i) {
    ReadMetric(reader, absl::StrCat("evaluate.metrics.", i), metrics[i], evaluate);
  }
  if (metrics.empty()) {
    for (const std::string& metric : Metrics(reader.job->loss.kind)) {
      ReadMetric(reader, "evaluate", metric, evaluate);
    }
  }
  evaluate->every_epochs = view.Int("every_epochs");
  evaluate->max_examples = view.Int("max_examples");
  evaluate->batch_size =
      view.Has("batch_size") ? view.Int("batch_size") : reader.job->train.batch_size;
  evaluate->show = view.Strings("show");
  evaluate->show_top = view.Int("show_top");
  evaluate->popularity_baseline = view.Bool("popularity_baseline");
  CheckTwoTowerKeys(reader, view);
  if (reader.Good("evaluate")) ReadEarlyStopping(reader);
}

}  // namespace coxswain
