// What is made of a job's report after it was under fire.
#include <catch2/catch.hpp>
#include <string>

#include "coordinator/chaos/summary.h"

namespace coxswain::chaos {
namespace {

using Catch::Matchers::Contains;
using Json = nlohmann::ordered_json;

Json GoodReport() {
  return Json::parse(R"({
    "steps": 100, "examples": 5000, "train_seconds": 12.5, "final_loss": 0.5,
    "stopped_early": false, "metrics": {"rmse": 0.75},
    "closures": {"scheduled": 100, "completed": 100, "retried": 7, "rerun": 9},
    "failures": {"worker": 3, "ps": 2, "coordinator": 1, "recovered": 5,
                 "recovery_seconds": [0.4, 2.5, 0.6]},
    "updates": {"scheduled": 100, "applied": 100, "duplicates_dropped": 4, "lost": 0},
    "visitation": {"examples": 500, "missing": 0, "repeated": 0}})");
}

Json Baseline() {
  return Json::parse(R"({"steps": 100, "examples": 5000, "train_seconds": 5.0,
                         "final_loss": 0.4, "metrics": {"rmse": 0.7}})");
}

SupervisorResult Result() {
  SupervisorResult result;
  result.injected[0][0] = 3;
  result.injected[0][1] = 1;
  result.injected[1][0] = 2;
  result.injected[2][0] = 1;
  result.coordinator_starts = 2;
  result.coordinator_recovery = {3.25};
  return result;
}

ChaosSummary Of(const Json& report) { return Summarize({}, Result(), report, Baseline()); }

TEST_CASE("a job that kept every promise is told so, with its figures", "[chaos]") {
  const ChaosSummary summary = Of(GoodReport());
  CHECK(summary.broken.empty());
  const Json& chaos = summary.report["chaos"];
  CHECK(chaos["injected"]["worker"]["kill"] == 3);
  CHECK(chaos["injected"]["worker"]["stop"] == 1);
  CHECK(chaos["injected"]["ps"]["terminate"] == 0);
  CHECK(chaos["coordinator_starts"] == 2);
  CHECK(chaos["baseline"]["final_loss"] == 0.4);
  CHECK(chaos["broken"].empty());
  const std::string table = FormatSummary(summary);
  CHECK_THAT(table, Contains("3 kill, 1 stop") && Contains("worker 3, ps 2, coordinator 1") &&
                        Contains("p50 0.60 s, max 2.50 s (3)") &&
                        Contains("p50 3.25 s, max 3.25 s (1)") &&
                        Contains("7 retried, 9 run again") && Contains("100 == 100: yes") &&
                        Contains("all 500: yes") && Contains("0.5000  (without faults 0.4000)") &&
                        Contains("every promise was kept"));
}

TEST_CASE("each broken promise is found and named", "[chaos]") {
  const auto broken = [](const std::string& pointer, const Json& value) {
    Json report = GoodReport();
    report[Json::json_pointer(pointer)] = value;
    const ChaosSummary summary = Of(report);
    REQUIRE(summary.broken.size() == 1);
    CHECK(summary.report["chaos"]["broken"][0] == summary.broken[0]);
    CHECK_THAT(FormatSummary(summary), Contains("BROKEN: " + summary.broken[0]));
    return summary.broken[0];
  };
  CHECK_THAT(broken("/updates/applied", 99), Contains("99 updates applied of 100"));
  CHECK_THAT(broken("/updates/applied", 101), Contains("101 updates applied of 100"));
  CHECK_THAT(broken("/visitation/missing", 2), Contains("2 examples were used too seldom"));
  CHECK_THAT(broken("/visitation/repeated", 3), Contains("3 examples were used too often"));
  CHECK_THAT(broken("/visitation", nullptr), Contains("how often examples were used"));
  CHECK_THAT(broken("/updates", nullptr), Contains("how many updates"));
  CHECK_THAT(broken("/examples", 4999), Contains("4999 examples with faults, 5000 without"));
}

TEST_CASE("a deterministic job has to measure the same with faults as without", "[chaos]") {
  Json report = GoodReport();
  report["consistency"] = {{"mode", "sync"}, {"batches", 1}, {"deterministic", true}};
  REQUIRE(Of(report).broken.size() == 1);
  CHECK_THAT(Of(report).broken[0], Contains("rmse is 0.75 with faults, 0.7 without"));
  report["metrics"]["rmse"] = 0.7 + 1e-9;
  CHECK(Of(report).broken.empty());
  report["stopped_early"] = true;
  report["steps"] = 90;
  report["updates"]["scheduled"] = report["updates"]["applied"] = 90;
  CHECK_THAT(Of(report).broken.at(0), Contains("90 steps with faults, 100 without"));
  report = GoodReport();
  report["consistency"] = {{"mode", "sync"}, {"batches", 1}, {"deterministic", true}};
  report["metrics"].clear();
  CHECK(Of(report).broken.size() == 1);
  report["consistency"]["deterministic"] = false;
  CHECK(Of(report).broken.empty());
}

TEST_CASE("updates that accept_loss gave up are no broken promise, doubled ones are", "[chaos]") {
  Json report = GoodReport();
  report["updates"]["lost"] = 3;
  report["updates"]["applied"] = 97;
  report["visitation"]["missing"] = 40;
  CHECK(Of(report).broken.empty());
  CHECK_THAT(FormatSummary(Of(report)), Contains("3 given up by accept_loss"));
  report["updates"]["applied"] = 101;
  CHECK(Of(report).broken.size() == 1);
}

TEST_CASE("a process that ended by itself is a broken promise", "[chaos]") {
  SupervisorResult result = Result();
  result.troubles = {"ps:0 was ended by signal 11 by itself"};
  const ChaosSummary summary = Summarize({}, result, GoodReport(), nullptr);
  REQUIRE(summary.broken.size() == 1);
  CHECK(summary.report["chaos"]["baseline"].is_null());
  CHECK_THAT(FormatSummary(summary), Contains("ps:0 was ended by signal 11"));
}

TEST_CASE("a job that ended well without a report is not believed", "[chaos]") {
  CHECK(Summarize({}, Result(), nullptr, nullptr).broken.size() == 1);
  SupervisorResult failed = Result();
  failed.code = 3;  // the job itself says why
  CHECK(Summarize({}, failed, nullptr, nullptr).broken.empty());
}

}  // namespace
}  // namespace coxswain::chaos
