#include "kernels/cuda/api.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/cuda/op_list.h"

struct CoxOp {
  CoxDevice* device;
  coxswain::cuda::OpFunction run;
  bool may_be_pending = false;
};

namespace coxswain::cuda {
namespace {

const OpTable& Ops() {
  static const OpTable* const table = [] {
    auto* made = new OpTable;
#define COX_ADD(file, function) function(made);
    COX_CUDA_OP_FILES(COX_ADD)
#undef COX_ADD
    return made;
  }();
  return *table;
}

int32_t CreateOp(CoxDevice* device, const CoxNode* node, CoxOp** op, CoxError* error) {
  return Guarded(error, [&] {
    auto made = std::make_unique<CoxOp>(CoxOp{device, nullptr});
    COX_CUDA_RETURN_IF_ERROR(Ops().Make(Node(*node), &made->run));
    made->may_be_pending = Ops().MayBePending(Node(*node));
    *op = made.release();
    return Status();
  });
}

void DestroyOp(CoxOp* op) { delete op; }

int32_t RunOp(CoxOp* op, CoxStream* stream, const CoxRun* run, CoxError* error) {
  return Guarded(error, [&] {
    COX_CUDA_RETURN_IF_ERROR(Use(stream->device));
    if (!op->may_be_pending) COX_CUDA_RETURN_IF_ERROR(Flush(stream));
    return op->run(Run(*run, stream));
  });
}

}  // namespace

Status Flush(CoxStream* stream) {
  if (stream->pending == nullptr) return stream->lost;
  const std::unique_ptr<PendingWork> work = std::move(stream->pending);
  struct Release {
    CoxStream* stream;
    ~Release() {
      for (void* memory : stream->released) ReleaseOn(stream, memory);
      stream->released.clear();
    }
  } const release_after{stream};
  const Status started = work->Start(stream);
  if (started.code() == COX_DEVICE_LOST) stream->lost = started;
  return started;
}

bool LayAside(CoxStream* stream, void* memory) {
  if (stream->pending == nullptr) return false;
  try {
    stream->released.push_back(memory);
    return true;
  } catch (...) {
    // An error is the device's, which the next call meets, too.
    (void)Guarded(nullptr, [&] { return Flush(stream); });
    return false;
  }
}

int32_t Answer(const Status& status, CoxError* error) {
  if (!status.ok() && error != nullptr) {
    const size_t length = std::min(status.message().size(), sizeof(error->message) - 1);
    std::memcpy(error->message, status.message().data(), length);
    error->message[length] = 0;
  }
  return status.code();
}

const CoxDeviceApi* Api() {
  static const CoxDeviceApi api = [] {
    CoxDeviceApi table = {};
    table.version = COX_DEVICE_API_VERSION;
    table.size = sizeof(CoxDeviceApi);
    FillDeviceTable(&table);
    table.create_op = CreateOp;
    table.destroy_op = DestroyOp;
    table.run_op = RunOp;
    return table;
  }();
  return &api;
}

}  // namespace coxswain::cuda
