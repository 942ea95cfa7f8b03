// A bare stream between two processes: what it takes to bring a step's bytes there and back.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/local/child.h"
#include "runtime/net/transport.h"

namespace coxswain {

// "grpc", or "host": shared memory between processes of one host.
inline constexpr const char* kTransports[] = {"grpc", "host"};
absl::StatusOr<std::unique_ptr<net::Transport>> MakeTransport(const std::string& name);

// The other process: listens, prints "listening on HOST:PORT", and answers until its parent ends.
// `coxswain-bench stream-peer` is it. Returns the exit code.
int RunStreamPeer(const std::string& transport);

// Bytes up, bytes down.
struct RoundTrip {
  size_t up = 0, down = 0;
};

struct StreamCost {
  double ms = 0;      // of all round trips, one after the other
  double cpu_ms = 0;  // of both processes
};

class StreamBench {
 public:
  // Starts the peer, a process of this program. Errors: what starting and connecting say.
  static absl::StatusOr<std::unique_ptr<StreamBench>> Start(const std::string& transport);
  ~StreamBench();

  // The median of rounds over about `seconds`. Errors: Unavailable when the peer is gone.
  absl::StatusOr<StreamCost> Measure(const std::vector<RoundTrip>& trips, double seconds);

 private:
  class Waiter;
  StreamBench();
  absl::StatusOr<double> PeerCpuSeconds();

  local::Child child_;
  std::unique_ptr<net::Transport> transport_;
  std::shared_ptr<Waiter> waiter_;
  std::shared_ptr<net::Connection> connection_;
};

}  // namespace coxswain
