// The memory that both ends of a same-host connection map: for each direction a ring of
// descriptors, a ring by which blocks go back, and an arena of blocks that hold the messages.
//
// The sender owns the arena: it takes a block, writes one packet (wire_format.h) into it and
// publishes a descriptor. The receiver reads the packet where it lies and gives the block's number
// back when nobody needs the bytes any more, in any order. A sender has at most kShmSlots blocks
// out, so neither ring can overflow.
//
// Thread model: the atomics say. Nothing here is trusted: what is read from the other end's side
// is checked by whoever reads it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "runtime/net/unique_fd.h"

namespace coxswain::net {

constexpr uint32_t kShmSlots = 1024;
// Address space of one direction; memory is taken when it is touched.
constexpr size_t kShmArenaBytes = size_t{8} << 30;

struct ShmDescriptor {
  uint64_t offset;  // of the block in the arena
  uint64_t bytes;   // of the packet
  uint32_t block;
  uint32_t reserved;
};

// All counters count up for ever; the entry of number n is n % kShmSlots.
struct ShmDirection {
  alignas(64) std::atomic<uint64_t> sent;      // descriptors, by the sender
  alignas(64) std::atomic<uint64_t> returned;  // blocks, by the receiver
  // Set by the receiver before it sleeps; who clears it wakes it.
  alignas(64) std::atomic<uint32_t> asleep;
  // Set by the sender when it has no block for the next message; who clears it wakes it.
  alignas(64) std::atomic<uint32_t> starved;
  alignas(64) ShmDescriptor ring[kShmSlots];
  uint32_t returns[kShmSlots];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

class ShmSegment {
 public:
  // New memory, with its file for the other end. Errors: Unavailable when the system has none.
  struct Created {
    std::shared_ptr<ShmSegment> segment;
    UniqueFd file;
  };
  static absl::StatusOr<Created> Create();
  // The memory that the other end has made.
  // Errors: InvalidArgument for a file that is of another size or may shrink; Unavailable.
  static absl::StatusOr<std::shared_ptr<ShmSegment>> Map(const UniqueFd& file);
  ~ShmSegment();
  ShmSegment(const ShmSegment&) = delete;
  ShmSegment& operator=(const ShmSegment&) = delete;

  // 0: from the end that connected, 1: to it.
  ShmDirection& direction(int index) const;
  char* arena(int index) const;
  // Gives the memory behind a part of an arena, in whole pages, back to the system.
  void Discard(int index, size_t offset, size_t bytes) const;

 private:
  explicit ShmSegment(char* base) : base_(base) {}
  static absl::StatusOr<std::shared_ptr<ShmSegment>> MapFile(int file);
  char* const base_;
};

}  // namespace coxswain::net
