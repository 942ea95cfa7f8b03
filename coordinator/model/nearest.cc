#include "coordinator/model/nearest.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/onednn_matmul.h"
#include "runtime/base/status.h"

namespace coxswain::model {
namespace {

// A block of rows by a block of queries: both operands and the product stay in the cache.
constexpr int64_t kRows = 1024;
constexpr int64_t kQueries = 256;

bool Before(const Neighbour& a, const Neighbour& b) {
  return a.cosine != b.cosine ? a.cosine > b.cosine : a.id < b.id;
}

// 1 / length, 0 when there is no direction.
float InverseNorm(const float* row, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(row[i]) * row[i];
  const double inverse = 1 / std::sqrt(sum);
  return std::isfinite(sum) && std::isfinite(inverse) ? static_cast<float>(inverse) : 0;
}

// The best so far: a heap with the worst of them on top.
class Best {
 public:
  Best(int64_t top, const NearestQuery& query)
      : top_(static_cast<size_t>(top)), exclude_(query.exclude), answers_(query.answers) {
    std::sort(exclude_.begin(), exclude_.end());
  }

  void Offer(int64_t id, float cosine) {
    const Neighbour found{id, cosine};
    if (heap_.size() == top_ && !Before(found, heap_.front())) return;
    if (std::binary_search(exclude_.begin(), exclude_.end(), id)) return;
    if (answers_ != nullptr && !answers_(id)) return;
    if (heap_.size() == top_) {
      std::pop_heap(heap_.begin(), heap_.end(), Before);
      heap_.pop_back();
    }
    heap_.push_back(found);
    std::push_heap(heap_.begin(), heap_.end(), Before);
  }
  std::vector<Neighbour> Take() {
    std::sort_heap(heap_.begin(), heap_.end(), Before);
    return std::move(heap_);
  }

 private:
  const size_t top_;
  std::vector<int64_t> exclude_;
  std::function<bool(int64_t id)> answers_;
  std::vector<Neighbour> heap_;
};

class Scan {
 public:
  Scan(int64_t dim, env::ComputePool* pool) : dim_(dim), pool_(pool) {}

  absl::Status AddQueries(const std::vector<NearestQuery>& queries, int64_t top) {
    for (const NearestQuery& query : queries) {
      if (static_cast<int64_t>(query.vector.size()) != dim_) {
        return absl::InvalidArgumentError(
            absl::StrCat("wanted a vector of ", dim_, " numbers, got ", query.vector.size()));
      }
      const float scale = InverseNorm(query.vector.data(), dim_);
      has_direction_.push_back(scale != 0);
      for (float v : query.vector) vectors_.push_back(scale == 0 ? 0 : v * scale);
      best_.emplace_back(top, query);
    }
    return absl::OkStatus();
  }

  absl::Status AddRows(const float* rows, const int64_t* ids, int64_t n) {
    inverse_.resize(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) inverse_[i] = InverseNorm(rows + i * dim_, dim_);
    const auto queries = static_cast<int64_t>(best_.size());
    product_.resize(static_cast<size_t>(std::min(queries, kQueries) * n));
    for (int64_t q = 0; q < queries; q += kQueries) {
      const int64_t m = std::min(kQueries, queries - q);
      kernels::MatMulProblem problem;
      problem.m = m;
      problem.n = n;
      problem.k = dim_;
      problem.transpose_b = true;
      RETURN_IF_ERROR(kernels::MatMulF32(problem, vectors_.data() + q * dim_, rows, nullptr,
                                         product_.data(), pool_));
      pool_->ParallelFor(m, 16, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          if (!has_direction_[static_cast<size_t>(q + i)]) continue;
          const float* dots = product_.data() + i * n;
          Best& best = best_[static_cast<size_t>(q + i)];
          for (int64_t r = 0; r < n; ++r) {
            if (inverse_[r] != 0) best.Offer(ids[r], dots[r] * inverse_[r]);
          }
        }
      });
    }
    return absl::OkStatus();
  }

  std::vector<std::vector<Neighbour>> Take() {
    std::vector<std::vector<Neighbour>> all;
    for (Best& best : best_) all.push_back(best.Take());
    return all;
  }

 private:
  const int64_t dim_;
  env::ComputePool* const pool_;
  std::vector<float> vectors_;  // of all queries, of length 1
  std::vector<char> has_direction_;
  std::vector<Best> best_;
  std::vector<float> inverse_, product_;
};

}  // namespace

absl::StatusOr<std::vector<std::vector<Neighbour>>> NearestRows(
    const RowScan& rows, const std::vector<NearestQuery>& queries, int64_t top,
    env::ComputePool* pool) {
  if (top < 1) return absl::InvalidArgumentError(absl::StrCat("wanted at least 1, got ", top));
  Scan scan(rows.dim, pool);
  RETURN_IF_ERROR(scan.AddQueries(queries, top));
  RETURN_IF_ERROR(rows.run([&](const float* values, const int64_t* ids, int64_t n) -> absl::Status {
    for (int64_t begin = 0; begin < n; begin += kRows) {
      RETURN_IF_ERROR(
          scan.AddRows(values + begin * rows.dim, ids + begin, std::min(kRows, n - begin)));
    }
    return absl::OkStatus();
  }));
  return scan.Take();
}

absl::StatusOr<std::vector<std::vector<Neighbour>>> NearestRows(
    const SavedRows& rows, const std::vector<NearestQuery>& queries, int64_t top,
    env::ComputePool* pool) {
  return NearestRows(ScanSaved(&rows), queries, top, pool);
}

}  // namespace coxswain::model
