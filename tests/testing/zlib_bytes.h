// Bytes as a stream of zlib, for tests.
#pragma once

#include <zlib.h>

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/string_view.h"

namespace coxswain {

inline std::string ZlibBytes(absl::string_view text, int level = Z_DEFAULT_COMPRESSION) {
  uLongf size = compressBound(static_cast<uLong>(text.size()));
  std::string packed(size, '\0');
  REQUIRE(compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                    reinterpret_cast<const Bytef*>(text.data()), static_cast<uLong>(text.size()),
                    level) == Z_OK);
  packed.resize(size);
  return packed;
}

}  // namespace coxswain
