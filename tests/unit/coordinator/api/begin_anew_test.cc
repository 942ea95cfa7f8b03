// A program in a directory that has checkpoints of an earlier run.
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coxswain/checkpoint.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/env/file_system.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"

namespace coxswain {
namespace {

using testing::Must;
using testing::MustStart;

CheckpointOptions In(const DataFiles& dir) {
  CheckpointOptions options;
  options.directory = dir.Path("checkpoints");
  options.every = absl::ZeroDuration();
  options.keep = 2;
  return options;
}

Variable MakeCounter(ParameterServerStrategy* strategy) {
  VariableOptions options;
  options.shape = Shape{};
  options.dtype = DType::kI64;
  return Must(strategy->CreateVariable("counter", options));
}

// Two checkpoints, the newest of which has 8.
void EarlierRun(const DataFiles& dir) {
  CheckpointManager checkpoints(In(dir));
  const Cluster cluster = MustStart(1, 1);
  ParameterServerStrategy strategy(cluster);
  const Variable counter = MakeCounter(&strategy);
  Must(checkpoints.Start(cluster));
  for (const int64_t value : {7, 8}) {
    Must(strategy.Assign(counter, Tensor::Scalar<int64_t>(value)));
    Must(checkpoints.Save());
  }
}

std::vector<uint64_t> Numbers(const DataFiles& dir) {
  std::vector<uint64_t> numbers;
  const auto files = env::NewRealFileSystem();
  for (const auto& entry :
       Must(checkpoint::ListCheckpoints(files.get(), dir.Path("checkpoints")))) {
    numbers.push_back(entry.number);
  }
  return numbers;
}

using Numbered = std::vector<uint64_t>;

// Old checkpoints are removed after the new one was told.
Numbered AwaitNumbers(const DataFiles& dir, const Numbered& wanted) {
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  while (Numbers(dir) != wanted && absl::Now() < deadline) std::this_thread::yield();
  return Numbers(dir);
}

TEST_CASE("checkpoints that a program has not restored are not written over", "[checkpoint]") {
  const DataFiles dir;
  EarlierRun(dir);
  const std::string how = GENERATE("not looked for", "found", "restored too late");
  CAPTURE(how);
  CheckpointManager checkpoints(In(dir));
  if (how != "not looked for") Must(checkpoints.Find());
  const Cluster cluster = MustStart(1, 1);
  ParameterServerStrategy strategy(cluster);
  MakeCounter(&strategy);
  if (how == "restored too late") CHECK(absl::IsFailedPrecondition(checkpoints.Restore(&strategy)));
  const absl::Status refused = checkpoints.Start(cluster);
  CHECK(absl::IsFailedPrecondition(refused));
  CHECK(refused.message() ==
        absl::StrCat(dir.Path("checkpoints"),
                     " has checkpoints of an earlier run, the newest is checkpoint-000002, and "
                     "this program has not restored one: go on from it (Find, and Restore before "
                     "the first variable), name another directory, or begin anew beside them "
                     "(CheckpointOptions::begin_anew)"));
  CHECK(absl::IsFailedPrecondition(checkpoints.Save()));
  CHECK(Numbers(dir) == Numbered{2, 1});
}

TEST_CASE("a program that restored one checkpoint and then found a newer one has not restored that",
          "[checkpoint]") {
  const DataFiles dir;
  EarlierRun(dir);
  CheckpointManager checkpoints(In(dir));
  Must(checkpoints.Find([](const checkpoint::Manifest& m) {
    return m.number == 1 ? absl::OkStatus() : absl::FailedPreconditionError("not this one");
  }));
  const Cluster cluster = MustStart(1, 1);
  ParameterServerStrategy strategy(cluster);
  Must(checkpoints.Restore(&strategy));
  const Variable counter = MakeCounter(&strategy);
  SECTION("another one is found") {
    Must(checkpoints.Find());
    CHECK(absl::IsFailedPrecondition(checkpoints.Start(cluster)));
    CHECK(Numbers(dir) == Numbered{2, 1});
  }
  SECTION("the newest was turned down") {
    Must(checkpoints.Start(cluster));
    Must(checkpoints.Save());
    CHECK(Must(strategy.Read(counter)).data<int64_t>()[0] == 7);
    CHECK(AwaitNumbers(dir, {3, 2}) == Numbered{3, 2});
  }
}

TEST_CASE("a program that begins anew beside old checkpoints removes the last with its own",
          "[checkpoint]") {
  const DataFiles dir;
  EarlierRun(dir);
  {
    CheckpointOptions options = In(dir);
    options.begin_anew = true;
    CheckpointManager checkpoints(options);
    const Cluster cluster = MustStart(1, 1);
    ParameterServerStrategy strategy(cluster);
    const Variable counter = MakeCounter(&strategy);
    CHECK(Must(strategy.Read(counter)).data<int64_t>()[0] == 0);
    Must(checkpoints.Start(cluster));
    CHECK(Numbers(dir) == Numbered{2, 1});
    for (const Numbered& wanted : {Numbered{3, 2}, Numbered{4, 3}}) {
      Must(strategy.Assign(counter, Tensor::Scalar<int64_t>(50)));
      Must(checkpoints.Save());
      CHECK(AwaitNumbers(dir, wanted) == wanted);
    }
  }
  CHECK(Numbers(dir) == Numbered{4, 3});
  // Started again it goes on, whatever that option says.
  CheckpointOptions options = In(dir);
  options.begin_anew = true;
  CheckpointManager checkpoints(options);
  Must(checkpoints.Find());
  ClusterOptions cluster_options;
  cluster_options.min_epoch = checkpoints.min_epoch();
  const Cluster cluster = Must(Cluster::InProcess(1, 1, cluster_options));
  ParameterServerStrategy strategy(cluster);
  Must(checkpoints.Restore(&strategy));
  CHECK(Must(strategy.Read(MakeCounter(&strategy))).data<int64_t>()[0] == 50);
  Must(checkpoints.Start(cluster));
}

}  // namespace
}  // namespace coxswain
