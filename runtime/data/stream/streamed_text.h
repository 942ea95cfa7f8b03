// The pairs of places of a text that is streamed. They are those of the same text in memory: a
// window reaches into the blocks beside its own. What it sees there is in the index, or, once in a
// while, is read.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "coxswain/dataset.h"
#include "runtime/data/batch.h"
#include "runtime/data/skip_gram.h"
#include "runtime/data/stream/block_cache.h"
#include "runtime/data/stream/block_order.h"
#include "runtime/data/stream/parsed_block.h"

namespace coxswain::data {

// Thread model: immutable.
class StreamedText {
 public:
  explicit StreamedText(std::shared_ptr<const StreamedSpec> data);

  // Appends the columns of DescribeSkipGrams for examples of a part. Errors: those of BlockCache
  // and of SkipGrams.
  absl::Status Gather(Part part, absl::Span<const ExamplePlace> examples, uint64_t epoch_key,
                      BlockCache* blocks, Batch* batch) const;

 private:
  class Around;

  const std::shared_ptr<const StreamedSpec> data_;
  const SkipGrams pairs_;
  std::vector<int64_t> first_place_;  // of each block, in the text; then their number
};

}  // namespace coxswain::data
