// What a server answers: without sockets, and over them.
#include "coordinator/serve/model_service.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "httplib.h"
#include "nlohmann/json.hpp"
#include "tests/testing/served_model.h"
#include "tests/testing/zlib_bytes.h"

namespace coxswain::serve {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using nlohmann::json;

TEST_CASE("serve: a request gets what the model's evaluation said", "[serve]") {
  const Served served;
  ModelService service(served.Load(), {.name = "m", .max_rows = 100, .admission = {}});
  json instances = json::array();
  for (int i = 0; i < 60; ++i) {
    instances.push_back({{"n", i % 10}, {"x", absl::StrCat("v", i % 3)}});
  }
  const Answer answer = service.Handle("POST", kPredict, json{{"instances", instances}}.dump());
  INFO(answer.body);
  REQUIRE(answer.status == 200);
  const json predictions = json::parse(answer.body)["predictions"];
  REQUIRE(predictions.size() == served.saved.predictions.size());
  for (size_t i = 0; i < predictions.size(); ++i) {
    CHECK(predictions[i]["probability"].get<double>() ==
          Approx(served.saved.predictions[i]).margin(1e-6));
  }
}

TEST_CASE("serve: status, metadata, health and metrics", "[serve]") {
  const Served served;
  ModelService service(served.Load(), {.name = "m", .max_rows = 100, .admission = {}});
  const auto get = [&](const std::string& path, int status = 200) {
    const Answer answer = service.Handle("GET", path, "");
    CAPTURE(path, answer.body);
    CHECK(answer.status == status);
    return answer.body;
  };
  const json status = json::parse(get("/v1/models/m"));
  CHECK(status["model_version_status"][0]["state"] == "AVAILABLE");
  CHECK(status["model_version_status"][0]["version"] == "0");
  CHECK(status["name"] == "m");  // as KServe's clients ask
  CHECK(status["ready"] == true);
  CHECK(get("/v1/models/m/versions/0") == get("/v1/models/m"));
  CHECK(json::parse(get("/v1/models"))["models"][0] == "m");
  const json metadata = json::parse(get("/v1/models/m/metadata"));
  const json signature = metadata["metadata"]["signature_def"]["signature_def"]["serving_default"];
  CHECK(signature["inputs"]["n"]["dtype"] == "DT_DOUBLE");
  CHECK(signature["inputs"]["x"]["dtype"] == "DT_STRING");
  CHECK(signature["outputs"].contains("probability"));
  get("/healthz");
  get("/readyz");
  for (const char* wrong : {"/", "/v1", "/v1/models/", "/v1/models/other",
                            "/v1/models/m/versions/7", "/v1/models/m:classify", "/v1/models/m/"}) {
    CHECK(json::parse(get(wrong, 404)).contains("error"));
  }
  CHECK(json::parse(get(kPredict, 405))["error"] == "wanted POST, found GET");
  CHECK(service.Handle("POST", "/healthz", "").status == 405);

  CHECK(service.Handle("POST", kPredict, kOneRow).status == 200);
  CHECK(service.Handle("POST", kPredict, "{}").status == 400);
  CHECK_THAT(get("/metrics"),
             Contains("coxswain_serve_requests_total{outcome=\"done\"} 1\n") &&
                 Contains("coxswain_serve_requests_total{outcome=\"wrong\"} 1\n") &&
                 Contains("coxswain_serve_rows_total 1\n") && Contains("le=\"+Inf\"} 1\n"));
  service.StartDraining();
  CHECK(json::parse(get("/readyz", 503)).contains("error"));
  get("/healthz");
  CHECK(service.Handle("POST", kPredict, kOneRow).status == 200);
}

TEST_CASE("serve: what a model has no choice of is not asked for the best few", "[serve]") {
  const Served served;
  ModelService service(served.Load(), {.name = "m", .max_rows = 100, .admission = {}});
  const Answer refused =
      service.Handle("POST", kPredict, R"({"instances": [{"n": 1, "x": "v1"}], "top": 3})");
  CHECK(refused.status == 400);
  CHECK_THAT(refused.body, Contains("top: this model says a number of each row"));
}

TEST_CASE("serve: a row that cannot be predicted is called as it is in the request", "[serve]") {
  const Served served;
  ModelService service(served.Load(), {.name = "m", .max_rows = 100, .admission = {}});
  const auto said = [&](const std::string& body) {
    const Answer answer = service.Handle("POST", kPredict, body);
    CHECK(answer.status == 400);
    return json::parse(answer.body)["error"].get<std::string>();
  };
  CHECK_THAT(said(R"({"instances": [{"n": 1, "x": "v1"}, {"n": "one", "x": "v1"}]})"),
             StartsWith("instances[1]: column \"n\""));
  CHECK_THAT(said(R"({"inputs": {"n": [1, "one"], "x": ["v1", "v1"]}})"),
             StartsWith("inputs, row 1: column \"n\""));
}

TEST_CASE("serve: what is too much is refused", "[serve]") {
  const Served served;
  ModelService service(served.Load(), {.name = "m", .max_rows = 1, .admission = {.at_once = 0}});
  const Answer busy = service.Handle("POST", kPredict, kOneRow);
  CHECK(busy.status == 429);
  CHECK_THAT(busy.body, Contains("too many requests"));
  ModelService small(served.Load(), {.name = "m", .max_rows = 1, .admission = {}});
  CHECK(small.Handle("POST", kPredict, R"({"instances": [{}, {}]})").status == 413);
}

TEST_CASE("serve: who waits is let in when a place is free, or loses patience", "[serve]") {
  Admission admission({.at_once = 1, .waiting = 1, .patience = absl::Hours(1)});
  absl::Notification inside;
  std::thread waiter;
  {
    const Admission::Place first = admission.Enter();
    REQUIRE(first);
    waiter = std::thread([&] {
      const Admission::Place second = admission.Enter();
      if (second) inside.Notify();
    });
  }
  waiter.join();
  CHECK(inside.HasBeenNotified());
  Admission impatient({.at_once = 1, .waiting = 1, .patience = absl::ZeroDuration()});
  const Admission::Place held = impatient.Enter();
  CHECK_FALSE(impatient.Enter());
}

TEST_CASE("serve: a model is replaced between two requests", "[serve]") {
  const Served served;
  ModelService service(served.Load(), {.name = "m", .max_rows = 100, .admission = {}});
  const std::string before = service.Handle("POST", kPredict, kOneRow).body;
  service.Replace(Must(LoadServed(served.saved.directory)));
  CHECK(service.Handle("POST", kPredict, kOneRow).body == before);
}

TEST_CASE("serve: requests come over HTTP, and refusals are JSON", "[serve]") {
  const Served served;
  ModelService service(served.Load(), {.name = "m", .max_rows = 100, .admission = {}});
  const std::string wanted = service.Handle("POST", kPredict, kOneRow).body;
  const Running running(&service, {.max_body_bytes = 1000});
  httplib::Client client("127.0.0.1", running.port());
  for (int i = 0; i < 3; ++i) {  // on one connection
    const auto answer = client.Post(kPredict, kOneRow, "application/json");
    REQUIRE(answer);
    CHECK(answer->status == 200);
    CHECK(answer->body == wanted);
    CHECK(answer->get_header_value("Content-Type") == "application/json");
  }
  const auto large = client.Post(kPredict, std::string(2000, ' '), "application/json");
  REQUIRE(large);
  CHECK(large->status == 413);
  CHECK(json::parse(large->body).contains("error"));
  const auto other = client.Delete("/v1/models/m");
  REQUIRE(other);
  CHECK(other->status == 405);
  CHECK(client.Get("/healthz")->body == "ok\n");
  CHECK(client.Get("/v1/models/m:predict")->status == 405);
}

// A client by the bytes that it sends.
class SlowClient {
 public:
  explicit SlowClient(int port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  }
  ~SlowClient() { close(socket_); }
  // Sends the text and then `more` again and again, until the server answers or ends it.
  std::string SendUntilAnswered(const std::string& text, char more) {
    send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
    pollfd waiting{socket_, POLLIN, 0};
    while (poll(&waiting, 1, /*milliseconds=*/1) == 0) send(socket_, &more, 1, MSG_NOSIGNAL);
    std::string answer, some(4096, '\0');
    for (ssize_t got = 1; got > 0;) {  // to the end of the connection
      got = recv(socket_, some.data(), some.size(), 0);
      if (got > 0) answer.append(some, 0, static_cast<size_t>(got));
    }
    return answer;
  }

 private:
  const int socket_;
};

TEST_CASE("serve: a client that sends a byte now and then loses its connection to others",
          "[serve]") {
  const Served served;
  ModelService service(served.Load(), {.name = "m", .max_rows = 100, .admission = {}});
  // It never pauses long; only the whole request takes too long.
  const Running running(
      &service, {.connections = 1, .timeout = absl::Hours(1), .request = absl::Milliseconds(20)});
  {
    SlowClient slow(running.port());
    const std::string answer = slow.SendUntilAnswered("GET /healthz HTTP/1.1\r\nX: ", 'x');
    CHECK_THAT(answer, Contains("408") && Contains("took too long"));
  }
  {
    SlowClient slow(running.port());  // not even its first line
    CHECK_THAT(slow.SendUntilAnswered("GET /", 'x'), Contains("408") && Contains("took too long"));
  }
  {
    SlowClient slow(running.port());
    const std::string answer = slow.SendUntilAnswered(
        absl::StrCat("POST ", kPredict, " HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n"), ' ');
    CHECK_THAT(answer, Contains("408") && Contains("took too long"));
  }
  // The one thread is free again.
  httplib::Client client("127.0.0.1", running.port());
  const auto answer = client.Get("/healthz");
  REQUIRE(answer);
  CHECK(answer->status == 200);
}

TEST_CASE("serve: a body is bounded however it is sent", "[serve]") {
  const Served served;
  ModelService service(served.Load(), {.name = "m", .max_rows = 100, .admission = {}});
  const std::string wanted = service.Handle("POST", kPredict, kOneRow).body;
  const Running running(&service, {.max_body_bytes = 1000});
  const auto post = [&](const std::string& headers, const std::string& body, char more) {
    SlowClient client(running.port());
    return client.SendUntilAnswered(
        absl::StrCat("POST ", kPredict, " HTTP/1.1\r\n", headers, "\r\n", body), more);
  };
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  CHECK_THAT(post(chunked, absl::StrCat("3e8\r\n", std::string(1000, ' '), "\r\n1\r\n \r\n"), ' '),
             Contains("413") && Contains("larger than the server takes"));
  // A line between chunks that never ends, and headers that do not.
  CHECK_THAT(post(chunked, absl::StrCat("1;", std::string(80'000, 'x')), 'x'), Contains("413"));
  CHECK_THAT(post(absl::StrCat("X: ", std::string(70'000, 'x')), "", 'x'), Contains("431"));
  CHECK_THAT(SlowClient(running.port()).SendUntilAnswered(std::string(70'000, 'G'), 'G'),
             Contains("431"));
  // No length, no chunks: no body, and not one that lasts as long as the connection.
  CHECK_THAT(post("", "", '\n'), Contains(" 400 "));
  CHECK_THAT(
      post("Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 3\r\n", "--x", '-'),
      Contains(" 400 "));

  httplib::Client client("127.0.0.1", running.port());
  client.set_compress(true);
  const auto unpacked = client.Post(kPredict, std::string(1'000'000, ' '), "application/json");
  REQUIRE(unpacked);
  CHECK(unpacked->status == 413);
  const auto packed = client.Post(kPredict, kOneRow, "application/json");
  REQUIRE(packed);
  CHECK(packed->status == 200);
  CHECK(packed->body == wanted);
}

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

// A proxy in front takes them for a body, and would give the second answer to its next client.
TEST_CASE("serve: what follows a request that has no body to read is no request", "[serve]") {
  const Served served;
  ModelService service(served.Load(), {.name = "m", .max_rows = 100, .admission = {}});
  const Running running(&service, {.timeout = absl::Seconds(5)});
  const std::string hidden = "GET /v1/models/m HTTP/1.1\r\n\r\n";
  const auto answers = [&](const std::string& head, const std::string& rest) {
    const std::string text =
        SlowClient(running.port()).SendUntilAnswered(absl::StrCat(head, "\r\n\r\n", rest), ' ');
    INFO(head << ": " << text);
    CHECK_THAT(text, !Contains("model_version_status"));
    CHECK(Count(text, "Connection: close\r\n") == 1);
    CHECK(Count(text, "Keep-Alive") == 0);
    return Count(text, "HTTP/1.1 ");
  };
  const std::string length = absl::StrCat("Content-Length: ", hidden.size());
  for (const char* method : {"GET", "HEAD", "OPTIONS"}) {
    CHECK(answers(absl::StrCat(method, " /healthz HTTP/1.1\r\n", length), hidden) == 1);
    CHECK(answers(absl::StrCat(method, " /healthz HTTP/1.1\r\nTransfer-Encoding: chunked"),
                  hidden) == 1);
  }
  const std::string post = absl::StrCat("POST ", kPredict, " HTTP/1.1\r\n");
  CHECK(answers(absl::StrCat(post, "Content-Length: 0\r\n", length), hidden) == 1);
  CHECK(answers(absl::StrCat(post, length, "\r\nTransfer-Encoding: chunked"),
                absl::StrCat("0\r\n\r\n", hidden)) == 1);
  // The library takes each of them for chunks.
  const std::string row = kOneRow, size = absl::StrCat(absl::Hex(row.size())), end = "0\r\n\r\n";
  for (const std::string& body : {absl::StrCat(size, "\r\n", row, "\r\n", end),
                                  absl::StrCat(size, "\r\n", row, "XX\r\n", end),
                                  absl::StrCat("0x", size, "\r\n", row, "\r\n", end),
                                  absl::StrCat(" +", size, " junk\r\n", row, "\r\n", end),
                                  absl::StrCat(size, ";\n", row, "\r\n", end),
                                  absl::StrCat(size, "\r\n", row, "\r\n0zz\r\n\r\n")}) {
    CHECK(answers(absl::StrCat(post, "Transfer-Encoding: chunked"), absl::StrCat(body, hidden)) ==
          1);
  }
}

TEST_CASE("serve: a request without a length has no body, and the next one is answered",
          "[serve]") {
  const Served served;
  ModelService service(served.Load(), {.name = "m", .max_rows = 100, .admission = {}});
  const Running running(&service, {.timeout = absl::Seconds(60), .request = absl::Seconds(60)});
  const std::string last = "GET /v1/models/m HTTP/1.1\r\nConnection: close\r\n\r\n";
  for (const std::string& path : {std::string("/%0a"), std::string("/%0d/x"), std::string(kPredict),
                                  std::string("/"), absl::StrCat("/", std::string(8'000, 'x'))}) {
    for (const char* method : {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}) {
      const std::string text =
          SlowClient(running.port())
              .SendUntilAnswered(absl::StrCat(method, " ", path, " HTTP/1.1\r\n\r\n", last), ' ');
      INFO(method << " " << path << ": " << text);
      CHECK(text.rfind("HTTP/1.1 4") == 0);
      CHECK(Count(text, "HTTP/1.1 ") == 2);
      CHECK_THAT(text, Contains("model_version_status"));
    }
  }
}

// The answer to `head` and what follows it; checks that there is one, and that the connection ends.
json RefusedByOneAnswer(int port, const std::string& head, const std::string& status) {
  const std::string hidden = "GET /v1/models/m HTTP/1.1\r\n\r\n";
  const std::string text =
      SlowClient(port).SendUntilAnswered(absl::StrCat(head, "\r\n\r\n", hidden), ' ');
  INFO(head << ": " << text);
  CHECK_THAT(text, Contains(absl::StrCat("HTTP/1.1 ", status, " ")) &&
                       Contains("Connection: close\r\n") && !Contains("model_version_status"));
  CHECK(text.rfind("HTTP/1.1 4") == 0);
  const size_t body = text.find("\r\n\r\n");
  REQUIRE(body != std::string::npos);
  return json::parse(text.substr(body))["error"];
}

TEST_CASE("serve: a request whose end is not clear is refused, and its connection ends",
          "[serve]") {
  const Served served;
  ModelService service(served.Load(), {.name = "m", .max_rows = 100, .admission = {}});
  const Running running(&service, {.timeout = absl::Seconds(60), .request = absl::Seconds(60)});
  const std::string post = absl::StrCat("POST ", kPredict, " HTTP/1.1\r\n");
  for (const auto& [headers, says] : std::vector<std::pair<std::string, std::string>>{
           {"Content-Length: abc", "wanted a number of bytes, found \"abc\""},
           {"Content-Length: -5", "found \"-5\""},
           {"Content-Length: +5", "found \"+5\""},
           {"Content-Length: 0x5", "found \"0x5\""},
           {"Content-Length: %35", "found \"%35\""},
           {"Content-Length: 5, 5", "found \"5, 5\""},
           {"Content-Length:", "found \"\""},
           {"Content-Length: 18446744073709551616", "wanted a number of bytes"},
           {"Content-Length: \v5", "wanted a number of bytes"},
           {"Content-Length: 3\r\nContent-Length: 4", "Content-Length more than once: 3, 4"},
           {"Content-Length: 3\r\nContent-Length: 3", "Content-Length more than once: 3, 3"},
           {"Transfer-Encoding: \vchunked", "wanted chunked"},
           {"Transfer-Encoding: chunked\f", "wanted chunked"},
           {"Content-Length: 3\r\nTransfer-Encoding: chunked", "where it ends is not clear"},
           {"Transfer-Encoding: gzip, chunked", "wanted chunked, and nothing else"},
           {"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "wanted chunked"},
           {"Content-Length : 3", "wanted a header"},
           {" Content-Length: 3", "wanted a header"},
           {"Content-Length 3", "wanted a header"},
           {"X: y\nContent-Length: 3", "wanted a header"}}) {
    CAPTURE(headers);
    CHECK_THAT(RefusedByOneAnswer(running.port(), post + headers, "400"), Contains(says));
  }
  for (const char* line :
       {"GARBAGE", "GARBAGE\r\nGARBAGE", "GET /healthz", "GET /healthz HTTP/9"}) {
    CHECK_THAT(RefusedByOneAnswer(running.port(), line, "400"), Contains("HTTP/1.1"));
  }
  CHECK_THAT(RefusedByOneAnswer(running.port(),
                                absl::StrCat("POST ", kPredict,
                                             " HTTP/1.0\r\nConnection: Keep-Alive\r\n"
                                             "Transfer-Encoding: chunked"),
                                "400"),
             Contains("HTTP/1.0"));
  for (const char* method : {"OPTIONS", "TRACE", "CONNECT", "PRI"}) {
    CHECK(RefusedByOneAnswer(running.port(), absl::StrCat(method, " / HTTP/1.1"), "405") ==
          absl::StrCat("wanted GET or POST, found ", method));
  }
}

TEST_CASE("serve: a body that is too large or packed in another way is told with what is taken",
          "[serve]") {
  const Served served;
  ModelService service(served.Load(), {.name = "m", .max_rows = 100, .admission = {}});
  const Running running(&service, {.max_body_bytes = 1000});
  httplib::Client client("127.0.0.1", running.port());
  const auto said = [&](const std::string& encoding, const std::string& body, int status) {
    const auto answer =
        client.Post(kPredict, {{"Content-Encoding", encoding}}, body, "application/json");
    REQUIRE(answer);
    INFO(answer->body);
    CHECK(answer->status == status);
    return json::parse(answer->body)["error"].get<std::string>();
  };
  CHECK_THAT(said("identity", std::string(2000, ' '), 413),
             Contains("1000 bytes") && Contains("--max-body"));
  CHECK_THAT(said("gzip", "this is no gzip", 400), Contains("cannot be unpacked as gzip"));
  CHECK_THAT(said("br", "this is no brotli", 400), Contains("cannot be unpacked as br"));
  CHECK_THAT(said("zstd", kOneRow, 415),
             Contains("wanted gzip, deflate or br") && Contains("\"zstd\""));
  const std::string packed = ZlibBytes(kOneRow);
  const auto deflated =
      client.Post(kPredict, {{"Content-Encoding", "Deflate"}}, packed, "application/json");
  REQUIRE(deflated);
  CHECK(deflated->status == 200);
  for (const size_t cut : {size_t{1}, size_t{4}, packed.size() / 2, packed.size()}) {
    CHECK_THAT(said("deflate", packed.substr(0, packed.size() - cut), 400),
               Contains("cannot be unpacked as deflate") && Contains("cut off"));
  }
  std::string gzip;
  const std::string row = kOneRow;
  httplib::detail::gzip_compressor().compress(row.data(), row.size(), /*last=*/true,
                                              [&](const char* bytes, size_t size) {
                                                gzip.append(bytes, size);
                                                return true;
                                              });
  for (const size_t cut : {1, 6, 8}) {  // its checksum and its length are the last 8 bytes
    CHECK_THAT(said("gzip", gzip.substr(0, gzip.size() - cut), 400),
               Contains("cannot be unpacked as gzip"));
  }
  CHECK_THAT(said("deflate", packed + "x", 400), Contains("cannot be unpacked as deflate"));
  std::string changed = packed;
  changed.back() ^= 1;  // in the checksum
  CHECK_THAT(said("deflate", changed, 400), Contains("cannot be unpacked as deflate"));
  // Pieces of 16 KiB that are just full.
  CHECK_THAT(said("deflate", ZlibBytes(std::string(32 << 10, ' ')), 413), Contains("1000 bytes"));
  const auto twice =
      client.Post(kPredict, {{"Content-Encoding", "identity"}, {"Content-Encoding", "zstd"}},
                  kOneRow, "application/json");
  REQUIRE(twice);
  CHECK(twice->status == 415);
  CHECK_THAT(twice->body, Contains("identity, zstd"));
}

TEST_CASE("serve: an answer is whole, whatever ranges of it are wanted", "[serve]") {
  const Served served;
  ModelService service(served.Load(), {.name = "m", .max_rows = 100, .admission = {}});
  const Running running(&service, {});
  httplib::Client client("127.0.0.1", running.port());
  for (const char* ranges : {"bytes=0-9", "bytes=0-9,0-9,-5"}) {
    const auto answer = client.Post(kPredict, {{"Range", ranges}}, kOneRow, "application/json");
    REQUIRE(answer);
    CHECK(answer->status == 200);
    CHECK(answer->body == service.Handle("POST", kPredict, kOneRow).body);
  }
}

TEST_CASE("serve: a model whose files somebody cuts short is told of, until there is another",
          "[serve]") {
  const Served served;
  ModelService service(Must(LoadServed(served.saved.directory)),
                       {.name = "m", .max_rows = 100, .admission = {}});
  REQUIRE(service.Handle("POST", kPredict, kOneRow).status == 200);
  std::map<std::string, std::string> content;
  for (const auto& entry : std::filesystem::directory_iterator(served.saved.directory)) {
    if (entry.path().extension() != ".safetensors") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    content[entry.path()].assign(std::istreambuf_iterator<char>(file), {});
    std::filesystem::resize_file(entry.path(), 0);
  }
  const Answer lost = service.Handle("POST", kPredict, kOneRow);
  CHECK(lost.status == 500);
  CHECK_THAT(lost.body, Contains("cut short"));
  const Answer ready = service.Handle("GET", "/readyz", "");
  CHECK(ready.status == 503);
  CHECK_THAT(ready.body, Contains("cut short"));
  for (const auto& [path, bytes] : content) std::ofstream(path, std::ios::binary) << bytes;
  service.Replace(Must(LoadServed(served.saved.directory)));
  CHECK(service.Handle("POST", kPredict, kOneRow).status == 200);
  CHECK(service.Handle("GET", "/readyz", "").status == 200);
}

TEST_CASE("serve: many clients at once are all answered", "[serve]") {
  const Served served;
  ModelService service(served.Load(),
                       {.name = "m",
                        .max_rows = 100,
                        .admission = {.at_once = 2, .waiting = 100, .patience = absl::Hours(1)}});
  const std::string wanted = service.Handle("POST", kPredict, kOneRow).body;
  const Running running(&service, {.connections = 4});
  std::vector<int> good(8, 0);
  std::vector<std::thread> clients;
  for (int& mine : good) {
    clients.emplace_back([&mine, &wanted, port = running.port()] {
      for (int i = 0; i < 20; ++i) {
        httplib::Client client("127.0.0.1", port);
        const auto answer = client.Post(kPredict, kOneRow, "application/json");
        mine += answer && answer->status == 200 && answer->body == wanted;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  CHECK(good == std::vector<int>(8, 20));
}

TEST_CASE("serve: a process with more than 1,024 files open answers", "[serve]") {
  const Served served;
  ModelService service(served.Load(), {.name = "m", .max_rows = 100, .admission = {}});
  const Running running(&service, {});
  rlimit files{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &files) == 0);
  if (files.rlim_max < 1'200) {
    WARN("not tested: this process may not open 1,200 files");
    return;
  }
  const rlimit before = files;
  files.rlim_cur = std::max<rlim_t>(files.rlim_cur, 1'200);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &files) == 0);
  std::vector<int> opened;
  do {
    opened.push_back(dup(STDERR_FILENO));
    REQUIRE(opened.back() >= 0);
  } while (opened.back() < 1'024);
  SlowClient raw(running.port());
  CHECK_THAT(raw.SendUntilAnswered("GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n", '\n'),
             Contains(" 200 "));
  for (const int descriptor : opened) close(descriptor);
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_CASE("serve: an address that is in use is told", "[serve]") {
  const Served served;
  ModelService service(served.Load(), {.name = "m", .max_rows = 100, .admission = {}});
  const Running running(&service, {});
  HttpOptions same;
  same.host = "203.0.113.1";  // of nobody, by RFC 5737
  CHECK(absl::IsUnavailable(HttpServer::Listen(&service, same).status()));
  HttpOptions nowhere;
  nowhere.host = "no..name";  // which no name server is asked for
  const absl::Status unknown = HttpServer::Listen(&service, nowhere).status();
  CHECK(absl::IsUnavailable(unknown));
  CHECK_THAT(std::string(unknown.message()),
             Catch::Matchers::Contains("no..name: the name could not be resolved"));
  // Nor may a second server have half of the first one's requests.
  HttpOptions second;
  second.port = running.port();
  CHECK(absl::IsUnavailable(HttpServer::Listen(&service, second).status()));
}

void* NoMemory(void*, unsigned, unsigned) { return nullptr; }
// Enough to begin, but not for the window, which is wanted for what does not fit one piece.
void* LittleMemory(void*, unsigned items, unsigned size) {
  return size_t{items} * size < (32 << 10) ? std::calloc(items, size) : nullptr;
}

TEST_CASE("serve: a packed body for which memory does not suffice is told so, with 503",
          "[serve]") {
  const Served served;
  ModelService service(served.Load(), {.name = "m", .max_rows = 100, .admission = {}});
  for (const alloc_func memory : {NoMemory, LittleMemory}) {
    const Running running(&service, {.inflater_memory = memory});
    httplib::Client client("127.0.0.1", running.port());
    const auto answer = client.Post(kPredict, {{"Content-Encoding", "gzip"}},
                                    ZlibBytes(std::string(100'000, ' ')), "application/json");
    REQUIRE(answer);
    CHECK(answer->status == 503);
    CHECK(json::parse(answer->body)["error"] == "memory does not suffice to unpack the body");
  }
  const Running running(&service, {});
  httplib::Client client("127.0.0.1", running.port());
  const auto answer =
      client.Post(kPredict, {{"Content-Encoding", "gzip"}}, ZlibBytes(kOneRow), "application/json");
  REQUIRE(answer);
  CHECK(answer->status == 200);
}

TEST_CASE("serve: a server that is stopped before it serves ends", "[serve]") {
  const Served served;
  ModelService service(served.Load(), {.name = "m", .max_rows = 100, .admission = {}});
  HttpOptions options;
  options.port = 0;
  const auto server = Must(HttpServer::Listen(&service, options));
  server->Stop();
  server->Serve();
}

}  // namespace
}  // namespace coxswain::serve
