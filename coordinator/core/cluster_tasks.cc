#include "coordinator/core/cluster_tasks.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "coordinator/core/task_reasons.h"

namespace coxswain::core {

ClusterTasks::ClusterTasks(env::Env* env, std::shared_ptr<env::EventLoop> loop,
                           net::Transport* transport, Options options, EventsOf events_of)
    : env_(env),
      loop_(std::move(loop)),
      transport_(transport),
      options_(std::move(options)),
      events_of_(std::move(events_of)) {}

std::shared_ptr<TaskSession> ClusterTasks::NewSession(const std::string& job, int task,
                                                      const std::string& address) const {
  TaskSession::Options options;
  options.job = job;
  options.task = task;
  options.address = address;
  options.coordinator_name = options_.coordinator_name;
  options.lease = options_.lease;
  if (const auto it = options_.incarnations.find(address); it != options_.incarnations.end()) {
    options.incarnation = it->second;
  }
  return std::make_shared<TaskSession>(env_, loop_, transport_, std::move(options),
                                       events_of_(job, task));
}

void ClusterTasks::Connect(const std::vector<std::string>& ps,
                           const std::vector<std::string>& workers) {
  for (const std::string& address : ps) {
    ps_.push_back(NewSession("ps", static_cast<int>(ps_.size()), address));
  }
  for (const std::string& address : workers) {
    workers_.push_back(NewSession("worker", static_cast<int>(workers_.size()), address));
  }
  // Not before all are known: what is heard of one may be about the others.
  for (auto* sessions : {&ps_, &workers_}) {
    for (auto& session : *sessions) session->Start();
  }
}

TaskSession* ClusterTasks::NewWorker(int worker, const std::string& address) {
  auto& place = workers_[static_cast<size_t>(worker)];
  place = NewSession("worker", worker, address);
  return place.get();
}

void ClusterTasks::Stop() {
  for (auto* sessions : {&workers_, &ps_}) {
    for (auto& session : *sessions) session->Stop();
  }
}

void ClusterTasks::Expect(const std::string& address, Incarnation incarnation) {
  options_.incarnations[address] = incarnation;
  for (auto* sessions : {&ps_, &workers_}) {
    for (auto& session : *sessions) {
      if (session->address() == address) session->Expect(incarnation);
    }
  }
}

TaskSession* ClusterTasks::first_ps() const {
  return std::min_element(ps_.begin(), ps_.end(),
                          [](const auto& a, const auto& b) { return a->address() < b->address(); })
      ->get();
}

std::optional<Epoch> ClusterTasks::HighestEpoch() const {
  Epoch highest = 0;
  for (const auto& p : ps_) {
    if (!p->up() && !p->answered()) return std::nullopt;
    highest = std::max(highest, p->highest_epoch());
  }
  for (const auto& w : workers_) highest = std::max(highest, w->highest_epoch());
  return highest;
}

void ClusterTasks::Claim(const Session& session) {
  for (auto* sessions : {&ps_, &workers_}) {
    for (auto& task : *sessions) {
      if (task->answered()) task->Claim(session);
    }
  }
}

std::set<int> ClusterTasks::PsThere() const {
  std::set<int> there;
  for (const auto& p : ps_) {
    if (p->up()) there.insert(p->task());
  }
  return there;
}

std::string ClusterTasks::LongestRequest(absl::Duration now, absl::Duration least) const {
  const TaskSession* longest = nullptr;
  std::optional<TaskSession::Waiting> request;
  for (const auto* sessions : {&ps_, &workers_}) {
    for (const auto& session : *sessions) {
      auto oldest = session->oldest_request();
      if (!oldest || now - oldest->since < least) continue;
      if (request && request->since <= oldest->since) continue;
      longest = session.get();
      request = std::move(oldest);
    }
  }
  if (!request) return "";
  return absl::StrCat(longest->where(), " has worked on ", request->what, " for ",
                      absl::FormatDuration(absl::Trunc(now - request->since, absl::Seconds(1))));
}

bool ClusterTasks::Refused(const std::string& task, absl::Status why) {
  const auto [last, first] = refusals_.try_emplace(task, why);
  const bool news = first || last->second.message() != why.message();
  last->second = std::move(why);
  return news;
}

std::vector<std::string> ClusterTasks::Missing(
    const std::function<bool(const TaskSession&)>& there) const {
  std::vector<TaskReason> missing;
  for (const auto* sessions : {&ps_, &workers_}) {
    for (const auto& session : *sessions) {
      if (there(*session)) continue;
      const auto it = refusals_.find(session->name());
      const absl::string_view silent =
          session->up() ? "it answers, and is not ready: does it reach the parameter servers?"
                        : "no answer";
      absl::string_view reason = it == refusals_.end() ? silent : it->second.message();
      if (!absl::ConsumePrefix(&reason, session->where() + ": ")) {
        absl::ConsumePrefix(&reason, session->name() + ": ");
      }
      missing.push_back({session->where(), std::string(reason)});
    }
  }
  return GroupByReason(missing);
}

}  // namespace coxswain::core
