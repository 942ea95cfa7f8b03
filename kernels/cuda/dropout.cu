// Dropout: the elements that the CPU keeps for the same step and seeds; see
// kernels/dropout.cc.
#include "kernels/cpu/philox_block.h"
#include "kernels/cuda/op_list.h"
#include "kernels/cuda/random_key.h"

namespace coxswain::cuda {
namespace {

// Four elements, of which a block of random numbers says which are kept.
template <typename T>
struct Keep {
  static constexpr int64_t kPerBlock = 4;
  uint64_t key;
  float rate;
  T scale;
  const T* in;
  T* out;
  int64_t n;

  COX_DEVICE void operator()(int64_t i) const {
    const kernels::PhiloxBlock drawn = kernels::Philox(key, static_cast<uint64_t>(i));
    for (int64_t k = 0; k < kPerBlock && i * kPerBlock + k < n; ++k) {
      const int64_t at = i * kPerBlock + k;
      const float unit = static_cast<float>(drawn[k] >> 8) * 0x1p-24f;  // [0, 1)
      out[at] = unit >= rate ? in[at] * scale : T{0};
    }
  }
};

Status RunDropout(double rate, uint64_t seed, const Run& run) {
  const CoxRun& info = run.info();
  const CoxTensor &x = run.input(0), &out = run.output(0);
  const uint64_t key = RandomKey(info.seed, seed, info.step);
  return DispatchFloat(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T scale = T{1} / (T{1} - static_cast<T>(rate));
    const Keep<T> keep{key,          static_cast<float>(rate), scale, Data<T>(x), Data<T>(out),
                       Elements(out)};
    return ForElements(run.queue(), CeilDiv(keep.n, Keep<T>::kPerBlock), keep);
  });
}

Status MakeDropout(const Node& node, OpFunction* op) {
  COX_CUDA_RETURN_IF_ERROR(WantFirst(node, Floats()));
  const double rate = node.Number("rate", 0.0);
  const auto seed = static_cast<uint64_t>(node.Integer("seed", 0));
  *op = [rate, seed](const Run& run) { return RunDropout(rate, seed, run); };
  return Status();
}

}  // namespace

void AddDropout(OpTable* table) { table->Add("Dropout", MakeDropout); }

}  // namespace coxswain::cuda
