// Comparisons of numbers and logic of bools, with NumPy's broadcasting; and Select.
#include "kernels/cuda/broadcast.h"
#include "kernels/cuda/op_list.h"

namespace coxswain::cuda {
namespace {

#define COX_COMPARISON(name, expression)     \
  struct name {                              \
    template <typename T>                    \
    COX_DEVICE static bool Apply(T a, T b) { \
      return expression;                     \
    }                                        \
  }
COX_COMPARISON(EqualOp, a == b);
COX_COMPARISON(NotEqualOp, a != b);
COX_COMPARISON(LessOp, a < b);
COX_COMPARISON(LessEqualOp, a <= b);
COX_COMPARISON(GreaterOp, a > b);
COX_COMPARISON(GreaterEqualOp, a >= b);
COX_COMPARISON(AndOp, a& b);
COX_COMPARISON(OrOp, a | b);
#undef COX_COMPARISON

template <typename F>
Status Compare(const Run& run) {
  return DispatchNumber(run.input(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    return RunBinary<F, T, bool>(run);
  });
}

struct NotOp {
  const bool* x;
  COX_DEVICE bool operator()(int64_t i) const { return !x[i]; }
};

Status RunNot(const Run& run) {
  return FillElements(run.queue(), Data<bool>(run.output(0)), Elements(run.output(0)),
                      NotOp{Data<bool>(run.input(0))});
}

template <typename T>
struct SelectOp {
  const bool* condition;
  const T *a, *b;
  COX_DEVICE T operator()(int64_t i) const { return condition[i] ? a[i] : b[i]; }
};

Status RunSelect(const Run& run) {
  return DispatchBytes(run.input(1).dtype, [&](auto zero) {
    using T = decltype(zero);
    const SelectOp<T> select{Data<bool>(run.input(0)), Data<T>(run.input(1)),
                             Data<T>(run.input(2))};
    return FillElements(run.queue(), Data<T>(run.output(0)), Elements(run.output(0)), select);
  });
}

}  // namespace

void AddCompareOps(OpTable* table) {
  table->Add("Equal", Numbers(), Compare<EqualOp>);
  table->Add("NotEqual", Numbers(), Compare<NotEqualOp>);
  table->Add("Less", Numbers(), Compare<LessOp>);
  table->Add("LessEqual", Numbers(), Compare<LessEqualOp>);
  table->Add("Greater", Numbers(), Compare<GreaterOp>);
  table->Add("GreaterEqual", Numbers(), Compare<GreaterEqualOp>);
  table->Add("LogicalAnd", {COX_BOOL}, RunBinary<AndOp, bool, bool>);
  table->Add("LogicalOr", {COX_BOOL}, RunBinary<OrOp, bool, bool>);
  table->Add("LogicalNot", {COX_BOOL}, RunNot);
  table->Add("Select", {COX_BOOL}, RunSelect);
}

}  // namespace coxswain::cuda
