// A shard's ledger as it stands in a manifest.
#include "runtime/checkpoint/ledger.h"

#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using coxswain::checkpoint::Ledger;
  const auto ledger = Ledger::Parse(coxswain::fuzz::Text(data, size));
  if (!ledger.ok()) return 0;
  const std::string text = ledger->Serialize();
  const auto again = Ledger::Parse(text);
  if (!again.ok() || !(*again == *ledger) || again->Serialize() != text) {
    coxswain::fuzz::Broken("a ledger does not come back from its text");
  }
  return 0;
}
