// Numbers in text files.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"

namespace coxswain::data {

// Parses a finite decimal number, correctly rounded; ignores white space around it. False for
// anything else: an empty text, "nan", "inf", "1,5", a number beyond the range of f64.
bool ParseNumber(absl::string_view text, double* number);

// Digits only, at most 18 of them.
bool ParseIndex(absl::string_view text, int64_t* index);

// Arithmetic on 8 ASCII characters in a word, with the first one in the lowest byte.
namespace word {

inline constexpr uint64_t kZeros = 0x3030303030303030u;

// The `size` characters (1 to 8) at `p`, with zeros before them. 8 bytes are read.
inline uint64_t Load(const char* p, size_t size) {
  uint64_t chars = 0;
  std::memcpy(&chars, p, sizeof(chars));
  if constexpr (std::endian::native == std::endian::big) chars = __builtin_bswap64(chars);
  return chars << (64 - 8 * size) | kZeros >> 1 >> (8 * size - 1);
}

inline bool AreDigits(uint64_t chars) {
  constexpr uint64_t kHigh = 0xf0f0f0f0f0f0f0f0u;
  return ((chars & kHigh) | ((chars + 0x0606060606060606u) & kHigh) >> 4) == 0x3333333333333333u;
}

// The number that 8 digits stand for: combines pairs, then fours, then all eight.
inline uint64_t Value(uint64_t chars) {
  chars = (chars & 0x0f0f0f0f0f0f0f0fu) * 2561 >> 8;
  chars = (chars & 0x00ff00ff00ff00ffu) * 6553601 >> 16;
  return (chars & 0x0000ffff0000ffffu) * 42949672960001u >> 32;
}

inline bool AreHexadecimal(uint64_t chars) {
  constexpr uint64_t kEach = 0x0101010101010101u, kHigh = 0x80 * kEach;
  // High bits of the bytes from `low` to `high`; bytes are ASCII.
  const auto among = [](uint64_t bytes, uint64_t low, uint64_t high) {
    return (bytes + (0x80 - low) * kEach) & ~(bytes + (0x7f - high) * kEach);
  };
  const uint64_t good = among(chars, '0', '9') | among(chars | 0x20 * kEach, 'a', 'f');
  return (chars & kHigh) == 0 && (good & kHigh) == kHigh;
}

}  // namespace word

// Parses a text of up to 15 digits. False: the text is something else, perhaps another form of
// number. Bytes before `limit` may be read.
inline bool ParseDigits(absl::string_view text, const char* limit, int64_t* number) {
  const size_t size = text.size();
  if (size - 1 > 14 || limit - text.data() < 8) return false;
  if (size <= 8) {
    const uint64_t chars = word::Load(text.data(), size);
    *number = static_cast<int64_t>(word::Value(chars));
    return word::AreDigits(chars);
  }
  const uint64_t high = word::Load(text.data(), size - 8);
  const uint64_t low = word::Load(text.data() + size - 8, 8);
  *number = static_cast<int64_t>(word::Value(high) * 100'000'000 + word::Value(low));
  return word::AreDigits(high) && word::AreDigits(low);
}

// As ParseNumber, but faster for the most common forms. Bytes before `limit` may be read.
bool ParseNumber(absl::string_view text, const char* limit, double* number);

}  // namespace coxswain::data
