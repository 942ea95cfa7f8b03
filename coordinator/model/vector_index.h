// An approximate index of vectors by inner product: HNSW (Malkov and Yashunin, 2018), by hnswlib.
// A search looks at some hundreds of vectors in place of all of them, and may miss some of the
// best.
//
// The graph is that of the products themselves, also where vectors differ in length (Morozov and
// Babenko, 2018). Making them equally long by one more number is what theory wants. On clustered
// vectors (bench_index) a search then has to be 16 times as wide for less recall; but where lengths
// differ much, short vectors cannot be reached without it. So whoever searches vectors of different
// lengths tries both (predict/recommender_index.cc).
//
// hnswlib's headers define functions that are not inline: only vector_index.cc includes them.
//
// Thread model: one thread adds; then immutable, and Search is thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/env/file_system.h"

namespace coxswain::model {

class VectorIndex {
 public:
  struct Found {
    int64_t id = 0;
    float product = 0;
  };

  // For at most `capacity` vectors of `dim` numbers. `beam`: of searches while it is built; a wider
  // one takes longer and makes a better graph. Memory: about 4 dim + 250 bytes for each vector.
  // Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<VectorIndex>> Create(int64_t dim, int64_t capacity,
                                                             int64_t beam = 120);
  ~VectorIndex();

  // A vector that is not finite is left out. Errors: ResourceExhausted.
  absl::Status Add(int64_t id, const float* vector);
  // Of the best `top` ids that are not left out, most, best first. `left_out`: sorted. `beam`: how
  // many candidates are kept on the way to ten; more take longer and miss less. More are kept for
  // each id that is left out, or is wanted beyond ten. Errors: ResourceExhausted.
  absl::StatusOr<std::vector<Found>> Search(const float* query, int64_t top, int64_t beam,
                                            absl::Span<const int64_t> left_out = {}) const;

  // Writes what hnswlib's loadIndex reads (in Python: space "ip"; "cosine" for vectors of
  // length 1). Errors: those of the file.
  absl::Status Write(env::WritableFile* file) const;

  int64_t size() const { return size_; }
  int64_t dim() const { return dim_; }

 private:
  struct Graph;
  explicit VectorIndex(int64_t dim);

  const int64_t dim_;
  int64_t size_ = 0;
  std::unique_ptr<Graph> graph_;
};

// When an index is built, and how good it must be.
struct IndexOptions {
  int64_t from_rows = 200'000;  // tables with fewer rows are searched exactly
  double recall = 0.95;         // of the ten best
  std::function<bool()> stopped = [] { return false; };  // true ends the building with Cancelled
};

inline constexpr int64_t kRecallAt = 10;
inline constexpr int64_t kManyRecallAt = 100;
inline constexpr int64_t kRecallQueries = 100;

// How good an index is, as measured.
struct IndexQuality {
  int64_t beam = 0;     // with this one
  double recall = 0;    // the share of the exact ten best that are found
  int64_t queries = 0;  // what it was measured on
  // So many answers have the recall that is wanted; for more, nobody has measured it. Products have
  // graphs in which short vectors are hard to reach: the ten best may be found, and the next not.
  int64_t most = kRecallAt;
};

// Makes a vector's length 1. False: it has no direction (zeros, or not finite).
bool Normalize(absl::Span<float> vector);

// A question that an index is measured by.
struct IndexQuery {
  std::vector<float> vector;
  std::vector<int64_t> left_out;  // ids that are no answer, sorted
  std::vector<int64_t> exact;     // the best of the others, best first: kManyRecallAt, or all
};

// The smallest beam with the recall that is wanted, of the ten best, and whether the hundred best
// have it, too. Errors: FailedPrecondition when no beam up to 4096 has it for the ten best.
absl::StatusOr<IndexQuality> ReachRecall(const VectorIndex& index,
                                         const std::vector<IndexQuery>& queries, double recall);

}  // namespace coxswain::model
