// A block of a text that is streamed: its places, and which of them are held out.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "protos/dataset.pb.h"
#include "protos/dataset_index.pb.h"
#include "runtime/data/text_parts.h"

namespace coxswain::data {

// Takes the words of a block in their order. Thread model: one thread.
class TextBlockMaker {
 public:
  // `first_word`: the number of the block's first word in the text.
  explicit TextBlockMaker(int64_t first_word) : first_word_(first_word) {}

  // The next word; a negative id: the vocabulary has none.
  void Add(int64_t id);
  // The sentence ends behind the last word. False: it has no place in this block.
  bool EndSentence();
  // Whether the last place is of a sentence that has not ended.
  bool sentence_is_open() const { return tokens_.size() > sentence_; }
  int64_t words() const { return words_; }

  const std::vector<int32_t>& tokens() const { return tokens_; }
  std::vector<int32_t> TakeTokens() { return std::move(tokens_); }
  // `held_out` says which runs of the text are.
  TextParts Parts(absl::FunctionRef<bool(int64_t run)> held_out) const;

 private:
  const int64_t first_word_;
  int64_t words_ = 0;
  std::vector<int32_t> tokens_;   // as in Text
  std::vector<uint32_t> begins_;  // of runs
  size_t sentence_ = 0;           // where the last sentence begins
};

// Which runs of the text are held out. Errors: InvalidArgument where that would be none of them, or
// all; or where a text of so few words as the model knows of was drawn otherwise.
absl::StatusOr<std::vector<bool>> RunsHeldOut(const proto::DatasetSpec& spec,
                                              const proto::DatasetIndex& index);

// The sentence ends behind the last place of a block that has places.
void EndSentenceOf(proto::IndexedBlock* block);

// So many places of each end of a block are in the index: more than a window reaches but once in a
// while, when most places around are left out.
inline int64_t EdgePlaces(int64_t window) { return 8 * window + 32; }

// A token as the index has it.
inline uint32_t EdgeOf(int32_t token) {
  return (static_cast<uint32_t>(token) << 1) | (token < 0 ? 1u : 0u);
}
inline int32_t TokenOf(uint32_t edge) { return static_cast<int32_t>((edge >> 1) | (edge << 31)); }

}  // namespace coxswain::data
