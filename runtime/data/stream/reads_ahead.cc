#include "runtime/data/stream/reads_ahead.h"

#include <set>

#include "runtime/env/remote_path.h"

namespace coxswain::data {
namespace {

// A store answers about as many at a time as one after the other, and others ask it, too.
constexpr size_t kMostRequests = 8;

}  // namespace

void ReadsAhead::Want(const std::vector<Range>& ranges) {
  std::vector<const Range*> first;
  std::set<Place> wanted;
  int64_t bytes = 0;
  for (const Range& range : ranges) {
    if (!env::IsRemotePath(range.path)) continue;
    // Blocks may share a range: what is taken for one is asked for again for the next.
    if (wanted.count({range.path, range.offset}) > 0) continue;
    bytes += range.bytes;
    if (first.size() == kMostRequests || (!first.empty() && bytes > most_bytes_)) break;
    first.push_back(&range);
    wanted.emplace(range.path, range.offset);
  }
  std::vector<Coming> gone;  // let go without the lock
  std::vector<const Range*> missing;
  {
    const absl::MutexLock lock(&mu_);
    for (auto it = coming_.begin(); it != coming_.end();) {
      const bool stays = wanted.count(it->first) > 0;
      if (!stays) gone.push_back(std::move(it->second));
      it = stays ? std::next(it) : coming_.erase(it);
    }
    for (const Range* range : first) {
      if (coming_.count({range->path, range->offset}) == 0) missing.push_back(range);
    }
  }
  for (const Range* range : missing) {
    const auto file = files_.Open(range->path);
    if (!file.ok()) return;
    Coming coming{range->bytes, (*file)->Start(static_cast<uint64_t>(range->offset),
                                               static_cast<size_t>(range->bytes))};
    if (coming.read == nullptr) return;
    const absl::MutexLock lock(&mu_);
    coming_.emplace(Place(range->path, range->offset), std::move(coming));
  }
}

bool ReadsAhead::Take(const Range& range, void* out) {
  Coming coming;
  {
    const absl::MutexLock lock(&mu_);
    const auto found = coming_.find({range.path, range.offset});
    if (found == coming_.end()) return false;
    coming = std::move(found->second);
    coming_.erase(found);
  }
  return coming.bytes == range.bytes && coming.read->Wait(out).ok();
}

}  // namespace coxswain::data
