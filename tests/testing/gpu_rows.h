// Rows of tables in the memory of a fake GPU, for tests.
#pragma once

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "ps_server/device_rows.h"
#include "ps_server/shard.h"
#include "tests/testing/on_device.h"
#include "tests/testing/registry.h"
#include "tests/testing/shards.h"

namespace coxswain::testing {

// A fake GPU, and shards with their rows there.
class GpuShards {
 public:
  explicit GpuShards(const device::FakeDeviceOptions& options = {})
      : gpu_(options),
        devices_([this] { return All(); }, 0, &ClusterOps(),
                 [this](const absl::Status& status) { lost_.push_back(status); }) {}

  absl::StatusOr<std::unique_ptr<ps::Shard>> Create(
      proto::ShardSpec spec, ps::Shard::Fill fill = ps::Shard::Fill::kInitialize) {
    spec.mutable_variable()->set_device(ps::kOnGpu);
    return ps::Shard::Create(spec, fill, &devices_);
  }
  std::unique_ptr<ps::Shard> Make(const proto::ShardSpec& spec) {
    auto shard = Create(spec);
    INFO(shard.status().ToString());
    REQUIRE(shard.ok());
    return *std::move(shard);
  }
  // A copy in the device's memory, complete.
  Tensor OnDevice(const Tensor& host) const {
    return Tensor(host.dtype(), host.shape(), gpu_.device()->Constant(host.buffer()).value());
  }
  // What is in the device's memory once its row streams are done.
  Tensor OnHost(const Tensor& there) const {
    for (const auto& stream : gpu_.device()->row_streams()) REQUIRE(stream->Synchronize().ok());
    Tensor host(there.dtype(), there.shape());
    const auto stream = gpu_.device()->BorrowStream().value();
    const Buffer pinned = gpu_.device()->pinned()->Allocate(there.bytes()).value();
    REQUIRE(stream->CopyToHost(pinned, there.buffer()).ok());
    REQUIRE(stream->Synchronize().ok());
    if (there.bytes() > 0) std::memcpy(host.mutable_raw(), pinned.data(), there.bytes());
    gpu_.device()->ReturnStream(stream);
    return host;
  }

  device::FakeDevice* device() const { return gpu_.device(); }
  ps::RowDevices* devices() { return &devices_; }
  const std::vector<absl::Status>& lost() const { return lost_; }

 private:
  std::shared_ptr<const device::DeviceSet> All() const {
    return std::make_shared<const device::DeviceSet>(
        std::vector<std::shared_ptr<device::DeviceRuntime>>{gpu_.shared()});
  }

  const FakeGpu gpu_;
  ps::RowDevices devices_;
  std::vector<absl::Status> lost_;
};

}  // namespace coxswain::testing
