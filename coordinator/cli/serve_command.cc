// The flags; what answers, and its indexes; a model that is served, and the checkpoints of a job.
#include "coordinator/cli/serve_command.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "coordinator/cli/command_util.h"
#include "coordinator/cli/display.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/interrupt.h"
#include "coordinator/cli/outputs.h"
#include "coordinator/cli/saved_flags.h"
#include "coordinator/serve/checkpoint_follower.h"
#include "coordinator/serve/http_server.h"
#include "coordinator/serve/index_builder.h"
#include "coordinator/serve/model_service.h"
#include "coordinator/serve/model_watch.h"
#include "coordinator/serve/served_model.h"
#include "runtime/base/status.h"
#include "runtime/config/yaml_reader.h"
#include "runtime/env/file_system.h"
#include "runtime/env/process_limits.h"
#include "runtime/net/address.h"

namespace coxswain::cli {
namespace {

constexpr int kWaitingForEach = 4;  // per request that runs

absl::Status ReadFlags(const ServeFlags& flags, serve::HttpOptions* http) {
  const auto address = net::ParseHostPort(flags.http);
  if (!address.ok()) {
    return config::ConfigurationError(
        absl::StrCat("--http: wanted HOST:PORT: ", address.status().message()));
  }
  http->host = address->host;
  http->port = address->port;
  if (flags.name.empty() || flags.name.find_first_of(":/?#% ") != std::string::npos) {
    return config::ConfigurationError(absl::StrCat(
        "--name: wanted a name without : / ? # % and blanks, found '", flags.name, "'"));
  }
  http->https = {flags.tls_cert, flags.tls_key, flags.tls_client_ca};
  http->connections = flags.connections;
  http->request = absl::Seconds(flags.request_seconds);
  http->drain = absl::Seconds(flags.drain_seconds);
  http->max_body_bytes = static_cast<size_t>(flags.max_body_mib) << 20;
  return absl::OkStatus();
}

serve::ServiceOptions OptionsOf(const ServeFlags& flags) {
  serve::ServiceOptions options;
  options.name = flags.name;
  options.max_rows = flags.max_rows;
  options.admission.at_once =
      flags.threads > 0 ? flags.threads
                        : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  options.admission.waiting = kWaitingForEach * options.admission.at_once;
  return options;
}

// Null: no table is to have an index.
std::unique_ptr<serve::IndexBuilder> NewIndexBuilder(const ServeFlags& flags,
                                                     serve::ModelService* service) {
  if (flags.index_from == 0) return nullptr;
  serve::IndexBuilder::Events events;
  events.on_indexed = [service](const serve::ServedPtr& model, serve::ServedPtr indexed) {
    service->ReplaceIf(model, std::move(indexed));
  };
  events.on_report = [](const serve::IndexReport& report) {
    const std::string what =
        absl::StrCat(report.table, " (", WithCommas(report.rows), " rows, ",
                     absl::FormatDuration(absl::Trunc(report.took, absl::Milliseconds(100))), ")");
    if (report.status.ok()) {
      std::printf(
          "index of %s: recall@%d %.3f of %d queries; requests for more than %d are exact\n",
          what.c_str(), static_cast<int>(model::kRecallAt), report.quality.recall,
          static_cast<int>(report.quality.queries), static_cast<int>(report.quality.most));
    } else {
      std::fprintf(stderr, "note: there is no index of %s, all rows are searched: %s\n",
                   what.c_str(), std::string(report.status.message()).c_str());
    }
    std::fflush(stdout);
  };
  model::IndexOptions options;
  options.from_rows = flags.index_from;
  options.recall = flags.index_recall;
  return std::make_unique<serve::IndexBuilder>(std::move(options), std::move(events));
}

// A newer model answers, and its indexes are begun.
void Show(serve::ServedPtr model, serve::ModelService* service, serve::IndexBuilder* indexes) {
  service->Replace(model);
  if (indexes != nullptr) indexes->Build(std::move(model));
}

// Listens, and answers until it is interrupted. `begin` starts the work that goes on beside that,
// from when it listens to the end.
absl::Status Answer(const ServeFlags& flags, const std::string& directory,
                    serve::ModelService* service, const std::function<void()>& begin) {
  serve::HttpOptions http;
  RETURN_IF_ERROR(ReadFlags(flags, &http));
  auto server = serve::HttpServer::Listen(service, http);
  if (!server.ok()) return AsConfiguration(server.status());
  const InterruptScope scope([&] {
    service->StartDraining();
    (*server)->Stop();
  });
  std::printf("serving %s at %s://%s/v1/models/%s\n", directory.c_str(),
              http.https.certificate.empty() ? "http" : "https",
              net::FormatHostPort({http.host, (*server)->port()}).c_str(), flags.name.c_str());
  std::fflush(stdout);
  begin();
  (*server)->Serve();
  return absl::OkStatus();
}

absl::Status ServeModel(const ServeFlags& flags) {
  serve::ModelWatch::Loaded loaded = {serve::ModelWatch::IdentityOf(flags.model_dir)};
  auto model = serve::LoadServed(flags.model_dir, flags.verify);
  if (!model.ok()) return AsUsersMistake(model.status());
  serve::ServedPtr first = *std::move(model);
  loaded.lost_pages = first->lost_pages;
  serve::ModelService service(first, OptionsOf(flags));
  const auto indexes = NewIndexBuilder(flags, &service);
  serve::ModelWatch::Events events;
  events.on_newer = [&service, &indexes](serve::ServedPtr newer) {
    const int64_t steps = newer->version;
    Show(std::move(newer), &service, indexes.get());
    std::printf("serving a newer model, of %s steps\n", WithCommas(steps).c_str());
    std::fflush(stdout);
  };
  events.on_error = [&service](const absl::Status& status, bool said) {
    service.CountReloadFailure();
    if (said) return;
    std::fprintf(stderr, "note: the newer model is not served: %s\n",
                 std::string(status.message()).c_str());
  };
  std::optional<serve::ModelWatch> watch;
  return Answer(flags, flags.model_dir, &service, [&] {
    if (indexes != nullptr) indexes->Build(first);
    first.reset();  // the service may drop it when there is a newer one
    watch.emplace(flags.model_dir, std::move(loaded), std::move(events));
  });
}

absl::Status ServeCheckpoints(const ServeFlags& flags) {
  RETURN_IF_ERROR(CheckOfThisMachine("--follow", flags.follow));
  const auto files = env::NewRealFileSystem();
  // One that is not there yet is waited for. What is no directory will not become one.
  const absl::Status there = files->List(flags.follow).status();
  if (!there.ok() && !absl::IsNotFound(there)) return AsUsersMistake(Annotate(there, "--follow"));
  serve::ModelService* answering = nullptr;
  std::unique_ptr<serve::IndexBuilder> indexes;
  serve::CheckpointFollower::Events events;
  events.on_version = [&](serve::ServedPtr served, const std::string& checkpoint) {
    const int64_t steps = served->version;
    Show(std::move(served), answering, indexes.get());
    std::printf("serving %s, of %s steps\n", checkpoint.c_str(), WithCommas(steps).c_str());
    std::fflush(stdout);
  };
  events.on_error = [&answering](const absl::Status& status) {
    answering->CountReloadFailure();
    std::fprintf(stderr, "note: a checkpoint is not served: %s\n",
                 std::string(status.message()).c_str());
  };
  auto follower =
      std::make_unique<serve::CheckpointFollower>(flags.follow, files.get(), std::move(events));
  serve::ServiceOptions options = OptionsOf(flags);
  options.use = [&follower](std::optional<int64_t> version) { return follower->Use(version); };
  serve::ModelService service(serve::ServedPtr(), std::move(options));
  answering = &service;
  indexes = NewIndexBuilder(flags, &service);
  const absl::Status status =
      Answer(flags, flags.follow, &service, [&follower] { follower->Start(); });
  follower.reset();  // must end before the service, as must the indexes
  indexes.reset();
  return status;
}

absl::Status Serve(const ServeFlags& flags) {
  AllowManyFiles();
  // Each connection has a thread.
  RETURN_IF_ERROR(env::CheckThreads("--connections", flags.connections));
  return flags.follow.empty() ? ServeModel(flags) : ServeCheckpoints(flags);
}

}  // namespace

int ServeCommand(const ServeFlags& flags) {
  const absl::Status status = Serve(flags);
  return status.ok() ? static_cast<int>(kExitDone) : Complain(status);
}

}  // namespace coxswain::cli
