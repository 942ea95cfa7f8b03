#include "tests/bench/floors/stream.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "coordinator/local/local_tasks.h"
#include "runtime/base/status.h"
#include "runtime/env/this_process.h"

namespace coxswain {
namespace {

enum Type : uint16_t { kTrip = 1, kCpu = 2 };

constexpr absl::Duration kAnswerTimeout = absl::Seconds(20);

template <typename T>
std::string Pack(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename T>
T Unpack(const std::string& bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof(value)));
  return value;
}

// Memory that was written once and is sent again and again, as by a server that has it ready.
Buffer Filled(size_t bytes) {
  Buffer buffer = Buffer::Allocate(bytes);
  std::memset(buffer.data(), 1, bytes);
  return buffer;
}

// A trip names how many bytes it wants back.
class Answerer final : public net::ConnectionHandler {
 public:
  explicit Answerer(std::shared_ptr<net::Connection> connection)
      : connection_(std::move(connection)) {}
  void OnMessage(net::Message message) override {
    if (message.type == kCpu) {
      connection_->Send({kCpu, Pack(env::ProcessCpuSeconds()), {}});
      return;
    }
    const size_t wanted = Unpack<size_t>(message.header);
    net::Message answer{kTrip, message.header, {}};
    if (wanted > 0) {
      if (answer_.size() < wanted) answer_ = Filled(wanted);
      answer.payload.push_back(answer_.Slice(0, wanted));
    }
    connection_->Send(std::move(answer));
  }
  void OnClosed(absl::Status) override { connection_.reset(); }

 private:
  std::shared_ptr<net::Connection> connection_;
  Buffer answer_;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

absl::StatusOr<std::unique_ptr<net::Transport>> MakeTransport(const std::string& name) {
  if (name == "grpc") return net::NewGrpcTransport();
  if (name == "host") return net::NewHostTransport();
  return absl::InvalidArgumentError(absl::StrCat("there is no transport '", name, "'"));
}

int RunStreamPeer(const std::string& transport_name) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto transport = MakeTransport(transport_name);
  if (!transport.ok()) return 2;
  auto listener =
      (*transport)->Listen("127.0.0.1:0", [](std::shared_ptr<net::Connection> connection) {
        return std::make_shared<Answerer>(std::move(connection));
      });
  if (!listener.ok()) return 4;
  std::printf("listening on %s\n", (*listener)->address().c_str());
  std::fflush(stdout);
  while (true) pause();
}

// Each message is an answer; the one who asked waits for it.
class StreamBench::Waiter final : public net::ConnectionHandler {
 public:
  void OnMessage(net::Message message) override {
    absl::MutexLock lock(&mu_);
    answers_.push_back(std::move(message));
  }
  void OnClosed(absl::Status status) override {
    absl::MutexLock lock(&mu_);
    closed_ = status.ok() ? absl::UnavailableError("the peer closed the stream") : status;
  }
  absl::StatusOr<net::Message> Wait() {
    absl::MutexLock lock(&mu_);
    const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return !answers_.empty() || !closed_.ok();
    };
    if (!mu_.AwaitWithTimeout(absl::Condition(&ready), kAnswerTimeout)) {
      return absl::DeadlineExceededError("the stream's peer does not answer");
    }
    if (answers_.empty()) return closed_;
    net::Message message = std::move(answers_.front());
    answers_.erase(answers_.begin());
    return message;
  }

 private:
  absl::Mutex mu_;
  std::vector<net::Message> answers_ ABSL_GUARDED_BY(mu_);
  absl::Status closed_ ABSL_GUARDED_BY(mu_);
};

StreamBench::StreamBench() = default;

StreamBench::~StreamBench() {
  if (connection_ != nullptr) connection_->Close(absl::OkStatus());
  connection_.reset();
  transport_.reset();
}

absl::StatusOr<std::unique_ptr<StreamBench>> StreamBench::Start(const std::string& transport) {
  std::unique_ptr<StreamBench> bench(new StreamBench());
  int out[2];
  if (pipe2(out, O_CLOEXEC) != 0) return absl::InternalError("cannot make a pipe");
  local::ChildOptions options;
  ASSIGN_OR_RETURN(const std::string directory, local::ProgramDirectory());
  options.command = {absl::StrCat(directory, "/coxswain-bench"), "stream-peer", transport};
  options.out = out[1];
  options.death_signal = SIGKILL;
  auto child = local::Child::Start(options);
  close(out[1]);
  absl::StatusOr<std::string> address = absl::UnavailableError("the stream's peer did not start");
  if (child.ok()) {
    bench->child_ = *std::move(child);
    address = local::ReadAddress(out[0], "the stream's peer", kAnswerTimeout);
  } else {
    address = child.status();
  }
  close(out[0]);
  RETURN_IF_ERROR(address.status());
  ASSIGN_OR_RETURN(bench->transport_, MakeTransport(transport));
  bench->waiter_ = std::make_shared<Waiter>();
  bench->connection_ = bench->transport_->Connect(*address, absl::Seconds(5), bench->waiter_);
  RETURN_IF_ERROR(bench->PeerCpuSeconds().status());
  return bench;
}

absl::StatusOr<double> StreamBench::PeerCpuSeconds() {
  connection_->Send({kCpu, "", {}});
  ASSIGN_OR_RETURN(const net::Message answer, waiter_->Wait());
  return Unpack<double>(answer.header);
}

absl::StatusOr<StreamCost> StreamBench::Measure(const std::vector<RoundTrip>& trips,
                                                double seconds) {
  std::vector<Buffer> up;
  for (const RoundTrip& trip : trips) up.push_back(trip.up > 0 ? Filled(trip.up) : Buffer());
  const auto round = [&]() -> absl::Status {
    for (size_t i = 0; i < trips.size(); ++i) {
      net::Message message{kTrip, Pack(trips[i].down), {}};
      if (trips[i].up > 0) message.payload.push_back(up[i]);
      connection_->Send(std::move(message));
      RETURN_IF_ERROR(waiter_->Wait().status());
    }
    return absl::OkStatus();
  };
  for (int i = 0; i < 5; ++i) RETURN_IF_ERROR(round());
  ASSIGN_OR_RETURN(const double peer_before, PeerCpuSeconds());
  const double own_before = env::ProcessCpuSeconds();
  std::vector<double> ms;
  const absl::Time begin = absl::Now();
  for (absl::Time now = begin; now - begin < absl::Seconds(seconds) || ms.size() < 5;) {
    RETURN_IF_ERROR(round());
    const absl::Time end = absl::Now();
    ms.push_back(absl::ToDoubleMilliseconds(end - now));
    now = end;
  }
  const double own = env::ProcessCpuSeconds() - own_before;
  ASSIGN_OR_RETURN(const double peer_after, PeerCpuSeconds());
  StreamCost cost;
  cost.cpu_ms = 1e3 * (own + peer_after - peer_before) / static_cast<double>(ms.size());
  cost.ms = Median(std::move(ms));
  return cost;
}

}  // namespace coxswain
