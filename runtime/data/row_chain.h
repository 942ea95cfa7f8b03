// The content of rows in their order as one number. Equal rows have the same, however files, line
// ends, quotes or compression cut them up; another order has another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "runtime/data/hash.h"

namespace coxswain::data {

// Models keep what this computes: it may never change its values. Thread model: a value of one
// thread.
class RowChain {
 public:
  // The hash of the first `mark` rows is kept, see Marked.
  explicit RowChain(int64_t mark = 0) : mark_(mark) {}

  void Add(absl::string_view text) {
    if (log_ != nullptr) return LogText(text);
    uint64_t& lane = NextLane();
    Absorb(&lane, text.size());
    const char* p = text.data();
    size_t left = text.size();
    for (; left > 8; p += 8, left -= 8) Absorb(&lane, Load<uint64_t>(p));
    Absorb(&lane, LoadFew(p, left));
  }
  void AddNumber(uint64_t number) {
    if (log_ != nullptr) return LogNumber(number);
    Absorb(&NextLane(), number);
  }
  void EndRow() {
    if (log_ != nullptr) return LogEnd();
    next_ = 0;
    if (++rows_ == mark_) marked_ = Hash();
  }

  int64_t rows() const { return rows_; }
  uint64_t Hash() const {
    uint64_t hash = static_cast<uint64_t>(rows_);
    for (const uint64_t lane : lanes_) hash = HashPair(hash, lane);
    return hash;
  }
  // Of the first `mark` rows; nothing when there are fewer, or no mark.
  std::optional<uint64_t> Marked() const { return marked_; }

  // The fields of a row go to lanes in turn, so that the processor need not wait for each.
  static constexpr size_t kLanes = 4;

  // The rows so far, between two rows, for another process to go on with. The mark is not part of
  // it.
  struct State {
    int64_t rows = 0;
    std::array<uint64_t, kLanes> lanes = {};
    std::optional<uint64_t> marked;
  };
  State state() const { return {rows_, lanes_, marked_}; }
  void Continue(const State& state) {
    rows_ = state.rows;
    lanes_ = state.lanes;
    marked_ = state.marked;
    next_ = 0;
  }
  // From now on what is added goes to `log`, which must outlive it, and not into the hash: for rows
  // that are read before those in front of them.
  void LogTo(std::string* log) { log_ = log; }
  // Adds what was logged.
  void AddLogged(absl::string_view log);

 private:
  void LogText(absl::string_view text);
  void LogNumber(uint64_t number);
  void LogEnd();

  static void Absorb(uint64_t* lane, uint64_t word) {
    *lane = (*lane ^ word) * 0x9fb21c651e98df25u;
    *lane ^= *lane >> 29;
  }
  // Little-endian whatever the machine.
  template <typename Word>
  static uint64_t Load(const char* p) {
    Word word = 0;
    std::memcpy(&word, p, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = sizeof(word) == 8 ? __builtin_bswap64(word) : __builtin_bswap32(word);
#endif
    return word;
  }
  // 0 to 8 bytes; equal for equal bytes of one number. Some are loaded twice, which is faster than
  // a copy of a size that is not known.
  static uint64_t LoadFew(const char* p, size_t bytes) {
    if (bytes >= 4) return Load<uint32_t>(p) | Load<uint32_t>(p + bytes - 4) << 32;
    if (bytes == 0) return 0;
    const auto byte = [p](size_t i) { return uint64_t{static_cast<unsigned char>(p[i])}; };
    return byte(0) | byte(bytes / 2) << 8 | byte(bytes - 1) << 16;
  }
  uint64_t& NextLane() { return lanes_[next_++ % kLanes]; }

  int64_t mark_;
  int64_t rows_ = 0;
  size_t next_ = 0;
  std::array<uint64_t, kLanes> lanes_ = {0x243f6a8885a308d3u, 0x13198a2e03707344u,
                                         0xa4093822299f31d0u, 0x082efa98ec4e6c89u};
  std::optional<uint64_t> marked_;
  std::string* log_ = nullptr;
};

}  // namespace coxswain::data
