#include "runtime/data/tfrecord_writer.h"

#include <cstddef>
#include <cstdint>

#include "runtime/data/crc32c.h"

namespace coxswain::data {
namespace {

template <typename Number>
void AppendLittleEndian(Number number, std::string* out) {
  for (size_t i = 0; i < sizeof(Number); ++i) *out += static_cast<char>(number >> (8 * i) & 255);
}

}  // namespace

void AppendTfRecord(absl::string_view bytes, std::string* out) {
  const size_t header = out->size();
  AppendLittleEndian(uint64_t{bytes.size()}, out);
  AppendLittleEndian(MaskedCrc32c(absl::string_view(*out).substr(header)), out);
  out->append(bytes.data(), bytes.size());
  AppendLittleEndian(MaskedCrc32c(bytes), out);
}

}  // namespace coxswain::data
