#include "runtime/data/hash.h"

#include <algorithm>
#include <cstring>

namespace coxswain::data {
namespace {

constexpr uint64_t kMultiplier = 0x9fb21c651e98df25u;

// Little-endian whatever the machine.
inline uint64_t LoadWord(const char* p, size_t bytes) {
  uint64_t word = 0;
  std::memcpy(&word, p, bytes);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  return word;
}

// 1 to 7 bytes. Some are loaded twice, which is faster than a copy of a size that is not known.
uint64_t LoadFew(const char* p, size_t bytes) {
  const auto byte = [p](size_t i) { return uint64_t{static_cast<unsigned char>(p[i])} << (8 * i); };
  if (bytes < 4) return byte(0) | byte(bytes / 2) | byte(bytes - 1);
  return LoadWord(p, 4) | LoadWord(p + bytes - 4, 4) << (8 * (bytes - 4));
}

uint64_t Absorb(uint64_t state, uint64_t word) {
  state = (state ^ word) * kMultiplier;
  return state ^ (state >> 29);
}

}  // namespace

void StreamHash::Stripe(const char* p) {
  for (int i = 0; i < 4; ++i) lanes_[i] = Absorb(lanes_[i], LoadWord(p + 8 * i, 8));
}

void StreamHash::Update(absl::string_view bytes) {
  total_ += bytes.size();
  const char* p = bytes.data();
  size_t left = bytes.size();
  if (pending_size_ > 0) {
    const size_t taken = std::min(left, kStripe - pending_size_);
    std::memcpy(pending_ + pending_size_, p, taken);
    pending_size_ += taken;
    p += taken;
    left -= taken;
    if (pending_size_ < kStripe) return;
    Stripe(pending_);
    pending_size_ = 0;
  }
  for (; left >= kStripe; p += kStripe, left -= kStripe) Stripe(p);
  if (left > 0) std::memcpy(pending_, p, left);
  pending_size_ = left;
}

uint64_t StreamHash::Finish() const {
  uint64_t hash = Mix64(total_);
  for (uint64_t lane : lanes_) hash = HashPair(hash, lane);
  for (size_t i = 0; i < pending_size_; i += 8) {
    hash = HashPair(hash, LoadWord(pending_ + i, std::min<size_t>(8, pending_size_ - i)));
  }
  return hash;
}

std::string StreamHash::Save() const {
  std::string saved;
  const auto add = [&saved](uint64_t word) {
    for (int byte = 0; byte < 8; ++byte) saved.push_back(static_cast<char>(word >> (8 * byte)));
  };
  for (const uint64_t lane : lanes_) add(lane);
  add(total_);
  saved.append(pending_, pending_size_);
  return saved;
}

bool StreamHash::Restore(absl::string_view saved) {
  constexpr size_t kWords = 5 * 8;
  if (saved.size() < kWords || saved.size() >= kWords + kStripe) return false;
  for (int i = 0; i < 4; ++i) lanes_[i] = LoadWord(saved.data() + 8 * i, 8);
  total_ = LoadWord(saved.data() + 32, 8);
  pending_size_ = saved.size() - kWords;
  std::copy(saved.begin() + kWords, saved.end(), pending_);
  return total_ % kStripe == pending_size_;
}

uint64_t HashText(absl::string_view text) {
  uint64_t hash = Mix64(text.size());
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) hash = Absorb(hash, LoadWord(text.data() + i, 8));
  if (i < text.size()) hash = Absorb(hash, LoadFew(text.data() + i, text.size() - i));
  return Mix64(hash);
}

}  // namespace coxswain::data
