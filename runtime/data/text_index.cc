#include "runtime/data/text_index.h"

#include <algorithm>

#include "absl/hash/hash.h"

namespace coxswain::data {

// The seed differs in each process, so that nobody can choose texts that share a slot.
uint64_t TextIndex::Hash(absl::string_view text) { return absl::Hash<absl::string_view>()(text); }

TextIndex::TextIndex(absl::Span<const std::string> texts) {
  size_t slots = 2;
  while (slots < 2 * texts.size()) slots *= 2;
  slots_.resize(slots);
  mask_ = slots - 1;
  for (size_t id = 0; id < texts.size(); ++id) {
    const uint64_t hash = Hash(texts[id]);
    size_t at = hash & mask_;
    while (slots_[at].id >= 0) at = (at + 1) & mask_;
    slots_[at] = {Tag(hash), static_cast<int32_t>(id)};
  }
}

int32_t TextIndex::FindFrom(absl::Span<const std::string> texts, absl::string_view text,
                            uint32_t tag, size_t at) const {
  for (at = Probe(at, tag); slots_[at].id >= 0; at = Probe((at + 1) & mask_, tag)) {
    if (texts[static_cast<size_t>(slots_[at].id)] == text) return slots_[at].id;
  }
  return -1;
}

int32_t TextIndex::Find(absl::Span<const std::string> texts, absl::string_view text) const {
  if (slots_.empty()) return -1;
  const uint64_t hash = Hash(text);
  return FindFrom(texts, text, Tag(hash), hash & mask_);
}

void TextIndex::FindAll(absl::Span<const std::string> texts,
                        absl::Span<const absl::string_view> wanted, int64_t* ids) const {
  constexpr size_t kGroup = 32;
  if (slots_.empty()) {
    std::fill_n(ids, wanted.size(), -1);
    return;
  }
  uint32_t tags[kGroup];
  size_t at[kGroup];
  for (size_t first = 0; first < wanted.size(); first += kGroup) {
    const size_t group = std::min(kGroup, wanted.size() - first);
    for (size_t i = 0; i < group; ++i) {
      const uint64_t hash = Hash(wanted[first + i]);
      tags[i] = Tag(hash);
      at[i] = hash & mask_;
      __builtin_prefetch(&slots_[at[i]]);
    }
    for (size_t i = 0; i < group; ++i) {
      at[i] = Probe(at[i], tags[i]);
      const int32_t id = slots_[at[i]].id;
      if (id >= 0) __builtin_prefetch(&texts[static_cast<size_t>(id)]);
    }
    for (size_t i = 0; i < group; ++i) {
      ids[first + i] = FindFrom(texts, wanted[first + i], tags[i], at[i]);
    }
  }
}

}  // namespace coxswain::data
