// A checkpoint's manifest. The input is its JSON up to the checksum, which is put right here, so
// that what is behind it is reached; and once more as it is.
#include "runtime/checkpoint/manifest.h"

#include "absl/strings/str_cat.h"
#include "runtime/checkpoint/crc32.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using coxswain::checkpoint::ParseManifest;
  const absl::string_view text = coxswain::fuzz::Text(data, size);
  static_cast<void>(ParseManifest(text, "manifest.json"));
  // As the text of a whole one: up to the checksum's line, or to the closing brace.
  absl::string_view body = text.substr(0, text.rfind(",\n  \"crc32\": "));
  if (body.size() == text.size()) body = text.substr(0, text.rfind("\n}"));
  const std::string sealed = absl::StrCat(
      body, ",\n  \"crc32\": ", coxswain::checkpoint::Crc32(0, body.data(), body.size()), "\n}\n");
  const auto manifest = ParseManifest(sealed, "manifest.json");
  if (!manifest.ok()) return 0;
  const std::string written = ToJson(*manifest);
  const auto again = ParseManifest(written, "manifest.json");
  if (!again.ok()) coxswain::fuzz::Broken(again.status().ToString());
  if (ToJson(*again) != written) coxswain::fuzz::Broken("a manifest does not come back as it was");
  return 0;
}
