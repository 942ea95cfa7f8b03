// AddN: the sum of any number of inputs of one shape. f32, f64.
#include "kernels/cuda/op_list.h"

namespace coxswain::cuda {
namespace {

constexpr int kMostTerms = 32;  // of one launch; their pointers are arguments of the kernel

template <typename T>
struct SumOfTerms {
  const T* terms[kMostTerms];
  int count;

  COX_DEVICE T operator()(int64_t i) const {
    T sum = terms[0][i];
    for (int k = 1; k < count; ++k) sum += terms[k][i];
    return sum;
  }
};

// More than kMostTerms are summed in several launches, in which the sum so far is the first term.
template <typename T>
Status Sum(const Run& run) {
  T* out = Data<T>(run.output(0));
  int next = 0;
  while (next < run.num_inputs()) {
    SumOfTerms<T> sum{{}, 0};
    if (next > 0) sum.terms[sum.count++] = out;
    while (next < run.num_inputs() && sum.count < kMostTerms) {
      sum.terms[sum.count++] = Data<T>(run.input(next++));
    }
    COX_CUDA_RETURN_IF_ERROR(FillElements(run.queue(), out, Elements(run.output(0)), sum));
  }
  return Status();
}

Status RunAddN(const Run& run) {
  return DispatchFloat(run.input(0).dtype, [&](auto zero) { return Sum<decltype(zero)>(run); });
}

}  // namespace

void AddAddN(OpTable* table) { table->Add("AddN", Floats(), RunAddN); }

}  // namespace coxswain::cuda
