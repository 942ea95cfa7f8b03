// Connections to threads; requests to the service.
#include "coordinator/serve/http_server.h"

#include <atomic>
#include <deque>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/serve/json_rows.h"
#include "httplib.h"

namespace coxswain::serve {
namespace {

// Connections that were accepted and have no thread yet.
constexpr size_t kWaitingConnections = 16;
constexpr time_t kIdleMicroseconds = 100'000;

// A fixed number of threads, and a short queue. Who finds it full waits: that is the thread that
// accepts connections.
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

// What the library refuses by itself.
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

}  // namespace

class HttpServer::Impl {
 public:
  Impl(ModelService* service, const HttpOptions& options) {
    const auto handle = [service](const httplib::Request& request, httplib::Response& response) {
      Answer answer = service->Handle(request.method, request.path, request.body);
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
      response.set_content(ErrorBody(Reason(response.status, request)), "application/json");
    });
    server.set_exception_handler(
        [](const httplib::Request&, httplib::Response& response, std::exception_ptr) {
          response.status = 500;
          response.set_content(ErrorBody("the server ran out of memory, or is broken"),
                               "application/json");
        });
    const auto seconds = static_cast<time_t>(absl::ToInt64Seconds(options.timeout));
    server.set_read_timeout(seconds);
    server.set_write_timeout(seconds);
    server.set_keep_alive_timeout(seconds);
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

  httplib::Server server;
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
