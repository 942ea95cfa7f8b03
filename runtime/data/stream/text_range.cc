#include "runtime/data/stream/text_range.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/data/data_file.h"
#include "runtime/data/data_format.h"
#include "runtime/data/input_file.h"
#include "runtime/data/stream/file_identity.h"
#include "runtime/data/stream/part_answers.h"
#include "runtime/data/stream/text_block.h"
#include "runtime/data/text_reader.h"
#include "runtime/data/vocabulary.h"
#include "runtime/data/word_scanner.h"
#include "runtime/env/random_access_file.h"

namespace coxswain::data {
namespace {

using proto::DatasetSpec;
using proto::IndexedBlock;
using proto::TextPlaces;
using proto::TextRange;

// Thread model: one thread.
class PlaceCounter {
 public:
  PlaceCounter(const TextRange& range, std::function<bool()> stopped)
      : stopped_(std::move(stopped)),
        spec_(range.spec()),
        path_(spec_.paths(0)),
        file_(range.file()),
        vocabulary_(Vocabulary::OfTexts({range.words().begin(), range.words().end()}, 0)),
        draw_(spec_.split().validation_fraction(), spec_.seed()) {
    *places_.mutable_blocks() = range.blocks();
    places_.set_open(-1);
  }
  absl::StatusOr<TextPlaces> Count();

 private:
  absl::Status Changed() const { return ChangedError(path_, file_); }
  absl::Status CountFile();
  absl::Status CountBlocks();
  // Takes the words of the next block; `word` is the first of them, and then the first behind them,
  // if one is `found`.
  absl::Status TakeBlock(WordScanner* words, absl::string_view* word, bool* found);
  void EndSentence(TextBlockMaker* block);
  void Fill(const TextBlockMaker& made, IndexedBlock* block);

  const std::function<bool()> stopped_;
  const DatasetSpec& spec_;
  const std::string& path_;
  const proto::IndexedFile& file_;
  const std::unique_ptr<Vocabulary> vocabulary_;
  RunDraw draw_;
  TextPlaces places_;
  int next_ = 0;        // block
  bool begun_ = false;  // a place or a sentence's end has come
};

// A sentence ends in a block or, if that has no place of it yet, in one before. Behind a sentence
// there is none that is open, until a place of the next one comes.
void PlaceCounter::EndSentence(TextBlockMaker* block) {
  if (block == nullptr || !block->EndSentence()) {
    if (places_.open() >= 0) {
      EndSentenceOf(places_.mutable_blocks(places_.open()));
    } else if (!begun_) {
      places_.set_ends_before(true);
    }
  }
  begun_ = true;
  places_.set_open(-1);
}

void PlaceCounter::Fill(const TextBlockMaker& made, IndexedBlock* block) {
  const TextParts parts = made.Parts([this](int64_t run) { return draw_.HeldOut(run); });
  const std::vector<int32_t>& tokens = made.tokens();
  block->set_training(parts.places(Part::kTraining));
  block->set_validation(parts.places(Part::kValidation));
  if (tokens.empty()) return;
  const auto places = static_cast<int64_t>(tokens.size());
  const int64_t edge = std::min(places, EdgePlaces(spec_.text().window()));
  const Part first = parts.Of(0), last = parts.Of(places - 1);
  for (int64_t i = 0; i < edge && parts.Of(i) == first; ++i) {
    block->add_head(EdgeOf(tokens[static_cast<size_t>(i)]));
  }
  int64_t begin = places - 1;
  while (begin > places - edge && parts.Of(begin - 1) == last) --begin;
  for (int64_t i = begin; i < places; ++i) block->add_tail(EdgeOf(tokens[static_cast<size_t>(i)]));
  block->set_head_part(static_cast<int32_t>(first));
  block->set_tail_part(static_cast<int32_t>(last));
  block->set_ends_sentence(Text::EndsSentence(tokens.back()));
}

absl::Status PlaceCounter::TakeBlock(WordScanner* words, absl::string_view* word, bool* found) {
  if (stopped_ && stopped_()) return NotWanted();
  IndexedBlock* const block = places_.mutable_blocks(next_);
  TextBlockMaker made(block->first_row());
  for (int64_t i = 0; i < block->rows(); ++i) {
    if (!*found) return Changed();
    if (words->line_ended()) EndSentence(&made);
    made.Add(vocabulary_->Find(*word).value_or(-1));
    ASSIGN_OR_RETURN(*found, words->Next(word));
  }
  Fill(made, block);
  if (made.sentence_is_open()) {
    places_.set_open(next_);
    begun_ = true;
  }
  ++next_;
  return absl::OkStatus();
}

absl::Status PlaceCounter::CountFile() {
  ASSIGN_OR_RETURN(const std::unique_ptr<InputFile> input, InputFile::Open(path_));
  input->StartBlock();
  WordScanner words(input.get(), 1, spec_.text().lower_case());
  absl::string_view word;
  ASSIGN_OR_RETURN(bool found, words.Next(&word));
  while (next_ < places_.blocks_size()) {
    const uint64_t hash = places_.blocks(next_).hash();
    RETURN_IF_ERROR(TakeBlock(&words, &word, &found));
    words.ConsumeToWord();
    if (input->StartBlock() != hash) return Changed();
  }
  if (found) return Changed();
  if (words.line_ended()) EndSentence(nullptr);
  return absl::OkStatus();
}

absl::Status PlaceCounter::CountBlocks() {
  ASSIGN_OR_RETURN(const auto file, OpenDataFile(path_));
  if (static_cast<int64_t>(file->size()) != file_.bytes()) return Changed();
  while (next_ < places_.blocks_size()) {
    const IndexedBlock& block = places_.blocks(next_);
    std::vector<char> bytes(static_cast<size_t>(block.bytes()));
    RETURN_IF_ERROR(file->Read(static_cast<uint64_t>(block.offset()), bytes.data(), bytes.size()));
    StreamHash hash;
    hash.Update(absl::string_view(bytes.data(), bytes.size()));
    if (hash.Finish() != block.hash()) return Changed();
    const auto input = InputFile::OfBytes(path_, std::move(bytes));
    WordScanner words(input.get(), block.line(), spec_.text().lower_case());
    absl::string_view word;
    ASSIGN_OR_RETURN(bool found, words.Next(&word));
    RETURN_IF_ERROR(TakeBlock(&words, &word, &found));
    if (found) return Changed();
    if (words.line_ended()) EndSentence(nullptr);
  }
  return absl::OkStatus();
}

absl::StatusOr<TextPlaces> PlaceCounter::Count() {
  RETURN_IF_ERROR(CheckUnchanged(path_, file_, /*same_machine=*/false));
  const absl::Status counted = file_.unpacked_bytes() > 0 ? CountFile() : CountBlocks();
  // Words that are not what they were may be no words at all.
  if (absl::IsInvalidArgument(counted) || absl::IsDataLoss(counted)) return Changed();
  RETURN_IF_ERROR(counted);
  RETURN_IF_ERROR(CheckUnchanged(path_, file_, /*same_machine=*/false));
  return std::move(places_);
}

}  // namespace

absl::StatusOr<TextPlaces> CountPlacesOf(const TextRange& range, std::function<bool()> stopped) {
  const proto::DatasetSpec& spec = range.spec();
  bool fits = spec.paths_size() == 1 && !FormatOf(spec).has_rows();
  for (const IndexedBlock& block : range.blocks()) {
    fits = fits && block.offset() >= 0 && block.bytes() >= 0 && block.rows() >= 0 &&
           block.first_row() >= 0 && block.rows() <= block.bytes() &&
           (range.file().unpacked_bytes() > 0 ||
            (block.offset() <= range.file().bytes() &&
             block.bytes() <= range.file().bytes() - block.offset())) &&
           block.head_size() == 0 && block.tail_size() == 0;
  }
  if (!fits) return absl::InvalidArgumentError("blocks of a text that make no sense");
  return PlaceCounter(range, std::move(stopped)).Count();
}

}  // namespace coxswain::data
