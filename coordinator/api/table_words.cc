#include "coordinator/api/table_words.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "protos/variable.pb.h"

namespace coxswain {
namespace {

template <typename Enum>
struct EnumWord {
  Enum value;
  const char* word;
};

constexpr std::array<EnumWord<Sharding>, 3> kShardings = {
    {{Sharding::kMod, "mod"}, {Sharding::kDiv, "div"}, {Sharding::kHash, "hash"}}};
constexpr std::array<EnumWord<Rounding>, 2> kRoundings = {
    {{Rounding::kStochastic, "stochastic"}, {Rounding::kNearest, "nearest"}}};
constexpr std::array<EnumWord<TableDevice>, 3> kDevices = {
    {{TableDevice::kCpu, "cpu"}, {TableDevice::kGpu, "gpu"}, {TableDevice::kDisk, "disk"}}};
constexpr std::array<EnumWord<Combiner>, 3> kCombiners = {
    {{Combiner::kSum, "sum"}, {Combiner::kMean, "mean"}, {Combiner::kSqrtN, "sqrtn"}}};

template <typename Words, typename Enum>
const char* WordOf(const Words& words, Enum value) {
  for (const auto& entry : words) {
    if (entry.value == value) return entry.word;
  }
  return "unknown";  // no enumerator
}

template <typename Enum, typename Words>
absl::StatusOr<Enum> Parse(const Words& words, const char* what, absl::string_view word) {
  for (const auto& entry : words) {
    if (word == entry.word) return entry.value;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      what, ": wanted one of ",
      absl::StrJoin(words, ", ", [](std::string* out, const auto& e) { out->append(e.word); }),
      ", found '", word, "'"));
}

}  // namespace

const char* Word(Sharding sharding) { return WordOf(kShardings, sharding); }
const char* Word(Rounding rounding) { return WordOf(kRoundings, rounding); }
const char* Word(TableDevice device) { return WordOf(kDevices, device); }
const char* Word(Combiner combiner) { return WordOf(kCombiners, combiner); }

absl::StatusOr<Sharding> ParseSharding(absl::string_view word) {
  return Parse<Sharding>(kShardings, "sharding", word);
}
absl::StatusOr<Rounding> ParseRounding(absl::string_view word) {
  return Parse<Rounding>(kRoundings, "rounding", word);
}
absl::StatusOr<TableDevice> ParseTableDevice(absl::string_view word) {
  return Parse<TableDevice>(kDevices, "device", word);
}
absl::StatusOr<Combiner> ParseCombiner(absl::string_view word) {
  return Parse<Combiner>(kCombiners, "combiner", word);
}

proto::HashTableSpec ToProto(const HashTableOptions& options) {
  proto::HashTableSpec spec;
  spec.set_min_count(options.min_count);
  spec.set_admission_probability(options.admission_probability);
  spec.set_ttl_steps(options.ttl_steps);
  spec.set_ttl_seconds(options.ttl_seconds);
  spec.set_max_rows(options.max_rows);
  if (options.evict == HashTableOptions::Evict::kRecency) spec.set_evict("recency");
  if (options.evict == HashTableOptions::Evict::kFrequency) spec.set_evict("frequency");
  return spec;
}

HashTableOptions FromProto(const proto::HashTableSpec& spec) {
  HashTableOptions options;
  options.min_count = spec.min_count();
  options.admission_probability = spec.admission_probability();
  options.ttl_steps = spec.ttl_steps();
  options.ttl_seconds = spec.ttl_seconds();
  options.max_rows = spec.max_rows();
  if (spec.evict() == "recency") options.evict = HashTableOptions::Evict::kRecency;
  if (spec.evict() == "frequency") options.evict = HashTableOptions::Evict::kFrequency;
  return options;
}

}  // namespace coxswain
