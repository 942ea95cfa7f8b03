// Handing connections to threads, and requests to the service.
#include "coordinator/serve/http_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/serve/http_connection.h"
#include "coordinator/serve/json_rows.h"
#include "httplib.h"

namespace coxswain::serve {
namespace {

// Connections that were accepted and have no thread yet.
constexpr size_t kWaitingConnections = 16;
constexpr time_t kIdleMicroseconds = 100'000;
constexpr int kTooSlow = 408;
constexpr char kTooSlowReason[] = "the request took too long to come";

// A fixed number of threads, and a short queue. When it is full, the thread that accepts
// connections waits.
class ConnectionThreads final : public httplib::TaskQueue {
 public:
  ConnectionThreads(int threads, std::function<void()> idle) : idle_(std::move(idle)) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this] { Work(); });
    }
  }

  void enqueue(std::function<void()> connection) override {
    absl::MutexLock lock(&mutex_);
    const auto room = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return waiting_.size() < kWaitingConnections;
    };
    mutex_.Await(absl::Condition(&room));
    waiting_.push_back(std::move(connection));
  }

  void on_idle() override { idle_(); }

  void shutdown() override {
    {
      absl::MutexLock lock(&mutex_);
      ending_ = true;
    }
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void Work() {
    while (true) {
      std::function<void()> connection;
      {
        absl::MutexLock lock(&mutex_);
        const auto some = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          return ending_ || !waiting_.empty();
        };
        mutex_.Await(absl::Condition(&some));
        if (waiting_.empty()) return;
        connection = std::move(waiting_.front());
        waiting_.pop_front();
      }
      connection();
    }
  }

  const std::function<void()> idle_;
  absl::Mutex mutex_;
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

// Requests that the library itself refuses.
const char* Reason(int status, const httplib::Request& request) {
  switch (status) {
    case 400:
      return "the request is not HTTP, or is cut off";
    case 404:
      return "there is nothing at this path for this method";
    case 413:
      return "the body is larger than the server takes";
    case 414:
      return "the path is too long";
    default:
      return request.method.empty() ? "the request cannot be read" : "the request cannot be served";
  }
}

// Whether the request comes from a program on this machine. A proxy's requests come from this
// machine too, hence the check of its headers; a page in a browser cannot send this content type
// without permission.
bool IsTrusted(const httplib::Request& request) {
  const std::string& from = request.remote_addr;
  const bool here =
      absl::StartsWith(from, "127.") || from == "::1" || absl::StartsWith(from, "::ffff:127.");
  return here && !request.has_header("Forwarded") && !request.has_header("X-Forwarded-For") &&
         absl::StartsWith(request.get_header_value("Content-Type"), "application/json");
}

// The connection that this thread serves: the library does not pass it to handlers of errors.
thread_local const HttpConnection* serving = nullptr;

// The library's server, on connections whose requests end in time.
class BoundedServer final : public httplib::Server {
 public:
  explicit BoundedServer(const ConnectionLimits& limits) : limits_(limits) {}

 private:
  bool process_and_close_socket(socket_t socket) override {
    HttpConnection connection(socket, limits_);
    serving = &connection;
    const auto ending = [this] { return svr_sock_ == INVALID_SOCKET; };
    bool good = false;
    for (size_t left = keep_alive_max_count_; left > 0 && connection.WaitForRequest(ending);
         --left) {
      bool closed = false;
      good = process_request(connection, /*close_connection=*/left == 1 || ending(), closed,
                             /*setup_request=*/nullptr);
      if (connection.ran_out() && !connection.answered()) TellTooSlow(&connection);
      if (!good || closed || connection.ran_out()) break;
    }
    serving = nullptr;
    shutdown(socket, SHUT_RDWR);
    close(socket);
    return good;
  }

  // The library sends no error to a client that has not sent the first line.
  static void TellTooSlow(HttpConnection* connection) {
    const std::string body = ErrorBody(kTooSlowReason);
    const std::string answer =
        absl::StrCat("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Type: ",
                     "application/json\r\nContent-Length: ", body.size(), "\r\n\r\n", body);
    connection->write(answer.data(), answer.size());
  }

  const ConnectionLimits limits_;
};

ConnectionLimits LimitsOf(const HttpOptions& options) {
  const auto pause = absl::ToChronoMilliseconds(options.timeout);
  return {pause, absl::ToChronoMilliseconds(options.request), pause};
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(ModelService* service, const HttpOptions& options) : server(LimitsOf(options)) {
    const auto handle = [service](const httplib::Request& request, httplib::Response& response) {
      const Caller caller = {.trusted = IsTrusted(request)};
      Answer answer = service->Handle(request.method, request.path, request.body, caller);
      response.status = answer.status;
      response.set_content(std::move(answer.body), answer.type);
    };
    server.Get(".*", handle);
    server.Post(".*", handle);
    server.Put(".*", handle);
    server.Patch(".*", handle);
    server.Delete(".*", handle);
    server.set_error_handler([](const httplib::Request& request, httplib::Response& response) {
      if (!response.body.empty()) return;
      if (serving != nullptr && serving->ran_out()) {
        response.status = kTooSlow;
        response.set_content(ErrorBody(kTooSlowReason), "application/json");
        return;
      }
      response.set_content(ErrorBody(Reason(response.status, request)), "application/json");
    });
    server.set_exception_handler(
        [](const httplib::Request&, httplib::Response& response, std::exception_ptr) {
          response.status = 500;
          response.set_content(ErrorBody("the server ran out of memory, or is broken"),
                               "application/json");
        });
    server.set_keep_alive_max_count(100'000);
    server.set_payload_max_length(options.max_body_bytes);
    server.set_tcp_nodelay(true);
    const int threads = options.connections;
    // A Stop that came before the server ran is noticed here.
    server.set_idle_interval(0, kIdleMicroseconds);
    server.new_task_queue = [this, threads] {
      return new ConnectionThreads(threads, [this] {
        if (stopped.load()) server.stop();
      });
    };
  }

  BoundedServer server;
  std::atomic<bool> stopped{false};
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Listen(ModelService* service,
                                                               const HttpOptions& options) {
  std::unique_ptr<HttpServer> http(new HttpServer(std::make_unique<Impl>(service, options)));
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
