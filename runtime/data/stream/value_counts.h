// How many rows have which value, in bounded memory: where there are too many different values,
// those that are near each other are counted together. What is counted of parts of the rows, in
// any order, adds up to what is counted of all of them, but for how many are counted together.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "protos/dataset_index.pb.h"

namespace coxswain::data {

// The bits of a finite number, in an order like the numbers'; 0 and -0 have the same.
uint64_t OrderedBits(double value);
double ValueOfBits(uint64_t bits);

// Thread model: one thread.
class ValueCounts {
 public:
  // Numbers that are the same but for the last shift() bits.
  struct Bin {
    uint64_t bits = 0;  // the others
    int64_t rows = 0;
  };
  // The memory that it takes at most for each of `most` bins.
  static constexpr int64_t kBytesOfBin = 4 * static_cast<int64_t>(sizeof(Bin));

  // `most`: bins, at least 4: then those within a bin never fall into one again.
  explicit ValueCounts(int64_t most);

  void Add(uint64_t bits) {
    const uint64_t bin = bits >> shift_;
    if (!pending_.empty() && pending_.back().bits == bin) {  // files are often sorted by it
      ++pending_.back().rows;
      return;
    }
    if (pending_.size() == most_) Flush();
    pending_.push_back({bits >> shift_, 1});
  }
  // Errors: InvalidArgument for counts that make no sense.
  absl::Status Merge(const proto::ValueCounts& counts);
  void Save(proto::ValueCounts* counts);

  // In their order. Good until the next call.
  absl::Span<const Bin> bins();
  int shift() const { return shift_; }

 private:
  void Flush();
  void AddSorted(absl::Span<const Bin> more);  // of shift()
  void Coarsen(int shift);

  size_t most_;
  int shift_ = 0;             // below 64
  std::vector<Bin> pending_;  // in no order
  std::vector<Bin> bins_, merged_;
};

}  // namespace coxswain::data
