#include "runtime/data/skip_gram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/data/hash.h"

namespace coxswain::data {
namespace {

constexpr double kAlways = 4294967296.0;  // 2^32

ColumnSpec Spec(std::string name, DType dtype) {
  return {std::move(name), {dtype, Shape{kUnknownDim}}};
}

}  // namespace

void DescribeSkipGrams(std::vector<ColumnSpec>* specs) {
  specs->push_back(Spec("center", DType::kI64));
  specs->push_back(Spec("center.pairs", DType::kF32));
  specs->push_back(Spec("context", DType::kI64));
  specs->push_back(Spec("context.center", DType::kI32));
}

// A place that stays.
struct SkipGrams::Kept {
  int32_t word;
  uint32_t draw;     // for the window
  int64_t sentence;  // the same number: the same sentence
};

void SkipGrams::Pairs::MoveTo(Batch* batch) const {
  batch->push_back(Tensor::FromVector<int64_t>(centers));
  batch->push_back(Tensor::FromVector<float>(counts));
  batch->push_back(Tensor::FromVector<int64_t>(contexts));
  batch->push_back(Tensor::FromVector<int32_t>(center_of));
}

SkipGrams::SkipGrams(absl::Span<const int64_t> counts, const proto::TextOptions& options)
    : window_(options.window()) {
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

double SkipGrams::KeepProbability(int64_t word) const {
  return static_cast<double>(thresholds_[static_cast<size_t>(word)]) / kAlways;
}

uint64_t SkipGrams::Draw(uint64_t epoch_key, int64_t place) {
  return Mix64(epoch_key + static_cast<uint64_t>(place) * 0xd6e8feb86659fd93u);
}

// Up to `window` places that stay, from `from` on in the direction of `step`, within its sentence
// and its part. They have sentence 0.
void SkipGrams::AddMargin(uint64_t epoch_key, int64_t from, int step, Around* around,
                          std::vector<Kept>* kept) const {
  const size_t enough = kept->size() + static_cast<size_t>(window_);
  int32_t token = 0;
  for (int64_t place = from; kept->size() < enough && around->At(place, &token); place += step) {
    // Going back, the place before is of this sentence unless it ends one.
    if (step < 0 && Text::EndsSentence(token)) return;
    const int32_t word = Text::Word(token);
    if (Keeps(Draw(epoch_key, place), word)) kept->push_back({word, 0, 0});
    if (step > 0 && Text::EndsSentence(token)) return;
  }
}

absl::Status SkipGrams::AddRun(uint64_t epoch_key, int64_t begin, absl::Span<const int32_t> tokens,
                               Around* around, Pairs* pairs) const {
  std::vector<Kept> kept;
  AddMargin(epoch_key, begin - 1, -1, around, &kept);
  std::reverse(kept.begin(), kept.end());
  const size_t first = kept.size();
  int64_t sentence = 0;
  int64_t place = begin;
  for (const int32_t token : tokens) {
    const uint64_t draw = Draw(epoch_key, place++);
    const int32_t word = Text::Word(token);
    if (Keeps(draw, word)) kept.push_back({word, static_cast<uint32_t>(draw), sentence});
    if (Text::EndsSentence(token)) ++sentence;
  }
  const size_t last = kept.size();
  if (!Text::EndsSentence(tokens.back())) {
    AddMargin(epoch_key, place, 1, around, &kept);
    for (size_t i = last; i < kept.size(); ++i) kept[i].sentence = sentence;
  }
  for (size_t i = first; i < last; ++i) {
    const Kept& center = kept[i];
    const size_t reach =
        1 + static_cast<size_t>((uint64_t{center.draw} * static_cast<uint64_t>(window_)) >> 32);
    const size_t from = i > reach ? i - reach : 0;
    const size_t to = std::min(kept.size(), i + reach + 1);
    const size_t before = pairs->contexts.size();
    for (size_t j = from; j < to; ++j) {
      if (j == i || kept[j].sentence != center.sentence) continue;
      pairs->contexts.push_back(kept[j].word);
      pairs->center_of.push_back(static_cast<int32_t>(pairs->centers.size()));
    }
    if (pairs->contexts.size() == before) continue;
    pairs->centers.push_back(center.word);
    pairs->counts.push_back(static_cast<float>(pairs->contexts.size() - before));
  }
  if (pairs->contexts.size() <= std::numeric_limits<int32_t>::max()) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      "a batch of a text has more than 2^31 - 1 pairs; make batches smaller");
}

SkipGramColumn::SkipGramColumn(std::vector<int32_t> tokens, TextParts parts,
                               const std::vector<int64_t>& counts,
                               const proto::TextOptions& options)
    : tokens_(std::move(tokens)), parts_(std::move(parts)), pairs_(counts, options) {}

class SkipGramColumn::Around final : public SkipGrams::Around {
 public:
  Around(const SkipGramColumn& text, Part part) : text_(text), part_(part) {}
  bool At(int64_t place, int32_t* token) override {
    if (place < 0 || place >= static_cast<int64_t>(text_.tokens_.size())) return false;
    if (text_.parts_.Of(place) != part_) return false;
    *token = text_.tokens_[static_cast<size_t>(place)];
    return true;
  }

 private:
  const SkipGramColumn& text_;
  const Part part_;
};

absl::Status SkipGramColumn::Gather(const BatchRows& rows, Batch* batch) const {
  SkipGrams::Pairs pairs;
  const size_t places = rows.rows.size();
  for (size_t i = 0; i < places;) {
    size_t next = i + 1;
    while (next < places && rows.rows[next] == rows.rows[next - 1] + 1) ++next;
    const int64_t begin = rows.rows[i];
    Around around(*this, parts_.Of(begin));
    RETURN_IF_ERROR(pairs_.AddRun(rows.epoch_key, begin,
                                  absl::MakeConstSpan(tokens_).subspan(rows.rows[i], next - i),
                                  &around, &pairs));
    i = next;
  }
  pairs.MoveTo(batch);
  return absl::OkStatus();
}

}  // namespace coxswain::data
