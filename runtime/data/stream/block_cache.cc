#include "runtime/data/stream/block_cache.h"

#include <utility>

#include "runtime/tensor/within_memory.h"

namespace coxswain::data {
namespace {

// Blocks that `coming` is told of, beyond the one that is parsed.
constexpr size_t kComing = 7;

}  // namespace

std::shared_ptr<BlockCache> BlockCache::Make(Options options) {
  return std::shared_ptr<BlockCache>(new BlockCache(std::move(options)));
}

absl::StatusOr<BlockCache::Block> BlockCache::Get(int64_t block) {
  {
    absl::MutexLock lock(&mu_);
    while (true) {
      const auto found = entries_.find(block);
      if (found == entries_.end()) break;
      if (found->second.block != nullptr) {
        used_.splice(used_.end(), used_, found->second.used);
        ++counters_.reused;
        return found->second.block;
      }
      parsed_.Wait(&mu_);  // ends: parsing waits for nothing but the disk
    }
    entries_[block].used = used_.end();
  }
  return ParseNow(block, /*ahead=*/false);
}

absl::StatusOr<BlockCache::Block> BlockCache::ParseNow(int64_t number, bool ahead) {
  absl::StatusOr<Block> block = WithinMemory([&] { return options_.parse(number); });
  absl::MutexLock lock(&mu_);
  if (block.ok()) {
    ++counters_.parsed;
    if (ahead) ++counters_.parsed_ahead;
    Keep(number, *block);
  } else {
    entries_.erase(number);
  }
  parsed_.SignalAll();
  return block;
}

void BlockCache::Keep(int64_t number, Block block) {
  MakeRoom(block->bytes, /*spare=*/true);
  MakeRoom(block->bytes, /*spare=*/false);
  counters_.bytes += block->bytes;
  Entry& entry = entries_[number];
  entry.used = used_.insert(used_.end(), number);
  entry.block = std::move(block);
}

bool BlockCache::MakeRoom(int64_t bytes, bool spare) {
  for (auto it = used_.begin(); it != used_.end();) {
    if (counters_.bytes + bytes <= options_.memory) return true;
    if (spare && wanted_set_.count(*it) > 0) {
      ++it;
      continue;
    }
    const auto entry = entries_.find(*it);
    counters_.bytes -= entry->second.block->bytes;
    entries_.erase(entry);
    it = used_.erase(it);
  }
  return counters_.bytes + bytes <= options_.memory;
}

void BlockCache::WantNext(std::vector<int64_t> blocks) {
  if (!options_.background) return;
  {
    absl::MutexLock lock(&mu_);
    if (blocks == wanted_) return;
    wanted_ = std::move(blocks);
    wanted_set_ = {wanted_.begin(), wanted_.end()};
    if (ahead_scheduled_) return;
    ahead_scheduled_ = true;
  }
  ScheduleAhead();
}

// A block a task, so that others who compute there get their turn in between.
void BlockCache::ScheduleAhead() {
  options_.background([weak = weak_from_this()] {
    if (const auto cache = weak.lock()) cache->RunAhead();
  });
}

int64_t BlockCache::TakeWanted() {
  for (const int64_t block : wanted_) {
    if (entries_.count(block) > 0) continue;
    if (!MakeRoom(options_.largest_block, /*spare=*/true)) return -1;
    entries_[block].used = used_.end();
    return block;
  }
  return -1;
}

std::vector<int64_t> BlockCache::Coming() const {
  std::vector<int64_t> coming;
  for (const int64_t block : wanted_) {
    if (coming.size() == kComing) break;
    if (entries_.count(block) == 0) coming.push_back(block);
  }
  return coming;
}

void BlockCache::RunAhead() {
  int64_t block = 0;
  std::vector<int64_t> coming;
  {
    absl::MutexLock lock(&mu_);
    block = TakeWanted();
    if (block < 0) {
      ahead_scheduled_ = false;
      return;
    }
    if (options_.coming) coming = Coming();
  }
  if (options_.coming) {
    coming.insert(coming.begin(), block);
    options_.coming(coming);
  }
  // What is wrong with it is told to who wants it.
  const bool parsed = ParseNow(block, /*ahead=*/true).ok();
  {
    absl::MutexLock lock(&mu_);
    if (!parsed) {
      ahead_scheduled_ = false;
      return;
    }
  }
  ScheduleAhead();
}

void BlockCache::Drop() {
  if (options_.coming) options_.coming({});
  absl::MutexLock lock(&mu_);
  wanted_.clear();
  wanted_set_.clear();
  for (const int64_t block : used_) entries_.erase(block);
  used_.clear();
  counters_.bytes = 0;
}

BlockCache::Counters BlockCache::counters() const {
  absl::MutexLock lock(&mu_);
  return counters_;
}

}  // namespace coxswain::data
