// Answers of the workers that read parts of a data set for its index.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "protos/dataset_index.pb.h"

namespace coxswain::data {

// Whether the worker, not its files, is why there is no answer.
bool IsWorkerLost(const absl::Status& status);
// Of a part that was not read to its end because the worker was told to stop: IsWorkerLost.
absl::Status NotWanted();

struct PartAnswer {
  uint64_t ask = 0;  // the number of the request
  int worker = 0;
  absl::StatusOr<proto::PartIndexed> found = absl::UnknownError("no answer");
};

// Answers on their way from other threads. Outlives a pass that ends before they come.
class PartAnswers {
 public:
  void Add(PartAnswer answer) {
    absl::MutexLock lock(&mu_);
    answers_.push_back(std::move(answer));
  }
  // Waits for the first of them, but not for ever.
  std::vector<PartAnswer> Take(absl::Duration most) {
    absl::MutexLock lock(&mu_);
    mu_.AwaitWithTimeout(
        absl::Condition(
            +[](std::vector<PartAnswer>* answers) { return !answers->empty(); }, &answers_),
        most);
    return std::exchange(answers_, {});
  }

 private:
  absl::Mutex mu_;
  std::vector<PartAnswer> answers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coxswain::data
