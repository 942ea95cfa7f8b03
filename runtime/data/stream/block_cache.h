// The parsed blocks that a task holds, within a bound, and which are parsed before they are wanted.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "runtime/data/stream/parsed_block.h"

namespace coxswain::data {

// Thread model: thread-safe.
class BlockCache : public std::enable_shared_from_this<BlockCache> {
 public:
  using Block = std::shared_ptr<const ParsedBlock>;
  using Parse = std::function<absl::StatusOr<Block>(int64_t block)>;
  // Runs a task some time, on another thread or in the caller.
  using Background = std::function<void(absl::AnyInvocable<void()>)>;

  struct Options {
    int64_t memory = 0;         // bytes of blocks that are kept
    int64_t largest_block = 0;  // that comes
    Parse parse;                // from any thread
    Background background;      // null: nothing is parsed ahead
    // What will be parsed ahead, in this order, from any thread; may be null.
    std::function<void(const std::vector<int64_t>& blocks)> coming;
  };
  static std::shared_ptr<BlockCache> Make(Options options);

  // The block: from memory, or parsed here, or by the other thread that parses it already, which is
  // waited for. Who holds it keeps it in memory beyond the bound. Errors: those of `parse`, also
  // ResourceExhausted without memory for it; another call tries again.
  absl::StatusOr<Block> Get(int64_t block);
  // What is wanted next, in this order: parsed in the background as far as memory allows, and kept
  // before others. Replaces what was wanted before.
  void WantNext(std::vector<int64_t> blocks);
  // Lets go of all blocks, and of what is wanted next; it goes on as if it were new.
  void Drop();

  struct Counters {
    int64_t bytes = 0, parsed = 0, parsed_ahead = 0, reused = 0;
  };
  Counters counters() const;

 private:
  struct Entry {
    Block block;  // null: it is parsed at the moment
    std::list<int64_t>::iterator used;
  };

  explicit BlockCache(Options options) : options_(std::move(options)) {}
  // Parses what is missing; the lock is not held.
  absl::StatusOr<Block> ParseNow(int64_t block, bool ahead);
  void Keep(int64_t number, Block block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Makes room for this number of bytes; what is wanted next stays if `spare` says so. Whether
  // there is.
  bool MakeRoom(int64_t bytes, bool spare) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The next block to parse ahead, marked as being parsed; -1: none.
  int64_t TakeWanted() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Some that come behind that.
  std::vector<int64_t> Coming() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ScheduleAhead();
  void RunAhead();

  const Options options_;
  mutable absl::Mutex mu_;
  absl::CondVar parsed_;
  std::map<int64_t, Entry> entries_ ABSL_GUARDED_BY(mu_);
  std::list<int64_t> used_ ABSL_GUARDED_BY(mu_);  // parsed ones, the last used at the end
  std::vector<int64_t> wanted_ ABSL_GUARDED_BY(mu_);
  std::set<int64_t> wanted_set_ ABSL_GUARDED_BY(mu_);
  bool ahead_scheduled_ ABSL_GUARDED_BY(mu_) = false;
  Counters counters_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coxswain::data
