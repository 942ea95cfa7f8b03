#include "runtime/data/field_scan.h"

#include <algorithm>
#include <bit>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace coxswain::data {
namespace {

constexpr size_t kPiece = 64;

// 64 bytes, and bit masks with one bit per byte.
#ifdef __SSE2__
class Piece {
 public:
  explicit Piece(const char* p) {
    for (int i = 0; i < 4; ++i) {
      lanes_[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p) + i);
    }
  }
  uint64_t Equal(char c) const {
    const __m128i wanted = _mm_set1_epi8(c);
    return Bits([&](__m128i lane) { return _mm_movemask_epi8(_mm_cmpeq_epi8(lane, wanted)); });
  }
  uint64_t NotAscii() const {
    return Bits([](__m128i lane) { return _mm_movemask_epi8(lane); });
  }

 private:
  template <typename F>
  uint64_t Bits(F of) const {
    uint64_t bits = 0;
    for (int i = 0; i < 4; ++i) {
      bits |= uint64_t{static_cast<uint16_t>(of(lanes_[i]))} << (16 * i);
    }
    return bits;
  }

  __m128i lanes_[4];
};
#else
class Piece {
 public:
  explicit Piece(const char* p) { std::memcpy(bytes_, p, kPiece); }
  uint64_t Equal(char c) const {
    return Bits([&](char byte) { return byte == c; });
  }
  uint64_t NotAscii() const {
    return Bits([](char byte) { return (byte & 0x80) != 0; });
  }

 private:
  template <typename F>
  uint64_t Bits(F of) const {
    uint64_t bits = 0;
    for (size_t i = 0; i < kPiece; ++i) bits |= uint64_t{of(bytes_[i])} << i;
    return bits;
  }

  char bytes_[kPiece];
};
#endif

struct Scan {
  char separator;
  bool quoting;
  uint32_t* out;
  uint64_t not_ascii = 0;

  // Scans the piece at `at`, of which the first `size` bytes are valid. False: it has a quote.
  bool Add(const Piece& piece, uint32_t at, size_t size) {
    const uint64_t all = size == kPiece ? ~uint64_t{0} : (uint64_t{1} << size) - 1;
    uint64_t bits = (piece.Equal(separator) | piece.Equal('\n')) & all;
    not_ascii |= piece.NotAscii() & all;
    const uint64_t quotes = quoting ? piece.Equal('"') & all : 0;
    if (quotes != 0) bits &= (quotes & (~quotes + 1)) - 1;  // bits before the first quote
    for (; bits != 0; bits &= bits - 1) {
      *out++ = at + static_cast<uint32_t>(std::countr_zero(bits));
    }
    return quotes == 0;
  }
};

}  // namespace

FieldEnds FindFieldEnds(absl::string_view text, char separator, bool quoting, uint32_t* ends,
                        size_t most) {
  Scan scan{separator, quoting, ends};
  uint32_t* const enough = ends + most;
  size_t at = 0;
  bool more = true;
  for (; more && scan.out < enough && text.size() - at >= kPiece; at += kPiece) {
    more = scan.Add(Piece(text.data() + at), static_cast<uint32_t>(at), kPiece);
  }
  if (more && scan.out < enough && at < text.size()) {
    char rest[kPiece] = {};
    std::memcpy(rest, text.data() + at, text.size() - at);
    scan.Add(Piece(rest), static_cast<uint32_t>(at), text.size() - at);
  }
  return {std::min(most, static_cast<size_t>(scan.out - ends)), scan.not_ascii == 0};
}

}  // namespace coxswain::data
