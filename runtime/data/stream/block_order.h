// The order of a part's examples when they lie in blocks: which block has an example, and where.
//
// In the order of the files examples are numbered block by block. A shuffled epoch has two levels:
// blocks come in another order, and are taken in windows of several; within a window all examples
// are mixed. Both are permutations that need no memory (permutation.h), so that any position can be
// asked for on any machine.
//
// A window ends where a batch does, so that no batch needs the blocks of two windows: up to a batch
// of a window's last examples belongs to the next one, which shares a block with it then.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"

namespace coxswain::data {

struct ExamplePlace {
  int64_t block = 0;
  int64_t index = 0;   // among the block's examples of the part, in the order of the file
  int64_t number = 0;  // among all of the part, in the order of the files
  int64_t run = 0;     // where its block is in the order that blocks come in
};

// Blocks in some order, and where each begins. Thread model: immutable.
class BlockRun {
 public:
  // `examples` has the number of each block, `blocks` the order; blocks without examples are left
  // out by the caller.
  BlockRun(std::vector<int64_t> blocks, absl::Span<const int64_t> examples);

  int64_t size() const { return begins_.back(); }  // examples
  int64_t blocks() const { return static_cast<int64_t>(blocks_.size()); }
  int64_t block(int64_t i) const { return blocks_[static_cast<size_t>(i)]; }
  // Examples before the i-th block; i may be blocks().
  int64_t begin(int64_t i) const { return begins_[static_cast<size_t>(i)]; }
  // Which of [first, last) has the example; `position` is in [begin(first), begin(last)).
  int64_t Find(int64_t position, int64_t first, int64_t last) const;

 private:
  std::vector<int64_t> blocks_;
  std::vector<int64_t> begins_;
};

class BlockOrder {
 public:
  // One epoch's order. Thread model: immutable.
  class Epoch {
   public:
    int64_t window_of(int64_t position) const;
    int64_t windows() const { return static_cast<int64_t>(begins_.size()) - 1; }
    // Its positions are [begin, end).
    int64_t begin(int64_t window) const { return begins_[static_cast<size_t>(window)]; }
    int64_t end(int64_t window) const { return begin(window + 1); }
    // Its examples lie in the blocks [first, last) of run().
    int64_t first_block(int64_t window) const;
    int64_t end_block(int64_t window) const;
    const BlockRun& run() const { return run_; }

   private:
    friend class BlockOrder;
    Epoch(uint64_t key, int64_t window_blocks, int64_t batch, BlockRun run);

    uint64_t key_;
    BlockRun run_;
    std::vector<int64_t> begins_;  // of windows, none of them empty; and the end
  };

  // `examples`: the number of examples of the part in each block. `window`: the number of blocks
  // whose examples are mixed, at least 1. `batch`: windows begin at multiples of it, at least 1.
  // `run`: this number of consecutive examples of a window stay together; an incomplete run stays
  // at the window's end.
  BlockOrder(std::vector<int64_t> examples, int64_t window, int64_t batch, int64_t run = 1);

  int64_t size() const { return files_.size(); }
  int64_t window() const { return window_; }
  const BlockRun& files() const { return files_; }
  // The epoch's order, drawn by `key`. The last two are kept.
  std::shared_ptr<const Epoch> DrawEpoch(uint64_t key) const;

  // The example at a position below size(), in the order of the files.
  ExamplePlace InFiles(int64_t position) const;
  // Which run of as many blocks as a window has holds it, when examples are in the order of the
  // files.
  int64_t RunInFiles(int64_t position) const {
    return files_.Find(position, 0, files_.blocks()) / window_;
  }
  // The examples [begin, end) of an epoch's order.
  std::vector<ExamplePlace> InEpoch(const Epoch& epoch, int64_t begin, int64_t end) const;

 private:
  // Where the positions [begin, end) of a window of `size` examples go, from its beginning.
  std::vector<uint64_t> Mix(uint64_t key, int64_t size, int64_t begin, int64_t end) const;

  std::vector<int64_t> examples_;  // by block
  std::vector<int64_t> before_;    // by block: examples in blocks before it
  int64_t window_;
  int64_t batch_;
  int64_t run_;
  BlockRun files_;
  mutable absl::Mutex mu_;
  mutable std::vector<std::shared_ptr<const Epoch>> drawn_ ABSL_GUARDED_BY(mu_);  // newest last
};

}  // namespace coxswain::data
