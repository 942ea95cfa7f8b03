// The log: entries of a code in 7 bits a byte, 0 for the end of a row, 1 for a number, which
// follows, and 2 more than its length for a text.
#include "runtime/data/row_chain.h"

namespace coxswain::data {
namespace {

constexpr uint64_t kEnd = 0, kNumber = 1, kText = 2;

void Append(uint64_t code, std::string* log) {
  for (; code >= 0x80; code >>= 7) log->push_back(static_cast<char>(code | 0x80));
  log->push_back(static_cast<char>(code));
}

uint64_t TakeCode(absl::string_view* log) {
  uint64_t code = 0;
  for (int shift = 0; !log->empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(log->front());
    log->remove_prefix(1);
    code |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) break;
  }
  return code;
}

}  // namespace

void RowChain::LogText(absl::string_view text) {
  Append(kText + text.size(), log_);
  log_->append(text.data(), text.size());
}

void RowChain::LogNumber(uint64_t number) {
  Append(kNumber, log_);
  Append(number, log_);
}

void RowChain::LogEnd() { Append(kEnd, log_); }

void RowChain::AddLogged(absl::string_view log) {
  while (!log.empty()) {
    const uint64_t code = TakeCode(&log);
    if (code == kEnd) {
      EndRow();
    } else if (code == kNumber) {
      AddNumber(TakeCode(&log));
    } else {
      const auto size = static_cast<size_t>(code - kText);
      Add(log.substr(0, size));
      log.remove_prefix(size);
    }
  }
}

}  // namespace coxswain::data
