// Tasks that end and are started again; in place of daemons there are scripts, which end when the
// test says so.
#include "coordinator/local/task_keeper.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "runtime/net/unique_fd.h"
#include "tests/testing/data_files.h"
#include "tests/testing/fake_tasks.h"

namespace coxswain::local {
namespace {

using testing::Mailbox;

constexpr absl::Duration kPatience = absl::Seconds(60);

// Parameter servers that listen nowhere.
class Scripts {
 public:
  explicit Scripts(int count) : ends_(static_cast<size_t>(count)) {
    const std::string program = files_.Path("coxswain-ps");
    std::ofstream(program) << "#!/bin/sh\n"
                              "echo \"listening on $2\"\n"
                              "read line < "
                           << files_.Path("end-") << "$2\nexit 7\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    for (int task = 0; task < count; ++task) {
      REQUIRE(mkfifo(Fifo(task).c_str(), 0600) == 0);
      // Also for reading, so that opening it waits for nobody.
      ends_[static_cast<size_t>(task)] =
          net::UniqueFd(open(Fifo(task).c_str(), O_RDWR | O_CLOEXEC));
    }
  }
  std::vector<DaemonLaunch> Launches() const {
    std::vector<DaemonLaunch> launches;
    for (size_t task = 0; task < ends_.size(); ++task) {
      DaemonLaunch launch;
      launch.directory = files_.Path("");
      launch.job = "ps";
      launch.task = static_cast<int>(task);
      launch.same_user = true;
      launches.push_back(std::move(launch));
    }
    return launches;
  }
  // One life of the task.
  void End(int task) const { REQUIRE(write(ends_[static_cast<size_t>(task)].get(), "\n", 1) == 1); }

 private:
  std::string Fifo(int task) const { return files_.Path(absl::StrCat("end-", task)); }

  DataFiles files_;
  std::vector<net::UniqueFd> ends_;
};

struct Ended {
  std::string task, message;
};

TEST_CASE("tasks that end are told of and started again, each as another process", "[local]") {
  const Scripts scripts(2);
  Mailbox<Ended> ended;
  Mailbox<std::pair<std::string, Incarnation>> next;
  TaskKeeper keeper(RestartPolicy{});
  REQUIRE(keeper.Start(scripts.Launches()).ok());
  CHECK(keeper.Addresses() == std::vector<std::string>{"0", "1"});
  const auto before = keeper.Incarnations();
  LocalTaskEvents events;
  events.on_incarnation = [&](const std::string& address, Incarnation incarnation) {
    next.Put({address, incarnation});
  };
  events.on_ended = [&](const std::string& task, const std::string& message) {
    ended.Put({task, message});
  };
  events.on_hopeless = [](const absl::Status&) {};
  keeper.Watch(events);
  scripts.End(1);
  const Ended one = ended.Take("the end of a task");
  CHECK(one.task == "/job:ps/task:1");
  CHECK(one.message == "ended with code 7; it is started again");
  const auto [address, incarnation] = next.Take("its next life");
  CHECK(address == "1");
  CHECK(incarnation != before.at("1"));
  keeper.StopWatching();
  CHECK(keeper.Incarnations().at("1") == incarnation);
  CHECK(keeper.Incarnations().at("0") == before.at("0"));
}

TEST_CASE("an event may ask for the tasks, and holds up nobody who does", "[local]") {
  const Scripts scripts(1);
  TaskKeeper keeper(RestartPolicy{.most = 0});
  REQUIRE(keeper.Start(scripts.Launches()).ok());
  absl::Notification asked;
  Mailbox<size_t> addresses;
  Mailbox<absl::Status> hopeless;
  LocalTaskEvents events;
  events.on_ended = [&](const std::string&, const std::string&) {
    addresses.Put(keeper.Addresses().size());
    // Until the test was answered, too.
    if (!asked.WaitForNotificationWithTimeout(kPatience)) addresses.Put(0);
  };
  events.on_hopeless = [&](absl::Status why) { hopeless.Put(std::move(why)); };
  keeper.Watch(events);
  scripts.End(0);
  CHECK(addresses.Take("an answer within an event") == 1);
  CHECK(keeper.Incarnations().size() == 1);
  asked.Notify();
  CHECK(absl::StrContains(hopeless.Take("the end").message(), "no parameter server is left"));
  CHECK(addresses.empty());
}

}  // namespace
}  // namespace coxswain::local
