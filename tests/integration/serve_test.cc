// `coxswain serve` as a process: it says where it listens, answers what `predict` writes, and ends
// cleanly.
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/cli/display.h"
#include "httplib.h"
#include "tests/integration/jobs.h"
#include "tests/integration/server_port.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;

constexpr char kModel[] = R"(label: {column: label}
model: {kind: mlp, hidden: [8]}
train: {epochs: 2, batch_size: 32}
)";

TEST_CASE("serve: a process answers what predict writes, and ends by SIGTERM", "[serve]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kModel), model = files.Path("model");
  REQUIRE(Coxswain({"train", job, "--in-process", "--quiet", "--model-dir", model}).code == 0);
  const std::string rows = files.Write("rows.csv", "color,size\nred,17\nblue,80\n");
  const auto refused = Coxswain({"serve", "--model-dir", model, "--http", "8501"});
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, Contains("HOST:PORT"));

  Process server(CoxswainCommand({"serve", "--model-dir", model, "--http", "127.0.0.1:0", "--name",
                                  "table", "--index-from", "1"}));
  httplib::Client client("127.0.0.1", PortOf(server));
  const auto ask = [&](const std::string& path, const std::string& body) {
    const std::string whole = absl::StrCat("/v1/models/table", path);
    const auto answer =
        body.empty() ? client.Get(whole) : client.Post(whole, body, "application/json");
    REQUIRE(answer);
    return nlohmann::json::parse(answer->body, nullptr, false);
  };
  REQUIRE(server.WaitForOutput("recall@10 1.000"));  // of the colors
  CHECK(ask("", "")["model_version_status"][0]["state"] == "AVAILABLE");
  const nlohmann::json answer =
      ask(":predict", R"({"inputs": {"color": ["red", "blue"], "size": [17, "80"]}})");
  const auto written = Coxswain({"predict", "--model-dir", model, "--input", rows});
  INFO(written.err << answer);
  REQUIRE(written.code == 0);
  const std::vector<std::string> lines = absl::StrSplit(written.out, '\n');
  REQUIRE(lines.size() >= 3);
  for (size_t i = 0; i < 2; ++i) {
    const std::vector<std::string> cells = absl::StrSplit(lines[i + 1], ',');
    CHECK(answer["outputs"]["score"][i].get<double>() == Approx(std::stod(cells[0])));
    CHECK(answer["outputs"]["probability"][i].get<double>() == Approx(std::stod(cells[1])));
  }
  CHECK(ask(":predict", "{}").contains("error"));
  const nlohmann::json wrong =
      ask(":predict", R"({"instances": [{"color": "red", "size": "big"}]})");
  CHECK_THAT(wrong.dump(), Contains("instances[0]: column") && Contains("big"));
  // A newer model in its place answers soon.
  const auto again = Coxswain(
      {"train", job, "--in-process", "--quiet", "--model-dir", model, "--set", "train.epochs=4"});
  INFO(again.err);
  REQUIRE(again.code == 0);
  REQUIRE(server.WaitForOutput("serving a newer model"));
  const nlohmann::json newer = ask("", "")["model_version_status"][0]["version"];
  CHECK(newer == absl::StrCat(ReadJson(model + "/model.json")["steps"].get<int64_t>()));
  server.Kill(SIGTERM);
  const auto ended = server.Wait();
  INFO(ended.err);
  CHECK(ended.code == 0);
}

TEST_CASE("serve: an address of IPv6 is given and told with brackets", "[serve]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kModel), model = files.Path("model");
  REQUIRE(Coxswain({"train", job, "--in-process", "--quiet", "--model-dir", model}).code == 0);
  const auto bare = Coxswain({"serve", "--model-dir", model, "--http", "::1:0"});
  CHECK(bare.code == 2);
  CHECK_THAT(bare.err, Contains("--http") && Contains("needs brackets"));
  Process server(CoxswainCommand({"serve", "--model-dir", model, "--http", "[::1]:0"}));
  const bool listens = server.WaitForOutput("/v1/models/");
  INFO(server.out() << server.err());
  if (!listens && server.err().find("cannot listen at") != std::string::npos) {
    WARN("not tested: this machine has no address ::1");
    return;
  }
  REQUIRE(listens);
  const std::string out = server.out(), before = "http://[::1]:";
  const size_t at = out.find(before);
  REQUIRE(at != std::string::npos);
  httplib::Client client("::1", std::stoi(out.substr(at + before.size())));
  const auto answer = client.Get("/healthz");
  REQUIRE(answer);
  CHECK(answer->status == 200);
  server.Kill(SIGTERM);
  CHECK(server.Wait().code == 0);
}

TEST_CASE("serve: a model that is damaged while it is served is told of once and counted",
          "[serve]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kModel), model = files.Path("model");
  REQUIRE(Coxswain({"train", job, "--in-process", "--quiet", "--model-dir", model}).code == 0);
  Process server(CoxswainCommand(
      {"serve", "--model-dir", model, "--http", "127.0.0.1:0", "--drain-seconds", "1"}));
  httplib::Client client("127.0.0.1", PortOf(server));
  const std::string manifest = model + "/model.json";
  const nlohmann::json whole = ReadJson(manifest);
  nlohmann::json damaged = whole;
  auto& sum = damaged["variables"][0]["crc32"];
  sum = sum.get<uint32_t>() ^ 1;
  files.Write("model/model.json", damaged.dump());
  const bool told = server.WaitForError("the newer model is not served");
  INFO(server.err());
  REQUIRE(told);
  const auto metrics = client.Get("/metrics");
  REQUIRE(metrics);
  CHECK_THAT(metrics->body, !Contains("coxswain_serve_reload_failures_total 0\n"));
  CHECK(client.Get("/readyz")->status == 200);
  files.Write("model/model.json", whole.dump());
  REQUIRE(server.WaitForOutput("serving a newer model"));
  server.Kill(SIGTERM);
  while (true) {  // until it drains, or has ended
    const auto ready = client.Get("/readyz");
    REQUIRE(ready);
    if (ready->status == 503) break;
  }
  const auto ended = server.Wait();
  CHECK(ended.code == 0);
  const std::string note = "note: the newer model";
  CHECK(ended.err.find(note) == ended.err.rfind(note));
}

TEST_CASE(
    "serve: a job is followed while its workers are killed, no request fails, and the last "
    "checkpoint says what predict says of the model",
    "[serve]") {
  const DataFiles files;
  const std::string job = WriteTabular(files, kModel), model = files.Path("model"),
                    checkpoints = files.Path("checkpoints");
  Process server(CoxswainCommand({"serve", "--follow", checkpoints, "--http", "127.0.0.1:0"}));
  const int port = PortOf(server);
  httplib::Client early("127.0.0.1", port);
  CHECK(early.Get("/readyz")->status == 503);  // nothing trains yet

  Daemons daemons(files, 2, 2);
  Process training(CoxswainCommand({"train", job, "--cluster", daemons.cluster_file(), "--quiet",
                                    "--checkpoint-dir", checkpoints, "--model-dir", model, "--set",
                                    "checkpoint.every_steps=100", "--set", "train.epochs=400",
                                    "--set", "checkpoint.keep=5"}));
  const bool begun = server.WaitForOutput(" steps\n");  // of the first, or a newer one
  INFO(server.out() << server.err() << training.err());
  REQUIRE(begun);
  std::atomic<bool> ending{false};
  std::atomic<int> failed{0};
  std::thread client([&] {
    httplib::Client asking("127.0.0.1", port);
    while (!ending.load()) {
      const auto answer =
          asking.Post("/v1/models/model:predict",
                      R"({"instances": [{"color": "red", "size": 17}]})", "application/json");
      failed += !answer || answer->status != 200;
    }
  });
  daemons.worker(0).Kill(SIGKILL);
  daemons.RestartWorker(0);
  const auto trained = training.Wait();
  INFO(trained.err);
  CHECK(trained.code == 0);
  const int64_t steps = ReadJson(model + "/model.json")["steps"].get<int64_t>();
  const bool last = server.WaitForOutput(absl::StrCat("of ", cli::WithCommas(steps), " steps\n"));
  ending = true;
  client.join();
  INFO(server.out() << server.err());
  CHECK(last);
  CHECK(failed == 0);

  const std::string rows = files.Write("rows.csv", "color,size\nred,17\nblue,80\n");
  const auto of_model = Coxswain({"predict", "--model-dir", model, "--input", rows});
  const auto of_checkpoint =
      Coxswain({"predict", "--checkpoint-dir", checkpoints, "--input", rows});
  INFO(of_checkpoint.err);
  CHECK(of_checkpoint.code == 0);
  CHECK(of_checkpoint.out == of_model.out);
  httplib::Client asking("127.0.0.1", port);
  const auto status = asking.Get("/v1/models/model");
  REQUIRE(status);
  CHECK(nlohmann::json::parse(status->body)["model_version_status"][0]["version"] ==
        absl::StrCat(steps));
  const auto served = asking.Post("/v1/models/model:predict",
                                  R"({"inputs": {"color": ["red", "blue"], "size": [17, 80]}})",
                                  "application/json");
  REQUIRE(served);
  const nlohmann::json answer = nlohmann::json::parse(served->body);
  const std::vector<std::string> lines = absl::StrSplit(of_model.out, '\n');
  for (size_t i = 0; i < 2; ++i) {
    const std::vector<std::string> cells = absl::StrSplit(lines[i + 1], ',');
    CHECK(answer["outputs"]["score"][i].get<double>() == Approx(std::stod(cells[0])));
  }
  // Back to an older one, by a request from this machine.
  const auto back =
      asking.Post("/v1/models/model:use", R"({"version": 100000000})", "application/json");
  REQUIRE(back);
  CHECK(back->status == 404);
  const auto page = asking.Post("/v1/models/model:use", R"({"version": "newest"})", "text/plain");
  REQUIRE(page);
  CHECK(page->status == 403);
  // A page of another name that leads to this machine is not from here.
  for (const char* host : {"pages.example:8501", "127.pages.example", "127.0.0.1.example:1"}) {
    const auto rebound = asking.Post("/v1/models/model:use", {{"Host", host}},
                                     R"({"version": "newest"})", "application/json");
    REQUIRE(rebound);
    CHECK(rebound->status == 403);
  }
  CHECK(
      asking.Post("/v1/models/model:use", R"({"version": "newest"})", "application/json")->status ==
      200);
  server.Kill(SIGTERM);
  CHECK(server.Wait().code == 0);
}

}  // namespace
}  // namespace coxswain
