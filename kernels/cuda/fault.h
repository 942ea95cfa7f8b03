// What a kernel says about inputs that it cannot use; see CoxFault.
#pragma once

#include "kernels/cuda/launch.h"

namespace coxswain::cuda {

// The first fault of a run stays; which is first is chance.
struct FaultSink {
  CoxFault* fault;
  int32_t node;

  COX_DEVICE void Index(int32_t input, int64_t at, int64_t value, int64_t bound) const {
    if (!AtomicClaim(&fault->kind, COX_FAULT_INDEX)) return;
    fault->node = node;
    fault->input = input;
    fault->at = at;
    fault->value = value;
    fault->bound = bound;
  }
  // `id`: of the row that has it; `number` is it.
  COX_DEVICE void NotFinite(int32_t input, int64_t at, int64_t id, double number) const {
    if (!AtomicClaim(&fault->kind, COX_FAULT_NOT_FINITE)) return;
    fault->node = node;
    fault->input = input;
    fault->at = at;
    fault->value = id;
    fault->bound = number > 0 ? 1 : number < 0 ? -1 : 0;
  }
};

// An input of indices, each of which must lie in [0, bound).
template <typename Id>
struct Indices {
  const Id* ids;
  int64_t bound;
  int32_t input;
  FaultSink faults;

  // The index at `at`, or -1 if it must not be followed: then it is reported, if `report`.
  COX_DEVICE int64_t At(int64_t at, bool report) const {
    return Checked(static_cast<int64_t>(ids[at]), at, report);
  }
  COX_DEVICE int64_t Checked(int64_t id, int64_t at, bool report) const {
    if (id >= 0 && id < bound) return id;
    if (report) faults.Index(input, at, id, bound);
    return -1;
  }
};

// The same of a type that is known when the kernel runs: for those of which there are so many that
// one for each type is too much.
struct AnyIndices {
  Indices<void> of;
  bool wide;  // i64, else i32

  COX_DEVICE int64_t At(int64_t at, bool report) const {
    const int64_t id =
        wide ? static_cast<const int64_t*>(of.ids)[at] : static_cast<const int32_t*>(of.ids)[at];
    return of.Checked(id, at, report);
  }
};

}  // namespace coxswain::cuda
