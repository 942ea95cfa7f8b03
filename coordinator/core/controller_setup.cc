// What a program sets up on the cluster before closures run: shards, plans, data sets, per-worker
// values.

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/core/controller.h"
#include "coordinator/core/gather.h"
#include "runtime/base/status.h"

namespace coxswain::core {

void Controller::CreateShards(std::vector<proto::ShardSpec> shards, DoneFn done) {
  loop_.Post([this, shards = std::move(shards), done = std::move(done)]() mutable {
    if (!life_.failed().ok()) {
      done(life_.failed());
      return;
    }
    if (phase() != Phase::kRunning) {
      parked_.push_back([this, shards = std::move(shards), done = std::move(done)] {
        CreateShards(shards, done);
      });
      return;
    }
    for (const proto::ShardSpec& shard : shards) {
      absl::Status has_value = checkpoints_.points().CheckFirstValue(shard);
      if (has_value.ok()) continue;
      done(std::move(has_value));
      return;
    }
    auto created =
        layout_.Create(std::move(shards), checkpoints_.points().first_values(), tasks_.PsThere());
    if (!created.ok()) {
      done(created.status());
      return;
    }
    const auto creation = std::make_shared<ClusterLayout::Creation>(*std::move(created));
    for (const auto& [shard, checkpoint] : creation->from) checkpoints_.Created(shard, checkpoint);
    auto gather = NewStatusGather([this, creation, done = std::move(done)](absl::Status status) {
      layout_.Created(*creation, status.ok());
      // A checkpoint under way lacks them, and the values that they have from another one.
      Checkpointer* const writer = checkpoints_.writer();
      if (writer != nullptr && creation->has_values()) writer->BeginAnew();
      if (!layout_.creating()) {
        for (auto& request : checkpoints_.TakePostponed()) request();
      }
      done(std::move(status));
    });
    for (auto& [ps, requests] : creation->requests) {
      for (proto::ControlRequest& request : requests) {
        SendToPs(ps, std::move(request), {},
                 [count = gather->AddUnlessLost<TaskSession::Response>()](
                     absl::StatusOr<TaskSession::Response> response) {
                   // A recovery has overtaken the request, and made the shards.
                   const auto detail = GetDetail(response.status());
                   const bool overtaken = detail && detail->cause == ErrorCause::kCancelled;
                   count(overtaken ? TaskSession::Response() : std::move(response));
                 });
      }
    }
    gather->Finish();
  });
}

void Controller::RegisterPlan(PlanId id, std::shared_ptr<const graph::Function> function,
                              std::vector<proto::ArgumentSource> sources, DatasetId dataset,
                              DoneFn done) {
  loop_.Post([this, id, function = std::move(function), sources = std::move(sources), dataset,
              done = std::move(done)]() mutable {
    plans_.Expect(id);
    RegisterExpected(id, std::move(function), std::move(sources), dataset, std::move(done));
  });
}

void Controller::RegisterExpected(PlanId id, std::shared_ptr<const graph::Function> function,
                                  std::vector<proto::ArgumentSource> sources, DatasetId dataset,
                                  DoneFn done) {
  loop_.AssertOnLoop();
  absl::Status status = life_.failed();
  if (!plans_.expected(id)) {
    status.Update(absl::CancelledError(
        absl::StrCat("function '", function->name, "' was released before it was registered")));
  }
  if (status.ok() && phase() != Phase::kRunning) {
    parked_.push_back(
        [this, id, function = std::move(function), sources = std::move(sources), dataset,
         done = std::move(done)] { RegisterExpected(id, function, sources, dataset, done); });
    return;
  }
  if (status.ok()) {
    const std::set<ShardId> fetched = plans_.FetchedShards();
    status = plans_.Add(id, std::move(function), std::move(sources), dataset, PsOf());
    // A checkpoint under way has saved them too early.
    Checkpointer* const writer = checkpoints_.writer();
    if (writer != nullptr && plans_.FetchedShards() != fetched) writer->BeginAnew();
  }
  if (!status.ok()) {
    plans_.LetGo(id);
    done(std::move(status));
    return;
  }
  // A task that goes away meanwhile is no error: it gets the plan when it returns.
  auto gather = NewStatusGather(std::move(done));
  for (const auto& ps : tasks_.ps()) {
    if (auto request = plans_.ForPs(id, ps->task())) {
      SendToPs(ps->task(), *std::move(request), {}, gather->AddUnlessLost<TaskSession::Response>());
    }
  }
  for (auto& worker : tasks_.workers()) {
    if (!worker->up()) continue;
    worker->Request(plans_.ForWorker(id), {}, gather->AddUnlessLost<TaskSession::Response>());
  }
  gather->Finish();
}

std::function<void()> Controller::PlanReleaser(PlanId plan) {
  return loop_.Poster([this, plan] {
    plans_.LetGo(plan);
    if (!closures_.Uses(plan)) ForgetUnusedPlans({plan});
  });
}

void Controller::ForgetUnusedPlans(const std::vector<PlanId>& plans) {
  for (const PlanId plan : plans) {
    if (!plans_.let_go(plan)) continue;
    proto::ControlRequest release;
    release.mutable_release_plan()->set_plan(plan);
    // A task that is away is set up anew, without it.
    for (const auto& ps : tasks_.ps()) {
      if (ps->up() && plans_.ForPs(plan, ps->task())) ps->Request(release, {}, [](auto) {});
    }
    TellWorkers(release);
    plans_.Remove(plan);
    closures_.Forget(plan);
  }
  if (!plans.empty()) ForgetUnread();
}

void Controller::TellWorkers(const proto::ControlRequest& release) {
  for (const auto& worker : tasks_.workers()) {
    if (worker->up()) worker->Request(release, {}, [](auto) {});
  }
}

std::function<void()> Controller::DatasetReleaser(DatasetId dataset) {
  return loop_.Poster([this, dataset] {
    datasets_.LetGo(dataset);
    ForgetUnread();
  });
}

void Controller::ForgetUnread() {
  for (const DatasetId id : datasets_.Unread([this](DatasetId d) { return plans_.Reads(d); })) {
    datasets_.Remove(id);
    closures_.ForgetDataset(id);
    TellReleased(id);
  }
  for (const ValuesId id : values_.Unread([this](ValuesId v) { return plans_.Reads(v); })) {
    ForgetValues(id);
  }
}

// Workers that have taken a data set that another one has not would keep its memory.
void Controller::WithdrawDataset(const DatasetTable::Registration& registration) {
  if (!datasets_.IsCurrent(registration)) return;
  datasets_.Withdraw(registration);
  if (!life_.ending()) TellReleased(registration.dataset);
}

void Controller::TellReleased(DatasetId dataset) {
  proto::ControlRequest release;
  release.mutable_release_dataset()->set_dataset(dataset);
  TellWorkers(release);  // one that is away is set up anew, without it
}

void Controller::ForgetValues(ValuesId values) {
  values_.Remove(values);
  proto::ControlRequest release;
  release.mutable_release_values()->set_values(values);
  TellWorkers(release);
}

std::function<void()> Controller::ValuesReleaser(ValuesId values) {
  return loop_.Poster([this, values] {
    values_.LetGo(values);
    ForgetUnread();
  });
}

void Controller::RegisterValues(ValuesId id, std::shared_ptr<const graph::Function> function,
                                std::vector<Tensor> arguments, DoneFn done) {
  loop_.Post([this, id, function = std::move(function), arguments = std::move(arguments),
              done = std::move(done)] {
    if (!life_.failed().ok()) {
      done(life_.failed());
      return;
    }
    values_.Add(id, *function, arguments);
    // A worker that goes away meanwhile is no error: it makes them when it returns.
    auto gather = NewStatusGather([this, id, done](absl::Status status) {
      if (!status.ok() && !life_.ending()) ForgetValues(id);
      done(std::move(status));
    });
    for (auto& worker : tasks_.workers()) {
      if (!worker->up()) continue;
      const RequestToWorker& to_worker = values_.Request(id);
      worker->Request(to_worker.request, to_worker.payload,
                      gather->AddUnlessLost<TaskSession::Response>());
    }
    gather->Finish();
  });
}

void Controller::ForgetProgress(std::vector<DatasetId> datasets) {
  loop_.Post([this, datasets = std::move(datasets)] {
    for (const DatasetId id : datasets) closures_.ForgetDataset(id);
  });
}

void Controller::RegisterDataset(DatasetId id, DatasetSource source, DoneFn done) {
  loop_.Post([this, id, source = std::move(source), done = std::move(done)]() mutable {
    const DatasetTable::Registration registration = datasets_.Register(id, std::move(source));
    auto gather =
        NewStatusGather([this, registration, done = std::move(done)](absl::Status status) {
          if (!status.ok()) {
            WithdrawDataset(registration);
          } else if (datasets_.IsCurrent(registration)) {
            // A checkpoint tells it from others of the same data.
            closures_.KnowDataset(registration.dataset);
          }
          done(std::move(status));
        });
    for (auto& worker : tasks_.workers()) {
      if (!worker->up()) continue;
      worker->Request(
          datasets_.Request(id), {},
          [this, worker, registration, count = gather->AddUnlessLost<TaskSession::Response>()](
              absl::StatusOr<TaskSession::Response> response) {
            if (response.ok() && response->reply.has_dataset_ready() &&
                datasets_.IsCurrent(registration)) {
              const proto::DatasetReady& ready = response->reply.dataset_ready();
              const absl::Status same = datasets_.Check(registration.dataset, ready);
              if (!same.ok()) response = Annotate(same, worker->name());
            }
            count(std::move(response));
          });
    }
    gather->Finish();
  });
}

}  // namespace coxswain::core
