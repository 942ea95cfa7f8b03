// The k largest of some values, found in one pass with a heap: most values are turned down by one
// comparison.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace coxswain::kernels {

template <typename T>
struct TopEntry {
  T value;
  int64_t index;
};

// The order of results: largest first, NaN before all numbers, of equal values the lower index
// first. Strict and total, so that heaps and sorting may use it.
template <typename T>
bool ComesBefore(const TopEntry<T>& a, const TopEntry<T>& b) {
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  if (a_nan != b_nan) return a_nan;
  if (!a_nan && a.value != b.value) return a.value > b.value;
  return a.index < b.index;
}

// Thread model: a value. No allocation after the first k entries of its life.
template <typename T>
class TopEntries {
 public:
  // k >= 1.
  explicit TopEntries(int64_t k) : k_(static_cast<size_t>(k)) { heap_.reserve(k_); }

  void Clear() { heap_.clear(); }

  void Add(T value, int64_t index) {
    if (heap_.size() < k_) {
      heap_.push_back({value, index});
      std::push_heap(heap_.begin(), heap_.end(), ComesBefore<T>);
      return;
    }
    if (value < heap_.front().value) return;  // nearly always; false for a NaN on either side
    const TopEntry<T> entry{value, index};
    if (!ComesBefore(entry, heap_.front())) return;
    std::pop_heap(heap_.begin(), heap_.end(), ComesBefore<T>);
    heap_.back() = entry;
    std::push_heap(heap_.begin(), heap_.end(), ComesBefore<T>);
  }

  // Sorts them, best first; at most k, fewer when fewer were added. No Add until the next Clear.
  const std::vector<TopEntry<T>>& Sorted() {
    std::sort_heap(heap_.begin(), heap_.end(), ComesBefore<T>);
    return heap_;
  }

 private:
  size_t k_;
  std::vector<TopEntry<T>> heap_;
};

}  // namespace coxswain::kernels
