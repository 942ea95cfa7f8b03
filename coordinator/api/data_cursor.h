// Where a program is in a data set.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/data/scheduled_examples.h"
#include "runtime/data/ticket.h"

namespace coxswain {

// One for all handles on a data set. One thread at a time.
struct DataCursor {
  // Of a checkpoint that the program goes on from: what its closures use or have used.
  data::ScheduledExamples scheduled;
  // What that is of; not set: of no checkpoint.
  std::optional<uint64_t> fingerprint;
  // The next example, unless it is scheduled.
  int64_t epoch = 0, position = 0;

  // The next batch, at most `batch` of an epoch's examples; nothing after the last epoch.
  // `only_full`: what lies between examples that are scheduled and is less than a batch, as the
  // epoch's rest is, is left out.
  std::optional<Ticket> Next(int64_t batch, int64_t examples, int64_t epochs, bool only_full) {
    if (examples <= 0) return std::nullopt;
    while (epoch < epochs) {
      const auto [begin, end] = scheduled.NextFree(epoch, position, examples);
      if (begin >= examples) {
        ++epoch;
        position = 0;
        continue;
      }
      position = end - begin > batch ? begin + batch : end;
      if (only_full && position - begin < batch) continue;
      return Ticket{Part::kTraining, epoch, begin, position};
    }
    return std::nullopt;
  }
};

}  // namespace coxswain
