#include "runtime/env/cut_name.h"

#include <climits>

namespace coxswain::env {

std::string CutName(const std::string& path, size_t more) {
  const size_t slash = path.rfind('/');
  const size_t begin = slash == std::string::npos ? 0 : slash + 1;
  size_t end = begin + (NAME_MAX - more);
  if (path.size() <= end) return path;
  const auto continues = [&](size_t i) {
    return (static_cast<unsigned char>(path[i]) & 0xc0) == 0x80;
  };
  while (end > begin && continues(end)) --end;
  return path.substr(0, end);
}

}  // namespace coxswain::env
