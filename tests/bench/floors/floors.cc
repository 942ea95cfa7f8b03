#include "tests/bench/floors/floors.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/onednn_matmul.h"
#include "kernels/cpu/simd.h"
#include "ps_server/storage.h"
#include "runtime/base/status.h"
#include "tests/bench/step/batches.h"

namespace coxswain {
namespace {

// CPU time of this thread: others may use the machine too.
double Now() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Milliseconds of run(i), the best of eight rounds.
template <typename Run>
double BestMs(double seconds, const Run& run) {
  double best = 1e30;
  int64_t calls = 0;
  for (int round = 0; round < 8; ++round) {
    const double begin = Now();
    double now = begin;
    const int64_t before = calls;
    for (; now - begin < seconds / 8 || calls == before; now = Now()) run(calls++);
    best = std::min(best, (now - begin) / static_cast<double>(calls - before));
  }
  return 1e3 * best;
}

int Slots(const StepShape& shape) {
  return shape.optimizer == "sgd" ? 0 : shape.optimizer == "lazy_adam" ? 2 : 1;
}

// One row's update: weights, then the slots beside them. The formulas are those of ps_server.
template <int kSlots>
COX_SIMD_INLINE void UpdateRow(float* __restrict row, const float* __restrict gradient,
                               int64_t dim) {
  float *const a = row + dim, *const b = row + 2 * dim;
  COX_SIMD_LOOP
  for (int64_t j = 0; j < dim; ++j) {
    const float g = gradient[j];
    if constexpr (kSlots == 0) {
      row[j] -= 0.01f * g;
    } else if constexpr (kSlots == 1) {
      a[j] += g * g;
      row[j] -= 0.05f * g / (std::sqrt(a[j]) + 1e-8f);
    } else {
      a[j] = 0.9f * a[j] + 0.1f * g;
      b[j] = 0.999f * b[j] + 0.001f * g * g;
      row[j] -= 0.001f * a[j] / (std::sqrt(b[j]) + 1e-8f);
    }
  }
}

// A row that comes soon: where it begins, at most 8 lines of it, for the rest follows by itself.
constexpr int64_t kAhead = 8;
COX_SIMD_INLINE void Prefetch(const float* row, int64_t values) {
  for (int64_t j = 0; j < std::min<int64_t>(values, 128); j += 16) __builtin_prefetch(row + j, 1);
}

// Rows with their slots, and the distinct ids of each batch as places in it.
struct FlatTable {
  Buffer memory;
  float* rows = nullptr;
  int64_t dim = 0, stride = 0;
  std::vector<std::vector<int64_t>> batches;

  template <int kSlots>
  void Update(size_t batch, const float* gradients) {
    kernels::RunSimd([&]() COX_SIMD_BODY {
      const int64_t* ids = batches[batch].data();
      const int64_t n = static_cast<int64_t>(batches[batch].size());
      for (int64_t i = 0; i < n; ++i) {
        if (i + kAhead < n) Prefetch(rows + ids[i + kAhead] * stride, stride);
        UpdateRow<kSlots>(rows + ids[i] * stride, gradients + i * dim, dim);
      }
    });
  }
  void Gather(size_t batch, float* out) const {
    const std::vector<int64_t>& ids = batches[batch];
    for (size_t i = 0; i < ids.size(); ++i) {
      if (i + kAhead < ids.size()) Prefetch(rows + ids[i + kAhead] * stride, dim);
      std::memcpy(out + static_cast<int64_t>(i) * dim, rows + ids[i] * stride,
                  static_cast<size_t>(dim) * sizeof(float));
    }
  }
};

absl::StatusOr<FlatTable> MakeTable(const TableShape& shape, int slots, const Tensor& ids) {
  FlatTable table;
  table.dim = shape.dim;
  table.stride = shape.dim * (1 + slots);
  ASSIGN_OR_RETURN(
      table.memory,
      ps::AllocateStorage(static_cast<size_t>(shape.rows * table.stride) * sizeof(float)));
  table.rows = reinterpret_cast<float*>(table.memory.data());
  const int64_t n = ids.dim(1);
  for (int64_t b = 0; b < kBatches; ++b) {
    const int64_t* begin = ids.data<int64_t>() + b * n;
    std::vector<int64_t> batch(begin, begin + n);
    std::sort(batch.begin(), batch.end());
    batch.erase(std::unique(batch.begin(), batch.end()), batch.end());
    // In the order of their first use, as they come from a worker: not sorted.
    std::vector<int64_t> order;
    std::vector<bool> seen(batch.size(), false);
    for (int64_t i = 0; i < n; ++i) {
      const auto at = std::lower_bound(batch.begin(), batch.end(), begin[i]) - batch.begin();
      if (!seen[static_cast<size_t>(at)]) order.push_back(begin[i]);
      seen[static_cast<size_t>(at)] = true;
    }
    table.batches.push_back(std::move(order));
  }
  return table;
}

void UpdateTable(FlatTable* table, int slots, size_t batch, const float* gradients) {
  if (slots == 0) {
    table->Update<0>(batch, gradients);
  } else if (slots == 1) {
    table->Update<1>(batch, gradients);
  } else {
    table->Update<2>(batch, gradients);
  }
}

absl::Status MeasureRows(const StepShape& shape, double seconds, Floors* floors) {
  const int slots = Slots(shape);
  const StepBatches batches = MakeBatches(shape);
  std::vector<FlatTable> tables;
  size_t most = 1;
  for (size_t t = 0; t < shape.tables.size(); ++t) {
    ASSIGN_OR_RETURN(FlatTable table, MakeTable(shape.tables[t], slots, batches.ids[t]));
    for (const auto& ids : table.batches) {
      floors->unique_rows += static_cast<double>(ids.size()) / kBatches;
      floors->row_bytes +=
          static_cast<double>(ids.size() * static_cast<size_t>(table.dim)) * 4 / kBatches;
      most = std::max(most, ids.size() * static_cast<size_t>(table.dim));
    }
    tables.push_back(std::move(table));
  }
  // The layers as one more table, of a single row that every batch uses.
  const int64_t dense = DenseValues(shape);
  floors->dense_bytes = static_cast<double>(dense) * 4;
  most = std::max(most, static_cast<size_t>(dense));
  if (dense > 0) {
    ASSIGN_OR_RETURN(FlatTable layers, MakeTable({"layers", 1, dense, 1}, slots,
                                                 Tensor(DType::kI64, Shape{kBatches, 0})));
    for (auto& ids : layers.batches) ids = {0};
    tables.push_back(std::move(layers));
  }
  std::vector<float> out(most, 0.0f), gradients(most, 1e-6f);
  // Once over all, so that every page is there.
  for (size_t b = 0; b < kBatches; ++b) {
    for (FlatTable& table : tables) UpdateTable(&table, slots, b, gradients.data());
  }
  floors->gather_ms = BestMs(seconds, [&](int64_t i) {
    for (const FlatTable& table : tables)
      table.Gather(static_cast<size_t>(i) % kBatches, out.data());
  });
  floors->update_ms = BestMs(seconds, [&](int64_t i) {
    for (FlatTable& table : tables) {
      UpdateTable(&table, slots, static_cast<size_t>(i) % kBatches, gradients.data());
    }
  });
  return absl::OkStatus();
}

// A copy of what no cache holds.
double CopyGbps(double seconds) {
  constexpr size_t kBytes = size_t{192} << 20;
  std::vector<char> from(kBytes, 1), to(kBytes, 2);
  return 2 * static_cast<double>(kBytes) * 1e-6 /
         BestMs(seconds, [&](int64_t) { std::memcpy(to.data(), from.data(), kBytes); });
}

absl::StatusOr<double> ProductMs(const ProductShape& shape, const FloorOptions& options) {
  kernels::MatMulProblem p;
  p.m = shape.m, p.n = shape.n, p.k = shape.k;
  p.bf16 = options.bf16;
  const std::vector<float> a(static_cast<size_t>(p.m * p.k), 0.5f);
  const std::vector<float> b(static_cast<size_t>(p.k * p.n), 0.5f);
  std::vector<float> c(static_cast<size_t>(p.m * p.n));
  absl::Status status;
  const double ms = BestMs(options.seconds / 4, [&](int64_t) {
    status.Update(kernels::MatMulF32(p, a.data(), b.data(), nullptr, c.data(), nullptr));
  });
  RETURN_IF_ERROR(status);
  return ms;
}

absl::Status MeasureProducts(const StepShape& shape, const FloorOptions& options, Floors* floors) {
  const ProductShape large{1024, 1024, 1024};
  ASSIGN_OR_RETURN(const double large_ms, ProductMs(large, options));
  floors->gflops = large.flops() / large_ms * 1e-6;
  for (const ProductShape& product : Products(shape)) {
    floors->flops += product.flops();
    if (product.m == 1 && product.n == 1) {
      floors->products_ms += product.flops() / floors->gflops * 1e-6;
    } else {
      ASSIGN_OR_RETURN(const double ms, ProductMs(product, options));
      floors->products_ms += ms * static_cast<double>(product.count);
    }
  }
  return absl::OkStatus();
}

}  // namespace

double Floors::cpu_ms(const std::string& transport) const {
  const auto it = stream.find(transport);
  return rows_ms() + products_ms + (it == stream.end() ? 0 : it->second.cpu_ms);
}

std::vector<RoundTrip> StepTrips(const Floors& floors) {
  const size_t ids = static_cast<size_t>(floors.unique_rows) * sizeof(int64_t);
  const size_t values = static_cast<size_t>(floors.row_bytes + floors.dense_bytes);
  if (values == 0) return {{0, 0}};
  return {{ids, values}, {ids + values, 0}};
}

absl::StatusOr<Floors> MeasureFloors(const StepShape& shape, const FloorOptions& options) {
  Floors floors;
  if (shape.batch > 0) {
    RETURN_IF_ERROR(MeasureRows(shape, options.seconds, &floors));
    RETURN_IF_ERROR(MeasureProducts(shape, options, &floors));
    floors.memory_gbps = CopyGbps(options.seconds);
    // Gather reads and writes a row. Update reads its gradient, and reads and writes it with slots.
    const double values = floors.row_bytes + floors.dense_bytes;
    floors.memory_ms = values * (2 + 1 + 2 * (1 + Slots(shape))) / floors.memory_gbps * 1e-6;
  }
  if (options.streams) {
    for (const char* transport : kTransports) {
      auto bench = StreamBench::Start(transport);
      RETURN_IF_ERROR(bench.status());
      ASSIGN_OR_RETURN(floors.stream[transport],
                       (*bench)->Measure(StepTrips(floors), options.seconds));
    }
  }
  return floors;
}

}  // namespace coxswain
