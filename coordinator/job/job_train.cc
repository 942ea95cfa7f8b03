// train, evaluate.
#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "coordinator/job/job_sections.h"
#include "coordinator/job/loss_kind.h"
#include "coordinator/job/metric_kind.h"
#include "coordinator/job/model_features.h"
#include "coordinator/job/model_kind.h"
#include "runtime/data/made_features.h"

namespace coxswain::job {
namespace {

std::vector<std::string> Names(const std::vector<const MetricKind*>& kinds) {
  std::vector<std::string> names;
  for (const MetricKind* kind : kinds) names.push_back(kind->name);
  return names;
}

// Null where there is none of the name; an error is added then. Fills in the metric's K.
const MetricKind* FindMetric(const JobReader& reader, const std::string& path,
                             const std::string& text, int64_t* k) {
  const MetricKind* found = nullptr;
  std::vector<const MetricKind*> known;
  for (const MetricKind* kind : AllMetricKinds()) {
    if (kind->of.empty()) continue;  // comes with the model
    known.push_back(kind);
    const std::string name = kind->name;
    if (!kind->has_k) {
      if (text == name) found = kind;
      continue;
    }
    const std::string head = name.substr(0, name.find('@') + 1);
    if (!absl::StartsWith(text, head)) continue;
    found = kind;
    if (absl::SimpleAtoi(text.substr(head.size()), k) && *k >= 1) continue;
    reader.Error(path, absl::StrCat("wanted ", head, "K with a K >= 1, found '", text, "'"));
    return nullptr;
  }
  if (found == nullptr) reader.Error(path, config::UnknownName("metric", text, Names(known)));
  return found;
}

// Those that say something about a task's predictions, or the model's where it has no tasks.
std::vector<const MetricKind*> FittingMetrics(const JobSpec& job, size_t task) {
  const LossSpec& loss = job.tasks.empty() ? *job.loss : *job.tasks[task].loss;
  const PredictionKind prediction = KindOf(loss).prediction;
  std::vector<const MetricKind*> fitting = MetricsOf(prediction);
  // Any number orders the rows of a query.
  if (!job.dataset.query().empty() &&
      (prediction == PredictionKind::kProbability || prediction == PredictionKind::kNumber)) {
    for (const MetricKind* kind : MetricsOf(PredictionKind::kOrder)) fitting.push_back(kind);
  }
  if (!job.model->ranks().item.empty()) {
    for (const MetricKind* kind : MetricsOf(PredictionKind::kRank)) fitting.push_back(kind);
  }
  return fitting;
}

// `text`: the metric, without the task. `of`: the name of the task, or of the list whose first
// class it is.
void ReadMetric(const JobReader& reader, const std::string& path, const std::string& text,
                size_t task, const std::string& of) {
  EvaluateSpec* const evaluate = &reader.job->evaluate;
  const std::vector<TaskSpec>& tasks = reader.job->tasks;
  MetricSpec metric;
  metric.kind = FindMetric(reader, path, text, &metric.k);
  if (metric.kind == nullptr) return;
  metric.task = task;
  metric.name = of.empty() ? text : absl::StrCat(of, "/", text);
  if (!of.empty() && of == tasks[task].list) {
    while (task + metric.tasks < tasks.size() && tasks[task + metric.tasks].list == of) {
      ++metric.tasks;
    }
  }
  const std::vector<const MetricKind*> fitting = FittingMetrics(*reader.job, task);
  if (!absl::c_linear_search(fitting, metric.kind)) {
    reader.Error(path, absl::StrCat("'", metric.name, "' says nothing about this ",
                                    tasks.empty() ? "model" : "task",
                                    "; its metrics: ", absl::StrJoin(Names(fitting), ", ")));
    return;
  }
  if (metric.kind->by_group && evaluate->group.empty() && reader.job->dataset.query().empty()) {
    reader.Error(path, absl::StrCat("'", text, "' wants evaluate.group, a feature: examples with ",
                                    "the same value of it belong together"));
  }
  for (const MetricSpec& other : evaluate->metrics) {
    if (other.name == metric.name) {
      reader.Error(path, absl::StrCat("'", metric.name, "' is there twice"));
    }
  }
  evaluate->metrics.push_back(std::move(metric));
}

// Whether the metrics of all classes of its list of labels were those of one before.
bool IsLaterClass(const std::vector<TaskSpec>& tasks, size_t task) {
  return task > 0 && !tasks[task].list.empty() && tasks[task].list == tasks[task - 1].list;
}

// By which metrics without a task name it: a list of labels as a whole. Empty: there are no tasks.
std::string NameOfTask(const std::vector<TaskSpec>& tasks, size_t task) {
  if (tasks.empty()) return "";
  return tasks[task].list.empty() ? tasks[task].name : tasks[task].list;
}

// "click/auc" is of one task, "auc" of each that it says something about. Of a list of labels
// "genre/auc" is the mean over its classes.
void ReadTaskMetric(const JobReader& reader, const std::string& path, const std::string& text) {
  const std::vector<TaskSpec>& tasks = reader.job->tasks;
  const size_t slash = text.find('/');
  if (slash == std::string::npos) {
    int64_t k = 0;
    const MetricKind* const kind = FindMetric(reader, path, text, &k);
    bool any = kind == nullptr;
    for (size_t task = 0; task < tasks.size() && kind != nullptr; ++task) {
      if (IsLaterClass(tasks, task)) continue;
      if (!absl::c_linear_search(FittingMetrics(*reader.job, task), kind)) continue;
      ReadMetric(reader, path, text, task, NameOfTask(tasks, task));
      any = true;
    }
    if (!any) reader.Error(path, absl::StrCat("'", text, "' says nothing about any of the tasks"));
    return;
  }
  std::vector<std::string> names;
  const std::string wanted = text.substr(0, slash);
  for (size_t task = 0; task < tasks.size(); ++task) {
    if (wanted == tasks[task].name || wanted == tasks[task].list) {
      ReadMetric(reader, path, text.substr(slash + 1), task, wanted);
      return;
    }
    if (!tasks[task].list.empty() && !IsLaterClass(tasks, task)) {
      names.push_back(tasks[task].list);
    }
    names.push_back(tasks[task].name);
  }
  reader.Error(path, config::UnknownName("task", text.substr(0, slash), names));
}

// What a job has that names no metrics.
void AddDefaultMetrics(const JobReader& reader) {
  const JobSpec& job = *reader.job;
  for (size_t task = 0; task < std::max<size_t>(1, job.tasks.size()); ++task) {
    if (IsLaterClass(job.tasks, task)) continue;
    const LossSpec& loss = job.tasks.empty() ? *job.loss : *job.tasks[task].loss;
    for (const MetricKind* kind : DefaultMetrics(KindOf(loss).prediction)) {
      ReadMetric(reader, "evaluate", kind->name, task, NameOfTask(job.tasks, task));
    }
  }
}

// Which part is evaluated, where the file does not say; false when it keeps none.
bool CheckPart(const JobReader& reader, const SectionView& view, Part* part) {
  const proto::SplitSpec& split = reader.job->dataset.split();
  const bool validation =
      split.validation_fraction() > 0 || split.has_validation_from() || split.holdout_validation();
  const bool test = split.test_fraction() > 0 || split.has_test_from() ||
                    !split.holdout_per().empty() || split.test_paths_size() > 0;
  if (!view.Has("part")) *part = validation ? Part::kValidation : Part::kTest;
  const bool there = *part == Part::kTest ? test : validation;
  const bool wanted = reader.job->locations.count("evaluate") > 0;
  if (!there && wanted) {
    reader.Error(view.Has("part") ? "evaluate.part" : "evaluate",
                 absl::StrCat("split keeps no rows for ",
                              view.Has("part") ? view.String("part") : "validation or test"));
  }
  return there;
}

// The user whose items are ranked: the group of the job's history, or a feature.
const proto::FeatureSpec* UserOf(const JobReader& reader, std::string* column) {
  const EvaluateSpec& evaluate = reader.job->evaluate;
  const ModelSpec& model = *reader.job->model;
  const std::vector<std::string> features = model.user_features();
  std::string user = evaluate.group.empty() ? model.ranks().user : evaluate.group;
  if (user.empty()) {
    for (const proto::FeatureSpec& feature : reader.job->dataset.features()) {
      if (feature.history_of().empty()) continue;
      *column = feature.group_by();
      return &feature;
    }
    if (features.size() == 1) user = features[0];
  }
  const proto::FeatureSpec* feature = reader.job->FindFeature(user);
  if (feature == nullptr) return nullptr;
  *column = feature->history_of().empty() ? feature->column() : feature->group_by();
  return feature;
}

// The columns that an evaluation of rankings needs beside the examples.
void SetKnownItems(const JobReader& reader) {
  const EvaluateSpec& evaluate = reader.job->evaluate;
  if (!reader.job->dataset.query().empty()) {
    reader.Error("dataset.query", "all items are ranked for each row: such rows are no queries");
    return;
  }
  std::string column;
  const proto::FeatureSpec* user = UserOf(reader, &column);
  const bool good = user != nullptr && !column.empty() && !user->multi_valued() &&
                    user->kind() == proto::FeatureSpec::CATEGORICAL && !data::HasFixedValues(*user);
  if (!good && (user == nullptr || user->history_of().empty())) {
    reader.Error(evaluate.group.empty() ? "evaluate" : "evaluate.group",
                 "to rank items, give evaluate.group, the feature that names the user: wanted a "
                 "categorical one of a single value");
    return;
  }
  const ModelSpec& model = *reader.job->model;
  const std::string item = model.item().empty() ? model.ranks().item : model.item();
  const proto::FeatureSpec* of = reader.job->FindFeature(item);
  if (model.item().empty() && of != nullptr && (!of->id().empty() || of->hash_buckets() > 0)) {
    reader.Error("evaluate.metrics",
                 absl::StrCat("to rank all values of '", item, "' it needs a vocabulary"));
    return;
  }
  proto::KnownItems* known = reader.job->dataset.mutable_known_items();
  known->set_item(item);
  known->set_group_by(column);
  known->set_held_out(evaluate.exclude_known == KnownItems::kAll);
}

// Whether a model with labels is also asked for a ranking of all items.
bool RanksToo(const JobSpec& job) {
  const EvaluateSpec& evaluate = job.evaluate;
  if (job.model->ranks().item.empty()) return false;
  for (const MetricSpec& metric : evaluate.metrics) {
    for (const MetricKind::Of& of : metric.kind->of) {
      if (of.prediction == PredictionKind::kRank) return true;
    }
  }
  return false;
}

// For models with labels.
void CheckGroup(const JobReader& reader) {
  const std::string& group = reader.job->evaluate.group;
  if (group.empty()) return;
  if (!reader.job->dataset.query().empty()) {
    reader.Error("evaluate.group", "the groups are the queries of dataset.query");
  }
  CheckSingle(reader, "evaluate.group", group);
}

// Where the values have no names, nobody could tell the slices apart.
void CheckSlices(const JobReader& reader) {
  const std::vector<std::string>& slices = reader.job->evaluate.slices;
  for (size_t i = 0; i < slices.size(); ++i) {
    const std::string path = absl::StrCat("evaluate.slices.", i);
    const auto twice =
        std::find(slices.begin(), slices.begin() + static_cast<int64_t>(i), slices[i]);
    if (twice != slices.begin() + static_cast<int64_t>(i)) {
      reader.Error(path, absl::StrCat("'", slices[i], "' is there twice"));
    }
    CheckSingle(reader, path, slices[i]);
    const proto::FeatureSpec* const feature = reader.job->FindFeature(slices[i]);
    if (feature != nullptr && (feature->hash_buckets() > 0 || !feature->id().empty())) {
      reader.Error(path, absl::StrCat("'", slices[i], "' is hashed: wanted a feature with a ",
                                      "vocabulary, whose values have names"));
    }
  }
}

void CheckTwoTowerKeys(const JobReader& reader, const SectionView& view) {
  const ModelSpec& model = *reader.job->model;
  const bool ranks = KindOf(model).predicts == Predicts::kItem;
  if (view.Given("exclude_known") && !ranks && !RanksToo(*reader.job)) {
    reader.Error("evaluate.exclude_known", "only where items are ranked");
  }
  for (const char* key : {"show", "show_top", "suggest_self", "popularity_baseline"}) {
    if (view.Given(key) && !ranks) {
      reader.Error(absl::StrCat("evaluate.", key),
                   absl::StrCat("only for a ", KindsThat(Predicts::kItem)));
    }
  }
  if (!ranks || !view.Has("show")) return;
  for (const std::string& name : model.user_features()) {
    const proto::FeatureSpec* feature = reader.job->FindFeature(name);
    if (feature != nullptr && !feature->history_of().empty()) return;
  }
  reader.Error("evaluate.show", "there is no group without a history among model.user.features");
}

// `section` goes by one of the job's metrics, the first one where it names none.
void CheckMetricKey(const JobReader& reader, const std::string& section, std::string* metric) {
  if (!reader.Good(section)) return;
  const EvaluateSpec& evaluate = reader.job->evaluate;
  if (!evaluate.enabled) {
    reader.Error(section, "there is no evaluation; split keeps no rows for one");
    return;
  }
  std::vector<std::string> names;
  for (const MetricSpec& known : evaluate.metrics) names.push_back(known.name);
  if (metric->empty()) *metric = names[0];
  const std::string whole = NameOfMetric(reader.job->tasks, *metric);
  if (absl::c_linear_search(names, whole)) *metric = whole;
  const std::string path = absl::StrCat(section, ".metric");
  for (const MetricSpec& known : evaluate.metrics) {
    if (known.name != *metric || known.kind->compares) continue;
    reader.Error(path, absl::StrCat("'", *metric, "' does not say which of two models is better"));
  }
  if (std::find(names.begin(), names.end(), *metric) == names.end()) {
    reader.Error(path, config::UnknownName("metric of evaluate", *metric, names));
  }
}

// Whether a rule of training could go by the job's metrics.
bool Fits(const JobSpec& job, const std::string& rule) {
  const std::string whole = NameOfMetric(job.tasks, rule);
  for (const MetricSpec& metric : job.evaluate.metrics) {
    if (!rule.empty() && metric.name != rule && metric.name != whole) continue;
    return job.evaluate.enabled && metric.kind->compares;
  }
  return false;
}

// What goes by the metrics of evaluations on the way.
void CheckRules(const JobReader& reader) {
  TrainSpec& train = reader.job->train;
  if (reader.use == JobUse::kEvaluation) {
    const auto leave_out = [&](auto* rule) {
      if (*rule && !Fits(*reader.job, (*rule)->metric)) rule->reset();
    };
    leave_out(&train.early_stopping);
    leave_out(&train.reduce_on_plateau);
  }
  if (train.early_stopping) {
    CheckMetricKey(reader, "train.early_stopping", &train.early_stopping->metric);
  }
  if (train.reduce_on_plateau) {
    CheckMetricKey(reader, "train.reduce_on_plateau", &train.reduce_on_plateau->metric);
  }
}

// Tests of word vectors, and the loss on a held-out part.
void ReadWordEvaluation(const JobReader& reader, const SectionView& view) {
  EvaluateSpec* evaluate = &reader.job->evaluate;
  const auto add = [&](const char* name) {
    evaluate->metrics.push_back({FindMetricKind(name), 0, name});
  };
  if (!evaluate->word_similarity.empty()) add("word_similarity");
  if (!evaluate->analogies.empty()) add("analogies");
  if (reader.job->dataset.split().validation_fraction() > 0) {
    add("validation_loss");
  }
  evaluate->enabled = !evaluate->metrics.empty();
  for (const char* key :
       {"part", "metrics", "group", "slices", "exclude_known", "max_examples", "batch_size",
        "bootstrap", "show", "show_top", "suggest_self", "popularity_baseline"}) {
    if (view.Given(key)) {
      reader.Error(
          absl::StrCat("evaluate.", key),
          absl::StrCat("a ", KindOf(*reader.job->model).name,
                       " is measured with word_similarity, analogies and split.validation"));
    }
  }
  if (!evaluate->enabled && reader.job->locations.count("evaluate") > 0) {
    reader.Error("evaluate", "give word_similarity, analogies or split.validation");
  }
  if (reader.Good("evaluate")) CheckRules(reader);
}

}  // namespace

std::string NameOfMetric(const std::vector<TaskSpec>& tasks, const std::string& text) {
  const bool one = !tasks.empty() && NameOfTask(tasks, 0) == NameOfTask(tasks, tasks.size() - 1);
  if (!one || text.find('/') != std::string::npos) return text;
  return absl::StrCat(NameOfTask(tasks, 0), "/", text);
}

void ReadTrain(const JobReader& reader) {
  if (!reader.Good("train")) return;
  const SectionView view = reader.file.Sub("train");
  TrainSpec* train = &reader.job->train;
  reader.Read("train", view, train);
  if (view.Has("steps") && view.Has("epochs")) {
    reader.Error(
        "train.steps",
        "give one of steps and epochs (on the command line, --set train.epochs= removes it)");
  }
  if (!view.Has("steps") && !view.Has("epochs")) train->epochs = 1;
  if (reader.Good("train.consistency")) CheckConsistency(reader, view.Sub("consistency"));
  reader.job->dataset.set_seed(train->seed);
  reader.job->dataset.set_shuffle(train->shuffle);
  if (train->visitation == VisitationKind::kPerWorker) {
    reader.job->dataset.set_per_worker(true);
    if (!train->shuffle) {
      reader.Error("train.visitation", "per_worker is about shuffling, and `shuffle` is false");
    }
  }
}

void ReadEvaluate(const JobReader& reader) {
  if (!reader.Good("evaluate") || !reader.Good("split")) return;
  const SectionView view = reader.file.Sub("evaluate");
  EvaluateSpec* evaluate = &reader.job->evaluate;
  evaluate->batch_size = reader.job->train.batch_size;
  reader.Read("evaluate", view, evaluate);
  if (KindOf(*reader.job->model).predicts == Predicts::kNeighbours) {
    ReadWordEvaluation(reader, view);
    return;
  }
  for (const char* key : {"word_similarity", "analogies"}) {
    if (view.Given(key))
      reader.Error(absl::StrCat("evaluate.", key),
                   absl::StrCat("only for a ", KindsThat(Predicts::kNeighbours)));
  }
  evaluate->enabled = CheckPart(reader, view, &evaluate->part);
  // What else there is to say goes by the tasks, and not all of these are known.
  if (!reader.Good("labels")) return;
  const std::vector<std::string>& metrics = evaluate->metric_names;
  for (size_t i = 0; i < metrics.size(); ++i) {
    const std::string path = absl::StrCat("evaluate.metrics.", i);
    reader.job->tasks.empty() ? ReadMetric(reader, path, metrics[i], 0, "")
                              : ReadTaskMetric(reader, path, metrics[i]);
  }
  if (metrics.empty()) AddDefaultMetrics(reader);
  CheckSlices(reader);
  if (KindOf(*reader.job->model).predicts == Predicts::kLabel) {
    CheckGroup(reader);
    if (evaluate->enabled && RanksToo(*reader.job)) SetKnownItems(reader);
  } else if (evaluate->enabled) {
    SetKnownItems(reader);
  }
  CheckTwoTowerKeys(reader, view);
  if (reader.Good("evaluate")) CheckRules(reader);
}

}  // namespace coxswain::job
