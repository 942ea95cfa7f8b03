// Evaluations, and what a job is compared with.
#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "coordinator/model/cluster_words.h"
#include "coordinator/model/join_unless_stopped.h"
#include "coordinator/model/labelled_model.h"
#include "coordinator/model/task_model.h"
#include "coordinator/runner/data_checks.h"
#include "coordinator/runner/runner.h"
#include "runtime/base/status.h"
#include "runtime/data/dataset.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/ticket.h"

namespace coxswain::runner {
namespace {

// Where parameter servers are lost faster than the model can be evaluated, the last one counts.
constexpr int kMostEvaluations = 10;
// Examples that go through the items together, where these are taken in pieces.
constexpr int64_t kRankedTogether = 4096;
constexpr absl::Duration kLook = absl::Milliseconds(100);  // for an interrupt

// For what is computed in this process, while workers have nothing to do.
std::unique_ptr<env::ComputePool> OwnPool() {
  return env::NewComputePool(std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
}

bool HasWeights(const job::JobSpec& job) { return !job.dataset.label().weight().empty(); }

bool RanksTheUnseen(const job::JobSpec& job) {
  return job::MeasuresRanks(job) && job::MeasuresGroups(job) &&
         !job.dataset.known_items().held_out();
}

// Metrics of some of the examples only would be compared with those of all: what a job may skip in
// training ends it here, and it says why.
absl::Status OfEvaluation(const job::JobSpec& job, const absl::Status& status) {
  const auto detail = GetDetail(status);
  if (job.train.on_error == ErrorPolicy::kFailFast || !detail ||
      detail->cause != ErrorCause::kApplication) {
    return status;
  }
  return Annotate(status, "an evaluation, whose errors end the job whatever train.on_error says");
}

// What an evaluation step says of its examples, behind what it predicts of them: groups, what they
// have that training did not, weights.
absl::StatusOr<model::MeasuredExamples> ExamplesOf(const job::JobSpec& job,
                                                   absl::Span<const Tensor>* results) {
  model::MeasuredExamples examples;
  const auto take = [&](DType dtype) -> const Tensor* {
    const bool good = results->size() >= 2 && results->back().dtype() == dtype &&
                      results->front().rank() >= 1 &&
                      results->back().num_elements() == results->front().dim(0);
    if (!good) return nullptr;
    const Tensor* last = &results->back();
    results->remove_suffix(1);
    return last;
  };
  if (HasWeights(job)) {
    const Tensor* weights = take(DType::kF32);
    if (weights == nullptr) {
      return absl::InternalError("an evaluation step returned no weights of its examples");
    }
    examples.weights = weights->values<float>();
  }
  if (RanksTheUnseen(job)) {
    const Tensor* unseen = take(DType::kI64);
    if (unseen == nullptr) {
      return absl::InternalError("an evaluation step did not say which items users had before");
    }
    examples.unseen = unseen->values<int64_t>();
  }
  if (job::MeasuresGroups(job)) {
    const Tensor* groups = take(DType::kI64);
    if (groups == nullptr) {
      return absl::InternalError("an evaluation step returned no groups of its examples");
    }
    examples.groups = groups->values<int64_t>();
  }
  for (size_t i = job.evaluate.slices.size(); i-- > 0;) {
    const Tensor* values = take(DType::kI64);
    if (values == nullptr) {
      return absl::InternalError("an evaluation step did not say which slices its examples are of");
    }
    examples.slices.insert(examples.slices.begin(), values->values<int64_t>());
  }
  if (model::SaysProbabilities(job)) {
    const Tensor* scores = take(DType::kF32);
    if (scores == nullptr) {
      return absl::InternalError("an evaluation step returned no scores of its examples");
    }
    examples.scores = scores->values<float>();
  }
  return examples;
}

// How many values of the features have names.
std::vector<int64_t> ValuesOfSlices(const job::JobSpec& job, const data::Dataset& data) {
  std::vector<int64_t> values;
  for (const std::string& feature : job.evaluate.slices) {
    const std::vector<std::string>* const words = data.vocabulary(feature);
    values.push_back(words == nullptr ? 0 : std::ssize(*words));
  }
  return values;
}

// By feature, the largest first.
std::vector<SliceMetrics> NameSlices(const job::JobSpec& job, const data::Dataset& data,
                                     const model::Slices& slices) {
  std::vector<model::Slices::Slice> all = slices.Compute();
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::pair(a.feature, -a.examples) < std::pair(b.feature, -b.examples);
  });
  std::vector<SliceMetrics> named;
  for (model::Slices::Slice& slice : all) {
    const std::string& feature = job.evaluate.slices[slice.feature];
    std::optional<std::string> value;
    if (slice.id) value = (*data.vocabulary(feature))[static_cast<size_t>(*slice.id)];
    named.push_back({feature, std::move(value), slice.examples, std::move(slice.metrics)});
  }
  return named;
}

// The ranks behind predictions and labels. Where labels are 0 and 1, an item with 0 is none that
// the user has.
absl::StatusOr<std::vector<int64_t>> RanksOfLabels(const job::JobSpec& job,
                                                   absl::Span<const Tensor> results) {
  const Tensor &label = results[1], &rank = results[2];
  if (label.dtype() != DType::kF32 || rank.dtype() != DType::kI64 ||
      label.num_elements() != rank.num_elements()) {
    return absl::InternalError("an evaluation step returned no ranks of its examples");
  }
  const bool chances = job::KindOf(*job.loss).prediction == job::PredictionKind::kProbability;
  const auto given = rank.values<int64_t>();
  std::vector<int64_t> ranks(given.begin(), given.end());
  for (size_t i = 0; chances && i < ranks.size(); ++i) {
    if (!(label.values<float>()[i] > 0.5f)) ranks[i] = -1;
  }
  return ranks;
}

// Measures a model whose items are ranked in pieces: some thousand examples go through the items
// together.
class InPieces {
 public:
  InPieces(const job::JobSpec& job, ParameterServerStrategy* strategy, model::ItemSearch* search,
           std::function<bool()> stopped)
      : job_(job), strategy_(strategy), search_(search), stopped_(std::move(stopped)) {}

  absl::Status Measure(const RemoteFunction& evaluate, const std::vector<Ticket>& tickets,
                       model::MetricAccumulator* metrics) const {
    for (size_t next = 0; next < tickets.size();) {
      if (stopped_()) return absl::CancelledError("interrupted");
      ClusterCoordinator coordinator(*strategy_);
      std::vector<RemoteValue> values;
      for (int64_t examples = 0; next < tickets.size() && examples < kRankedTogether; ++next) {
        examples += tickets[next].size();
        values.push_back(coordinator.Schedule(evaluate, tickets[next]));
      }
      RETURN_IF_ERROR(model::JoinUnlessStopped(&coordinator, stopped_));
      ASSIGN_OR_RETURN(const std::vector<std::vector<Tensor>> all, coordinator.Fetch(values));
      RETURN_IF_ERROR(Rank(all, metrics));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Rank(const std::vector<std::vector<Tensor>>& all,
                    model::MetricAccumulator* metrics) const {
    ASSIGN_OR_RETURN(const std::vector<int64_t> ranks, search_->Ranks(all, stopped_));
    absl::Span<const int64_t> left = ranks;
    for (absl::Span<const Tensor> results : all) {
      ASSIGN_OR_RETURN(const model::MeasuredExamples examples, ExamplesOf(job_, &results));
      const auto here = static_cast<size_t>(results.front().dim(0));
      metrics->AddRanks(left.subspan(0, here), examples);
      left.remove_prefix(here);
    }
    return absl::OkStatus();
  }

  const job::JobSpec& job_;
  ParameterServerStrategy* const strategy_;
  model::ItemSearch* const search_;
  const std::function<bool()> stopped_;
};

}  // namespace

std::optional<Part> JobRunner::ScoredPart(Part part) const {
  if (model_->has_words()) part = Part::kValidation;
  return data().num_examples(part) > 0 ? std::optional<Part>(part) : std::nullopt;
}

absl::Status JobRunner::Measure(Part part, model::MetricAccumulator* metrics) {
  const std::vector<Ticket> tickets =
      dataset_.Tickets(part, job_.evaluate.batch_size, job_.evaluate.max_examples);
  if (tickets.empty()) return absl::OkStatus();
  const auto stopped = [this] { return interrupted_.load(); };
  if (model_->ranks_in_pieces()) {
    return InPieces(job_, &strategy_, &model_->search(), stopped)
        .Measure(evaluate_.at(part), tickets, metrics);
  }
  ClusterCoordinator coordinator(strategy_);
  std::deque<RemoteValue> values;
  for (const Ticket& ticket : tickets) {
    while (!coordinator.HasRoom(kLook) && !stopped()) continue;
    if (stopped()) break;
    values.push_back(coordinator.Schedule(evaluate_.at(part), ticket));
  }
  // It changes nothing, and is made anew.
  RETURN_IF_ERROR(model::JoinUnlessStopped(&coordinator, stopped));
  if (values.size() < tickets.size()) return absl::CancelledError("interrupted");
  for (const RemoteValue& value : values) {
    ASSIGN_OR_RETURN(const std::vector<Tensor> all, value.Get());
    absl::Span<const Tensor> results = all;
    ASSIGN_OR_RETURN(model::MeasuredExamples examples, ExamplesOf(job_, &results));
    if (!job_.tasks.empty()) {
      RETURN_IF_ERROR(model::AddTasks(job_, results, examples, metrics));
    } else if (model_->ranks() && results.size() == 1 && results[0].dtype() == DType::kI64) {
      metrics->AddRanks(results[0].values<int64_t>(), examples);
    } else if (results.size() == 2 && model_->has_words()) {
      RETURN_IF_ERROR(metrics->AddLoss(results[0], results[1]));
    } else if (results.size() == 3 && job::MeasuresRanks(job_)) {
      ASSIGN_OR_RETURN(const std::vector<int64_t> ranks, RanksOfLabels(job_, results));
      examples.ranks = ranks;
      RETURN_IF_ERROR(metrics->AddPredictions(results[0], results[1], examples));
    } else if (results.size() == 2) {
      RETURN_IF_ERROR(metrics->AddPredictions(results[0], results[1], examples));
    } else {
      return absl::InternalError("an evaluation step returned no metrics");
    }
  }
  return absl::OkStatus();
}

absl::Status JobRunner::MeasureWords(Evaluation* evaluation) {
  model::WordScores scores;
  if (!job_.evaluate.word_similarity.empty() || !job_.evaluate.analogies.empty()) {
    ASSIGN_OR_RETURN(
        const model::WordTable words,
        model::WordsOnCluster(&strategy_, model_->words(), [this] { return interrupted_.load(); }));
    ASSIGN_OR_RETURN(scores, model::ScoreWords(word_tests_, words));
  }
  evaluation->metrics.clear();
  evaluation->undefined.clear();
  const auto add = [evaluation](const char* name, const std::optional<double>& score,
                                const std::string& path, const char* why) {
    if (path.empty()) return;
    evaluation->metrics[name] = score.value_or(std::nan(""));
    if (!score) evaluation->undefined[name] = why;
  };
  add("word_similarity", scores.similarity, job_.evaluate.word_similarity,
      "of fewer than two pairs both words are known, or all have the same similarity");
  add("analogies", scores.analogies, job_.evaluate.analogies, "of no question all words are known");
  const int64_t pairs = static_cast<int64_t>(word_tests_.pairs.size());
  const int64_t questions = static_cast<int64_t>(word_tests_.questions.size());
  if (!job_.evaluate.word_similarity.empty()) {
    evaluation->counts["word_pairs"] = pairs;
    evaluation->counts["word_pairs_skipped"] = word_tests_.pairs_skipped;
  }
  if (!job_.evaluate.analogies.empty()) {
    evaluation->counts["analogy_questions"] = questions;
    evaluation->counts["analogy_questions_skipped"] = word_tests_.questions_skipped;
  }
  evaluation->part = "words";
  evaluation->examples = pairs + questions;
  if (data().num_examples(Part::kValidation) == 0) return absl::OkStatus();
  model::MetricAccumulator held_out(job_.evaluate.metrics);
  RETURN_IF_ERROR(Measure(Part::kValidation, &held_out));
  for (const auto& [name, value] : held_out.Compute()) evaluation->metrics[name] = value;
  evaluation->counts["held_out_pairs"] = held_out.examples();
  return absl::OkStatus();
}

absl::StatusOr<Evaluation> JobRunner::EvaluatePart(Part part, bool sliced) {
  if (model_->has_words()) part = Part::kValidation;
  if (data().num_examples(part) > 0 && evaluate_.count(part) == 0) {
    ASSIGN_OR_RETURN(evaluate_[part], model_->DefineEvaluate(part));
  }
  Evaluation evaluation;
  // While steps run again, because a PS was lost, the model is not what the training made of it.
  for (int attempt = 1;; ++attempt) {
    RETURN_IF_ERROR(cluster_.WaitUntilSettled());
    const int64_t lost = cluster_.Stats().failures.ps_lost;
    absl::Status measured;
    if (model_->has_words()) {
      measured = MeasureWords(&evaluation);
    } else {
      std::optional<model::Bootstrap> bootstrap;
      if (job_.evaluate.bootstrap > 0) {
        bootstrap.emplace(job_.evaluate.metrics, job_.evaluate.bootstrap, job_.train.seed);
      }
      std::optional<model::Slices> slices;
      if (sliced) slices.emplace(job_.evaluate.metrics, ValuesOfSlices(job_, data()));
      model::MetricAccumulator metrics(job_.evaluate.metrics, bootstrap ? &*bootstrap : nullptr,
                                       slices ? &*slices : nullptr);
      measured = Measure(part, &metrics);
      evaluation.part = std::string(PartName(part));
      evaluation.examples = 0;  // where these are queries, metrics count their rows
      for (const Ticket& ticket :
           dataset_.Tickets(part, job_.evaluate.batch_size, job_.evaluate.max_examples)) {
        evaluation.examples += ticket.size();
      }
      evaluation.metrics = metrics.Compute();
      evaluation.undefined = metrics.Undefined();
      if (slices) evaluation.slices = NameSlices(job_, data(), *slices);
      evaluation.intervals.clear();
      if (bootstrap && measured.ok()) {
        evaluation.intervals = bootstrap->Intervals(OwnPool().get());
        for (const auto& [name, why] : evaluation.undefined) evaluation.intervals.erase(name);
      }
    }
    if (!measured.ok()) measured = WithoutStaleIndex(measured, job_.dataset);
    RETURN_IF_ERROR(OfEvaluation(job_, measured));
    if (cluster_.Stats().failures.ps_lost == lost || attempt == kMostEvaluations) break;
  }
  const TrainingMeter::Reading reading = tracker_->meter().Read();
  evaluation.epoch = follows() ? next_.epoch + (next_.examples > 0 ? 1 : 0)
                               : (reading.steps + steps_per_epoch() - 1) / steps_per_epoch();
  evaluation.steps = reading.steps;
  evaluation.train_seconds = reading.seconds;
  evaluation.loss = reading.mean_loss;
  // That of the steps so far: one at the same step may have made it smaller for those that come.
  const RunState state = tracker_->state();
  const bool again =
      !state.evaluations.empty() && state.evaluations.back().steps == evaluation.steps;
  evaluation.rate_factor = again ? state.evaluations.back().rate_factor : state.plateau.factor;
  return evaluation;
}

// Ranks every name by how often it occurs in the training part.
std::string JobRunner::ScoreName(const std::string& metric) const {
  std::string name = absl::StrCat(metric, " of the ", PartName(job_.evaluate.part), " part");
  const int64_t most = job_.evaluate.max_examples;
  if (most > 0) absl::StrAppend(&name, ", of at most ", most, " examples");
  return name;
}

void JobRunner::ForgetScores(RunState* state) const {
  const job::TrainSpec& train = job_.train;
  const std::string stopping =
      train.early_stopping ? ScoreName(train.early_stopping->metric) : std::string();
  const std::string plateau =
      train.reduce_on_plateau ? ScoreName(train.reduce_on_plateau->metric) : std::string();
  for (const std::string& note : ForgetOtherScores(stopping, plateau, state)) LogWarning(note);
  if (state->finished && state->stopped_early) {
    LogWarning("the job has stopped early, and trains no more");
    return;
  }
  // Nothing is left to train: what it ended with stays.
  if (state->finished && !endless() && StepsBefore(state->position) >= total_steps()) return;
  if (!train.reduce_on_plateau && state->plateau.factor != 1) {
    LogWarning("without train.reduce_on_plateau the learning rates are what the job says again");
    state->plateau = {};
    state->rate_changes.push_back({state->position, 1});  // steps that are to run again keep theirs
  }
  if (!train.early_stopping) {
    if (state->best) LogWarning("without train.early_stopping the last values are the model's");
    ForgetBestValues(state);
    state->stopped_early = false;
  } else if (!state->best_file.empty()) {
    // Now, and not when all is trained.
    const absl::Status there = best_values_.Verify(state->best_file);
    if (there.ok() && state->finished) {
      LogWarning("training goes on from the best values so far (", state->best_file,
                 "), which the job ended with, and not from its last ones");
      state->evaluations_without_gain = 0;
    }
    if (there.ok()) return;
    LogWarning("early stopping begins anew, the best values so far are gone: ", there.message());
    ForgetBestValues(state);
  }
}

absl::StatusOr<std::map<std::string, double>> JobRunner::PopularityBaseline(Part part) const {
  std::vector<int64_t> counts = data().training_counts(model_->item_feature());
  // Buckets of unknown values are no items.
  if (const auto* names = data().vocabulary(model_->item_feature())) {
    counts.resize(std::min(counts.size(), names->size()));
  }
  const auto candidates = static_cast<int64_t>(counts.size());
  std::vector<int64_t> sorted = counts;
  std::sort(sorted.begin(), sorted.end());
  const auto& columns = data().columns(part);
  const auto column = [&](const std::string& name) {
    size_t c = 0;
    while (c < columns.size() && columns[c].name != name) ++c;
    return c;
  };
  const size_t item = column(model_->item_feature()), values = column("known.values"),
               offsets = column("known.offsets"), weight = column(data::kWeightColumn),
               group = column("known.group"), unseen = column("known.unseen");
  if (std::max({item, values, offsets}) >= columns.size()) {
    return absl::InvalidArgumentError("the popularity baseline wants to know what a user has");
  }
  model::MetricAccumulator metrics(job_.evaluate.metrics);
  for (const Ticket& ticket :
       dataset_.Tickets(part, job_.evaluate.batch_size, job_.evaluate.max_examples)) {
    if (interrupted_.load()) return absl::CancelledError("interrupted");
    ASSIGN_OR_RETURN(data::Batch batch, data().Read(ticket));
    std::vector<int64_t> ranks;
    for (int64_t b = 0; b < ticket.size(); ++b) {
      const int64_t id = batch[item].data<int64_t>()[b];
      if (id >= candidates) {  // unknown: behind all candidates
        ranks.push_back(candidates);
        continue;
      }
      const int64_t truth = counts[static_cast<size_t>(id)];
      // All that are as popular count against it, as equal scores of a model do; not itself.
      int64_t rank = sorted.end() - std::lower_bound(sorted.begin(), sorted.end(), truth) - 1;
      const int32_t* at = batch[offsets].data<int32_t>();
      // A name counts once, however often it is known.
      std::vector<int64_t> known(batch[values].data<int64_t>() + at[b],
                                 batch[values].data<int64_t>() + at[b + 1]);
      std::sort(known.begin(), known.end());
      known.erase(std::unique(known.begin(), known.end()), known.end());
      for (const int64_t other : known) {
        rank -= other != id && other < candidates && counts[static_cast<size_t>(other)] >= truth;
      }
      ranks.push_back(rank);
    }
    model::MeasuredExamples examples;
    if (unseen < columns.size()) examples.unseen = batch[unseen].values<int64_t>();
    if (weight < columns.size()) examples.weights = batch[weight].values<float>();
    if (group < columns.size()) examples.groups = batch[group].values<int64_t>();
    metrics.AddRanks(ranks, examples);
  }
  return metrics.Compute();
}

}  // namespace coxswain::runner
