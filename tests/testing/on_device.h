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

// A real env and a GPU of it.
class Gpu {
 public:
  Gpu(std::unique_ptr<Env> env, std::shared_ptr<DeviceRuntime> device)
      : env_(std::move(env)), device_(std::move(device)) {}

  DeviceRuntime* device() const { return device_.get(); }
  const std::shared_ptr<DeviceRuntime>& shared() const { return device_; }
  Env* env() const { return env_.get(); }

  // Compiles and runs it. `caller` may be null when the function has no calls.
  absl::StatusOr<std::vector<Tensor>> Run(const Function& function, std::vector<Tensor> arguments,
                                          const StepInfo& step = {},
                                          PsCaller* caller = nullptr) const {
    auto compiled = CompiledFunction::Compile(function, device_);
    if (!compiled.ok()) return compiled.status();
    return Run(*compiled, std::move(arguments), step, caller);
  }

  absl::StatusOr<std::vector<Tensor>> Run(const std::shared_ptr<const CompiledFunction>& compiled,
                                          std::vector<Tensor> arguments, const StepInfo& step = {},
                                          PsCaller* caller = nullptr) const {
    RunOptions options;
    options.step = step;
    options.pool = env_->pool();
    absl::Notification over;
    absl::StatusOr<std::vector<Tensor>> found;
    CompiledFunction::RunAsync(compiled, std::move(arguments), options, caller,
                               [&](absl::StatusOr<std::vector<Tensor>> results) {
                                 found = std::move(results);
                                 over.Notify();
                               });
    over.WaitForNotification();
    return found;
  }

  // Until all is done that was enqueued on the stream that the last run has given back.
  void AwaitLastStream() const {
    std::shared_ptr<DeviceStream> stream = device()->BorrowStream().value();
    absl::Notification reached;
    if (stream->Notify([&](const absl::Status&) { reached.Notify(); }).ok()) {
      reached.WaitForNotification();
    }
    device()->ReturnStream(std::move(stream));
  }

 private:
  const std::unique_ptr<Env> env_;
  const std::shared_ptr<DeviceRuntime> device_;
};

class FakeGpu final : public Gpu {
 public:
  explicit FakeGpu(FakeDeviceOptions options = {}) : FakeGpu(NewRealEnv(2), options) {}
  FakeDevice* device() const { return static_cast<FakeDevice*>(Gpu::device()); }

 private:
  FakeGpu(std::unique_ptr<Env> env, const FakeDeviceOptions& options)
      : FakeGpu(FakeDevice::Make(env.get(), options).value(), &env) {}
  FakeGpu(std::unique_ptr<FakeDevice> device, std::unique_ptr<Env>* env)
      : Gpu(std::move(*env), std::move(device)) {}
};

}  // namespace coxswain::testing
