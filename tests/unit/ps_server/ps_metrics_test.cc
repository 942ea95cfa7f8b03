// What a parameter server tells Prometheus.
#include "ps_server/ps_metrics.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/graph/builder.h"
#include "tests/testing/data_files.h"
#include "tests/testing/families.h"
#include "tests/testing/ps_daemon.h"
#include "tests/testing/ps_specs.h"

namespace coxswain::ps {
namespace {

using testing::ClusterOps;
using testing::FindFamily;
using testing::PsDaemon;
using testing::PsPeer;
using testing::ShardOf;
using testing::ValueOf;
using testing::VariableOf;
using testing::WholeOf;

constexpr char kApplied[] = "coxswain_ps_updates_applied_total";

proto::ShardSpec Counter(ShardId id) {
  return WholeOf(VariableOf(absl::StrCat("n", id), {2}, false, {}, DType::kI64), id);
}

graph::Function AddOne(ShardId shard) {
  graph::GraphBuilder b("f", &ClusterOps());
  b.Target("AssignAddVariable", {b.Argument("one", DType::kI64, Shape{2})}, ShardOf(shard));
  auto function = b.Finish();
  REQUIRE(function.ok());
  return *std::move(function);
}

metrics::Families Collect(PsDaemon* ps) { return ps->service()->CollectMetrics(absl::Seconds(60)); }

void Push(PsDaemon* ps, PsPeer* worker, ClosureId closure) {
  const Tensor ones = Tensor::FromVector<int64_t>({1, 1});
  REQUIRE(PsDaemon::Push(worker, ps->Frame(1, closure, {ones})).ok());
}

}  // namespace

TEST_CASE("a parameter server tells of its rows, updates and coordinator", "[ps_metrics]") {
  PsDaemon ps(3, 2);
  CHECK(ValueOf(Collect(&ps), "coxswain_ps_session_held") == 1);
  REQUIRE(ps.Create({Counter(1), Counter(2)}).ok());
  REQUIRE(ps.Register(1, AddOne(1)).ok());
  auto worker = ps.ConnectWorker(0);
  for (const ClosureId closure : {1, 2, 2, 3}) Push(&ps, worker.get(), closure);
  const metrics::Families families = Collect(&ps);
  const metrics::Family* const info = FindFamily(families, "coxswain_ps_info");
  REQUIRE(info != nullptr);
  CHECK(info->samples[0].labels[1].value == "3");
  CHECK(ValueOf(families, "coxswain_ps_shards") == 2);
  CHECK(ValueOf(families, "coxswain_ps_rows", "n1") == 2);
  CHECK(ValueOf(families, "coxswain_ps_bytes", "n2") >= 16);
  CHECK(ValueOf(families, kApplied) == 3);
  CHECK(ValueOf(families, "coxswain_ps_updates_duplicate_total") == 1);
  CHECK(ValueOf(families, "coxswain_ps_answered_frames_total") == 4);
  CHECK(ValueOf(families, "coxswain_ps_received_bytes_total") > 0);
  CHECK(ValueOf(families, "coxswain_ps_saving") == 0);
}

TEST_CASE("a parameter server's counters never go back, whatever becomes of its shards",
          "[ps_metrics]") {
  const DataFiles files;
  PsDaemon ps;
  REQUIRE(ps.Create({Counter(1)}).ok());
  REQUIRE(ps.Register(1, AddOne(1)).ok());
  {
    auto worker = ps.ConnectWorker(0);
    Push(&ps, worker.get(), 1);
    REQUIRE(env::NewRealFileSystem()->MakeDirs(files.Path("a")).ok());
    const auto saved = ps.Save(files.Path("a"), {1});
    REQUIRE(saved.ok());
    for (const ClosureId closure : {2, 3, 3}) Push(&ps, worker.get(), closure);
    CHECK(ValueOf(Collect(&ps), kApplied) == 3);
    REQUIRE(ps.Setup(2, {}).ok());  // the shard goes
    CHECK(ValueOf(Collect(&ps), kApplied) == 3);
    REQUIRE(ps.Restore(files.Path("a"), *saved).ok());  // and comes back as it was after one update
    CHECK(ps.Status().shards(0).updates_applied() == 1);
    CHECK(ValueOf(Collect(&ps), kApplied) == 3);
  }
  REQUIRE(ps.Register(1, AddOne(1)).ok());
  auto worker = ps.ConnectWorker(2);
  Push(&ps, worker.get(), 2);
  CHECK(ValueOf(Collect(&ps), kApplied) == 4);
  CHECK(ValueOf(Collect(&ps), "coxswain_ps_updates_duplicate_total") == 1);
  ps.EndSession();
  const metrics::Families after = Collect(&ps);
  CHECK(ValueOf(after, kApplied) == 4);
  CHECK(ValueOf(after, "coxswain_ps_shards") == 0);
  CHECK(ValueOf(after, "coxswain_ps_session_held") == 0);
}

TEST_CASE("a parameter server of many variables tells of the largest, and of the others together",
          "[ps_metrics]") {
  proto::TaskStatus status;
  const int variables = static_cast<int>(kMostVariables) + 10;
  for (int v = 0; v < variables; ++v) {
    for (int shard = 0; shard < 2; ++shard) {
      proto::ShardStatus* const one = status.add_shards();
      one->set_variable(absl::StrCat("v", v));
      one->set_rows(v + 1);
      one->set_bytes(10 * (v + 1));
    }
  }
  const metrics::Families families = PsFamilies("coxswain_ps", status, {}, false);
  CHECK(FindFamily(families, "coxswain_ps_rows")->samples.size() == kMostVariables + 1);
  CHECK(ValueOf(families, "coxswain_ps_rows", absl::StrCat("v", variables - 1)) == 2 * variables);
  CHECK(ValueOf(families, "coxswain_ps_rows", std::string(kOtherVariables)) == 2 * 55);
  CHECK(ValueOf(families, "coxswain_ps_bytes", std::string(kOtherVariables)) == 20 * 55);
}

TEST_CASE("how late gradients were is a histogram whose buckets hold those before them",
          "[ps_metrics]") {
  WorkDone done;
  for (const int64_t late : {0, 0, 1, 2, 3, 3, 1 << 20}) done.staleness.Add(late);
  const metrics::Families families = PsFamilies("coxswain_ps", {}, done, true);
  const metrics::Family* const late =
      FindFamily(families, "coxswain_ps_gradient_staleness_updates");
  REQUIRE(late != nullptr);
  const metrics::Sample& sample = late->samples.at(0);
  CHECK(sample.count == 7);
  CHECK(sample.value == 9 + (1 << 20));
  REQUIRE(sample.buckets.size() == 15);
  CHECK(sample.buckets[0].most == 0);
  CHECK(sample.buckets[0].until_it == 2);
  CHECK(sample.buckets[1].until_it == 3);
  CHECK(sample.buckets[2].most == 3);
  CHECK(sample.buckets[2].until_it == 6);
  CHECK(sample.buckets[14].most == 16383);
  CHECK(sample.buckets[14].until_it == 6);
  CHECK(ValueOf(families, "coxswain_ps_saving") == 1);
}

}  // namespace coxswain::ps
