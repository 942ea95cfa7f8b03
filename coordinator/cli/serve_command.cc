#include "coordinator/cli/serve_command.h"

#include <algorithm>
#include <cstdio>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "coordinator/cli/command_util.h"
#include "coordinator/cli/display.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/interrupt.h"
#include "coordinator/predict/predictor.h"
#include "coordinator/serve/http_server.h"
#include "coordinator/serve/model_service.h"
#include "coordinator/serve/model_watch.h"
#include "coxswain/saved_model.h"
#include "runtime/base/status.h"
#include "runtime/config/yaml_reader.h"

namespace coxswain::cli {
namespace {

constexpr int kWaitingForEach = 4;  // of those that are predicted at once

absl::Status ReadFlags(const ServeFlags& flags, serve::HttpOptions* http) {
  const size_t colon = flags.http.rfind(':');
  uint32_t port = 0;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(flags.http.substr(colon + 1), &port) || port > 65535) {
    return config::ConfigurationError(
        absl::StrCat("--http: wanted HOST:PORT, found '", flags.http, "'"));
  }
  http->host = flags.http.substr(0, colon);
  http->port = static_cast<int>(port);
  if (flags.name.empty() || flags.name.find_first_of(":/?#% ") != std::string::npos) {
    return config::ConfigurationError(absl::StrCat(
        "--name: wanted a name without : / ? # % and blanks, found '", flags.name, "'"));
  }
  http->connections = flags.connections;
  http->max_body_bytes = static_cast<size_t>(flags.max_body_mib) << 20;
  return absl::OkStatus();
}

absl::Status Serve(const ServeFlags& flags) {
  serve::HttpOptions http;
  RETURN_IF_ERROR(ReadFlags(flags, &http));
  std::string identity = serve::ModelWatch::IdentityOf(flags.model_dir);
  auto model = SavedModel::Load(flags.model_dir, {.verify = flags.verify});
  if (!model.ok()) return AsUsersMistake(model.status());
  serve::ServiceOptions options;
  options.name = flags.name;
  options.max_rows = flags.max_rows;
  options.admission.at_once =
      flags.threads > 0 ? flags.threads
                        : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  options.admission.waiting = kWaitingForEach * options.admission.at_once;
  serve::ModelService service(*std::move(model), options);
  auto server = serve::HttpServer::Listen(&service, http);
  if (!server.ok()) return AsConfiguration(server.status());
  const InterruptScope scope([&] {
    service.StartDraining();
    (*server)->Stop();
  });
  std::printf("serving %s at http://%s:%d/v1/models/%s\n", flags.model_dir.c_str(),
              http.host.c_str(), (*server)->port(), flags.name.c_str());
  std::fflush(stdout);
  serve::ModelWatch::Events events;
  events.on_newer = [&service](SavedModel newer) {
    const int64_t steps = newer.predictor().steps();
    service.Replace(std::move(newer));
    std::printf("serving a newer model, of %s steps\n", WithCommas(steps).c_str());
    std::fflush(stdout);
  };
  events.on_error = [](const absl::Status& status) {
    std::fprintf(stderr, "note: the newer model is not served: %s\n",
                 std::string(status.message()).c_str());
  };
  const serve::ModelWatch watch(flags.model_dir, std::move(identity), std::move(events));
  (*server)->Serve();
  return absl::OkStatus();
}

}  // namespace

int ServeCommand(const ServeFlags& flags) {
  const absl::Status status = Serve(flags);
  return status.ok() ? static_cast<int>(kExitDone) : Complain(status);
}

}  // namespace coxswain::cli
