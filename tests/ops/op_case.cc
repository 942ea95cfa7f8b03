#include "tests/ops/op_case.h"

#include <map>
#include <random>

#include "kernels/register.h"
#include "runtime/function/place_on_devices.h"

namespace coxswain::testing {
namespace {

// By their names. Made by the first OpCaseFile, whatever the order of the files' initialisers.
std::map<std::string, AddCasesFunction>& CaseFiles() {
  static auto* const files = new std::map<std::string, AddCasesFunction>;
  return *files;
}

}  // namespace

const graph::OpRegistry& AllOps() {
  static const graph::OpRegistry* const registry = [] {
    auto* made = new graph::OpRegistry;
    kernels::RegisterAllOps(made);
    function::RegisterCopies(made);
    return made;
  }();
  return *registry;
}

Tensor F32(Shape shape, std::vector<float> values) {
  return Tensor::FromVector(values, std::move(shape)).value();
}
Tensor F64(Shape shape, std::vector<double> values) {
  return Tensor::FromVector(values, std::move(shape)).value();
}
Tensor I32(Shape shape, std::vector<int32_t> values) {
  return Tensor::FromVector(values, std::move(shape)).value();
}
Tensor I64(Shape shape, std::vector<int64_t> values) {
  return Tensor::FromVector(values, std::move(shape)).value();
}
Tensor BF16(Shape shape, const std::vector<float>& values) {
  Tensor tensor(DType::kBF16, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) {
    tensor.mutable_data<BFloat16>()[i] = BFloat16::FromFloat(values[i]);
  }
  return tensor;
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

OpCaseFile::OpCaseFile(const char* name, AddCasesFunction add) { CaseFiles().emplace(name, add); }

std::vector<OpCase> AllOpCases() {
  std::vector<OpCase> cases;
  for (const auto& [name, add] : CaseFiles()) {
    const size_t before = cases.size();
    add(&cases);
    for (size_t i = before; i < cases.size(); ++i) cases[i].file = name;
  }
  return cases;
}

}  // namespace coxswain::testing
