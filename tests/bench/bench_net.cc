// Measures the transports: round trip of 100 bytes, a stream of 1 MiB messages, a flood of 100 byte
// messages. gRPC, with TLS too, and shared memory run between two processes.
//
//   bench_net [seconds per figure, default 2]
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "runtime/base/logging.h"
#include "runtime/net/tls.h"
#include "runtime/net/transport.h"

namespace coxswain {
namespace {

enum Type : uint16_t { kEcho = 1, kCount = 2, kReport = 3 };

// Sends kEcho back; counts kCount and reports to kReport, so that a stream's end can be seen.
class Peer final : public net::ConnectionHandler {
 public:
  explicit Peer(std::shared_ptr<net::Connection> connection) : connection_(std::move(connection)) {}

  void OnMessage(net::Message message) override {
    if (message.type != kCount) connection_->Send(std::move(message));
  }
  void OnClosed(absl::Status) override { connection_.reset(); }

 private:
  std::shared_ptr<net::Connection> connection_;
};

// Counts what comes. In a game of ping-pong it sends each message back itself, as services do, and
// counts the last one.
class Waiter final : public net::ConnectionHandler {
 public:
  void OnMessage(net::Message message) override {
    if (trips_left_ > 0) {
      --trips_left_;
      connection_->Send(std::move(message));
      return;
    }
    absl::MutexLock lock(&mu_);
    ++received_;
  }
  void OnClosed(absl::Status status) override {
    if (!status.ok()) std::fprintf(stderr, "closed: %s\n", status.ToString().c_str());
  }
  // Only while nothing is under way.
  void Play(net::Connection* connection, int64_t trips) {
    connection_ = connection;
    trips_left_ = trips;
  }
  void WaitFor(int64_t received) {
    absl::MutexLock lock(&mu_);
    const auto reached = [&] { return received_ >= received; };
    mu_.Await(absl::Condition(&reached));
  }

 private:
  absl::Mutex mu_;
  int64_t received_ = 0;
  net::Connection* connection_ = nullptr;
  int64_t trips_left_ = 0;
};

net::AcceptFunction AcceptPeer() {
  return [](std::shared_ptr<net::Connection> connection) {
    return std::make_shared<Peer>(std::move(connection));
  };
}

net::Message Make(uint16_t type, size_t bytes, int slices = 1) {
  net::Message message{type, std::string(32, 'h'), {}};
  for (int i = 0; i < slices; ++i) message.payload.push_back(Buffer::Allocate(bytes / slices));
  return message;
}

// Sends `message` over and over in rounds of `window`, each ended by a report; returns messages/s.
double Flood(net::Connection& connection, Waiter& waiter, int64_t& replies,
             const net::Message& message, int window, double seconds) {
  int64_t sent = 0;
  const absl::Time start = absl::Now();
  const absl::Time end = start + absl::Seconds(seconds);
  connection.Send(Make(kReport, 0, 0));
  ++replies;
  while (absl::Now() < end) {  // one round is always under way
    for (int i = 0; i < window; ++i) connection.Send(message);
    sent += window;
    connection.Send(Make(kReport, 0, 0));
    waiter.WaitFor(replies++);
  }
  waiter.WaitFor(replies);
  return sent / absl::ToDoubleSeconds(absl::Now() - start);
}

void Measure(const char* name, net::Transport& transport, const std::string& address,
             double seconds) {
  auto waiter = std::make_shared<Waiter>();
  auto connection = transport.Connect(address, absl::Seconds(10), waiter);
  int64_t replies = 0;
  for (size_t bytes : {size_t{100}, size_t{1} << 20}) {
    const auto play = [&](int64_t trips) {
      const absl::Time start = absl::Now();
      waiter->Play(connection.get(), trips - 1);
      connection->Send(Make(kEcho, bytes));
      waiter->WaitFor(++replies);
      return absl::Now() - start;
    };
    const absl::Duration probe = play(100);
    const int64_t trips = 100 * (1 + static_cast<int64_t>(absl::Seconds(seconds) / probe));
    std::printf("%-10s round trip %8zu B  %8.2f us\n", name, bytes,
                absl::ToDoubleMicroseconds(play(trips)) / trips);
  }
  for (int slices : {1, 64}) {
    const double mib =
        Flood(*connection, *waiter, replies, Make(kCount, 1 << 20, slices), 32, seconds);
    std::printf("%-10s stream of 1 MiB in %2d slices  %9.2f us each, %.2f GB/s\n", name, slices,
                1e6 / mib, mib * (1 << 20) / 1e9);
  }
  const double small = Flood(*connection, *waiter, replies, Make(kCount, 100), 1000, seconds);
  std::printf("%-10s stream of 100 B messages  %8.0f /s\n", name, small);
}

std::unique_ptr<net::Transport> GrpcWith(std::shared_ptr<const net::Tls> tls) {
  net::TransportOptions options;
  options.tls = std::move(tls);
  return net::NewGrpcTransport(options);
}

// Listens until the parent closes `stop`; tells it the addresses through `tell`: of a transport as
// daemons have it, and of one with TLS.
void Serve(int tell, int stop, const std::shared_ptr<const net::Tls>& tls) {
  std::vector<std::unique_ptr<net::Transport>> transports;
  transports.push_back(net::NewHostTransport());
  transports.push_back(GrpcWith(tls));
  std::vector<std::unique_ptr<net::Listener>> listeners;
  for (const auto& transport : transports) {
    auto listener = transport->Listen("127.0.0.1:0", AcceptPeer());
    COX_CHECK(listener.ok(), listener.status().ToString());
    const std::string address = (*listener)->address() + "\n";
    COX_CHECK(write(tell, address.data(), address.size()) == static_cast<ssize_t>(address.size()));
    listeners.push_back(*std::move(listener));
  }
  char byte;
  while (read(stop, &byte, 1) > 0) {
  }
}

// Certificates that are there for this run alone.
std::shared_ptr<const net::Tls> NewTls() {
  std::string directory = (std::filesystem::temp_directory_path() / "coxswain-XXXXXX").string();
  COX_CHECK(mkdtemp(directory.data()) != nullptr);
  COX_CHECK(net::MakeCertificates(directory, net::kDefaultTlsName, absl::Hours(24)).ok());
  auto tls = net::FindTls({directory, ""});
  COX_CHECK(tls.ok(), tls.status().ToString());
  return *std::move(tls);
}

void Run(double seconds) {
  const std::shared_ptr<const net::Tls> tls = NewTls();
  int tell[2], stop[2];
  COX_CHECK(pipe(tell) == 0 && pipe(stop) == 0);
  const pid_t child = fork();  // before gRPC has any thread
  COX_CHECK(child >= 0);
  if (child == 0) {
    close(stop[1]);
    Serve(tell[1], stop[0], tls);
    std::_Exit(0);
  }
  close(stop[0]);
  const auto told = [&] {
    std::string address;
    char byte;
    while (read(tell[0], &byte, 1) == 1 && byte != '\n') address += byte;
    return address;
  };
  const std::string address = told(), address_with_tls = told();
  {
    auto transport = net::NewInProcessTransport();
    auto listener = transport->Listen("peer", AcceptPeer());
    COX_CHECK(listener.ok());
    Measure("in process", *transport, "peer", seconds);
  }
  Measure("gRPC", *net::NewGrpcTransport(), address, seconds);
  Measure("gRPC, TLS", *GrpcWith(tls), address_with_tls, seconds);
  Measure("memory", *net::NewHostTransport(), address, seconds);
  close(stop[1]);
  waitpid(child, nullptr, 0);
  std::filesystem::remove_all(tls->directory());
}

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) {
  coxswain::Run(argc > 1 ? std::atof(argv[1]) : 2);
  return 0;
}
