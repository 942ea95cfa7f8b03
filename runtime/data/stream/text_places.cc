// Ranges of the files, given to workers that ask for them; what they count, put together in order.
#include "runtime/data/stream/text_places.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "runtime/base/bytes_text.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/data/learned.h"
#include "runtime/data/stream/index_pass.h"
#include "runtime/data/stream/part_answers.h"
#include "runtime/data/stream/stream_options.h"
#include "runtime/data/stream/text_block.h"
#include "runtime/data/stream/text_range.h"
#include "runtime/data/text_reader.h"
#include "runtime/data/vocabulary_file.h"

namespace coxswain::data {
namespace {

using proto::DatasetIndex;
using proto::DatasetSpec;
using proto::IndexedBlock;

constexpr int64_t kProgressBytes = int64_t{64} << 20;

// A range has at least so many bytes for each byte of the vocabulary, which is sent with it.
constexpr int64_t kTextOfVocabulary = 16;
constexpr size_t kRangesOfWorker = 2;
// As in index_pass.cc.
constexpr absl::Duration kRetry = absl::Milliseconds(500);

// Counts the places of all blocks, by the workers if there are any. Thread model: one thread.
class PlacePass {
 public:
  PlacePass(const DatasetSpec& spec, const IndexOptions& options, DatasetIndex* index);
  ~PlacePass();
  absl::Status Run();

 private:
  struct Range {
    int first = 0, end = 0;  // blocks
    int64_t bytes = 0;
    int worker = -1;   // that counts it; -1: none
    uint64_t ask = 0;  // the request
    bool counted = false;
    absl::Status failed;      // on a worker
    proto::TextPlaces found;  // less its blocks
  };
  struct Worker {
    size_t ranges = 0;
    bool there = true, usable = true;
    bool asked = false;  // at all
  };

  void Plan(int64_t range_bytes);
  proto::TextRange RequestOf(const Range& range) const;
  // Asks workers for ranges that nobody counts; false: no worker is there for the first of them.
  bool Assign();
  void Ask(int worker, Range* range);
  void Release(Range* range);
  absl::Status OnAnswer(PartAnswer answer);
  void OnSilence();
  absl::Status CountHere(Range* range);
  absl::Status Take(Range* range, proto::TextPlaces found);
  bool HasPlaces(const Range& range) const;
  void EndSentences();

  const DatasetSpec& spec_;
  const IndexOptions& options_;
  DatasetIndex& index_;
  int64_t all_bytes_ = 0, done_bytes_ = 0, reported_ = 0;
  std::vector<Range> ranges_;
  size_t first_ = 0;  // all in front of it are counted
  std::vector<Worker> workers_;
  absl::Duration waited_;  // since an answer came
  uint64_t last_ask_ = 0;
  const std::shared_ptr<PartAnswers> answers_ = std::make_shared<PartAnswers>();
};

PlacePass::PlacePass(const DatasetSpec& spec, const IndexOptions& options, DatasetIndex* index)
    : spec_(spec), options_(options), index_(*index) {
  int64_t words = 0;
  for (const std::string& word : index->features(0).vocabulary()) {
    words += static_cast<int64_t>(word.size());
  }
  for (const IndexedBlock& block : index->blocks()) all_bytes_ += block.bytes();
  Plan(std::max(options.part_bytes, kTextOfVocabulary * words));
  if (options.workers != nullptr) {
    workers_.resize(static_cast<size_t>(std::max(0, options.workers->count())));
  }
}

PlacePass::~PlacePass() {
  for (size_t w = 0; w < workers_.size(); ++w) {
    if (workers_[w].asked) EndPass(options_.workers, static_cast<int>(w));
  }
}

void PlacePass::Plan(int64_t range_bytes) {
  for (int block = 0; block < index_.blocks_size(); ++block) {
    const IndexedBlock& next = index_.blocks(block);
    const bool packed = index_.files(next.file()).unpacked_bytes() > 0;
    if (ranges_.empty() || index_.blocks(block - 1).file() != next.file() ||
        (ranges_.back().bytes >= range_bytes && !packed)) {
      ranges_.emplace_back();
      ranges_.back().first = block;
    }
    ranges_.back().end = block + 1;
    ranges_.back().bytes += next.bytes();
  }
}

proto::TextRange PlacePass::RequestOf(const Range& range) const {
  proto::TextRange request;
  const int file = index_.blocks(range.first).file();
  *request.mutable_spec() = spec_;
  request.mutable_spec()->clear_paths();
  request.mutable_spec()->clear_learned();  // that are files
  request.mutable_spec()->add_paths(spec_.paths(file));
  *request.mutable_file() = index_.files(file);
  *request.mutable_words() = index_.features(0).vocabulary();
  for (int block = range.first; block < range.end; ++block) {
    *request.add_blocks() = index_.blocks(block);
  }
  return request;
}

bool PlacePass::Assign() {
  for (size_t i = first_; i < ranges_.size(); ++i) {
    if (ranges_[i].counted || ranges_[i].worker >= 0 || !ranges_[i].failed.ok()) continue;
    int best = -1;
    for (size_t w = 0; w < workers_.size(); ++w) {
      const Worker& worker = workers_[w];
      if (!worker.there || !worker.usable || worker.ranges >= kRangesOfWorker) continue;
      if (best < 0 || worker.ranges < workers_[static_cast<size_t>(best)].ranges) {
        best = static_cast<int>(w);
      }
    }
    if (best < 0) break;
    Ask(best, &ranges_[i]);
  }
  return ranges_[first_].worker >= 0;
}

void PlacePass::Ask(int worker, Range* range) {
  range->worker = worker;
  range->ask = ++last_ask_;
  ++workers_[static_cast<size_t>(worker)].ranges;
  workers_[static_cast<size_t>(worker)].asked = true;
  proto::IndexPart request;
  *request.mutable_text() = RequestOf(*range);
  options_.workers->Ask(
      worker, std::move(request),
      [answers = answers_, ask = range->ask, worker](absl::StatusOr<proto::PartIndexed> found) {
        answers->Add({ask, worker, std::move(found)});
      });
}

void PlacePass::Release(Range* range) {
  if (range->worker >= 0) --workers_[static_cast<size_t>(range->worker)].ranges;
  range->worker = -1;
  range->ask = 0;
}

absl::Status PlacePass::OnAnswer(PartAnswer answer) {
  const auto range = std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& one) {
    return one.worker >= 0 && one.ask == answer.ask;
  });
  if (range == ranges_.end()) return absl::OkStatus();  // given up meanwhile
  Worker& worker = workers_[static_cast<size_t>(answer.worker)];
  if (IsWorkerLost(answer.found.status())) {
    LogWarning("data set: worker ", answer.worker,
               " is lost while the words of a text are counted; others count its blocks");
    worker.there = false;
    for (Range& one : ranges_) {
      if (one.worker == answer.worker) Release(&one);
    }
    return absl::OkStatus();
  }
  Release(&*range);
  // One of an older version answers something else.
  const bool understood =
      answer.found.ok() ? answer.found->has_text() : !absl::IsUnimplemented(answer.found.status());
  if (!understood) {
    worker.usable = false;
    return absl::OkStatus();
  }
  if (answer.found.ok()) return Take(&*range, std::move(*answer.found->mutable_text()));
  range->failed = answer.found.status();
  return absl::OkStatus();
}

// Workers that are there and do not answer must not keep all waiting for ever.
void PlacePass::OnSilence() {
  for (Worker& worker : workers_) worker.there = true;
  waited_ += kRetry;
  if (waited_ < options_.patience + absl::Seconds(ranges_[first_].bytes >> 20)) return;
  const int silent = ranges_[first_].worker;
  LogWarning("data set: the words of a text were not counted for ", absl::FormatDuration(waited_),
             "; no longer waits for worker ", silent);
  workers_[static_cast<size_t>(silent)].usable = false;
  for (Range& range : ranges_) {
    if (range.worker == silent) Release(&range);
  }
}

absl::Status PlacePass::CountHere(Range* range) {
  ASSIGN_OR_RETURN(proto::TextPlaces found, CountPlacesOf(RequestOf(*range)));
  if (!range->failed.ok()) return range->failed;  // it is the worker's file that is wrong
  return Take(range, std::move(found));
}

absl::Status PlacePass::Take(Range* range, proto::TextPlaces found) {
  const int blocks = range->end - range->first;
  if (found.blocks_size() != blocks || found.open() < -1 || found.open() >= blocks) {
    return absl::InvalidArgumentError("the places of a text are of another data set");
  }
  for (int i = 0; i < blocks; ++i) {
    IndexedBlock* const block = index_.mutable_blocks(range->first + i);
    IndexedBlock* const counted = found.mutable_blocks(i);
    block->set_training(counted->training());
    block->set_validation(counted->validation());
    block->set_ends_sentence(counted->ends_sentence());
    block->mutable_head()->Swap(counted->mutable_head());
    block->mutable_tail()->Swap(counted->mutable_tail());
    block->set_head_part(counted->head_part());
    block->set_tail_part(counted->tail_part());
  }
  found.clear_blocks();
  range->found = std::move(found);
  range->counted = true;
  done_bytes_ += range->bytes;
  if (options_.progress && done_bytes_ - reported_ >= kProgressBytes) {
    reported_ = done_bytes_;
    options_.progress(done_bytes_, all_bytes_);
  }
  return absl::OkStatus();
}

bool PlacePass::HasPlaces(const Range& range) const {
  for (int block = range.first; block < range.end; ++block) {
    if (index_.blocks(block).tail_size() > 0) return true;
  }
  return false;
}

// Sentences that begin in one range and end in another, or with their file.
void PlacePass::EndSentences() {
  int open = -1;  // the block with the last place of the sentence
  const auto end = [&] {
    if (open >= 0) EndSentenceOf(index_.mutable_blocks(open));
    open = -1;
  };
  for (size_t i = 0; i < ranges_.size(); ++i) {
    const Range& range = ranges_[i];
    const int file = index_.blocks(range.first).file();
    if (i > 0 && index_.blocks(ranges_[i - 1].first).file() != file) end();
    if (range.found.ends_before()) end();
    if (range.found.open() >= 0) {
      open = range.first + range.found.open();
    } else if (HasPlaces(range)) {
      open = -1;
    }
  }
  end();
}

absl::Status PlacePass::Run() {
  while (true) {
    while (first_ < ranges_.size() && ranges_[first_].counted) ++first_;
    if (first_ == ranges_.size()) break;
    if (!Assign() || !ranges_[first_].failed.ok()) {
      RETURN_IF_ERROR(CountHere(&ranges_[first_]));
      continue;
    }
    std::vector<PartAnswer> answers = answers_->Take(kRetry);
    for (PartAnswer& answer : answers) RETURN_IF_ERROR(OnAnswer(std::move(answer)));
    if (answers.empty()) {
      OnSilence();
    } else {
      waited_ = absl::ZeroDuration();
    }
  }
  EndSentences();
  return absl::OkStatus();
}

// Of a model's vocabulary the counts are the model's.
absl::Status TakeCounts(const DatasetSpec& spec, DatasetIndex* index) {
  const proto::LearnedFeature* const learned = FindLearned(spec, kTextFeature);
  if (learned == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      const std::vector<int64_t> counts,
      ReadCountLines(learned->counts_file(), learned->counts_hash(), learned->vocabulary_size()));
  *index->mutable_features(0)->mutable_training_counts() = {counts.begin(), counts.end()};
  return absl::OkStatus();
}

}  // namespace

absl::Status CountPlaces(const DatasetSpec& spec, const IndexOptions& options,
                         DatasetIndex* index) {
  index->set_is_text(true);
  RETURN_IF_ERROR(RunsHeldOut(spec, *index).status());
  RETURN_IF_ERROR(TakeCounts(spec, index));
  if (index->features(0).vocabulary_size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        spec.paths(0), ": wanted a word that is there min_count = ", spec.text().min_count(),
        " times, found none: ", index->rows(), " words"));
  }
  LogInfo("data set: the words of the vocabulary (", index->features(0).vocabulary_size(),
          ") are counted in each block");
  RETURN_IF_ERROR(PlacePass(spec, options, index).Run());
  int64_t places = 0;
  for (const IndexedBlock& block : index->blocks()) places += block.training() + block.validation();
  if (places == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        spec.paths(0), ": wanted a word of the model's vocabulary, found none in ", index->rows()));
  }
  const auto bytes = static_cast<int64_t>(index->ByteSizeLong());
  if (bytes <= options.most_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("data set: the index of the text, which each worker gets, takes ",
                   BytesText(bytes), ": wanted at most ", BytesText(options.most_bytes),
                   ", so a larger min_count or larger blocks (dataset.block_bytes)"));
}

}  // namespace coxswain::data
