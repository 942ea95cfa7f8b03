// Hashes of data: parts, shuffles, hash buckets and fingerprints depend on them. As those of
// stable_hash.h, none of these functions may ever change its values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "runtime/base/stable_hash.h"

namespace coxswain::data {

inline uint64_t HashPair(uint64_t a, uint64_t b) {
  return Mix64(Mix64(a) ^ (b * 0xd6e8feb86659fd93u));
}

// A number in [0, n) from uniform bits, without a division; n >= 1.
inline uint64_t Bounded(uint64_t bits, uint64_t n) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * n) >> 64);
}

// Bytes in any pieces; the value depends on the bytes alone, not on how they were cut.
class StreamHash {
 public:
  void Update(absl::string_view bytes);
  uint64_t Finish() const;  // of what was given so far

  // What was given so far as a few bytes, for another process to go on with. False for bytes that
  // Save did not return.
  std::string Save() const;
  bool Restore(absl::string_view saved);

 private:
  static constexpr size_t kStripe = 32;
  void Stripe(const char* p);

  uint64_t lanes_[4] = {0x243f6a8885a308d3u, 0x13198a2e03707344u, 0xa4093822299f31d0u,
                        0x082efa98ec4e6c89u};
  char pending_[kStripe] = {};
  size_t pending_size_ = 0;
  uint64_t total_ = 0;
};

uint64_t HashText(absl::string_view text);

}  // namespace coxswain::data
