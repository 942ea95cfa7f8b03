// The checksum of files: zlib's CRC-32.
#pragma once

#include <cstddef>
#include <cstdint>

namespace coxswain::checkpoint {

// Of `bytes` more bytes, continued from `crc` (0 to begin). Where the processor multiplies without
// carry, several times as fast as zlib's own.
uint32_t Crc32(uint32_t crc, const void* data, size_t bytes);

}  // namespace coxswain::checkpoint
