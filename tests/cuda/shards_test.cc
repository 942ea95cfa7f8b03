// Shards of parameter servers with their rows in the device's memory, several on each of its
// streams, beside the same on the host.
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "ps_server/shard.h"
#include "runtime/device/plugin_device.h"
#include "tests/cuda/device_run.h"
#include "tests/testing/hash_shards.h"
#include "tests/testing/ps_specs.h"
#include "tests/testing/registry.h"
#include "tests/testing/shards.h"

namespace coxswain::testing {
namespace {

using Kind = graph::Update::Kind;

struct Tables {
  std::vector<std::unique_ptr<ps::Shard>> there, here;
};

// Of widths that kernels treat differently.
constexpr int64_t kWidths[] = {1, 7, 16, 64};

Tables MakeTables(const std::vector<std::string>& optimizers, ps::RowDevices* devices) {
  Tables tables;
  ShardId id = 1;
  for (const std::string& optimizer : optimizers) {
    for (const int64_t width : kWidths) {
      proto::VariableSpec variable = VariableOf("t", {100 + 37 * static_cast<int64_t>(id), width},
                                                true, OptimizerOf(optimizer));
      variable.mutable_initializer()->set_kind("normal");
      variable.mutable_initializer()->set_seed(id);
      const proto::ShardSpec spec = WholeOf(variable, id++);
      tables.here.push_back(Make(spec));
      proto::ShardSpec on_gpu = spec;
      on_gpu.mutable_variable()->set_device(ps::kOnGpu);
      auto shard = ps::Shard::Create(on_gpu, ps::Shard::Fill::kInitialize, devices);
      INFO(shard.status().ToString());
      REQUIRE(shard.ok());
      tables.there.push_back(*std::move(shard));
    }
  }
  return tables;
}

std::vector<int64_t> IdsOf(const ps::Shard& shard, int64_t step) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 40 + step; ++i) ids.push_back((i * 17 + step * 5) % shard.rows());
  if (step % 4 == 3) ids.push_back(ids[2]);  // one comes twice
  return ids;
}

void CheckSame(const ps::Shard& a, const ps::Shard& b) {
  for (int p = 0; p <= a.optimizer().slots(); ++p) {
    INFO(a.optimizer().name() << ", width " << a.layout().row_elements() << ", part " << p);
    const Tensor x = a.ReadRows(0, a.rows(), p).value(), y = b.ReadRows(0, b.rows(), p).value();
    CHECK(std::memcmp(x.raw(), y.raw(), x.bytes()) == 0);
  }
}

ps::RowDevices::Open Only(const std::shared_ptr<device::DeviceRuntime>& gpu) {
  return [gpu] {
    return std::make_shared<const device::DeviceSet>(
        std::vector<std::shared_ptr<device::DeviceRuntime>>{gpu});
  };
}

void FailWhenLost(const absl::Status& status) { FAIL(status.ToString()); }

TEST_CASE("shards whose updates and look-ups follow each other have the bits of the host's") {
  const TestedDevice* const tested = OpenTestedDevice();
  if (tested == nullptr) return;
  std::shared_ptr<device::DeviceRuntime> gpu = device::NewPluginDevice(tested->api, 0, 0).value();
  ps::RowDevices devices(Only(gpu), 0, &ClusterOps(), FailWhenLost);
  Tables tables = MakeTables(
      {"sgd", "momentum", "adagrad", "rowwise_adagrad", "rmsprop", "lazy_adam", "adamw", "ftrl"},
      &devices);
  for (int64_t step = 0; step < 6; ++step) {
    // All look-ups, and then all updates, of which some are on the same stream one after the other.
    std::vector<Tensor> rows;
    for (const auto& shard : tables.there) {
      rows.push_back(shard->GatherOnDevice(Ids(IdsOf(*shard, step))).value());
    }
    for (size_t i = 0; i < tables.here.size(); ++i) {
      ps::Shard* const here = tables.here[i].get();
      const std::vector<int64_t> ids = IdsOf(*here, step);
      const Tensor wanted = here->Gather(Ids(ids)).value();
      const Tensor found = tables.there[i]->Gather(Ids(ids)).value();
      CHECK(std::memcmp(found.raw(), wanted.raw(), wanted.bytes()) == 0);
      const Tensor gradient = RandomTensor(wanted.shape(), static_cast<uint64_t>(step) + i);
      for (ps::Shard* const shard : {here, tables.there[i].get()}) {
        Apply(shard, UpdateOf(Kind::kSparse, shard->id(), gradient, Ids(ids)));
      }
    }
    CHECK(rows.back().device() == gpu->device());
  }
  for (size_t i = 0; i < tables.here.size(); ++i) CheckSame(*tables.there[i], *tables.here[i]);
}

TEST_CASE("shards of hash tables grow on the device, and rows come and go as on the host") {
  const TestedDevice* const tested = OpenTestedDevice();
  if (tested == nullptr) return;
  std::shared_ptr<device::DeviceRuntime> gpu = device::NewPluginDevice(tested->api, 0, 0).value();
  ps::RowDevices devices(Only(gpu), 0, &ClusterOps(), FailWhenLost);
  for (const proto::HashTableSpec& kind : KindsOfHashTables()) {
    CAPTURE(kind.ShortDebugString());
    proto::ShardSpec spec = HashShardsOf(HashTableOf("t", 64, OptimizerOf("adagrad"), kind), 1)[0];
    const auto here = Make(spec);
    spec.mutable_variable()->set_device(ps::kOnGpu);
    const auto there = ps::Shard::Create(spec, ps::Shard::Fill::kInitialize, &devices).value();
    const std::function<Tensor(const Tensor&)> moved = [&](const Tensor& gradient) {
      return Tensor(gradient.dtype(), gradient.shape(), gpu->Constant(gradient.buffer()).value());
    };
    for (uint64_t step = 0; step < 40; ++step) {
      StepOfHashTable(here.get(), step);
      StepOfHashTable(there.get(), step, step % 2 == 0 ? nullptr : moved);
    }
    for (int64_t step = 0; step < 4; ++step) {
      std::vector<int64_t> ids(static_cast<size_t>(3000 << step));
      std::iota(ids.begin(), ids.end(), 1000 * step);
      const Shape shape{static_cast<int64_t>(ids.size()), 64};
      const Tensor gradient = RandomTensor(shape, static_cast<uint64_t>(step));
      Apply(here.get(), UpdateOf(Kind::kSparse, 1, gradient, Ids(ids)));
      Apply(there.get(), UpdateOf(Kind::kSparse, 1, moved(gradient), Ids(ids)));
      const Tensor wanted = here->Gather(Ids(ids)).value(), found = there->Gather(Ids(ids)).value();
      CHECK(std::memcmp(found.raw(), wanted.raw(), wanted.bytes()) == 0);
    }
    CHECK((BytesOf(*there->Snapshot()) == BytesOf(*here->Snapshot())));
  }
}

}  // namespace
}  // namespace coxswain::testing
