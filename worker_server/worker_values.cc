// Per-worker values: functions that this worker runs once and whose results it keeps for plans.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/cluster/control.h"
#include "runtime/function/executor.h"
#include "runtime/graph/serialize.h"
#include "runtime/tensor/within_memory.h"
#include "worker_server/worker_service.h"

namespace coxswain::worker {
namespace {

// Memory of arguments. The transport may have lent its own for it, of which it has little, and
// values are kept for as long as the program likes.
class MemoryOf {
 public:
  explicit MemoryOf(const std::vector<Tensor>& tensors) {
    for (const Tensor& tensor : tensors) {
      const auto begin = reinterpret_cast<uintptr_t>(tensor.buffer().data());
      ranges_.emplace_back(begin, begin + tensor.buffer().size());
    }
  }
  bool Has(const Tensor& tensor) const {
    const auto at = reinterpret_cast<uintptr_t>(tensor.buffer().data());
    return std::any_of(ranges_.begin(), ranges_.end(), [at](const auto& range) {
      return range.first <= at && at <= range.second;  // an empty one may be at the end
    });
  }

 private:
  std::vector<std::pair<uintptr_t, uintptr_t>> ranges_;
};

Tensor CopyOf(const Tensor& tensor) {
  Tensor copy(tensor.dtype(), tensor.shape());
  if (tensor.bytes() > 0) std::memcpy(copy.mutable_raw(), tensor.raw(), tensor.bytes());
  return copy;
}

// On the pool. All workers get the same, and so does one that does it again: what is random depends
// on the id alone.
absl::StatusOr<std::vector<Tensor>> Run(graph::Function function, std::vector<Tensor> arguments,
                                        ValuesId id, env::ComputePool* pool) {
  function.device = DeviceChoice::kCpu;
  ASSIGN_OR_RETURN(const auto compiled, function::CompiledFunction::Compile(std::move(function)));
  if (compiled->has_ps_calls()) {
    return absl::InvalidArgumentError(
        "it reads or updates variables; per-worker values are made of arguments and constants");
  }
  function::RunOptions options;
  options.step.seed = id;
  options.pool = pool;
  const MemoryOf lent(arguments);
  ASSIGN_OR_RETURN(std::vector<Tensor> results, compiled->Run(std::move(arguments), options));
  for (Tensor& result : results) {  // some may be arguments, or parts of them
    if (lent.Has(result)) result = CopyOf(result);
  }
  return results;
}

}  // namespace

void WorkerService::AddValues(const proto::RegisterValues& request, const net::Message& message,
                              Reply reply) {
  const ValuesId id = request.values();
  HeldValues& values = values_[id];
  if (values.results != nullptr) {
    ReplyStatus(reply, absl::OkStatus());
    return;
  }
  values.replies.push_back(std::move(reply));
  if (values.run != 0 && values.running) return;
  auto token = tasks_.Start();
  if (!token) return;  // this worker ends
  values.run = ++last_load_;
  values.running = true;
  values.status = absl::OkStatus();
  const SessionId session = gate().session();
  absl::StatusOr<graph::Function> function = graph::FromProto(request.function(), registry_);
  absl::StatusOr<std::vector<Tensor>> arguments =
      cluster::PayloadTensors(message, request.arguments());
  if (!function.ok() || !arguments.ok()) {
    OnValues(session, id, values.run, function.ok() ? arguments.status() : function.status());
    return;
  }
  env()->pool()->Schedule([this, session, id, run = values.run, function = *std::move(function),
                           arguments = *std::move(arguments), token = std::move(token)]() mutable {
    const std::string name = function.name;
    auto results = WithinMemory(
        [&] { return Run(std::move(function), std::move(arguments), id, env()->pool()); });
    if (!results.ok()) {
      results = Annotate(results.status(), absl::StrCat("per-worker values of '", name, "'"));
    }
    loop()->Post(
        [this, session, id, run, results = std::move(results), token = std::move(token)]() mutable {
          OnValues(session, id, run, std::move(results));
        });
  });
}

void WorkerService::OnValues(SessionId session, ValuesId id, uint64_t run,
                             absl::StatusOr<std::vector<Tensor>> results) {
  loop()->AssertOnLoop();
  const auto it = values_.find(id);
  if (!gate().Check(session).ok() || it == values_.end()) return;  // released, or a session is over
  HeldValues& values = it->second;
  if (values.run != run) return;  // of an earlier session
  values.running = false;
  if (results.ok()) {
    values.results = std::make_shared<const std::vector<Tensor>>(*std::move(results));
  } else {
    values.status = Annotate(results.status(), TaskName());
    if (!GetDetail(values.status)) {
      values.status =
          WithDetail(values.status, {ErrorCause::kApplication, false, TaskName(), incarnation()});
    }
  }
  const std::vector<Reply> replies = std::exchange(values.replies, {});
  std::vector<function::ClosureRequest> waiting = std::exchange(values.waiting, {});
  const absl::Status status = values.status;
  for (const Reply& reply : replies) ReplyStatus(reply, status);
  for (function::ClosureRequest& request : waiting) RunClosure(std::move(request));
}

void WorkerService::ReleaseValues(ValuesId id) {
  auto released = values_.extract(id);
  if (released.empty()) return;
  // A coordinator that releases them waits for neither; whoever does hears why.
  const absl::Status status =
      WithDetail(absl::CancelledError(absl::StrCat("per-worker values ", id, " were released")),
                 {ErrorCause::kCancelled, false, TaskName(), 0});
  for (const Reply& reply : released.mapped().replies) ReplyStatus(reply, status);
  for (const function::ClosureRequest& request : released.mapped().waiting) {
    Refuse(request, status);
  }
}

bool WorkerService::TakeValues(function::ClosureRequest* request, ValuesOfPlan* values) {
  const auto plan = plans_.find(request->plan);
  if (plan == plans_.end()) return true;  // Launch says so
  for (const ValuesId id : plan->second->values) {
    const auto it = values_.find(id);
    if (it == values_.end()) {
      Refuse(*request, absl::NotFoundError(absl::StrCat("no per-worker values ", id)));
      return false;
    }
    if (it->second.running) {
      it->second.waiting.push_back(std::move(*request));
      return false;
    }
    if (!it->second.status.ok()) {
      Refuse(*request, it->second.status);
      return false;
    }
    values->emplace(id, it->second.results);
  }
  return true;
}

}  // namespace coxswain::worker
