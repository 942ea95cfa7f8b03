// Saving shards into files and restoring them, through the daemon.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "protos/control.pb.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/graph/builder.h"
#include "tests/testing/data_files.h"
#include "tests/testing/ps_daemon.h"
#include "tests/testing/ps_specs.h"

namespace coxswain::ps {
namespace {

using testing::ClusterOps;
using testing::Ids;
using testing::OptimizerOf;
using testing::PsDaemon;
using testing::PsPeer;
using testing::RandomTensor;
using testing::ShardOf;
using testing::SplitOf;
using testing::VariableOf;
using testing::WholeOf;

const std::vector<ShardId> kAll = {2, 3, 4, 5, 6, 7};

// A table in bf16 with a slot of one value a row.
proto::ShardSpec Narrow() {
  proto::VariableSpec spec =
      VariableOf("narrow", {20, 4}, true, OptimizerOf("rowwise_adagrad"), DType::kBF16);
  spec.mutable_initializer()->set_kind("normal");
  spec.set_rounding("stochastic");
  return WholeOf(spec, 7);
}

// A shard of a table, an f32 and an f64 variable with slots, a counter, and a shard without rows.
std::vector<proto::ShardSpec> Specs() {
  return {
      SplitOf(VariableOf("users", {41, 4}, true, OptimizerOf("adagrad")), 2, "mod", 1)[1],
      WholeOf(VariableOf("w", {3, 2}, false, OptimizerOf("adam")), 3),
      WholeOf(VariableOf("n", {}, false, {}, DType::kI64), 4),
      WholeOf(VariableOf("b", {5}, false, OptimizerOf("momentum"), DType::kF64), 5),
      SplitOf(VariableOf("few", {1, 4}, true, OptimizerOf("sgd")), 2, "div", 5)[1],
      Narrow(),
  };
}

graph::Function Step() {
  graph::GraphBuilder b("step", &ClusterOps());
  const Output ids = b.Argument("ids", DType::kI64, Shape{kUnknownDim});
  const Output rows = b.Argument("rows", DType::kF32, Shape{kUnknownDim, 4});
  const Output w = b.Argument("w", DType::kF32, Shape{3, 2});
  const Output one = b.Argument("one", DType::kI64, Shape{});
  const Output bias = b.Argument("b", DType::kF64, Shape{5});
  b.Target("ApplySparse", {ids, rows}, ShardOf(2));
  b.Target("ApplySparse", {ids, rows}, ShardOf(7));
  b.Target("ApplyDense", {w}, ShardOf(3));
  b.Target("AssignAddVariable", {one}, ShardOf(4));
  b.Target("ApplyDense", {bias}, ShardOf(5));
  b.Target("AssignAddVariable", {one}, ShardOf(4));
  auto function = b.Finish();
  INFO(function.status().ToString());
  REQUIRE(function.ok());
  return *std::move(function);
}

net::Message StepFrame(const PsDaemon& ps, ClosureId closure) {
  std::vector<double> bias;
  for (float v : testing::RandomFloats(5, closure + 2)) bias.push_back(v);
  return ps.Frame(1, closure,
                  {Ids({static_cast<int64_t>(closure % 20), 7}), RandomTensor(Shape{2, 4}, closure),
                   RandomTensor(Shape{3, 2}, closure + 1), Tensor::Scalar<int64_t>(1),
                   Tensor::FromVector(bias)});
}

// Every part of every shard.
std::vector<std::string> RowsOf(PsDaemon* ps) {
  std::vector<std::string> rows;
  const std::vector<int> parts = {3, 3, 1, 2, 2, 3};
  const auto specs = Specs();
  for (size_t i = 0; i < specs.size(); ++i) {
    for (int p = 0; p < parts[i]; ++p) {
      auto part = ps->Rows(specs[i], p);
      REQUIRE(part.ok());
      rows.push_back(*std::move(part));
    }
    CHECK_FALSE(ps->Rows(specs[i], parts[i]).ok());
  }
  return rows;
}

void SetLowWater(PsDaemon* ps, ClosureId closure) {
  proto::PingRequest ping;
  ping.set_session(ps->session());
  ping.set_low_water(closure);
  ps->coordinator->Send(cluster::EncodeControl(net::MessageType::kPing, ping));
  CHECK(ps->coordinator->Receive().type == static_cast<uint16_t>(net::MessageType::kPong));
}

std::vector<std::string> Passed(const PsDaemon& ps, const std::string& prefix) {
  std::vector<std::string> passed;
  for (const std::string& name : ps.env.fault_points) {
    if (name.rfind(prefix, 0) == 0) passed.push_back(name);
  }
  return passed;
}

TEST_CASE("a shard comes back from its file with the numbers that it gave", "[ps_recovery]") {
  const DataFiles files;
  PsDaemon first(0), second(1);
  const std::vector<proto::ShardSpec> specs = {
      WholeOf(VariableOf("n", {}, false, {}, DType::kI64), 4)};
  REQUIRE(first.Create(specs).ok());
  graph::GraphBuilder b("fetch", &ClusterOps());
  auto of = testing::ReadOf(4, Shape{});
  of["dtype"] = DType::kI64;
  b.Result("number", b.Op("FetchAddVariable", {b.Argument("one", DType::kI64, Shape{})}, of));
  auto function = b.Finish();
  INFO(function.status());
  REQUIRE(function.ok());
  REQUIRE(first.Register(1, *std::move(function)).ok());
  auto worker = first.ConnectWorker(0);
  for (ClosureId c = 1; c <= 3; ++c) {
    REQUIRE(PsDaemon::Push(worker.get(), first.Frame(1, c, {Tensor::Scalar<int64_t>(2)})).ok());
  }
  SetLowWater(&first, 2);
  const auto fetched = [&](PsDaemon* ps, const char* directory) {
    REQUIRE(env::NewRealFileSystem()->MakeDirs(files.Path(directory)).ok());
    const auto saved = ps->Save(files.Path(directory), {4});
    REQUIRE(saved.ok());
    const auto file = checkpoint::SafetensorsFile::Open(
        env::NewRealFileSystem().get(),
        absl::StrCat(files.Path(directory), "/", saved->shards(0).file()));
    REQUIRE(file.ok());
    if (ps == &first) REQUIRE(second.Restore(files.Path(directory), *saved).ok());
    return file->metadata().at("fetched");
  };
  CHECK(fetched(&first, "a") == "2:0/0=0200000000000000 3:0/0=0400000000000000");
  CHECK(fetched(&second, "b") == "2:0/0=0200000000000000 3:0/0=0400000000000000");
}

TEST_CASE("shards come back from their files bit for bit, with slots, counters and ledger",
          "[ps_recovery]") {
  const DataFiles files;
  REQUIRE(env::NewRealFileSystem()->MakeDirs(files.Path("a")).ok());
  REQUIRE(env::NewRealFileSystem()->MakeDirs(files.Path("b")).ok());
  PsDaemon first(0), second(1);
  REQUIRE(first.Create(Specs()).ok());
  REQUIRE(first.Register(1, Step()).ok());
  auto worker = first.ConnectWorker(0);
  for (ClosureId c = 1; c <= 6; ++c)
    REQUIRE(PsDaemon::Push(worker.get(), StepFrame(first, c)).ok());
  SetLowWater(&first, 4);
  const auto saved = first.Save(files.Path("a"), kAll);
  INFO(saved.status().ToString());
  REQUIRE(saved.ok());
  REQUIRE(saved->shards_size() == 6);
  CHECK(saved->seconds() >= saved->stall_seconds());
  CHECK(Passed(first, "ps.segment.") ==
        std::vector<std::string>{"ps.segment.received", "ps.segment.applied", "ps.segment.received",
                                 "ps.segment.applied", "ps.segment.received", "ps.segment.applied",
                                 "ps.segment.received", "ps.segment.applied", "ps.segment.received",
                                 "ps.segment.applied", "ps.segment.received",
                                 "ps.segment.applied"});
  CHECK(Passed(first, "ps.save.") ==
        std::vector<std::string>{"ps.save.cut", "ps.save.file", "ps.save.file", "ps.save.file",
                                 "ps.save.file", "ps.save.file", "ps.save.file"});
  for (int i = 0; i < 6; ++i) {
    const proto::SavedShard& shard = saved->shards(i);
    INFO(shard.ShortDebugString());
    CHECK(shard.shard().SerializeAsString() == Specs()[i].SerializeAsString());
    CHECK(shard.file() == absl::StrCat("shard-0000", kAll[i], ".safetensors"));
    CHECK(shard.applied() == (kAll[i] == 6 ? 0 : 6));
    CHECK(shard.rows_pushed() == (kAll[i] == 2 || kAll[i] == 7 ? 12u : 0u));
    CHECK(shard.gradient_steps() == (kAll[i] == 6 || kAll[i] == 4 ? 0 : 6));
    const std::string content =
        env::NewRealFileSystem()->Read(absl::StrCat(files.Path("a"), "/", shard.file())).value();
    CHECK(content.size() == shard.bytes());
    CHECK(checkpoint::Crc32(0, content.data(), content.size()) == shard.crc32());
    CHECK(content.find(absl::StrCat("\"variable\":\"", shard.shard().variable().name())) !=
          std::string::npos);
  }
  CHECK(saved->shards(0).ledger() == "4 4:0/0 5:0/0 6:0/0");
  CHECK(saved->shards(2).ledger() == "4 4:0/0,0/1 5:0/0,0/1 6:0/0,0/1");

  const absl::Status restored = second.Restore(files.Path("a"), *saved);
  INFO(restored.ToString());
  REQUIRE(restored.ok());
  CHECK(Passed(second, "ps.restore.done").size() == 1);
  CHECK(RowsOf(&second) == RowsOf(&first));
  const auto again = second.Save(files.Path("b"), kAll);
  REQUIRE(again.ok());
  for (int i = 0; i < 6; ++i) {
    CHECK(again->shards(i).SerializeAsString() == saved->shards(i).SerializeAsString());
  }
  // It goes on like the first: drops what it has, takes what it lacks, at the same t of Adam.
  REQUIRE(second.Register(1, Step()).ok());
  auto other = second.ConnectWorker(0);
  for (ClosureId c = 2; c <= 9; ++c) {
    REQUIRE(PsDaemon::Push(other.get(), StepFrame(second, c)).ok());
    REQUIRE(PsDaemon::Push(worker.get(), StepFrame(first, c)).ok());
  }
  CHECK(RowsOf(&second) == RowsOf(&first));
  const proto::TaskStatus status = second.Status();
  for (const auto& shard : status.shards()) {
    if (shard.shard() != 6) CHECK(shard.updates_applied() == 9);
  }
}

// A table and a dense variable whose files take several chunks, which do not end with rows.
std::vector<proto::ShardSpec> Large() {
  return {WholeOf(VariableOf("large", {100'000, 15}, true, OptimizerOf("momentum")), 1),
          WholeOf(VariableOf("long", {1'500'000}, false, OptimizerOf("sgd")), 2)};
}

graph::Function LargeStep() {
  graph::GraphBuilder b("large", &ClusterOps());
  const Output ids = b.Argument("ids", DType::kI64, Shape{kUnknownDim});
  const Output rows = b.Argument("rows", DType::kF32, Shape{kUnknownDim, 15});
  b.Target("ApplySparse", {ids, rows}, ShardOf(1));
  b.Target("ApplyDense", {b.Argument("long", DType::kF32, Shape{1'500'000})}, ShardOf(2));
  auto function = b.Finish();
  REQUIRE(function.ok());
  return *std::move(function);
}

net::Message LargeFrame(const PsDaemon& ps, ClosureId closure) {
  std::vector<int64_t> ids;  // everywhere in the table
  for (int64_t i = 0; i < 40; ++i) ids.push_back(i * 2500 + static_cast<int64_t>(closure));
  return ps.Frame(
      1, closure,
      {Ids(ids), RandomTensor(Shape{40, 15}, closure), RandomTensor(Shape{1'500'000}, closure)});
}

TEST_CASE("a save that takes long is a consistent cut, and updates go on meanwhile",
          "[ps_recovery]") {
  const DataFiles files;
  PsDaemon ps;
  REQUIRE(ps.Create(Large()).ok());
  REQUIRE(ps.Register(1, LargeStep()).ok());
  auto worker = ps.ConnectWorker(0);
  for (ClosureId c = 1; c <= 3; ++c) REQUIRE(PsDaemon::Push(worker.get(), LargeFrame(ps, c)).ok());
  REQUIRE(env::NewRealFileSystem()->MakeDirs(files.Path("still")).ok());
  REQUIRE(env::NewRealFileSystem()->MakeDirs(files.Path("moving")).ok());
  const auto still = ps.Save(files.Path("still"), {1, 2});
  REQUIRE(still.ok());

  ps.Send(PsDaemon::SaveRequest(files.Path("moving"), {1, 2}));
  int chunks = 0;
  ClosureId closure = 4;
  do {
    REQUIRE(PsDaemon::Push(worker.get(), LargeFrame(ps, closure++)).ok());
    CHECK_FALSE(ps.coordinator->HasMessage());
    ++chunks;
  } while (ps.env.step_pool.RunOne() && !ps.coordinator->HasMessage());
  CHECK(chunks == 4 + 2);  // 12.8 MB and 6 MB in chunks of at most 4 MiB
  const proto::ControlReply moving = ps.coordinator->ReceiveReply();
  REQUIRE(cluster::FromProto(moving.status()).ok());
  const auto after = ps.Save(files.Path("moving"), {1, 2});
  REQUIRE(after.ok());
  for (int i = 0; i < 2; ++i) {
    CHECK(moving.shards_saved().shards(i).SerializeAsString() ==
          still->shards(i).SerializeAsString());
    CHECK(after->shards(i).crc32() != still->shards(i).crc32());
    CHECK(after->shards(i).applied() == static_cast<int64_t>(closure) - 1);
  }
}

TEST_CASE("files that are not what was saved are refused by name, and nothing is replaced",
          "[ps_recovery]") {
  const DataFiles files;
  const auto real = env::NewRealFileSystem();
  const std::string directory = files.Path("c");
  REQUIRE(real->MakeDirs(directory).ok());
  PsDaemon ps;
  REQUIRE(ps.Create(Specs()).ok());
  REQUIRE(ps.Register(1, Step()).ok());
  auto worker = ps.ConnectWorker(0);
  REQUIRE(PsDaemon::Push(worker.get(), StepFrame(ps, 1)).ok());
  const proto::ShardsSaved saved = ps.Save(directory, kAll).value();
  REQUIRE(PsDaemon::Push(worker.get(), StepFrame(ps, 2)).ok());
  const auto before = RowsOf(&ps);
  // The error, with which nothing may have changed.
  const auto refuse = [&](const proto::ShardsSaved& from) {
    const absl::Status status = ps.Restore(directory, from);
    CHECK(RowsOf(&ps) == before);
    return status;
  };
  const auto names = [](const absl::Status& status, const std::string& text) {
    INFO(status.ToString());
    return std::string(status.message()).find(text) != std::string::npos;
  };

  for (const int i : {0, 2, 3, 4}) {
    const std::string path = absl::StrCat(directory, "/", saved.shards(i).file());
    const std::string content = real->Read(path).value();
    for (const size_t at : {size_t{0}, size_t{9}, content.size() / 2, content.size() - 1}) {
      std::string flipped = content;
      flipped[at] = static_cast<char>(flipped[at] ^ 4);
      REQUIRE(real->WriteAtomically(path, flipped).ok());
      const absl::Status status = refuse(saved);
      INFO(status.ToString());
      CHECK(status.code() == absl::StatusCode::kDataLoss);
      CHECK(names(status, path));
    }
    REQUIRE(real->WriteAtomically(path, content.substr(0, content.size() - 1)).ok());
    const absl::Status cut = refuse(saved);
    CHECK(cut.code() == absl::StatusCode::kDataLoss);
    CHECK(names(cut, path));
    REQUIRE(real->RemoveAll(path).ok());
    const absl::Status missing = refuse(saved);
    CHECK(missing.code() == absl::StatusCode::kNotFound);
    CHECK(names(missing, path));
    REQUIRE(real->WriteAtomically(path, content).ok());
  }
  const auto with = [&](int i, auto change) {
    proto::ShardsSaved changed = saved;
    change(changed.mutable_shards(i));
    const absl::Status status = refuse(changed);
    INFO(status.ToString());
    CHECK(status.code() == absl::StatusCode::kDataLoss);
    CHECK(names(status, saved.shards(i).file()));
  };
  with(0, [](auto* s) { s->set_ledger("0 1:"); });
  with(0, [](auto* s) { s->set_gradient_steps(9); });
  with(1, [](auto* s) { s->mutable_shard()->mutable_variable()->mutable_shape()->set_dims(1, 3); });
  with(1, [](auto* s) {
    *s->mutable_shard()->mutable_variable()->mutable_optimizer() = OptimizerOf("ftrl");
  });
  with(1, [](auto* s) {
    *s->mutable_shard()->mutable_variable()->mutable_optimizer() = OptimizerOf("sgd");
  });
  with(2, [](auto* s) {
    s->mutable_shard()->mutable_variable()->set_dtype(static_cast<int>(DType::kF64));
  });
  // As it was, it is taken, and replaces what is here.
  REQUIRE(ps.Restore(directory, saved).ok());
  CHECK(RowsOf(&ps) != before);
  REQUIRE(PsDaemon::Push(worker.get(), StepFrame(ps, 2)).ok());
  CHECK(RowsOf(&ps) == before);
}

TEST_CASE("a full disk is an error that names the file, and the next save works", "[ps_recovery]") {
  const DataFiles files;
  REQUIRE(env::NewRealFileSystem()->MakeDirs(files.Path("d")).ok());
  files.Write("d/foreign", "kept");
  PsDaemon ps;
  REQUIRE(ps.Create(Large()).ok());
  for (const int64_t room : {0, 4, 600, 5'000'000, 11'900'000}) {
    INFO(room);
    ps.env.disk.room = room;
    const auto full = ps.Save(files.Path("d"), {1});
    INFO(full.status().ToString());
    CHECK(full.status().code() == absl::StatusCode::kResourceExhausted);
    CHECK(std::string(full.status().message()).find("d/shard-00001.safetensors") !=
          std::string::npos);
  }
  ps.env.disk.room = int64_t{1} << 60;
  const auto missing = ps.Save(files.Path("nowhere"), {1});
  CHECK(missing.status().code() == absl::StatusCode::kNotFound);
  CHECK(std::string(missing.status().message()).find("nowhere") != std::string::npos);
  CHECK(ps.Save(files.Path("d"), {1, 9}).status().code() == absl::StatusCode::kNotFound);
  CHECK(ps.Save(files.Path("d"), {1}).ok());
  CHECK(env::NewRealFileSystem()->Read(files.Path("d/foreign")).value() == "kept");
  CHECK(ps.Save(files.Path("d"), {}).value().shards().empty());
}

TEST_CASE("one save at a time: the next request takes the place of the one before",
          "[ps_recovery]") {
  const DataFiles files;
  PsDaemon ps;
  REQUIRE(ps.Create(Large()).ok());
  for (const char* name : {"e", "f", "g"}) {
    REQUIRE(env::NewRealFileSystem()->MakeDirs(files.Path(name)).ok());
    ps.Send(PsDaemon::SaveRequest(files.Path(name), {1}));
  }
  // The second one has not begun to write; the first one ends with its chunk.
  for (const char* next : {"g", "f"}) {
    const absl::Status overtaken = ps.coordinator->ReceiveStatus();
    CHECK(overtaken.code() == absl::StatusCode::kAborted);
    CHECK(std::string(overtaken.message()).find(files.Path(next)) != std::string::npos);
    CHECK(GetDetail(overtaken)->cause == ErrorCause::kCancelled);
    ps.env.step_pool.RunAll();
  }
  const proto::ControlReply last = ps.coordinator->ReceiveReply();
  CHECK(cluster::FromProto(last.status()).ok());
  CHECK(last.shards_saved().shards_size() == 1);
}

TEST_CASE("a daemon ends while its pool drops a save and a restore", "[ps_recovery]") {
  const DataFiles files;
  REQUIRE(env::NewRealFileSystem()->MakeDirs(files.Path("e")).ok());
  PsDaemon ps;
  REQUIRE(ps.Create(Large()).ok());
  const auto saved = ps.Save(files.Path("e"), {1, 2});
  REQUIRE(saved.ok());
  ps.Send(PsDaemon::SaveRequest(files.Path("e"), {1}));
  ps.Send(PsDaemon::RestoreRequest(files.Path("e"), *saved));
  CHECK(ps.env.step_pool.DropAll() == 3);
  ps.Stop();
  CHECK(ps.coordinator->WaitClosed().code() == absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace coxswain::ps
