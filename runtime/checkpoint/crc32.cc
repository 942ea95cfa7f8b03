#include "runtime/checkpoint/crc32.h"

#include <zlib.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace coxswain::checkpoint {
namespace {

uint32_t ByZlib(uint32_t crc, const unsigned char* data, size_t bytes) {
  return static_cast<uint32_t>(crc32_z(crc, data, bytes));
}

#if defined(__x86_64__)

constexpr size_t kFewest = 256;               // bytes that are worth it
constexpr uint64_t kPolynomial = 0xedb88320;  // without x^32, the lowest bit is x^31's coefficient

// x^n modulo the polynomial, in the same order of bits, one place up: a product of two numbers in
// this order comes out one place down.
constexpr uint64_t Power(int n) {
  uint64_t power = uint64_t{1} << 31;  // 1
  for (int i = 0; i < n; ++i) power = (power >> 1) ^ ((power & 1) != 0 ? kPolynomial : 0);
  return power << 1;
}

// `of` times x^(8 * distance), modulo the polynomial, plus `next`: its two halves are multiplied by
// what their bits are then worth.
__attribute__((target("pclmul,sse4.1"))) inline __m128i Fold(__m128i of, __m128i powers,
                                                             __m128i next) {
  const __m128i low = _mm_clmulepi64_si128(of, powers, 0x00);
  const __m128i high = _mm_clmulepi64_si128(of, powers, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

__attribute__((target("pclmul,sse4.1"))) inline __m128i Powers(uint64_t low, uint64_t high) {
  return _mm_set_epi64x(static_cast<int64_t>(high), static_cast<int64_t>(low));
}

// 64 bytes at a time in four registers, then in one; zlib divides what is left.
__attribute__((target("pclmul,sse4.1"))) uint32_t ByFolding(uint32_t crc, const unsigned char* data,
                                                            size_t bytes) {
  constexpr uint64_t kFour[] = {Power(4 * 128 + 32), Power(4 * 128 - 32)};
  constexpr uint64_t kOne[] = {Power(128 + 32), Power(128 - 32)};
  const auto load = [](const unsigned char* from) __attribute__((target("pclmul,sse4.1"))) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  };
  __m128i a = load(data), b = load(data + 16), c = load(data + 32), d = load(data + 48);
  // The first 32 bits are those that the checksum so far changes.
  a = _mm_xor_si128(a, _mm_cvtsi32_si128(static_cast<int>(~crc)));
  data += 64;
  bytes -= 64;
  const __m128i four = Powers(kFour[0], kFour[1]);
  for (; bytes >= 64; data += 64, bytes -= 64) {
    a = Fold(a, four, load(data));
    b = Fold(b, four, load(data + 16));
    c = Fold(c, four, load(data + 32));
    d = Fold(d, four, load(data + 48));
  }
  const __m128i one = Powers(kOne[0], kOne[1]);
  a = Fold(Fold(Fold(a, one, b), one, c), one, d);
  unsigned char rest[16];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(rest), a);
  // zlib's registers are inverted: it begins with 0 here.
  return ByZlib(ByZlib(~uint32_t{0}, rest, sizeof(rest)), data, bytes);
}

#endif

}  // namespace

uint32_t Crc32(uint32_t crc, const void* data, size_t bytes) {
  if (bytes == 0) return crc;  // zlib starts anew for a null pointer
  const auto* at = static_cast<const unsigned char*>(data);
#if defined(__x86_64__)
  static const bool multiplies =
      __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  if (multiplies && bytes >= kFewest) return ByFolding(crc, at, bytes);
#endif
  return ByZlib(crc, at, bytes);
}

}  // namespace coxswain::checkpoint
