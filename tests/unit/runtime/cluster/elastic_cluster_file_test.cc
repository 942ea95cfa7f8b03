// Workers are added to and removed from the text of a cluster file, and all else stays.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/cluster/cluster_config.h"

namespace coxswain::cluster {
namespace {

using Catch::Matchers::Contains;
using Workers = std::vector<std::string>;

std::string MustChange(const std::string& text, const Workers& workers, bool* rewritten = nullptr) {
  bool was_rewritten = false;
  const auto changed = WithWorkers(text, "c.yaml", workers, &was_rewritten);
  INFO(text << changed.status());
  REQUIRE(changed.ok());
  if (rewritten == nullptr) {
    CHECK_FALSE(was_rewritten);
  } else {
    *rewritten = was_rewritten;
  }
  const auto config = ParseClusterConfig(*changed, "changed");
  INFO(*changed << config.status());
  REQUIRE(config.ok());
  CHECK(config->workers == workers);
  CHECK(config->ps == ParseClusterConfig(text, "c.yaml")->ps);
  return *changed;
}

TEST_CASE("a worker is added behind the last one, and comments and order stay", "[elastic]") {
  CHECK(MustChange("# mine\nworker:  # two\n  - a:1  # old\n  - b:2  # new\n\n# PS\nps: [p:1]\n",
                   {"a:1", "b:2", "c:3"}) ==
        "# mine\nworker:  # two\n  - a:1  # old\n  - b:2  # new\n  - c:3\n\n# PS\nps: [p:1]\n");
  CHECK(MustChange("ps: [p:1]\nworker:\n- a:1", {"a:1", "b:2"}) ==
        "ps: [p:1]\nworker:\n- a:1\n- b:2");
  CHECK(MustChange("ps: [p:1]\r\nworker:\r\n- a:1\r\n", {"a:1", "b:2"}) ==
        "ps: [p:1]\r\nworker:\r\n- a:1\r\n- b:2\r\n");
}

TEST_CASE("a list between brackets stays one", "[elastic]") {
  CHECK(MustChange("worker: [a:1, b:2]  # all\nps: [p:1]\n", {"a:1", "b:2", "c:3", "d:4"}) ==
        "worker: [a:1, b:2, c:3, d:4]  # all\nps: [p:1]\n");
  CHECK(MustChange("worker: [\n  'a:1',  # one\n  'b:2',\n]\nps: [p:1]\n", {"a:1", "b:2", "c:3"}) ==
        "worker: [\n  'a:1',  # one\n  'b:2', 'c:3',\n]\nps: [p:1]\n");
  CHECK(MustChange(R"({"ps": ["p:1"], "worker": ["a:1"]})", {"a:1", "b:2"}) ==
        R"({"ps": ["p:1"], "worker": ["a:1", "b:2"]})");
}

TEST_CASE("an IPv6 address is quoted", "[elastic]") {
  CHECK(MustChange("ps: [p:1]\nworker: [a:1]\n", {"a:1", "[::1]:2"}) ==
        "ps: [p:1]\nworker: [a:1, \"[::1]:2\"]\n");
  CHECK(MustChange("ps: [p:1]\nworker:\n  - \"[::1]:1\"\n", {"[::1]:1", "[::1]:2"}) ==
        "ps: [p:1]\nworker:\n  - \"[::1]:1\"\n  - \"[::1]:2\"\n");
}

TEST_CASE("workers are removed from the end with what stands on their lines", "[elastic]") {
  CHECK(MustChange("worker:\n  - a:1  # one\n  - b:2  # two\n  - c:3\nps: [p:1]\n", {"a:1"}) ==
        "worker:\n  - a:1  # one\nps: [p:1]\n");
  CHECK(MustChange("worker: [a:1, b:2, c:3, ]  # all\nps: [p:1]", {"a:1", "b:2"}) ==
        "worker: [a:1, b:2, ]  # all\nps: [p:1]");
}

TEST_CASE("a worker that moved is replaced where it stands", "[elastic]") {
  CHECK(MustChange("worker:\n  - a:1  # one\n  - b:2  # two\nps: [p:1]\n", {"z:9", "b:2", "c:3"}) ==
        "worker:\n  - z:9  # one\n  - b:2  # two\n  - c:3\nps: [p:1]\n");
}

TEST_CASE("the same list leaves the text as it is", "[elastic]") {
  const std::string text = "# x\nps: [ p:1 ]\nworker: &w [ a:1 ]";
  CHECK(MustChange(text, {"a:1"}) == text);
}

TEST_CASE("a file that cannot be edited is written anew, its first comment stays", "[elastic]") {
  bool rewritten = false;
  CHECK(MustChange("# mine\n# too\nps: [&p a:1]\n# gone\nworker: [b:1, &w \"b\\x3a2\"]\n",
                   {"b:1", "b:2", "b:3"}, &rewritten) ==
        "# mine\n# too\nps:\n  - a:1\nworker:\n  - b:1\n  - b:2\n  - b:3\n");
  CHECK(rewritten);
}

TEST_CASE("every list can become every other, in every style", "[elastic]") {
  const std::vector<Workers> lists = {
      {"a:1"}, {"b:2"}, {"a:1", "b:2"}, {"b:2", "a:1", "c:3"}, {"[::1]:1", "a:1"}, {"a:1", "d:4"}};
  const auto quoted = [](const char* separator, const Workers& list) {
    return absl::StrJoin(list, separator, [](std::string* out, const auto& a) {
      absl::StrAppend(out, "'", a, "'");
    });
  };
  for (const Workers& from : lists) {
    const std::vector<std::string> styles = {
        absl::StrCat("# c\nworker: [", quoted(", ", from), "]\nps: [p:1, p:2]\n# e"),
        absl::StrCat("# c\nps: [p:1, p:2]\nworker:\n   - ", quoted("\n   - ", from), "\n# e"),
        absl::StrCat("# c\nps:\n- p:1\n- p:2\nworker: [\n ", quoted(",\n ", from), "\n ]\n# e")};
    for (const std::string& text : styles) {
      for (const Workers& to : lists) {
        const std::string changed = MustChange(text, to);
        CHECK_THAT(changed, Contains("# c\n") && Contains("\n# e"));
      }
    }
  }
}

TEST_CASE("a list of workers that is none is refused, and a broken file is", "[elastic]") {
  const std::string text = "ps: [p:1]\nworker: [a:1]\n";
  const auto error = [](const std::string& file, const Workers& workers) {
    const auto changed = WithWorkers(file, "c.yaml", workers);
    REQUIRE_FALSE(changed.ok());
    CHECK(absl::IsInvalidArgument(changed.status()));
    return std::string(changed.status().message());
  };
  CHECK_THAT(error(text, {}), Contains("worker"));
  CHECK_THAT(error(text, {"a:1", "a:1"}), Contains("given twice"));
  CHECK_THAT(error(text, {"a:1", "p:1"}), Contains("given twice"));
  CHECK_THAT(error(text, {"a:1", "b"}), Contains("there is no port"));
  CHECK_THAT(error("ps: [p:1]\nwrker: [a:1]\n", {"a:1"}), Contains("c.yaml:2:1"));
}

TEST_CASE("a new cluster file says what its config does", "[elastic]") {
  const ClusterConfig config{{"a:1", "[::1]:2"}, {"p:1"}};
  const auto read = ParseClusterConfig(FormatClusterConfig(config), "c.yaml");
  REQUIRE(read.ok());
  CHECK(read->workers == config.workers);
  CHECK(read->ps == config.ps);
}

}  // namespace
}  // namespace coxswain::cluster
