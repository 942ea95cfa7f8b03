#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "runtime/base/status.h"
#include "runtime/function/executor.h"
#include "runtime/function/place_on_devices.h"
#include "runtime/graph/builder.h"
#include "tests/testing/interpreter.h"
#include "tests/testing/registry.h"

namespace coxswain::function {
namespace {

using testing::ClusterOps;
using testing::DeepCopy;
using Compiled = std::shared_ptr<const CompiledFunction>;
using Results = absl::StatusOr<std::vector<Tensor>>;

constexpr absl::Duration kLong = absl::Seconds(60);

Tensor Vector(const std::vector<float>& values) { return Tensor::FromVector<float>(values); }
std::vector<float> Floats(const Tensor& t) {
  return {t.values<float>().begin(), t.values<float>().end()};
}

Compiled MustCompile(graph::GraphBuilder* b) {
  auto f = b->Finish();
  INFO(f.status().ToString());
  REQUIRE(f.ok());
  auto compiled = CompiledFunction::Compile(*std::move(f));
  INFO(compiled.status().ToString());
  REQUIRE(compiled.ok());
  return *compiled;
}

// A function of up to 60 nodes over square matrices; many are used several times.
graph::Function RandomFunction(uint64_t seed, int64_t side = 4) {
  std::mt19937_64 random(seed);
  graph::GraphBuilder b(absl::StrCat("random", seed), &ClusterOps());
  std::vector<Output> values;
  for (int i = 0; i < 3; ++i) {
    values.push_back(b.Argument(absl::StrCat("a", i), DType::kF32, Shape{side, side}));
  }
  values.push_back(
      b.Constant(Tensor::FromVector<float>(
                     std::vector<float>(static_cast<size_t>(side * side), 0.5f), Shape{side, side})
                     .value()));
  const char* const kUnary[] = {"Neg", "Tanh", "Sigmoid", "Relu", "Square", "Identity"};
  const char* const kBinary[] = {"Add", "Sub", "Mul", "Maximum", "MatMul"};
  const int nodes = 5 + static_cast<int>(random() % 55);
  for (int i = 0; i < nodes; ++i) {
    const auto pick = [&] { return values[random() % values.size()]; };
    switch (random() % 4) {
      case 0:
        values.push_back(b.Op("AddN", {pick(), pick(), pick()}));
        break;
      case 1:
        values.push_back(b.Op("Tanh", {b.Op(kBinary[random() % 5], {pick(), pick()})}));
        break;
      case 2:
        values.push_back(b.Op("Transpose", {pick()}, {{"perm", std::vector<int64_t>{1, 0}}}));
        break;
      default:
        values.push_back(b.Op(kUnary[random() % 6], {pick()}));
    }
  }
  const int results = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < results; ++i) {
    b.Result(absl::StrCat("r", i), values[values.size() - 1 - random() % (values.size() / 2)]);
  }
  auto f = b.Finish();
  INFO(f.status().ToString());
  REQUIRE(f.ok());
  return *std::move(f);
}

TEST_CASE("random functions give what the plain interpreter gives", "[executor]") {
  auto pool = env::NewInlinePool();
  RunOptions options;
  options.pool = pool.get();
  for (uint64_t seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    const graph::Function f = RandomFunction(seed);
    auto compiled = CompiledFunction::Compile(f);
    REQUIRE(compiled.ok());
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<float> value(-1, 1);
    std::vector<Tensor> arguments;
    for (int i = 0; i < 3; ++i) {
      std::vector<float> values(16);
      for (float& v : values) v = value(random);
      arguments.push_back(Tensor::FromVector(values, Shape{4, 4}).value());
    }
    std::vector<Tensor> copies;
    for (const Tensor& a : arguments) copies.push_back(DeepCopy(a));
    auto wanted = testing::Interpret(f, copies);
    REQUIRE(wanted.ok());
    // Twice: a run must leave nothing behind in the function.
    for (int round = 0; round < 2; ++round) {
      auto found =
          (*compiled)->Run(arguments, options);  // keeps its handles: nothing is overwritten
      INFO(found.status().ToString());
      REQUIRE(found.ok());
      REQUIRE(found->size() == wanted->size());
      for (size_t i = 0; i < found->size(); ++i) {
        CHECK(AttrValue((*found)[i]) == AttrValue((*wanted)[i]));
      }
    }
    std::vector<Tensor> given;
    for (const Tensor& a : arguments) given.push_back(DeepCopy(a));
    auto found = (*compiled)->Run(std::move(given), options);  // may be written to
    REQUIRE(found.ok());
    for (size_t i = 0; i < found->size(); ++i) {
      CHECK(AttrValue((*found)[i]) == AttrValue((*wanted)[i]));
    }
  }
}

TEST_CASE("an error of a kernel names the function and the node", "[executor]") {
  graph::GraphBuilder b("lookup", &ClusterOps());
  Output params = b.Argument("params", DType::kF32, Shape{3, 2});
  Output ids = b.Argument("ids", DType::kI64, Shape{kUnknownDim});
  b.Result("rows", b.Op("Gather", {params, ids}, {}, "user rows"));
  const Compiled f = MustCompile(&b);
  auto pool = env::NewInlinePool();
  RunOptions options;
  options.pool = pool.get();
  const Tensor table = Tensor::Zeros(DType::kF32, Shape{3, 2});
  auto results = f->Run({table, Tensor::FromVector<int64_t>({0, 3})}, options);
  REQUIRE_FALSE(results.ok());
  INFO(results.status().ToString());
  CHECK(results.status().code() == absl::StatusCode::kInvalidArgument);
  for (const char* part : {"'lookup'", "'user rows'", "Gather", "3"}) {
    CHECK(absl::StrContains(results.status().message(), part));
  }
  CHECK(f->Run({table, Tensor::FromVector<int64_t>({0, 2})}, options).ok());
}

TEST_CASE("arguments are checked against the function's, by name", "[executor]") {
  graph::GraphBuilder b("f", &ClusterOps());
  Output x = b.Argument("batch", DType::kF32, Shape{kUnknownDim, 2});
  b.Result("y", b.Op("Neg", {x}));
  const Compiled f = MustCompile(&b);
  CHECK(f->CheckArguments({Tensor::Zeros(DType::kF32, Shape{5, 2})}).ok());
  for (const auto& bad : std::vector<std::vector<Tensor>>{
           {},
           {Tensor()},
           {Tensor::Zeros(DType::kF32, Shape{5, 3})},
           {Tensor::Zeros(DType::kF32, Shape{2})},
           {Tensor::Zeros(DType::kF64, Shape{5, 2})},
           {Tensor::Zeros(DType::kF32, Shape{5, 2}), Tensor::Zeros(DType::kF32, Shape{5, 2})}}) {
    RunOptions options;
    const absl::Status status = f->CheckArguments(bad);
    INFO(status.ToString());
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(), "'f'"));
    if (bad.size() == 1) CHECK(absl::StrContains(status.message(), "'batch'"));
    CHECK_FALSE(f->Run(bad, options).ok());
  }
}

TEST_CASE("an op without a kernel cannot be compiled", "[executor]") {
  graph::OpRegistry registry;
  RegisterCopies(&registry);
  registry.Register({.name = "Arg",
                     .infer = ClusterOps().Find("Arg")->infer,
                     .attrs = {"index", "dtype", "shape"}});
  registry.Register(
      {.name = "Neg", .min_inputs = 1, .max_inputs = 1, .infer = ClusterOps().Find("Neg")->infer});
  graph::GraphBuilder b("f", &registry);
  b.Result("y", b.Op("Neg", {b.Argument("x", DType::kF32, Shape{2})}, {}, "minus"));
  auto f = b.Finish();
  REQUIRE(f.ok());
  const auto compiled = CompiledFunction::Compile(*f);
  CHECK(compiled.status().code() == absl::StatusCode::kNotFound);
  CHECK(absl::StrContains(compiled.status().message(), "'minus'"));
}

TEST_CASE("a chain of element-wise ops works in the memory of its argument", "[executor]") {
  graph::GraphBuilder b("f", &ClusterOps());
  Output x = b.Argument("x", DType::kF32, Shape{4});
  b.Result("y", b.Op("Neg", {b.Op("Exp", {b.Op("Tanh", {x})})}));
  const Compiled f = MustCompile(&b);
  auto pool = env::NewInlinePool();
  RunOptions options;
  options.pool = pool.get();
  Tensor given = Vector({0, 0, 0, 0});
  const void* memory = given.raw();
  std::vector<Tensor> arguments;
  arguments.push_back(std::move(given));
  auto results = f->Run(std::move(arguments), options);
  REQUIRE(results.ok());
  CHECK((*results)[0].raw() == memory);
  CHECK(Floats((*results)[0]) == std::vector<float>{-1, -1, -1, -1});

  // Whoever keeps a handle keeps the values.
  const Tensor kept = Vector({0, 0, 0, 0});
  results = f->Run({kept}, options);
  REQUIRE(results.ok());
  CHECK((*results)[0].raw() != kept.raw());
  CHECK(Floats(kept) == std::vector<float>{0, 0, 0, 0});
}

TEST_CASE("a value that is used twice is not overwritten", "[executor]") {
  graph::GraphBuilder b("f", &ClusterOps());
  Output x = b.Argument("x", DType::kF32, Shape{2});
  Output e = b.Op("Add", {x, x});
  Output c = b.Constant(Vector({100, 200}));
  b.Result("e", e);
  b.Result("minus", b.Op("Neg", {e}));
  b.Result("square", b.Op("Square", {e}));
  b.Result("e again", e);
  b.Result("self", b.Op("Mul", {b.Op("Identity", {e}), e}));
  b.Result("x", x);
  b.Result("constant", b.Op("Neg", {c}));
  const Compiled f = MustCompile(&b);
  auto pool = env::NewInlinePool();
  RunOptions options;
  options.pool = pool.get();
  for (int round = 0; round < 3; ++round) {
    std::vector<Tensor> arguments;
    arguments.push_back(Vector({1, 2}));
    auto results = f->Run(std::move(arguments), options);
    REQUIRE(results.ok());
    const std::vector<std::vector<float>> wanted = {{2, 4},  {-2, -4}, {4, 16},     {2, 4},
                                                    {4, 16}, {1, 2},   {-100, -200}};
    for (size_t i = 0; i < wanted.size(); ++i) {
      INFO(i);
      CHECK(Floats((*results)[i]) == wanted[i]);
    }
  }
}

// A PS that does what the test says.
class ScriptedPs final : public PsCaller {
 public:
  using Script = std::function<void(const PsCallTarget&, std::vector<Tensor>, Done)>;
  explicit ScriptedPs(Script script) : script_(std::move(script)) {}
  void Call(const PsCallTarget& target, std::vector<Tensor> inputs, Done done) override {
    script_(target, std::move(inputs), std::move(done));
  }

 private:
  Script script_;
};

// result = sum over s of 2^s * (what PS s answers to x), the calls being independent; with
// `chained` PS s gets the answer of PS s - 1 instead of x.
Compiled CallingFunction(int calls, bool chained = false) {
  graph::Function f("caller", &ClusterOps());
  graph::Node arg;
  arg.op = "Arg";
  arg.name = "arg/x";
  arg.attrs = {{"index", 0}, {"dtype", DType::kF32}, {"shape", Shape{2}}};
  const int x = *f.graph.Add(arg);
  f.arguments.push_back({"x", {DType::kF32, Shape{2}}, x});
  Output input{x, 0}, sum{x, 0};
  for (int s = 0; s < calls; ++s) {
    graph::Node call;
    call.op = kPsCallOp;
    call.name = absl::StrCat("call/ps:", s, "/0");
    call.inputs = {input};
    call.attrs = {{"ps", s},
                  {"segment", chained ? s : 0},
                  {"types", std::vector<int64_t>{static_cast<int64_t>(DType::kF32), 1, 2}}};
    const int id = *f.graph.Add(call);
    if (chained) input = {id, 0};
    graph::Node scale;
    scale.op = "Const";
    scale.attrs = {{"value", Vector({float(1 << s), float(1 << s)})}};
    graph::Node product;
    product.op = "Mul";
    product.inputs = {{id, 0}, {*f.graph.Add(scale), 0}};
    graph::Node add;
    add.op = "Add";
    add.inputs = {sum, {*f.graph.Add(product), 0}};
    sum = {*f.graph.Add(add), 0};
    f.targets.push_back(id);
  }
  f.results.push_back({"sum", sum});
  auto compiled = CompiledFunction::Compile(std::move(f));
  REQUIRE(compiled.ok());
  CHECK((*compiled)->has_ps_calls());
  return *compiled;
}

// Runs and waits; checks that `done` comes once.
struct AsyncResult {
  Results results = absl::UnknownError("not done");
  std::atomic<int> calls{0};
  absl::Notification done;

  CompiledFunction::Done Callback() {
    return [this](Results r) {
      if (calls.fetch_add(1) > 0) return;
      results = std::move(r);
      done.Notify();
    };
  }
};

std::vector<Tensor> One() {
  std::vector<Tensor> arguments;
  arguments.push_back(Vector({1, 2}));
  return arguments;
}

std::vector<Tensor> Doubled(const std::vector<Tensor>& inputs) {
  const float* p = inputs[0].data<float>();
  std::vector<Tensor> out;
  out.push_back(Vector({2 * p[0], 2 * p[1]}));
  return out;
}

TEST_CASE("replies that come before Call returns are taken", "[executor]") {
  auto pool = env::NewInlinePool();
  RunOptions options;
  options.pool = pool.get();
  ScriptedPs ps([](const PsCallTarget&, std::vector<Tensor> inputs, PsCaller::Done done) {
    done(Doubled(inputs));
  });
  AsyncResult independent;
  CompiledFunction::RunAsync(CallingFunction(3), One(), options, &ps, independent.Callback());
  CHECK(independent.calls == 1);  // at once
  REQUIRE(independent.results.ok());
  CHECK(Floats((*independent.results)[0]) == std::vector<float>{1 + 2 * 7, 2 + 4 * 7});
  AsyncResult chained;
  CompiledFunction::RunAsync(CallingFunction(3, true), One(), options, &ps, chained.Callback());
  CHECK(chained.calls == 1);
  REQUIRE(chained.results.ok());
  CHECK(Floats((*chained.results)[0]) ==
        std::vector<float>{1 + 2 + 2 * 4 + 4 * 8, 2 * (1 + 2 + 2 * 4 + 4 * 8)});
}

// What RunAsync gives, with the threads of the pool.
Results RunWith(const Compiled& compiled, std::vector<Tensor> arguments, env::ComputePool* pool) {
  RunOptions options;
  options.pool = pool;
  AsyncResult result;
  CompiledFunction::RunAsync(compiled, std::move(arguments), options, nullptr, result.Callback());
  REQUIRE(result.done.WaitForNotificationWithTimeout(kLong));
  return result.results;
}

TEST_CASE("kernels that run together on several threads give what they give alone", "[executor]") {
  constexpr int64_t kSide = 256;
  auto pool = env::NewComputePool(3);
  for (uint64_t seed = 0; seed < 12; ++seed) {
    INFO("seed " << seed);
    const graph::Function f = RandomFunction(seed, kSide);
    auto compiled = CompiledFunction::Compile(f);
    REQUIRE(compiled.ok());
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<float> value(-1, 1);
    std::vector<Tensor> arguments, given;
    for (int i = 0; i < 3; ++i) {
      Tensor t(DType::kF32, Shape{kSide, kSide});
      for (int64_t k = 0; k < t.num_elements(); ++k) t.mutable_data<float>()[k] = value(random);
      given.push_back(DeepCopy(t));  // may be written to
      arguments.push_back(std::move(t));
    }
    const auto wanted = testing::Interpret(f, arguments);
    REQUIRE(wanted.ok());
    const auto found = RunWith(*compiled, std::move(given), pool.get());
    INFO(found.status().ToString());
    REQUIRE(found.ok());
    for (size_t i = 0; i < found->size(); ++i) {
      CHECK(AttrValue((*found)[i]) == AttrValue((*wanted)[i]));
    }
  }
}

// Counts the loops that are shared by several threads.
class CountedLoops final : public env::ComputePool {
 public:
  void Schedule(absl::AnyInvocable<void()> task) override { pool_->Schedule(std::move(task)); }
  void ParallelFor(int64_t n, int64_t grain,
                   absl::FunctionRef<void(int64_t, int64_t)> body) override {
    if (n > grain) ++loops;
    pool_->ParallelFor(n, grain, body);
  }
  int threads() const override { return pool_->threads(); }
  double busy_seconds() const override { return pool_->busy_seconds(); }

  std::atomic<int> loops{0};

 private:
  const std::unique_ptr<env::ComputePool> pool_ = env::NewComputePool(3);
};

TEST_CASE("kernels that have much to do run together, others one after the other", "[executor]") {
  for (const int64_t size : {int64_t{100}, int64_t{100'000}}) {
    CountedLoops pool;
    graph::GraphBuilder b("f", &ClusterOps());
    const Output rows = b.Argument("rows", DType::kF32, Shape{size, 1});
    std::vector<Tensor> arguments = {Tensor(DType::kF32, Shape{size, 1})};
    std::vector<Output> ids;  // first, so that all kernels are ready at the same time
    for (int64_t i = 0; i < 8; ++i) {
      ids.push_back(b.Argument(absl::StrCat("ids", i), DType::kI64, Shape{1}));
      arguments.push_back(Tensor::FromVector<int64_t>({i}));
    }
    for (int i = 0; i < 8; ++i) b.Result(absl::StrCat("y", i), b.Op("Gather", {rows, ids[i]}));
    const auto found = RunWith(MustCompile(&b), std::move(arguments), &pool);
    CHECK(found.ok());
    CHECK(pool.loops == (size > 1000 ? 1 : 0));
  }
}

TEST_CASE("an error of one of many kernels that run together names its node", "[executor]") {
  CountedLoops pool;
  graph::GraphBuilder b("f", &ClusterOps());
  const Output rows = b.Argument("rows", DType::kF32, Shape{100'000, 1});
  std::vector<Output> ids;
  for (int i = 0; i < 8; ++i) {
    ids.push_back(b.Argument(absl::StrCat("ids", i), DType::kI64, Shape{1}));
  }
  for (int i = 0; i < 8; ++i) {
    b.Result(absl::StrCat("y", i), b.Op("Gather", {rows, ids[i]}, {}, absl::StrCat("pick", i)));
  }
  const Compiled f = MustCompile(&b);
  const auto run = [&](int64_t fifth) {
    std::vector<Tensor> arguments = {Tensor(DType::kF32, Shape{100'000, 1})};
    for (int64_t i = 0; i < 8; ++i) {
      arguments.push_back(Tensor::FromVector<int64_t>({i == 5 ? fifth : i}));
    }
    return RunWith(f, std::move(arguments), &pool).status();
  };
  CHECK(run(7).ok());
  CHECK(absl::StrContains(run(100'000).message(), "node 'pick5' (Gather)"));
  CHECK(pool.loops == 2);
}

TEST_CASE("replies from other threads are taken, in any order, and done comes once", "[executor]") {
  auto pool = env::NewComputePool(2);
  auto network = env::NewComputePool(3);
  RunOptions options;
  options.pool = pool.get();
  ScriptedPs ps([&](const PsCallTarget&, std::vector<Tensor> inputs, PsCaller::Done done) {
    network->Schedule(
        [inputs = std::move(inputs), done = std::move(done)]() mutable { done(Doubled(inputs)); });
  });
  for (const bool chained : {false, true}) {
    const Compiled f = CallingFunction(4, chained);
    std::vector<std::unique_ptr<AsyncResult>> runs;
    for (int i = 0; i < 200; ++i) {
      runs.push_back(std::make_unique<AsyncResult>());
      CompiledFunction::RunAsync(f, One(), options, &ps, runs.back()->Callback());
    }
    const float factor = chained ? 1 + 2 + 8 + 32 + 128 : 1 + 2 * 15;
    for (auto& run : runs) {
      REQUIRE(run->done.WaitForNotificationWithTimeout(kLong));
      CHECK(run->calls == 1);
      REQUIRE(run->results.ok());
      CHECK(Floats((*run->results)[0]) == std::vector<float>{factor, 2 * factor});
    }
  }
}

TEST_CASE("done waits for calls that are under way when another has failed", "[executor]") {
  auto pool = env::NewInlinePool();
  RunOptions options;
  options.pool = pool.get();
  std::map<int, PsCaller::Done> waiting;  // by PS
  ScriptedPs ps([&](const PsCallTarget& target, std::vector<Tensor>, PsCaller::Done done) {
    waiting[target.ps] = std::move(done);
  });
  for (int fails = 0; fails < 3; ++fails) {
    INFO(fails);
    waiting.clear();
    AsyncResult run;
    CompiledFunction::RunAsync(CallingFunction(3), One(), options, &ps, run.Callback());
    REQUIRE(waiting.size() == 3);
    waiting[fails](absl::UnavailableError("ps is gone"));
    for (int i = 0; i < 3; ++i) {
      if (i == fails) continue;
      CHECK(run.calls == 0);
      waiting[i](std::vector<Tensor>{Vector({1, 1})});
    }
    CHECK(run.calls == 1);
    CHECK(run.results.status().code() == absl::StatusCode::kUnavailable);
    CHECK(absl::StrContains(run.results.status().message(), absl::StrCat("call/ps:", fails)));
    CHECK(absl::StrContains(run.results.status().message(), "ps is gone"));
  }
}

TEST_CASE("after an error no further call starts", "[executor]") {
  auto pool = env::NewInlinePool();
  RunOptions options;
  options.pool = pool.get();
  int calls = 0;
  ScriptedPs ps([&](const PsCallTarget& target, std::vector<Tensor> inputs, PsCaller::Done done) {
    ++calls;
    if (target.ps == 1) {
      done(
          WithDetail(absl::AbortedError("no"), {ErrorCause::kTaskLost, true, "/job:ps/task:1", 9}));
    } else {
      done(Doubled(inputs));
    }
  });
  AsyncResult run;
  CompiledFunction::RunAsync(CallingFunction(4, true), One(), options, &ps, run.Callback());
  CHECK(run.calls == 1);
  CHECK(calls == 2);
  const auto detail = GetDetail(run.results.status());  // the type of the error is kept
  REQUIRE(detail.has_value());
  CHECK(detail->cause == ErrorCause::kTaskLost);
  CHECK(detail->incarnation == 9);

  AsyncResult bad_arguments;
  calls = 0;
  CompiledFunction::RunAsync(CallingFunction(2), {}, options, &ps, bad_arguments.Callback());
  CHECK(bad_arguments.calls == 1);
  CHECK(bad_arguments.results.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(calls == 0);
}

TEST_CASE("a run that is cancelled starts no further node, and waits for calls under way",
          "[executor]") {
  auto pool = env::NewInlinePool();
  std::atomic<bool> cancelled{false};
  RunOptions options;
  options.pool = pool.get();
  options.cancelled = &cancelled;
  std::vector<PsCaller::Done> waiting;
  ScriptedPs ps([&](const PsCallTarget&, std::vector<Tensor>, PsCaller::Done done) {
    waiting.push_back(std::move(done));
  });
  AsyncResult run;
  CompiledFunction::RunAsync(CallingFunction(2, true), One(), options, &ps, run.Callback());
  REQUIRE(waiting.size() == 1);
  cancelled = true;
  CHECK(run.calls == 0);
  waiting[0](Doubled(One()));
  CHECK(waiting.size() == 1);
  CHECK(run.calls == 1);
  CHECK(absl::IsCancelled(run.results.status()));
}

TEST_CASE("a reply with the wrong tensors is an error that names the call", "[executor]") {
  auto pool = env::NewInlinePool();
  RunOptions options;
  options.pool = pool.get();
  const std::vector<std::vector<Tensor>> replies = {
      {},
      {Vector({1, 2}), Vector({1, 2})},
      {Tensor()},
      {Vector({1, 2, 3})},
      {Tensor::Scalar(1.0f)},
      {Tensor::FromVector<float>({1, 2}, Shape{1, 2}).value()},
      {Tensor::FromVector<double>({1, 2})},
      {Tensor::FromVector<int32_t>({1, 2})}};
  for (const auto& reply : replies) {
    ScriptedPs ps(
        [&](const PsCallTarget&, std::vector<Tensor>, PsCaller::Done done) { done(reply); });
    AsyncResult run;
    CompiledFunction::RunAsync(CallingFunction(1), One(), options, &ps, run.Callback());
    CHECK(run.calls == 1);
    REQUIRE_FALSE(run.results.ok());
    const std::string message(run.results.status().message());
    INFO(message);
    CHECK(absl::StrContains(message, "call/ps:0/0"));
    CHECK(absl::StrContains(message, "wanted"));
    CHECK(absl::StrContains(message, "received"));
  }
}

TEST_CASE("what was sent is not overwritten while the frame is under way", "[executor]") {
  auto pool = env::NewInlinePool();
  RunOptions options;
  options.pool = pool.get();
  std::vector<Tensor> sent;
  PsCaller::Done reply;
  ScriptedPs ps([&](const PsCallTarget&, std::vector<Tensor> inputs, PsCaller::Done done) {
    sent = std::move(inputs);
    reply = std::move(done);
  });
  // After the call, x is used for the last time by an op that could take its memory.
  AsyncResult run;
  CompiledFunction::RunAsync(CallingFunction(1), One(), options, &ps, run.Callback());
  REQUIRE(sent.size() == 1);
  reply(std::vector<Tensor>{Vector({10, 10})});
  CHECK(run.calls == 1);
  REQUIRE(run.results.ok());
  CHECK(Floats((*run.results)[0]) == std::vector<float>{11, 12});
  CHECK(Floats(sent[0]) == std::vector<float>{1, 2});
}

TEST_CASE("a function without calls runs asynchronously as well", "[executor]") {
  auto pool = env::NewInlinePool();
  RunOptions options;
  options.pool = pool.get();
  graph::GraphBuilder b("f", &ClusterOps());
  b.Result("y", b.Op("Neg", {b.Argument("x", DType::kF32, Shape{2})}));
  AsyncResult run;
  CompiledFunction::RunAsync(MustCompile(&b), One(), options, nullptr, run.Callback());
  CHECK(run.calls == 1);
  REQUIRE(run.results.ok());
  CHECK(Floats((*run.results)[0]) == std::vector<float>{-1, -2});
}

}  // namespace
}  // namespace coxswain::function
