// The cluster file and TF_CONFIG.
#include <catch2/catch.hpp>
#include <random>
#include <string>

#include "absl/strings/match.h"
#include "runtime/base/status.h"
#include "runtime/cluster/cluster_config.h"

namespace coxswain::cluster {
namespace {

using Strings = std::vector<std::string>;

std::string ClusterError(const std::string& text) {
  const absl::StatusOr<ClusterConfig> config = ParseClusterConfig(text, "cluster.yaml");
  return config.ok() ? "" : std::string(config.status().message());
}

std::string TfError(const std::string& json) {
  const absl::StatusOr<TaskConfig> config = ParseTfConfig(json);
  return config.ok() ? "" : std::string(config.status().message());
}

TEST_CASE("a cluster file names workers and parameter servers in their order") {
  const absl::StatusOr<ClusterConfig> config = ParseClusterConfig(
      "worker: [localhost:1, 10.0.0.2:65535]\nps:\n  - \"[::1]:2222\"\n  - ps-0.ns.svc:80\n",
      "cluster.yaml");
  REQUIRE(config.ok());
  CHECK(config->workers == Strings{"localhost:1", "10.0.0.2:65535"});
  CHECK(config->ps == Strings{"[::1]:2222", "ps-0.ns.svc:80"});
}

TEST_CASE("a wrong cluster file is told line by line") {
  CHECK(ClusterError("workers: [a:1]\nps: [a:0, b, 'b:1', b:1, [c]]\n") ==
        "cluster.yaml:1:1: unknown key 'workers'; did you mean 'worker'? there is: worker, ps\n"
        "cluster.yaml:2:6: wanted 'host:port', found 'a:0': the port is not in 1..65535\n"
        "cluster.yaml:2:11: wanted 'host:port', found 'b': there is no port\n"
        "cluster.yaml:2:21: address 'b:1' is given twice, first at cluster.yaml:2:14\n"
        "cluster.yaml:2:26: wanted 'host:port', found a list\n"
        "cluster.yaml:1:1: 'worker' is missing (a list of 'host:port')");
  CHECK(ClusterError("worker: [a:1]\nps: []\n") ==
        "cluster.yaml:2:5: ps: wanted a list of one or more 'host:port', found an empty one");
  CHECK(ClusterError("worker: [a:1]\nps: a:2\n") ==
        "cluster.yaml:2:5: ps: wanted a list of one or more 'host:port', found the text 'a:2'");
  CHECK(ClusterError("worker: [a:1]\nps: [a:1]\n") ==
        "cluster.yaml:2:6: address 'a:1' is given twice, first at cluster.yaml:1:10");
  CHECK(ClusterError("") == "cluster.yaml:1:1: wanted the keys worker and ps, found nothing");
  CHECK(ClusterError("worker: [a:1]\nworker: [b:1]\n") ==
        "cluster.yaml:2:1: key 'worker' is given twice, first at cluster.yaml:1:1");
  CHECK(absl::StartsWith(ClusterError("worker: [a"), "cluster.yaml:1:"));
}

TEST_CASE("addresses are accepted exactly when they are a host and a port") {
  for (const char* good :
       {"a:1", "a-b.c_d:65535", "127.0.0.1:80", "[::1]:80", "[fe80::1%eth0]:1"}) {
    INFO(good);
    CHECK(CheckAddress(good).ok());
  }
  for (const char* bad :
       {"", ":", "a", "a:", ":1", "a:0", "a:65536", "a:-1", "a:+1", "a: 1", "a:1 ", "a b:1",
        "::1:80", "[::1]", "[]:1", "[::1:1", "http://a:1", "a:1x", "a:99999999999999999999"}) {
    INFO(bad);
    CHECK_FALSE(CheckAddress(bad).ok());
  }
}

TEST_CASE("TF_CONFIG gives the cluster and the own task") {
  const absl::StatusOr<TaskConfig> config = ParseTfConfig(R"({
    "cluster": {"worker": ["w0:1", "w1:1"], "ps": ["p0:1"], "chief": ["c:1"]},
    "task": {"type": "worker", "index": 1}, "environment": "cloud"})");
  REQUIRE(config.ok());
  CHECK(config->cluster.workers == Strings{"w0:1", "w1:1"});
  CHECK(config->cluster.ps == Strings{"p0:1"});
  CHECK(config->type == "worker");
  CHECK(config->index == 1);
  const absl::StatusOr<TaskConfig> chief = ParseTfConfig(
      R"({"cluster": {"worker": ["w:1"], "ps": ["p:1"]}, "task": {"type": "chief", "index": "0"}})");
  REQUIRE(chief.ok());
  CHECK(chief->type == "chief");
  CHECK(chief->index == 0);
}

TEST_CASE("a wrong TF_CONFIG is told by what it should have been") {
  const auto with_task = [](const std::string& task) {
    return R"({"cluster": {"worker": ["w:1"], "ps": ["p:1"]}, "task": )" + task + "}";
  };
  CHECK(TfError(with_task(R"({"type": "ps", "index": 1})")) ==
        "TF_CONFIG: task.index: wanted 0..0 for type ps, found 1");
  CHECK(TfError(with_task(R"({"type": "ps", "index": -1})")) ==
        "TF_CONFIG: task.index: wanted 0..0 for type ps, found -1");
  CHECK(TfError(with_task(R"({"type": "ps", "index": 0.5})")) ==
        "TF_CONFIG: task.index: wanted a number");
  CHECK(TfError(with_task(R"({"type": "boss", "index": 0})")) ==
        "TF_CONFIG: task.type: wanted worker, ps, chief, coordinator or evaluator");
  CHECK(TfError(with_task("[]")) ==
        "TF_CONFIG: wanted an object \"task\" with \"type\" and \"index\"");
  const std::string task = R"(, "task": {"type": "worker", "index": 0}})";
  CHECK(TfError(R"({"cluster": {"worker": ["w:1", "w:1", 3], "pss": []})" + task) ==
        "TF_CONFIG: cluster: unknown job 'pss'; did you mean 'ps'? there is: worker, ps, chief, "
        "coordinator, evaluator\n"
        "TF_CONFIG: cluster.worker[1]: address 'w:1' is given twice, first at TF_CONFIG: "
        "cluster.worker[0]\n"
        "TF_CONFIG: cluster.worker[2]: wanted \"host:port\", found number");
  CHECK(TfError(R"({"cluster": {"worker": "w:1", "ps": ["p:1"]})" + task) ==
        "TF_CONFIG: cluster.worker: wanted a list of addresses, found string");
  CHECK(TfError(R"({"cluster": {"worker": ["w:1"]})" + task) ==
        "TF_CONFIG: cluster: no address for job 'ps'");
  CHECK(TfError("[]") ==
        "TF_CONFIG: wanted an object \"cluster\" with lists \"worker\" and \"ps\"");
  CHECK(absl::StartsWith(TfError("{"), "TF_CONFIG: not valid JSON: "));
}

TEST_CASE("configuration errors carry their cause") {
  for (const absl::Status& status :
       {ParseClusterConfig("a: b", "c").status(), ParseClusterConfig("a: [", "c").status(),
        ParseTfConfig("3").status()}) {
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    REQUIRE(GetDetail(status).has_value());
    CHECK(GetDetail(status)->cause == ErrorCause::kConfiguration);
  }
}

TEST_CASE("no damaged TF_CONFIG crashes the reader") {
  const std::string valid =
      R"({"cluster": {"worker": ["w:1"], "ps": ["p:1"]}, "task": {"type": "ps", "index": 0}})";
  std::mt19937 random(5);
  int rejected = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text = valid;
    for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
      const size_t at = random() % text.size();
      if (random() % 2 == 0) {
        text[at] = "{}[]:,\"0-e\x80 x"[random() % 13];
      } else {
        text.erase(at, 1 + random() % 9);
      }
      if (text.empty()) text = std::string(" ");
    }
    const absl::StatusOr<TaskConfig> config = ParseTfConfig(text);
    if (config.ok()) continue;
    ++rejected;
    if (!absl::StartsWith(config.status().message(), "TF_CONFIG: ")) {
      FAIL(config.status().message());
    }
  }
  CHECK(rejected > 1000);
}

}  // namespace
}  // namespace coxswain::cluster
