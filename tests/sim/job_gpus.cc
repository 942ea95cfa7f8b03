// The GPUs of a job's workers and PS, fake ones, and which tables are in their memory.
#include <memory>
#include <utility>
#include <vector>

#include "ps_server/device_rows.h"
#include "runtime/device/fake_device.h"
#include "tests/sim/job.h"
#include "tests/sim/sim_env.h"

namespace coxswain::sim {
namespace {

// What its streams were given is done when the process is dead, too.
void DrainAtTheEnd(env::Env* env, const std::shared_ptr<const device::DeviceSet>& devices) {
  static_cast<SimEnv*>(env)->AddDrain([weak = std::weak_ptr<const device::DeviceSet>(devices)] {
    const auto devices = weak.lock();
    bool any = false;
    for (int g = 0; devices != nullptr && g < devices->size(); ++g) {
      any = static_cast<device::FakeDevice*>(devices->device(g).get())->Drain() || any;
    }
    return any;
  });
}

device::FakeDeviceOptions GpuOf(int index, uint64_t seed) {
  device::FakeDeviceOptions gpu;
  gpu.index = index;
  gpu.memory_bytes = size_t{1} << 26;
  gpu.seed = seed;
  gpu.max_delay = absl::Milliseconds(2);
  return gpu;
}

std::shared_ptr<const device::DeviceSet> MakeGpu(env::Env* env,
                                                 const device::FakeDeviceOptions& gpu) {
  std::vector<std::shared_ptr<device::DeviceRuntime>> gpus;
  gpus.push_back(device::FakeDevice::Make(env, gpu).value());
  const auto devices = std::make_shared<const device::DeviceSet>(std::move(gpus));
  DrainAtTheEnd(env, devices);
  return devices;
}

}  // namespace

// As coxswain-worker and coxswain-ps do. It is told in the middle of what the task does.
std::function<void(absl::Status)> Job::KillsWithGpu(const Place& place,
                                                    const std::vector<int>* nodes, int task) {
  return [this, nodes, task, life = place.life](const absl::Status&) {
    if (!life->alive) return;
    ++totals.gpus_lost;
    site_->Kill((*nodes)[static_cast<size_t>(task)], Death::kProcess, absl::Milliseconds(500));
  };
}

void Job::AddGpuForTables(const Place& place, int ps, cluster::DaemonOptions* daemon) {
  if (!options_.gpu_tables) return;
  Random& random = place.world->random();
  device::FakeDeviceOptions gpu = GpuOf(0, random.Next());
  if (random.Chance(options_.gpu_breaks)) {
    gpu.break_after_ops = 1 + static_cast<int64_t>(random.Below(400));
  }
  if (ps == 0 && options_.ps > 1 && gpus_for_tables_++ > 0 && random.Chance(options_.small_gpus)) {
    gpu.memory_bytes = size_t{1} << random.Between(8, 14);
    // Where the others are full, too, nothing goes on before it is another machine's turn.
    place.world->Schedule(absl::Seconds(40), place.life, [this] {
      site_->Kill(ps_nodes_[0], Death::kProcess, absl::Milliseconds(500));
    });
  }
  daemon->open_devices = [env = place.env, gpu] { return MakeGpu(env, gpu); };
  daemon->device_lost = KillsWithGpu(place, &ps_nodes_, ps);
}

void Job::PutOnGpus(std::vector<proto::ShardSpec>* shards) {
  for (proto::ShardSpec& shard : *shards) {
    proto::VariableSpec* const variable = shard.mutable_variable();
    const bool can_be = options_.gpu_tables && variable->table() &&
                        variable->dtype() == static_cast<int32_t>(DType::kF32) &&
                        variable->optimizer().kind() != "adam" &&
                        variable->optimizer().ema_decay() == 0 &&
                        variable->optimizer().delay_compensation() == 0;
    if (!can_be) continue;
    variable->set_device(ps::kOnGpu);
    ++totals.gpu_shards;
  }
}

void Job::AddGpus(const Place& place, int worker, cluster::DaemonOptions* daemon) {
  Random& random = place.world->random();
  std::vector<std::shared_ptr<device::DeviceRuntime>> gpus;
  for (int g = 0; g < options_.gpus; ++g) {
    device::FakeDeviceOptions gpu = GpuOf(g, random.Next());
    if (random.Chance(options_.gpu_breaks)) {
      gpu.break_after_ops = 1 + static_cast<int64_t>(random.Below(200));
    }
    gpus.push_back(device::FakeDevice::Make(place.env, gpu).value());
  }
  if (gpus.empty()) return;
  const auto devices = std::make_shared<const device::DeviceSet>(std::move(gpus));
  daemon->devices = devices;
  DrainAtTheEnd(place.env, devices);
  daemon->device_lost = KillsWithGpu(place, &worker_nodes_, worker);
}

}  // namespace coxswain::sim
