// Loads an index by hnswlib alone, as another program would, and prints the labels of the vectors
// that are nearest to one of its own, nearest first. A program of its own, because hnswlib's
// headers define functions that are not inline.
//
//   hnsw_nearest FILE DIM LABEL COUNT
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

#include "hnswlib/hnswlib.h"

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  try {
    hnswlib::InnerProductSpace space(std::strtoul(argv[2], nullptr, 10));
    hnswlib::HierarchicalNSW<float> index(&space, argv[1]);
    const auto row = index.getDataByLabel<float>(std::strtoul(argv[3], nullptr, 10));
    auto found = index.searchKnn(row.data(), std::strtoul(argv[4], nullptr, 10));
    std::vector<size_t> labels(found.size());
    for (size_t i = found.size(); i-- > 0; found.pop()) labels[i] = found.top().second;
    for (const size_t label : labels) std::printf("%zu\n", label);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
