// A ModelService over HTTP/1.1, plain or through TLS.
//
// A fixed number of requests are served at once, each by a thread; see connection_pool.h for the
// connections between requests. A client that sends or reads nothing for the time-out, or takes too
// long for a whole request, loses its connection. Refusals are answered as JSON.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/serve/https.h"
#include "coordinator/serve/inflater.h"
#include "coordinator/serve/model_service.h"

namespace coxswain::serve {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8501;                              // 0: any free port
  int connections = 64;                         // served at once
  size_t waiting = 1024;                        // further ones, which wait for their next byte
  absl::Duration drain = absl::ZeroDuration();  // from Stop on, while it still listens
  size_t max_body_bytes = size_t{8} << 20;
  absl::Duration timeout = absl::Seconds(5);   // without a byte
  absl::Duration request = absl::Seconds(30);  // for all bytes of a request, and of its answer
  HttpsFiles https = {};                       // none: plain HTTP
  alloc_func inflater_memory = nullptr;        // for tests, see Inflater::Create
};

class HttpServer {
 public:
  // Listens. `service` must outlive the server. Errors: Unavailable when the address cannot be
  // used; those of Https::Open.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Listen(ModelService* service,
                                                            const HttpOptions& options);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const { return port_; }
  // Serves until Stop was called and all requests that had come are answered. May be called once.
  void Serve();
  // From any thread, at any time. The second time, there is no more draining.
  void Stop();

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
  int port_ = 0;
};

}  // namespace coxswain::serve
