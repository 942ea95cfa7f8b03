// Families as prometheus-cpp has them; what civetweb may serve, and what it logs; starting the
// endpoint and ending it.
#include "runtime/metrics/metrics_endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <exception>
#include <iterator>
#include <limits>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "CivetServer.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "civetweb.h"
#include "prometheus/collectable.h"
#include "prometheus/exposer.h"
#include "prometheus/metric_family.h"
#include "runtime/base/status.h"
#include "runtime/data/utf8.h"
#include "runtime/env/without_signals.h"
#include "runtime/metrics/collect_thread.h"
#include "runtime/metrics/ipv6_relay.h"
#include "runtime/metrics/process_families.h"
#include "runtime/net/address.h"
#include "runtime/net/unique_fd.h"

namespace coxswain::metrics {
namespace {

constexpr char kPath[] = "/metrics";
constexpr char kLoopback[] = "127.0.0.1";
constexpr absl::Duration kWakeAgain = absl::Milliseconds(20);

// A scrape with a byte that is no UTF-8 would be refused as a whole.
std::string Text(std::string text) {
  for (const char* bad = data::FindBadUtf8(text); bad != nullptr; bad = data::FindBadUtf8(text)) {
    text[static_cast<size_t>(bad - text.data())] = '?';
  }
  return text;
}

prometheus::MetricType TypeOf(Kind kind) {
  switch (kind) {
    case Kind::kCounter:
      return prometheus::MetricType::Counter;
    case Kind::kGauge:
      return prometheus::MetricType::Gauge;
    case Kind::kHistogram:
      return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

prometheus::ClientMetric ToClientMetric(Kind kind, const Sample& sample) {
  prometheus::ClientMetric metric;
  for (const Label& label : sample.labels) metric.label.push_back({label.name, Text(label.value)});
  switch (kind) {
    case Kind::kCounter:
      metric.counter.value = sample.value;
      break;
    case Kind::kGauge:
      metric.gauge.value = sample.value;
      break;
    case Kind::kHistogram:
      metric.histogram.sample_count = sample.count;
      metric.histogram.sample_sum = sample.value;
      for (const Bucket& bucket : sample.buckets) {
        metric.histogram.bucket.push_back({bucket.until_it, bucket.most});
      }
      metric.histogram.bucket.push_back({sample.count, std::numeric_limits<double>::infinity()});
      break;
  }
  return metric;
}

class Collector final : public prometheus::Collectable {
 public:
  explicit Collector(CollectThread* thread) : thread_(thread) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> all;
    for (const Family& family : thread_->Ask()) {
      if (family.samples.empty()) continue;
      prometheus::MetricFamily& one =
          all.emplace_back(prometheus::MetricFamily{family.name, family.help, {}, {}});
      one.type = TypeOf(family.kind);
      for (const Sample& sample : family.samples) {
        one.metric.push_back(ToClientMetric(family.kind, sample));
      }
    }
    return all;
  }

 private:
  CollectThread* const thread_;
};

// What civetweb said while it was started by this thread.
thread_local std::string* said = nullptr;

// It writes nothing on its own.
int TakeMessage(const mg_connection*, const char* message) {
  if (said != nullptr && said->empty()) *said = message;  // the first one has the reason
  return 1;
}

int Refuse(mg_connection* connection, int status, const char* line) {
  mg_printf(connection,
            "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n"
            "Connection: close\r\n\r\n",
            line);
  return status;
}

// 0: the request is served. The endpoint's handler would also take /metrics/anything.
int Begin(mg_connection* connection) {
  const mg_request_info* const request = mg_get_request_info(connection);
  if (request->local_uri == nullptr || std::string(request->local_uri) != kPath) {
    return Refuse(connection, 404, "404 Not Found");
  }
  if (std::string(request->request_method) == "GET") return 0;
  return Refuse(connection, 405, "405 Method Not Allowed\r\nAllow: GET");
}

// civetweb's words: "cannot bind to 127.0.0.1:80: 98 (Address already in use)".
std::string Reason(const std::string& message) {
  const size_t open = message.rfind('('), close = message.rfind(')');
  if (absl::StartsWith(message, "cannot bind") && open != std::string::npos && close > open) {
    return message.substr(open + 1, close - open - 1);
  }
  if (absl::StrContains(message, "invalid port spec"))
    return "there is no IPv4 address of this name";
  return message.empty() ? "no reason is known" : message;
}

std::vector<std::string> Options(const std::string& address) {
  return {"listening_ports",
          address,  // one address: a host has no comma
          "num_threads",
          "2",  // and one that accepts
          "connection_queue",
          "8",
          "listen_backlog",
          "8",
          "request_timeout_ms",
          "3000",  // of a client that is slow, or says nothing
          "enable_keep_alive",
          "no",  // a client that waits would keep a thread
          "enable_directory_listing",
          "no",
          "max_request_size",
          "4096"};
}

absl::StatusOr<std::unique_ptr<prometheus::Exposer>> Expose(const std::string& address) {
  CivetCallbacks callbacks;
  callbacks.log_message = TakeMessage;
  callbacks.begin_request = Begin;
  std::string message;
  said = &message;
  const env::WithoutSignals inherited;  // by its threads
  std::unique_ptr<prometheus::Exposer> exposer;
  absl::Status status;
  try {
    exposer = std::make_unique<prometheus::Exposer>(Options(address), &callbacks);
  } catch (const std::exception&) {  // its text says nothing of the reason
    status = absl::UnavailableError(absl::StrCat("cannot listen there: ", Reason(message)));
  }
  said = nullptr;
  if (!status.ok()) return status;
  return exposer;
}

// What is connected to so that the thread that accepts, which looks once a second whether it is to
// end, looks at once. Of a name it is not known.
std::optional<sockaddr_in> WakeAddress(const net::HostPort& address) {
  sockaddr_in wake = {};
  wake.sin_family = AF_INET;
  wake.sin_port = htons(static_cast<uint16_t>(address.port));
  const std::string host = address.host == "localhost" ? kLoopback : address.host;
  if (inet_pton(AF_INET, host.c_str(), &wake.sin_addr) != 1) return std::nullopt;
  return wake;
}

void Wake(const sockaddr_in& address) {
  const net::UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return;
  (void)connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
}

}  // namespace

// In the order in which they begin; they end in the opposite one.
struct MetricsEndpoint::Server {
  explicit Server(Collect collect)
      : thread([collect = std::move(collect)] {
          Families families = collect();
          Families own = ProcessFamilies();
          families.insert(families.end(), std::make_move_iterator(own.begin()),
                          std::make_move_iterator(own.end()));
          return families;
        }),
        collector(std::make_shared<Collector>(&thread)) {}

  CollectThread thread;
  std::shared_ptr<Collector> collector;
  std::unique_ptr<prometheus::Exposer> exposer;
  std::unique_ptr<Ipv6Relay> relay;  // null: of IPv4
  std::optional<sockaddr_in> wake;
};

MetricsEndpoint::MetricsEndpoint(std::unique_ptr<Server> server) : server_(std::move(server)) {}

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Listen(const std::string& address,
                                                                         Collect collect) {
  const std::string where = absl::StrCat(kFlag, " ", address);
  const absl::StatusOr<net::HostPort> wanted = net::ParseHostPort(address);
  if (!wanted.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(kFlag, ": ", wanted.status().message()));
  }
  const bool v6 = absl::StrContains(wanted->host, ':');
  net::HostPort own = v6 ? net::HostPort{kLoopback, 0} : *wanted;
  auto server = std::make_unique<Server>(std::move(collect));
  auto exposer = Expose(net::FormatHostPort(own));
  if (!exposer.ok()) return Annotate(exposer.status(), where);
  server->exposer = *std::move(exposer);
  const std::vector<int> ports = server->exposer->GetListeningPorts();
  if (ports.empty()) return absl::UnavailableError(absl::StrCat(where, ": it has no port"));
  own.port = ports[0];
  server->wake = WakeAddress(own);
  server->exposer->RegisterCollectable(server->collector);
  std::unique_ptr<MetricsEndpoint> endpoint(new MetricsEndpoint(std::move(server)));
  if (v6) {
    auto relay = Ipv6Relay::Listen(*wanted, own.port);
    if (!relay.ok()) return Annotate(relay.status(), where);
    endpoint->server_->relay = *std::move(relay);
    own = {wanted->host, endpoint->server_->relay->port()};
  }
  endpoint->address_ = net::FormatHostPort(own);
  return endpoint;
}

MetricsEndpoint::~MetricsEndpoint() {
  server_->relay = nullptr;
  server_->thread.Stop();
  absl::Notification ended;
  std::thread waker([&] {
    do {
      if (server_->wake) Wake(*server_->wake);
    } while (!ended.WaitForNotificationWithTimeout(kWakeAgain));
  });
  server_->exposer = nullptr;
  ended.Notify();
  waker.join();
}

}  // namespace coxswain::metrics
