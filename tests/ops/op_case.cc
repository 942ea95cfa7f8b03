#include "tests/ops/op_case.h"

#include <random>

#include "kernels/register.h"

namespace coxswain::testing {

const OpRegistry& AllOps() {
  static const OpRegistry* const registry = [] {
    auto* made = new OpRegistry;
    RegisterAllOps(made);
    return made;
  }();
  return *registry;
}

Tensor F32(Shape shape, std::vector<float> values) {
  return Tensor::FromVector(values, std::move(shape));
}
Tensor F64(Shape shape, std::vector<double> values) {
  return Tensor::FromVector(values, std::move(shape));
}
Tensor I32(Shape shape, std::vector<int32_t> values) {
  return Tensor::FromVector(values, std::move(shape));
}
Tensor I64(Shape shape, std::vector<int64_t> values) {
  return Tensor::FromVector(values, std::move(shape));
}
Tensor Bools(Shape shape, std::vector<int> values) {
  Tensor tensor(DType::kBool, std::move(shape));
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.mutable_data<bool>()[i] = values.at(static_cast<size_t>(i)) != 0;
  }
  return tensor;
}

Tensor RandomF32(Shape shape, uint64_t seed, float low, float high) {
  Tensor tensor(DType::kF32, std::move(shape));
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
    tensor.mutable_data<float>()[i] = static_cast<float>(low + unit * (high - low));
  }
  return tensor;
}

std::vector<OpCase> AllOpCases() {
  std::vector<OpCase> cases;
  AddSourceCases(&cases);
  AddElementWiseCases(&cases);
  AddArrayCases(&cases);
  AddReduceCases(&cases);
  AddIndexCases(&cases);
  AddRandomCases(&cases);
  AddMatMulCases(&cases);
  AddPairwiseDotsCases(&cases);
  AddLossCases(&cases);
  AddEmbeddingCases(&cases);
  AddWordCases(&cases);
  AddParameterCases(&cases);
  AddShardMatMulCases(&cases);
  return cases;
}

}  // namespace coxswain::testing
