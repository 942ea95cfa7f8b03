#include "runtime/data/stream/text_block.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/data/text_reader.h"
#include "runtime/data/trained_rows.h"

namespace coxswain::data {
namespace {

int64_t RunsOf(int64_t words) { return (words + kTextRun - 1) / kTextRun; }

}  // namespace

void TextBlockMaker::Add(int64_t id) {
  if (words_ == 0 || (first_word_ + words_) % kTextRun == 0) {
    begins_.push_back(static_cast<uint32_t>(tokens_.size()));
  }
  ++words_;
  if (id >= 0) tokens_.push_back(static_cast<int32_t>(id));
}

bool TextBlockMaker::EndSentence() {
  if (!sentence_is_open()) return false;
  tokens_.back() |= Text::kEnd;
  sentence_ = tokens_.size();
  return true;
}

TextParts TextBlockMaker::Parts(absl::FunctionRef<bool(int64_t run)> held_out) const {
  if (words_ == 0) return {};
  std::vector<uint32_t> begins = begins_;
  begins.push_back(static_cast<uint32_t>(tokens_.size()));
  std::vector<bool> out;
  int64_t run = first_word_ / kTextRun;
  for (size_t i = 0; i < begins_.size(); ++i) out.push_back(held_out(run++));
  return TextParts(std::move(begins), std::move(out));
}

void EndSentenceOf(proto::IndexedBlock* block) {
  if (block->tail_size() == 0) return;
  block->set_ends_sentence(true);
  const int last = block->tail_size() - 1;
  block->set_tail(last, block->tail(last) | 1);
  // All places of it may be in both.
  const int first = block->head_size() - 1;
  if (block->head_size() == block->training() + block->validation()) {
    block->set_head(first, block->head(first) | 1);
  }
}

absl::StatusOr<std::vector<bool>> RunsHeldOut(const proto::DatasetSpec& spec,
                                              const proto::DatasetIndex& index) {
  const double fraction = spec.split().validation_fraction();
  const int64_t runs = RunsOf(index.own_rows());
  std::vector<bool> held_out(static_cast<size_t>(runs), false);
  if (fraction <= 0) return held_out;
  RunDraw draw(fraction, spec.seed());
  int64_t out = 0, first = runs;
  for (int64_t run = 0; run < runs; ++run) {
    if (!draw.HeldOut(run)) continue;
    held_out[static_cast<size_t>(run)] = true;
    if (out++ == 0) first = run;
  }
  const auto wanted = [&](const auto&... found) {
    return absl::InvalidArgumentError(
        absl::StrCat("data set: split.validation: a text is held out in runs of ", kTextRun,
                     " words; ", found..., "; wanted another share, or dataset.streaming: false"));
  };
  if (out == 0) return wanted("of ", index.own_rows(), " words ", fraction, " is no run");
  if (out == runs) {
    return wanted("of ", index.own_rows(), " words ", fraction, " leaves nothing to train on");
  }
  // Held out of a short text is one run all the same, which RunDraw does not know.
  const int64_t kept = RowsThatKeepParts(static_cast<SinceTraining>(index.since_training()), spec);
  if (kept > 0 && RunsOf(kept) <= first) {
    return wanted("of the ", kept, " words that the model was trained on ", fraction, " is no run");
  }
  return held_out;
}

}  // namespace coxswain::data
