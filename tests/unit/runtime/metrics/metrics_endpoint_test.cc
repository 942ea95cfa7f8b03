#include "runtime/metrics/metrics_endpoint.h"

#include <dirent.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <limits>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "runtime/metrics/process_families.h"
#include "tests/testing/http_get.h"

namespace coxswain::metrics {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

Families Nothing() { return {}; }

std::unique_ptr<MetricsEndpoint> Listen(MetricsEndpoint::Collect collect,
                                        const std::string& address = "127.0.0.1:0") {
  auto endpoint = MetricsEndpoint::Listen(address, std::move(collect));
  INFO(endpoint.status().ToString());
  REQUIRE(endpoint.ok());
  return *std::move(endpoint);
}

std::string ErrorOf(const std::string& address) {
  return MetricsEndpoint::Listen(address, Nothing).status().ToString();
}

bool HasIpv6() { return ConnectTo(Listen(Nothing, "[::1]:0")->address()).valid(); }

size_t Threads() {
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(opendir("/proc/self/task"), closedir);
  size_t threads = 0;
  while (const dirent* const entry = readdir(tasks.get())) {
    if (entry->d_name[0] != '.') ++threads;
  }
  return threads;
}

}  // namespace

TEST_CASE("an endpoint answers with counters, gauges and histograms as Prometheus reads them") {
  const auto endpoint = Listen([] {
    Families families;
    AddCounter("frames_total", "Frames that came", 3, &families);
    Family* const rows = Add(Kind::kGauge, "rows", "Rows, by variable", &families);
    AddSample({{"variable", "item"}, {"ps", "0"}}, 1.5, rows);
    AddSample({{"variable", "a \"name\" \\ of\nits own"}, {"ps", "1"}},
              std::numeric_limits<double>::infinity(), rows);
    Family* const late = Add(Kind::kHistogram, "late", "How late", &families);
    late->samples = {{{}, 9, {{0, 2}, {1, 3}}, 5}};
    Add(Kind::kGauge, "empty", "A family without samples", &families);
    return families;
  });
  const std::string text = Scrape(endpoint->address());
  CHECK_THAT(text, StartsWith("HTTP/1.1 200 OK\r\n"));
  CHECK_THAT(text, Contains("Content-Type: text/plain; charset=utf-8"));
  CHECK_THAT(text, Contains("# HELP frames_total Frames that came\n"
                            "# TYPE frames_total counter\n"
                            "frames_total 3\n"));
  CHECK_THAT(text, Contains("# TYPE rows gauge\n"
                            "rows{variable=\"item\",ps=\"0\"} 1.5\n"
                            "rows{variable=\"a \\\"name\\\" \\\\ of\\nits own\",ps=\"1\"} +Inf\n"));
  CHECK_THAT(text, Contains("# TYPE late histogram\n"
                            "late_count 5\n"
                            "late_sum 9\n"
                            "late_bucket{le=\"0\"} 2\n"
                            "late_bucket{le=\"1\"} 3\n"
                            "late_bucket{le=\"+Inf\"} 5\n"));
  CHECK_THAT(text, !Contains("empty"));
}

TEST_CASE("a label that is no UTF-8 costs one character, not the scrape") {
  const auto endpoint = Listen([] {
    Families families;
    AddSample({{"name", "caf\xe9, café"}}, 1, Add(Kind::kGauge, "info", "What it is", &families));
    return families;
  });
  CHECK_THAT(Scrape(endpoint->address()), Contains("info{name=\"caf?, café\"} 1\n"));
}

TEST_CASE("an endpoint tells of its process what Prometheus' libraries do") {
  const auto endpoint = Listen(Nothing);
  const std::string text = Scrape(endpoint->address());
  for (const char* name : {"process_cpu_seconds_total", "process_resident_memory_bytes",
                           "process_open_fds", "process_start_time_seconds"}) {
    CHECK_THAT(text, Contains(absl::StrCat("\n", name, " ")));
  }
  for (const Family& family : ProcessFamilies()) {
    INFO(family.name);
    REQUIRE(family.samples.size() == 1);
    const double value = family.samples[0].value;
    if (family.name == "process_resident_memory_bytes") CHECK(value > 1e6);
    if (family.name == "process_open_fds") CHECK((value >= 3 && value < 1e5));
    if (family.name == "process_start_time_seconds") CHECK(value > 1.5e9);
  }
}

TEST_CASE("an endpoint serves nothing but GET /metrics") {
  const auto endpoint = Listen(Nothing);
  const auto status = [&](const std::string& line) {
    return Ask(endpoint->address(), line).substr(0, 12);
  };
  CHECK(status("GET /metrics") == "HTTP/1.1 200");
  CHECK(status("GET /metrics?name=x") == "HTTP/1.1 200");
  for (const char* path : {"/", "/metrics/", "/metrics/more", "/Metrics", "/etc/passwd",
                           "/../../etc/passwd", "/metrics/../../etc/passwd", "/.htpasswd"}) {
    INFO(path);
    CHECK(status(absl::StrCat("GET ", path)) == "HTTP/1.1 404");
    CHECK(status(absl::StrCat("PUT ", path)) == "HTTP/1.1 404");
  }
  for (const char* method : {"PUT", "POST", "DELETE", "OPTIONS", "HEAD", "CONNECT", "PROPFIND"}) {
    INFO(method);
    CHECK(status(absl::StrCat(method, " /metrics")) == "HTTP/1.1 405");
  }
  CHECK_THAT(status("nonsense"), !Contains("200"));
}

TEST_CASE("an endpoint's error names the flag, the address and the reason") {
  const auto taken = Listen(Nothing);
  CHECK_THAT(ErrorOf(taken->address()),
             StartsWith("UNAVAILABLE: --metrics " + taken->address()) &&
                 Contains("cannot listen there: Address already in use"));
  CHECK_THAT(ErrorOf("192.0.2.1:9464"), StartsWith("UNAVAILABLE: --metrics 192.0.2.1:9464") &&
                                            Contains("Cannot assign requested address"));
  CHECK_THAT(ErrorOf("nobody.invalid:9464"),
             StartsWith("UNAVAILABLE: --metrics nobody.invalid:9464") &&
                 Contains("there is no IPv4 address of this name"));
  CHECK_THAT(ErrorOf("9464"), StartsWith("INVALID_ARGUMENT: --metrics: ") && Contains("\"9464\"") &&
                                  Contains("there is no port"));
  CHECK_THAT(ErrorOf("127.0.0.1:70000"),
             StartsWith("INVALID_ARGUMENT: --metrics: ") && Contains("the port is not a number"));
  CHECK_THAT(ErrorOf("127.0.0.1,0.0.0.0:80"), StartsWith("INVALID_ARGUMENT: --metrics: "));
  CHECK_THAT(ErrorOf("::1:9464"), Contains("an IPv6 address needs brackets"));
  CHECK_THAT(ErrorOf("[2001:db8::1]:9464"),
             StartsWith("UNAVAILABLE: --metrics [2001:db8::1]:9464"));
}

TEST_CASE("an endpoint listens at an IPv6 address") {
  if (!HasIpv6()) return;
  const auto endpoint = Listen(Nothing, "[::1]:0");
  CHECK_THAT(endpoint->address(), StartsWith("[::1]:") && !EndsWith(":0"));
  for (int i = 0; i < 10; ++i) {
    CHECK_THAT(Scrape(endpoint->address()), Contains("process_open_fds "));
  }
  CHECK_THAT(Ask(endpoint->address(), "GET /"), StartsWith("HTTP/1.1 404"));
  CHECK_THAT(ErrorOf(endpoint->address()), Contains("Address already in use"));
}

TEST_CASE("clients that say nothing end, and leave the endpoint to others") {
  std::vector<std::string> addresses = {"127.0.0.1:0"};
  if (HasIpv6()) addresses.emplace_back("[::1]:0");
  for (const std::string& address : addresses) {
    const auto endpoint = Listen(Nothing, address);
    const size_t threads = Threads();
    std::vector<net::UniqueFd> silent;
    for (int i = 0; i < 2; ++i) silent.push_back(ConnectTo(endpoint->address()));
    SendText(silent[0], "GET /met");
    CHECK_THAT(Scrape(endpoint->address()), Contains("process_open_fds "));
    for (const net::UniqueFd& one : silent) CHECK_THAT(ReadToEnd(one), !Contains("200 OK"));
    CHECK(Threads() <= threads);
  }
}

TEST_CASE("an endpoint has few threads, and none when it is gone") {
  const size_t before = Threads();
  {
    const auto endpoint = Listen(Nothing);
    CHECK(Threads() <= before + 4);
    std::vector<std::thread> clients;
    for (int i = 0; i < 8; ++i) {
      clients.emplace_back([&] { (void)Ask(endpoint->address(), "GET /metrics"); });
    }
    for (std::thread& client : clients) client.join();
    CHECK(Threads() <= before + 4);
  }
  CHECK(Threads() == before);
}

TEST_CASE("scrapes at once are collected one after the other") {
  std::atomic<int> running = 0, most = 0;
  const auto endpoint = Listen([&] {
    const int now = ++running;
    int known = most.load();
    while (now > known && !most.compare_exchange_weak(known, now)) continue;
    std::this_thread::yield();
    --running;
    return Families();
  });
  std::vector<std::thread> clients;
  std::atomic<int> answered = 0;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      for (int k = 0; k < 20; ++k) {
        if (absl::StrContains(Scrape(endpoint->address()), "process_open_fds ")) ++answered;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  CHECK(answered == 80);
  CHECK(most == 1);
}

TEST_CASE("an endpoint that ends waits for the scrape that is under way, and no longer") {
  auto read_by_scrapes = std::make_unique<std::atomic<int>>(0);
  absl::Notification began;
  std::atomic<bool> end = false;
  auto endpoint = Listen([&, held = read_by_scrapes.get()] {
    if (!began.HasBeenNotified()) began.Notify();
    while (!end) std::this_thread::yield();
    ++*held;  // what goes once the endpoint is gone
    return Families();
  });
  const std::string address = endpoint->address();
  std::thread client([&] { (void)Scrape(address); });
  began.WaitForNotification();
  std::thread ending([&] { endpoint.reset(); });
  end = true;
  ending.join();
  read_by_scrapes.reset();
  client.join();
  CHECK_FALSE(ConnectTo(address).valid());
}

TEST_CASE("code that collects has a stack of its own") {
  const auto endpoint = Listen([] {
    volatile char large[1 << 20];  // more than civetweb's threads have
    for (size_t i = 0; i < sizeof(large); i += 1024) large[i] = 1;
    Families families;
    AddGauge("touched", "Bytes at the end", large[0], &families);
    return families;
  });
  CHECK_THAT(Scrape(endpoint->address()), Contains("touched 1\n"));
}

}  // namespace coxswain::metrics
