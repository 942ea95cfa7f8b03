#include "coordinator/core/cluster_tasks.h"

#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "tests/testing/fake_tasks.h"
#include "tests/testing/played_cluster.h"
#include "tests/testing/registry.h"
#include "worker_server/worker_service.h"

namespace coxswain::core {
namespace {

using testing::ClusterOps;
using testing::Mailbox;
using testing::TestEnv;

constexpr Incarnation kMeant = 5;

// A coordinator's sessions, on a loop; what they report.
struct World {
  World() {
    const auto events_of = [this](const std::string& job, int task) {
      TaskSession::Events events;
      const std::string name = "/job:" + job + "/task:" + std::to_string(task);
      events.on_answered = [this, name] { answered.Put(name); };
      events.on_up = [this, name] { up.Put(name); };
      events.on_down = [](absl::Status) {};
      events.on_refused = [this, name](absl::Status why) { refused.Put({name, std::move(why)}); };
      events.on_data = [](net::Message) {};
      events.low_water = [] { return ClosureId{0}; };
      return events;
    };
    tasks = std::make_unique<ClusterTasks>(&env, loop, transport.get(),
                                           ClusterTasks::Options{"test:1", absl::Seconds(60), {}},
                                           events_of);
  }
  ~World() {
    OnLoop([this] { tasks->Stop(); });
  }
  void OnLoop(const std::function<void()>& task) {
    absl::Notification done;
    loop->Post([&] {
      task();
      done.Notify();
    });
    done.WaitForNotification();
  }

  TestEnv env;
  std::unique_ptr<net::Transport> transport = net::NewInProcessTransport();
  std::shared_ptr<env::EventLoop> loop = env.NewLoop();
  Mailbox<std::string> answered, up;
  Mailbox<std::pair<std::string, absl::Status>> refused;
  std::unique_ptr<ClusterTasks> tasks;
};

TEST_CASE("all coordinators claim the same PS first, when all PS have told", "[tasks]") {
  World w;
  w.OnLoop([&] {
    w.tasks->Connect({"b", "a", "c"}, {"w"});
    CHECK(w.tasks->first_ps()->name() == "/job:ps/task:1");
    CHECK_FALSE(w.tasks->HighestEpoch());
    CHECK(w.tasks->PsThere().empty());
  });
}

TEST_CASE("the process that is meant at an address is let in, and claimed once it answered",
          "[tasks]") {
  World w;
  worker::WorkerService worker(&w.env, w.transport.get(), &ClusterOps(),
                               cluster::DaemonOptions{"worker", 0, "w", kMeant});
  REQUIRE(worker.Start().ok());
  w.OnLoop([&] {
    w.tasks->Expect("w", kMeant + 1);
    w.tasks->Connect({}, {"w"});
  });
  CHECK(w.refused.Take("the refusal").first == "/job:worker/task:0");
  w.OnLoop([&] { w.tasks->Expect("w", kMeant); });
  CHECK(w.answered.Take("the answer") == "/job:worker/task:0");
  w.OnLoop([&] {
    CHECK(w.tasks->HighestEpoch() == Epoch{0});
    w.tasks->Claim({3, 7});
  });
  CHECK(w.up.Take("the session") == "/job:worker/task:0");
  w.OnLoop([&] {
    CHECK(w.tasks->workers()[0]->incarnation() == kMeant);
    // The place is another's from now on, where the same process is meant.
    w.tasks->workers()[0]->Stop();
    TaskSession* const next = w.tasks->NewWorker(0, "w");
    next->Claim({3, 7});
    next->Start();
  });
  CHECK(w.up.Take("the session") == "/job:worker/task:0");
}

TEST_CASE("of all tasks the one is named that has worked longest on one request", "[tasks]") {
  World w;
  const auto work = [](const proto::ControlRequest&) -> std::optional<absl::Status> { return {}; };
  testing::PlayedTask ps(w.transport.get(), "p", "ps", 0, work);
  testing::PlayedTask worker(w.transport.get(), "w", "worker", 0, work);
  w.OnLoop([&] { w.tasks->Connect({"p"}, {"w"}); });
  for (int i = 0; i < 2; ++i) w.answered.Take("an answer");
  w.OnLoop([&] { w.tasks->Claim({3, 7}); });
  for (int i = 0; i < 2; ++i) w.up.Take("a session");
  const auto longest = [&w](absl::Duration least) {
    std::string text;
    w.OnLoop([&] { text = w.tasks->LongestRequest(w.env.Monotonic(), least); });
    return text;
  };
  CHECK(longest(absl::ZeroDuration()) == "");
  w.OnLoop([&] {
    proto::ControlRequest values;
    values.mutable_register_values();
    w.tasks->workers()[0]->Request(values, {}, [](auto) {});
  });
  w.env.Advance(absl::Seconds(3));
  w.OnLoop([&] {
    proto::ControlRequest create;
    create.mutable_create_shards();
    w.tasks->ps()[0]->Request(create, {}, [](auto) {});
  });
  w.env.Advance(absl::Seconds(4));
  CHECK(longest(absl::Seconds(5)) ==
        "/job:worker/task:0 at w has worked on register_values for 7s");
  CHECK(longest(absl::Seconds(8)) == "");
}

TEST_CASE("tasks that are missing are named with what they were refused for last", "[tasks]") {
  World w;
  w.OnLoop([&] { w.tasks->Connect({"p"}, {"v", "w"}); });
  w.OnLoop([&] {
    const auto nobody = [](const TaskSession&) { return false; };
    CHECK(w.tasks->Missing(nobody) ==
          std::vector<std::string>{
              "/job:ps/task:0 at p, /job:worker/task:0 at v, /job:worker/task:1 at w: no answer"});
    w.tasks->Refused("/job:ps/task:0", absl::UnavailableError("first"));
    w.tasks->Refused("/job:ps/task:0", absl::UnavailableError("/job:ps/task:0 at p: held"));
    w.tasks->Refused("/job:worker/task:0", absl::UnavailableError("/job:worker/task:0: no data"));
    w.tasks->Refused("/job:worker/task:1", absl::UnavailableError("gone"));
    w.tasks->NotRefused("/job:worker/task:1");
    const auto second = [](const TaskSession& task) { return task.name() == "/job:worker/task:1"; };
    CHECK(w.tasks->Missing(second) == std::vector<std::string>{"/job:ps/task:0 at p: held",
                                                               "/job:worker/task:0 at v: no data"});
  });
}

TEST_CASE("why a task is refused is news once, until it is another reason", "[session]") {
  World w;
  const auto refused = [&](const char* why) {
    bool news = false;
    w.OnLoop([&] { news = w.tasks->Refused("/job:worker/task:1", absl::DataLossError(why)); });
    return news;
  };
  CHECK(refused("it reads other data"));
  CHECK(!refused("it reads other data"));
  CHECK(refused("a file is not there"));
  CHECK(refused("it reads other data"));
  w.OnLoop([&] { w.tasks->NotRefused("/job:worker/task:1"); });
  CHECK(refused("it reads other data"));
}

}  // namespace
}  // namespace coxswain::core
