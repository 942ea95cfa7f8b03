// The stages of an attempt: the start, each step with its arguments and calls to PS, the end of a
// step, and reports.
#include "worker_server/execution.h"

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "runtime/base/not_finite.h"
#include "runtime/base/status.h"
#include "runtime/device/device_runtime.h"
#include "runtime/tensor/within_memory.h"
#include "worker_server/blame.h"

namespace coxswain::worker {
namespace {

// A component with at most this many kernels, no data and no PS runs in the thread that received
// it, if it is quick: waking another thread would take longer.
constexpr int kTrivialKernels = 4;

}  // namespace

const std::shared_ptr<const function::CompiledFunction>& WorkerPlan::LeastBusy() const {
  if (components.size() == 1) return components.front();
  // Of the devices that a component uses, the one with the most runs counts.
  const auto load = [](const function::CompiledFunction& component) {
    int runs = 0;
    for (const auto& device : component.devices()) {
      runs = std::max(runs, device->borrowed_streams());
    }
    return runs;
  };
  size_t best = turn.fetch_add(1, std::memory_order_relaxed) % components.size();
  for (size_t i = 1, first = best; i < components.size(); ++i) {
    const size_t at = (first + i) % components.size();
    if (load(*components[at]) < load(*components[best])) best = at;
  }
  return components[best];
}

Execution::Execution(function::ClosureRequest request, env::Env* env, Options options)
    : request_(std::move(request)),
      env_(env),
      options_(std::move(options)),
      step_(request_.first_step),
      working_(options_.channels.size(), 0),
      last_report_(env->Monotonic()) {}

void Execution::Start() {
  if (tracing()) started_ = options_.trace->Now();
  if (IsWaitedFor()) BeginInStep();
  if (request_.sync && request_.sync.free) BeginFree();
  if (!IsAlone()) {
    ScheduleStep();
  } else if (options_.plan->pace.expected() <= kBorrowedTime) {
    RunAlone();
  } else {
    env_->pool()->ScheduleFirst([self = shared_from_this()] { self->RunAlone(); });
  }
}

// Whether the component is a few kernels that run from beginning to end in one thread.
bool Execution::IsAlone() const {
  const function::CompiledFunction& component = options_.plan->any();
  return options_.data == nullptr && !component.has_ps_calls() && component.devices().empty() &&
         request_.steps <= 1 && component.kernel_count() <= kTrivialKernels;
}

void Execution::RunAlone() {
  const absl::Duration began = env_->Monotonic();
  const std::shared_ptr<const WorkerPlan> plan = options_.plan;
  RunStep();
  plan->pace.Add(env_->Monotonic() - began);
}

// Runs before the computations of other steps: it is short, and the others compute while its rows
// are fetched.
void Execution::ScheduleStep() {
  BeginStart();
  env_->pool()->ScheduleFirst([self = shared_from_this()] {
    self->RunStep();
    self->EndStart();
  });
}

void Execution::BeginInStep() {
  in_step_ = true;
  for (const size_t ps : Servers()) {
    if (options_.channels[ps] != nullptr) options_.channels[ps]->BeginInStep(request_.sync.first);
  }
}

void Execution::EndInStep() {
  if (!std::exchange(in_step_, false)) return;
  for (const size_t ps : Servers()) {
    if (options_.channels[ps] != nullptr) options_.channels[ps]->EndInStep(request_.sync.first);
  }
}

void Execution::BeginFree() {
  coming_.assign(options_.channels.size(), 0);
  for (const size_t ps : Servers()) {
    if (options_.channels[ps] == nullptr) continue;
    options_.channels[ps]->BeginFree();
    coming_[ps] = 1;
  }
}

void Execution::EndFree() {
  if (coming_.empty()) return;
  for (const size_t ps : Servers()) {
    if (options_.channels[ps] == nullptr) continue;
    if (coming_[ps] != 0) options_.channels[ps]->EndFrames();
    options_.channels[ps]->EndFree();
  }
  coming_.clear();
}

std::vector<size_t> Execution::Servers() const {
  const std::vector<int>& calls = options_.plan->ps_calls;
  std::vector<size_t> servers;
  for (size_t ps = 0; ps < calls.size() && ps < options_.channels.size(); ++ps) {
    if (calls[ps] > 0) servers.push_back(ps);
  }
  return servers;
}

void Execution::BeginStart() {
  for (const auto& channel : options_.channels) {
    if (channel != nullptr) channel->BeginStart();
  }
}

void Execution::EndStart() {
  for (const auto& channel : options_.channels) {
    if (channel != nullptr) channel->EndStart();
  }
}

void Execution::RunStep() {
  if (cancelled_.load(std::memory_order_relaxed)) {
    Finish(Cancelled(absl::CancelledError("cancelled")), {});
    return;
  }
  if (tracing()) step_started_ = options_.trace->Now();
  auto arguments = Arguments();
  if (!arguments.ok()) {
    Finish(arguments.status(), {});
    return;
  }
  function::RunOptions options;
  options.step = {request_.session, request_.closure, step_, request_.seed};
  options.pool = env_->pool();
  options.trace = options_.trace;
  // What synchronous steps add up is added up on the host.
  options.exchanges_on_gpu = options_.ps_in_process && !request_.sync;
  // What a synchronous step with backups does without is dropped wherever it is, so its computation
  // may end in the middle. Others go on to their end: parts of them may be applied.
  if (request_.sync.backup > 0) options.cancelled = &cancelled_;
  function::CompiledFunction::RunAsync(
      options_.plan->LeastBusy(), *std::move(arguments), options, this,
      [self = shared_from_this()](absl::StatusOr<std::vector<Tensor>> results) {
        self->OnStepDone(std::move(results));
      });
}

absl::Status Execution::Cancelled(const absl::Status& status) const {
  return WithDetail(status, {ErrorCause::kCancelled, false, options_.task, 0});
}

Ticket Execution::StepTicket() const {
  Ticket ticket = request_.ticket;
  const int64_t size = ticket.size(), steps = request_.steps;
  ticket.begin = request_.ticket.begin + size * step_ / steps;
  ticket.end = request_.ticket.begin + size * (step_ + 1) / steps;
  return ticket;
}

absl::StatusOr<std::vector<Tensor>> Execution::Arguments() const {
  return WithinMemory([this] { return ReadArguments(); });
}

absl::StatusOr<std::vector<Tensor>> Execution::ReadArguments() const {
  data::Batch batch;
  const std::vector<data::ColumnSpec>* columns = nullptr;
  if (options_.data != nullptr) {
    const Ticket ticket = StepTicket();
    const trace::TraceScope input(options_.trace, trace::SpanKind::kInput, request_.closure, step_);
    ASSIGN_OR_RETURN(
        batch, options_.data->Read(ticket, request_.ahead.size() > 0 ? &request_.ahead : nullptr));
    RETURN_IF_ERROR(options_.data->LeaveOutNegatives(ticket, &batch));
    columns = &options_.data->columns(ticket.part);
  }
  size_t wanted = 0;
  for (const proto::ArgumentSource& source : options_.plan->sources) {
    if (source.values() != 0 || !source.column().empty()) continue;
    wanted = std::max(wanted, size_t{1} + source.argument());
  }
  if (request_.arguments.size() != wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat("function '", options_.plan->any().function().name, "': wanted ", wanted,
                     " arguments, found ", request_.arguments.size()));
  }
  std::vector<Tensor> arguments;
  arguments.reserve(options_.plan->sources.size());
  for (const proto::ArgumentSource& source : options_.plan->sources) {
    if (source.values() != 0) {
      ASSIGN_OR_RETURN(Tensor value, Value(source));
      arguments.push_back(std::move(value));
      continue;
    }
    if (source.column().empty()) {
      arguments.push_back(request_.arguments[static_cast<size_t>(source.argument())]);
      continue;
    }
    size_t column = 0;
    const size_t count = columns == nullptr ? 0 : columns->size();
    while (column < count && (*columns)[column].name != source.column()) ++column;
    if (column == count) {
      return absl::InvalidArgumentError(
          absl::StrCat("the batch has no column '", source.column(), "'"));
    }
    arguments.push_back(batch[column]);
  }
  return arguments;
}

absl::StatusOr<Tensor> Execution::Value(const proto::ArgumentSource& source) const {
  const std::vector<Tensor>& results = *options_.values.at(source.values());
  const auto result = static_cast<size_t>(source.result());
  if (result < results.size()) return results[result];
  return absl::InvalidArgumentError(
      absl::StrCat("function '", options_.plan->any().function().name, "': wanted result ", result,
                   " of per-worker values ", source.values(), ", which have ", results.size()));
}

function::SegmentRequest Execution::NewFrame(uint32_t segment) const {
  function::SegmentRequest frame;
  frame.session = request_.session;
  frame.closure = request_.closure;
  frame.plan = options_.plan->id;
  frame.attempt = request_.attempt;
  frame.step = step_;
  frame.segment = segment;
  frame.seed = request_.seed;
  frame.sync = request_.sync;
  return frame;
}

void Execution::Call(const function::PsCallTarget& target, std::vector<Tensor> inputs,
                     function::PsCaller::Done done) {
  if (target.ps < 0 || target.ps >= static_cast<int>(options_.channels.size())) {
    done(absl::InternalError(
        absl::StrCat("the plan names ps:", target.ps, " of ", options_.channels.size())));
    return;
  }
  PsChannel* const channel = options_.channels[target.ps].get();
  if (channel == nullptr) {
    const std::string ps = absl::StrCat("/job:ps/task:", target.ps);
    done(WithDetail(absl::UnavailableError(absl::StrCat(ps, " is not there")),
                    {ErrorCause::kTaskLost, true, ps, 0}));
    return;
  }
  function::SegmentRequest frame = NewFrame(static_cast<uint32_t>(target.segment));
  frame.rows_on = target.rows_on;
  frame.tensors = std::move(inputs);
  if (tracing()) {
    done = [trace = options_.trace, start = options_.trace->Now(), closure = request_.closure,
            step = step_, ps = static_cast<uint32_t>(target.ps),
            done = std::move(done)](absl::StatusOr<std::vector<Tensor>> reply) mutable {
      trace->Record(trace::SpanKind::kPsCall, start, trace->Now(), closure, step, ps);
      done(std::move(reply));
    };
  }
  const size_t at = static_cast<size_t>(target.ps);
  const bool first = target.segment == 0;
  if (request_.sync && !request_.sync.free) {
    channel->Call(std::move(frame), std::move(done),
                  first ? PsChannel::Travel::kFollows : PsChannel::Travel::kAlone);
    return;
  }
  if (first && options_.plan->ps_calls[at] > 1) {
    done = [self = shared_from_this(), channel, at,
            done = std::move(done)](absl::StatusOr<std::vector<Tensor>> reply) mutable {
      if (reply.ok()) {
        channel->BeginWork();
        self->working_[at] = 1;
      }
      done(std::move(reply));
    };
  }
  // The last frame of a step takes along frames that wait for it.
  const bool last = target.segment + 1 >= options_.plan->ps_calls[at];
  const bool ends_work = working_[at] != 0 && last;
  if (ends_work) working_[at] = 0;
  // Before the call, because its answer may end this attempt.
  if (last && at < coming_.size() && std::exchange(coming_[at], 0) != 0) channel->BeginLastFrame();
  channel->Call(std::move(frame), std::move(done),
                first       ? PsChannel::Travel::kFirst
                : ends_work ? PsChannel::Travel::kEndsWork
                            : PsChannel::Travel::kAtOnce);
}

void Execution::EndWork() {
  for (size_t ps = 0; ps < working_.size(); ++ps) {
    if (std::exchange(working_[ps], 0) != 0) options_.channels[ps]->EndWork();
  }
}

void Execution::OnStepDone(absl::StatusOr<std::vector<Tensor>> results) {
  Trace(trace::SpanKind::kStep, &step_started_);
  EndWork();
  if (!results.ok()) {
    OnStepFailed(results.status());
    return;
  }
  // Of a step with backups the coordinator says which closures it takes.
  if (request_.sync && request_.sync.backup == 0) {
    TellHeld(*std::move(results));
    return;
  }
  ++step_;
  env_->FaultPoint("worker.step.applied");
  if (step_ >= request_.steps) {
    Finish(absl::OkStatus(), *std::move(results));
    return;
  }
  if (const absl::Duration now = env_->Monotonic(); now - last_report_ >= kProgressInterval) {
    last_report_ = now;
    options_.progress(Report());
  }
  ScheduleStep();
}

void Execution::OnStepFailed(const absl::Status& status) {
  const bool gave_up =
      cancelled_.load(std::memory_order_relaxed) && absl::IsCancelled(status) && !GetDetail(status);
  if (gave_up) {
    Finish(Cancelled(status), {});
  } else if (device::IsDeviceLost(status)) {
    options_.device_lost(status);
    Finish(WithDetail(status, {ErrorCause::kTaskLost, true, options_.task, 0}), {});
  } else if (GetNotFinite(status)) {
    // The examples are read again, from files perhaps: nothing for a thread that brings replies.
    env_->pool()->Schedule(
        [self = shared_from_this(), status] { self->Finish(self->Blamed(status), {}); });
  } else {
    Finish(status, {});
  }
}

namespace {

// The replies of the parameter servers to TellHeld; the last one ends the closure.
struct Told {
  absl::Mutex mu;
  size_t left ABSL_GUARDED_BY(mu) = 0;
  absl::Status status ABSL_GUARDED_BY(mu);
  std::vector<Tensor> results;
};

}  // namespace

void Execution::TellHeld(std::vector<Tensor> results) {
  env_->FaultPoint("worker.step.applied");
  const std::vector<size_t> servers = Servers();
  if (servers.empty()) {
    Finish(absl::OkStatus(), std::move(results));
    return;
  }
  auto told = std::make_shared<Told>();
  told->results = std::move(results);
  {
    absl::MutexLock lock(&told->mu);
    told->left = servers.size();
  }
  // Whoever waits for this closure goes with its confirmation.
  const auto travel = std::exchange(in_step_, false) ? PsChannel::Travel::kConfirms
                      : request_.sync.free           ? PsChannel::Travel::kRides
                                                     : PsChannel::Travel::kAlone;
  for (const size_t ps : servers) {
    // The channel exists, because the PS has answered.
    options_.channels[ps]->Call(
        NewFrame(function::SegmentRequest::kHeldEverywhere),
        [self = shared_from_this(), told](const absl::StatusOr<std::vector<Tensor>>& reply) {
          absl::Status status;
          {
            absl::MutexLock lock(&told->mu);
            told->status.Update(reply.status());
            if (--told->left > 0) return;
            status = told->status;
          }
          if (status.ok()) ++self->step_;
          self->Finish(status, status.ok() ? std::move(told->results) : std::vector<Tensor>());
        },
        travel);
  }
}

absl::Status Execution::Blamed(const absl::Status& status) const {
  const auto arguments = Arguments();
  if (!arguments.ok()) return status;
  return NameExamples(status,
                      {options_.plan->any().function(), options_.plan->sources, *arguments,
                       options_.data.get(), options_.data == nullptr ? Ticket() : StepTicket()});
}

void Execution::Trace(trace::SpanKind kind, absl::Duration* since) {
  if (*since == absl::ZeroDuration()) return;
  options_.trace->Record(kind, *since, options_.trace->Now(), request_.closure, step_);
  *since = absl::ZeroDuration();
}

function::ClosureReply Execution::Report() const {
  function::ClosureReply reply;
  reply.session = request_.session;
  reply.closure = request_.closure;
  reply.attempt = request_.attempt;
  reply.steps_done = step_;
  return reply;
}

void Execution::Finish(absl::Status status, std::vector<Tensor> results) {
  if (!status.ok() && !GetDetail(status)) {
    status = WithDetail(std::move(status), {ErrorCause::kApplication, false, options_.task, 0});
  }
  EndInStep();
  EndFree();
  Trace(trace::SpanKind::kStep, &step_started_);
  Trace(trace::SpanKind::kClosure, &started_);
  function::ClosureReply reply = Report();
  reply.status = std::move(status);
  reply.results = std::move(results);
  std::exchange(options_.done, nullptr)(std::move(reply));
}

}  // namespace coxswain::worker
