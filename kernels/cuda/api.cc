#include "kernels/cuda/api.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/cuda/op_list.h"

struct CoxOp {
  CoxDevice* device;
  coxswain::cuda::OpFunction run;
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
    *op = made.release();
    return Status();
  });
}

void DestroyOp(CoxOp* op) { delete op; }

int32_t RunOp(CoxOp* op, CoxStream* stream, const CoxRun* run, CoxError* error) {
  return Guarded(error, [&] {
    COX_CUDA_RETURN_IF_ERROR(Use(stream->device));
    return op->run(Run(*run, stream));
  });
}

}  // namespace

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
