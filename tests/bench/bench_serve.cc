// Requests per second that a served model answers, and how long they take: talk's model (see
// talk_model.h), as a server in this process, and wrk as the load, on the same machine. Prints
// JSON.
//
//   bench_serve [rows of a table = 1000000] [connections = 16] [seconds = 10] [rows a request = 1]
//               [MODEL.onnx]
//
// MODEL.onnx: the model is also written there, for peers/onnx_runtime.py.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "coordinator/export/export.h"
#include "coordinator/export/onnx_export.h"
#include "coordinator/model/saved_reader.h"
#include "coordinator/predict/predictor.h"
#include "coordinator/serve/http_server.h"
#include "coordinator/serve/model_service.h"
#include "coordinator/serve/served_model.h"
#include "runtime/base/status.h"
#include "tests/bench/talk_model.h"

namespace coxswain {
namespace {

namespace fs = std::filesystem;

struct Load {
  long long table_rows = 1000000;
  int connections = 16, seconds = 10, rows = 1;
  std::string onnx = {};
};

// What wrk runs: requests of random users and items; at the end the figures as JSON.
std::string Script(const Load& load) {
  return absl::StrCat(R"(
local rows = )",
                      load.rows, R"(
request = function()
  local instances = {}
  for i = 1, rows do
    instances[i] = string.format('{"user": "u%d", "item": "i%d"}', math.random(0, 4999999),
                                 math.random(0, 4999999))
  end
  return wrk.format("POST", "/v1/models/model:predict", {["Content-Type"] = "application/json"},
                    '{"instances": [' .. table.concat(instances, ", ") .. ']}')
end
done = function(summary, latency, requests)
  local seconds = summary.duration / 1e6
  local errors = summary.errors
  io.write(string.format('{"requests_per_second": %.0f, "rows_per_second": %.0f, ' ..
    '"p50_ms": %.3f, "p99_ms": %.3f, "p99_9_ms": %.3f, "max_ms": %.3f, "requests": %d, ' ..
    '"connections": )",
                      load.connections, R"(, "rows_a_request": %d, "failed": %d}\n',
    summary.requests / seconds, summary.requests * rows / seconds, latency:percentile(50) / 1e3,
    latency:percentile(99) / 1e3, latency:percentile(99.9) / 1e3, latency.max / 1e3,
    summary.requests, rows,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
)");
}

// What it prints ends with the line of JSON.
int RunWrk(const fs::path& folder, int port, const Load& load) {
  const std::string script = (folder / "load.lua").string();
  std::ofstream(script) << Script(load);
  const std::string connections = absl::StrCat("-c", load.connections),
                    seconds = absl::StrCat("-d", load.seconds),
                    url = absl::StrCat("http://127.0.0.1:", port);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    execlp("wrk", "wrk", "-t1", connections.c_str(), seconds.c_str(), "-s", script.c_str(),
           url.c_str(), static_cast<char*>(nullptr));
    std::fprintf(stderr, "wrk cannot be run: `apt-get install wrk`, or ./dev bench serve\n");
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

absl::Status WriteOnnx(const fs::path& folder, const std::string& path) {
  ASSIGN_OR_RETURN(const auto predictor, predict::Predictor::Load((folder / "model").string()));
  ASSIGN_OR_RETURN(const auto source, model::SavedSource::OpenModel((folder / "model").string()));
  ASSIGN_OR_RETURN(const exporter::OnnxFile file, exporter::ToOnnx(*predictor));
  exporter::ExportOptions options;
  options.out = path;
  options.replace = true;
  return exporter::ExportOnnx(source, options, file);
}

absl::Status Run(const fs::path& folder, const Load& load) {
  RETURN_IF_ERROR(SaveTalkModel(folder, load.table_rows));
  if (!load.onnx.empty()) RETURN_IF_ERROR(WriteOnnx(folder, load.onnx));
  ASSIGN_OR_RETURN(auto model, serve::LoadServed((folder / "model").string()));
  serve::ServiceOptions options;
  options.admission.at_once = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  options.admission.waiting = load.connections;
  serve::ModelService service(std::move(model), options);
  serve::HttpOptions http;
  http.port = 0;
  http.connections = load.connections;
  ASSIGN_OR_RETURN(const auto server, serve::HttpServer::Listen(&service, http));
  std::thread serving([&server] { server->Serve(); });
  const int code = RunWrk(folder, server->port(), load);
  server->Stop();
  serving.join();
  return code == 0 ? absl::OkStatus() : absl::InternalError(absl::StrCat("wrk ended with ", code));
}

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) {
  coxswain::Load load;
  if (argc > 1) load.table_rows = std::atoll(argv[1]);
  if (argc > 2) load.connections = std::atoi(argv[2]);
  if (argc > 3) load.seconds = std::atoi(argv[3]);
  if (argc > 4) load.rows = std::atoi(argv[4]);
  if (argc > 5) load.onnx = argv[5];
  if (load.table_rows < 1 || load.connections < 1 || load.seconds < 1 || load.rows < 1) {
    std::fprintf(stderr,
                 "usage: bench_serve [rows of each table] [connections] [seconds] [rows a "
                 "request] [MODEL.onnx]\n");
    return 2;
  }
  std::string folder = (std::filesystem::temp_directory_path() / "bench_serve-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  const absl::Status status = coxswain::Run(folder, load);
  std::filesystem::remove_all(folder);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
