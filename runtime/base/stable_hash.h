// Hashes that are the same on every machine and in every release: which shard holds an id, how data
// are shuffled and what is drawn depend on them, so none of these functions may ever change its
// values.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace coxswain {

// What splitmix64 (Steele et al. 2014) adds to its state for each number: 2^64 / the golden ratio.
inline constexpr uint64_t kSplitMixStep = 0x9e3779b97f4a7c15u;

// What splitmix64 makes of its state. A bijection on 64 bits whose output bits each depend on all
// input bits; 0 stays 0.
constexpr uint64_t SplitMixFinish(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// The number that follows the state `x` in splitmix64: a bijection, too.
constexpr uint64_t Mix64(uint64_t x) { return SplitMixFinish(x + kSplitMixStep); }

// FNV-1a, 64 bits (Fowler, Noll and Vo). For names: a byte at a time is slow for long texts.
constexpr uint64_t Fnv1a(absl::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : bytes) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace coxswain
