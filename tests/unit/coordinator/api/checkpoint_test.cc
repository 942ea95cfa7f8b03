// A program that goes on from its checkpoint in another session, on another number of PS.
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/api/table_words.h"
#include "coordinator/api/variable_info.h"
#include "coxswain/checkpoint.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/checkpoint_lock.h"
#include "runtime/checkpoint/manifest.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"
#include "tests/testing/tiny_disk.h"

namespace coxswain {
namespace {

using testing::Floats;
using testing::Must;
using testing::MustStart;
using testing::Same;
using testing::ToVector;

CheckpointOptions In(const DataFiles& dir) {
  CheckpointOptions options;
  options.directory = dir.Path("checkpoints");
  options.every = absl::ZeroDuration();  // only by Save
  options.keep = 10;
  return options;
}

// A counter that each step adds 1 to, and a table that it trains.
struct Program {
  static constexpr int64_t kRows = 10;

  Program(const Cluster& cluster, CheckpointManager* checkpoints,
          const std::string& sharding = "mod")
      : strategy(cluster) {
    Must(checkpoints->Restore(&strategy));
    VariableOptions options;
    options.shape = Shape{};
    options.dtype = DType::kI64;
    counter = Must(strategy.CreateVariable("counter", options));
    TableOptions table_options;
    table_options.rows = kRows;
    table_options.dim = 2;
    table_options.sharding = Must(ParseSharding(sharding));
    table_options.optimizer = Sgd{.learning_rate = 1};
    table = Must(strategy.CreateTable("table", table_options));
    step = Must(strategy.Define("step", [&](FunctionBuilder& g) {
      g.AssignAdd(counter, g.Constant(Tensor::Scalar<int64_t>(1)));
      Output loss = g.Neg(g.Sum(g.Lookup(table, g.Argument("ids", DType::kI64, Shape{3}))));
      g.Minimize(loss);
      g.Result("loss", loss);
    }));
  }
  RemoteValue Schedule(ClusterCoordinator* coordinator, int64_t i) {
    return coordinator->Schedule(
        step, {Tensor::FromVector<int64_t>({i % kRows, (i + 1) % kRows, (i + 5) % kRows})});
  }
  int64_t Count() { return Must(strategy.Read(counter)).data<int64_t>()[0]; }

  ParameterServerStrategy strategy;
  Variable counter;
  EmbeddingTable table;
  RemoteFunction step;
};

TEST_CASE("a checkpoint while closures run is gone on from, each step applied once",
          "[checkpoint]") {
  constexpr int64_t kSteps = 400;
  for (const auto& [ps, sharding] : std::vector<std::pair<int, std::string>>{
           {1, "mod"}, {2, "hash"}, {3, "mod"}, {3, "hash"}, {1, "hash"}}) {
    INFO(ps << " parameter servers after 2, " << sharding);
    const DataFiles dir;
    Tensor uninterrupted;
    {
      CheckpointManager checkpoints(In(dir));
      Must(checkpoints.Find());
      CHECK_FALSE(checkpoints.found());
      const Cluster cluster = MustStart(2, 2);
      Program program(cluster, &checkpoints, sharding);
      ClusterCoordinator coordinator(program.strategy);
      CHECK(Must(checkpoints.RunPending(&coordinator, {})).empty());
      CHECK(checkpoints.Save().code() == absl::StatusCode::kFailedPrecondition);
      Must(checkpoints.Start(cluster, [] { return "{\"note\": 7}"; }));
      for (int64_t i = 0; i < kSteps; ++i) {
        program.Schedule(&coordinator, i);
        // No Join before: some closures are under way.
        if (i == 150) Must(checkpoints.Save());
      }
      Must(coordinator.Join());
      CHECK(program.Count() == kSteps);
      uninterrupted = Must(program.strategy.Read(program.table));
    }
    CheckpointManager checkpoints(In(dir));
    Must(checkpoints.Find());
    REQUIRE(checkpoints.found());
    CHECK(checkpoints.skipped().empty());
    const checkpoint::Manifest& manifest = checkpoints.manifest();
    CHECK(absl::StrContains(manifest.job_state, "\"note\""));
    CHECK(checkpoints.min_epoch() == manifest.epoch + 1);
    ClusterOptions options;
    options.threads = 2;
    options.min_epoch = checkpoints.min_epoch();
    const Cluster cluster = Must(Cluster::InProcess(ps, 1, options));
    Program program(cluster, &checkpoints);
    CHECK(program.table.info().shards.size() == 2);  // the checkpoint's, on any number of PS
    ClusterCoordinator coordinator(program.strategy);
    CHECK(checkpoints.RunPending(&coordinator, {}).status().code() ==
          (manifest.closures.empty() ? absl::StatusCode::kOk : absl::StatusCode::kNotFound));
    // Of two with one name nobody knows which one a closure is of.
    CHECK(checkpoints.RunPending(&coordinator, {program.step, program.step}).status().code() ==
          (manifest.closures.empty() ? absl::StatusCode::kOk : absl::StatusCode::kInvalidArgument));
    const auto pending = Must(checkpoints.RunPending(&coordinator, {program.step}));
    CHECK(pending.size() == manifest.closures.size());
    Must(coordinator.Join());
    const auto done = static_cast<int64_t>(manifest.next_closure) - 1;
    CHECK(done >= 151);
    CHECK(program.Count() == done);
    for (int64_t i = done; i < kSteps; ++i) program.Schedule(&coordinator, i);
    Must(coordinator.Join());
    CHECK(program.Count() == kSteps);
    CHECK(Same(Must(program.strategy.Read(program.table)), uninterrupted));
  }
}

TEST_CASE("a variable that is not what the checkpoint has is told with both", "[checkpoint]") {
  const DataFiles dir;
  {
    CheckpointManager checkpoints(In(dir));
    const Cluster cluster = MustStart(1, 1);
    Program program(cluster, &checkpoints);
    Must(checkpoints.Start(cluster));
    Must(checkpoints.Save());
  }
  CheckpointManager checkpoints(In(dir));
  Must(checkpoints.Find());
  const Cluster cluster = MustStart(1, 1);
  ParameterServerStrategy strategy(cluster);
  Must(checkpoints.Restore(&strategy));
  const auto error = [](const auto& created) {
    CHECK(created.status().code() == absl::StatusCode::kInvalidArgument);
    return std::string(created.status().message());
  };
  VariableOptions scalar;
  CHECK(error(strategy.CreateVariable("counter", scalar)) ==
        "variable 'counter': the checkpoint has a variable i64[] with no optimizer, the program "
        "makes a variable f32[] with no optimizer");
  TableOptions table;
  table.rows = 11;
  table.dim = 2;
  table.optimizer = Sgd{.learning_rate = 1};
  CHECK(error(strategy.CreateTable("table", table)) ==
        "variable 'table': the checkpoint has a table f32[10,2] with sgd optimizer, the program "
        "makes a table f32[11,2] with sgd optimizer");
  table.rows = 10;
  table.optimizer = Adagrad{.learning_rate = 0.1};
  CHECK(absl::StrContains(error(strategy.CreateTable("table", table)), "adagrad"));
  // Another rate is no other optimizer.
  table.optimizer = Sgd{.learning_rate = 0.5};
  const EmbeddingTable made = Must(strategy.CreateTable("table", table));
  CHECK(strategy.LayoutLeftOver() == std::vector<std::string>{"counter"});
  // What the checkpoint lacks has shards of its own.
  const Variable fresh = Must(strategy.CreateVariable("fresh", scalar));
  for (const auto& shard : made.info().shards) {
    CHECK(shard.id() < fresh.info().shards[0].id());
  }
  CHECK(strategy.UseLayout(checkpoints.manifest()).code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("a damaged checkpoint is named and the one before is used", "[checkpoint]") {
  const DataFiles dir;
  {
    CheckpointManager checkpoints(In(dir));
    const Cluster cluster = MustStart(1, 1);
    Program program(cluster, &checkpoints);
    Must(checkpoints.Start(cluster));
    ClusterCoordinator coordinator(program.strategy);
    for (int64_t i = 0; i < 3; ++i) {
      program.Schedule(&coordinator, i);
      Must(coordinator.Join());
      Must(checkpoints.Save());
    }
  }
  const auto damage = [&](int number) {
    const std::string folder =
        absl::StrCat(dir.Path("checkpoints"), "/", checkpoint::CheckpointName(number));
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() != ".safetensors") continue;
      std::filesystem::resize_file(entry.path(), std::filesystem::file_size(entry.path()) - 1);
    }
  };
  damage(3);
  CheckpointManager checkpoints(In(dir));
  Must(checkpoints.Find());
  REQUIRE(checkpoints.found());
  CHECK(checkpoints.manifest().number == 2);
  REQUIRE(checkpoints.skipped().size() == 1);
  CHECK(absl::StrContains(checkpoints.skipped()[0].message(), "checkpoint-000003/"));
  {
    const Cluster cluster = MustStart(1, 1);
    Program program(cluster, &checkpoints);
    CHECK(program.Count() == 2);
  }
  // The program may turn one down, too.
  Must(checkpoints.Find([](const checkpoint::Manifest& m) {
    return m.number == 2 ? absl::FailedPreconditionError("not this one") : absl::OkStatus();
  }));
  CHECK(checkpoints.manifest().number == 1);
  CHECK(checkpoints.skipped().size() == 2);
  damage(2);
  damage(1);
  CHECK(checkpoints.Find().code() == absl::StatusCode::kDataLoss);
  CHECK_FALSE(checkpoints.found());
}

TEST_CASE("a disk with room for fewer checkpoints than are to be kept has the newest ones",
          "[checkpoint]") {
  const DataFiles dir;
  const TinyDisk disk(dir.Path("checkpoints"), "1m");
  if (!disk.mounted()) return;
  const Cluster cluster = MustStart(2, 1);
  CheckpointManager checkpoints(In(dir));  // it keeps ten
  ParameterServerStrategy strategy(cluster);
  const Variable large =
      Must(strategy.CreateVariable("large", {.shape = Shape{75'000}}));  // 0.3 MB
  Must(checkpoints.Start(cluster));
  for (int i = 1; i <= 8; ++i) {
    Must(strategy.Assign(large, Tensor::Zeros(DType::kF32, Shape{75'000})));
    Must(checkpoints.Save());
  }
  CHECK(cluster.Stats().checkpoints.failed == 0);
  CHECK(cluster.Stats().checkpoints.written == 8);
  const auto entries =
      Must(checkpoint::ListCheckpoints(env::NewRealFileSystem().get(), dir.Path("checkpoints")));
  REQUIRE(entries.size() >= 2);
  CHECK(entries.size() < 8);
  for (const auto& entry : entries) CHECK(entry.manifest.ok());
  CHECK(entries[0].number > entries[1].number);
  CHECK(entries[0].number >= 8);
  // Where it is the only one, it stays.
  for (size_t i = 1; i < entries.size(); ++i) std::filesystem::remove_all(entries[i].path);
  disk.Fill();
  CHECK(absl::IsResourceExhausted(checkpoints.Save()));
  CheckpointManager later(In(dir));
  Must(later.Find());
  CHECK(later.found());
}

TEST_CASE("a checkpoint that fails is told, and is not tried again for each closure",
          "[checkpoint]") {
  const DataFiles dir;
  absl::Mutex mu;
  std::vector<std::string> failed;
  ClusterOptions cluster_options;
  cluster_options.threads = 2;
  cluster_options.on_event = [&](const ClusterEvent& e) {
    absl::MutexLock lock(&mu);
    if (e.kind == ClusterEvent::Kind::kCheckpointFailed) failed.push_back(e.message);
  };
  CheckpointManager checkpoints(In(dir));
  const Cluster cluster = Must(Cluster::InProcess(1, 1, cluster_options));
  Program program(cluster, &checkpoints);
  Must(checkpoints.Start(cluster));
  // The directory goes, and nothing can be made in its place.
  std::filesystem::remove_all(dir.Path("checkpoints"));
  dir.Write("checkpoints", "a file");
  Must(program.strategy.Assign(program.counter, Tensor::Scalar<int64_t>(100)));
  ClusterCoordinator coordinator(program.strategy);
  for (int64_t i = 0; i < 50; ++i) {
    program.Schedule(&coordinator, i);
    Must(coordinator.Join());
  }
  const absl::Status saved = checkpoints.Save();
  CHECK_FALSE(saved.ok());
  CHECK(absl::StrContains(saved.message(), dir.Path("checkpoints")));
  CHECK(program.Count() == 150);
  absl::MutexLock lock(&mu);
  CAPTURE(failed);
  CHECK(failed.size() == 2);  // one for what was assigned, one by Save
  for (const std::string& message : failed) {
    CHECK(absl::StrContains(message, "not written, there is none yet: checkpoint "));
  }
}

TEST_CASE("a variable that is created when its checkpoint is gone is refused, not made anew",
          "[checkpoint]") {
  const DataFiles dir;
  VariableOptions options;
  options.shape = Shape{};
  options.dtype = DType::kI64;
  {
    CheckpointManager checkpoints(In(dir));
    const Cluster cluster = MustStart(1, 1);
    ParameterServerStrategy strategy(cluster);
    Must(checkpoints.Restore(&strategy));
    Must(strategy.CreateVariable("early", options));
    const Variable late = Must(strategy.CreateVariable("late", options));
    Must(checkpoints.Start(cluster));
    Must(strategy.Assign(late, Tensor::Scalar<int64_t>(7)));
    Must(checkpoints.Save());
  }
  CheckpointOptions dropping = In(dir);
  dropping.dropped = {"late"};
  CheckpointManager checkpoints(dropping);
  Must(checkpoints.Find());
  ClusterOptions cluster_options;
  cluster_options.min_epoch = checkpoints.min_epoch();
  const Cluster cluster = Must(Cluster::InProcess(1, 1, cluster_options));
  ParameterServerStrategy strategy(cluster);
  Must(checkpoints.Restore(&strategy));
  Must(strategy.CreateVariable("early", options));
  Must(checkpoints.Start(cluster));
  const int saved = GENERATE(1, 2);
  for (int i = 0; i < saved; ++i) Must(checkpoints.Save());
  const auto late = strategy.CreateVariable("late", options);
  if (saved == 1) {  // the one before is kept for restores
    CHECK(Must(strategy.Read(Must(late))).data<int64_t>()[0] == 7);
  } else {
    CHECK(late.status().code() == absl::StatusCode::kFailedPrecondition);
    CHECK(absl::StrContains(late.status().message(), "variable 'late'"));
  }
}

TEST_CASE("a checkpoint that is asked for while a table is made is written once it is there",
          "[checkpoint]") {
  const DataFiles dir;
  CheckpointManager checkpoints(In(dir));
  Must(checkpoints.Find());
  const Cluster cluster = MustStart(2, 1);
  Program program(cluster, &checkpoints);
  Must(checkpoints.Start(cluster));
  std::atomic<bool> over{false};
  absl::Status saved;
  int saves = 0;
  std::thread saver([&] {
    while (!over || saves == 0) {
      saved.Update(checkpoints.Save());
      ++saves;
    }
  });
  TableOptions large;
  large.dim = 16;
  large.rows = 500'000;
  large.partitioner = FixedShards(2);
  absl::Status created;
  for (int i = 0; i < 3; ++i) {
    created.Update(program.strategy.CreateTable(absl::StrCat("large", i), large).status());
  }
  over = true;
  saver.join();
  Must(created);
  Must(saved);
}

TEST_CASE("steps that end together lead to one checkpoint where one is due", "[checkpoint][sync]") {
  const DataFiles dir;
  CheckpointOptions options = In(dir);
  options.every_steps = 100;
  CheckpointManager checkpoints(options);
  Must(checkpoints.Find());
  const Cluster cluster = MustStart(2, 2);
  ParameterServerStrategy::Options of_strategy;
  of_strategy.consistency = {.mode = ConsistencyMode::kSync, .replicas = 8};
  ParameterServerStrategy strategy(cluster, of_strategy);
  VariableOptions scalar;
  scalar.optimizer = Sgd{.learning_rate = 1};
  const Variable weight = Must(strategy.CreateVariable("weight", scalar));
  const RemoteFunction step = Must(
      strategy.Define("step", [&](FunctionBuilder& g) { g.Minimize(g.Square(g.Read(weight))); }));
  ClusterCoordinator coordinator(strategy);
  Must(checkpoints.Start(cluster));
  for (int i = 0; i < 100; ++i) {
    StepOptions each;
    each.arguments_each.resize(8);
    coordinator.ScheduleStep(step, std::vector<Ticket>(8), each);
    Must(coordinator.Join());
  }
  Must(cluster.WaitUntilSettled());
  Must(checkpoints.Save());
  const int64_t written = cluster.Stats().checkpoints.written;
  CHECK(written >= 4);
  CHECK(written <= 8 + 1);  // 800 batches, and the last one
}

TEST_CASE("two jobs do not write into one directory of checkpoints", "[checkpoint]") {
  const DataFiles dir;
  CheckpointOptions options = In(dir);
  options.job = "films";
  {
    CheckpointManager first(options);
    const Cluster cluster = MustStart(1, 1);
    Program program(cluster, &first);
    Must(first.Start(cluster));
    Must(first.Save());
    CheckpointManager second(options);
    const Cluster other = MustStart(1, 1);
    Program another(other, &second);
    for (const absl::Status& refused :
         {second.Lock("host:7000", absl::ZeroDuration()), second.Start(other)}) {
      CHECK(absl::IsUnavailable(refused));
      CHECK(GetDetail(refused)->cause == ErrorCause::kClusterHeld);
      CHECK(absl::StrContains(refused.message(),
                              absl::StrCat("job 'films' (process ", getpid(), " on ")));
      CHECK(absl::StrContains(refused.message(), dir.Path("checkpoints")));
    }
    CHECK(second.Save().code() == absl::StatusCode::kFailedPrecondition);
    Must(first.Save());
  }
  CheckpointManager third(options);
  Must(third.Lock("", absl::ZeroDuration()));
  Must(third.Lock("", absl::ZeroDuration()));  // it has it
}

TEST_CASE("two strategies of a cluster go on from one checkpoint", "[checkpoint]") {
  const DataFiles dir;
  const auto make = [](ParameterServerStrategy* strategy, const char* name) {
    return Must(strategy->CreateVariable(name, {.shape = Shape{2}}));
  };
  {
    CheckpointManager checkpoints(In(dir));
    const Cluster cluster = MustStart(2, 1);
    ParameterServerStrategy first(cluster), second(cluster);
    Must(first.Assign(make(&first, "a"), Floats({1, 2})));
    Must(second.Assign(make(&second, "b"), Floats({3, 4})));
    Must(checkpoints.Start(cluster));
    Must(checkpoints.Save());
  }
  CheckpointManager checkpoints(In(dir));
  Must(checkpoints.Find());
  const Cluster cluster = MustStart(1, 1);
  ParameterServerStrategy first(cluster), second(cluster);
  Must(checkpoints.Restore(&first));
  const Variable a = make(&first, "a");
  Must(checkpoints.Restore(&second));
  CHECK(absl::IsAlreadyExists(second.CreateVariable("a", {.shape = Shape{2}}).status()));
  // One that has restored nothing would begin it anew.
  ParameterServerStrategy third(cluster);
  CHECK(absl::IsFailedPrecondition(third.CreateVariable("b", {.shape = Shape{2}}).status()));
  const Variable b = make(&second, "b");
  Must(checkpoints.Start(cluster));
  CHECK(ToVector<float>(Must(first.Read(a))) == std::vector<float>{1, 2});
  CHECK(ToVector<float>(Must(second.Read(b))) == std::vector<float>{3, 4});
  Must(checkpoints.Save());
}

TEST_CASE("strategies of a cluster do not go on from two checkpoints, though these are alike",
          "[checkpoint]") {
  const DataFiles one, two;
  for (const DataFiles* dir : {&one, &two}) {
    CheckpointManager checkpoints(In(*dir));
    const Cluster cluster = MustStart(1, 1);
    ParameterServerStrategy strategy(cluster);
    const Variable a = Must(strategy.CreateVariable("a", {.shape = Shape{2}}));
    Must(strategy.Assign(a, Floats({1, dir == &one ? 2.f : 3.f})));
    Must(checkpoints.Start(cluster));
    Must(checkpoints.Save());
  }
  CheckpointManager first(In(one)), second(In(two));
  Must(first.Find());
  Must(second.Find());
  CHECK(first.manifest().number == second.manifest().number);
  const Cluster cluster = MustStart(1, 1);
  ParameterServerStrategy of_first(cluster), of_second(cluster);
  Must(first.Restore(&of_first));
  CHECK(absl::IsFailedPrecondition(second.Restore(&of_second)));
  // Nor from one under two names.
  CHECK(absl::IsFailedPrecondition(first.Restore(&of_second, {{"b", "a"}})));
}

TEST_CASE("a directory of checkpoints whose path is not UTF-8 is refused", "[checkpoint]") {
  const DataFiles dir;
  CheckpointOptions options = In(dir);
  options.directory = dir.Path("M\xfcller");
  CheckpointManager manager(options);
  const Cluster cluster = MustStart(1, 1);
  Program program(cluster, &manager);
  for (const absl::Status& refused :
       {manager.Lock("", absl::ZeroDuration()), manager.Start(cluster)}) {
    CHECK(absl::IsInvalidArgument(refused));
    CHECK(GetDetail(refused)->cause == ErrorCause::kConfiguration);
    CHECK(absl::StrContains(refused.message(), "wanted a path in UTF-8, found "));
  }
  CHECK_FALSE(std::filesystem::exists(options.directory));
  // Where one that was written elsewhere has come, nothing is restored from it.
  CheckpointManager elsewhere(In(dir));
  Must(elsewhere.Start(cluster));
  Must(elsewhere.Save());
  std::filesystem::rename(dir.Path("checkpoints"), options.directory);
  CheckpointManager later(options);
  Must(later.Find());
  REQUIRE(later.found());
  ParameterServerStrategy strategy(MustStart(1, 1));
  CHECK(absl::IsInvalidArgument(later.Restore(&strategy)));
}

TEST_CASE("checkpoints of a cluster are started once, by one manager", "[checkpoint]") {
  const DataFiles dir;
  CheckpointManager first(In(dir)), same(In(dir));
  CheckpointOptions elsewhere = In(dir);
  elsewhere.directory = dir.Path("elsewhere");
  CheckpointManager second(elsewhere);
  const Cluster cluster = MustStart(1, 1);
  Program program(cluster, &first);
  Must(first.Start(cluster));
  for (const absl::Status& refused :
       {first.Start(cluster), same.Start(cluster), second.Start(cluster)}) {
    INFO(refused);
    CHECK(absl::IsFailedPrecondition(refused));
    CHECK(absl::StrContains(refused.message(), dir.Path("checkpoints")));
  }
  CHECK_FALSE(std::filesystem::exists(dir.Path("elsewhere")));
  CHECK(absl::IsFailedPrecondition(second.Save()));
  Must(first.Save());
  CHECK(cluster.Stats().checkpoints.written == 1);
}

TEST_CASE("a coordinator whose daemons another one may have had begins a later session than that",
          "[checkpoint]") {
  const DataFiles dir;
  const auto files = env::NewRealFileSystem();
  Must(files->MakeDirs(dir.Path("checkpoints")));
  const auto held = files->TakeLock(dir.Path("checkpoints/.lock"),
                                    R"({"pid": 1, "cluster": "host:7000", "epoch": 41})");
  Must(held.status());
  for (const auto& [cluster, epoch] : {std::pair("host:7000", 42), std::pair("host:7001", 0)}) {
    CheckpointManager checkpoints(In(dir));
    CHECK(absl::IsUnavailable(checkpoints.Lock(cluster, absl::ZeroDuration())));
    CHECK(checkpoints.min_epoch() == static_cast<uint64_t>(epoch));
  }
}

TEST_CASE("a program does not go on where another one has been since it looked", "[checkpoint]") {
  const DataFiles dir;
  CheckpointManager late(In(dir));
  Must(late.Find());
  {
    CheckpointManager first(In(dir));
    const Cluster cluster = MustStart(1, 1);
    Program program(cluster, &first);
    Must(first.Start(cluster));
    Must(first.Save());
  }
  const Cluster cluster = MustStart(1, 1);
  Program program(cluster, &late);
  const absl::Status refused = late.Start(cluster);
  CHECK(absl::IsUnavailable(refused));
  CHECK(absl::StrContains(refused.message(), "of another coordinator since this one looked"));
  Must(late.Find());
  CHECK(absl::IsFailedPrecondition(late.Start(cluster)));  // it has seen it, and has its own values
  const Cluster next = MustStart(1, 1);
  Program resumed(next, &late);
  Must(late.Start(next));
}

TEST_CASE("a directory that another coordinator took over gets no checkpoint of the old one",
          "[checkpoint]") {
  const DataFiles dir;
  CheckpointManager checkpoints(In(dir));
  const Cluster cluster = MustStart(1, 1);
  Program program(cluster, &checkpoints);
  Must(checkpoints.Start(cluster));
  Must(checkpoints.Save());
  const auto files = env::NewRealFileSystem();
  const auto taken = files->TakeLock(dir.Path("checkpoints/.lock"), "{\"pid\": 1}");
  Must(taken.status());
  const absl::Status refused = checkpoints.Save();
  CHECK_FALSE(refused.ok());
  CHECK(GetDetail(refused)->cause == ErrorCause::kStaleEpoch);  // not to be tried again
  const auto entries = Must(checkpoint::ListCheckpoints(files.get(), dir.Path("checkpoints")));
  CHECK(entries.size() == 1);
}

}  // namespace
}  // namespace coxswain
