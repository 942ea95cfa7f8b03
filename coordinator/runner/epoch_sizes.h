// How many examples each epoch of a job has: all the same, or, where an epoch is what came together
// (dataset.follow), each its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "coordinator/runner/data_position.h"

namespace coxswain::runner {

class EpochSizes {
 public:
  // Every epoch has this number; `batch` is at least 1.
  static EpochSizes Same(int64_t batch, int64_t examples) { return {batch, examples, false}; }
  // None has come yet.
  static EpochSizes Listed(int64_t batch) { return {batch, 0, true}; }

  // The next one has come; of Listed.
  void Add(int64_t examples) {
    const DataPosition end{std::ssize(listed_), 0};
    listed_.push_back({examples, ExamplesBefore(end), StepsBefore(end)});
  }
  int64_t count() const { return std::ssize(listed_); }  // of Listed

  // 0 of one that has not come.
  int64_t examples(int64_t epoch) const {
    if (!list_) return each_;
    return epoch < count() ? listed_[static_cast<size_t>(epoch)].examples : 0;
  }
  // Of all epochs before the position, and of its own.
  int64_t ExamplesBefore(const DataPosition& position) const {
    return Before(position.epoch).examples_before + position.examples;
  }
  int64_t StepsBefore(const DataPosition& position) const {
    return Before(position.epoch).steps_before + Batches(position.examples, batch_);
  }
  // Closures of `steps` batches each; the last one of an epoch may have fewer.
  int64_t ClosuresBefore(const DataPosition& position, int64_t steps) const {
    const int64_t size = batch_ * std::max<int64_t>(1, steps);
    int64_t closures = Batches(position.examples, size);
    if (!list_) return closures + position.epoch * Batches(each_, size);
    for (int64_t e = 0; e < std::min(position.epoch, count()); ++e) {
      closures += Batches(examples(e), size);
    }
    return closures;
  }

 private:
  struct Epoch {
    int64_t examples = 0, examples_before = 0, steps_before = 0;
  };

  EpochSizes(int64_t batch, int64_t each, bool list) : batch_(batch), each_(each), list_(list) {}

  static int64_t Batches(int64_t examples, int64_t size) { return (examples + size - 1) / size; }
  Epoch Before(int64_t epoch) const {
    if (!list_) return {each_, epoch * each_, epoch * std::max<int64_t>(1, Batches(each_, batch_))};
    if (epoch < count()) return listed_[static_cast<size_t>(epoch)];
    if (listed_.empty()) return {};
    const Epoch& last = listed_.back();
    return {0, last.examples_before + last.examples,
            last.steps_before + Batches(last.examples, batch_)};
  }

  int64_t batch_, each_;
  bool list_;
  std::vector<Epoch> listed_;
};

}  // namespace coxswain::runner
