// GPUs, fake ones above all, and functions run on them, for tests.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "runtime/device/fake_device.h"
#include "runtime/env/env.h"
#include "runtime/function/executor.h"

namespace coxswain::testing {

// Runs it with the threads of `env`, to its end. `caller` may be null when the function has no
// calls.
inline absl::StatusOr<std::vector<Tensor>> RunToTheEnd(
    env::Env* env, const std::shared_ptr<const function::CompiledFunction>& compiled,
    std::vector<Tensor> arguments, const graph::StepInfo& step = {},
    function::PsCaller* caller = nullptr) {
  function::RunOptions options;
  options.step = step;
  options.pool = env->pool();
  absl::Notification over;
  absl::StatusOr<std::vector<Tensor>> found;
  function::CompiledFunction::RunAsync(compiled, std::move(arguments), options, caller,
                                       [&](absl::StatusOr<std::vector<Tensor>> results) {
                                         found = std::move(results);
                                         over.Notify();
                                       });
  over.WaitForNotification();
  return found;
}

// Until all is done that was enqueued on the stream that the device's last run has given back.
inline void AwaitLastStream(device::DeviceRuntime* device) {
  std::shared_ptr<device::DeviceStream> stream = device->BorrowStream().value();
  absl::Notification reached;
  if (stream->Notify([&](const absl::Status&) { reached.Notify(); }).ok()) {
    reached.WaitForNotification();
  }
  device->ReturnStream(std::move(stream));
}

// A real env and a GPU of it.
class Gpu {
 public:
  Gpu(std::unique_ptr<env::Env> env, std::shared_ptr<device::DeviceRuntime> device)
      : env_(std::move(env)), device_(std::move(device)) {}

  device::DeviceRuntime* device() const { return device_.get(); }
  const std::shared_ptr<device::DeviceRuntime>& shared() const { return device_; }
  env::Env* env() const { return env_.get(); }

  // Compiles and runs it.
  absl::StatusOr<std::vector<Tensor>> Run(const graph::Function& function,
                                          std::vector<Tensor> arguments,
                                          const graph::StepInfo& step = {},
                                          function::PsCaller* caller = nullptr) const {
    auto compiled = function::CompiledFunction::Compile(function, {device_});
    if (!compiled.ok()) return compiled.status();
    return Run(*compiled, std::move(arguments), step, caller);
  }

  absl::StatusOr<std::vector<Tensor>> Run(
      const std::shared_ptr<const function::CompiledFunction>& compiled,
      std::vector<Tensor> arguments, const graph::StepInfo& step = {},
      function::PsCaller* caller = nullptr) const {
    return RunToTheEnd(env_.get(), compiled, std::move(arguments), step, caller);
  }

 private:
  const std::unique_ptr<env::Env> env_;
  const std::shared_ptr<device::DeviceRuntime> device_;
};

class FakeGpu final : public Gpu {
 public:
  explicit FakeGpu(device::FakeDeviceOptions options = {}) : FakeGpu(env::NewRealEnv(2), options) {}
  device::FakeDevice* device() const { return static_cast<device::FakeDevice*>(Gpu::device()); }

 private:
  FakeGpu(std::unique_ptr<env::Env> env, const device::FakeDeviceOptions& options)
      : FakeGpu(device::FakeDevice::Make(env.get(), options).value(), &env) {}
  FakeGpu(std::unique_ptr<device::FakeDevice> device, std::unique_ptr<env::Env>* env)
      : Gpu(std::move(*env), std::move(device)) {}
};

// Several fake GPUs of one env, with the same options but for number and seed.
class FakeGpus {
 public:
  explicit FakeGpus(int count, device::FakeDeviceOptions options = {}) {
    for (options.index = 0; options.index < count; ++options.index, ++options.seed) {
      devices_.push_back(device::FakeDevice::Make(env_.get(), options).value());
    }
  }

  device::FakeDevice* device(int i) const {
    return static_cast<device::FakeDevice*>(devices_[static_cast<size_t>(i)].get());
  }
  const function::CompiledFunction::Devices& all() const { return devices_; }
  env::Env* env() const { return env_.get(); }

  absl::StatusOr<std::vector<Tensor>> Run(const graph::Function& function,
                                          std::vector<Tensor> arguments,
                                          function::PsCaller* caller = nullptr) const {
    auto compiled = function::CompiledFunction::Compile(function, devices_);
    if (!compiled.ok()) return compiled.status();
    return RunToTheEnd(env_.get(), *compiled, std::move(arguments), {}, caller);
  }

 private:
  const std::unique_ptr<env::Env> env_ = env::NewRealEnv(2);
  function::CompiledFunction::Devices devices_;
};

}  // namespace coxswain::testing
