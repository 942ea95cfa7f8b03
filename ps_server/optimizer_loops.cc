#include "ps_server/optimizer_loops.h"

namespace coxswain::optimizer_internal {
namespace {

// The clones are called from this file only: GCC and Clang 14 name their entries differently.
#define COX_DEFINE_LOOP(Rule, T)                                                               \
  COX_MULTIVERSION void Clones(const Rule<T>& rule, const RowBlock& block, const int64_t* ids, \
                               int64_t n, const T* gradient) {                                 \
    const Rule<T> local = rule; /* in registers: stores to rows cannot change it */            \
    const RowBlock rows = block;                                                               \
    UpdateRowsOfType<T>(local, rows, ids, n, gradient);                                        \
  }
#define COX_DEFINE_LOOPS(Rule) \
  COX_DEFINE_LOOP(Rule, float) \
  COX_DEFINE_LOOP(Rule, double)

COX_DEFINE_LOOPS(AddRule)
COX_DEFINE_LOOPS(SgdRule)
COX_DEFINE_LOOPS(MomentumRule)
COX_DEFINE_LOOPS(AdagradRule)
COX_DEFINE_LOOPS(RowwiseAdagradRule)
COX_DEFINE_LOOPS(AdamRule)
COX_DEFINE_LOOPS(FtrlRule)
COX_DEFINE_LOOPS(FtrlPowerRule)

#define COX_DEFINE_SWEEP(T)                                                    \
  COX_MULTIVERSION void Clones(const AdamRule<T>& rule, const RowBlock& block, \
                               const Sweep<T>& sweep) {                        \
    const AdamRule<T> local = rule;                                            \
    const RowBlock rows = block;                                               \
    const Sweep<T> which = sweep;                                              \
    UpdateRowsOfType<T>(local, rows, which);                                   \
  }
COX_DEFINE_SWEEP(float)
COX_DEFINE_SWEEP(double)

}  // namespace

template <typename Rule, typename T>
void Run(const Rule& rule, const RowBlock& block, const int64_t* ids, int64_t n,
         const T* gradient) {
  Clones(rule, block, ids, n, gradient);
}

#define COX_EXPORT_LOOP(Rule, T) \
  template void Run<Rule<T>, T>(const Rule<T>&, const RowBlock&, const int64_t*, int64_t, const T*);
#define COX_EXPORT_LOOPS(Rule) \
  COX_EXPORT_LOOP(Rule, float) \
  COX_EXPORT_LOOP(Rule, double)

COX_EXPORT_LOOPS(AddRule)
COX_EXPORT_LOOPS(SgdRule)
COX_EXPORT_LOOPS(MomentumRule)
COX_EXPORT_LOOPS(AdagradRule)
COX_EXPORT_LOOPS(RowwiseAdagradRule)
COX_EXPORT_LOOPS(AdamRule)
COX_EXPORT_LOOPS(FtrlRule)
COX_EXPORT_LOOPS(FtrlPowerRule)

template <typename T>
void RunSweep(const AdamRule<T>& rule, const RowBlock& block, const Sweep<T>& sweep) {
  Clones(rule, block, sweep);
}

template void RunSweep<float>(const AdamRule<float>&, const RowBlock&, const Sweep<float>&);
template void RunSweep<double>(const AdamRule<double>&, const RowBlock&, const Sweep<double>&);

}  // namespace coxswain::optimizer_internal
