// What becomes of the others when a closure fails, and what a long wait says.
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "coordinator/api/wait_reporter.h"
#include "runtime/base/status.h"
#include "runtime/env/env.h"
#include "tests/testing/cluster.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using testing::Floats;
using testing::Must;
using testing::MustStart;
using testing::ToVector;

// x -> row `id` of a constant table of 3 rows: an id of 3 or more fails. Adds 1 to the counter.
RemoteFunction DefinePick(ParameterServerStrategy* strategy, const Variable& counter) {
  return Must(strategy->Define("pick", [&](FunctionBuilder& g) {
    Output ids = g.Argument("ids", DType::kI64, Shape{kUnknownDim});
    g.AssignAdd(counter, g.Constant(Tensor::FromVector<int64_t>({1})));
    g.Result("picked", g.Gather(g.Constant(Floats({10, 20, 30})), ids));
  }));
}

Variable MakeCounter(ParameterServerStrategy* strategy) {
  VariableOptions options;
  options.shape = Shape{1};
  options.dtype = DType::kI64;
  return Must(strategy->CreateVariable("counter", options));
}

std::vector<Tensor> Id(int64_t id) { return {Tensor::FromVector<int64_t>({id})}; }

CoordinatorOptions With(ErrorPolicy policy) {
  CoordinatorOptions options;
  options.on_error = policy;
  return options;
}

TEST_CASE("no names, and names that are not UTF-8, are refused at once", "[api]") {
  ParameterServerStrategy strategy(MustStart(1, 1));
  const std::string bad = "M\xfcller";
  const auto refused = [](const absl::Status& status) {
    return absl::IsInvalidArgument(status) &&
           absl::StrContains(status.message(), "wanted a name in UTF-8, found ");
  };
  CHECK(refused(strategy.CreateVariable(bad, {.shape = Shape{1}}).status()));
  CHECK(refused(strategy.CreateTable(bad, {.rows = 2, .dim = 1}).status()));
  CHECK(refused(strategy.CreateMean(bad).status()));
  CHECK(absl::IsInvalidArgument(strategy.CreateVariable("", {.shape = Shape{1}}).status()));
  CHECK(absl::IsInvalidArgument(strategy.CreateTable("", {.rows = 2, .dim = 1}).status()));
  const auto define = [&](const std::string& name, const std::string& argument,
                          const std::string& result) {
    return strategy
        .Define(name,
                [&](FunctionBuilder& f) {
                  f.Result(result, f.Argument(argument, DType::kF32, Shape{1}));
                })
        .status();
  };
  CHECK(refused(define(bad, "x", "y")));
  CHECK(refused(define("f", bad, "y")));
  CHECK(refused(define("f", "x", bad)));
  CHECK(define("f", "x", "M\xc3\xbcller").ok());
}

TEST_CASE("a ticket of a part that no data set has is refused", "[api]") {
  ParameterServerStrategy strategy(MustStart(1, 1));
  const Variable counter = MakeCounter(&strategy);
  const RemoteFunction pick = DefinePick(&strategy, counter);
  Ticket ticket;
  ticket.part = static_cast<Part>(9);
  const absl::Status refused = pick.CheckCall(ticket, Id(1));
  CHECK(absl::IsInvalidArgument(refused));
  CHECK(absl::StrContains(refused.message(), "the ticket is of part 9"));
}

TEST_CASE("a function without what builds it is an error, and so is a column without a data set",
          "[api]") {
  ParameterServerStrategy strategy(MustStart(1, 1));
  const auto message = [&](const ParameterServerStrategy::Build& build) {
    const auto defined = strategy.Define("f", build);
    REQUIRE(absl::IsInvalidArgument(defined.status()));
    return std::string(defined.status().message());
  };
  CHECK(absl::StrContains(message(nullptr), "function 'f': wanted what builds it, found none"));
  CHECK(absl::StrContains(message([](FunctionBuilder& f) { f.ControlDependencies({}, nullptr); }),
                          "ControlDependencies: wanted a function, found none"));
  CHECK(absl::StrContains(message([](FunctionBuilder& f) { f.Result("x", f.Column("x")); }),
                          "wanted a data set with a column 'x', found none"));
}

TEST_CASE("an op with several outputs gives all of them, and another number is an error", "[api]") {
  ParameterServerStrategy strategy(MustStart(1, 1));
  const RemoteFunction best = Must(strategy.Define("best", [](FunctionBuilder& f) {
    const std::vector<Output> top = f.OpN("TopK", {f.Constant(Floats({3, 9, 5}))}, {{"k", 2}}, 2);
    f.Result("values", top[0]);
    f.Result("indices", top[1]);
  }));
  ClusterCoordinator coordinator(strategy);
  const std::vector<Tensor> results = Must(coordinator.Schedule(best).Get());
  CHECK(ToVector<float>(results[0]) == std::vector<float>{9, 5});
  CHECK(ToVector<int64_t>(results[1]) == std::vector<int64_t>{1, 2});
  const auto wrong = strategy.Define("wrong", [](FunctionBuilder& f) {
    const std::vector<Output> top = f.OpN("TopK", {f.Constant(Floats({3, 9}))}, {{"k", 1}}, 3);
    REQUIRE(top.size() == 3);
    f.Result("values", top[0]);
  });
  CHECK_THAT(std::string(wrong.status().message()), Contains("TopK: wanted 3 outputs, found 2"));
}

TEST_CASE("what one function computed is an error in another, not whatever has its number there",
          "[api]") {
  ParameterServerStrategy strategy(MustStart(1, 1));
  const Variable counter = Must(strategy.CreateVariable("counter", {.shape = Shape{1}}));
  Output number;
  Operation update;
  Must(strategy.Define("one", [&](FunctionBuilder& f) {
    number = f.Argument("x", DType::kF32, Shape{1});
    update = f.AssignAdd(counter, number);
  }));
  const auto message = [&](const std::function<void(FunctionBuilder&, Output)>& build) {
    const auto defined = strategy.Define("two", [&](FunctionBuilder& f) {
      const Output x = f.Argument("x", DType::kF32, Shape{1});
      f.Assign(counter, x);
      build(f, x);
    });
    REQUIRE(absl::IsInvalidArgument(defined.status()));
    return std::string(defined.status().message());
  };
  const std::string foreign = "is an output of another function";
  CHECK(absl::StrContains(
      message([&](FunctionBuilder& f, Output x) { f.Result("sum", f.Add(x, number)); }),
      "function 'two': input 1 of Add " + foreign));
  CHECK(absl::StrContains(message([&](FunctionBuilder& f, Output) { f.Result("x", number); }),
                          "result 'x' " + foreign));
  CHECK(absl::StrContains(
      message([&](FunctionBuilder& f, Output) { f.AssignAdd(counter, number); }), foreign));
  for (const Operation& operation : {update, Operation(number)}) {
    CHECK(absl::StrContains(message([&](FunctionBuilder& f, Output) {
                              f.ControlDependencies({operation}, [&] { f.Read(counter); });
                            }),
                            "a control dependency " + foreign));
  }
}

TEST_CASE("collect: the others run, Join returns the first error and errors() has all", "[api]") {
  Cluster cluster = MustStart(1, 2);
  ParameterServerStrategy strategy(cluster);
  const RemoteFunction pick = DefinePick(&strategy, MakeCounter(&strategy));
  ClusterCoordinator coordinator(strategy, With(ErrorPolicy::kCollect));
  std::vector<RemoteValue> values;
  for (int64_t i = 0; i < 12; ++i) values.push_back(coordinator.Schedule(pick, Id(i % 4)));
  const absl::Status joined = coordinator.Join();
  for (size_t i = 0; i < values.size(); ++i) {
    INFO(i);
    CHECK(values[i].Get().ok() == (i % 4 != 3));
  }
  const std::vector<absl::Status> errors = coordinator.errors();
  REQUIRE(errors.size() == 3);
  CHECK(joined == errors[0]);
  for (const absl::Status& error : errors) {
    CHECK(error.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(error.message(), "closure "));
    CHECK(absl::StrContains(error.message(), "/job:worker/task:"));
    CHECK(absl::StrContains(error.message(), "Gather"));
    REQUIRE(GetDetail(error).has_value());
    CHECK(GetDetail(error)->cause == ErrorCause::kApplication);
  }
  CHECK(errors[1].message() != errors[0].message());  // another closure
  CHECK(coordinator.failed() == 3);
  // They were summed up: what comes now begins anew.
  Must(coordinator.Join());
  CHECK(coordinator.errors().size() == 3);
  CHECK(coordinator.Schedule(pick, Id(1)).Get().ok());
  CHECK(coordinator.errors().empty());
  Must(coordinator.Join());
}

TEST_CASE("ignore: Join is OK, failed closures are counted and their futures say why", "[api]") {
  Cluster cluster = MustStart(1, 2);
  ParameterServerStrategy strategy(cluster);
  const RemoteFunction pick = DefinePick(&strategy, MakeCounter(&strategy));
  ClusterCoordinator coordinator(strategy, With(ErrorPolicy::kIgnore));
  std::vector<RemoteValue> values;
  for (int64_t i = 0; i < 12; ++i) values.push_back(coordinator.Schedule(pick, Id(i % 4)));
  Must(coordinator.Join());
  CHECK(coordinator.failed() == 3);
  CHECK(coordinator.errors().size() == 3);
  CHECK(values[3].Get().status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(ToVector<float>(Must(values[10].Get())[0]) == std::vector<float>{30});
}

TEST_CASE("an error and a Cancel touch no closure of another coordinator", "[api]") {
  Cluster cluster = MustStart(1, 1, /*in_flight=*/1, /*threads=*/1);
  ParameterServerStrategy strategy(cluster);
  const Variable counter = MakeCounter(&strategy);
  const RemoteFunction pick = DefinePick(&strategy, counter);
  ClusterCoordinator failing(strategy), cancelled(strategy), other(strategy);
  absl::Notification closed, open;
  cluster.env()->pool()->Schedule([&] {
    closed.Notify();
    open.WaitForNotification();
  });
  closed.WaitForNotification();
  std::vector<RemoteValue> others;
  failing.Schedule(pick, Id(3));
  for (int i = 0; i < 10; ++i) {
    failing.Schedule(pick, Id(0));
    cancelled.Schedule(pick, Id(0));
    others.push_back(other.Schedule(pick, Id(2)));
  }
  cancelled.Cancel();
  open.Notify();
  CHECK(failing.Join().code() == absl::StatusCode::kInvalidArgument);
  CHECK(cancelled.Join().code() == absl::StatusCode::kCancelled);
  Must(other.Join());
  for (const RemoteValue& value : others) CHECK(value.Get().ok());
  // One may have been sent to the worker before the error was known; that one runs to its end.
  CHECK(failing.failed() >= 10);
  CHECK(cancelled.failed() == 10);
  CHECK(other.failed() == 0);
}

TEST_CASE("a long wait says what it waits for and what can be done", "[api]") {
  const auto says = [](const WaitFacts& facts, const std::string& part) {
    const std::string text = DescribeWait("12 closures", absl::Milliseconds(30400), facts);
    INFO(text);
    CHECK(absl::StartsWith(text, "waiting for 12 closures since 30s: "));
    CHECK(absl::StrContains(text, part));
  };
  says({true, 2, 3, ""}, "2 of 3 workers are there; steps are running");
  says({true, 0, 3, ""}, "start a worker");
  says({true, 3, 3, "parameter servers: ps:1, lost 3s ago"}, "ps:1, lost 3s ago; start what is");
  says({true, 3, 3, "", "/job:ps/task:1 at h:7 has worked on create_shards for 30s"},
       "has worked on create_shards for 30s; `coxswain status` shows");
  says({false, 0, 0, ""}, "too busy");
}

}  // namespace
}  // namespace coxswain
