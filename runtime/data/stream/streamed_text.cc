#include "runtime/data/stream/streamed_text.h"

#include <algorithm>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/data/stream/text_block.h"

namespace coxswain::data {

StreamedText::StreamedText(std::shared_ptr<const StreamedSpec> data)
    : data_(std::move(data)),
      pairs_(data_->index->features(0).training_counts(), data_->spec.text()),
      first_place_{0} {
  for (const proto::IndexedBlock& block : data_->index->blocks()) {
    first_place_.push_back(first_place_.back() + block.training() + block.validation());
  }
}

// Around a run of places of one block.
class StreamedText::Around final : public SkipGrams::Around {
 public:
  Around(const StreamedText& text, BlockCache* blocks, int64_t block, BlockCache::Block own,
         Part part)
      : text_(text), blocks_(*blocks), own_(block), part_(part), own_held_(std::move(own)) {}
  bool At(int64_t place, int32_t* token) override;
  // What went wrong, if anything did.
  const absl::Status& status() const { return status_; }

 private:
  // Moves to the block that has the place.
  bool Find(int64_t place);
  // Looks in what the index has of the block; false: the place is not in that.
  bool InIndex(int64_t at, int64_t places, bool* same_part, int32_t* token) const;

  const StreamedText& text_;
  BlockCache& blocks_;
  const int64_t own_;
  const Part part_;
  const BlockCache::Block own_held_;
  int64_t block_ = own_;                // that was looked at last
  BlockCache::Block held_ = own_held_;  // the same; null: it was not read
  absl::Status status_;
};

bool StreamedText::Around::Find(int64_t place) {
  const std::vector<int64_t>& first = text_.first_place_;
  if (place < 0 || place >= first.back()) return false;
  const auto at = static_cast<size_t>(block_);
  if (place >= first[at] && place < first[at + 1]) return true;
  block_ = std::upper_bound(first.begin(), first.end(), place) - first.begin() - 1;
  held_ = block_ == own_ ? own_held_ : nullptr;
  return true;
}

bool StreamedText::Around::InIndex(int64_t at, int64_t places, bool* same_part,
                                   int32_t* token) const {
  const proto::IndexedBlock& block = text_.data_->index->blocks(static_cast<int>(block_));
  const bool before = block_ < own_;
  const auto& edge = before ? block.tail() : block.head();
  const int64_t i = before ? at - (places - edge.size()) : at;
  if (i < 0 || i >= edge.size()) {
    // It ends where another part begins, or because there is enough of it.
    *same_part = edge.size() == EdgePlaces(text_.data_->spec.text().window());
    return false;
  }
  *same_part = (before ? block.tail_part() : block.head_part()) == static_cast<int32_t>(part_);
  *token = TokenOf(edge.Get(static_cast<int>(i)));
  return true;
}

bool StreamedText::Around::At(int64_t place, int32_t* token) {
  if (!Find(place)) return false;
  const int64_t first = text_.first_place_[static_cast<size_t>(block_)];
  const int64_t places = text_.first_place_[static_cast<size_t>(block_) + 1] - first;
  if (held_ == nullptr) {
    bool same_part = true;
    if (InIndex(place - first, places, &same_part, token)) return same_part;
    if (!same_part) return false;
    absl::StatusOr<BlockCache::Block> read = blocks_.Get(block_);
    if (!read.ok()) {
      status_ = read.status();
      return false;
    }
    held_ = *std::move(read);
  }
  if (held_->text.Of(place - first) != part_) return false;
  *token = held_->tokens[static_cast<size_t>(place - first)];
  return true;
}

absl::Status StreamedText::Gather(Part part, absl::Span<const ExamplePlace> examples,
                                  uint64_t epoch_key, BlockCache* blocks, Batch* batch) const {
  SkipGrams::Pairs pairs;
  BlockCache::Block block;
  int64_t number = -1;
  for (size_t i = 0; i < examples.size();) {
    if (examples[i].block != number) {
      number = examples[i].block;
      ASSIGN_OR_RETURN(block, blocks->Get(number));
    }
    const int64_t begin = block->text.Place(part, examples[i].index);
    size_t next = i + 1;
    int64_t end = begin + 1;
    for (; next < examples.size() && examples[next].block == number; ++next, ++end) {
      if (block->text.Place(part, examples[next].index) != end) break;
    }
    Around around(*this, blocks, number, block, part);
    RETURN_IF_ERROR(
        pairs_.AddRun(epoch_key, first_place_[static_cast<size_t>(number)] + begin,
                      absl::MakeConstSpan(block->tokens)
                          .subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
                      &around, &pairs));
    RETURN_IF_ERROR(around.status());
    i = next;
  }
  pairs.MoveTo(batch);
  return absl::OkStatus();
}

}  // namespace coxswain::data
