// Work of one kind on several tensors that is put off, and started as one kernel: a step has one for
// each table, one behind the other, and each of these launches takes longer than what it does.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/op.h"
#include "kernels/cuda/ranges.h"

namespace coxswain::cuda {

// Memory that work reads or writes.
struct Extent {
  uintptr_t begin = 0, end = 0;
  bool Overlaps(const Extent& other) const { return begin < other.end && other.begin < end; }
};
inline Extent ExtentOf(const void* memory, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  return Extent{begin, begin + bytes};
}
inline Extent ExtentOf(const CoxTensor& t) { return ExtentOf(t.data, Bytes(t)); }
using Extents = std::vector<Extent>;

inline bool AnyOverlaps(const Extents& a, const Extents& b) {
  for (const Extent& x : a) {
    for (const Extent& y : b) {
      if (x.Overlaps(y)) return true;
    }
  }
  return false;
}

// Parts, each a function of a block and the number of a tile, whose tiles lie one behind the other.
template <typename Part>
struct JoinedTiles {
  static constexpr int kMost = 32;  // what a kernel's arguments have room for
  int count = 0;
  int64_t tiles[kMost + 1] = {};
  Part parts[kMost] = {};

  COX_DEVICE void operator()(const Block& block, int64_t tile) const {
    const int part = FindRange(tiles, count, tile);
    parts[part](block, tile - tiles[part]);
  }
};

template <typename Part>
class PendingTiles final : public PendingWork {
 public:
  static_assert(sizeof(JoinedTiles<Part>) < 4000, "more than a kernel takes");

  // `what` names it in errors, and lives for ever.
  explicit PendingTiles(const char* what) : what_(what) {}

  // Whether it may start together with what reads and writes these, in any order.
  bool Suits(const Extents& reads, const Extents& writes) const {
    return work_.count < work_.kMost && !AnyOverlaps(writes_, reads) &&
           !AnyOverlaps(writes_, writes) && !AnyOverlaps(reads_, writes);
  }
  void Add(const Part& part, int64_t tiles, const Extents& reads, const Extents& writes) {
    reads_.insert(reads_.end(), reads.begin(), reads.end());
    writes_.insert(writes_.end(), writes.begin(), writes.end());
    work_.parts[work_.count] = part;
    work_.tiles[work_.count + 1] = work_.tiles[work_.count] + tiles;
    ++work_.count;
  }
  bool Uses(const void* memory, size_t bytes) const override {
    const Extents used = {ExtentOf(memory, bytes)};
    return AnyOverlaps(reads_, used) || AnyOverlaps(writes_, used);
  }
  Status Start(CoxStream* stream) override {
    const Status started = LaunchBlocks(stream->queue, work_.tiles[work_.count], 0, work_);
    // Whoever made it start would seem to be wrong.
    return started.ok()
               ? started
               : Status(started.code(), std::string(what_) + ", put off: " + started.message());
  }

 private:
  const char* const what_;
  JoinedTiles<Part> work_;
  Extents reads_, writes_;
};

// Puts `tiles` tiles of `part` off, of an op that was added as one that may be pending.
template <typename Part>
Status PutOff(const Run& run, const char* what, const Part& part, int64_t tiles,
              const Extents& reads, const Extents& writes) {
  if (tiles == 0) return Status();
  auto* pending = dynamic_cast<PendingTiles<Part>*>(run.stream()->pending.get());
  if (pending == nullptr || !pending->Suits(reads, writes)) {
    COX_CUDA_RETURN_IF_ERROR(Flush(run.stream()));
    auto made = std::make_unique<PendingTiles<Part>>(what);
    pending = made.get();
    run.stream()->pending = std::move(made);
  }
  pending->Add(part, tiles, reads, writes);
  return Status();
}

// As FillElements and ForElements.
template <typename T, typename F>
Status PutOffFill(const Run& run, const char* what, T* out, int64_t n, const F& f,
                  const Extents& reads, const Extents& writes) {
  return PutOff(run, what, FillTile<T, F>{out, n, f}, CeilDiv(n, kTile), reads, writes);
}
template <typename F>
Status PutOffFor(const Run& run, const char* what, int64_t n, const F& f, const Extents& reads,
                 const Extents& writes) {
  return PutOff(run, what, ElementTile<F>{n, f}, CeilDiv(n, int64_t{kThreads}), reads, writes);
}

}  // namespace coxswain::cuda
