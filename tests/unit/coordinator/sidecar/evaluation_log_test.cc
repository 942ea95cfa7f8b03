// The reports of a side-car: what is written is read again, and what else may be in the file.
#include "coordinator/sidecar/evaluation_log.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"

namespace coxswain::sidecar {
namespace {

using Catch::Matchers::Contains;
using testing::Must;

EvaluatedCheckpoint Evaluated(uint64_t number, double auc, bool best = false) {
  EvaluatedCheckpoint e;
  e.number = number;
  e.identity = absl::StrCat("id-", number);
  e.job = "films";
  e.steps = static_cast<int64_t>(100 * number);
  e.written = "2026-11-23T10:00:00+00:00";
  e.part = "validation";
  e.examples = 12;
  e.metrics = {{"auc", auc}};
  e.best = best;
  return e;
}

struct Log {
  absl::StatusOr<EvaluationLog> Open(const std::string& job = "films") const {
    return EvaluationLog::Open(system.get(), path, job);
  }
  void Add(const std::string& text) const { std::ofstream(path, std::ios::app) << text; }

  DataFiles files;
  std::string path = files.Path("reports.jsonl");
  std::unique_ptr<env::FileSystem> system = env::NewRealFileSystem();
};

TEST_CASE("sidecar: a report is read as it was written", "[sidecar]") {
  EvaluatedCheckpoint e = Evaluated(7, 0.25, true);
  e.metrics["undefined"] = std::nan("");
  e.held_out = false;
  e.finished = true;
  const std::string line = ToLine(e);
  const EvaluatedCheckpoint read = Must(ParseLine(line));
  CHECK(ToLine(read) == line);
  CHECK(read.number == 7);
  CHECK(read.steps == 700);
  CHECK(read.metrics.at("auc") == 0.25);
  CHECK(std::isnan(read.metrics.at("undefined")));
  CHECK(read.best);
  CHECK(read.finished);
  CHECK(!read.held_out);
}

TEST_CASE("sidecar: a line that is no report says what is wrong with it", "[sidecar]") {
  for (const auto& [line, what] : {std::pair<std::string, std::string>{"", "no object"},
                                   {"[1]", "no object"},
                                   {"{}", "'checkpoint'"},
                                   {R"({"checkpoint": -1})", "'checkpoint'"},
                                   {R"({"checkpoint": 18446744073709551615})", "'checkpoint'"},
                                   {R"({"checkpoint": 1, "identity": 5})", "'identity'"}}) {
    CAPTURE(line);
    CHECK_THAT(std::string(ParseLine(line).status().message()), Contains(what));
  }
}

TEST_CASE("sidecar: the reports say which was the last and which the best", "[sidecar]") {
  const Log log;
  {
    EvaluationLog first = Must(log.Open());
    CHECK(!first.last());
    Must(first.Append(Evaluated(1, 0.5, true)));
    Must(first.Append(Evaluated(2, 0.75, true)));
    Must(first.Append(Evaluated(3, 0.25)));
  }
  const EvaluationLog again = Must(log.Open());
  CHECK(again.last()->number == 3);
  CHECK(again.best()->number == 2);
}

TEST_CASE("sidecar: a line that was being written when the process was killed goes", "[sidecar]") {
  const Log log;
  Must(Must(log.Open()).Append(Evaluated(1, 0.5, true)));
  log.Add(ToLine(Evaluated(2, 0.75)).substr(0, 30));
  EvaluationLog again = Must(log.Open());
  CHECK(again.last()->number == 1);
  Must(again.Append(Evaluated(2, 0.75, true)));
  CHECK(Must(log.Open()).last()->number == 2);
}

TEST_CASE("sidecar: a file that is no report of this job is refused by line", "[sidecar]") {
  const Log log;
  Must(Must(log.Open()).Append(Evaluated(1, 0.5)));
  CHECK_THAT(std::string(log.Open("books").status().message()),
             Contains("reports.jsonl:1") && Contains("films"));
  log.Add("mine\n");
  CHECK_THAT(std::string(log.Open().status().message()), Contains("reports.jsonl:2"));
}

TEST_CASE("sidecar: better is by the metric; what is not a number is not", "[sidecar]") {
  const BestBy high{"auc", true}, low{"auc", false}, other{"rmse", false};
  const auto a = Evaluated(1, 0.5), b = Evaluated(2, 0.75), nan = Evaluated(3, std::nan(""));
  CHECK(high.Better(b, a));
  CHECK(!high.Better(a, b));
  CHECK(!high.Better(a, a));
  CHECK(low.Better(a, b));
  CHECK(high.Better(a, std::nullopt));
  CHECK(!high.Better(nan, std::nullopt));
  CHECK(!high.Better(nan, a));
  CHECK(!other.Better(a, std::nullopt));
}

}  // namespace
}  // namespace coxswain::sidecar
