// Unique(ids [n], i32 or i64) -> values [u], the different ids in the order of their first
// appearance; inverse i32 [n], the place of each id in `values`: values[inverse[i]] == ids[i]. No
// derivative.
//
// Open addressing in a table that a thread keeps between calls. A slot carries the number of the
// call that filled it, so that nothing has to be cleared; slots are asked for some ids ahead.
#include <algorithm>
#include <limits>

#include "kernels/op_util.h"
#include "kernels/register_list.h"

namespace coxswain {
namespace {

struct Slot {
  int64_t id = 0;
  uint32_t call = 0;  // 0: never filled
  int32_t place = 0;
};

class UniqueTable {
 public:
  // Ready for n ids; at most half of the slots will be used.
  void Begin(int64_t n) {
    int bits = 6;
    while ((int64_t{1} << bits) < 2 * n) ++bits;
    // A table that one large call left behind is given back.
    if (bits > bits_ || bits + 6 < bits_) {
      slots_.assign(size_t{1} << bits, Slot{});
      slots_.shrink_to_fit();
      bits_ = bits;
      call_ = 0;
    }
    if (++call_ == 0) {  // the count came round: old marks would look new
      std::fill(slots_.begin(), slots_.end(), Slot{});
      call_ = 1;
    }
  }

  void Prefetch(int64_t id) const { __builtin_prefetch(&slots_[Home(id)], 1); }

  // The place of `id`; a new id gets `next`.
  int32_t Place(int64_t id, int32_t next) {
    const size_t mask = slots_.size() - 1;
    for (size_t at = Home(id);; at = (at + 1) & mask) {
      Slot& slot = slots_[at];
      if (slot.call != call_) {
        slot = {id, call_, next};
        return next;
      }
      if (slot.id == id) return slot.place;
    }
  }

 private:
  size_t Home(int64_t id) const {
    return static_cast<size_t>((static_cast<uint64_t>(id) * 0x9e3779b97f4a7c15u) >> (64 - bits_));
  }

  std::vector<Slot> slots_;
  int bits_ = 0;
  uint32_t call_ = 0;
};

template <typename Id>
int64_t FindUnique(const Id* ids, int64_t n, Id* values, int32_t* inverse) {
  static thread_local UniqueTable table;
  constexpr int64_t kAhead = 16;
  table.Begin(n);
  int32_t count = 0;
  for (int64_t i = 0; i < std::min(n, kAhead); ++i) table.Prefetch(ids[i]);
  for (int64_t i = 0; i < n; ++i) {
    if (i + kAhead < n) table.Prefetch(ids[i + kAhead]);
    const int32_t place = table.Place(ids[i], count);
    inverse[i] = place;
    values[place] = ids[i];  // the same value again when it is not new
    count += place == count;
  }
  return count;
}

absl::Status Infer(InferenceContext* context) {
  RETURN_IF_ERROR(context->WantDType(0, {DType::kI32, DType::kI64}));
  RETURN_IF_ERROR(context->WantRank(0, 1));
  context->AddOutput(context->dtype(0), Shape{kUnknownDim});
  context->AddOutput(DType::kI32, context->shape(0));
  return absl::OkStatus();
}

absl::Status Compute(KernelContext* context) {
  const Tensor& ids = context->input(0);
  RETURN_IF_ERROR(WantInput(*context, 0, ids.dtype(), 1));
  const int64_t n = ids.num_elements();
  if (n > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("wanted fewer than 2^31 ids, found ", n));
  }
  Tensor inverse(DType::kI32, ids.shape());
  Tensor values(ids.dtype(), ids.shape());
  int64_t count = 0;
  RETURN_IF_ERROR(DispatchIndex(ids.dtype(), [&](auto t) {
    using Id = decltype(t);
    count =
        FindUnique(ids.data<Id>(), n, values.mutable_data<Id>(), inverse.mutable_data<int32_t>());
    return absl::OkStatus();
  }));
  context->set_output(0, values.SliceRows(0, count));
  context->set_output(1, std::move(inverse));
  return absl::OkStatus();
}

}  // namespace

void RegisterUnique(OpRegistry* registry) {
  registry->Register({.name = "Unique",
                      .min_inputs = 1,
                      .max_inputs = 1,
                      .not_differentiable = true,
                      .infer = Infer});
  registry->RegisterKernel("Unique", DeviceType::kCpu, StatelessKernel(Compute));
}

}  // namespace coxswain
