// optimizer, its schedules, and how tables are stored: what a JOB.yaml becomes, and what it is
// told.
#include <catch2/catch.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/job/job_parser.h"
#include "coxswain/optimizers.h"
#include "kernels/optimizers/optimizer_spec.h"

namespace coxswain::job {
namespace {

using Catch::Contains;
using Catch::StartsWith;

constexpr char kJob[] = R"(dataset: {path: a.csv, columns: [user, film, stars]}
features:
  - {name: user, kind: categorical}
  - {name: film, kind: categorical}
label: {column: stars}
model: {kind: matrix_factorization, user: {feature: user}, item: {feature: film}}
)";

JobSpec MustParse(const std::string& more) {
  absl::StatusOr<JobSpec> job = ParseJob(kJob + more, "job.yaml", {});
  INFO(job.status().message());
  REQUIRE(job.ok());
  return *std::move(job);
}

std::string ErrorOf(const std::string& more) {
  const absl::StatusOr<JobSpec> job = ParseJob(kJob + more, "job.yaml", {});
  REQUIRE_FALSE(job.ok());
  return std::string(job.status().message());
}

bool Same(const proto::OptimizerSpec& found, const proto::OptimizerSpec& wanted) {
  return found.schedule().SerializeAsString() == wanted.schedule().SerializeAsString();
}

}  // namespace

TEST_CASE("a job's schedules are those of the C++ interface") {
  const JobSpec job = MustParse(R"(optimizer:
  table:
    kind: rowwise_adagrad
    schedule: {kind: piecewise_constant, boundaries: [100, 2000], factors: [0.5, 1e-2]}
  dense:
    kind: momentum
    schedule: {kind: cosine_decay, decay_steps: 1000, end_factor: 0.1, warmup_steps: 20}
tables:
  film:
    optimizer:
      kind: sgd
      learning_rate: 0.3
      schedule:
        {kind: exponential_decay, decay_steps: 50, decay_rate: 0.9, staircase: true}
  user_bias: {optimizer: {kind: adagrad}}
  film_bias:
    optimizer: {kind: lazy_adam, schedule: {warmup_steps: 5, warmup_factor: 0.25}}
)");
  const proto::OptimizerSpec& user = job.FindTable("user")->optimizer;
  CHECK(user.kind() == "rowwise_adagrad");
  CHECK(user.learning_rate() == 0.05);
  CHECK(kernels::FindParameter(user, "initial_accumulator") == 0);
  CHECK(Same(user, WithSchedule({}, PiecewiseConstant({100, 2000}, {0.5, 0.01}))));
  CHECK(Same(job.dense_optimizer, WithSchedule({}, WarmUp(20, CosineDecay(1000, 0.1)))));
  const proto::OptimizerSpec& film = job.FindTable("film")->optimizer;
  CHECK(film.learning_rate() == 0.3);
  CHECK(Same(film, WithSchedule({}, ExponentialDecay(50, 0.9, true))));
  CHECK_FALSE(job.FindTable("user_bias")->optimizer.has_schedule());
  const auto& warm = job.FindTable("film_bias")->optimizer.schedule();
  CHECK(warm.kind() == "constant");
  CHECK(warm.warmup_steps() == 5);
  CHECK(warm.warmup_factor() == 0.25);
}

TEST_CASE("programs have the initializers that tables of jobs have") {
  const auto of = [](const InitializerSpec& spec) {
    const proto::InitializerSpec& p = spec.proto();
    return std::tuple(p.kind(), p.value(), p.low(), p.high(), p.stddev(), p.seed());
  };
  CHECK(of(ConstantInit(-2.5)) == std::tuple("constant", -2.5, 0, 0, 0, 0));
  CHECK(of(NormalInit(0.5, 7)) == std::tuple("normal", 0, 0, 0, 0.5, 7));
  CHECK(of(TruncatedNormalInit(0.5, 7)) == std::tuple("truncated_normal", 0, 0, 0, 0.5, 7));
  CHECK(of(TruncatedNormalInit(0)) == of(Zeros()));
  CHECK(of(UniformInit(-1, 2, 7)) == std::tuple("uniform", 0, -1, 2, 0, 7));
}

TEST_CASE("an optimizer without a kind is its default but for the keys that are given") {
  SECTION("in the file") {
    const JobSpec job = MustParse(
        "optimizer: {table: {learning_rate: 0.01}, dense: {l2: 0.5, schedule: {warmup_steps: "
        "5}}}\n");
    const proto::OptimizerSpec& table = job.FindTable("film")->optimizer;
    CHECK(table.kind() == "lazy_adam");
    CHECK(table.learning_rate() == 0.01);
    CHECK(job.dense_optimizer.kind() == "adam");
    CHECK(job.dense_optimizer.learning_rate() == 0.001);
    CHECK(kernels::FindParameter(job.dense_optimizer, "l2") == 0.5);
    CHECK(job.dense_optimizer.schedule().warmup_steps() == 5);
  }
  SECTION("by flags") {
    const absl::StatusOr<JobSpec> job =
        ParseJob(kJob, "job.yaml",
                 {"optimizer.table.learning_rate=0.02", "optimizer.dense.learning_rate=0.03",
                  "tables.user.optimizer.learning_rate=0.04"});
    REQUIRE(job.ok());
    CHECK(job->FindTable("film")->optimizer.kind() == "lazy_adam");
    CHECK(job->FindTable("film")->optimizer.learning_rate() == 0.02);
    CHECK(job->dense_optimizer.kind() == "adam");
    CHECK(job->dense_optimizer.learning_rate() == 0.03);
    CHECK(job->FindTable("user")->optimizer.kind() == "lazy_adam");
    CHECK(job->FindTable("user")->optimizer.learning_rate() == 0.04);
  }
}

TEST_CASE("tables begin with a larger rate than layers, but not with a kind that is named") {
  const auto rate = [](const std::string& optimizer) {
    return MustParse(optimizer).FindTable("film")->optimizer.learning_rate();
  };
  CHECK(rate("") == 0.005);
  CHECK(rate("optimizer: {dense: {kind: sgd}}\n") == 0.005);
  CHECK(rate("optimizer: {table: {l2: 0.1}}\n") == 0.005);
  CHECK(rate("tables: {film: {optimizer: {l2: 0.1}}}\n") == 0.005);
  CHECK(rate("optimizer: {table: {kind: lazy_adam}}\n") == 0.001);
  CHECK(rate("tables: {film: {optimizer: {kind: lazy_adam}}}\n") == 0.001);
  CHECK(rate("optimizer: {table: {kind: adagrad}}\n") == 0.05);
}

TEST_CASE("a table's optimizer without a kind is optimizer.table but for the keys that are given") {
  constexpr char kTables[] = R"(tables:
  user: {optimizer: {learning_rate: 0.3}}
  film: {optimizer: {schedule: {warmup_steps: 7}}}
  film_bias: {optimizer: {kind: adagrad}}
)";
  constexpr char kOptimizer[] = R"(optimizer:
  table:
    kind: adagrad
    learning_rate: 0.2
    initial_accumulator: 0.5
    schedule: {kind: linear_decay, decay_steps: 9}
    staleness_rate: inverse
)";
  // Whichever of the two comes first in the file.
  const JobSpec job = MustParse(
      GENERATE_COPY(absl::StrCat(kTables, kOptimizer), absl::StrCat(kOptimizer, kTables)));
  const proto::OptimizerSpec& user = job.FindTable("user")->optimizer;
  CHECK(user.kind() == "adagrad");
  CHECK(user.learning_rate() == 0.3);
  CHECK(kernels::FindParameter(user, "initial_accumulator") == 0.5);
  CHECK(user.schedule().kind() == "linear_decay");
  CHECK(user.staleness_rate() == "inverse");
  const proto::OptimizerSpec& film = job.FindTable("film")->optimizer;
  CHECK(film.learning_rate() == 0.2);
  CHECK(film.schedule().kind() == "constant");
  CHECK(film.schedule().warmup_steps() == 7);
  const proto::OptimizerSpec& bias = job.FindTable("film_bias")->optimizer;
  CHECK(bias.learning_rate() == 0.05);
  CHECK(kernels::FindParameter(bias, "initial_accumulator") == 0.1);
  CHECK_FALSE(bias.has_schedule());
  CHECK(bias.staleness_rate().empty());
}

TEST_CASE("without a kind, a key of another kind than the default's is told with its place") {
  CHECK_THAT(ErrorOf("optimizer: {table: {momentum: 0.5}}\n"),
             StartsWith("job.yaml:7:21: key 'momentum' in optimizer.table is not for kind "
                        "lazy_adam, only for momentum"));
  CHECK_THAT(ErrorOf("optimizer: {table: {kind: ftrl}}\ntables: {user: {optimizer: {rho: 0.5}}}\n"),
             StartsWith("job.yaml:8:29: key 'rho' in tables.user.optimizer is not for kind ftrl, "
                        "only for rmsprop"));
  CHECK_THAT(ErrorOf("optimizer: {dense: {schedule: {decay_rate: 0.5}}}\n"),
             StartsWith("job.yaml:7:32: key 'decay_rate' in optimizer.dense.schedule is not for "
                        "kind constant, only for exponential_decay"));
  CHECK_THAT(ErrorOf("parameter_servers: {partitioner: {max_shard_bytes: 5}}\n"),
             StartsWith("job.yaml:7:35: key 'max_shard_bytes' in parameter_servers.partitioner is "
                        "not for kind min_size, only for max_size"));
  // What is wrong with the kind is told once, where it stands.
  const std::string error =
      ErrorOf("optimizer: {table: {kind: adamm}}\ntables: {user: {optimizer: {rho: 0.5}}}\n");
  CHECK_THAT(error, StartsWith("job.yaml:7:27: optimizer.table.kind: wanted one of sgd, "));
  CHECK(error.find('\n') == std::string::npos);
}

TEST_CASE("an optimizer may say for itself what becomes of late gradients") {
  const JobSpec job = MustParse(R"(train: {consistency: {staleness_rate: root}}
optimizer:
  table: {kind: sgd, staleness_rate: inverse}
  dense: {kind: sgd, delay_compensation: 0.04}
tables:
  film: {optimizer: {kind: sgd, staleness_rate: none}}
)");
  CHECK(job.FindTable("user")->optimizer.staleness_rate() == "inverse");
  CHECK_FALSE(job.FindTable("user")->optimizer.has_delay_compensation());
  CHECK(job.FindTable("film")->optimizer.staleness_rate() == "none");
  CHECK(job.dense_optimizer.staleness_rate().empty());  // as train.consistency says
  CHECK(job.dense_optimizer.delay_compensation() == 0.04);
  const std::string sync = "train: {consistency: {mode: sync, replicas: 2}}\n";
  CHECK_THAT(ErrorOf(sync + "optimizer: {table: {kind: sgd, staleness_rate: root}}\n"),
             Contains("optimizer.table.staleness_rate: with mode `sync` no gradient is late; "
                      "wanted none"));
  CHECK_THAT(ErrorOf(sync + "optimizer: {dense: {kind: sgd, delay_compensation: 0.1}}\n"),
             Contains("optimizer.dense.delay_compensation: only where an update is of one batch"));
  CHECK_THAT(ErrorOf("optimizer: {table: {kind: sgd, staleness_rate: cubic}}\n"),
             Contains("staleness_rate: wanted one of none, inverse, root"));
}

TEST_CASE("a schedule that is wrong is told so with its place") {
  const auto error = [](const std::string& schedule) {
    return ErrorOf("optimizer:\n  dense: {kind: sgd}\n  table:\n    kind: sgd\n    schedule: {" +
                   schedule + "}\n");
  };
  CHECK(error("kind: piecewise_constant, boundaries: [5, 3], factors: [1, 1]") ==
        "job.yaml:11:42: optimizer.table.schedule.boundaries: steps must ascend; found 3 after 5");
  CHECK_THAT(error("kind: piecewise_constant, boundaries: [5, 9], factors: [1]"),
             Contains("schedule.factors: wanted one for each of the 2 boundaries; found 1"));
  CHECK_THAT(error("kind: piecewise_constant, boundaries: [], factors: []"),
             Contains("wanted at least one step"));
  CHECK_THAT(error("kind: piecewise_constant, boundaries: [5], factors: [x]"),
             Contains("schedule.factors.0: wanted number >= 0; found the text 'x'"));
  CHECK_THAT(error("kind: piecewise_constant, boundaries: [-5], factors: [1]"),
             Contains("schedule.boundaries.0: wanted integer 0..9007199254740992"));
  CHECK_THAT(error("kind: exponential_decay, decay_rate: 1"), Contains("decay_steps"));
  CHECK_THAT(error("kind: linear_decay, decay_steps: 0"), Contains("wanted integer 1.."));
  CHECK_THAT(error("kind: cosine_decay, decay_steps: 3, decay_rate: 0.5"), Contains("decay_rate"));
  CHECK_THAT(error("kind: exponential_decay, decay_steps: 3, decay_rate: 0"),
             Contains("wanted number > 0"));
  CHECK_THAT(error("kind: cosine"), Contains("cosine_decay"));
  CHECK_THAT(error("warmup_factor: 0.5"), Contains("no warm-up without warmup_steps"));
  CHECK_THAT(error("warmup_steps: 3, warmup_factor: 1.5"), Contains("0..1"));
}

TEST_CASE("a schedule without decay_steps ends with the training") {
  JobSpec job = MustParse(R"(optimizer:
  table: {kind: ftrl, schedule: {kind: linear_decay, end_factor: 0.01}}
  dense: {kind: sgd, schedule: {kind: cosine_decay, warmup_steps: 30}}
tables:
  film: {optimizer: {kind: adam, schedule: {kind: linear_decay, decay_steps: 7}}}
  film_bias: {optimizer: {kind: sgd, schedule: {warmup_steps: 5}}}
)");
  CHECK(job.FindTable("film")->optimizer.kind() == "adam");
  CompleteSchedules(100, &job);
  CHECK(Same(job.FindTable("user")->optimizer, WithSchedule({}, LinearDecay(100, 0.01))));
  CHECK(Same(job.FindTable("film")->optimizer, WithSchedule({}, LinearDecay(7))));
  CHECK(job.FindTable("film_bias")->optimizer.schedule().decay_steps() == 0);
  CHECK(Same(job.dense_optimizer, WithSchedule({}, WarmUp(30, CosineDecay(70)))));
  job.dense_optimizer.mutable_schedule()->set_decay_steps(0);
  CompleteSchedules(10, &job);  // it is over before it begins
  CHECK(job.dense_optimizer.schedule().decay_steps() == 1);
}

TEST_CASE("tables say how their rows begin") {
  const JobSpec job = MustParse(R"(train: {seed: 9}
tables:
  user: {initializer: {kind: uniform, low: -1, high: 0.5}}
  film: {initializer: {kind: truncated_normal, stddev: 0.2, mean: 1, seed: 4}}
  user_bias: {initializer: {kind: constant, value: -3}}
  film_bias: {init_stddev: 0.3}
)");
  const proto::InitializerSpec& uniform = job.FindTable("user")->initializer;
  CHECK(uniform.kind() == "uniform");
  CHECK(uniform.low() == -1);
  CHECK(uniform.high() == 0.5);
  CHECK(uniform.seed() == 9);
  const proto::InitializerSpec& normal = job.FindTable("film")->initializer;
  CHECK(normal.kind() == "truncated_normal");
  CHECK(normal.stddev() == 0.2);
  CHECK(normal.mean() == 1);
  CHECK(normal.seed() == 4);
  CHECK(job.FindTable("user_bias")->initializer.value() == -3);
  CHECK(job.FindTable("film_bias")->initializer.stddev() == 0.3);
  const auto error = [](const std::string& keys) {
    return ErrorOf("tables: {user: {" + keys + "}}\n");
  };
  CHECK_THAT(error("init_stddev: 1, initializer: {kind: zeros}"),
             Contains("tables.user.initializer: give this or init_stddev"));
  CHECK_THAT(error("initializer: {kind: uniform, low: 2, high: 1}"),
             Contains("initializer.low: wanted less than high, which is 1; found 2"));
  CHECK_THAT(error("initializer: {kind: constant}"), Contains("value"));
  CHECK_THAT(error("initializer: {kind: normal, stddev: 0}"), Contains("wanted number > 0"));
  CHECK_THAT(error("initializer: {kind: uniform, stddev: 1}"), Contains("stddev"));
  CHECK_THAT(error("initializer: {kind: gaussian}"), Contains("truncated_normal"));
}

TEST_CASE("tables say how their rows are stored") {
  const JobSpec job = MustParse(R"(tables:
  user: {dtype: bf16}
  film: {dtype: bf16, rounding: nearest}
)");
  CHECK(job.FindTable("user")->dtype == DType::kBF16);
  CHECK(job.FindTable("user")->rounding == "stochastic");
  CHECK(job.FindTable("film")->rounding == "nearest");
  CHECK(job.FindTable("user_bias")->dtype == DType::kF32);
  CHECK(job.FindTable("user_bias")->rounding.empty());
  CHECK_THAT(ErrorOf("tables: {user: {dtype: f16}}\n"), Contains("one of f32, bf16"));
  CHECK(job.FindTable("user")->wire_dtype == DType::kF32);
  CHECK(MustParse("tables: {film: {wire_dtype: bf16}}\n").FindTable("film")->wire_dtype ==
        DType::kBF16);
  CHECK_THAT(ErrorOf("tables: {user: {wire_dtype: i64}}\n"), Contains("one of f32, bf16"));
  CHECK(job.parameter_servers.dense_wire_dtype == DType::kF32);
  CHECK(MustParse("parameter_servers: {dense_wire_dtype: bf16}\n")
            .parameter_servers.dense_wire_dtype == DType::kBF16);
  CHECK_THAT(ErrorOf("parameter_servers: {dense_wire_dtype: f64}\n"), Contains("one of f32, bf16"));
  CHECK(ErrorOf("tables:\n  user: {rounding: nearest}\n") ==
        "job.yaml:8:10: tables.user.rounding: only rows in bf16 are rounded");
}

}  // namespace coxswain::job
