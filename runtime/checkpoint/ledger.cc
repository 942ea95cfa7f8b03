#include "runtime/checkpoint/ledger.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/base/status.h"

namespace coxswain::checkpoint {
namespace {

uint64_t Pack(uint32_t step, uint32_t key) { return static_cast<uint64_t>(step) << 32 | key; }

absl::Status Malformed(absl::string_view what, absl::string_view found) {
  return absl::InvalidArgumentError(
      absl::StrCat("ledger: wanted ", what, ", found '", found.substr(0, 40), "'"));
}

// SimpleAtoi also takes blanks and signs, which Serialize never writes.
template <typename Int>
bool ParseNumber(absl::string_view text, Int* value) {
  return !text.empty() && text[0] >= '0' && text[0] <= '9' && absl::SimpleAtoi(text, value);
}

}  // namespace

bool Ledger::Contains(ClosureId closure, uint32_t step, uint32_t key) const {
#ifdef COXSWAIN_MUTATE_LEDGER  // a build that must fail the simulator's tests
  return false;
#endif
  if (closure < low_water_) return true;
  const auto found = entries_.find(closure);
  if (found == entries_.end()) return false;
  return std::binary_search(found->second.begin(), found->second.end(), Pack(step, key));
}

bool Ledger::Insert(ClosureId closure, uint32_t step, uint32_t key) {
#ifdef COXSWAIN_MUTATE_LEDGER
  return true;
#endif
  if (closure < low_water_) return false;
  Keys& keys = entries_[closure];
  const uint64_t packed = Pack(step, key);
  const auto at = std::lower_bound(keys.begin(), keys.end(), packed);
  if (at != keys.end() && *at == packed) return false;
  keys.insert(at, packed);
  ++size_;
  return true;
}

void Ledger::SetLowWater(ClosureId closure) {
  if (closure <= low_water_) return;
  const auto forget = [this](auto found) {
    size_ -= static_cast<int64_t>(found->second.size());
    entries_.erase(found);
  };
  if (closure - low_water_ <= entries_.size()) {  // the usual case: a few closures at a time
    for (ClosureId id = low_water_; id < closure; ++id) {
      const auto found = entries_.find(id);
      if (found != entries_.end()) forget(found);
    }
  } else {
    for (auto it = entries_.begin(); it != entries_.end();) {
      const auto found = it++;
      if (found->first < closure) forget(found);
    }
  }
  low_water_ = closure;
}

void Ledger::Clear() {
  low_water_ = 0;
  entries_.clear();
  size_ = 0;
}

std::string Ledger::Serialize() const {
  std::vector<ClosureId> closures;
  closures.reserve(entries_.size());
  for (const auto& entry : entries_) closures.push_back(entry.first);
  std::sort(closures.begin(), closures.end());
  std::string text = absl::StrCat(low_water_);
  for (ClosureId closure : closures) {
    absl::StrAppend(&text, " ", closure);
    char separator = ':';
    for (uint64_t packed : entries_.at(closure)) {
      text += separator;
      absl::StrAppend(&text, packed >> 32, "/", packed & 0xffffffffu);
      separator = ',';
    }
  }
  return text;
}

absl::StatusOr<Ledger> Ledger::Parse(absl::string_view text) {
  Ledger ledger;
  bool first = true;
  for (absl::string_view part : absl::StrSplit(text, ' ')) {
    if (std::exchange(first, false)) {
      if (!ParseNumber(part, &ledger.low_water_)) return Malformed("a low-water mark", part);
      continue;
    }
    const std::pair<absl::string_view, absl::string_view> closure =
        absl::StrSplit(part, absl::MaxSplits(':', 1));
    ClosureId id = 0;
    if (closure.second.empty() || !ParseNumber(closure.first, &id)) {
      return Malformed("closure:step/key,...", part);
    }
    for (absl::string_view update : absl::StrSplit(closure.second, ',')) {
      const std::pair<absl::string_view, absl::string_view> fields =
          absl::StrSplit(update, absl::MaxSplits('/', 1));
      uint32_t step = 0, key = 0;
      if (!ParseNumber(fields.first, &step) || !ParseNumber(fields.second, &key)) {
        return Malformed("step/key", update);
      }
      if (!ledger.Insert(id, step, key)) {
        return Malformed("each update once, at or above the low-water mark", part);
      }
    }
  }
  return ledger;
}

}  // namespace coxswain::checkpoint
