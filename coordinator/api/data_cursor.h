// A program's position in a data set.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/data/scheduled_examples.h"
#include "runtime/data/ticket.h"

namespace coxswain {

// Shared by all handles on a data set. Used by one thread at a time.
struct DataCursor {
  // The examples that closures of the checkpoint use or have used.
  data::ScheduledExamples scheduled;
  // The fingerprint of that data; not set without a checkpoint.
  std::optional<uint64_t> fingerprint;
  // The next example, unless it is already scheduled.
  int64_t epoch = 0, position = 0;

  // The next batch, at most `batch` of an epoch's examples; nullopt after the last epoch.
  // `only_full`: ranges of less than a batch, between scheduled examples or at the end of an epoch,
  // are left out.
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
