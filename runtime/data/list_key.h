// What the sample of a list that is longer than max_values is drawn by.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/data/hash.h"

namespace coxswain::data {

// In evaluations, and of rows to predict: by the values themselves, so that what is said of a row
// does not depend on the rows around it. In training it is the example's place in its epoch
// (BatchRows::SampleKey), so that each epoch sees others. `key`: of the data set, see
// SampleStreamKey. `ids`: those of the list, [first, first + size).
template <typename Ids>
uint64_t ListKey(uint64_t key, uint64_t column, const Ids& ids, size_t first, size_t size) {
  uint64_t hash = HashPair(key, column);
  for (size_t i = first; i < first + size; ++i)
    hash = HashPair(hash, static_cast<uint64_t>(ids[i]));
  return hash;
}

}  // namespace coxswain::data
