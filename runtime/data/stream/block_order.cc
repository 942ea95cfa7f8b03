#include "runtime/data/stream/block_order.h"

#include <algorithm>
#include <utility>

#include "runtime/data/permutation.h"

namespace coxswain::data {
namespace {

constexpr uint64_t kBlockStream = 1;
constexpr uint64_t kRowStream = 2;
constexpr size_t kKept = 2;  // epochs: one ends while the next begins

std::vector<int64_t> Used(const std::vector<int64_t>& examples) {
  std::vector<int64_t> blocks;
  for (size_t b = 0; b < examples.size(); ++b) {
    if (examples[b] > 0) blocks.push_back(static_cast<int64_t>(b));
  }
  return blocks;
}

}  // namespace

BlockRun::BlockRun(std::vector<int64_t> blocks, absl::Span<const int64_t> examples)
    : blocks_(std::move(blocks)) {
  begins_.reserve(blocks_.size() + 1);
  begins_.push_back(0);
  for (const int64_t block : blocks_) {
    begins_.push_back(begins_.back() + examples[static_cast<size_t>(block)]);
  }
}

int64_t BlockRun::Find(int64_t position, int64_t first, int64_t last) const {
  // With few blocks, a linear scan is faster than a search, whose branches cannot be predicted.
  constexpr int64_t kFew = 32;
  if (last - first <= kFew) {
    int64_t found = first;
    for (int64_t i = first + 1; i < last; ++i) found += begin(i) <= position ? 1 : 0;
    return found;
  }
  const auto after =
      std::upper_bound(begins_.begin() + first + 1, begins_.begin() + last, position);
  return after - begins_.begin() - 1;
}

BlockOrder::Epoch::Epoch(uint64_t key, int64_t window_blocks, int64_t batch, BlockRun run)
    : key_(key), run_(std::move(run)), begins_{0} {
  for (int64_t block = window_blocks; block < run_.blocks(); block += window_blocks) {
    const int64_t begin = run_.begin(block) / batch * batch;
    if (begin > begins_.back()) begins_.push_back(begin);
  }
  if (run_.size() > 0) begins_.push_back(run_.size());
}

int64_t BlockOrder::Epoch::window_of(int64_t position) const {
  return std::upper_bound(begins_.begin(), begins_.end(), position) - begins_.begin() - 1;
}

int64_t BlockOrder::Epoch::first_block(int64_t window) const {
  return run_.Find(begin(window), 0, run_.blocks());
}

int64_t BlockOrder::Epoch::end_block(int64_t window) const {
  return run_.Find(end(window) - 1, 0, run_.blocks()) + 1;
}

BlockOrder::BlockOrder(std::vector<int64_t> examples, int64_t window, int64_t batch, int64_t run)
    : examples_(std::move(examples)),
      window_(std::max<int64_t>(1, window)),
      batch_(std::max<int64_t>(1, batch)),
      run_(std::max<int64_t>(1, run)),
      files_(Used(examples_), examples_) {
  before_.resize(examples_.size());
  int64_t sum = 0;
  for (size_t b = 0; b < examples_.size(); ++b) {
    before_[b] = sum;
    sum += examples_[b];
  }
}

std::shared_ptr<const BlockOrder::Epoch> BlockOrder::DrawEpoch(uint64_t key) const {
  absl::MutexLock lock(&mu_);
  for (const auto& epoch : drawn_) {
    if (epoch->key_ == key) return epoch;
  }
  const Permutation order(static_cast<uint64_t>(files_.blocks()), HashPair(key, kBlockStream));
  std::vector<int64_t> blocks;
  blocks.reserve(static_cast<size_t>(files_.blocks()));
  for (int64_t i = 0; i < files_.blocks(); ++i) {
    blocks.push_back(files_.block(static_cast<int64_t>(order(static_cast<uint64_t>(i)))));
  }
  if (drawn_.size() == kKept) drawn_.erase(drawn_.begin());
  drawn_.emplace_back(new Epoch(key, window_, batch_, BlockRun(std::move(blocks), examples_)));
  return drawn_.back();
}

ExamplePlace BlockOrder::InFiles(int64_t position) const {
  const int64_t i = files_.Find(position, 0, files_.blocks());
  return {files_.block(i), position - files_.begin(i), position, i};
}

std::vector<uint64_t> BlockOrder::Mix(uint64_t key, int64_t size, int64_t begin,
                                      int64_t end) const {
  const int64_t runs = size / run_;
  const Permutation mixed(static_cast<uint64_t>(runs), key);
  std::vector<uint64_t> order(static_cast<size_t>(end - begin));
  if (run_ == 1) {
    mixed.Map(static_cast<uint64_t>(begin), absl::MakeSpan(order));
    return order;
  }
  for (int64_t i = begin; i < end; ++i) {
    const int64_t run = i / run_;
    const int64_t moved =
        run < runs ? static_cast<int64_t>(mixed(static_cast<uint64_t>(run))) : run;
    order[static_cast<size_t>(i - begin)] = static_cast<uint64_t>(moved * run_ + i % run_);
  }
  return order;
}

std::vector<ExamplePlace> BlockOrder::InEpoch(const Epoch& epoch, int64_t begin,
                                              int64_t end) const {
  std::vector<ExamplePlace> places;
  places.reserve(static_cast<size_t>(end - begin));
  const BlockRun& run = epoch.run();
  while (begin < end) {
    const int64_t window = epoch.window_of(begin);
    const int64_t first = epoch.first_block(window), last = epoch.end_block(window);
    const int64_t start = epoch.begin(window), size = epoch.end(window) - start;
    const uint64_t key = HashPair(HashPair(epoch.key_, kRowStream), static_cast<uint64_t>(window));
    const int64_t stop = std::min(end, start + size);
    const std::vector<uint64_t> order = Mix(key, size, begin - start, stop - start);
    begin = stop;
    for (const uint64_t position : order) {
      const int64_t moved = start + static_cast<int64_t>(position);
      const int64_t i = run.Find(moved, first, last);
      const int64_t block = run.block(i), index = moved - run.begin(i);
      places.push_back({block, index, before_[static_cast<size_t>(block)] + index, i});
    }
  }
  return places;
}

}  // namespace coxswain::data
