// What a daemon tells Prometheus while its loop is busy.
#include <catch2/catch.hpp>
#include <memory>

#include "absl/synchronization/notification.h"
#include "runtime/cluster/daemon.h"
#include "tests/testing/fake_tasks.h"
#include "tests/testing/families.h"

namespace coxswain::cluster {
namespace {

using testing::FindFamily;
using testing::ValueOf;

// Answers scrapes when the test says so.
class LateDaemon final : public Daemon {
 public:
  LateDaemon(env::Env* env, net::Transport* transport)
      : Daemon(env, transport, {.job = "worker", .task = 5, .address = "daemon"}) {
    REQUIRE(Start().ok());
  }
  ~LateDaemon() override { Stop(); }

  bool answers = true;
  MetricsDone kept;

 private:
  void OnSessionStart(Peer*) override {}
  void OnSessionEnd() override {}
  void OnControl(const proto::ControlRequest&, net::Message, Reply) override {}
  void OnData(Peer*, net::Message) override {}
  void FillStatus(proto::TaskStatus* status) override { status->set_threads(3); }
  void SendMetrics(proto::TaskStatus status, const MetricsDone& done) override {
    if (answers) {
      Daemon::SendMetrics(std::move(status), done);
    } else {
      kept = done;
    }
  }
};

}  // namespace

TEST_CASE("a daemon that does not answer in time tells what is known without it", "[cluster]") {
  testing::TestEnv env;
  const auto transport = net::NewInProcessTransport();
  auto daemon = std::make_unique<LateDaemon>(&env, transport.get());
  const metrics::Families all = daemon->CollectMetrics(absl::Seconds(60));
  CHECK(ValueOf(all, "coxswain_worker_compute_threads") == 3);
  CHECK(FindFamily(all, "coxswain_worker_info")->samples[0].labels[1].value == "5");
  daemon->answers = false;
  const metrics::Families known = daemon->CollectMetrics(absl::Milliseconds(1));
  REQUIRE(known.size() == 1);
  CHECK(known[0].name == "coxswain_worker_info");
  const auto late = daemon->kept;
  daemon = nullptr;
  late({});  // when nobody waits any more
}

}  // namespace coxswain::cluster
