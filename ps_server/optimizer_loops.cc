#include "ps_server/optimizer_loops.h"

#include "kernels/optimizers/optimizer_list.h"
#include "ps_server/optimizer_rows.h"

namespace coxswain::ps::optimizer_internal {
namespace {

// The clones are called from this file only: GCC and Clang 14 name their entries differently. The
// optimizer is there to tell apart those that share a rule. The rule is copied into registers:
// stores to rows cannot change it.
#define COX_DEFINE_LOOP(O, T)                                                                   \
  COX_MULTIVERSION int64_t Clones(const O*, const O::Rule<T>& rule, const RowBlock& block,      \
                                  const int64_t* ids, int64_t n, const T* gradient) {           \
    const O::Rule<T> local = rule;                                                              \
    const RowBlock rows = block;                                                                \
    return UpdateRowsByRule<T>(local, rows, ids, n, gradient);                                  \
  }                                                                                             \
  COX_MULTIVERSION int64_t SweepClones(const O*, const O::Rule<T>& rule, const RowBlock& block, \
                                       const Sweep<T>& sweep) {                                 \
    return SweepRows<O, T>(rule, block, sweep);                                                 \
  }
#define COX_DEFINE_LOOPS(O) \
  COX_DEFINE_LOOP(O, float) \
  COX_DEFINE_LOOP(O, double)

template <typename O, typename T, typename Rule>
COX_ALWAYS_INLINE int64_t SweepRows(const Rule& rule, const RowBlock& block,
                                    const Sweep<T>& sweep) {
  if constexpr (kMovesAllRows<O>) {
    const Rule local = rule;
    const RowBlock rows = block;
    const Sweep<T> which = sweep;
    return UpdateRowsByRule<T>(local, rows, which);
  } else {
    return 0;
  }
}

COX_OPTIMIZERS(COX_DEFINE_LOOPS)

#define COX_DEFINE_ADD(T)                                                               \
  COX_MULTIVERSION void AddClones(const RowBlock& block, const int64_t* ids, int64_t n, \
                                  const T* values) {                                    \
    const RowBlock rows = block;                                                        \
    UpdateRowsOfType<T>(AddRule<T>{}, rows, ids, n, values);                            \
  }
COX_DEFINE_ADD(float)
COX_DEFINE_ADD(double)

}  // namespace

template <typename O, typename T>
int64_t RunRows(const O& optimizer, const kernels::OptimizerStep& step, const RowBlock& block,
                const int64_t* ids, int64_t n, const T* gradient) {
  return Clones(&optimizer, optimizer.template RuleOf<T>(step), block, ids, n, gradient);
}

template <typename O, typename T>
int64_t RunSweep(const O& optimizer, const kernels::OptimizerStep& step, const RowBlock& block,
                 const Sweep<T>& sweep) {
  return SweepClones(&optimizer, optimizer.template RuleOf<T>(step), block, sweep);
}

template <typename T>
void RunAdd(const RowBlock& block, const int64_t* ids, int64_t n, const T* values) {
  AddClones(block, ids, n, values);
}

#define COX_EXPORT_LOOP(O, T)                                                               \
  template int64_t RunRows<O, T>(const O&, const kernels::OptimizerStep&, const RowBlock&,  \
                                 const int64_t*, int64_t, const T*);                        \
  template int64_t RunSweep<O, T>(const O&, const kernels::OptimizerStep&, const RowBlock&, \
                                  const Sweep<T>&);
#define COX_EXPORT_LOOPS(O) \
  COX_EXPORT_LOOP(O, float) \
  COX_EXPORT_LOOP(O, double)

COX_OPTIMIZERS(COX_EXPORT_LOOPS)
template void RunAdd<float>(const RowBlock&, const int64_t*, int64_t, const float*);
template void RunAdd<double>(const RowBlock&, const int64_t*, int64_t, const double*);

}  // namespace coxswain::ps::optimizer_internal
