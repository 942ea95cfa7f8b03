// The checksum of TFRecord files: CRC-32C (Castagnoli), and the mask that the format applies to it.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace coxswain::data {

uint32_t Crc32c(absl::string_view bytes);

// The masked checksum. CRCs of data that contains CRCs are problematic, so the format stores them
// masked.
inline uint32_t MaskedCrc32c(absl::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

}  // namespace coxswain::data
