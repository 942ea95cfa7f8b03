#include "coordinator/model/vector_index.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "hnswlib/hnswlib.h"
#include "runtime/base/status.h"

namespace coxswain::model {
namespace {

constexpr size_t kLinks = 16;  // of a vector to others, on each level but the lowest
constexpr int64_t kFirstBeam = 32, kLastBeam = 4096;
// The last of those that a search keeps are the least certain: one more for each does not do.
constexpr int64_t kWiderForEach = 2;

// hnswlib reports that memory does not suffice by exceptions.
template <typename Call>
absl::Status Guarded(const Call& call) {
  try {
    call();
  } catch (const std::exception& e) {
    return absl::ResourceExhaustedError(absl::StrCat("an index of vectors: ", e.what()));
  }
  return absl::OkStatus();
}

// Keeps the first error.
class Writer {
 public:
  explicit Writer(env::WritableFile* file) : file_(file) {}
  template <typename T>
  void Put(const T& value) {
    Put(&value, sizeof(value));
  }
  void Put(const void* data, size_t bytes) {
    if (status_.ok()) status_ = file_->Append(data, bytes);
  }
  const absl::Status& status() const { return status_; }

 private:
  env::WritableFile* const file_;
  absl::Status status_;
};

}  // namespace

bool Normalize(absl::Span<float> vector) {
  double squares = 0;
  for (const float value : vector) squares += double{value} * value;
  const double inverse = 1 / std::sqrt(squares);
  if (!std::isfinite(squares) || !std::isfinite(inverse)) return false;
  for (float& value : vector) value = static_cast<float>(value * inverse);
  return true;
}

struct VectorIndex::Graph {
  Graph(int64_t dim, int64_t capacity, int64_t beam)
      : space(static_cast<size_t>(dim)),
        hnsw(&space, static_cast<size_t>(capacity), kLinks, static_cast<size_t>(beam)) {
    hnsw.setEf(1);  // Search asks for as many as its beam has
  }
  hnswlib::InnerProductSpace space;
  hnswlib::HierarchicalNSW<float> hnsw;
};

VectorIndex::VectorIndex(int64_t dim) : dim_(dim) {}
VectorIndex::~VectorIndex() = default;

absl::StatusOr<std::unique_ptr<VectorIndex>> VectorIndex::Create(int64_t dim, int64_t capacity,
                                                                 int64_t beam) {
  std::unique_ptr<VectorIndex> index(new VectorIndex(dim));
  RETURN_IF_ERROR(Guarded([&] { index->graph_ = std::make_unique<Graph>(dim, capacity, beam); }));
  return index;
}

absl::Status VectorIndex::Add(int64_t id, const float* vector) {
  double squares = 0;
  for (int64_t i = 0; i < dim_; ++i) squares += double{vector[i]} * vector[i];
  if (!std::isfinite(squares)) return absl::OkStatus();
  RETURN_IF_ERROR(Guarded([&] { graph_->hnsw.addPoint(vector, static_cast<size_t>(id)); }));
  ++size_;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<VectorIndex::Found>> VectorIndex::Search(
    const float* query, int64_t top, int64_t beam, absl::Span<const int64_t> left_out) const {
  // Those that are left out are likely to be among the best, and must not take others' places.
  const int64_t wide = beam + kWiderForEach * (static_cast<int64_t>(left_out.size()) +
                                               std::max(int64_t{0}, top - kRecallAt));
  std::vector<Found> found;
  RETURN_IF_ERROR(Guarded([&] {
    auto heap = graph_->hnsw.searchKnn(query, static_cast<size_t>(std::min(wide, size_)));
    found.reserve(heap.size());
    for (; !heap.empty(); heap.pop()) {
      const auto id = static_cast<int64_t>(heap.top().second);
      if (std::binary_search(left_out.begin(), left_out.end(), id)) continue;
      // hnswlib's distance is 1 - the product.
      found.push_back({id, 1 - heap.top().first});
    }
  }));
  // The rounding of 1 - x is coarse where products are small.
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return a.product != b.product ? a.product > b.product : a.id < b.id;
  });
  found.resize(std::min(found.size(), static_cast<size_t>(top)));
  return found;
}

// As hnswlib's saveIndex does, which does not notice a full disk.
absl::Status VectorIndex::Write(env::WritableFile* file) const {
  const hnswlib::HierarchicalNSW<float>& index = graph_->hnsw;
  Writer out(file);
  out.Put(index.offsetLevel0_);
  out.Put(index.max_elements_);
  out.Put(index.cur_element_count);
  out.Put(index.size_data_per_element_);
  out.Put(index.label_offset_);
  out.Put(index.offsetData_);
  out.Put(index.maxlevel_);
  out.Put(index.enterpoint_node_);
  out.Put(index.maxM_);
  out.Put(index.maxM0_);
  out.Put(index.M_);
  out.Put(index.mult_);
  out.Put(index.ef_construction_);
  out.Put(index.data_level0_memory_, index.cur_element_count * index.size_data_per_element_);
  for (size_t i = 0; i < index.cur_element_count; ++i) {
    const auto levels = static_cast<size_t>(index.element_levels_[i]);
    const auto bytes = static_cast<unsigned int>(levels * index.size_links_per_element_);
    out.Put(bytes);
    if (bytes > 0) out.Put(index.linkLists_[i], bytes);
  }
  return out.status();
}

namespace {

// The share of the exact `top` best that a search for so many finds.
absl::StatusOr<double> RecallOf(const VectorIndex& index, const std::vector<IndexQuery>& queries,
                                int64_t top, int64_t beam) {
  int64_t wanted = 0, hit = 0;
  for (const IndexQuery& query : queries) {
    ASSIGN_OR_RETURN(const auto found,
                     index.Search(query.vector.data(), top, beam, query.left_out));
    const auto count = std::min(static_cast<size_t>(top), query.exact.size());
    const absl::flat_hash_set<int64_t> exact(query.exact.begin(),
                                             query.exact.begin() + static_cast<int64_t>(count));
    wanted += static_cast<int64_t>(count);
    for (const VectorIndex::Found& f : found) hit += exact.contains(f.id) ? 1 : 0;
  }
  return wanted == 0 ? 1 : static_cast<double>(hit) / static_cast<double>(wanted);
}

}  // namespace

absl::StatusOr<IndexQuality> ReachRecall(const VectorIndex& index,
                                         const std::vector<IndexQuery>& queries, double recall) {
  IndexQuality quality;
  quality.queries = static_cast<int64_t>(queries.size());
  for (quality.beam = kFirstBeam; quality.beam <= kLastBeam; quality.beam *= 2) {
    ASSIGN_OR_RETURN(quality.recall, RecallOf(index, queries, kRecallAt, quality.beam));
    if (quality.recall < recall) continue;
    ASSIGN_OR_RETURN(const double many, RecallOf(index, queries, kManyRecallAt, quality.beam));
    if (many >= recall) quality.most = kManyRecallAt;
    return quality;
  }
  return absl::FailedPreconditionError(
      absl::StrFormat("the index finds %.3f of the ten best, wanted %.3f", quality.recall, recall));
}

}  // namespace coxswain::model
