#include "runtime/base/bytes_text.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace coxswain {

std::string BytesText(int64_t bytes) {
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " bytes");
  double size = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; size >= 1024 && unit < 3; ++unit) size /= 1024;
  return absl::StrFormat("%.4g %s", size, units[unit]);
}

}  // namespace coxswain
