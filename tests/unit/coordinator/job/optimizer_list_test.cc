// What every optimizer of the list has: a struct that a program and a job mean the same by, keys
// with defaults within their bounds, a place in docs/job.md, and a formula that it is held against.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/job/job_parser.h"
#include "kernels/optimizers/optimizer_info.h"
#include "kernels/optimizers/optimizer_list.h"
#include "ps_server/optimizer.h"
#include "runtime/config/yaml_reader.h"
#include "tests/testing/paths.h"
#include "tests/testing/reference_optimizer.h"

namespace coxswain::job {
namespace {

using Catch::Contains;
using testing::Element;
using testing::ReferenceRowStep;

constexpr char kJob[] = R"(dataset: {path: a.csv, columns: [user, film, stars]}
features:
  - {name: user, kind: categorical}
  - {name: film, kind: categorical}
label: {column: stars}
model: {kind: matrix_factorization, user: {feature: user}, item: {feature: film}}
)";

absl::StatusOr<JobSpec> Parse(const std::string& optimizer) {
  return ParseJob(absl::StrCat(kJob, "optimizer: {table: {", optimizer, "}}\n"), "job.yaml", {});
}

// A value of the parameter that is not its default.
std::string OtherValue(const kernels::OptimizerInfo::Parameter& parameter) {
  if (parameter.is_switch) return parameter.fallback == 0 ? "true" : "false";
  for (const double value : {0.25, -0.25}) {
    if (parameter.range.Contains(value) && value != parameter.fallback) return absl::StrCat(value);
  }
  FAIL("no value for " << parameter.name);
  return "";
}

template <typename O>
void CheckOptimizer() {
  INFO(O::kKind);
  const OptimizerSpec public_default = typename O::Parameters{};
  const proto::OptimizerSpec spec = public_default.proto();
  // A program that says nothing, and a job that does not.
  const absl::StatusOr<JobSpec> job = Parse(absl::StrCat("kind: ", O::kKind));
  INFO(job.status().message());
  REQUIRE(job.ok());
  CHECK(job->FindTable("user")->optimizer.SerializeAsString() == spec.SerializeAsString());
  // Nor one that sends only the kind.
  proto::OptimizerSpec bare;
  bare.set_kind(O::kKind);
  CHECK(kernels::ToSpec(kernels::FromSpec<O>(bare).value()).SerializeAsString() ==
        spec.SerializeAsString());
  CHECK(ps::Optimizer::Create(spec).value().name() == O::kKind);
  CHECK(kernels::FindParameter(spec, "learning_rate") > 0);
  for (const kernels::OptimizerSlot& slot : O{}.Slots()) CHECK_FALSE(slot.name.empty());
  CHECK_FALSE(std::string(O::kHelp).empty());
}

TEST_CASE("an optimizer has the same defaults in a program, in a job and on a parameter server") {
#define COX_CHECK_OPTIMIZER(O) CheckOptimizer<O>();
  COX_OPTIMIZERS(COX_CHECK_OPTIMIZER)
#undef COX_CHECK_OPTIMIZER
}

TEST_CASE("every parameter of every optimizer is a key of a job, within its bounds") {
  for (const kernels::OptimizerInfo& info : kernels::AllOptimizers()) {
    for (const kernels::OptimizerInfo::Parameter& parameter : info.parameters) {
      const std::string key = absl::StrCat("kind: ", info.kind, ", ", parameter.name, ": ");
      CAPTURE(key);
      const std::string other = OtherValue(parameter);
      const absl::StatusOr<JobSpec> job = Parse(key + other);
      INFO(job.status().message());
      REQUIRE(job.ok());
      const double value = parameter.is_switch ? other == "true" : std::stod(other);
      CHECK(kernels::FindParameter(job->FindTable("user")->optimizer, parameter.name) == value);
      CHECK(parameter.range.Contains(parameter.fallback));
      CHECK_FALSE(Parse(key + "x").ok());
      for (const double bound : {parameter.range.min, parameter.range.max}) {
        if (parameter.is_switch || !std::isfinite(bound)) continue;
        CHECK(Parse(absl::StrCat(key, bound)).ok() == parameter.range.Contains(bound));
        CHECK_FALSE(
            Parse(absl::StrCat(key, bound < 0.5 && bound == parameter.range.min ? -1 : 2)).ok());
      }
    }
    const absl::StatusOr<JobSpec> unknown = Parse(absl::StrCat("kind: ", info.kind, ", omega: 1"));
    CHECK_THAT(std::string(unknown.status().message()), Contains("unknown key 'omega'"));
  }
}

TEST_CASE("docs/job.md says what every optimizer is, and names it at each of its parameters") {
  const absl::StatusOr<std::string> page =
      config::ReadTextFile(std::string(COXSWAIN_SOURCE_DIR) + "/docs/job.md");
  REQUIRE(page.ok());
  for (const kernels::OptimizerInfo& info : kernels::AllOptimizers()) {
    CHECK_THAT(*page, Contains(absl::StrCat("`", info.kind, "`: ", info.help)));
    for (const kernels::OptimizerInfo::Parameter& parameter : info.parameters) {
      CHECK_THAT(*page, Contains(absl::StrCat("| `", parameter.name, "` | ")));
    }
  }
}

// Three steps of one row; tests named ps_* do more, with all that is in AllOptimizers().
TEST_CASE("every optimizer takes the steps of its formula with defaults") {
  constexpr size_t kWidth = 5;
  for (const kernels::OptimizerInfo& info : kernels::AllOptimizers()) {
    INFO(info.kind);
    proto::OptimizerSpec spec;
    spec.set_kind(info.kind);
    const ps::Optimizer optimizer = ps::Optimizer::Create(spec).value();
    std::vector<std::vector<double>> parts(3, std::vector<double>(kWidth, 0.5));
    std::vector<Element> row(kWidth);
    ps::RowBlock block;
    block.weights = DType::kF64;
    block.width = kWidth;
    for (int p = 0; p <= optimizer.slots(); ++p) {
      if (p > 0) std::fill(parts[p].begin(), parts[p].end(), optimizer.slot_initial(p - 1));
      block.parts[p] = {reinterpret_cast<char*>(parts[p].data()), 0};
    }
    for (Element& e : row) e = {0.5, parts[1][0], parts[2][0]};
    for (int64_t t = 1; t <= 3; ++t) {
      const double sign = t == 2 ? -1 : 1;
      const std::vector<double> g = {sign, 0.25 * sign, -2 * sign, 0, 1e-3 * sign};
      optimizer.Apply<double>(block, nullptr, 1, g.data(), t);
      ReferenceRowStep(spec, optimizer.LearningRate(t - 1), g, t, &row);
    }
    for (size_t i = 0; i < kWidth; ++i) CHECK(parts[0][i] == Approx(row[i].w).epsilon(1e-12));
    CHECK(parts[0][2] != 0.5);
  }
}

TEST_CASE("a table whose optimizer has no l2 is told so") {
  for (const kernels::OptimizerInfo& info : kernels::AllOptimizers()) {
    const bool has = kernels::FindParameter(
                         [&] {
                           proto::OptimizerSpec spec;
                           for (const auto& p : info.parameters)
                             kernels::SetParameter(p.name, 1, &spec);
                           return spec;
                         }(),
                         "l2")
                         .has_value();
    const absl::StatusOr<JobSpec> job =
        ParseJob(absl::StrCat(kJob, "optimizer: {table: {kind: ", info.kind,
                              "}}\ntables: {user: {l2: 0.5}}\n"),
                 "job.yaml", {});
    REQUIRE(job.ok() == has);
    if (has) CHECK(kernels::FindParameter(job->FindTable("user")->optimizer, "l2") == 0.5);
  }
}

}  // namespace
}  // namespace coxswain::job
