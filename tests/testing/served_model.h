// A small model, and a server of it over HTTP.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "coordinator/serve/http_server.h"
#include "coordinator/serve/model_service.h"
#include "tests/testing/saved_jobs.h"

namespace coxswain::serve {

using testing::Must;

// A model of two columns, and its predictions of the rows "I,vJ" with I % 10 and I % 3.
struct Served {
  explicit Served(int64_t epochs = 3) {
    std::string rows = "n,x,y\n";
    for (int i = 0; i < 60; ++i) absl::StrAppend(&rows, i % 10, ",v", i % 3, ",", i % 2, "\n");
    files.Write("train.csv", rows);
    files.Write("test.csv", rows);
    saved = TrainAndSave(files,
                         "dataset: {path: train.csv}\nfeatures:\n"
                         "  - {name: n, kind: numeric}\n"
                         "  - {name: x, kind: categorical, oov_buckets: 1}\n"
                         "split: {test_path: test.csv}\ntrain: {batch_size: 16}\n"
                         "label: {column: y}\nmodel: {kind: mlp, hidden: [4]}\n",
                         epochs);
  }
  SavedModel Load() const { return Must(SavedModel::Load(saved.directory)); }

  DataFiles files;
  SavedJob saved;
};

inline constexpr char kPredict[] = "/v1/models/m:predict";
inline constexpr char kOneRow[] = R"({"instances": [{"n": 1, "x": "v1"}]})";

// A server on a port of its own, for as long as it lives.
class Running {
 public:
  Running(ModelService* service, HttpOptions options) {
    options.port = 0;
    server_ = Must(HttpServer::Listen(service, options));
    thread_ = std::thread([this] { server_->Serve(); });
  }
  ~Running() {
    server_->Stop();
    thread_.join();
  }
  int port() const { return server_->port(); }

 private:
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

}  // namespace coxswain::serve
