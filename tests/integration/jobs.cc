#include "tests/integration/jobs.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "runtime/net/secret.h"
#include "runtime/net/secret_transport.h"
#include "tests/testing/paths.h"

namespace coxswain {
namespace {

constexpr char kPs[] = COXSWAIN_BINARY_DIR "/bin/coxswain-ps";
constexpr char kWorker[] = COXSWAIN_BINARY_DIR "/bin/coxswain-worker";
constexpr char kListening[] = "listening on ";

// A spread of 0 .. 9999 that has nothing to do with the order.
uint32_t Scatter(uint32_t i) { return (i * 2654435761u >> 8) % 10000; }

std::string Quoted(const std::vector<std::string>& addresses) {
  return absl::StrJoin(addresses, ", ", [](std::string* out, const std::string& a) {
    absl::StrAppend(out, "\"", a, "\"");
  });
}

}  // namespace

const char kProgram[] = COXSWAIN_BINARY_DIR "/bin/coxswain";

std::vector<std::string> CoxswainCommand(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {kProgram};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

Process::Result Coxswain(const std::vector<std::string>& arguments,
                         const Process::Environment& environment) {
  return Run(CoxswainCommand(arguments), environment);
}

std::string WriteTwoTower(const DataFiles& files) {
  std::string csv = "user,item\n";
  for (int user = 0; user < 24; ++user) {
    for (int i = 0; i < 6; ++i) {
      absl::StrAppend(&csv, "u", user, ",i", user % 4 * 8 + (user / 4 + i) % 8, "\n");
    }
  }
  files.Write("pairs.csv", csv);
  return files.Write("two_tower.yaml", R"(name: pairs
dataset: {path: pairs.csv}
features:
  - {name: item, kind: categorical}
  - {name: history, kind: history, history_of: item, group_by: user}
split: {holdout_per: user}
model:
  kind: two_tower
  user: {features: [history]}
  item: {feature: item}
  dim: 8
loss: {kind: sampled_softmax, negatives: 16}
optimizer:
  table: {kind: lazy_adam, learning_rate: 0.02}
train: {epochs: 60, batch_size: 32}
evaluate: {metrics: [hit_rate@3], every_epochs: 20}
)");
}

std::string WriteMatrixFactorization(const DataFiles& files) {
  std::string csv = "user,item,rating\n";
  for (int user = 0; user < 30; ++user) {
    for (int item = 0; item < 20; ++item) {
      absl::StrAppend(&csv, "u", user, ",i", item, ",", 1 + user % 3 + item % 3, "\n");
    }
  }
  files.Write("ratings.csv", csv);
  return files.Write("mf.yaml", R"(name: ratings
dataset: {path: ratings.csv}
features:
  - {name: user, kind: categorical}
  - {name: item, kind: categorical}
label: {column: rating}
split: {validation: 0.2}
model:
  kind: matrix_factorization
  user: {feature: user}
  item: {feature: item}
  dim: 4
optimizer:
  table: {kind: adagrad, learning_rate: 0.1}
  dense: {kind: adagrad, learning_rate: 0.1}
train:
  epochs: 30
  batch_size: 32
evaluate: {metrics: [rmse], every_epochs: 10}
)");
}

std::string WriteTabular(const DataFiles& files, const std::string& model) {
  const std::vector<std::string> colors = {"red", "green", "blue", "grey", "pink"};
  std::string csv = "color,size,label,kind\n";
  for (uint32_t row = 0; row < 600; ++row) {
    const uint32_t color = Scatter(row) % 5, size = Scatter(row + 1000) % 100;
    // Large for red and green, small for the others.
    const bool positive = (color < 2) == (size >= 50);
    absl::StrAppend(&csv, colors[color], ",", size, ",", positive ? 1 : 0, ",",
                    color < 2 ? (size >= 50 ? 2 : 1) : 0, "\n");
  }
  files.Write("table.csv", csv);
  const bool embeds = !absl::StrContains(model, "_regression");
  return files.Write("tabular.yaml", absl::StrCat(R"(name: table
dataset: {path: table.csv}
features:
  - {name: color, kind: categorical)",
                                                  embeds ? ", dim: 4" : "", R"(}
  - {name: size, kind: numeric, normalization: standard}
split: {validation: 0.2}
)",
                                                  model));
}

std::string WriteLogisticRegression(const DataFiles& files) {
  std::string text;
  for (uint32_t row = 0; row < 400; ++row) {
    std::string features;
    bool positive = false;
    for (uint32_t f = 1; f <= 20; ++f) {
      const bool there = Scatter(row * 20 + f) % 100 < (f <= 5 ? 13 : 40);
      if (!there) continue;
      absl::StrAppend(&features, " ", f, ":1");
      positive |= f <= 5;
    }
    absl::StrAppend(&text, positive ? 1 : 0, features, "\n");
  }
  files.Write("examples.libsvm", text);
  return files.Write("lr.yaml", R"(name: sparse
dataset: {format: libsvm, path: examples.libsvm, feature_count: 20}
split: {validation: 0.2}
model: {kind: logistic_regression}
optimizer:
  table: {kind: ftrl, learning_rate: 0.5}
  dense: {kind: adam, learning_rate: 0.05}
train: {epochs: 10, batch_size: 16}
evaluate: {metrics: [auc, logloss, accuracy], every_epochs: 5}
)");
}

nlohmann::json ReadJson(const std::string& path) {
  std::ifstream in(path);
  INFO(path);
  REQUIRE(in.good());
  nlohmann::json json = nlohmann::json::parse(in, nullptr, false);
  REQUIRE_FALSE(json.is_discarded());
  return json;
}

std::string AddressOf(const Process& daemon) {
  // The address and the end of its line come in one write.
  const bool printed = daemon.WaitForOutput("\n");
  const std::string out = daemon.out();
  INFO(out << daemon.err());
  REQUIRE(printed);
  REQUIRE(out.rfind(kListening, 0) == 0);
  const size_t begin = sizeof(kListening) - 1;
  return out.substr(begin, out.find('\n') - begin);
}

std::unique_ptr<net::Transport> WithSecret(std::unique_ptr<net::Transport> transport) {
  auto secret = net::FindSecret({});
  INFO(secret.status());
  REQUIRE(secret.ok());
  return net::NewSecretTransport(std::move(transport), *std::move(secret));
}

int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(fd >= 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const int bound = bind(fd, reinterpret_cast<sockaddr*>(&address), size);
  const int named = getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  close(fd);
  REQUIRE(bound == 0);
  REQUIRE(named == 0);
  return ntohs(address.sin_port);
}

Daemons::Daemons(const DataFiles& files, int ps, int workers, LaunchOf launch)
    : launch_(std::move(launch)) {
  for (int p = 0; p < ps; ++p) ps_.push_back(Start("ps", p, "0"));
  for (int w = 0; w < workers; ++w) workers_.push_back(Start("worker", w, "0"));
  for (const auto& daemon : ps_) config_.ps.push_back(AddressOf(*daemon));
  for (const auto& daemon : workers_) config_.workers.push_back(AddressOf(*daemon));
  cluster_file_ = files.Write(
      "cluster.yaml",
      absl::StrCat("ps: [", Quoted(config_.ps), "]\nworker: [", Quoted(config_.workers), "]\n"));
}

std::unique_ptr<Process> Daemons::Start(const std::string& job, int task,
                                        const std::string& port) const {
  const Launch launch = launch_ ? launch_(job, task) : Launch{};
  std::vector<std::string> command = launch.prefix;
  command.insert(command.end(), {job == "ps" ? kPs : kWorker, "--port", port, "--task",
                                 absl::StrCat(task), "--exit-with-parent"});
  command.insert(command.end(), launch.flags.begin(), launch.flags.end());
  return std::make_unique<Process>(command);
}

// While nobody listens there, a connection of another test may be given the port for its own end:
// it is waited for.
std::unique_ptr<Process> Daemons::StartAgain(const std::string& job, int task,
                                             const std::string& address) const {
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (true) {
    auto daemon = Start(job, task, address.substr(address.rfind(':') + 1));
    if (daemon->WaitForOutput("\n") || absl::Now() > deadline ||
        !daemon->WaitForError("the port is taken")) {
      CHECK(AddressOf(*daemon) == address);
      return daemon;
    }
  }
}

void Daemons::RestartWorker(int task) {
  auto& worker = workers_[static_cast<size_t>(task)];
  worker = nullptr;
  worker = StartAgain("worker", task, config_.workers[static_cast<size_t>(task)]);
}

void Daemons::RestartPs(int task) {
  auto& ps = ps_[static_cast<size_t>(task)];
  ps = nullptr;
  ps = StartAgain("ps", task, config_.ps[static_cast<size_t>(task)]);
}

nlohmann::json Daemons::Status() const {
  const auto result = Coxswain({"status", "--cluster", cluster_file_, "--json"});
  nlohmann::json json = nlohmann::json::parse(result.out, nullptr, false);
  INFO(result.out << result.err);
  REQUIRE(json.is_array());
  return json;
}

}  // namespace coxswain
