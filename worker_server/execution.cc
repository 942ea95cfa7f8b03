#include "worker_server/execution.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain {
namespace {

// A component with no more kernels than this, no data and no PS runs in the thread that brought it:
// to wake another one would take longer.
constexpr int kTrivialKernels = 4;

}  // namespace

Execution::Execution(ClosureRequest request, std::shared_ptr<const WorkerPlan> plan,
                     std::shared_ptr<const Dataset> data,
                     std::vector<std::shared_ptr<PsChannel>> channels, std::string task,
                     ComputePool* pool, Done done)
    : request_(std::move(request)),
      plan_(std::move(plan)),
      data_(std::move(data)),
      channels_(std::move(channels)),
      task_(std::move(task)),
      pool_(pool),
      done_(std::move(done)) {}

void Execution::Start() {
  if (data_ == nullptr && !plan_->component->has_ps_calls() && request_.steps <= 1 &&
      plan_->component->kernel_count() <= kTrivialKernels) {
    RunStep();
    return;
  }
  pool_->Schedule([self = shared_from_this()] { self->RunStep(); });
}

void Execution::RunStep() {
  if (cancelled_.load(std::memory_order_relaxed)) {
    Finish(WithDetail(absl::CancelledError("cancelled"), {ErrorCause::kCancelled, false, task_, 0}),
           {});
    return;
  }
  auto arguments = Arguments();
  if (!arguments.ok()) {
    Finish(arguments.status(), {});
    return;
  }
  RunOptions options;
  options.step = {request_.epoch, request_.closure, step_, request_.seed};
  options.pool = pool_;
  CompiledFunction::RunAsync(
      plan_->component, *std::move(arguments), options, this,
      [self = shared_from_this()](absl::StatusOr<std::vector<Tensor>> results) {
        self->OnStepDone(std::move(results));
      });
}

absl::StatusOr<std::vector<Tensor>> Execution::Arguments() const {
  Batch batch;
  const std::vector<ColumnSpec>* columns = nullptr;
  if (data_ != nullptr) {
    Ticket ticket = request_.ticket;
    const int64_t size = ticket.size(), steps = request_.steps;
    ticket.begin = request_.ticket.begin + size * step_ / steps;
    ticket.end = request_.ticket.begin + size * (step_ + 1) / steps;
    ASSIGN_OR_RETURN(batch, data_->Read(ticket));
    columns = &data_->columns(ticket.part);
  }
  size_t wanted = 0;
  for (const proto::ArgumentSource& source : plan_->sources) {
    if (source.column().empty()) wanted = std::max(wanted, size_t{1} + source.argument());
  }
  if (request_.arguments.size() != wanted) {
    return absl::InvalidArgumentError(absl::StrCat("function '", plan_->component->function().name,
                                                   "': wanted ", wanted, " arguments, found ",
                                                   request_.arguments.size()));
  }
  std::vector<Tensor> arguments;
  arguments.reserve(plan_->sources.size());
  for (const proto::ArgumentSource& source : plan_->sources) {
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

void Execution::Call(const PsCallTarget& target, std::vector<Tensor> inputs, PsCaller::Done done) {
  if (target.ps < 0 || target.ps >= static_cast<int>(channels_.size())) {
    done(absl::InternalError(
        absl::StrCat("the plan names ps:", target.ps, " of ", channels_.size())));
    return;
  }
  SegmentRequest frame;
  frame.epoch = request_.epoch;
  frame.closure = request_.closure;
  frame.plan = plan_->id;
  frame.attempt = request_.attempt;
  frame.step = step_;
  frame.segment = static_cast<uint32_t>(target.segment);
  frame.seed = request_.seed;
  frame.tensors = std::move(inputs);
  channels_[target.ps]->Call(std::move(frame), std::move(done));
}

void Execution::OnStepDone(absl::StatusOr<std::vector<Tensor>> results) {
  if (!results.ok()) {
    Finish(results.status(), {});
    return;
  }
  ++step_;
  if (step_ >= request_.steps) {
    Finish(absl::OkStatus(), *std::move(results));
    return;
  }
  pool_->Schedule([self = shared_from_this()] { self->RunStep(); });
}

void Execution::Finish(absl::Status status, std::vector<Tensor> results) {
  if (!status.ok() && !GetDetail(status)) {
    status = WithDetail(std::move(status), {ErrorCause::kApplication, false, task_, 0});
  }
  ClosureReply reply;
  reply.epoch = request_.epoch;
  reply.closure = request_.closure;
  reply.attempt = request_.attempt;
  reply.steps_done = step_;
  reply.status = std::move(status);
  reply.results = std::move(results);
  std::exchange(done_, nullptr)(std::move(reply));
}

}  // namespace coxswain
