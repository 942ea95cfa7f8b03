#include "runtime/data/utf8.h"

#include <cstdint>
#include <cstring>

namespace coxswain::data {

const char* FindBadUtf8(absl::string_view text) {
  constexpr uint64_t kHighBits = 0x8080808080808080u;
  const auto* p = reinterpret_cast<const unsigned char*>(text.data());
  const auto* const end = p + text.size();
  while (p < end) {
    uint64_t word = 0;
    if (end - p >= 8 && (std::memcpy(&word, p, 8), (word & kHighBits) == 0)) {
      p += 8;
      continue;
    }
    const unsigned lead = *p;
    const int more = lead < 0x80 ? 0 : lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    bool good = lead < 0x80 || (lead >= 0xc2 && lead <= 0xf4);
    good = good && end - p > more;
    for (int i = 1; good && i <= more; ++i) good = (p[i] & 0xc0) == 0x80;
    // Too long a form, a surrogate, or beyond U+10FFFF.
    if (good && more >= 2) {
      good = !(lead == 0xe0 && p[1] < 0xa0) && !(lead == 0xed && p[1] >= 0xa0) &&
             !(lead == 0xf0 && p[1] < 0x90) && !(lead == 0xf4 && p[1] >= 0x90);
    }
    if (!good) return reinterpret_cast<const char*>(p);
    p += more + 1;
  }
  return nullptr;
}

}  // namespace coxswain::data
