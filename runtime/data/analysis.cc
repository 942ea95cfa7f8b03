// Numbers; then vocabularies, names and indices: counted, and ids made of them.
#include "runtime/data/analysis.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/data/names.h"
#include "runtime/data/number_tally.h"

namespace coxswain::data {
namespace {

using proto::FeatureSpec;

std::vector<int64_t> CountTexts(const TableFeature& feature, bool multi_valued,
                                absl::Span<const uint32_t> rows) {
  std::vector<int64_t> counts(static_cast<size_t>(feature.texts.size()), 0);
  const std::vector<int64_t>& offsets = feature.lists.offsets;
  for (const uint32_t row : rows) {
    if (!multi_valued) {
      ++counts[static_cast<size_t>(feature.ids[row])];
      continue;
    }
    for (int64_t i = offsets[row]; i < offsets[row + 1]; ++i) {
      ++counts[static_cast<size_t>(feature.lists.ids[static_cast<size_t>(i)])];
    }
  }
  return counts;
}

IdArray MapIds(const IdArray& ids, absl::Span<const int64_t> map) {
  IdArray mapped;
  for (size_t i = 0; i < ids.size(); ++i) mapped.push_back(map[static_cast<size_t>(ids[i])]);
  return mapped;
}

// Leaves out ids that map to -1, with their weights.
template <typename Map>
RaggedIds MapLists(const RaggedIds& lists, Map map) {
  RaggedIds mapped;
  mapped.offsets.reserve(lists.offsets.size());
  for (size_t row = 0; row + 1 < lists.offsets.size(); ++row) {
    for (int64_t i = lists.offsets[row]; i < lists.offsets[row + 1]; ++i) {
      const size_t at = static_cast<size_t>(i);
      const int64_t id = map(lists.ids[at]);
      if (id < 0) continue;
      mapped.ids.push_back(id);
      if (!lists.weights.empty()) mapped.weights.push_back(lists.weights[at]);
    }
    mapped.offsets.push_back(static_cast<int64_t>(mapped.ids.size()));
  }
  return mapped;
}

}  // namespace

float NumericTransform::Apply(double value) const {
  if (kind == FeatureSpec::LOG1P) {
    return static_cast<float>(std::copysign(std::log1p(std::fabs(value)), value));
  }
  return static_cast<float>((value - shift) / scale);
}

void NumericTransform::ApplyAll(absl::Span<const double> values, float* out) const {
  if (kind != FeatureSpec::LOG1P) {
    for (const double value : values) *out++ = Apply(value);
    return;
  }
  // Most numbers with a logarithm are small counts.
  constexpr int kCounts = 1024;
  static const auto* const counts = [] {
    auto* const logarithms = new std::vector<float>;
    for (int i = 0; i < kCounts; ++i) {
      logarithms->push_back(static_cast<float>(std::log1p(static_cast<double>(i))));
    }
    return logarithms;
  }();
  for (const double value : values) {
    const int count = value > 0 && value < kCounts ? static_cast<int>(value) : 0;
    *out++ = count > 0 && static_cast<double>(count) == value
                 ? (*counts)[static_cast<size_t>(count)]
                 : Apply(value);
  }
}

NumericTransform FixedTransform(const FeatureSpec& feature) {
  NumericTransform transform;
  transform.kind = feature.normalization();
  if (transform.kind == FeatureSpec::DIVIDE) transform.scale = feature.divisor();
  return transform;
}

NumericTransform FitTransform(FeatureSpec::Normalization kind, absl::Span<const double> values,
                              absl::Span<const uint32_t> training_rows) {
  NumberTally tally;
  for (const uint32_t row : training_rows) tally.Add(values[row]);
  return tally.Fit(kind);
}

absl::Status LeftOutError(const FeatureSpec& spec, const std::vector<int64_t>& ids,
                          absl::string_view text, int64_t count, absl::string_view place) {
  return absl::InvalidArgumentError(absl::StrCat(
      "data set: feature ", Quoted(spec.name()), ": the training part, min_count ",
      spec.min_count(), " and max_size ", spec.max_size(), " leave out ",
      std::count(ids.begin(), ids.end(), -1), " of ", ids.size(), " values, such as ", Quoted(text),
      " (in ", count, " training rows; ", place, "); wanted oov_buckets >= 1 for them, found 0"));
}

absl::Status LearnIds(const FeatureSpec& spec, absl::Span<const uint32_t> training_rows,
                      size_t index, Table* table) {
  TableFeature* feature = &table->features[index];
  const std::vector<int64_t> counts = CountTexts(*feature, spec.multi_valued(), training_rows);
  LearnedVocabulary learned = LearnVocabulary(feature->texts, counts, spec.min_count(),
                                              spec.max_size(), spec.oov_buckets(), feature->known);
  if (spec.multi_valued()) {
    feature->lists = MapLists(feature->lists, [&learned](int64_t text) {
      return learned.ids[static_cast<size_t>(text)];
    });
  } else {
    const auto lost = std::find(learned.ids.begin(), learned.ids.end(), -1);
    if (lost != learned.ids.end()) {
      const int64_t text = lost - learned.ids.begin();
      int64_t row = 0;
      while (feature->ids[static_cast<size_t>(row)] != text) ++row;
      return LeftOutError(spec, learned.ids, feature->texts.text(text),
                          counts[static_cast<size_t>(text)], table->places.Of(row));
    }
    feature->ids = MapIds(feature->ids, learned.ids);
  }
  feature->vocabulary = std::move(learned.vocabulary);
  feature->texts = Interner();
  return absl::OkStatus();
}

std::vector<std::string> NamesOf(const Interner& texts, absl::Span<const int64_t> counts,
                                 int64_t known) {
  const LearnedVocabulary learned =
      LearnVocabulary(texts, counts, /*min_count=*/0, /*max_size=*/0, /*oov_buckets=*/0, known);
  return *learned.vocabulary->texts();
}

std::vector<int64_t> HashedIds(const Interner& texts, const Vocabulary& hashes) {
  std::vector<int64_t> ids;
  ids.reserve(static_cast<size_t>(texts.size()));
  for (int64_t i = 0; i < texts.size(); ++i) ids.push_back(*hashes.Find(texts.text(i)));
  return ids;
}

std::vector<std::string> TakeNames(const FeatureSpec& spec,
                                   absl::Span<const uint32_t> training_rows,
                                   TableFeature* feature) {
  const std::vector<int64_t> counts = CountTexts(*feature, spec.multi_valued(), training_rows);
  std::vector<std::string> names = NamesOf(feature->texts, counts, feature->known);
  const std::vector<int64_t> ids = HashedIds(feature->texts, *feature->hashes);
  IdArray* const of_values = spec.multi_valued() ? &feature->lists.ids : &feature->ids;
  *of_values = MapIds(*of_values, ids);
  feature->vocabulary = std::move(feature->hashes);
  feature->texts = Interner();
  return names;
}

void LearnNumbers(int64_t numbers, int64_t first, absl::Span<const uint32_t> training_rows,
                  TableFeature* feature, int64_t least) {
  const RaggedIds& lists = feature->lists;
  int64_t largest = -1;
  for (const uint32_t row : training_rows) {
    for (int64_t i = lists.offsets[row]; i < lists.offsets[row + 1]; ++i) {
      largest = std::max(largest, lists.ids[static_cast<size_t>(i)]);
    }
  }
  if (numbers < 0) numbers = std::max(largest + 1, least);
  for (size_t i = 0; i < lists.ids.size(); ++i) largest = std::max(largest, lists.ids[i]);
  if (largest >= numbers) {
    feature->lists = MapLists(lists, [numbers](int64_t id) { return id < numbers ? id : -1; });
  }
  feature->vocabulary = Vocabulary::OfNumbers(numbers, first);
}

}  // namespace coxswain::data
