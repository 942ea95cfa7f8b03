// CHAOS.yaml: what it may say and what is said about mistakes; docs/chaos.md and the example.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/chaos/chaos_spec.h"
#include "coordinator/chaos/schedule.h"
#include "runtime/base/status.h"
#include "runtime/config/yaml_reader.h"
#include "tests/testing/paths.h"

namespace coxswain::chaos {
namespace {

using Catch::Matchers::Contains;

const std::string kRoot = COXSWAIN_SOURCE_DIR;

ChaosSpec Parse(const std::string& text) {
  const auto spec = ParseChaos(text, "chaos.yaml");
  INFO(spec.status().message());
  REQUIRE(spec.ok());
  return *spec;
}

// What is said about a file that is wrong.
std::string Complaint(const std::string& text) {
  const auto spec = ParseChaos(text, "chaos.yaml");
  REQUIRE_FALSE(spec.ok());
  CHECK(GetDetail(spec.status())->cause == ErrorCause::kConfiguration);
  return std::string(spec.status().message());
}

std::string OneFault(const std::string& keys) {
  return absl::StrCat("faults:\n  - {", keys, "}\n");
}

TEST_CASE("a chaos file's keys become rules, and defaults are filled in", "[chaos]") {
  const ChaosSpec spec = Parse(R"(seed: 7
faults:
  - {task: worker, every: 5s, count: 3, jitter: 500ms, after: 1m}
  - {task: "ps:1", action: stop, at: [2, 1m30s], stop_for: [1s, 4s]}
  - {task: coordinator, action: terminate, at: 3s, restart_delay: 0s}
visitation: false
)");
  CHECK(spec.seed == 7);
  CHECK(spec.baseline);
  CHECK_FALSE(spec.visitation);
  CHECK(spec.give_up_after == absl::Minutes(10));
  REQUIRE(spec.faults.size() == 3);
  const FaultRule& kill = spec.faults[0];
  CHECK(kill.task == TaskKind::kWorker);
  CHECK(kill.index == -1);
  CHECK(kill.action == FaultAction::kKill);
  CHECK(kill.every == absl::Seconds(5));
  CHECK(kill.after == absl::Minutes(1));
  CHECK(kill.count == 3);
  CHECK(kill.jitter == absl::Milliseconds(500));
  CHECK(kill.restart_delay.low == absl::Milliseconds(500));
  CHECK(kill.restart_delay.high == absl::Milliseconds(500));
  CHECK(kill.where == "chaos.yaml:3:5");
  const FaultRule& stop = spec.faults[1];
  CHECK(stop.task == TaskKind::kPs);
  CHECK(stop.index == 1);
  CHECK(stop.action == FaultAction::kStop);
  CHECK(stop.at == std::vector<absl::Duration>{absl::Seconds(2), absl::Seconds(90)});
  CHECK(stop.stop_for.low == absl::Seconds(1));
  CHECK(stop.stop_for.high == absl::Seconds(4));
  const FaultRule& end = spec.faults[2];
  CHECK(end.task == TaskKind::kCoordinator);
  CHECK(end.action == FaultAction::kTerminate);
  CHECK(end.at == std::vector<absl::Duration>{absl::Seconds(3)});
  CHECK(end.restart_delay.high == absl::ZeroDuration());
}

TEST_CASE("a mistake in a chaos file is told with its place and what was meant", "[chaos]") {
  CHECK_THAT(Complaint("fautls: []\n"), Contains("chaos.yaml:1:1: unknown key 'fautls'") &&
                                            Contains("did you mean 'faults'?"));
  CHECK_THAT(Complaint(OneFault("task: worker, evry: 5s, at: 1s")),
             Contains("chaos.yaml:2:20: unknown key 'evry'") && Contains("'every'"));
  CHECK_THAT(Complaint(OneFault("task: worker, at: 1s, action: kil")),
             Contains("wanted one of kill, stop, terminate") && Contains("did you mean 'kill'?"));
  CHECK_THAT(Complaint(OneFault("task: workr, at: 1s")),
             Contains("chaos.yaml:2:6: faults.0.task: unknown task 'workr'") &&
                 Contains("did you mean 'worker'?"));
  CHECK_THAT(Complaint(OneFault("task: 'worker:x', at: 1s")),
             Contains("wanted a number after 'worker:'"));
  CHECK_THAT(Complaint(OneFault("task: 'coordinator:0', at: 1s")), Contains("one coordinator"));
  CHECK_THAT(Complaint(OneFault("task: ps")), Contains("give every, at or at_update"));
  CHECK_THAT(Complaint(OneFault("task: ps, at: 1s, every: 1s")),
             Contains("one of every, at and at_update"));
  CHECK_THAT(Complaint(OneFault("task: ps, at: 1s, count: 2")), Contains("only with every"));
  CHECK_THAT(Complaint(OneFault("task: ps, at_update: [5], count: 2")),
             Contains("only with every"));
  CHECK_THAT(Complaint(OneFault("task: ps, at_update: [5], jitter: 1s")),
             Contains("only with every or at"));
  CHECK_THAT(Complaint(OneFault("task: ps, at_update: []")),
             Contains("wanted a number of updates"));
  CHECK_THAT(Complaint(OneFault("task: ps, at_update: [0]")), Contains("at_update"));
  CHECK_THAT(Complaint(OneFault("task: ps, every: 5 parsecs")),
             Contains("wanted a time like 500ms, 5s or 1m30s; found '5 parsecs'"));
  CHECK_THAT(Complaint(OneFault("task: ps, every: -5s")), Contains("wanted a time"));
  CHECK_THAT(Complaint(OneFault("task: ps, every: 1ms")), Contains("at least 10ms"));
  CHECK_THAT(Complaint(OneFault("task: ps, every: 4s, jitter: 3s")), Contains("half of every"));
  CHECK_THAT(Complaint(OneFault("task: ps, at: 1s, restart_delay: [3s, 1s]")),
             Contains("the shorter one first"));
  CHECK_THAT(Complaint(OneFault("task: ps, at: 1s, stop_for: 3s")), Contains("only for stop"));
  CHECK_THAT(Complaint("seed: 1\n"), Contains("'faults' is missing"));
  CHECK_THAT(Complaint("faults: [{task: ps, at: 1s}]\ngive_up_after: 0s\n"),
             Contains("chaos.yaml:2:1: give_up_after: wanted at least 1s"));
  CHECK_THAT(Complaint("faults: {"), Contains("not valid YAML"));
}

TEST_CASE("a rule for a task that the cluster lacks is told with its place", "[chaos]") {
  const ChaosSpec spec = Parse(OneFault("task: 'worker:2', at: 1s"));
  CHECK(CheckTargets(spec, 1, 3).ok());
  const absl::Status status = CheckTargets(spec, 5, 2);
  CHECK_THAT(std::string(status.message()),
             Contains("chaos.yaml:2:5: task worker:2: the cluster has 2"));
}

TEST_CASE("the example kills 3 workers, 2 parameter servers and the coordinator in 25 s",
          "[chaos]") {
  const auto spec = ParseChaosFile(kRoot + "/examples/chaos.yaml");
  INFO(spec.status().message());
  REQUIRE(spec.ok());
  REQUIRE(CheckTargets(*spec, 2, 2).ok());
  int workers = 0, ps = 0, coordinators = 0;
  for (const PlannedFault& fault : MakeSchedule(*spec, 2, 2, absl::Seconds(25))) {
    if (fault.action != FaultAction::kKill) continue;
    workers += fault.task == TaskKind::kWorker;
    ps += fault.task == TaskKind::kPs;
    coordinators += fault.task == TaskKind::kCoordinator;
  }
  CHECK(workers >= 3);
  CHECK(ps >= 2);
  CHECK(coordinators >= 1);
}

TEST_CASE("the soak's example kills a worker every 5 s and a parameter server every 30 s",
          "[chaos]") {
  const auto spec = ParseChaosFile(kRoot + "/examples/soak.yaml");
  INFO(spec.status().message());
  REQUIRE(spec.ok());
  REQUIRE(spec->faults.size() == 3);
  CHECK(spec->faults[0].task == TaskKind::kWorker);
  CHECK(spec->faults[0].every == absl::Seconds(5));
  CHECK(spec->faults[1].task == TaskKind::kPs);
  CHECK(spec->faults[1].every == absl::Seconds(30));
}

TEST_CASE("docs/chaos.md has every key with its type, default and meaning, and a valid file",
          "[chaos]") {
  const absl::StatusOr<std::string> page = config::ReadTextFile(kRoot + "/docs/chaos.md");
  REQUIRE(page.ok());
  size_t keys = 0;
  for (const job::SchemaSection* section : job::AllSections(ChaosSchema())) {
    const std::string title = section->path[0] == '\0' ? "The file" : section->path;
    const std::string wanted = absl::StrCat("## ", title, "\n\n", job::SchemaTable(*section), "\n");
    INFO("the page should have:\n" << wanted);
    CHECK(absl::StrContains(*page, wanted));
    keys += section->keys.size();
  }
  CHECK(keys == 15);
  const std::string open = "```yaml\n";
  const size_t begin = page->find(open);
  REQUIRE(begin != std::string::npos);
  Parse(page->substr(begin + open.size(), page->find("```", begin + 1) - begin - open.size()));
}

}  // namespace
}  // namespace coxswain::chaos
