// Handing connections to threads, and requests to the service.
#include "coordinator/serve/http_server.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/serve/http_connection.h"
#include "coordinator/serve/http_head.h"
#include "coordinator/serve/json_rows.h"
#include "httplib.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/data/names.h"

namespace coxswain::serve {
namespace {

// Connections that were accepted and have no thread yet.
constexpr size_t kWaitingConnections = 16;
constexpr time_t kIdleMicroseconds = 100'000;
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

// A fixed number of threads, and a short queue. When it is full, the thread that accepts
// connections waits. The threads are woken all at once when it ends: an absl::Mutex wakes those
// that wait for a condition one after the other, and on a busy machine thousands of them then take
// seconds.
class ConnectionThreads final : public httplib::TaskQueue {
 public:
  ConnectionThreads(int threads, std::function<void()> idle) : idle_(std::move(idle)) {
    threads_.reserve(static_cast<size_t>(threads));
    try {
      for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
    } catch (const std::system_error& error) {
      if (threads_.empty()) throw;
      LogWarning("only ", threads_.size(), " connections of ", threads,
                 " are served at once: ", error.what(),
                 " (`ulimit -u` or `ulimit -v`, or the cgroup's pids.max)");
    }
  }

  void enqueue(std::function<void()> connection) override {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [this] { return waiting_.size() < kWaitingConnections; });
    waiting_.push_back(std::move(connection));
    some_.notify_one();
  }

  void on_idle() override { idle_(); }

  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    some_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void Work() {
    while (true) {
      std::function<void()> connection;
      {
        std::unique_lock lock(mutex_);
        some_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
        if (waiting_.empty()) return;
        connection = std::move(waiting_.front());
        waiting_.pop_front();
      }
      room_.notify_one();
      connection();
    }
  }

  const std::function<void()> idle_;
  std::mutex mutex_;  // of what waits and whether it ends
  std::condition_variable some_, room_;
  std::deque<std::function<void()>> waiting_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

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

// The library's server, on connections whose requests end in time and are not too large.
class BoundedServer final : public httplib::Server {
 public:
  BoundedServer(const ConnectionLimits& limits, size_t max_body, Https* https)
      : limits_(limits), max_body_(max_body), https_(https) {}

 private:
  bool process_and_close_socket(socket_t socket) override {
    const std::unique_ptr<HttpSocket> bytes =
        https_ == nullptr ? PlainSocket(socket) : https_->Accept(socket);
    if (bytes == nullptr) {
      close(socket);
      return false;
    }
    HttpConnection connection(socket, bytes.get(), limits_);
    serving = &connection;
    const auto ending = [this] { return svr_sock_ == INVALID_SOCKET; };
    bool good = false;
    for (size_t left = keep_alive_max_count_; left > 0 && connection.WaitForRequest(ending);
         --left) {
      bool closed = false;
      good = process_request(connection, /*close_connection=*/left == 1 || ending(), closed,
                             [this](httplib::Request& request) { Prepare(&request); });
      const int broken = Broken(connection);
      if (broken != 0 && !connection.answered()) Tell(&connection, broken);
      // The library went no further than the head; what follows is no request either.
      if (connection.in_head()) connection.GiveUp();
      if (!good || closed || broken != 0 || connection.given_up()) break;
    }
    serving = nullptr;
    if (connection.given_up() || connection.too_large()) {
      connection.Linger();
    } else {
      bytes->EndSending();
    }
    shutdown(socket, SHUT_RDWR);
    close(socket);
    return good;
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
    connection->write(answer.data(), answer.size());
  }

  const ConnectionLimits limits_;
  const size_t max_body_;
  Https* const https_;  // null: plain HTTP
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

ConnectionLimits LimitsOf(const HttpOptions& options) {
  const auto pause = absl::ToChronoMilliseconds(options.timeout);
  return {pause, absl::ToChronoMilliseconds(options.request), pause, kHeadBytes};
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(ModelService* service, const HttpOptions& options, std::unique_ptr<Https> with)
      : https(std::move(with)), server(LimitsOf(options), options.max_body_bytes, https.get()) {
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
        [](const httplib::Request& request, httplib::Response& response) {
          const bool ends = serving != nullptr && (serving->in_head() || serving->given_up());
          const std::string wanted = request.get_header_value("Connection");
          const bool old = request.version == "HTTP/1.0" && wanted != "Keep-Alive";
          if (!ends && !old && wanted != "close" && !response.has_header("Connection")) return;
          response.headers.erase("Keep-Alive");
          response.headers.erase("Connection");
          response.set_header("Connection", "close");
        });
    server.set_keep_alive_max_count(100'000);
    server.set_payload_max_length(options.max_body_bytes);
    server.set_tcp_nodelay(true);
    // Not the library's choice, which lets a second server of the same user have the same port, and
    // half of the requests. This one only allows a port of which old connections are not yet gone.
    server.set_socket_options([](socket_t socket) {
      const int on = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    });
    const int threads = options.connections;
    // A Stop that came before the server ran is noticed here.
    server.set_idle_interval(0, kIdleMicroseconds);
    server.new_task_queue = [this, threads] {
      return new ConnectionThreads(threads, [this] {
        if (stopped.load()) server.stop();
      });
    };
  }

  const std::unique_ptr<Https> https;  // null: plain HTTP
  BoundedServer server;
  std::atomic<bool> stopped{false};
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
  std::unique_ptr<HttpServer> http(
      new HttpServer(std::make_unique<Impl>(service, options, std::move(https))));
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

void HttpServer::Serve() {
  if (!impl_->stopped.load()) impl_->server.listen_after_bind();
}

void HttpServer::Stop() {
  impl_->stopped = true;
  impl_->server.stop();
}

}  // namespace coxswain::serve
