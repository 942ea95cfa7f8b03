#include "ps_server/fetched_numbers.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace coxswain::ps {
namespace {

bool IsHex(absl::string_view text) {
  return !text.empty() && text.size() % 2 == 0 &&
         std::all_of(text.begin(), text.end(), [](char c) { return absl::ascii_isxdigit(c); });
}

// SimpleAtoi also takes blanks and signs, which Serialize never writes.
template <typename Int>
bool ParseNumber(absl::string_view text, Int* value) {
  return !text.empty() && absl::ascii_isdigit(text[0]) && absl::SimpleAtoi(text, value);
}

}  // namespace

const std::string* FetchedNumbers::Find(ClosureId closure, uint32_t step, uint32_t key) const {
  const auto found = values_.find({closure, step, key});
  return found == values_.end() ? nullptr : &found->second;
}

void FetchedNumbers::SetLowWater(ClosureId closure) {
  if (values_.empty()) return;
  values_.erase(values_.begin(), values_.lower_bound({closure, 0, 0}));
}

bool FetchedNumbers::AllHave(size_t bytes) const {
  return std::all_of(values_.begin(), values_.end(),
                     [bytes](const auto& value) { return value.second.size() == bytes; });
}

std::string FetchedNumbers::Serialize(const checkpoint::Ledger& ledger) const {
  std::string text;
  for (const auto& [of, bytes] : values_) {
    const auto& [closure, step, key] = of;
    if (!ledger.Contains(closure, step, key)) continue;
    absl::StrAppend(&text, text.empty() ? "" : " ", closure, ":", step, "/", key, "=",
                    absl::BytesToHexString(bytes));
  }
  return text;
}

absl::StatusOr<FetchedNumbers> FetchedNumbers::Parse(absl::string_view text) {
  FetchedNumbers numbers;
  if (text.empty()) return numbers;
  for (absl::string_view part : absl::StrSplit(text, ' ')) {
    const std::pair<absl::string_view, absl::string_view> of =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    const std::pair<absl::string_view, absl::string_view> closure =
        absl::StrSplit(of.first, absl::MaxSplits(':', 1));
    const std::pair<absl::string_view, absl::string_view> update =
        absl::StrSplit(closure.second, absl::MaxSplits('/', 1));
    ClosureId id = 0;
    uint32_t step = 0, key = 0;
    if (!ParseNumber(closure.first, &id) || !ParseNumber(update.first, &step) ||
        !ParseNumber(update.second, &key) || !IsHex(of.second) ||
        numbers.Find(id, step, key) != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("fetched numbers: wanted closure:step/key=value, each once, found '",
                       part.substr(0, 40), "'"));
    }
    numbers.Set(id, step, key, absl::HexStringToBytes(of.second));
  }
  return numbers;
}

}  // namespace coxswain::ps
