#include "coordinator/core/controller.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "coordinator/core/gather.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/cluster/control.h"
#include "runtime/graph/serialize.h"

namespace coxswain {
namespace {

// A closure that failed because its worker cannot reach a PS is tried again after this.
constexpr absl::Duration kRetryDelay = absl::Milliseconds(50);
constexpr absl::Duration kSetupRetryDelay = absl::Seconds(1);
// So often: long enough for a lost PS to be noticed by its lease, then it is an error.
constexpr int kMostUnreachable = 200;

// How long a daemon has to take note that the session is over; later its lease ends it.
constexpr absl::Duration kGoodbyeTimeout = absl::Milliseconds(500);

bool IsPsTask(absl::string_view task) { return absl::StartsWith(task, "/job:ps/"); }

}  // namespace

// The epoch grows with every coordinator that starts, on this machine or another with a sane clock.
Controller::Controller(Env* env, Transport* transport, ControllerOptions options)
    : env_(env),
      transport_(transport),
      options_(std::move(options)),
      epoch_(static_cast<Epoch>(absl::ToUnixMicros(env->Now()))),
      loop_(env->NewLoop()),
      worker_ready_(options_.workers.size(), false),
      dispatcher_(std::max(1, options_.in_flight)) {}

Controller::~Controller() {
  auto said = std::make_shared<absl::Notification>();
  loop_->Post([this, said] {
    ending_ = true;
    FailAll(absl::CancelledError("the coordinator ends"));
    auto gather = NewStatusGather([said](absl::Status) { said->Notify(); });
    for (auto* tasks : {&workers_, &ps_}) {
      for (auto& session : *tasks) {
        proto::ControlRequest goodbye;
        goodbye.mutable_end_session();
        session->Request(goodbye, {}, gather->Add<TaskSession::Response>());
      }
    }
    gather->Finish();
  });
  said->WaitForNotificationWithTimeout(kGoodbyeTimeout);
  absl::Notification stopped;
  loop_->Post([this, &stopped] {
    alive_.reset();
    for (auto* tasks : {&workers_, &ps_}) {
      for (auto& session : *tasks) session->Stop();
    }
    stopped.Notify();
  });
  stopped.WaitForNotification();  // tasks of the loop do not block
}

void Controller::PostAfter(absl::Duration delay, std::function<void()> task) {
  loop_->PostAfter(delay, [alive = std::weak_ptr<bool>(alive_), task = std::move(task)] {
    if (!alive.expired()) task();
  });
}

void Controller::Start(DoneFn done) {
  loop_->Post([this, done = std::move(done)]() mutable {
    start_done_ = std::move(done);
    start_time_ = env_->Monotonic();
    Connect();
    PostAfter(options_.straggler_timeout, [this] { CheckStarted(/*timed_out=*/false); });
    PostAfter(options_.connect_timeout, [this] { CheckStarted(/*timed_out=*/true); });
  });
}

void Controller::Connect() {
  for (int p = 0; p < num_ps(); ++p) ps_.push_back(NewSession("ps", p, options_.ps[p]));
  for (int w = 0; w < num_workers(); ++w) {
    workers_.push_back(NewSession("worker", w, options_.workers[w]));
  }
  for (auto& session : ps_) session->Start();
  for (auto& session : workers_) session->Start();
}

std::shared_ptr<TaskSession> Controller::NewSession(const std::string& job, int task,
                                                    const std::string& address) {
  TaskSession::Options options;
  options.job = job;
  options.task = task;
  options.address = address;
  options.epoch = epoch_;
  options.coordinator_name = options_.name;
  options.lease = options_.lease;
  TaskSession::Events events;
  const bool is_ps = job == "ps";
  events.on_up = [this, is_ps, task] { is_ps ? OnPsUp(task) : OnWorkerUp(task); };
  events.on_down = [this, is_ps, task](absl::Status s) {
    if (ending_) return;
    is_ps ? OnPsDown(task, s) : OnWorkerDown(task, s);
  };
  events.on_refused = [this, name = absl::StrCat("/job:", job, "/task:", task)](absl::Status s) {
    OnRefused(name, std::move(s));
  };
  events.on_data = [this, is_ps, task](Message m) {
    if (!is_ps) OnWorkerData(task, std::move(m));
  };
  events.low_water = [this] { return dispatcher_.low_water(); };
  return std::make_shared<TaskSession>(env_, loop_, transport_, std::move(options),
                                       std::move(events));
}

bool Controller::AllPsUp() const {
  return std::all_of(ps_.begin(), ps_.end(), [](const auto& s) { return s->up(); });
}

void Controller::OnPsUp(int ps) {
  refusals_.erase(ps_[ps]->name());
  if (started_) {
    // The same PS after a broken connection would still have its shards, but what it missed
    // meanwhile is not known here; OnPsDown has ended the job.
    LogInfo(ps_[ps]->name(), " is back");
    return;
  }
  if (!AllPsUp()) return;
  for (auto& worker : workers_) {
    if (worker->up()) SetUpWorker(worker->task());
  }
  CheckStarted(false);
}

void Controller::OnPsDown(int ps, const absl::Status& status) {
  if (!started_) {
    LogWarning("lost ", ps_[ps]->name(), ": ", status.message());
    return;
  }
  FailAll(Annotate(status, "the job ends: a parameter server is lost, and its rows with it"));
}

void Controller::OnWorkerUp(int worker) {
  refusals_.erase(workers_[worker]->name());
  if (AllPsUp()) SetUpWorker(worker);
}

// Brings a worker, new or returned, to where the others are. Requests are answered in order, so the
// last answer means that all is there.
void Controller::SetUpWorker(int worker) {
  auto& session = workers_[worker];
  struct Progress {
    int left = 0;
    absl::Status status;
  };
  auto progress = std::make_shared<Progress>();
  progress->left = 1 + static_cast<int>(datasets_.size() + plans_.size());
  const Incarnation incarnation = session->incarnation();
  auto answered = [this, worker, progress,
                   incarnation](absl::StatusOr<TaskSession::Response> response) {
    if (progress->status.ok() && !response.ok()) progress->status = response.status();
    if (--progress->left > 0) return;
    if (!workers_[worker]->up() || workers_[worker]->incarnation() != incarnation) return;
    if (progress->status.ok()) {
      OnWorkerReady(worker);
    } else {
      LogWarning(workers_[worker]->name(), " cannot be set up: ", progress->status.message());
      refusals_[workers_[worker]->name()] = progress->status;
      // What was wrong may pass: its way to a PS, a file that is not there yet.
      PostAfter(kSetupRetryDelay, [this, worker, incarnation] {
        if (workers_[worker]->up() && workers_[worker]->incarnation() == incarnation &&
            !worker_ready_[worker] && AllPsUp()) {
          SetUpWorker(worker);
        }
      });
    }
  };
  proto::ControlRequest setup;
  for (auto& p : ps_) {
    setup.mutable_setup_worker()->add_ps_addresses(p->address());
    setup.mutable_setup_worker()->add_ps_incarnations(p->incarnation());
  }
  setup.mutable_setup_worker();
  session->Request(std::move(setup), {}, answered);
  for (const auto& [id, spec] : datasets_) {
    proto::ControlRequest request;
    request.mutable_register_dataset()->set_dataset(id);
    *request.mutable_register_dataset()->mutable_spec() = spec;
    session->Request(std::move(request), {}, answered);
  }
  for (const auto& [id, plan] : plans_) {
    proto::ControlRequest request;
    *request.mutable_register_plan() = plan.for_worker;
    session->Request(std::move(request), {}, answered);
  }
}

void Controller::OnWorkerReady(int worker) {
  worker_ready_[worker] = true;
  dispatcher_.AddWorker(worker);
  if (started_) LogInfo(workers_[worker]->name(), " joins");
  CheckStarted(false);
  Dispatch();
}

void Controller::OnWorkerDown(int worker, const absl::Status& status) {
  worker_ready_[worker] = false;
  const int closures = dispatcher_.RemoveWorker(worker);
  LogWarning("lost ", workers_[worker]->name(), ", its ", closures,
             " closures run elsewhere: ", status.message());
  Dispatch();
}

void Controller::OnRefused(const std::string& task, absl::Status status) {
  refusals_[task] = std::move(status);
  // A live coordinator holds the cluster: its lease has been given time to run out.
  const auto detail = GetDetail(refusals_[task]);
  if (start_done_ && detail && detail->cause == ErrorCause::kClusterHeld &&
      env_->Monotonic() - start_time_ > options_.lease + absl::Seconds(1)) {
    FinishStart(refusals_[task]);
  }
}

void Controller::CheckStarted(bool timed_out) {
  if (!start_done_) return;
  const int ready = dispatcher_.workers();
  const bool waited = env_->Monotonic() - start_time_ >= options_.straggler_timeout;
  if (AllPsUp() && (ready == num_workers() || (ready > 0 && waited))) {
    for (auto& w : workers_) {
      if (!worker_ready_[w->task()]) LogWarning("starting without ", w->name());
    }
    FinishStart(absl::OkStatus());
  } else if (timed_out) {
    FinishStart(Unreachable());
  }
}

absl::Status Controller::Unreachable() const {
  std::vector<std::string> missing;
  for (const auto* tasks : {&ps_, &workers_}) {
    for (const auto& session : *tasks) {
      const bool there = session->job() == "ps" ? session->up() : worker_ready_[session->task()];
      if (there) continue;
      const auto it = refusals_.find(session->name());
      missing.push_back(it == refusals_.end() ? absl::StrCat(session->name(), " at ",
                                                             session->address(), ": no answer")
                                              : std::string(it->second.message()));
    }
  }
  return WithDetail(
      absl::UnavailableError(absl::StrCat("the cluster could not be reached within ",
                                          absl::FormatDuration(options_.connect_timeout), ": ",
                                          absl::StrJoin(missing, "; "))),
      {ErrorCause::kUnreachable, true, "", 0});
}

void Controller::FinishStart(absl::Status status) {
  started_ = status.ok();
  DoneFn done = std::exchange(start_done_, nullptr);
  done(std::move(status));
}

void Controller::FailAll(const absl::Status& status) {
  if (failed_.ok()) failed_ = status;
  dispatcher_.CancelAll();
  auto closures = std::exchange(closures_, {});
  for (auto& [id, closure] : closures) closure.done(status);
}

void Controller::CreateShards(std::vector<proto::ShardSpec> shards, DoneFn done) {
  loop_->Post([this, shards = std::move(shards), done = std::move(done)]() mutable {
    std::vector<proto::ControlRequest> requests(ps_.size());
    for (proto::ShardSpec& shard : shards) {
      const int ps = shard.ps();
      *requests[ps].mutable_create_shards()->add_shards() = std::move(shard);
    }
    auto gather = NewStatusGather(std::move(done));
    for (size_t p = 0; p < ps_.size(); ++p) {
      if (requests[p].has_create_shards()) {
        ps_[p]->Request(std::move(requests[p]), {}, gather->Add<TaskSession::Response>());
      }
    }
    gather->Finish();
  });
}

void Controller::RegisterPlan(PlanId id, std::shared_ptr<const Partition> partition,
                              std::vector<proto::ArgumentSource> sources, DatasetId dataset,
                              DoneFn done) {
  loop_->Post([this, id, partition = std::move(partition), sources = std::move(sources), dataset,
               done = std::move(done)]() mutable {
    auto gather = NewStatusGather(std::move(done));
    for (size_t p = 0; p < ps_.size(); ++p) {
      if (partition->segments[p].empty()) continue;
      proto::ControlRequest request;
      request.mutable_register_plan()->set_plan(id);
      for (const Function& segment : partition->segments[p]) {
        *request.mutable_register_plan()->add_segments() = ToProto(segment);
      }
      ps_[p]->Request(std::move(request), {}, gather->Add<TaskSession::Response>());
    }
    Plan plan;
    plan.for_worker.set_plan(id);
    *plan.for_worker.mutable_worker() = ToProto(partition->worker);
    for (auto& source : sources) *plan.for_worker.add_sources() = std::move(source);
    plan.for_worker.set_dataset(dataset);
    for (auto& worker : workers_) {
      if (!worker->up()) continue;
      proto::ControlRequest request;
      *request.mutable_register_plan() = plan.for_worker;
      // A worker that goes away meanwhile is no error: it is set up when it returns.
      worker->Request(std::move(request), {}, gather->AddUnlessLost<TaskSession::Response>());
    }
    plans_.emplace_back(id, std::move(plan));
    gather->Finish();
  });
}

void Controller::RegisterDataset(DatasetId id, proto::DatasetSpec spec,
                                 std::function<void(absl::StatusOr<WorkerDataset>)> done) {
  loop_->Post([this, id, spec = std::move(spec), done = std::move(done)]() mutable {
    auto result = std::make_shared<WorkerDataset>();
    auto gather = NewStatusGather([result, done = std::move(done)](absl::Status status) {
      if (status.ok()) {
        done(*result);
      } else {
        done(status);
      }
    });
    datasets_.emplace_back(id, spec);
    for (auto& worker : workers_) {
      if (!worker->up()) continue;
      proto::ControlRequest request;
      request.mutable_register_dataset()->set_dataset(id);
      *request.mutable_register_dataset()->mutable_spec() = spec;
      worker->Request(std::move(request), {},
                      [result, worker, count = gather->AddUnlessLost<TaskSession::Response>()](
                          absl::StatusOr<TaskSession::Response> response) {
                        if (!response.ok() || !response->reply.has_dataset_ready()) {
                          count(std::move(response));
                          return;
                        }
                        const proto::DatasetReady& ready = response->reply.dataset_ready();
                        if (result->examples.empty()) {
                          result->fingerprint = ready.fingerprint();
                          result->examples.assign(ready.examples().begin(), ready.examples().end());
                        } else if (result->fingerprint != ready.fingerprint()) {
                          count(absl::DataLossError(absl::StrCat(
                              worker->name(),
                              " read other data than the other workers; the files must be the "
                              "same on all of them")));
                          return;
                        }
                        count(std::move(response));
                      });
    }
    gather->Finish();
  });
}

void Controller::Schedule(ClosureSpec spec, ResultFn done) {
  loop_->Post([this, spec = std::move(spec), done = std::move(done)]() mutable {
    if (!failed_.ok()) {
      done(failed_);
      return;
    }
    const ClosureId id = dispatcher_.Schedule();
    closures_.emplace(id, PendingClosure{std::move(spec), std::move(done)});
    Dispatch();
  });
}

void Controller::CancelQueued() {
  loop_->Post([this] {
    for (ClosureId id : dispatcher_.CancelQueued()) {
      Resolve(id, WithDetail(absl::CancelledError(absl::StrCat("closure ", id, " was cancelled")),
                             {ErrorCause::kCancelled, false, "", 0}));
    }
  });
}

void Controller::Dispatch() {
  for (const Dispatcher::Assignment& a : dispatcher_.TakeAssignments()) {
    const ClosureSpec& spec = closures_.at(a.closure).spec;
    ClosureRequest request;
    request.epoch = epoch_;
    request.closure = a.closure;
    request.plan = spec.plan;
    request.attempt = a.attempt;
    request.seed = spec.seed;
    request.dataset = spec.dataset;
    request.ticket = spec.ticket;
    request.steps = spec.steps;
    request.arguments = spec.arguments;
    workers_[a.worker]->Send(Encode(std::move(request)));
  }
}

void Controller::Resolve(ClosureId id, absl::StatusOr<std::vector<Tensor>> results) {
  const auto it = closures_.find(id);
  if (it == closures_.end()) return;
  ResultFn done = std::move(it->second.done);
  closures_.erase(it);
  done(std::move(results));
}

void Controller::OnWorkerData(int worker, Message message) {
  auto reply = DecodeClosureReply(std::move(message));
  if (!reply.ok()) {
    LogWarning(workers_[worker]->name(), " sent what is no reply: ", reply.status().message());
    return;
  }
  if (reply->epoch != epoch_) return;
  if (!reply->status.ok()) {
    OnClosureFailed(*std::move(reply));
    return;
  }
  if (dispatcher_.Complete(reply->closure, reply->attempt, true)) {
    // The worker gets its next closure before the program hears of this one.
    Dispatch();
    Resolve(reply->closure, std::move(reply->results));
  }
}

void Controller::OnClosureFailed(ClosureReply reply) {
  const auto detail = GetDetail(reply.status);
  const auto pending = closures_.find(reply.closure);
  if (detail && detail->cause == ErrorCause::kTaskLost && IsPsTask(detail->task) &&
      pending != closures_.end() && ++pending->second.unreachable_ps < kMostUnreachable) {
    // Not the closure's fault. If the PS is lost, OnPsDown will tell; else the way there comes
    // back.
    PostAfter(kRetryDelay, [this, closure = reply.closure, attempt = reply.attempt] {
      if (dispatcher_.Retry(closure, attempt)) Dispatch();
    });
    return;
  }
  if (!dispatcher_.Complete(reply.closure, reply.attempt, false)) return;
  absl::Status status = Annotate(reply.status, absl::StrCat("closure ", reply.closure));
  Dispatch();
  Resolve(reply.closure, std::move(status));
}

void Controller::ReadRows(int ps, ShardId shard, int64_t begin, int64_t count, int slot,
                          std::function<void(absl::StatusOr<Tensor>)> done) {
  loop_->Post([this, ps, shard, begin, count, slot, done = std::move(done)]() mutable {
    proto::ControlRequest request;
    auto* read = request.mutable_read_rows();
    read->set_shard(shard);
    read->set_begin(begin);
    read->set_count(count);
    read->set_slot(slot);
    ps_[ps]->Request(std::move(request), {}, [done = std::move(done)](auto response) {
      if (!response.ok()) {
        done(response.status());
        return;
      }
      const auto& rows = response->reply.rows_read();
      done(PayloadTensor(response->message, rows.dtype(), rows.shape()));
    });
  });
}

void Controller::WriteRows(int ps, ShardId shard, int64_t begin, int slot, Tensor rows,
                           DoneFn done) {
  loop_->Post(
      [this, ps, shard, begin, slot, rows = std::move(rows), done = std::move(done)]() mutable {
        proto::ControlRequest request;
        auto* write = request.mutable_write_rows();
        write->set_shard(shard);
        write->set_begin(begin);
        write->set_slot(slot);
        write->set_dtype(static_cast<int>(rows.dtype()));
        *write->mutable_shape() = ToProto(rows.shape());
        ps_[ps]->Request(std::move(request), {rows.buffer().Slice(0, rows.bytes())},
                         [done = std::move(done)](auto response) { done(response.status()); });
      });
}

void Controller::QueryStatus(std::function<void(std::vector<proto::TaskStatus>)> done) {
  loop_->Post([this, done = std::move(done)]() mutable {
    auto all = std::make_shared<std::vector<proto::TaskStatus>>();
    auto gather = NewStatusGather([all, done = std::move(done)](absl::Status) { done(*all); });
    for (auto* tasks : {&ps_, &workers_}) {
      for (auto& session : *tasks) {
        proto::ControlRequest request;
        request.mutable_status();
        session->Request(std::move(request), {},
                         [all, count = gather->AddUnlessLost<TaskSession::Response>()](
                             absl::StatusOr<TaskSession::Response> response) {
                           if (response.ok()) all->push_back(response->reply.task_status());
                           count(std::move(response));
                         });
      }
    }
    gather->Finish();
  });
}

void Controller::GetDispatcherStats(std::function<void(DispatcherStats, int)> done) {
  loop_->Post([this, done = std::move(done)] { done(dispatcher_.stats(), dispatcher_.workers()); });
}

}  // namespace coxswain
