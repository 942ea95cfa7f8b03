// Which training examples of a data set were scheduled, by epoch: what a program that is started
// again must not visit once more. Of tickets that are scheduled in their order this is one range an
// epoch, whatever their sizes.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/data/ticket.h"

namespace coxswain::data {

// Not thread-safe.
class ScheduledExamples {
 public:
  // Of what is in more ranges, the oldest gaps count as scheduled: who leaves out as many as that
  // means it.
  static constexpr size_t kMostRanges = 1 << 16;

  struct Range {
    int64_t epoch = 0, begin = 0, end = 0;
    bool operator==(const Range& o) const {
      return epoch == o.epoch && begin == o.begin && end == o.end;
    }
  };

  // Tickets of other parts, and what no data set has, change nothing.
  void Add(const Ticket& ticket);
  // The ticket came to nothing.
  void Remove(const Ticket& ticket);

  // Of the epoch's examples from `begin` to below `end`, the first run that was not scheduled;
  // empty, both `end`, when all were.
  std::pair<int64_t, int64_t> NextFree(int64_t epoch, int64_t begin, int64_t end) const;

  bool empty() const { return epochs_.empty() && first_epoch_ == 0; }
  // All examples of the epochs before are scheduled.
  int64_t first_epoch() const { return first_epoch_; }
  // Ascending, with gaps between them.
  std::vector<Range> ranges() const;
  // Errors: InvalidArgument when these are no ranges(), or too many.
  static absl::StatusOr<ScheduledExamples> FromRanges(int64_t first_epoch,
                                                      const std::vector<Range>& ranges);

 private:
  using Ranges = std::map<int64_t, int64_t>;  // end by begin; they neither meet nor overlap

  void Bound();

  int64_t first_epoch_ = 0;
  std::map<int64_t, Ranges> epochs_;  // none is empty
  size_t count_ = 0;                  // of ranges
};

}  // namespace coxswain::data
