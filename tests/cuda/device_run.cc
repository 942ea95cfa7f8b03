#include "tests/cuda/device_run.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/types/span.h"
#include "kernels/compute.h"
#include "kernels/cuda/host/emulated_api.h"
#include "runtime/base/logging.h"

namespace coxswain::testing {
namespace {

// Whoever counts on a GPU must not take tests that were left out for tests that passed.
void NoDevice(const char* why) {
  std::fprintf(stderr, "no CUDA device: %s\n", why);
  const char* required = std::getenv("COXSWAIN_REQUIRE_GPU");
  if (required != nullptr && *required != 0) std::exit(1);
}

const CoxDeviceApi* LoadPlugin(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    NoDevice(dlerror());
    return nullptr;
  }
  const auto function =
      reinterpret_cast<CoxDeviceApiFunction>(dlsym(library, COX_DEVICE_API_SYMBOL));
  COX_CHECK(function != nullptr);
  const CoxDeviceApi* api = function();
  COX_CHECK(api->version == COX_DEVICE_API_VERSION && api->size == sizeof(CoxDeviceApi));
  return api;
}

std::unique_ptr<TestedDevice> Open() {
  auto tested = std::make_unique<TestedDevice>();
  const char* path = std::getenv("COXSWAIN_CUDA_PLUGIN");
  tested->emulated = path == nullptr || *path == 0;
  tested->api = tested->emulated ? coxswain_emulated_device_api() : LoadPlugin(path);
  if (tested->api == nullptr) return nullptr;
  int32_t count = 0;
  CoxError error = {};
  if (tested->api->device_count(&count, &error) != COX_OK || count == 0 ||
      tested->api->open_device(0, &tested->device, &error) != COX_OK) {
    NoDevice(error.message);
    return nullptr;
  }
  COX_CHECK(tested->api->create_stream(tested->device, &tested->stream, &error) == COX_OK);
  return tested;
}

bool InBf16(const OpCase& op_case) {
  const auto text = op_case.attrs.find(kernels::kComputeAttr);
  return text != op_case.attrs.end() && text->second == AttrValue("bf16");
}

// f32 values as bf16 keeps them.
Tensor Rounded(const Tensor& x) {
  Tensor rounded(x.dtype(), x.shape());
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    rounded.mutable_data<float>()[i] = BFloat16::FromFloat(x.data<float>()[i]).ToFloat();
  }
  return rounded;
}

// The C form of a case's node.
class NodeOf {
 public:
  NodeOf(const OpCase& op_case, const std::vector<OutputType>& outputs, int32_t compute)
      : op_case_(op_case) {
    for (const auto& [name, value] : op_case_.attrs) Add(name, value);
    for (const Tensor& input : op_case_.inputs) {
      input_dtypes_.push_back(static_cast<int32_t>(input.dtype()));
    }
    for (const OutputType& output : outputs) {
      output_dtypes_.push_back(static_cast<int32_t>(output.dtype));
    }
    node_.op = op_case_.op.c_str();
    node_.attrs = attrs_.data();
    node_.num_attrs = static_cast<int32_t>(attrs_.size());
    node_.num_inputs = static_cast<int32_t>(input_dtypes_.size());
    node_.input_dtypes = input_dtypes_.data();
    node_.output_dtypes = output_dtypes_.data();
    node_.num_outputs = static_cast<int32_t>(output_dtypes_.size());
    node_.compute = InBf16(op_case_) ? static_cast<int32_t>(COX_COMPUTE_BF16) : compute;
  }
  NodeOf(const NodeOf&) = delete;
  NodeOf& operator=(const NodeOf&) = delete;

  const CoxNode& node() const { return node_; }

 private:
  void Add(const std::string& name, const AttrValue& value) {
    CoxAttr attr = {};
    attr.name = name.c_str();
    std::visit([&](const auto& held) { Set(held, &attr); }, value.storage());
    if (attr.kind != 0) attrs_.push_back(attr);
  }
  template <typename T>
  void Set(const T& held, CoxAttr* attr) {
    if constexpr (std::is_same_v<T, double>) {
      attr->kind = COX_ATTR_REAL;
      attr->real = held;
    } else if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, bool> ||
                         std::is_same_v<T, DType>) {
      attr->kind = COX_ATTR_INTEGER;
      attr->integer = static_cast<int64_t>(held);
    } else if constexpr (std::is_same_v<T, std::string>) {
      attr->kind = COX_ATTR_TEXT;
      attr->text = held.c_str();
    } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
      SetList(held, attr);
    } else if constexpr (std::is_same_v<T, Shape>) {
      SetList(held.dims(), attr);
    }
  }
  void SetList(absl::Span<const int64_t> list, CoxAttr* attr) {
    attr->kind = COX_ATTR_LIST;
    attr->list = list.data();
    attr->count = static_cast<int64_t>(list.size());
  }

  const OpCase& op_case_;
  std::vector<CoxAttr> attrs_;
  std::vector<int32_t> input_dtypes_, output_dtypes_;
  CoxNode node_ = {};
};

// One run. Every function of the table goes through Try, which keeps the first error.
class Runner {
 public:
  Runner(const TestedDevice& on, const DeviceRunOptions& options) : on_(on), options_(options) {}
  ~Runner() {
    for (void* memory : device_memory_) on_.api->release_on(on_.stream, memory);
    on_.api->synchronize(on_.stream, &error_);
    for (void* memory : pinned_) on_.api->free_pinned(on_.device, memory);
    if (op_ != nullptr) on_.api->destroy_op(op_);
  }

  DeviceRun Run(const OpCase& op_case, const std::vector<OutputType>& outputs) {
    const NodeOf node(op_case, outputs, options_.compute);
    if (!Try(on_.api->create_op(on_.device, &node.node(), &op_, &error_))) return run_;
    for (const Tensor& input : op_case.inputs) {
      inputs_.push_back(Place(input.dtype(), input.shape(), nullptr));
      Upload(input, inputs_.back().data);
    }
    for (const OutputType& output : outputs) {
      const bool shares = options_.in_place && !inputs_.empty() &&
                          inputs_[0].dtype == static_cast<int32_t>(output.dtype) &&
                          op_case.inputs[0].num_elements() == output.shape.num_elements();
      outputs_.push_back(Place(output.dtype, output.shape, shares ? inputs_[0].data : nullptr));
    }
    void* fault = Allocate(sizeof(CoxFault));
    if (run_.code != COX_OK) return run_;
    Try(on_.api->fill_zero(on_.stream, fault, sizeof(CoxFault), &error_));
    if (on_.emulated) coxswain_emulated_run_backwards(options_.backwards ? 1 : 0);
    Start(static_cast<CoxFault*>(fault));
    if (on_.emulated) coxswain_emulated_run_backwards(0);
    Download(fault, sizeof(CoxFault), &run_.fault);
    for (size_t i = 0; i < outputs.size(); ++i) {
      Tensor tensor(outputs[i].dtype, outputs[i].shape);
      Download(outputs_[i].data, tensor.bytes(), tensor.mutable_raw());
      run_.outputs.push_back(std::move(tensor));
    }
    return run_;
  }

 private:
  bool Try(int32_t code) {
    if (run_.code == COX_OK && code != COX_OK) {
      run_.code = code;
      run_.message = error_.message;
    }
    return code == COX_OK;
  }

  void* Allocate(size_t bytes) {
    void* memory = nullptr;
    Try(on_.api->allocate_on(on_.stream, bytes, &memory, &error_));
    if (memory != nullptr) device_memory_.push_back(memory);
    return memory;
  }

  void* Pinned(size_t bytes) {
    void* memory = nullptr;
    Try(on_.api->allocate_pinned(on_.device, bytes, &memory, &error_));
    if (memory != nullptr) pinned_.push_back(memory);
    return memory;
  }

  // A tensor in memory of its own, or in `shared`.
  CoxTensor Place(DType dtype, const Shape& shape, void* shared) {
    dims_.push_back(
        std::make_unique<std::vector<int64_t>>(shape.dims().begin(), shape.dims().end()));
    const size_t bytes = static_cast<size_t>(shape.num_elements()) * SizeOf(dtype);
    CoxTensor tensor = {};
    tensor.dims = dims_.back()->data();
    tensor.rank = shape.rank();
    tensor.dtype = static_cast<int32_t>(dtype);
    tensor.data = shared;
    if (shared != nullptr || bytes == 0) return tensor;
    const size_t shift = options_.shifted ? SizeOf(dtype) : 0;
    char* memory = static_cast<char*>(Allocate(bytes + shift));
    tensor.data = memory == nullptr ? nullptr : memory + shift;
    return tensor;
  }

  void Upload(const Tensor& tensor, void* to) {
    if (tensor.bytes() == 0 || to == nullptr) return;
    void* pinned = Pinned(tensor.bytes());
    if (pinned == nullptr) return;
    std::memcpy(pinned, tensor.raw(), tensor.bytes());
    Try(on_.api->copy_to_device(on_.stream, to, pinned, tensor.bytes(), &error_));
  }

  void Download(const void* from, size_t bytes, void* to) {
    if (bytes == 0 || run_.code != COX_OK) return;
    void* pinned = Pinned(bytes);
    if (pinned == nullptr) return;
    Try(on_.api->copy_to_host(on_.stream, pinned, from, bytes, &error_));
    if (Try(on_.api->synchronize(on_.stream, &error_))) std::memcpy(to, pinned, bytes);
  }

  void Start(CoxFault* fault) {
    CoxRun run = {};
    run.inputs = inputs_.data();
    run.outputs = outputs_.data();
    run.num_inputs = static_cast<int32_t>(inputs_.size());
    run.num_outputs = static_cast<int32_t>(outputs_.size());
    run.fault = fault;
    run.node = 17;
    run.step = options_.step.step;
    run.session = options_.step.session;
    run.closure = options_.step.closure;
    run.seed = options_.step.seed;
    Try(on_.api->run_op(op_, on_.stream, &run, &error_));
  }

  const TestedDevice& on_;
  const DeviceRunOptions options_;
  DeviceRun run_;
  CoxError error_ = {};
  CoxOp* op_ = nullptr;
  std::vector<void*> device_memory_, pinned_;
  std::vector<std::unique_ptr<std::vector<int64_t>>> dims_;
  std::vector<CoxTensor> inputs_, outputs_;
};

}  // namespace

const TestedDevice* OpenTestedDevice() {
  static const TestedDevice* const tested = Open().release();
  return tested;
}

absl::StatusOr<std::vector<Tensor>> RunOnCpu(const OpCase& op_case) {
  if (!InBf16(op_case) || op_case.inputs[0].dtype() != DType::kF32) return RunOp(op_case, AllOps());
  OpCase rounded = op_case;
  rounded.attrs.erase(kernels::kComputeAttr);
  for (int i : {0, 1}) rounded.inputs[i] = Rounded(op_case.inputs[i]);
  return RunOp(rounded, AllOps());
}

std::vector<OutputType> TypesOf(const std::vector<Tensor>& tensors) {
  std::vector<OutputType> types;
  for (const Tensor& tensor : tensors) types.push_back({tensor.dtype(), tensor.shape()});
  return types;
}

DeviceRun RunOnDevice(const TestedDevice& on, const OpCase& op_case,
                      const std::vector<OutputType>& outputs, const DeviceRunOptions& options) {
  return Runner(on, options).Run(op_case, outputs);
}

int32_t CreateOnDevice(const TestedDevice& on, const OpCase& op_case,
                       const std::vector<OutputType>& outputs) {
  const NodeOf node(op_case, outputs, COX_COMPUTE_F32);
  CoxOp* op = nullptr;
  CoxError error = {};
  const int32_t code = on.api->create_op(on.device, &node.node(), &op, &error);
  if (code == COX_OK) on.api->destroy_op(op);
  return code;
}

}  // namespace coxswain::testing
