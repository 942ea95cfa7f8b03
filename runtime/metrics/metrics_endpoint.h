// Where Prometheus fetches what a process tells of itself: GET /metrics, and nothing else.
//
// Whoever can reach the address may read; there is no password and no TLS. The number of threads is
// bounded, and so are the time that a client has and the number of clients that wait.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/metrics/family.h"

namespace coxswain::metrics {

// The flag of all programs that have an endpoint.
constexpr absl::string_view kFlag = "--metrics";

class MetricsEndpoint {
 public:
  // Called for each scrape on a thread of the endpoint's, by one at a time; scrapes that come
  // meanwhile share the next answer. It must come to an end within a few seconds, whatever it asks.
  using Collect = std::function<Families()>;

  // Listens at "HOST:PORT" or "[IPV6]:PORT"; port 0 picks one. Beside what `collect` returns there
  // is what ProcessFamilies returns.
  // Errors, naming the flag and the address: InvalidArgument for what is no address; Unavailable
  // where nobody can listen there, and why not.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Listen(const std::string& address,
                                                                 Collect collect);
  // `collect` does not run any more when this returns. Takes as long as a scrape that is under way.
  ~MetricsEndpoint();
  MetricsEndpoint(const MetricsEndpoint&) = delete;
  MetricsEndpoint& operator=(const MetricsEndpoint&) = delete;

  // With the port.
  const std::string& address() const { return address_; }

 private:
  struct Server;
  explicit MetricsEndpoint(std::unique_ptr<Server> server);

  std::unique_ptr<Server> server_;
  std::string address_;
};

}  // namespace coxswain::metrics
