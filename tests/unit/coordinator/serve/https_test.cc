// A server whose connections are encrypted: who gets in, and what happens to its files.
#include "coordinator/serve/https.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/time/clock.h"
#include "httplib.h"
#include "runtime/base/status.h"
#include "runtime/net/certificates.h"
#include "runtime/net/tls.h"
#include "tests/testing/served_model.h"

namespace coxswain::serve {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

// The name that the certificates are for, at the address of this host.
constexpr char kName[] = "coxswain";

std::string Made(const DataFiles& files, const std::string& directory) {
  REQUIRE(net::MakeCertificates(files.Path(directory), kName, absl::Hours(24)).ok());
  return files.Path(directory);
}

HttpsFiles FilesOf(const std::string& directory) {
  return {directory + "/tls.crt", directory + "/tls.key", ""};
}

// A client that believes who is trusted in `directory`.
std::unique_ptr<httplib::SSLClient> Believing(const std::string& directory, int port,
                                              const std::string& own = "") {
  const std::string certificate = own.empty() ? "" : own + "/tls.crt";
  const std::string key = own.empty() ? "" : own + "/tls.key";
  auto client = std::make_unique<httplib::SSLClient>(kName, port, certificate, key);
  client->set_hostname_addr_map({{kName, "127.0.0.1"}});
  client->set_ca_cert_path((directory + "/ca.crt").c_str());
  client->enable_server_certificate_verification(true);
  client->set_keep_alive(true);
  return client;
}

int ConnectTo(int port) {
  const int connected = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(connected, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  return connected;
}

// A server of a model, with these files.
struct Encrypted {
  explicit Encrypted(const HttpsFiles& https, HttpOptions options = {})
      : service(served.Load(), {.name = "m", .max_rows = 100'000, .admission = {}}),
        running(&service, With(https, std::move(options))) {}
  static HttpOptions With(const HttpsFiles& https, HttpOptions options) {
    options.https = https;
    return options;
  }

  const Served served;
  ModelService service;
  const Running running;
};

TEST_CASE("serve: requests and answers of any size come over HTTPS", "[serve]") {
  const DataFiles files;
  const std::string directory = Made(files, "certificates");
  Encrypted encrypted(FilesOf(directory));
  const auto client = Believing(directory, encrypted.running.port());
  const std::string wanted = encrypted.service.Handle("POST", kPredict, kOneRow).body;
  for (int i = 0; i < 3; ++i) {  // on one connection
    const auto answer = client->Post(kPredict, kOneRow, "application/json");
    CAPTURE(answer.error());
    REQUIRE(answer);
    CHECK(answer->status == 200);
    CHECK(answer->body == wanted);
  }
  std::string rows = R"({"instances": [)";
  for (int i = 0; i < 20'000; ++i) {
    absl::StrAppend(&rows, i == 0 ? "" : ", ", R"({"n": 1, "x": "v1"})");
  }
  rows += "]}";
  const auto answer = client->Post(kPredict, rows, "application/json");
  REQUIRE(answer);
  CHECK(answer->status == 200);
  CHECK(answer->body == encrypted.service.Handle("POST", kPredict, rows).body);
  CHECK(answer->body.size() > 200'000);
  // What cannot be read is refused there, too.
  const auto refused = client->Post("/v1/models/m:predict", "{", "application/json");
  REQUIRE(refused);
  CHECK(refused->status == 400);
}

TEST_CASE("serve: who speaks no TLS gets nothing from HTTPS, and holds nobody up", "[serve]") {
  const DataFiles files;
  const std::string directory = Made(files, "certificates"), others = Made(files, "others");
  Encrypted encrypted(FilesOf(directory), {.connections = 1, .timeout = absl::Milliseconds(100)});
  httplib::Client plain("127.0.0.1", encrypted.running.port());
  CHECK_FALSE(plain.Get("/healthz"));
  // Nor does who believes another authority take the answer of this server.
  CHECK_FALSE(Believing(others, encrypted.running.port())->Get("/healthz"));
  // One who says nothing, and one who stops within the handshake, on the only connection.
  const auto silent = [&](const std::string& bytes) {
    const int socket = ConnectTo(encrypted.running.port());
    REQUIRE(send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
    return socket;
  };
  const int sockets[] = {silent(""), silent(std::string("\x16\x03\x01\x02\x00\x01", 6))};
  const auto answer = Believing(directory, encrypted.running.port())->Get("/healthz");
  REQUIRE(answer);
  CHECK(answer->body == "ok\n");
  for (const int socket : sockets) close(socket);
}

TEST_CASE("serve: a client that sends records without data loses its connection", "[serve]") {
  const DataFiles files;
  Encrypted encrypted(FilesOf(Made(files, "certificates")),
                      {.connections = 1, .timeout = absl::Milliseconds(100)});
  const int socket = ConnectTo(encrypted.running.port());
  const std::unique_ptr<SSL_CTX, net::FreeWith<SSL_CTX_free>> context(
      SSL_CTX_new(TLS_client_method()));
  const std::unique_ptr<SSL, net::FreeWith<SSL_free>> ssl(SSL_new(context.get()));
  SSL_set_fd(ssl.get(), socket);
  REQUIRE(SSL_connect(ssl.get()) == 1);
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  bool open = true;
  while (open && absl::Now() < deadline) {
    open = SSL_key_update(ssl.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1 &&
           SSL_do_handshake(ssl.get()) == 1;
  }
  CHECK_FALSE(open);
  close(socket);
}

TEST_CASE("serve: with an authority for clients, only theirs get in", "[serve]") {
  const DataFiles files;
  const std::string server = Made(files, "server"), clients = Made(files, "clients");
  HttpsFiles https = FilesOf(server);
  https.client_ca = clients + "/ca.crt";
  Encrypted encrypted(https);
  const int port = encrypted.running.port();
  CHECK_FALSE(Believing(server, port)->Get("/healthz"));
  CHECK_FALSE(Believing(server, port, server)->Get("/healthz"));
  for (int i = 0; i < 2; ++i) {
    const auto answer = Believing(server, port, clients)->Get("/healthz");
    REQUIRE(answer);
    CHECK(answer->status == 200);
  }
}

TEST_CASE("serve: a new certificate is taken without a restart, and a bad one is not", "[serve]") {
  const DataFiles files;
  const std::string used = Made(files, "used"), old = Made(files, "old"),
                    next = Made(files, "next");
  const auto replace = [&](const std::string& from) {
    for (const char* file : {"tls.key", "tls.crt"}) {
      fs::copy_file(from + "/" + file, used + "/new");
      fs::rename(used + "/new", used + "/" + file);
    }
  };
  replace(old);
  Encrypted encrypted(FilesOf(used));
  const int port = encrypted.running.port();
  const auto kept = Believing(old, port);
  REQUIRE(kept->Get("/healthz"));
  replace(next);
  CHECK(Believing(next, port)->Get("/healthz"));
  CHECK_FALSE(Believing(old, port)->Get("/healthz"));
  CHECK(kept->Get("/healthz"));  // the connection is there already
  std::ofstream(used + "/tls.crt") << "torn";
  CHECK(Believing(next, port)->Get("/healthz"));
  fs::remove(used + "/tls.key");
  CHECK(Believing(next, port)->Get("/healthz"));
  fs::remove(used + "/tls.crt");
  replace(old);
  CHECK(Believing(old, port)->Get("/healthz"));
  // One that becomes good by its rights alone.
  REQUIRE(chmod((next + "/tls.key").c_str(), 0644) == 0);
  replace(next);
  CHECK(Believing(old, port)->Get("/healthz"));
  REQUIRE(chmod((used + "/tls.key").c_str(), 0600) == 0);
  CHECK(Believing(next, port)->Get("/healthz"));
}

TEST_CASE("serve: files that make no HTTPS are a mistake that names them", "[serve]") {
  const DataFiles files;
  const std::string directory = Made(files, "certificates"), others = Made(files, "others");
  const auto told = [](const HttpsFiles& https) {
    const absl::Status status = Https::Open(https).status();
    INFO(status);
    REQUIRE_FALSE(status.ok());
    CHECK(GetDetail(status)->cause == ErrorCause::kConfiguration);
    return std::string(status.message());
  };
  const HttpsFiles good = FilesOf(directory);
  CHECK(Https::Open(good).ok());
  CHECK_THAT(told({good.certificate, others + "/tls.key", ""}),
             Contains(others + "/tls.key") && Contains(good.certificate));
  CHECK_THAT(told({files.Path("none"), good.key, ""}), Contains(files.Path("none")));
  CHECK_THAT(told({good.key, good.key, ""}), Contains(good.key) && Contains("certificate"));
  REQUIRE(mkfifo(files.Path("pipe").c_str(), 0600) == 0);
  CHECK_THAT(told({files.Path("pipe"), good.key, ""}), Contains("wanted a file"));
  CHECK_THAT(told({good.certificate, good.key, files.Write("ca", "nobody")}),
             Contains(files.Path("ca")));
  REQUIRE(chmod(good.key.c_str(), 0640 | 0004) == 0);
  CHECK_THAT(told(good), Contains(good.key) && Contains("0600"));
  const std::string old = files.Path("old");
  REQUIRE(net::MakeCertificates(old, kName, -absl::Minutes(1)).ok());
  CHECK_THAT(told(FilesOf(old)), Contains(old + "/tls.crt") && Contains("expired"));
}

}  // namespace
}  // namespace coxswain::serve
