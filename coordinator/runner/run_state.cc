// Counters and evaluations as JSON and back, the state as a whole, and RunTracker, which has it
// while closures report.
#include "coordinator/runner/run_state.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/model/saved_side_tables.h"
#include "nlohmann/json.hpp"
#include "runtime/base/not_finite.h"
#include "runtime/base/status.h"

namespace coxswain::runner {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFormat[] = "coxswain-run-1";

// Reads a checked JSON object; remembers the first key that is missing or of another type.
class Fields {
 public:
  Fields(const Json& json, std::string* error) : json_(json), error_(error) {}

  template <typename T>
  T Get(const char* key) const {
    const auto it = json_.find(key);
    if (it == json_.end()) return Wrong<T>(key, "is missing");
    if constexpr (std::is_same_v<T, std::string>) {
      return it->is_string() ? it->get<std::string>() : Wrong<T>(key, "is no text");
    } else if constexpr (std::is_same_v<T, bool>) {
      return it->is_boolean() ? it->get<bool>() : Wrong<T>(key, "is not true or false");
    } else if constexpr (std::is_same_v<T, double>) {
      if (it->is_null()) return std::numeric_limits<double>::quiet_NaN();  // JSON has no other word
      return it->is_number() ? it->get<double>() : Wrong<T>(key, "is no number");
    } else {
      const bool good =
          it->is_number_integer() && (it->is_number_unsigned() || it->get<int64_t>() >= 0);
      return good ? it->get<T>() : Wrong<T>(key, "is no number >= 0");
    }
  }
  // A number that may be below 0.
  int64_t Signed(const char* key) const {
    const auto it = json_.find(key);
    if (it == json_.end()) return Wrong<int64_t>(key, "is missing");
    return it->is_number_integer() ? it->get<int64_t>() : Wrong<int64_t>(key, "is no number");
  }
  Fields Sub(const char* key) const { return Fields(Part(key, /*list=*/false), error_); }
  const Json& List(const char* key) const { return Part(key, /*list=*/true); }
  bool Null(const char* key) const { return json_.contains(key) && json_[key].is_null(); }
  const Json& json() const { return json_; }

 private:
  template <typename T>
  T Wrong(const char* key, const char* what) const {
    if (error_->empty()) *error_ = absl::StrCat("'", key, "' ", what);
    return T{};
  }
  const Json& Part(const char* key, bool list) const {
    static const Json* const object = new Json(Json::object());
    static const Json* const array = new Json(Json::array());
    const auto it = json_.find(key);
    if (it != json_.end() && (list ? it->is_array() : it->is_object())) return *it;
    Wrong<bool>(key, list ? "is no list" : "is no object");
    return list ? *array : *object;
  }

  const Json& json_;
  std::string* error_;
};

Json ToJson(const std::map<std::string, model::Interval>& intervals) {
  Json json = Json::object();
  for (const auto& [name, interval] : intervals) json[name] = {interval.low, interval.high};
  return json;
}

std::map<std::string, model::Interval> ReadIntervals(const Fields& f) {
  std::map<std::string, model::Interval> intervals;
  for (const auto& [name, unused] : f.json().items()) {
    const Json& both = f.List(name.c_str());
    if (both.size() == 2 && both[0].is_number() && both[1].is_number()) {
      intervals[name] = {both[0].get<double>(), both[1].get<double>()};
    }
  }
  return intervals;
}

Json ToJson(const Evaluation& e) {
  return {{"epoch", e.epoch},
          {"steps", e.steps},
          {"train_seconds", e.train_seconds},
          {"loss", e.loss},
          {"learning_rate_factor", e.rate_factor},
          {"part", e.part},
          {"examples", e.examples},
          {"metrics", e.metrics},
          {"counts", e.counts},
          {"intervals", ToJson(e.intervals)}};
}

Evaluation ReadEvaluation(const Fields& f) {
  Evaluation e;
  e.epoch = f.Get<int64_t>("epoch");
  e.steps = f.Get<int64_t>("steps");
  e.train_seconds = f.Get<double>("train_seconds");
  e.loss = f.Get<double>("loss");
  // Not in older ones.
  if (f.json().contains("learning_rate_factor")) {
    e.rate_factor = f.Get<double>("learning_rate_factor");
  }
  e.part = f.Get<std::string>("part");
  e.examples = f.Get<int64_t>("examples");
  const Fields metrics = f.Sub("metrics");
  for (const auto& [name, value] : metrics.json().items()) {
    e.metrics[name] = metrics.Get<double>(name.c_str());
  }
  if (f.json().contains("intervals")) e.intervals = ReadIntervals(f.Sub("intervals"));
  const Fields counts = f.Sub("counts");
  for (const auto& [name, value] : counts.json().items()) {
    e.counts[name] = counts.Get<int64_t>(name.c_str());
  }
  return e;
}

Json ToJson(const RunCounters& c) {
  return {{"workers_lost", c.failures.workers_lost},
          {"ps_lost", c.failures.ps_lost},
          {"recovered", c.failures.recovered},
          {"recovery_seconds", c.failures.recovery_seconds},
          {"closures_rerun", c.failures.closures_rerun},
          {"updates_lost", c.failures.updates_lost},
          {"quarantined", c.failures.quarantined},
          {"timeouts", c.failures.timeouts},
          {"closures_retried", c.retried},
          {"checkpoints_written", c.checkpoints.written},
          {"checkpoints_failed", c.checkpoints.failed},
          {"checkpoint_bytes", c.checkpoints.bytes},
          {"checkpoint_seconds", c.checkpoints.seconds},
          {"stall_seconds", c.checkpoints.stall_seconds},
          {"shards_moved", c.checkpoints.shards_moved},
          {"move_seconds", c.checkpoints.move_seconds}};
}

RunCounters ReadCounters(const Fields& f) {
  RunCounters c;
  c.failures.workers_lost = f.Get<int64_t>("workers_lost");
  c.failures.ps_lost = f.Get<int64_t>("ps_lost");
  c.failures.recovered = f.Get<int64_t>("recovered");
  for (const Json& seconds : f.List("recovery_seconds")) {
    if (seconds.is_number()) c.failures.recovery_seconds.push_back(seconds.get<double>());
  }
  c.failures.closures_rerun = f.Get<int64_t>("closures_rerun");
  c.failures.updates_lost = f.Get<int64_t>("updates_lost");
  c.failures.quarantined = f.Get<int64_t>("quarantined");
  // Not in older ones.
  if (f.json().contains("timeouts")) c.failures.timeouts = f.Get<int64_t>("timeouts");
  c.retried = f.Get<uint64_t>("closures_retried");
  c.checkpoints.written = f.Get<int64_t>("checkpoints_written");
  c.checkpoints.failed = f.Get<int64_t>("checkpoints_failed");
  c.checkpoints.bytes = f.Get<int64_t>("checkpoint_bytes");
  c.checkpoints.seconds = f.Get<double>("checkpoint_seconds");
  c.checkpoints.stall_seconds = f.Get<double>("stall_seconds");
  c.checkpoints.shards_moved = f.Get<int64_t>("shards_moved");
  c.checkpoints.move_seconds = f.Get<double>("move_seconds");
  return c;
}

Json ToJson(const FollowedEpoch& epoch) {
  Json files = Json::array();
  for (const data::FollowedFile& file : epoch.files) {
    files.push_back({{"path", file.path},
                     {"bytes", file.identity.bytes()},
                     {"modified_ns", file.identity.modified_ns()},
                     {"samples", file.identity.samples()}});
  }
  Json json = {{"examples", epoch.examples}, {"files", std::move(files)}};
  if (!epoch.side_tables.empty()) json[model::kSideTables] = epoch.side_tables;
  return json;
}

FollowedEpoch ReadFollowed(const Fields& f, std::string* error) {
  FollowedEpoch epoch;
  epoch.examples = f.Get<int64_t>("examples");
  for (const Json& json : f.List("files")) {
    const Fields of_file(json, error);
    data::FollowedFile& file = epoch.files.emplace_back();
    file.path = of_file.Get<std::string>("path");
    file.identity.set_bytes(of_file.Get<int64_t>("bytes"));
    // Archives may give files a time before 1970.
    file.identity.set_modified_ns(of_file.Signed("modified_ns"));
    file.identity.set_samples(of_file.Get<uint64_t>("samples"));
  }
  return epoch;
}

Json ToJson(const Plateau& p) {
  return {{"factor", p.factor},
          {"best", p.best ? Json(*p.best) : Json()},
          {"best_of", p.best_of},
          {"evaluations_without_gain", p.evaluations_without_gain}};
}

Plateau ReadPlateau(const Fields& f, std::string* error) {
  Plateau p;
  p.factor = f.Get<double>("factor");
  if (error->empty() && !(p.factor > 0 && p.factor <= 1)) {
    *error = absl::StrCat("'plateau.factor' is ", p.factor);
  }
  if (!f.Null("best")) p.best = f.Get<double>("best");
  if (f.json().contains("best_of")) p.best_of = f.Get<std::string>("best_of");
  p.evaluations_without_gain = f.Get<int64_t>("evaluations_without_gain");
  return p;
}

Json ToJson(const TrainingMeter::Memory& m) {
  return {{"seconds", m.seconds},
          {"recent_loss", m.recent_loss},
          {"closures", m.closures},
          {"loss_sum", m.loss_sum},
          {"loss_weight", m.loss_weight}};
}

}  // namespace

void RunCounters::Add(const RunCounters& other) {
  const FailureStats& f = other.failures;
  failures.workers_lost += f.workers_lost;
  failures.ps_lost += f.ps_lost;
  failures.recovered += f.recovered;
  failures.recovery_seconds.insert(failures.recovery_seconds.end(), f.recovery_seconds.begin(),
                                   f.recovery_seconds.end());
  failures.closures_rerun += f.closures_rerun;
  failures.updates_lost += f.updates_lost;
  failures.quarantined += f.quarantined;
  failures.timeouts += f.timeouts;
  retried += other.retried;
  checkpoints.written += other.checkpoints.written;
  checkpoints.failed += other.checkpoints.failed;
  checkpoints.bytes += other.checkpoints.bytes;
  checkpoints.seconds += other.checkpoints.seconds;
  checkpoints.stall_seconds += other.checkpoints.stall_seconds;
  checkpoints.shards_moved += other.checkpoints.shards_moved;
  checkpoints.move_seconds += other.checkpoints.move_seconds;
}

absl::StatusOr<RunState> StateBehind(const checkpoint::Manifest& manifest) {
  ASSIGN_OR_RETURN(RunState state, ParseRunState(manifest.job_state));
  ++state.counters.checkpoints.written;
  state.counters.checkpoints.bytes += manifest.written_bytes();
  return state;
}

int64_t UpdatesOf(const RunState& state, int64_t steps, int64_t batches, int64_t steps_per_epoch) {
  const auto updates = [batches](int64_t n) { return (n + batches - 1) / batches; };
  int64_t count = 0, begin = 0;
  const auto add = [&](int64_t end) {
    const int64_t epochs = end / steps_per_epoch - begin / steps_per_epoch;
    const int64_t first = epochs > 0 ? steps_per_epoch - begin % steps_per_epoch : end - begin;
    count += updates(first);
    if (epochs > 0) {
      count += (epochs - 1) * updates(steps_per_epoch) + updates(end % steps_per_epoch);
    }
    begin = end;
  };
  for (const int64_t end : state.short_updates) {
    if (end < steps) add(end);
  }
  add(steps);
  return count;
}

std::string ToJson(const RunState& s) {
  Json json;
  json["format"] = kFormat;
  json["data_fingerprint"] = s.data_fingerprint;
  json["batch_size"] = s.batch_size;
  json["seed"] = s.seed;
  json["steps_per_function"] = s.steps_per_function;
  json["replicas"] = s.replicas;
  if (s.free_steps) json["free_steps"] = true;
  if (s.each_alone) json["each_alone"] = true;
  if (s.summed) json["summed"] = *s.summed;
  if (!s.init_from.empty()) json["init_from"] = s.init_from;
  for (const Ticket& t : s.returned) {
    json["returned"].push_back({{"epoch", t.epoch}, {"begin", t.begin}, {"end", t.end}});
  }
  json["epoch"] = s.position.epoch;
  json["examples"] = s.position.examples;
  if (!s.followed.empty()) {
    json["followed"] = Json::array();
    for (const FollowedEpoch& epoch : s.followed) json["followed"].push_back(ToJson(epoch));
  }
  if (!s.side_tables.empty()) json[model::kSideTables] = s.side_tables;
  if (!s.short_updates.empty()) json["short_updates"] = s.short_updates;
  json["epochs_finished"] = s.epochs_finished;
  json["stopped_early"] = s.stopped_early;
  json["finished"] = s.finished;
  json["failed"] = s.failed;
  json["steps_left_out"] = s.steps_left_out;
  json["examples_left_out"] = s.examples_left_out;
  json["closures_left_out"] = s.closures_left_out;
  json["meter"] = ToJson(s.meter);
  json["evaluate_seconds"] = s.evaluate_seconds;
  json["evaluations"] = Json::array();
  for (const Evaluation& e : s.evaluations) json["evaluations"].push_back(ToJson(e));
  json["best"] = s.best ? Json(*s.best) : Json();
  json["best_of"] = s.best_of;
  json["evaluations_without_gain"] = s.evaluations_without_gain;
  json["best_file"] = s.best_file;
  json["plateau"] = ToJson(s.plateau);
  for (const RateChange& change : s.rate_changes) {
    json["rate_changes"].push_back({{"epoch", change.from.epoch},
                                    {"examples", change.from.examples},
                                    {"factor", change.factor}});
  }
  json["resumes"] = s.resumes;
  json["counters"] = ToJson(s.counters);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<RunState> ParseRunState(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  std::string error;
  RunState s;
  if (!json.is_object() || json.value("format", Json()) != Json(kFormat)) {
    return absl::InvalidArgumentError(
        absl::StrCat("not written by `coxswain train`: wanted a state of format '", kFormat, "'"));
  }
  const Fields f(json, &error);
  s.data_fingerprint = f.Get<uint64_t>("data_fingerprint");
  s.batch_size = f.Get<int64_t>("batch_size");
  s.seed = f.Get<uint64_t>("seed");
  s.steps_per_function = f.Get<int64_t>("steps_per_function");
  if (json.contains("replicas")) s.replicas = f.Get<int64_t>("replicas");  // not in older ones
  if (json.contains("free_steps")) s.free_steps = f.Get<bool>("free_steps");
  if (json.contains("each_alone")) s.each_alone = f.Get<bool>("each_alone");
  if (json.contains("summed")) s.summed = f.Get<bool>("summed");
  if (json.contains("init_from")) s.init_from = f.Get<std::string>("init_from");
  if (json.contains("returned")) {
    for (const Json& t : f.List("returned")) {
      if (!t.is_object()) continue;
      const Fields ticket(t, &error);
      s.returned.push_back({Part::kTraining, ticket.Get<int64_t>("epoch"),
                            ticket.Get<int64_t>("begin"), ticket.Get<int64_t>("end")});
    }
  }
  s.position.epoch = f.Get<int64_t>("epoch");
  s.position.examples = f.Get<int64_t>("examples");
  if (json.contains("followed")) {
    for (const Json& epoch : f.List("followed")) {
      const Fields fields(epoch, &error);
      s.followed.push_back(ReadFollowed(fields, &error));
      if (!epoch.contains(model::kSideTables)) continue;
      s.followed.back().side_tables = fields.Get<std::string>(model::kSideTables);
    }
  }
  if (json.contains(model::kSideTables)) s.side_tables = f.Get<std::string>(model::kSideTables);
  if (json.contains("short_updates")) {
    for (const Json& steps : f.List("short_updates")) {
      const int64_t before = s.short_updates.empty() ? 0 : s.short_updates.back();
      s.short_updates.push_back(steps.is_number_integer() ? steps.get<int64_t>() : 0);
      if (error.empty() && s.short_updates.back() <= before)
        error = "'short_updates' do not ascend";
    }
  }
  s.epochs_finished = f.Get<int64_t>("epochs_finished");
  s.stopped_early = f.Get<bool>("stopped_early");
  if (json.contains("finished")) s.finished = f.Get<bool>("finished");  // not in older ones
  s.failed = f.Get<std::string>("failed");
  s.steps_left_out = f.Get<int64_t>("steps_left_out");
  s.examples_left_out = f.Get<int64_t>("examples_left_out");
  s.closures_left_out = f.Get<int64_t>("closures_left_out");
  const Fields meter = f.Sub("meter");
  s.meter.seconds = meter.Get<double>("seconds");
  s.meter.recent_loss = meter.Get<double>("recent_loss");
  s.meter.closures = meter.Get<int64_t>("closures");
  s.meter.loss_sum = meter.Get<double>("loss_sum");
  if (meter.json().contains("loss_weight")) {
    s.meter.loss_weight = meter.Get<double>("loss_weight");
  } else {  // older ones have a mean over closures
    const auto examples = static_cast<double>(s.batch_size * s.steps_per_function);
    s.meter.loss_sum *= examples;
    s.meter.loss_weight = static_cast<double>(meter.Get<int64_t>("loss_count")) * examples;
  }
  s.evaluate_seconds = f.Get<double>("evaluate_seconds");
  for (const Json& e : f.List("evaluations")) {
    if (e.is_object()) s.evaluations.push_back(ReadEvaluation(Fields(e, &error)));
  }
  if (!f.Null("best")) s.best = f.Get<double>("best");
  if (json.contains("best_of")) s.best_of = f.Get<std::string>("best_of");
  s.evaluations_without_gain = f.Get<int64_t>("evaluations_without_gain");
  s.best_file = f.Get<std::string>("best_file");
  if (json.contains("plateau")) s.plateau = ReadPlateau(f.Sub("plateau"), &error);
  if (json.contains("rate_changes")) {
    for (const Json& change : f.List("rate_changes")) {
      const Fields of(change, &error);
      const RateChange& read = s.rate_changes.emplace_back(RateChange{
          {of.Get<int64_t>("epoch"), of.Get<int64_t>("examples")}, of.Get<double>("factor")});
      if (error.empty() && !(read.factor > 0 && read.factor <= 1)) {
        error = absl::StrCat("'rate_changes.factor' is ", read.factor);
      }
    }
  }
  s.resumes = f.Get<int64_t>("resumes");
  s.counters = ReadCounters(f.Sub("counters"));
  if (error.empty() && (s.batch_size < 1 || s.steps_per_function < 1)) {
    error = "'batch_size' or 'steps_per_function' is less than 1";
  }
  // A name, not a way out of the directory.
  if (error.empty() && s.best_file.find('/') != std::string::npos) error = "'best_file' is a path";
  if (!error.empty()) return absl::InvalidArgumentError(absl::StrCat("job state: ", error));
  return s;
}

void RunTracker::AddEpoch(FollowedEpoch epoch) {
  absl::MutexLock lock(&mu_);
  sizes_.Add(epoch.examples);
  state_.followed.push_back(std::move(epoch));
}

void RunTracker::OnClosure(const Ticket& ticket,
                           const absl::StatusOr<std::vector<Tensor>>& results) {
  absl::MutexLock lock(&mu_);
  if (const auto detail = GetDetail(results.status());
      detail && detail->cause == ErrorCause::kSurplus) {
    ++surplus_;
    if (std::find(state_.returned.begin(), state_.returned.end(), ticket) ==
        state_.returned.end()) {
      state_.returned.push_back(ticket);
    }
    waiting_.push_back(ticket);
    return;
  }
  // One that was cancelled was not trained on; the job is ending then.
  if (absl::IsCancelled(results.status())) return;
  state_.position = std::max(state_.position, DataPosition{ticket.epoch, ticket.end});
  const int64_t steps = StepsOf(ticket.size());
  if (!results.ok()) {
    state_.steps_left_out += steps;
    state_.examples_left_out += ticket.size();
    ++state_.closures_left_out;
    if (first_left_out_.ok()) first_left_out_ = results.status();
    // As a loss that is no number: all that follows would fail in the same way.
    const bool not_finite = GetNotFinite(results.status()).has_value();
    if (not_finite && failure_.ok()) failure_ = results.status();
    if ((errors_end_job_ || not_finite) && state_.failed.empty()) {
      state_.failed = std::string(results.status().message());
    }
    return;
  }
  ++completed_;
  if (!state_.returned.empty()) std::erase(state_.returned, ticket);
  if (results->empty() || (*results)[0].dtype() != DType::kF32) return;
  const int64_t last_step = sizes_.StepsBefore({ticket.epoch, ticket.end});
  const bool weighed = results->size() > 1 && (*results)[1].dtype() == DType::kF32;
  const double weight = weighed ? static_cast<double>((*results)[1].template data<float>()[0])
                                : static_cast<double>(ticket.size());
  const absl::Status s =
      meter_.Add(ticket, steps, last_step, (*results)[0].template data<float>()[0], weight);
  if (s.ok() || !failure_.ok()) return;
  failure_ = s;
  state_.failed = std::string(s.message());
}

absl::Status RunTracker::failure() const {
  absl::MutexLock lock(&mu_);
  return failure_;
}

LeftOut RunTracker::left_out() const {
  absl::MutexLock lock(&mu_);
  return {state_.closures_left_out, state_.closures_left_out + completed_, first_left_out_};
}

bool RunTracker::FirstLeftOutIsNew() {
  absl::MutexLock lock(&mu_);
  return !first_left_out_.ok() && !std::exchange(told_left_out_, true);
}

double RunTracker::rate_factor() const {
  absl::MutexLock lock(&mu_);
  return state_.plateau.factor;
}

RunState RunTracker::state() const {
  absl::MutexLock lock(&mu_);
  return state_;
}

void RunTracker::SetSession(const RunCounters& counters) {
  absl::MutexLock lock(&mu_);
  session_ = counters;
}

RunCounters RunTracker::counters() const {
  absl::MutexLock lock(&mu_);
  RunCounters all = state_.counters;
  all.Add(session_);
  return all;
}

int64_t RunTracker::completed() const {
  absl::MutexLock lock(&mu_);
  return completed_;
}

int64_t RunTracker::surplus() const {
  absl::MutexLock lock(&mu_);
  return surplus_;
}

std::vector<Ticket> RunTracker::TakeReturned(int64_t most) {
  absl::MutexLock lock(&mu_);
  std::vector<Ticket> taken;
  while (!waiting_.empty() && std::ssize(taken) < most &&
         (taken.empty() || taken[0].epoch == waiting_.front().epoch)) {
    taken.push_back(waiting_.front());
    waiting_.erase(waiting_.begin());
  }
  return taken;
}

void RunTracker::GiveBack(const std::vector<Ticket>& tickets) {
  absl::MutexLock lock(&mu_);
  waiting_.insert(waiting_.begin(), tickets.begin(), tickets.end());
}

bool RunTracker::AwaitReturned(absl::Duration most) const {
  absl::MutexLock lock(&mu_);
  const auto any = +[](const std::vector<Ticket>* waiting) { return !waiting->empty(); };
  return mu_.AwaitWithTimeout(absl::Condition(any, &waiting_), most);
}

std::string RunTracker::ToJson() const {
  RunState now;
  {
    absl::MutexLock lock(&mu_);
    now = state_;
    now.counters.Add(session_);
  }
  now.meter = meter_.Save();
  return runner::ToJson(now);
}

namespace {

// Scores of something else cannot be compared with those that come. Older states do not say.
template <typename State>
bool ForgetBestUnless(const std::string& of, State* state) {
  if (!state->best || of.empty() || state->best_of.empty() || state->best_of == of) return false;
  state->best.reset();
  state->evaluations_without_gain = 0;
  return true;
}

}  // namespace

void ForgetBestValues(RunState* state) {
  state->best.reset();
  state->best_of.clear();
  state->best_file.clear();
  state->evaluations_without_gain = 0;
}

std::vector<std::string> ForgetOtherScores(const std::string& stopping, const std::string& plateau,
                                           RunState* state) {
  std::vector<std::string> notes;
  const auto note = [&](absl::string_view what, const std::string& from, const std::string& to) {
    notes.push_back(absl::StrCat(what, " begins anew: it went by ", from, ", and goes by ", to));
  };
  if (ForgetBestUnless(stopping, state)) {
    note("early stopping", state->best_of, stopping);
    state->best_file.clear();
  }
  if (ForgetBestUnless(plateau, &state->plateau)) {
    note("reduce_on_plateau", state->plateau.best_of, plateau);
  }
  return notes;
}

RunState StateToResume(RunState state, const std::vector<Ticket>& pending,
                       const EpochSizes& sizes) {
  const auto steps_of = [&](int64_t examples) {
    return (examples + state.batch_size - 1) / state.batch_size;
  };
  int64_t steps = -state.steps_left_out, examples = -state.examples_left_out;
  for (const Ticket& ticket : pending) {
    state.position = std::max(state.position, DataPosition{ticket.epoch, ticket.end});
    steps -= steps_of(ticket.size());
    examples -= ticket.size();
  }
  // One that was about to be scheduled, and is not in the checkpoint, is made of other batches now.
  std::erase_if(state.short_updates,
                [end = sizes.StepsBefore(state.position)](int64_t cut) { return cut > end; });
  state.meter.steps = sizes.StepsBefore(state.position) + steps;
  state.meter.examples = sizes.ExamplesBefore(state.position) + examples;
  ++state.resumes;
  // Where an older one does not say when, all steps that it has have the rates that it has.
  if (state.rate_changes.empty() && state.plateau.factor != 1) {
    state.rate_changes.push_back({DataPosition(), state.plateau.factor});
  }
  return state;
}

}  // namespace coxswain::runner
