#include "kernels/cpu/index_check.h"

#include <algorithm>
#include <limits>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/simd.h"
#include "runtime/base/status.h"

namespace coxswain::kernels {
namespace {

template <typename Id>
absl::Status Check(const Id* ids, int64_t n, int64_t bound, absl::string_view bound_name) {
  // One pass without branches. Only when something is wrong, a second one finds it.
  using Unsigned = std::make_unsigned_t<Id>;
  Unsigned largest = 0;
  RunSimd([&]() COX_SIMD_BODY {
    Unsigned max = 0;
    for (int64_t i = 0; i < n; ++i) {
      const Unsigned id = static_cast<Unsigned>(ids[i]);  // negative ones become the largest
      max = id > max ? id : max;
    }
    largest = max;
  });
  // As Unsigned, negative ids begin beyond Id's largest value: no bound may let them in.
  const uint64_t end = std::min(static_cast<uint64_t>(bound),
                                static_cast<uint64_t>(std::numeric_limits<Id>::max()) + 1);
  if (n == 0 || static_cast<uint64_t>(largest) < end) {
    return absl::OkStatus();
  }
  int64_t at = 0;
  while (ids[at] >= 0 && static_cast<int64_t>(ids[at]) < bound) ++at;
  return absl::InvalidArgumentError(
      absl::StrCat("index ", static_cast<int64_t>(ids[at]), " at position ", at,
                   " is out of range: wanted 0 to ", bound - 1, " (", bound_name, " ", bound, ")"));
}

}  // namespace

absl::Status CheckIndices(const Tensor& ids, int64_t bound, absl::string_view bound_name) {
  return DispatchIndex(ids.dtype(), [&](auto t) {
    using Id = decltype(t);
    return Check(ids.data<Id>(), ids.num_elements(), bound, bound_name);
  });
}

absl::Status CheckOffsets(absl::Span<const int32_t> offsets, int64_t entries) {
  int32_t before = 0;
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (offsets[i] < before || offsets[i] > entries) {
      return absl::InvalidArgumentError(absl::StrCat(
          "offset ", i, ": wanted ", before, " <= offset <= ", entries, ", found ", offsets[i]));
    }
    before = offsets[i];
  }
  return absl::OkStatus();
}

}  // namespace coxswain::kernels
