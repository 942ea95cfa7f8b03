// An index of texts: finds the number of the text that equals a given one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace coxswain::data {

// Open addressing: slots of 8 bytes, at least half of them empty. Thread model: immutable.
class TextIndex {
 public:
  TextIndex() = default;
  // The texts must be different and fewer than 2^31. The index does not keep them: each look-up
  // passes them again.
  explicit TextIndex(absl::Span<const std::string> texts);

  // -1: none.
  int32_t Find(absl::Span<const std::string> texts, absl::string_view text) const;
  // As Find for each of `wanted`; overlaps the memory accesses of several look-ups.
  void FindAll(absl::Span<const std::string> texts, absl::Span<const absl::string_view> wanted,
               int64_t* ids) const;

 private:
  struct Slot {
    uint32_t tag = 0;  // bits of the text's hash, other than those that choose the slot
    int32_t id = -1;   // -1: empty
  };

  static uint64_t Hash(absl::string_view text);
  static uint32_t Tag(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }
  // The slot, from `at` on, whose tag is the hash's, or which is empty.
  size_t Probe(size_t at, uint32_t tag) const {
    while (slots_[at].id >= 0 && slots_[at].tag != tag) at = (at + 1) & mask_;
    return at;
  }
  int32_t FindFrom(absl::Span<const std::string> texts, absl::string_view text, uint32_t tag,
                   size_t at) const;

  std::vector<Slot> slots_;
  size_t mask_ = 0;
};

}  // namespace coxswain::data
