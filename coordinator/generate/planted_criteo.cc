#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/generate/planted_data.h"
#include "coordinator/generate/zipf.h"
#include "nlohmann/json.hpp"
#include "runtime/data/criteo.h"

namespace coxswain::generate {
namespace {

constexpr int64_t kMostIds = int64_t{1} << 40;
constexpr double kBias = -1.4;
// Deviations of the parts of the log odds.
constexpr double kNumbersPart = 0.5, kWordsPart = 0.7, kPairsPart = 1.2;
constexpr int kVectorSize = 4;
constexpr int kPairedWords = data::kCriteoWords / 2;
constexpr int kPairs = kPairedWords * (kPairedWords - 1) / 2;

enum Stream : uint64_t { kRows = 1, kWords, kEffects };

// A number in (-sqrt(3), sqrt(3)), of deviation 1, from uniform bits.
double Effect(uint64_t bits) {
  return (static_cast<double>(bits >> 12) * 0x1p-51 - 1) * 1.7320508075688772;
}

struct NumberColumn {
  double mean, deviation;  // of the logarithm
  double missing;          // share of empty fields
  double effect;
};

struct WordColumn {
  uint64_t word_key, effect_key;
  int64_t ids;
  Zipf ranks;
  double missing;
  bool paired;
};

class PlantedCriteo final : public PlantedData {
 public:
  explicit PlantedCriteo(const CriteoOptions& options) : options_(options) {
    row_key_ = data::HashPair(options.seed, kRows);
    for (int i = 0; i < data::kCriteoNumbers; ++i) {
      NumberColumn& c = numbers_[i];
      c.mean = 0.4 * i;
      c.deviation = 0.6 + 0.1 * (i % 5);
      c.missing = 0.1 * (i % 4);
      c.effect = (i % 2 == 0 ? 1 : -1) * kNumbersPart / std::sqrt(double{data::kCriteoNumbers});
    }
    for (int i = 0; i < data::kCriteoWords; ++i) {
      // From 3 ids to all of them in equal steps of the logarithm; 7 mixes large and small.
      const int order = i * 7 % data::kCriteoWords;
      const double share = order / double{data::kCriteoWords - 1};
      const double ids = 3 * std::pow(static_cast<double>(options.ids) / 3, share);
      const int64_t count = std::max<int64_t>(1, std::llround(ids));
      const uint64_t column = static_cast<uint64_t>(i);
      words_.push_back({data::HashPair(data::HashPair(options.seed, kWords), column),
                        data::HashPair(data::HashPair(options.seed, kEffects), column), count,
                        Zipf(count, options.zipf), i % 3 == 2 ? 0.05 : 0.0, order % 2 == 0});
    }
  }

  void AddRow(int64_t row, std::string* text, Truth* truth) const override {
    RowRandom random(row_key_, row);
    const size_t begin = text->size();
    text->push_back('0');
    const double logit = kBias + AddNumbers(&random, text) + AddWords(&random, text);
    text->push_back('\n');
    const bool label = random.Uniform() < 1 / (1 + std::exp(-logit));
    if (label) (*text)[begin] = '1';
    truth->clicks.Add(logit, label);
  }

  void Describe(const Truth& truth, nlohmann::ordered_json* json) const override {
    const ClickTruth& clicks = truth.clicks;
    (*json)["kind"] = "criteo";
    (*json)["seed"] = options_.seed;
    (*json)["zipf"] = options_.zipf;
    (*json)["ids"] = options_.ids;
    (*json)["rows"] = clicks.rows();
    (*json)["positives"] = clicks.positives();
    (*json)["auc"] = clicks.auc();
    (*json)["logloss"] = clicks.log_loss();
    (*json)["drawn_auc"] = clicks.drawn_auc();
    (*json)["drawn_logloss"] = clicks.drawn_log_loss();
  }

  std::string Summary(const Truth& truth) const override {
    const ClickTruth& clicks = truth.clicks;
    return absl::StrFormat("auc %.4f, logloss %.4f; %.1f%% of the labels are 1", clicks.auc(),
                           clicks.log_loss(),
                           100.0 * static_cast<double>(clicks.positives()) /
                               static_cast<double>(std::max<int64_t>(1, clicks.rows())));
  }

 private:
  double AddNumbers(RowRandom* random, std::string* text) const {
    double logit = 0;
    for (const NumberColumn& c : numbers_) {
      text->push_back('\t');
      int64_t value = 0;
      if (random->Uniform() >= c.missing) {
        value = static_cast<int64_t>(std::exp(c.mean + c.deviation * random->Normal()));
        absl::StrAppend(text, value);
      }
      // An empty field counts as 0, as it does for who reads it.
      logit += c.effect * (std::log1p(static_cast<double>(value)) - c.mean) / c.deviation;
    }
    return logit;
  }

  double AddWords(RowRandom* random, std::string* text) const {
    static constexpr char kHex[] = "0123456789abcdef";
    double linear = 0;
    std::array<int, kVectorSize> sums{};
    for (const WordColumn& c : words_) {
      text->push_back('\t');
      uint64_t word = ~uint64_t{0};  // of an empty field
      const int64_t rank = c.ranks.Draw(random);
      if (c.missing == 0 || random->Uniform() >= c.missing) {
        word = data::HashPair(c.word_key, static_cast<uint64_t>(rank)) & 0xffffffffu;
        for (int shift = 28; shift >= 0; shift -= 4) text->push_back(kHex[word >> shift & 15]);
      }
      const uint64_t effects = data::HashPair(c.effect_key, word);
      linear += Effect(effects);
      if (!c.paired) continue;
      const uint64_t signs = Mix64(effects);
      for (int k = 0; k < kVectorSize; ++k) sums[k] += (signs >> k & 1) != 0 ? 1 : -1;
    }
    // The sum over pairs, of vectors of signs, from the square of their sum.
    double pairs = -double{kPairedWords} * kVectorSize;
    for (const int sum : sums) pairs += double{1} * sum * sum;
    return linear * kWordsPart / std::sqrt(double{data::kCriteoWords}) +
           pairs / 2 * kPairsPart / std::sqrt(double{kPairs} * kVectorSize);
  }

  const CriteoOptions options_;
  uint64_t row_key_;
  std::array<NumberColumn, data::kCriteoNumbers> numbers_;
  std::vector<WordColumn> words_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PlantedData>> NewPlantedCriteo(const CriteoOptions& options) {
  if (!(options.zipf >= 0 && options.zipf <= 10)) {
    return absl::InvalidArgumentError(absl::StrCat("--zipf: wanted 0 to 10, found ", options.zipf));
  }
  if (options.ids < 3 || options.ids > kMostIds) {
    return absl::InvalidArgumentError(absl::StrCat("--ids: wanted 3 to 2^40, found ", options.ids));
  }
  return std::unique_ptr<PlantedData>(new PlantedCriteo(options));
}

}  // namespace coxswain::generate
