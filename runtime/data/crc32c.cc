#include "runtime/data/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__) && defined(__GNUC__)
#include <nmmintrin.h>
#define COX_CRC32C_INSTRUCTION
#endif

namespace coxswain::data {
namespace {

// What a byte adds.
constexpr std::array<uint32_t, 256> kTable = [] {
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
    table[byte] = crc;
  }
  return table;
}();

uint32_t ByTable(uint32_t crc, const char* p, size_t bytes) {
  for (; bytes > 0; --bytes)
    crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(*p++)) & 255];
  return crc;
}

#ifdef COX_CRC32C_INSTRUCTION
__attribute__((target("sse4.2"))) uint32_t ByInstruction(uint32_t crc, const char* p,
                                                         size_t bytes) {
  for (; bytes >= 8; p += 8, bytes -= 8) {
    uint64_t word = 0;
    std::memcpy(&word, p, sizeof(word));
    crc = static_cast<uint32_t>(_mm_crc32_u64(crc, word));
  }
  return ByTable(crc, p, bytes);
}
#endif

}  // namespace

uint32_t Crc32c(absl::string_view bytes) {
#ifdef COX_CRC32C_INSTRUCTION
  if (__builtin_cpu_supports("sse4.2")) return ~ByInstruction(~0u, bytes.data(), bytes.size());
#endif
  return ~ByTable(~0u, bytes.data(), bytes.size());
}

}  // namespace coxswain::data
