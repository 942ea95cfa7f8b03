// `coxswain serve`: a saved model, or the newest checkpoint of a job, over HTTP.
#pragma once

#include <cstdint>
#include <string>

namespace coxswain::cli {

struct ServeFlags {
  std::string model_dir;                // or
  std::string follow;                   // a directory of checkpoints
  std::string http = "127.0.0.1:8501";  // HOST:PORT
  std::string tls_cert, tls_key;        // files; empty: plain HTTP
  std::string tls_client_ca;            // a file; empty: clients need no certificate
  std::string name = "model";
  int64_t max_rows = 10'000;
  int64_t max_body_mib = 8;
  int threads = 0;  // predictions at once; 0: one for each core
  int connections = 64;
  int request_seconds = 30;  // for all bytes of a request, and of an answer
  int drain_seconds = 0;     // between SIGTERM and the end of listening
  bool verify = false;
  int64_t index_from = 200'000;  // rows of a table that gets an index; 0: none does
  double index_recall = 0.95;
};
int ServeCommand(const ServeFlags& flags);

}  // namespace coxswain::cli
