// Handing connections to threads, and requests to the service.
#include "coordinator/serve/http_server.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/serve/connection_pool.h"
#include "coordinator/serve/http_connection.h"
#include "coordinator/serve/http_head.h"
#include "coordinator/serve/json_rows.h"
#include "httplib.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/data/names.h"

namespace coxswain::serve {
namespace {

// How long a thread stays with a connection after an answer: for a client that asks again at once,
// that saves a way through the pool. Where others wait for the thread, it stays for less, and not
// once the connection has had its turn.
constexpr std::chrono::milliseconds kMoment{10}, kShortMoment{1}, kNoMoment{0}, kTurn{5};
constexpr size_t kRequestsOfAConnection = 100'000;
constexpr size_t kHeadBytes = 64 << 10;
constexpr size_t kAnyBytes = std::numeric_limits<size_t>::max();
// A certificate that expires sooner is told of.
constexpr absl::Duration kSoon = absl::Hours(24 * 30);
constexpr int kWrongMethod = 405;
constexpr int kTooSlow = 408;
constexpr int kTooLarge = 413;
constexpr int kUnknownEncoding = 415;
constexpr int kHeadTooLarge = 431;
constexpr int kUnavailable = 503;
// `.` does not match the end of a line, which a path may have (%0a).
constexpr char kAnyPath[] = "[\\s\\S]*";

// Of the statuses that are answered without the library.
const char* Phrase(int status) {
  switch (status) {
    case kTooSlow:
      return "Request Timeout";
    case kTooLarge:
      return "Payload Too Large";
    default:
      return "Request Header Fields Too Large";
  }
}

std::string BodyTooLarge(size_t max) {
  return absl::StrCat("the body is larger than the server takes, which is ", max,
                      " bytes (--max-body)");
}

// Requests that the library itself refuses. `max_body`: bytes.
std::string Reason(int status, const httplib::Request& request, size_t max_body) {
  switch (status) {
    case 400:
      return "the request does not begin as one of HTTP/1.1 does (METHOD /path HTTP/1.1, and "
             "headers), or is cut off";
    case 404:
      return "there is nothing at this path for this method";
    case kTooSlow:
      return "the request took too long to come";
    case kTooLarge:
      return BodyTooLarge(max_body);
    case 414:
      return "the path is too long";
    case 415:
      return "the body is compressed in a way that the server does not know";
    case kHeadTooLarge:
      return "the first line and the headers are longer than the server takes";
    default:
      return request.method.empty() ? "the request cannot be read" : "the request cannot be served";
  }
}

// Whether the request comes from a program on this machine. A proxy's requests come from this
// machine too, hence the check of its headers; a page in a browser cannot send this content type
// without permission, unless its own name leads here, and then it asks for that name.
bool IsTrusted(const httplib::Request& request) {
  const std::string& from = request.remote_addr;
  const bool here =
      absl::StartsWith(from, "127.") || from == "::1" || absl::StartsWith(from, "::ffff:127.");
  std::string name = request.get_header_value("Host");
  const size_t port = name.rfind(':');
  if (port != std::string::npos && port >= name.find_last_of(']') + 1) name.resize(port);
  in_addr address = {};
  const bool by_loopback =
      absl::EqualsIgnoreCase(name, "localhost") || name == "[::1]" ||
      (inet_pton(AF_INET, name.c_str(), &address) == 1 && ntohl(address.s_addr) >> 24 == 127);
  return here && by_loopback && !request.has_header("Forwarded") &&
         !request.has_header("X-Forwarded-For") &&
         absl::StartsWith(request.get_header_value("Content-Type"), "application/json");
}

// The connection that this thread serves: the library does not pass it to handlers of errors.
thread_local HttpConnection* serving = nullptr;

// A limit of the connection that its request did not keep to, as a status; 0: none.
int Broken(const HttpConnection& connection) {
  if (connection.head_too_large()) return kHeadTooLarge;
  if (connection.too_large()) return kTooLarge;
  return connection.ran_out() ? kTooSlow : 0;
}

// What Prepare makes of the names of packings that this server unpacks itself: the library, which
// goes by small letters, leaves such bodies as they are.
constexpr char kGzip[] = "GZIP", kDeflate[] = "DEFLATE";

// All that the request says about it, where it does so more than once.
std::string ContentEncoding(const httplib::Request& request) {
  const auto [begin, end] = request.headers.equal_range("Content-Encoding");
  return absl::StrJoin(begin, end, ", ", [](std::string* out, const auto& header) {
    absl::StrAppend(out, header.second);
  });
}

// Reads a body of at most max_body_bytes, also when it comes in chunks or compressed. False: it is
// larger, or cannot be read; the response says so then. (The library's own limit only goes by
// Content-Length.)
bool ReadBody(const HttpOptions& options, const httplib::Request& request,
              const httplib::ContentReader& read, std::string* body, httplib::Response* response) {
  const size_t max = options.max_body_bytes;
  const auto refuse = [response](int status, const std::string& why) {
    response->status = status;
    response->set_content(ErrorBody(why), "application/json");
    if (serving != nullptr) serving->GiveUp();
    return false;
  };
  const std::string encoding = ContentEncoding(request);
  const std::string name = absl::AsciiStrToLower(encoding);
  const bool inflated = encoding == kGzip || encoding == kDeflate;
  const bool plain = encoding.empty() || encoding == "identity";
  if (!inflated && !plain && encoding != "br") {
    return refuse(
        kUnknownEncoding,
        absl::StrCat("Content-Encoding: wanted gzip, deflate or br, or a body that is not "
                     "compressed, found ",
                     data::Quoted(name)));
  }
  bool fits = true;
  const auto append = [&](absl::string_view bytes) {
    fits = bytes.size() <= max - body->size();
    if (fits) body->append(bytes.data(), bytes.size());
    return fits;
  };
  std::unique_ptr<Inflater> inflater;
  absl::Status unpacked;
  if (inflated) {
    absl::StatusOr<std::unique_ptr<Inflater>> made = Inflater::Create(options.inflater_memory);
    if (!made.ok()) return refuse(kUnavailable, std::string(made.status().message()));
    inflater = *std::move(made);
  }
  const bool came = read([&](const char* data, size_t size) {
    const absl::string_view bytes(data, size);
    if (!inflated) return append(bytes);
    unpacked = inflater->Add(bytes, append);
    return unpacked.ok();
  });
  if (came && (!inflated || inflater->ended())) return true;
  const int broken = serving == nullptr ? 0 : Broken(*serving);
  if (broken != 0) return refuse(broken, Reason(broken, request, max));
  if (absl::IsResourceExhausted(unpacked)) {
    return refuse(kUnavailable, std::string(unpacked.message()));
  }
  if (!fits || response->status == kTooLarge) return refuse(kTooLarge, BodyTooLarge(max));
  if (plain) return refuse(400, "the body is shorter than its length, or is cut off");
  return refuse(400, absl::StrCat("the body cannot be unpacked as ", name,
                                  ", which Content-Encoding says, or is cut off"));
}

bool MayHaveBody(const std::string& method) {
  return method == "POST" || method == "PUT" || method == "PATCH" || method == "DELETE";
}

// Whether bytes may follow its headers that a proxy in front takes for its body, and this server
// does not. Read as the next request, they would be one that the proxy has never seen.
bool EndIsUnsure(const httplib::Request& request) {
  // The library also accepts malformed chunks, such as one that is longer than it says.
  return request.has_header("Transfer-Encoding") ||
         (!MayHaveBody(request.method) && request.get_header_value("Content-Length") != "0");
}

ConnectionLimits LimitsOf(const HttpOptions& options) {
  const auto pause = absl::ToChronoMilliseconds(options.timeout);
  return {pause, absl::ToChronoMilliseconds(options.request), pause, kHeadBytes};
}

// The library's server, on connections whose requests end in time and are not too large.
class BoundedServer final : public httplib::Server {
 public:
  BoundedServer(ModelService* service, const HttpOptions& options, Https* https)
      : service_(service),
        limits_(LimitsOf(options)),
        max_body_(options.max_body_bytes),
        https_(https),
        pool_({.threads = options.connections,
               .waiting = options.waiting,
               .drain = absl::ToChronoMilliseconds(options.drain)},
              [this](int socket) { return std::make_unique<Client>(this, socket); }) {}

  ~BoundedServer() override {
    if (svr_sock_ != INVALID_SOCKET) close(svr_sock_);  // nobody has called Serve
  }

  void Serve() { pool_.Run(svr_sock_.exchange(INVALID_SOCKET)); }
  void Stop() { pool_.Stop(); }
  bool stopping() const { return pool_.stopping(); }

 private:
  // A connection; the handshake of HTTPS begins on the thread that first serves it.
  class Client final : public PooledConnection {
   public:
    Client(BoundedServer* server, int socket)
        : server_(server), socket_(socket), until_(Clock::now() + server->limits_.idle) {}
    ~Client() override {
      if (bytes_ != nullptr && !ended_) bytes_->EndSending();
      shutdown(socket_, SHUT_RDWR);
      close(socket_);
    }
    Next Serve() override {
      if (!connection_ && !Begin()) return Next::kEnd;
      serving = &*connection_;
      const Next next = ServeRequests();
      serving = nullptr;
      if (next == Next::kEnd) End();
      return next;
    }
    int socket() const override { return socket_; }
    short events() const override { return connection_ ? connection_->events() : POLLIN; }
    Clock::time_point until() const override { return connection_ ? connection_->until() : until_; }

   private:
    bool Begin() {
      Https* const https = server_->https_;
      bytes_ = https == nullptr ? PlainSocket(socket_) : https->Accept(socket_);
      if (bytes_ != nullptr) connection_.emplace(socket_, bytes_.get(), server_->limits_);
      return bytes_ != nullptr;
    }
    Next ServeRequests() {
      const ConnectionPool& pool = server_->pool_;
      const auto turn = Clock::now() + kTurn;
      for (bool first = true;; first = false) {
        const bool over = pool.stopping() || (pool.others_wait() && Clock::now() >= turn);
        const auto moment = over ? kNoMoment : pool.others_wait() ? kShortMoment : kMoment;
        const auto came = connection_->WaitForRequest(moment);
        if (came == HttpConnection::Came::kEnd) return Next::kEnd;
        if (came == HttpConnection::Came::kNothing) return Next::kWait;
        if (!first && over && !pool.stopping()) return Next::kTurn;
        --requests_left_;
        if (!server_->Answer(&*connection_, requests_left_ == 0)) return Next::kEnd;
        connection_->EndRequest();
      }
    }
    void End() {
      ended_ = true;
      if (bytes_ == nullptr) return;
      if (connection_->given_up() || connection_->too_large()) return connection_->Linger();
      bytes_->EndSending();
    }

    BoundedServer* const server_;
    const int socket_;
    const Clock::time_point until_;  // of the first byte
    std::unique_ptr<HttpSocket> bytes_;
    std::optional<HttpConnection> connection_;  // nullopt: nobody has served it
    size_t requests_left_ = kRequestsOfAConnection;
    bool ended_ = false;
  };

  // One request. False: it is the connection's last.
  bool Answer(HttpConnection* connection, bool last) {
    bool closed = false;
    const bool good = process_request(*connection, last || stopping(), closed,
                                      [this](httplib::Request& request) { Prepare(&request); });
    const int broken = Broken(*connection);
    if (broken != 0 && !connection->answered()) Tell(connection, broken);
    // The library went no further than the head; what follows is no request either.
    if (connection->in_head()) connection->GiveUp();
    return good && !closed && broken == 0 && !connection->given_up() && !connection->last() &&
           !last;
  }

  // Between the headers and the body.
  void Prepare(httplib::Request* request) const {
    // With neither header there is no body. The library would read until the client hangs up.
    if (!request->has_header("Content-Length") && !request->has_header("Transfer-Encoding")) {
      request->set_header("Content-Length", "0");
    }
    // The library takes a body with a length as it says, and skips one that is too long. Of other
    // bodies, their bytes on the wire are bounded here: lines between chunks may be long.
    const bool has_length =
        request->has_header("Content-Length") && !request->has_header("Transfer-Encoding");
    serving->EndHead(has_length ? kAnyBytes : 2 * max_body_ + kHeadBytes);
    // Nobody needs a part of an answer, and a list of ranges makes one of any size.
    request->ranges.clear();
    // A form is no request of ours: its parts are not to be gathered, but refused as a body.
    if (request->is_multipart_form_data()) request->headers.erase("Content-Type");
    const auto [begin, end] = request->headers.equal_range("Content-Encoding");
    for (auto header = begin; header != end; ++header) {
      std::string& name = header->second;
      absl::AsciiStrToLower(&name);
      if (name == "gzip") name = kGzip;
      if (name == "deflate") name = kDeflate;
    }
    const std::string& method = request->method;
    const absl::Status head = CheckHead(serving->head(), request->version);
    if (!head.ok()) {
      serving->Refuse(400, std::string(head.message()));
    } else if (method != "GET" && method != "HEAD" && !MayHaveBody(method)) {
      serving->Refuse(kWrongMethod, absl::StrCat("wanted GET or POST, found ", method));
    } else if (EndIsUnsure(*request)) {
      serving->GiveUp();
    }
  }

  // The library sends no error to a client that has not sent the first line.
  void Tell(HttpConnection* connection, int status) const {
    const std::string body = ErrorBody(Reason(status, httplib::Request(), max_body_));
    const std::string answer = absl::StrCat(
        "HTTP/1.1 ", status, " ", Phrase(status), "\r\nConnection: close\r\n",
        "Content-Type: application/json\r\nContent-Length: ", body.size(), "\r\n\r\n", body);
    service_->CountAnswer(status);
    connection->write(answer.data(), answer.size());
  }

  ModelService* const service_;
  const ConnectionLimits limits_;
  const size_t max_body_;
  Https* const https_;  // null: plain HTTP
  ConnectionPool pool_;
};

// What the library says of a name that leads nowhere is what it says of an address that is taken.
// A name server that does not answer is given up by the resolver, after some seconds.
absl::Status CheckHost(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error == 0) {
    freeaddrinfo(found);
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat("cannot listen at ", host, ": the name could not be resolved: ",
                   error == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(error)));
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(ModelService* service, const HttpOptions& options, std::unique_ptr<Https> with)
      : https(std::move(with)), server(service, options, https.get()) {
    const auto answer = [service](const httplib::Request& request, absl::string_view body,
                                  httplib::Response* response) {
      const Caller caller = {.trusted = IsTrusted(request)};
      Answer answer = service->Handle(request.method, request.path, body, caller);
      response->status = answer.status;
      response->set_content(std::move(answer.body), answer.type);
    };
    const auto with_body = [answer, options](const httplib::Request& request,
                                             httplib::Response& response,
                                             const httplib::ContentReader& read) {
      std::string body;
      if (ReadBody(options, request, read, &body, &response)) {
        answer(request, body, &response);
      }
    };
    server.Get(kAnyPath, [answer](const httplib::Request& request, httplib::Response& response) {
      answer(request, "", &response);
    });
    server.Post(kAnyPath, with_body);
    server.Put(kAnyPath, with_body);
    server.Patch(kAnyPath, with_body);
    server.Delete(kAnyPath, with_body);
    server.set_pre_routing_handler([](const httplib::Request&, httplib::Response& response) {
      using Done = httplib::Server::HandlerResponse;
      if (serving == nullptr || serving->refusal().status == 0) return Done::Unhandled;
      response.status = serving->refusal().status;
      response.set_content(ErrorBody(serving->refusal().why), "application/json");
      return Done::Handled;
    });
    server.set_error_handler([max = options.max_body_bytes](const httplib::Request& request,
                                                            httplib::Response& response) {
      if (!response.body.empty()) return;
      const int broken = serving == nullptr ? 0 : Broken(*serving);
      if (broken != 0) response.status = broken;
      response.set_content(ErrorBody(Reason(response.status, request, max)), "application/json");
    });
    server.set_exception_handler(
        [](const httplib::Request&, httplib::Response& response, std::exception_ptr) {
          if (serving != nullptr) serving->GiveUp();  // some of the body may not be read
          response.status = 500;
          response.set_content(ErrorBody("the server ran out of memory, or is broken"),
                               "application/json");
        });
    server.set_post_routing_handler(
        [this, service](const httplib::Request& request, httplib::Response& response) {
          service->CountAnswer(response.status);
          // It may have begun to end since the request came.
          if (serving != nullptr && server.stopping()) serving->EndAfterAnswer();
          const bool ends =
              serving != nullptr && (serving->in_head() || serving->given_up() || serving->last());
          const std::string wanted = request.get_header_value("Connection");
          const bool old = request.version == "HTTP/1.0" && wanted != "Keep-Alive";
          if (!ends && !old && wanted != "close" && !response.has_header("Connection")) return;
          response.headers.erase("Keep-Alive");
          response.headers.erase("Connection");
          response.set_header("Connection", "close");
        });
    server.set_payload_max_length(options.max_body_bytes);
    server.set_tcp_nodelay(true);
    // Not the library's choice, which lets a second server of the same user have the same port, and
    // half of the requests. This one only allows a port of which old connections are not yet gone.
    server.set_socket_options([](socket_t socket) {
      const int on = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    });
  }

  const std::unique_ptr<Https> https;  // null: plain HTTP
  BoundedServer server;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Listen(ModelService* service,
                                                               const HttpOptions& options) {
  std::unique_ptr<Https> https;
  if (!options.https.certificate.empty()) {
    ASSIGN_OR_RETURN(https, Https::Open(options.https));
    if (https->expires() - absl::Now() < kSoon) {
      LogWarning(options.https.certificate, " expires on ",
                 absl::FormatTime("%Y-%m-%d", https->expires(), absl::UTCTimeZone()));
    }
  }
  RETURN_IF_ERROR(CheckHost(options.host));
  std::unique_ptr<Impl> impl;
  try {
    impl = std::make_unique<Impl>(service, options, std::move(https));
  } catch (const std::system_error& error) {
    return absl::UnavailableError(absl::StrCat("cannot listen: ", error.what()));
  }
  std::unique_ptr<HttpServer> http(new HttpServer(std::move(impl)));
  httplib::Server& server = http->impl_->server;
  if (options.port == 0) {
    http->port_ = server.bind_to_any_port(options.host);
  } else if (server.bind_to_port(options.host, options.port)) {
    http->port_ = options.port;
  } else {
    http->port_ = -1;
  }
  if (http->port_ <= 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen at ", options.host, ":", options.port,
                                               ": it is in use, or no address of this machine"));
  }
  return http;
}

void HttpServer::Serve() { impl_->server.Serve(); }
void HttpServer::Stop() { impl_->server.Stop(); }

}  // namespace coxswain::serve
