// The rows of a streamed data set, as batches: a ticket's examples are gathered from their blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coxswain/dataset.h"
#include "runtime/data/batch.h"
#include "runtime/data/stream/block_cache.h"
#include "runtime/data/stream/block_order.h"
#include "runtime/data/stream/parsed_block.h"
#include "runtime/data/stream/streamed_text.h"

namespace coxswain::data {

// Thread model: thread-safe. Tickets are within their part.
class StreamedRows {
 public:
  StreamedRows(std::shared_ptr<const StreamedSpec> data, BlockCache::Background background);

  int64_t num_examples(Part part) const { return orders_[static_cast<size_t>(part)]->size(); }
  const StreamedSpec& data() const { return *data_; }

  // Returns a tensor for each column: features, "label", those of queries, "example_id"; of a text
  // those of DescribeSkipGrams. With `order_key` the training part is in the order that the key
  // draws, else in that of the files. `sample_key` draws samples of lists and pairs of a text.
  // Errors: those of ParseBlock; ResourceExhausted for 2^31 values. `ahead`: where the task goes on
  // after the window of the ticket's examples; the blocks there are read ahead. Null: with the
  // window that follows.
  struct Ordered {
    Ticket ticket;
    std::optional<uint64_t> order_key;
  };
  absl::StatusOr<Batch> Read(const Ticket& ticket, std::optional<uint64_t> order_key,
                             uint64_t sample_key, const Ordered* ahead = nullptr);
  // Tickets of one epoch with the same group need the same blocks; others need hardly any of these.
  int64_t GroupOf(const Ticket& ticket, std::optional<uint64_t> order_key) const;
  // "ratings.csv:17", the line of the ticket's first example; nullopt when it cannot be read.
  std::optional<std::string> PlaceOf(const Ticket& ticket, std::optional<uint64_t> order_key);

  void DropBlocks() { cache_->Drop(); }
  BlockCache::Counters counters() const { return cache_->counters(); }

 private:
  struct Picks;

  absl::Status GatherRows(const Ticket& ticket, const std::vector<ExamplePlace>& places,
                          Picks* picks, Batch* batch);
  std::vector<ExamplePlace> Places(const Ticket& ticket, std::optional<uint64_t> order_key);
  // Reads ahead the blocks that will be needed after the ticket.
  void ReadAhead(const Ordered& now, const Ordered* ahead);
  // The blocks and rows of examples. Errors: those of BlockCache.
  absl::Status FindExamples(const Ticket& ticket, const std::vector<ExamplePlace>& places,
                            Picks* picks);
  // All rows of a query of a block.
  static absl::Status AddQuery(size_t part, uint32_t block, int64_t index, Picks* picks);
  // Makes the tensors of a feature, of a column of numbers. What has one value in each row is
  // gathered later, all columns together.
  absl::Status AddFeature(int index, Picks* picks, Batch* batch) const;
  static void AddNumbers(size_t column, Picks* picks, Batch* batch);
  void GatherTargets(const Picks& picks) const;
  static void GatherIds(const Picks& picks, size_t column, int64_t* out);
  void GatherNumbers(const Picks& picks, size_t column, float* out) const;
  absl::Status GatherLists(int index, const Picks& picks, Batch* batch) const;
  // The history's place in the batch is kept while the feature that it is of is gathered. Errors:
  // those of GroupFile; ResourceExhausted for a group whose values do not fit into dataset.memory.
  absl::Status FillHistory(const Picks& picks, Part part, Batch* batch) const;
  absl::Status AddKnown(const Picks& picks, Batch* batch) const;

  const std::shared_ptr<const StreamedSpec> data_;
  const size_t named_labels_;                        // their columns, weights included
  std::vector<std::unique_ptr<BlockOrder>> orders_;  // by part
  std::shared_ptr<BlockCache> cache_;
  std::unique_ptr<const StreamedText> text_;  // null: it has rows
};

}  // namespace coxswain::data
