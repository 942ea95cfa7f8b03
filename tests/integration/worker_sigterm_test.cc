// Daemons that are asked to end: in order, and in time.
#include <signal.h>

#include "absl/time/clock.h"
#include "tests/integration/jobs.h"
#include "tests/testing/data_specs.h"
#include "tests/testing/fake_tasks.h"
#include "tests/testing/paths.h"
#include "tests/testing/slow_file.h"

namespace coxswain {
namespace {

using testing::CauseOf;
using testing::FakeCoordinator;
using testing::TaskOf;

constexpr Epoch kEpoch = 3;

// A daemon of its own, and the coordinator that holds it.
struct Held {
  explicit Held(const std::string& job)
      : daemon(CommandOf(job)),
        address(AddressOf(daemon)),
        transport(WithSecret(net::NewGrpcTransport())),
        coordinator(transport.get(), address, kEpoch) {}

  // This coordinator lets no parameter server go.
  static std::vector<std::string> CommandOf(const std::string& job) {
    std::vector<std::string> command = {COXSWAIN_BINARY_DIR "/bin/coxswain-" + job, "--port", "0"};
    if (job == "ps") command.insert(command.end(), {"--end-seconds", "0"});
    return command;
  }

  // Gives the worker a data set that is not loaded, because its file cannot be opened.
  void LoadForLong(const std::string& path) {
    proto::ControlRequest request;
    request.mutable_register_dataset()->set_dataset(1);
    *request.mutable_register_dataset()->mutable_spec() = CsvSpec(path);
    AddNumeric(request.mutable_register_dataset()->mutable_spec(), "x");
    coordinator.Ask(request);
    proto::ControlRequest status;
    status.mutable_status();
    coordinator.Request(status);  // answered after the one before has begun
  }

  Process daemon;
  std::string address;
  std::unique_ptr<net::Transport> transport;
  FakeCoordinator coordinator;
};

TEST_CASE("a daemon that gets SIGTERM tells its coordinator so, and ends with code 0",
          "[sigterm]") {
  const std::string job = GENERATE("worker", "ps");
  const int signal = GENERATE(SIGTERM, SIGINT);
  CAPTURE(job, signal);
  Held held(job);
  held.daemon.Kill(signal);
  const absl::Status closed = held.coordinator.TakeClosed();
  INFO(closed);
  CHECK(CauseOf(closed) == ErrorCause::kTerminated);
  CHECK(TaskOf(closed) == "/job:" + job + "/task:0");
  const Process::Result result = held.daemon.Wait();
  CAPTURE(result.err);
  CHECK(result.code == 0);
}

TEST_CASE("a daemon that cannot finish what it does ends after two seconds all the same",
          "[sigterm]") {
  const DataFiles files;
  Held held("worker");
  const SlowFile slow(files.Path("slow.csv"));
  held.LoadForLong(slow.path());
  const absl::Time begin = absl::Now();
  held.daemon.Kill(SIGTERM);
  CHECK(CauseOf(held.coordinator.TakeClosed()) == ErrorCause::kTerminated);
  const Process::Result result = held.daemon.Wait();
  CAPTURE(result.err);
  CHECK(result.code == 0);
  CHECK(absl::Now() - begin >= absl::Milliseconds(1900));  // it did wait
  CHECK(absl::Now() - begin < absl::Seconds(20));
}

TEST_CASE("a second signal ends a daemon at once", "[sigterm]") {
  const DataFiles files;
  Held held("worker");
  const SlowFile slow(files.Path("slow.csv"));
  held.LoadForLong(slow.path());
  held.daemon.Kill(SIGTERM);
  CHECK(CauseOf(held.coordinator.TakeClosed()) == ErrorCause::kTerminated);
  const int second = GENERATE(SIGTERM, SIGINT);
  held.daemon.Kill(second);
  const Process::Result result = held.daemon.Wait();
  CAPTURE(result.err);
  CHECK(result.code == 128 + second);
}

}  // namespace
}  // namespace coxswain
