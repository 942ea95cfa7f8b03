// Clients that keep their connections, clients that send nothing, and the end of a server.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "httplib.h"
#include "tests/testing/served_model.h"

namespace coxswain::serve {
namespace {

using Catch::Matchers::Contains;

constexpr char kHealth[] = "GET /healthz HTTP/1.1\r\n\r\n";

// A client by what it sends. A read that gets nothing for a minute fails.
class RawClient {
 public:
  explicit RawClient(int port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience = {60, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    REQUIRE(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  }
  ~RawClient() { close(socket_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void Send(const std::string& text) const {
    CHECK(send(socket_, text.data(), text.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(text.size()));
  }
  // Up to `end`, or to the end of the connection; empty: it was reset, or nothing came.
  std::string Read(const std::string& end = "") const {
    std::string text, some(4096, '\0');
    while (end.empty() || !absl::StrContains(text, end)) {
      const ssize_t got = recv(socket_, some.data(), some.size(), 0);
      if (got < 0) return "";
      if (got == 0) break;
      text.append(some, 0, static_cast<size_t>(got));
    }
    return text;
  }
  // A request on a connection that stays.
  std::string Ask(const std::string& text) const {
    Send(text);
    return Read("ok\n");
  }

 private:
  const int socket_;
};

struct Small : Served {
  ModelService service{Load(), {.name = "m", .max_rows = 100, .admission = {.waiting = 1000}}};
};

TEST_CASE("serve: clients that keep their connections hold nobody up, and keep them", "[serve]") {
  Small small;
  const Running running(&small.service,
                        {.connections = 1, .timeout = absl::Hours(1), .request = absl::Hours(1)});
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(std::make_unique<RawClient>(running.port()));
    CHECK_THAT(clients.back()->Ask(kHealth), Contains(" 200 "));
  }
  for (const auto& client : clients) CHECK_THAT(client->Ask(kHealth), Contains(" 200 "));
}

TEST_CASE("serve: more busy clients than are served at once take turns", "[serve]") {
  Small small;
  const Running running(&small.service,
                        {.connections = 1, .timeout = absl::Hours(1), .request = absl::Hours(1)});
  std::vector<int> answered(6, 0);
  std::vector<std::thread> threads;
  for (int& mine : answered) {
    threads.emplace_back([&mine, port = running.port()] {
      httplib::Client client("127.0.0.1", port);
      client.set_keep_alive(true);
      for (int i = 0; i < 50; ++i) {
        const auto answer = client.Post(kPredict, kOneRow, "application/json");
        mine += answer && answer->status == 200;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(answered == std::vector<int>(6, 50));
  // Nor does one that has sent many requests at once have the thread for all of them.
  const RawClient eager(running.port()), other(running.port());
  std::string many;
  for (int i = 0; i < 100; ++i) many += kHealth;
  eager.Send(many);
  CHECK_THAT(other.Ask(kHealth), Contains(" 200 "));
}

TEST_CASE("serve: the connection that is silent longest ends when there are too many", "[serve]") {
  Small small;
  const Running running(
      &small.service,
      {.connections = 1, .waiting = 2, .timeout = absl::Hours(1), .request = absl::Hours(1)});
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 8; ++i) silent.push_back(std::make_unique<RawClient>(running.port()));
  const RawClient client(running.port());
  CHECK_THAT(client.Ask(kHealth), Contains(" 200 "));
  CHECK(silent.front()->Read().empty());
}

TEST_CASE("serve: a silent connection ends after the time-out, and not before", "[serve]") {
  Small small;
  const Running running(&small.service, {.connections = 1, .timeout = absl::Milliseconds(1)});
  const RawClient client(running.port());
  CHECK(client.Read().empty());  // its end
}

TEST_CASE("serve: what was sent before the server is stopped is answered", "[serve]") {
  Small small;
  auto running = std::make_unique<Running>(&small.service, HttpOptions{.connections = 1});
  const RawClient kept(running->port());
  CHECK_THAT(kept.Ask(kHealth), Contains("Keep-Alive"));
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 40; ++i) {
    clients.push_back(std::make_unique<RawClient>(running->port()));
    clients.back()->Send(kHealth);
  }
  kept.Send(kHealth);
  running.reset();
  CHECK_THAT(kept.Read(), Contains(" 200 "));
  for (const auto& client : clients) CHECK_THAT(client->Read(), Contains(" 200 "));
}

TEST_CASE("serve: what waits in the backlog when the server is stopped is answered", "[serve]") {
  Small small;
  HttpOptions options;
  options.port = 0;
  const auto server = Must(HttpServer::Listen(&small.service, options));
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<RawClient>(server->port()));
    clients.back()->Send(kHealth);
  }
  server->Stop();
  server->Serve();
  for (const auto& client : clients) {
    CHECK_THAT(client->Read(), Contains(" 200 ") && Contains("Connection: close"));
  }
}

TEST_CASE("serve: while it drains, new connections are answered, and see that it is not ready",
          "[serve]") {
  Small small;
  HttpOptions options;
  options.port = 0;
  options.drain = absl::Hours(1);
  const auto server = Must(HttpServer::Listen(&small.service, options));
  std::thread serving([&] { server->Serve(); });
  small.service.StartDraining();
  server->Stop();
  for (int i = 0; i < 3; ++i) {
    httplib::Client client("127.0.0.1", server->port());
    client.set_keep_alive(true);
    const auto ready = client.Get("/readyz");
    REQUIRE(ready);
    CHECK(ready->status == 503);
    CHECK(ready->get_header_value("Connection") == "close");
    const auto answer = client.Post(kPredict, kOneRow, "application/json");
    REQUIRE(answer);
    CHECK(answer->status == 200);
  }
  server->Stop();  // no more of that
  serving.join();
  CHECK_FALSE(httplib::Client("127.0.0.1", server->port()).Get("/healthz"));
}

TEST_CASE("serve: answers are counted by their status, whoever gives them", "[serve]") {
  Small small;
  const Running running(&small.service, {.max_body_bytes = 1000});
  httplib::Client client("127.0.0.1", running.port());
  const auto post = [&](const std::string& body) {
    const auto answer = client.Post(kPredict, body, "application/json");
    return answer ? answer->status : 0;
  };
  CHECK(post(kOneRow) == 200);
  CHECK(post("{}") == 400);
  CHECK(post(std::string(2000, ' ')) == 413);
  CHECK(post(std::string(2000, ' ')) == 413);
  const RawClient raw(running.port());
  raw.Send(std::string(70'000, 'G'));
  CHECK_THAT(raw.Read(), Contains(" 431 "));
  small.service.CountReloadFailure();
  const std::string metrics = client.Get("/metrics")->body;
  CHECK_THAT(metrics, Contains("coxswain_serve_answers_total{status=\"200\"} 1\n") &&
                          Contains("coxswain_serve_answers_total{status=\"400\"} 1\n") &&
                          Contains("coxswain_serve_answers_total{status=\"413\"} 2\n") &&
                          Contains("coxswain_serve_answers_total{status=\"431\"} 1\n") &&
                          Contains("coxswain_serve_requests_total{outcome=\"done\"} 1\n") &&
                          Contains("coxswain_serve_requests_total{outcome=\"wrong\"} 1\n") &&
                          Contains("coxswain_serve_reload_failures_total 1\n"));
}

}  // namespace
}  // namespace coxswain::serve
