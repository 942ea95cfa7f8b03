#include "coordinator/runner/runner.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "coordinator/model/metrics.h"
#include "runtime/base/status.h"
#include "runtime/data/ticket.h"

namespace coxswain {
namespace {

constexpr absl::Duration kProgressInterval = absl::Milliseconds(200);

DatasetOptions MakeDatasetOptions(const JobSpec& job) {
  DatasetOptions options;
  options.spec = job.dataset;
  options.batch_size = job.train.batch_size;
  options.epochs = job.train.epochs;
  return options;
}

// Calls `tick` every interval on a thread of its own until destroyed.
class Ticker {
 public:
  explicit Ticker(std::function<void()> tick) {
    if (!tick) return;
    thread_ = std::thread([this, tick = std::move(tick)] {
      while (!stop_.WaitForNotificationWithTimeout(kProgressInterval)) tick();
    });
  }
  ~Ticker() {
    if (!thread_.joinable()) return;
    stop_.Notify();
    thread_.join();
  }

 private:
  absl::Notification stop_;
  std::thread thread_;
};

struct Traffic {
  double frames = 0, in = 0, out = 0;
};

// What was used of the cluster so far.
struct Usage {
  DispatcherStats closures;
  std::vector<Traffic> traffic;  // by PS
};

std::vector<Traffic> ReadTraffic(const Cluster& cluster) {
  std::vector<Traffic> traffic(static_cast<size_t>(cluster.num_ps()));
  for (const proto::TaskStatus& status : cluster.Status()) {
    if (status.job() != "ps" || status.task() < 0 || status.task() >= cluster.num_ps()) continue;
    traffic[static_cast<size_t>(status.task())] = {static_cast<double>(status.segments_run()) * 2,
                                                   static_cast<double>(status.bytes_received()),
                                                   static_cast<double>(status.bytes_sent())};
  }
  return traffic;
}

Usage ReadUsage(const Cluster& cluster, const ClusterCoordinator& coordinator) {
  return {coordinator.stats(), ReadTraffic(cluster)};
}

// Adds what came between `before` and `after`.
void AddUsage(const Usage& before, const Usage& after, JobResult* result) {
  result->closures.scheduled += after.closures.scheduled - before.closures.scheduled;
  result->closures.completed += after.closures.completed - before.closures.completed;
  result->closures.failed += after.closures.failed - before.closures.failed;
  result->closures.retried += after.closures.retried - before.closures.retried;
  result->traffic.resize(after.traffic.size());
  for (size_t p = 0; p < after.traffic.size(); ++p) {
    JobResult::PsTraffic& sum = result->traffic[p];
    sum.frames_per_step += after.traffic[p].frames - before.traffic[p].frames;
    sum.bytes_in_per_step += after.traffic[p].in - before.traffic[p].in;
    sum.bytes_out_per_step += after.traffic[p].out - before.traffic[p].out;
  }
}

}  // namespace

JobRunner::JobRunner(Cluster cluster, JobSpec job, RunEvents events)
    : cluster_(cluster), job_(std::move(job)), events_(std::move(events)), strategy_(cluster) {}

JobRunner::~JobRunner() = default;

absl::Status JobRunner::Prepare() {
  if (events_.on_progress) events_.on_progress({Progress::Phase::kLoading});
  ASSIGN_OR_RETURN(dataset_, strategy_.CreatePerWorkerDataset(MakeDatasetOptions(job_)));
  if (data().num_examples(Part::kTraining) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(job_.Where("dataset"), ": no training examples in the data set"));
  }
  ASSIGN_OR_RETURN(model_, Model::Create(&strategy_, job_, dataset_));
  return absl::OkStatus();
}

absl::StatusOr<RemoteFunction> JobRunner::TrainFunction() {
  if (!train_) {
    ASSIGN_OR_RETURN(train_, model_->DefineTrain());
  }
  return *train_;
}

int64_t JobRunner::total_steps() const {
  return job_.train.steps > 0 ? job_.train.steps : job_.train.epochs * dataset_.steps_per_epoch();
}

void JobRunner::Interrupt() { interrupted_.store(true); }

Part JobRunner::FinalPart() const {
  return data().num_examples(Part::kTest) > 0 ? Part::kTest : job_.evaluate.part;
}

absl::StatusOr<JobResult> JobRunner::Train() {
  JobResult result;
  result.job = job_.name;
  RETURN_IF_ERROR(TrainFunction().status());
  CoordinatorOptions options;
  options.seed = job_.train.seed;
  // Enough to keep every worker busy, few enough that an interrupt drains quickly.
  options.queue_size = 4 * job_.train.closures_in_flight * cluster_.num_workers();
  {
    ClusterCoordinator coordinator(strategy_, options);
    RETURN_IF_ERROR(TrainEpochs(&coordinator, &result));
  }
  const TrainingMeter::Reading reading = meter_.Read();
  result.steps = reading.steps;
  result.examples = reading.examples;
  result.train_seconds = reading.seconds;
  result.final_loss = reading.recent_loss;
  result.workers = cluster_.num_workers();
  result.parameter_servers = cluster_.num_ps();
  result.variables = strategy_.variables();
  const double steps = static_cast<double>(std::max<int64_t>(1, result.steps));
  for (JobResult::PsTraffic& t : result.traffic) {
    t = {t.frames_per_step / steps, t.bytes_in_per_step / steps, t.bytes_out_per_step / steps};
  }
  if (job_.evaluate.enabled) {
    ASSIGN_OR_RETURN(Evaluation last, EvaluatePart(FinalPart()));
    result.metrics = last.metrics;
    result.evaluated_part = last.part;
    result.evaluated_examples = last.examples;
    result.evaluations.push_back(last);
    if (job_.evaluate.popularity_baseline && model_->ranks()) {
      ASSIGN_OR_RETURN(result.baseline, PopularityBaseline(FinalPart()));
    }
  }
  if (!job_.evaluate.show.empty() && model_->can_recommend()) {
    ASSIGN_OR_RETURN(result.suggestions, Recommend(job_.evaluate.show, job_.evaluate.show_top));
  }
  return result;
}

absl::Status JobRunner::TrainEpochs(ClusterCoordinator* coordinator, JobResult* result) {
  const int64_t steps_per_epoch = std::max<int64_t>(1, dataset_.steps_per_epoch());
  const int64_t total = total_steps();
  const int64_t epochs = (total + steps_per_epoch - 1) / steps_per_epoch;
  std::atomic<int64_t> current_epoch{0};
  const auto show = [&] {
    const TrainingMeter::Reading r = meter_.Read();
    Progress p;
    p.epoch = current_epoch.load();
    p.epochs = job_.train.steps > 0 ? 0 : epochs;
    p.steps = r.steps;
    p.total_steps = total;
    p.loss = r.recent_loss;
    if (r.seconds > 0) p.examples_per_second = static_cast<double>(r.examples) / r.seconds;
    if (r.steps > 0) {
      p.seconds_left =
          static_cast<double>(total - r.steps) * r.seconds / static_cast<double>(r.steps);
    }
    events_.on_progress(p);
  };
  std::optional<Ticker> ticker;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    current_epoch.store(epoch + 1);
    const Usage before = ReadUsage(cluster_, *coordinator);
    meter_.Resume();
    if (events_.on_progress) ticker.emplace(show);
    absl::Status trained = TrainEpoch(coordinator, epoch);
    ticker.reset();
    meter_.Pause();
    if (events_.on_progress) show();
    RETURN_IF_ERROR(trained);
    AddUsage(before, ReadUsage(cluster_, *coordinator), result);
    const bool last = epoch + 1 == epochs;
    const bool due = (epoch + 1) % std::max<int64_t>(1, job_.evaluate.every_epochs) == 0;
    // The last epoch's evaluation is the final one, unless early stopping wants to see it too.
    if (!job_.evaluate.enabled || !due || (last && !job_.train.early_stopping)) continue;
    const absl::Time start = absl::Now();
    if (events_.on_progress) events_.on_progress({Progress::Phase::kEvaluating});
    ASSIGN_OR_RETURN(Evaluation evaluation, EvaluatePart(job_.evaluate.part));
    meter_.ResetMean();
    result->evaluations.push_back(evaluation);
    if (events_.on_evaluation) events_.on_evaluation(evaluation);
    ASSIGN_OR_RETURN(bool stop, ShouldStop(evaluation));
    result->evaluate_seconds += absl::ToDoubleSeconds(absl::Now() - start);
    if (stop) {
      result->stopped_early = true;
      break;
    }
  }
  return RestoreBest();
}

absl::Status JobRunner::TrainEpoch(ClusterCoordinator* coordinator, int64_t epoch) {
  const int64_t per_closure = std::max<int64_t>(1, job_.train.steps_per_function);
  const int64_t batch = job_.train.batch_size;
  const int64_t examples = data().num_examples(Part::kTraining);
  struct Failure {
    absl::Mutex mu;
    absl::Status status ABSL_GUARDED_BY(mu);
  };
  auto failure = std::make_shared<Failure>();
  coordinator->set_observer([this, failure, batch](const Ticket& ticket, const auto& results) {
    if (!results.ok() || results->empty() || (*results)[0].dtype() != DType::kF32) return;
    const int64_t steps = (ticket.size() + batch - 1) / batch;
    absl::Status s = meter_.Add(ticket, steps, (*results)[0].template data<float>()[0]);
    if (s.ok()) return;
    absl::MutexLock lock(&failure->mu);
    if (failure->status.ok()) failure->status = s;
  });
  const auto failed = [&] {
    absl::MutexLock lock(&failure->mu);
    return failure->status;
  };
  for (int64_t begin = 0; begin < examples && steps_scheduled_ < total_steps();) {
    if (interrupted_.load() || !failed().ok()) break;
    const int64_t steps = std::min(per_closure, total_steps() - steps_scheduled_);
    Ticket ticket{Part::kTraining, epoch, begin, std::min(examples, begin + steps * batch)};
    const int64_t cut = (ticket.size() + batch - 1) / batch;
    coordinator->Schedule(*train_, ticket, static_cast<uint32_t>(cut));
    steps_scheduled_ += cut;
    begin = ticket.end;
  }
  if (interrupted_.load() || !failed().ok()) coordinator->Cancel();
  absl::Status joined = coordinator->Join();
  RETURN_IF_ERROR(failed());
  if (interrupted_.load()) return absl::CancelledError("interrupted");
  return joined;
}

absl::StatusOr<Evaluation> JobRunner::Evaluate() { return EvaluatePart(FinalPart()); }

absl::StatusOr<Evaluation> JobRunner::EvaluatePart(Part part) {
  if (evaluate_.count(part) == 0) {
    ASSIGN_OR_RETURN(evaluate_[part], model_->DefineEvaluate(part));
  }
  MetricAccumulator metrics(job_.evaluate.metrics);
  {
    ClusterCoordinator coordinator(strategy_);
    std::deque<RemoteValue> values;
    for (const Ticket& ticket :
         dataset_.Tickets(part, job_.evaluate.batch_size, job_.evaluate.max_examples)) {
      values.push_back(coordinator.Schedule(evaluate_.at(part), ticket));
    }
    RETURN_IF_ERROR(coordinator.Join());
    for (const RemoteValue& value : values) {
      ASSIGN_OR_RETURN(std::vector<Tensor> results, value.Get());
      if (model_->ranks() && results.size() == 1 && results[0].dtype() == DType::kI64) {
        metrics.AddRanks(results[0].values<int64_t>());
      } else if (results.size() == 2) {
        RETURN_IF_ERROR(metrics.AddPredictions(results[0], results[1]));
      } else {
        return absl::InternalError("an evaluation step returned no metrics");
      }
    }
  }
  const TrainingMeter::Reading reading = meter_.Read();
  const int64_t steps_per_epoch = std::max<int64_t>(1, dataset_.steps_per_epoch());
  Evaluation evaluation;
  evaluation.epoch = (reading.steps + steps_per_epoch - 1) / steps_per_epoch;
  evaluation.steps = reading.steps;
  evaluation.train_seconds = reading.seconds;
  evaluation.loss = reading.mean_loss;
  evaluation.part = std::string(PartName(part));
  evaluation.examples = metrics.examples();
  evaluation.metrics = metrics.Compute();
  return evaluation;
}

absl::StatusOr<bool> JobRunner::ShouldStop(const Evaluation& evaluation) {
  if (!job_.train.early_stopping) return false;
  const EarlyStopping& rule = *job_.train.early_stopping;
  const auto value = evaluation.metrics.find(rule.metric);
  const auto metric = std::find_if(job_.evaluate.metrics.begin(), job_.evaluate.metrics.end(),
                                   [&](const MetricSpec& m) { return m.name == rule.metric; });
  if (value == evaluation.metrics.end() || metric == job_.evaluate.metrics.end()) return false;
  const double score = metric->higher_is_better() ? value->second : -value->second;
  if (!best_ || score > *best_ + rule.min_delta) {
    best_ = score;
    evaluations_without_gain_ = 0;
    RETURN_IF_ERROR(KeepBest());
    return false;
  }
  return ++evaluations_without_gain_ >= rule.patience;
}

absl::Status JobRunner::KeepBest() {
  best_values_.clear();
  for (const auto& info : strategy_.variables()) {
    auto value =
        info->table ? strategy_.Read(EmbeddingTable(info)) : strategy_.Read(Variable(info));
    if (!value.ok()) return value.status();
    best_values_.push_back(*std::move(value));
  }
  return absl::OkStatus();
}

absl::Status JobRunner::RestoreBest() {
  for (size_t i = 0; i < best_values_.size(); ++i) {
    const auto& info = strategy_.variables()[i];
    RETURN_IF_ERROR(info->table ? strategy_.Assign(EmbeddingTable(info), best_values_[i])
                                : strategy_.Assign(Variable(info), best_values_[i]));
  }
  best_values_.clear();
  return absl::OkStatus();
}

// Ranks every name by how often it occurs in the training part.
absl::StatusOr<std::map<std::string, double>> JobRunner::PopularityBaseline(Part part) const {
  const std::vector<int64_t> counts = data().training_counts(model_->item_feature());
  std::vector<int64_t> sorted = counts;
  std::sort(sorted.begin(), sorted.end());
  const auto& columns = data().columns(part);
  const auto column = [&](const std::string& name) {
    size_t c = 0;
    while (c < columns.size() && columns[c].name != name) ++c;
    return c;
  };
  const size_t item = column(model_->item_feature()), values = column("known.values"),
               offsets = column("known.offsets");
  if (std::max({item, values, offsets}) >= columns.size()) {
    return absl::InvalidArgumentError("the popularity baseline wants a history feature");
  }
  MetricAccumulator metrics(job_.evaluate.metrics);
  for (const Ticket& ticket :
       dataset_.Tickets(part, job_.evaluate.batch_size, job_.evaluate.max_examples)) {
    ASSIGN_OR_RETURN(Batch batch, data().Read(ticket));
    std::vector<int64_t> ranks;
    for (int64_t b = 0; b < ticket.size(); ++b) {
      const int64_t truth = counts[static_cast<size_t>(batch[item].data<int64_t>()[b])];
      int64_t rank = sorted.end() - std::upper_bound(sorted.begin(), sorted.end(), truth);
      const int32_t* at = batch[offsets].data<int32_t>();
      // A name counts once, however often it is known.
      std::vector<int64_t> known(batch[values].data<int64_t>() + at[b],
                                 batch[values].data<int64_t>() + at[b + 1]);
      std::sort(known.begin(), known.end());
      known.erase(std::unique(known.begin(), known.end()), known.end());
      for (int64_t id : known) rank -= counts[static_cast<size_t>(id)] > truth;
      ranks.push_back(rank);
    }
    metrics.AddRanks(ranks);
  }
  return metrics.Compute();
}

absl::Status JobRunner::CheckCanRecommend() const {
  if (model_->can_recommend()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "this job's model cannot recommend: wanted kind two_tower with histories on the user's side");
}

absl::StatusOr<std::vector<Suggestions>> JobRunner::Recommend(
    const std::vector<std::string>& groups, int64_t top) {
  RETURN_IF_ERROR(CheckCanRecommend());
  std::vector<std::vector<int64_t>> known;
  std::vector<std::string> found;
  for (const std::string& group : groups) {
    const auto id = data().FindGroup(group);
    if (!id) continue;
    const auto history = data().GroupHistory(*id);
    known.emplace_back(history.begin(), history.end());
    found.push_back(group);
  }
  if (found.empty()) return std::vector<Suggestions>();
  ASSIGN_OR_RETURN(std::vector<Suggestions> suggestions, Score(known, top + 1));
  for (size_t i = 0; i < found.size(); ++i) {
    suggestions[i].group = found[i];
    // Where groups and items are names of one kind, nobody wants to be told of itself.
    auto& items = suggestions[i].items;
    items.erase(std::remove(items.begin(), items.end(), found[i]), items.end());
    items.resize(std::min(items.size(), static_cast<size_t>(top)));
  }
  return suggestions;
}

absl::StatusOr<Suggestions> JobRunner::RecommendFor(const std::vector<std::string>& known,
                                                    int64_t top) {
  RETURN_IF_ERROR(CheckCanRecommend());
  std::vector<int64_t> ids;
  for (const std::string& name : known) {
    const auto id = data().Lookup(model_->item_feature(), name);
    if (!id) {
      return absl::NotFoundError(
          absl::StrCat("'", name, "' is not a value of feature '", model_->item_feature(), "'"));
    }
    ids.push_back(*id);
  }
  ASSIGN_OR_RETURN(std::vector<Suggestions> suggestions, Score({ids}, top));
  return suggestions[0];
}

absl::StatusOr<std::vector<Suggestions>> JobRunner::Score(
    const std::vector<std::vector<int64_t>>& known, int64_t top) {
  if (!score_) {
    ASSIGN_OR_RETURN(score_, model_->DefineScore());
  }
  const std::vector<std::string>* names = data().vocabulary(model_->item_feature());
  std::vector<int64_t> values;
  std::vector<int32_t> offsets = {0};
  for (const auto& ids : known) {
    values.insert(values.end(), ids.begin(), ids.end());
    offsets.push_back(static_cast<int32_t>(values.size()));
  }
  ClusterCoordinator coordinator(strategy_);
  RemoteValue value = coordinator.Schedule(
      *score_, {Tensor::FromVector<int64_t>(values), Tensor::FromVector<int32_t>(offsets)});
  ASSIGN_OR_RETURN(std::vector<Tensor> results, coordinator.Fetch(value));
  const int64_t items = results[0].dim(1);
  const auto text = [&](int64_t id) {
    return names != nullptr && id < static_cast<int64_t>(names->size())
               ? (*names)[static_cast<size_t>(id)]
               : absl::StrCat("#", id);
  };
  std::vector<Suggestions> all(known.size());
  for (size_t g = 0; g < known.size(); ++g) {
    const float* scores = results[0].data<float>() + static_cast<int64_t>(g) * items;
    std::vector<int64_t> order(static_cast<size_t>(items));
    std::iota(order.begin(), order.end(), 0);
    const int64_t wanted = std::min<int64_t>(items, top + static_cast<int64_t>(known[g].size()));
    std::partial_sort(order.begin(), order.begin() + wanted, order.end(),
                      [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
    for (int64_t i = 0; i < wanted && static_cast<int64_t>(all[g].items.size()) < top; ++i) {
      const int64_t id = order[static_cast<size_t>(i)];
      if (std::find(known[g].begin(), known[g].end(), id) == known[g].end()) {
        all[g].items.push_back(text(id));
      }
    }
    constexpr size_t kShown = 4;
    for (size_t i = 0; i < std::min(kShown, known[g].size()); ++i) {
      all[g].known.push_back(text(known[g][i]));
    }
  }
  return all;
}

}  // namespace coxswain
