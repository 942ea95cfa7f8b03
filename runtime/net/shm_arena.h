// Which blocks of an arena of shared memory are out: the sender's book, in its own memory.
//
// Blocks have four sizes for each power of two and never move. The one that came back last is taken
// first, for it is still in the cache. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace coxswain::net {

class ShmArena {
 public:
  // At most `max_out` blocks are out at a time.
  ShmArena(size_t bytes, size_t max_out) : bytes_(bytes), max_out_(max_out) {}

  struct Block {
    uint32_t id = 0;
    size_t offset = 0;  // a multiple of 64, and of a page from 4 KiB on
  };
  // Nothing: there is no room until blocks come back. `bytes` is at most half of the arena.
  std::optional<Block> Allocate(size_t bytes);

  struct Returned {
    bool known = false;  // false: no such block is out
    // What should go back to the system: large blocks are kept up to kKeptBytes.
    size_t discard_offset = 0;
    size_t discard_bytes = 0;  // 0: nothing
  };
  static constexpr size_t kKeptBytes = size_t{128} << 20;
  Returned Return(uint32_t id);

 private:
  static constexpr size_t kLarge = size_t{1} << 20;  // from here on blocks count as large
  static constexpr int kClasses = 4 * 32;
  // The size of a class: 256, 320, 384, 448, 512, 640, ...
  static size_t ClassBytes(int index) {
    return (size_t{256} + 64 * static_cast<size_t>(index % 4)) << (index / 4);
  }
  struct Info {
    size_t offset = 0;
    int size_class = 0;
    bool out = false;
    bool discarded = false;  // a large free block without memory
  };

  // Makes a free block of the class, if there is room.
  bool Cut(int size_class);

  const size_t bytes_;
  const size_t max_out_;
  size_t end_ = 0;  // no block has been cut from here on
  size_t out_ = 0;
  size_t kept_ = 0;  // bytes of large free blocks that hold memory
  std::vector<Info> blocks_;
  std::array<std::vector<uint32_t>, kClasses> free_;  // by class
};

}  // namespace coxswain::net
