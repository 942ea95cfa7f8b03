// Bytes as a frame of zstd. Tests that include this link coxswain_zstd.
#pragma once

#include <zstd.h>

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/string_view.h"

namespace coxswain {

inline std::string ZstdBytes(absl::string_view content) {
  std::string packed(ZSTD_compressBound(content.size()), '\0');
  const size_t size =
      ZSTD_compress(packed.data(), packed.size(), content.data(), content.size(), 3);
  REQUIRE(ZSTD_isError(size) == 0);
  packed.resize(size);
  return packed;
}

}  // namespace coxswain
