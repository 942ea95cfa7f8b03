#include "runtime/data/skip_gram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/data/hash.h"

namespace coxswain::data {
namespace {

constexpr double kAlways = 4294967296.0;  // 2^32

ColumnSpec Spec(std::string name, DType dtype) {
  return {std::move(name), {dtype, Shape{kUnknownDim}}};
}

}  // namespace

// A place that stays.
struct SkipGramColumn::Kept {
  int32_t word;
  uint32_t draw;     // for the window
  int64_t sentence;  // the same number: the same sentence
};

struct SkipGramColumn::Pairs {
  std::vector<int64_t> centers, contexts;
  std::vector<float> counts;
  std::vector<int32_t> center_of;
};

SkipGramColumn::SkipGramColumn(std::vector<int32_t> tokens, TextParts parts,
                               const std::vector<int64_t>& counts,
                               const proto::TextOptions& options)
    : tokens_(std::move(tokens)), parts_(std::move(parts)), window_(options.window()) {
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  thresholds_.reserve(counts.size());
  for (const int64_t count : counts) {
    double keep = 1;
    if (options.subsample() > 0) {
      const double ratio = options.subsample() * total / static_cast<double>(count);  // t / f
      keep = std::min(1.0, std::sqrt(ratio) + ratio);
    }
    thresholds_.push_back(static_cast<uint64_t>(keep * kAlways));
  }
}

double SkipGramColumn::KeepProbability(int64_t word) const {
  return static_cast<double>(thresholds_[static_cast<size_t>(word)]) / kAlways;
}

void SkipGramColumn::Describe(std::vector<ColumnSpec>* specs) const {
  specs->push_back(Spec("center", DType::kI64));
  specs->push_back(Spec("center.pairs", DType::kF32));
  specs->push_back(Spec("context", DType::kI64));
  specs->push_back(Spec("context.center", DType::kI32));
}

uint64_t SkipGramColumn::Draw(uint64_t epoch_key, int64_t place) const {
  return Mix64(epoch_key + static_cast<uint64_t>(place) * 0xd6e8feb86659fd93u);
}

bool SkipGramColumn::Keeps(uint64_t draw, int64_t place) const {
  const int32_t word = Text::Word(tokens_[static_cast<size_t>(place)]);
  return draw >> 32 < thresholds_[static_cast<size_t>(word)];
}

// Up to `window` places that stay, from `from` on in the direction of `step`, within its sentence
// and `part`. They have sentence 0.
void SkipGramColumn::AddMargin(uint64_t epoch_key, Part part, int64_t from, int step,
                               std::vector<Kept>* kept) const {
  const size_t enough = kept->size() + static_cast<size_t>(window_);
  for (int64_t place = from; place >= 0 && place < places() && kept->size() < enough;
       place += step) {
    if (parts_.Of(place) != part) return;
    // Going back, the place before is of this sentence unless it ends one.
    const int32_t token = tokens_[static_cast<size_t>(place)];
    if (step < 0 && Text::EndsSentence(token)) return;
    const uint64_t draw = Draw(epoch_key, place);
    if (Keeps(draw, place)) kept->push_back({Text::Word(token), 0, 0});
    if (step > 0 && Text::EndsSentence(token)) return;
  }
}

// The pairs of the places [begin, end).
void SkipGramColumn::AddRun(uint64_t epoch_key, int64_t begin, int64_t end, std::vector<Kept>* kept,
                            Pairs* pairs) const {
  kept->clear();
  const Part part = parts_.Of(begin);
  AddMargin(epoch_key, part, begin - 1, -1, kept);
  std::reverse(kept->begin(), kept->end());
  const size_t first = kept->size();
  int64_t sentence = 0;
  for (int64_t place = begin; place < end; ++place) {
    const int32_t token = tokens_[static_cast<size_t>(place)];
    const uint64_t draw = Draw(epoch_key, place);
    if (Keeps(draw, place)) {
      kept->push_back({Text::Word(token), static_cast<uint32_t>(draw), sentence});
    }
    if (Text::EndsSentence(token)) ++sentence;
  }
  const size_t last = kept->size();
  if (!Text::EndsSentence(tokens_[static_cast<size_t>(end - 1)])) {
    AddMargin(epoch_key, part, end, 1, kept);
    for (size_t i = last; i < kept->size(); ++i) (*kept)[i].sentence = sentence;
  }
  for (size_t i = first; i < last; ++i) {
    const Kept& center = (*kept)[i];
    const size_t reach =
        1 + static_cast<size_t>((uint64_t{center.draw} * static_cast<uint64_t>(window_)) >> 32);
    const size_t from = i > reach ? i - reach : 0;
    const size_t to = std::min(kept->size(), i + reach + 1);
    const size_t before = pairs->contexts.size();
    for (size_t j = from; j < to; ++j) {
      if (j == i || (*kept)[j].sentence != center.sentence) continue;
      pairs->contexts.push_back((*kept)[j].word);
      pairs->center_of.push_back(static_cast<int32_t>(pairs->centers.size()));
    }
    if (pairs->contexts.size() == before) continue;
    pairs->centers.push_back(center.word);
    pairs->counts.push_back(static_cast<float>(pairs->contexts.size() - before));
  }
}

absl::Status SkipGramColumn::Gather(const BatchRows& rows, Batch* batch) const {
  std::vector<Kept> kept;
  Pairs pairs;
  const size_t places = rows.rows.size();
  for (size_t i = 0; i < places;) {
    size_t next = i + 1;
    while (next < places && rows.rows[next] == rows.rows[next - 1] + 1) ++next;
    AddRun(rows.epoch_key, rows.rows[i], int64_t{rows.rows[next - 1]} + 1, &kept, &pairs);
    i = next;
    if (pairs.contexts.size() > std::numeric_limits<int32_t>::max()) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "a batch of ", places, " places of the text has more than 2^31 - 1 pairs; make batches ",
          "smaller"));
    }
  }
  batch->push_back(Tensor::FromVector<int64_t>(pairs.centers));
  batch->push_back(Tensor::FromVector<float>(pairs.counts));
  batch->push_back(Tensor::FromVector<int64_t>(pairs.contexts));
  batch->push_back(Tensor::FromVector<int32_t>(pairs.center_of));
  return absl::OkStatus();
}

}  // namespace coxswain::data
