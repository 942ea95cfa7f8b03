// What a program does wrong with handles, functions and tickets is an error in its own words, and
// changes nothing.
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/api/wait.h"
#include "coordinator/core/controller.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"

namespace coxswain {
namespace {

using testing::Floats;
using testing::Must;
using testing::MustStart;
using testing::ToVector;

VariableOptions Vector(int64_t n) {
  VariableOptions options;
  options.shape = Shape{n};
  return options;
}

Variable MakeFilled(ParameterServerStrategy* strategy, const std::string& name,
                    const std::vector<float>& values) {
  Variable v = Must(strategy->CreateVariable(name, Vector(static_cast<int64_t>(values.size()))));
  Must(strategy->Assign(v, Floats(values)));
  return v;
}

RemoteFunction DefineAdd(ParameterServerStrategy* strategy, const Variable& v) {
  return Must(strategy->Define("add", [&](FunctionBuilder& f) {
    f.AssignAdd(v, f.Constant(Floats({1, 1})));
    f.Result("was", f.Read(v));
  }));
}

bool NamesBoth(const absl::Status& status, const ParameterServerStrategy& a,
               const ParameterServerStrategy& b) {
  return status.code() == absl::StatusCode::kInvalidArgument &&
         absl::StrContains(status.message(), absl::StrCat("strategy ", a.number())) &&
         absl::StrContains(status.message(), absl::StrCat("strategy ", b.number()));
}

TEST_CASE("a handle of another strategy is an error that names both, and nothing changes",
          "[api]") {
  Cluster one = MustStart(1, 1), two = MustStart(1, 1);
  ParameterServerStrategy s1(one), s2(two);
  const Variable a = MakeFilled(&s1, "a", {1, 2});
  const Variable b = MakeFilled(&s2, "b", {3, 4});
  CHECK(a.info().shards[0].id() == b.info().shards[0].id());  // what was mixed up
  CHECK(NamesBoth(s2.Read(a).status(), s1, s2));
  CHECK(NamesBoth(s2.Assign(a, Floats({9, 9})), s1, s2));
  CHECK(NamesBoth(s2.ReadShard(a.info(), 0, 0, 2).status(), s1, s2));
  CHECK(NamesBoth(s2.WriteShard(a.info(), 0, 0, Floats({9, 9})), s1, s2));
  const auto uses = [&](const std::function<void(FunctionBuilder&)>& build) {
    return s2.Define("f", build).status();
  };
  CHECK(NamesBoth(uses([&](FunctionBuilder& f) { f.Result("a", f.Read(a)); }), s1, s2));
  CHECK(NamesBoth(uses([&](FunctionBuilder& f) {
                    f.Assign(a, f.Constant(Floats({9, 9})));
                  }),
                  s1, s2));
  CHECK(NamesBoth(uses([&](FunctionBuilder& f) {
                    f.AssignAdd(a, f.Constant(Floats({9, 9})));
                  }),
                  s1, s2));
  const RemoteFunction g1 = DefineAdd(&s1, a), g2 = DefineAdd(&s2, b);
  CHECK(g1.plan() == g2.plan());
  ClusterCoordinator coordinator(s2);
  CHECK(NamesBoth(coordinator.Schedule(g1).Get().status(), s1, s2));
  CHECK(NamesBoth(coordinator.Join(), s1, s2));
  CHECK(ToVector<float>(Must(s1.Read(a))) == std::vector<float>{1, 2});
  CHECK(ToVector<float>(Must(s2.Read(b))) == std::vector<float>{3, 4});
  CHECK(coordinator.Schedule(g2).Get().ok());
  Must(coordinator.Join());
}

TEST_CASE("a table's handle of another strategy is refused wherever it can be used", "[api]") {
  Cluster one = MustStart(1, 1), two = MustStart(1, 1);
  ParameterServerStrategy s1(one), s2(two);
  TableOptions options;
  options.rows = 4;
  options.dim = 2;
  const EmbeddingTable t = Must(s1.CreateTable("t", options));
  CHECK(NamesBoth(s2.Read(t).status(), s1, s2));
  CHECK(NamesBoth(s2.RemoveIds(t.info()), s1, s2));
  CHECK(NamesBoth(s2.ReadIds(t.info(), 0, 0, 1).status(), s1, s2));
  using Use = std::function<Output(FunctionBuilder&, Output)>;
  const Use uses[] = {
      [&](FunctionBuilder& f, Output) { return f.Read(t); },
      [&](FunctionBuilder& f, Output ids) { return f.Lookup(t, ids); },
      [&](FunctionBuilder& f, Output ids) {
        return f.Lookup(t, {ids, ids})[1];
      },
      [&](FunctionBuilder& f, Output ids) {
        return f.LookupBag(t, ids, f.Constant(Tensor::FromVector<int32_t>({0, 1})), Combiner::kSum);
      },
      [&](FunctionBuilder& f, Output) {
        return f.MatMul(f.Constant(Tensor::Zeros(DType::kF32, Shape{1, 2})), t, true);
      },
  };
  for (const Use& use : uses) {
    const absl::Status status =
        s2.Define("f", [&](FunctionBuilder& f) {
            f.Result("r", use(f, f.Constant(Tensor::FromVector<int64_t>({1}))));
          }).status();
    INFO(status.ToString());
    CHECK(NamesBoth(status, s1, s2));
  }
}

TEST_CASE("two strategies on one cluster share it: names are taken once, ids do not collide",
          "[api]") {
  Cluster cluster = MustStart(2, 1);
  ParameterServerStrategy s1(cluster), s2(cluster);
  const Variable a = MakeFilled(&s1, "a", {1, 2});
  const Variable b = MakeFilled(&s2, "b", {3, 4});
  const absl::Status taken = s2.CreateVariable("a", Vector(2)).status();
  INFO(taken.ToString());
  CHECK(taken.code() == absl::StatusCode::kAlreadyExists);
  CHECK(absl::StrContains(taken.message(), absl::StrCat("strategy ", s1.number())));
  CHECK(ToVector<float>(Must(s1.Read(a))) == std::vector<float>{1, 2});
  const RemoteFunction g1 = DefineAdd(&s1, a), g2 = DefineAdd(&s2, b);
  ClusterCoordinator c1(s1), c2(s2);
  CHECK(ToVector<float>(Must(c2.Schedule(g2).Get())[0]) == std::vector<float>{3, 4});
  CHECK(ToVector<float>(Must(c1.Schedule(g1).Get())[0]) == std::vector<float>{1, 2});
  CHECK(ToVector<float>(Must(s1.Read(a))) == std::vector<float>{2, 3});
  CHECK(ToVector<float>(Must(s2.Read(b))) == std::vector<float>{4, 5});
  CHECK(s2.UseLayout(checkpoint::Manifest()).code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE(
    "a variable of the checkpoint that one strategy goes on from is not begun anew by another",
    "[api]") {
  Cluster cluster = MustStart(1, 1);
  ParameterServerStrategy s1(cluster), s2(cluster);
  checkpoint::Manifest manifest;
  proto::ShardSpec* const shard = manifest.shards.emplace_back().mutable_shard();
  shard->set_id(1);
  shard->set_count(1);
  shard->mutable_variable()->set_name("b");
  Must(s1.UseLayout(manifest));
  const absl::Status refused = s2.CreateVariable("b", Vector(2)).status();
  INFO(refused.ToString());
  CHECK(refused.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(absl::StrContains(refused.message(), absl::StrCat("strategy ", s1.number())));
  CHECK(s2.CreateVariable("c", Vector(2)).ok());
}

TEST_CASE("a variable that cannot be created takes no name and no other shard away", "[api]") {
  Cluster cluster = MustStart(1, 1);
  ParameterServerStrategy strategy(cluster);
  const Variable a = MakeFilled(&strategy, "a", {1, 2});
  VariableOptions bad = Vector(2);
  proto::InitializerSpec unknown;
  unknown.set_kind("no such thing");
  bad.initializer = unknown;
  CHECK_FALSE(strategy.CreateVariable("v", bad).ok());
  const Variable v = MakeFilled(&strategy, "v", {5, 6});
  CHECK(v.info().shards[0].id() != a.info().shards[0].id());
  // Whoever asks for a shard's number again gets an error, and the shard stays.
  const absl::Status again = WaitForStatus([&](auto done) {
    cluster.controller()->CreateShards({a.info().shards[0]}, std::move(done));
  });
  CHECK(again.code() == absl::StatusCode::kAlreadyExists);
  CHECK(ToVector<float>(Must(strategy.Read(a))) == std::vector<float>{1, 2});
  CHECK(ToVector<float>(Must(strategy.Read(v))) == std::vector<float>{5, 6});
}

TEST_CASE("handles of nothing are errors", "[api]") {
  Cluster cluster = MustStart(1, 1);
  const Cluster moved = std::move(cluster);
  CHECK(cluster.num_ps() == 1);  // NOLINT(bugprone-use-after-move): a cluster is never empty
  ParameterServerStrategy strategy(cluster);
  CHECK(strategy.Read(Variable()).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(strategy.Read(EmbeddingTable()).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(EmbeddingTable().rows() == 0);
  CHECK(Variable().name().empty());
  CHECK(RemoteFunction().name().empty());
  PerWorkerDataset none;
  CHECK_FALSE(none.NextTicket().has_value());
  CHECK(none.steps_per_epoch() == 0);
  ClusterCoordinator coordinator(strategy);
  CHECK(coordinator.Schedule(RemoteFunction()).Get().status().code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(strategy.Define("f", none, [](FunctionBuilder&) {}).status().code() ==
        absl::StatusCode::kInvalidArgument);
}

absl::Status DefineError(ParameterServerStrategy* strategy,
                         const std::function<void(FunctionBuilder&)>& build) {
  return strategy->Define("f", build).status();
}

TEST_CASE("what is wrong with a function is found when it is defined", "[api]") {
  Cluster cluster = MustStart(1, 1);
  ParameterServerStrategy strategy(cluster);
  const absl::Status nothing = DefineError(&strategy, [](FunctionBuilder& f) { f.Scalar(1); });
  CHECK(nothing.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(nothing.message(), "no effect"));
  const absl::Status twice = DefineError(&strategy, [](FunctionBuilder& f) {
    f.Result("loss", f.Scalar(1));
    f.Result("loss", f.Scalar(2));
  });
  CHECK(twice.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(twice.message(), "two results of the name 'loss'"));
  const absl::Status attribute = DefineError(&strategy, [](FunctionBuilder& f) {
    Output x = f.Constant(Tensor::Zeros(DType::kF32, Shape{2, 2}));
    f.Result("y", f.Op("MatMul", {x, x}, {{"transpose_x", true}}));
  });
  INFO(attribute.ToString());
  CHECK(attribute.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(attribute.message(), "unknown attribute 'transpose_x'"));
  CHECK(absl::StrContains(attribute.message(), "transpose_a"));
}

TEST_CASE("arguments that do not fit the function are found when it is scheduled", "[api]") {
  Cluster cluster = MustStart(1, 1);
  ParameterServerStrategy strategy(cluster);
  const RemoteFunction f = Must(strategy.Define("f", [](FunctionBuilder& b) {
    b.Result("y", b.Neg(b.Argument("x", DType::kF32, Shape{kUnknownDim, 2})));
  }));
  const auto error = [&](std::vector<Tensor> arguments) {
    ClusterCoordinator coordinator(strategy);
    const absl::Status status = coordinator.Schedule(f, std::move(arguments)).Get().status();
    CHECK(coordinator.Join() == status);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(), "function 'f'"));
    return std::string(status.message());
  };
  CHECK(absl::StrContains(error({}), "wanted 1 arguments, found 0"));
  CHECK(absl::StrContains(error({Floats({1}), Floats({1})}), "wanted 1 arguments, found 2"));
  CHECK(absl::StrContains(error({Floats({1, 2})}), "argument 0 ('x')"));
  CHECK(absl::StrContains(error({Tensor::Zeros(DType::kI64, Shape{1, 2})}), "argument 0 ('x')"));
  CHECK(absl::StrContains(error({Tensor()}), "argument 0 ('x')"));
  ClusterCoordinator coordinator(strategy);
  CHECK(coordinator.Schedule(f, {Tensor::Zeros(DType::kF32, Shape{3, 2})}).Get().ok());
}

TEST_CASE("a ticket that is missing, superfluous or of another data set is refused by name",
          "[api]") {
  const DataFiles files;
  const std::string file = files.Write("d.csv", "x,label\n1,2\n3,4\n");
  Cluster cluster = MustStart(1, 1);
  ParameterServerStrategy strategy(cluster);
  const auto load = [&] {
    return Must(
        strategy.CreatePerWorkerDataset(Csv(file).Numeric("x").Label("label").Batch(1).Epochs(1)));
  };
  PerWorkerDataset first = load(), second = load();
  const RemoteFunction reads = Must(strategy.Define(
      "reads", first, [](FunctionBuilder& f) { f.Result("sum", f.Sum(f.Column("label"))); }));
  const RemoteFunction alone =
      Must(strategy.Define("alone", [](FunctionBuilder& f) { f.Result("one", f.Scalar(1)); }));
  const Ticket mine = *first.NextTicket(), others = *second.NextTicket();
  const auto error = [&](const RemoteFunction& f, const Ticket& ticket) {
    ClusterCoordinator coordinator(strategy);
    const absl::Status status = coordinator.Schedule(f, ticket).Get().status();
    CHECK(coordinator.Join() == status);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  CHECK(absl::StrContains(error(reads, Ticket{}), "reads column 'label'"));
  CHECK(absl::StrContains(error(reads, Ticket{}), "NextTicket"));
  CHECK(absl::StrContains(error(alone, mine), "without a data set"));
  CHECK(absl::StrContains(error(reads, others), "ticket is of data set"));
  ClusterCoordinator coordinator(strategy);
  CHECK(coordinator.Schedule(reads, mine).Get().ok());
  // A ticket that a program made by itself is of the data set that it is used for.
  CHECK(coordinator.Schedule(reads, Ticket{Part::kTraining, 0, 0, 1}).Get().ok());
  CHECK(coordinator.Schedule(alone).Get().ok());
}

TEST_CASE("a column and an argument of one name are refused, whichever comes first", "[api]") {
  const DataFiles files;
  Cluster cluster = MustStart(1, 1);
  ParameterServerStrategy strategy(cluster);
  const PerWorkerDataset data = Must(strategy.CreatePerWorkerDataset(
      Csv(files.Write("d.csv", "x,label\n1,2\n")).Numeric("x").Label("label").Batch(1).Epochs(1)));
  for (const bool column_first : {false, true}) {
    const auto function = strategy.Define("reads", data, [&](FunctionBuilder& f) {
      if (column_first) f.Column("label");
      f.Argument("label", DType::kF32, Shape{});
      f.Result("sum", f.Add(f.Sum(f.Column("label")), f.Sum(f.Column("label"))));
    });
    CHECK(absl::StrContains(function.status().message(), "'label' is declared twice"));
  }
}

TEST_CASE("a program learns which values the ids of a feature stand for", "[api]") {
  const DataFiles files;
  Cluster cluster = MustStart(1, 1);
  ParameterServerStrategy strategy(cluster);
  const PerWorkerDataset data = Must(strategy.CreatePerWorkerDataset(
      Csv(files.Write("d.csv", "film,x,label\nHeat,1,2\nUp,3,4\nHeat,1,2\n"))
          .Categorical("film")
          .Numeric("x")
          .Label("label")
          .Batch(1)
          .Epochs(1)));
  const std::vector<std::string> films = data.vocabulary("film");
  CHECK(std::set<std::string>(films.begin(), films.end()) == std::set<std::string>{"Heat", "Up"});
  CHECK(data.vocabulary_size("film") >= 2);
  CHECK(data.vocabulary("x").empty());
  CHECK(data.vocabulary("none").empty());
  CHECK(PerWorkerDataset().vocabulary("film").empty());
}

TEST_CASE("a closure of no step, or of more steps than examples, is refused by the call", "[api]") {
  const DataFiles files;
  const std::string file = files.Write("d.csv", "x,label\n1,2\n3,4\n5,6\n7,8\n");
  Cluster cluster = MustStart(1, 1);
  ParameterServerStrategy strategy(cluster);
  PerWorkerDataset data = Must(
      strategy.CreatePerWorkerDataset(Csv(file).Numeric("x").Label("label").Batch(4).Epochs(1)));
  const RemoteFunction sum = Must(strategy.Define("sum", data, [](FunctionBuilder& f) {
    f.Result("sum", f.Add(f.Sum(f.Column("label")), f.Argument("more", DType::kF32, Shape{})));
  }));
  const Ticket ticket = *data.NextTicket();
  const Tensor zero = Tensor::Scalar<float>(0);
  ClusterCoordinator coordinator(strategy);
  const RemoteValue never;  // what takes it would be refused later
  for (const uint32_t steps : {0u, 5u}) {
    for (const RemoteValue& refused :
         {coordinator.Schedule(sum, ticket, steps, {zero}),
          coordinator.Schedule(sum, {.arguments = {zero}, .ticket = ticket, .steps = steps}),
          coordinator.Schedule(sum, {.arguments = {never}, .ticket = ticket, .steps = steps})}) {
      REQUIRE(refused.Ready());
      const absl::Status status = refused.Get().status();
      CHECK(status.code() == absl::StatusCode::kInvalidArgument);
      CHECK(absl::StrContains(status.message(), steps == 0
                                                    ? "'sum': wanted at least 1 step, found 0"
                                                    : "examples, 4, found 5"));
    }
    CHECK(coordinator.Join().code() == absl::StatusCode::kInvalidArgument);
  }
  CHECK(coordinator.stats().scheduled == 0);
  CHECK(Must(coordinator.Fetch<float>(coordinator.Schedule(sum, ticket, 4, {zero}), "sum")) == 8);
}

TEST_CASE("a Read sees the value from before an update in the same function", "[api]") {
  Cluster cluster = MustStart(1, 1);
  ParameterServerStrategy strategy(cluster);
  const Variable v = MakeFilled(&strategy, "v", {1, 2});
  const RemoteFunction add = DefineAdd(&strategy, v);
  ClusterCoordinator coordinator(strategy);
  CHECK(ToVector<float>(Must(coordinator.Schedule(add).Get())[0]) == std::vector<float>{1, 2});
  CHECK(ToVector<float>(Must(coordinator.Schedule(add).Get())[0]) == std::vector<float>{2, 3});
}

TEST_CASE("what ToString says of a typed error can be read", "[base]") {
  const ErrorDetail detail{ErrorCause::kTaskLost, true, "/job:ps/task:1", 77};
  const absl::Status status = WithDetail(absl::UnavailableError("gone"), detail);
  const std::string text = status.ToString();
  INFO(text);
  CHECK(
      absl::StrContains(text, "cause=task_lost retryable=yes incarnation=77 task=/job:ps/task:1"));
  CHECK_FALSE(absl::StrContains(text, "\\"));
  const auto back = GetDetail(Annotate(status, "again"));
  REQUIRE(back.has_value());
  CHECK(back->cause == ErrorCause::kTaskLost);
  CHECK(back->retryable);
  CHECK(back->incarnation == 77);
  CHECK(back->task == "/job:ps/task:1");
}

}  // namespace
}  // namespace coxswain
