// Runs ops through the C table of runtime/device/device_api.h: that of the emulated CUDA device, or
// of the plugin that the environment's COXSWAIN_CUDA_PLUGIN names.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coxswain/tensor.h"
#include "runtime/device/device_api.h"
#include "runtime/graph/kernel.h"
#include "tests/ops/op_case.h"

namespace coxswain::testing {

// The device that the tests run on, opened once. Null when the plugin finds none: then it has said
// so, and the test has nothing to do.
struct TestedDevice {
  const CoxDeviceApi* api = nullptr;
  CoxDevice* device = nullptr;
  CoxStream* stream = nullptr;
  bool emulated = false;
};
const TestedDevice* OpenTestedDevice();

// What the CPU makes of the case. Products in bf16 are done in f32 on rounded inputs: not every CPU
// has bf16.
absl::StatusOr<std::vector<Tensor>> RunOnCpu(const OpCase& op_case);

// What an output must be.
struct OutputType {
  DType dtype = DType::kInvalid;
  Shape shape;
};
std::vector<OutputType> TypesOf(const std::vector<Tensor>& tensors);

struct DeviceRunOptions {
  graph::StepInfo step = {};
  // All tensors begin one element behind an aligned address, as a part of another tensor may.
  bool shifted = false;
  // Of the emulated device: the threads of each block run from the last to the first.
  bool backwards = false;
  // Outputs of the size of input 0 share its memory.
  bool in_place = false;
  int32_t compute = COX_COMPUTE_F32;
};

struct DeviceRun {
  int32_t code = COX_OK;  // of the first function that failed
  std::string message;
  std::vector<Tensor> outputs;
  CoxFault fault = {};
};

// Runs the case's op alone; of the case only op, inputs and attributes count.
DeviceRun RunOnDevice(const TestedDevice& on, const OpCase& op_case,
                      const std::vector<OutputType>& outputs, const DeviceRunOptions& options = {});

// The code of create_op for the case.
int32_t CreateOnDevice(const TestedDevice& on, const OpCase& op_case,
                       const std::vector<OutputType>& outputs);

}  // namespace coxswain::testing
