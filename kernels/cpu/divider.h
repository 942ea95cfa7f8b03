// Division of many numbers by one that is not known before: a product instead of each division.
#pragma once

#include <cstdint>

namespace coxswain::kernels {

// Thread model: a value.
class Divider {
 public:
  // divisor >= 1.
  explicit Divider(uint64_t divisor) : divisor_(divisor), inverse_(UINT64_MAX / divisor) {}

  // x / divisor, of any x; *rest = x % divisor.
  uint64_t Divide(uint64_t x, uint64_t* rest) const {
    // inverse_ is 2^64 / divisor or less by at most 1, so this is the quotient or one less.
    uint64_t quotient = static_cast<uint64_t>((static_cast<unsigned __int128>(x) * inverse_) >> 64);
    uint64_t left = x - quotient * divisor_;
    const bool one_more = left >= divisor_;
    quotient += one_more ? 1 : 0;
    left -= one_more ? divisor_ : 0;
    *rest = left;
    return quotient;
  }

 private:
  uint64_t divisor_, inverse_;
};

}  // namespace coxswain::kernels
