#include "runtime/base/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "absl/strings/ascii.h"

namespace coxswain {
namespace {

constexpr size_t kLongestWord = 64;

// Edits (insert, delete, replace, swap of neighbours) that turn a into b.
size_t EditDistance(const std::string& a, const std::string& b) {
  const size_t n = b.size();
  std::vector<size_t> before(n + 1), last(n + 1), now(n + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= n; ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        now[j] = std::min(now[j], before[j - 2] + 1);
      }
    }
    before.swap(last);
    last.swap(now);
  }
  return last[n];
}

}  // namespace

std::string NearestName(absl::string_view word, absl::Span<const std::string> names) {
  std::string nearest;
  if (word.size() > kLongestWord) return nearest;
  const std::string lower = absl::AsciiStrToLower(word);
  size_t best = std::max(size_t{1}, word.size() / 3) + 1;
  for (const std::string& name : names) {
    if (name.size() >= word.size() + best) continue;
    const size_t distance = EditDistance(lower, absl::AsciiStrToLower(name));
    if (distance >= best) continue;
    best = distance;
    nearest = name;
  }
  return nearest;
}

}  // namespace coxswain
