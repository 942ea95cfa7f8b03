// Primitives of oneDNN, kept by each thread for the shapes it meets; the instructions that it may
// use; and products cut into parts for the pool, or into panels that stay in the cache.
#include "kernels/cpu/onednn_matmul.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "dnnl.hpp"
#include "kernels/cpu/bf16.h"
#include "kernels/cpu/narrow_product.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/env/without_signals.h"

// Of the OpenMP runtime that oneDNN links; declared here so that no compiler flag is needed.
extern "C" void omp_set_num_threads(int threads);

namespace coxswain::kernels {
namespace {

// A part smaller than this is not worth waking another thread for (about 25 us of one core).
constexpr double kFlopsPerPart = 4e6;
constexpr size_t kCachedPrimitives = 256;
// Where parts must not depend on the pool: how many there are at most, and the rows (or columns)
// of a part, below which oneDNN's own preparations for each are felt: 1 to 5% of CPU time with 128,
// 2 to 11% with 64.
constexpr int64_t kFixedParts = 8, kFixedPartRows = 128;
// Rows of a part are a multiple of this, so that the blocks of oneDNN's kernels stay whole.
constexpr int64_t kRowMultiple = 16;

// What a primitive is made for. It has leading dimensions of its own, because a part of a product
// reads and writes pieces of larger matrices.
struct Key {
  int64_t batch, m, n, k, lda, ldb, ldc;
  bool transpose_a, transpose_b, bias, relu, bf16;

  bool operator==(const Key& o) const {
    return batch == o.batch && m == o.m && n == o.n && k == o.k && lda == o.lda && ldb == o.ldb &&
           ldc == o.ldc && transpose_a == o.transpose_a && transpose_b == o.transpose_b &&
           bias == o.bias && relu == o.relu && bf16 == o.bf16;
  }
  template <typename H>
  friend H AbslHashValue(H h, const Key& key) {
    return H::combine(std::move(h), key.batch, key.m, key.n, key.k, key.lda, key.ldb, key.ldc,
                      key.transpose_a, key.transpose_b, key.bias, key.relu, key.bf16);
  }
};

// A primitive and the memory objects it is called with; only their pointers change between calls.
struct Primitive {
  Primitive(const dnnl::engine& engine, const Key& key);
  void Run(const dnnl::stream& stream, const void* pa, const void* pb, const float* pbias,
           float* pc);

  dnnl::memory a, b, bias, c;
  dnnl::matmul matmul;
  std::unordered_map<int, dnnl::memory> arguments;
};

dnnl::memory::desc Matrix(int64_t batch, int64_t rows, int64_t columns, int64_t leading,
                          bool transposed, bool bf16 = false) {
  using dnnl::memory;
  const memory::dim row = transposed ? 1 : leading;
  const memory::dim column = transposed ? leading : 1;
  const memory::data_type type = bf16 ? memory::data_type::bf16 : memory::data_type::f32;
  if (batch == 1) {
    return memory::desc(memory::dims{rows, columns}, type, memory::dims{row, column});
  }
  // Batched products are never split inside a matrix, so a matrix is dense.
  return memory::desc(memory::dims{batch, rows, columns}, type,
                      memory::dims{rows * columns, row, column});
}

Primitive::Primitive(const dnnl::engine& engine, const Key& key) {
  const auto a_desc = Matrix(key.batch, key.m, key.k, key.lda, key.transpose_a, key.bf16);
  const auto b_desc = Matrix(key.batch, key.k, key.n, key.ldb, key.transpose_b, key.bf16);
  const auto c_desc = Matrix(key.batch, key.m, key.n, key.ldc, false);
  dnnl::primitive_attr attributes;
  if (key.relu) {
    dnnl::post_ops after;
    after.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
    attributes.set_post_ops(after);
  }
  a = dnnl::memory(a_desc, engine, nullptr);
  b = dnnl::memory(b_desc, engine, nullptr);
  c = dnnl::memory(c_desc, engine, nullptr);
  arguments = {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}};
  if (key.bias) {
    const auto bias_desc = key.batch == 1 ? Matrix(1, 1, key.n, key.n, false)
                                          : dnnl::memory::desc(dnnl::memory::dims{1, 1, key.n},
                                                               dnnl::memory::data_type::f32,
                                                               dnnl::memory::dims{key.n, key.n, 1});
    bias = dnnl::memory(bias_desc, engine, nullptr);
    arguments.emplace(DNNL_ARG_BIAS, bias);
    matmul = dnnl::matmul(dnnl::matmul::primitive_desc(
        dnnl::matmul::desc(a_desc, b_desc, bias_desc, c_desc), attributes, engine));
  } else {
    matmul = dnnl::matmul(dnnl::matmul::primitive_desc(dnnl::matmul::desc(a_desc, b_desc, c_desc),
                                                       attributes, engine));
  }
}

void Primitive::Run(const dnnl::stream& stream, const void* pa, const void* pb, const float* pbias,
                    float* pc) {
  // oneDNN takes its inputs as void*; it does not write to them.
  a.set_data_handle(const_cast<void*>(pa));
  b.set_data_handle(const_cast<void*>(pb));
  if (pbias != nullptr) bias.set_data_handle(const_cast<float*>(pbias));
  c.set_data_handle(pc);
  const env::WithoutSignals no_signals;
  matmul.execute(stream, arguments);
}

// One thread's engine and its primitives, the least recently used of which goes when there are too
// many. oneDNN has a cache of its own behind this one, which makes a primitive that another thread
// already made cheap to make again.
class ThreadState {
 public:
  ThreadState() : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

  Primitive& Get(const Key& key) {
    const auto it = index_.find(key);
    if (it != index_.end()) {
      order_.splice(order_.begin(), order_, it->second);
      return it->second->second;
    }
    order_.emplace_front(std::piecewise_construct, std::forward_as_tuple(key),
                         std::forward_as_tuple(engine_, key));
    index_.emplace(key, order_.begin());
    if (order_.size() > kCachedPrimitives) {
      index_.erase(order_.back().first);
      order_.pop_back();
    }
    return order_.front().second;
  }
  const dnnl::stream& stream() const { return stream_; }

 private:
  using Entries = std::list<std::pair<Key, Primitive>>;
  dnnl::engine engine_;
  dnnl::stream stream_;
  Entries order_;
  std::unordered_map<Key, Entries::iterator, absl::Hash<Key>> index_;
};

// Some virtual machines offer AMX but hide the layout of its tiles, CPUID's leaf 0x1d. There oneDNN
// 2.6 takes AMX all the same, cannot configure the tiles, and dies of an illegal instruction.
bool HidesTiles() {
#if defined(__x86_64__)
  constexpr unsigned kAmxTile = 1u << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kAmxTile) == 0) return false;
  return __get_cpuid_count(0x1d, 0, &a, &b, &c, &d) == 0 || a == 0;  // a: the last palette
#else
  return false;
#endif
}

// To be called before oneDNN chooses instructions, which it does once. Who chooses for it, by the
// environment, is left alone.
void ChooseInstructions() {
  static const bool chosen = [] {
    const bool by_user =
        std::getenv("DNNL_MAX_CPU_ISA") != nullptr || std::getenv("ONEDNN_MAX_CPU_ISA") != nullptr;
    if (!by_user && HidesTiles()) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16);
    return true;
  }();
  (void)chosen;
}

absl::Status RunPart(const Key& key, const void* a, const void* b, const float* bias, float* c) {
  // It counts when a primitive is made, too, which is laid out for that number of threads.
  thread_local const bool single_threaded = [] {
    omp_set_num_threads(1);
    return true;
  }();
  (void)single_threaded;
  try {
    ChooseInstructions();
    thread_local ThreadState state;
    state.Get(key).Run(state.stream(), a, b, bias, c);
  } catch (const std::exception& e) {  // dnnl::error, bad_alloc
    return absl::InternalError(absl::StrCat("oneDNN: product of [", key.m, ",", key.k, "] and [",
                                            key.k, ",", key.n, "]: ", e.what()));
  }
  return absl::OkStatus();
}

// A thread's own copies of a product's inputs in bf16, kept for the next one.
class Bf16Copies {
 public:
  const BFloat16* Copy(int which, const float* values, int64_t n, env::ComputePool* pool) {
    Memory& memory = memory_[which];
    if (memory.size < n) {
      memory.values = std::make_unique<BFloat16[]>(n);
      memory.size = n;
    }
    BFloat16* const out = memory.values.get();
    const auto convert = [&](int64_t begin, int64_t end) {
      ToBf16(values + begin, end - begin, out + begin);
    };
    if (pool == nullptr) {
      convert(0, n);
    } else {
      pool->ParallelFor(n, kConvertedPerPart, convert);
    }
    return out;
  }

 private:
  // About 25 us of one core, as above.
  static constexpr int64_t kConvertedPerPart = 300'000;
  struct Memory {
    std::unique_ptr<BFloat16[]> values;
    int64_t size = 0;
  };
  Memory memory_[2];
};

// With AVX-512 alone oneDNN accepts bf16, too, but is slower with it than with f32.
bool DetectFastBf16() {
  ChooseInstructions();
  const auto has = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (has & wanted) == wanted;
}

// k == 0: there is nothing to sum up but the bias.
void FillWithoutProduct(const MatMulProblem& p, const float* bias, float* c) {
  for (int64_t row = 0; row < p.batch * p.m; ++row, c += p.n) {
    if (bias == nullptr) {
      std::memset(c, 0, sizeof(float) * p.n);
      continue;
    }
    for (int64_t j = 0; j < p.n; ++j) c[j] = p.relu ? std::max(bias[j], 0.0f) : bias[j];
  }
}

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Runs parts of a product on the pool; keeps the first error.
class Parts {
 public:
  void Add(absl::Status status) {
    if (status.ok()) return;
    std::lock_guard<std::mutex> lock(mu_);
    if (status_.ok()) status_ = std::move(status);
  }
  absl::Status status() {
    std::lock_guard<std::mutex> lock(mu_);
    return status_;
  }

 private:
  std::mutex mu_;
  absl::Status status_;
};

}  // namespace

bool Bf16IsFast() {
  static const bool fast = [] {
    const bool detected = DetectFastBf16();
    if (!detected) {
      LogWarning("this machine has no instructions for bf16: computing in f32 instead");
    }
    return detected;
  }();
  return fast;
}

namespace {

absl::Status CheckDims(const MatMulProblem& p) {
  constexpr int64_t kMaxDim = int64_t{1} << 31;
  for (int64_t dim : {p.batch, p.m, p.n, p.k}) {
    if (dim >= 0 && dim < kMaxDim) continue;
    return absl::InvalidArgumentError(absl::StrCat("product of ", p.batch, " x [", p.m, ",", p.k,
                                                   "] and [", p.k, ",", p.n,
                                                   "]: wanted dimensions below 2^31"));
  }
  return absl::OkStatus();
}

// One product with its inputs as they are multiplied, and pieces of it.
class Product {
 public:
  Product(const MatMulProblem& p, const float* a, const float* b, const float* bias, float* c,
          env::ComputePool* pool)
      : p_(p), bias_(bias), c_(c), pool_(pool), narrow_(IsNarrow(p)) {
    key_ = {p.batch,
            p.m,
            p.n,
            p.k,
            p.transpose_a ? p.m : p.k,
            p.transpose_b ? p.k : p.n,
            p.n,
            p.transpose_a,
            p.transpose_b,
            bias != nullptr,
            p.relu,
            p.bf16 && std::min({p.m, p.n, p.k}) >= kLeastBf16Dim && Bf16IsFast()};
    const double flops = 2.0 * static_cast<double>(p.batch) * static_cast<double>(p.m) *
                         static_cast<double>(p.n) * static_cast<double>(p.k);
    const int64_t most = p.same_on_any_threads ? kFixedParts
                         : pool == nullptr     ? 1
                                               : pool->threads();
    parts_ = std::min(most, static_cast<int64_t>(flops / kFlopsPerPart));
    element_ = key_.bf16 ? sizeof(BFloat16) : sizeof(float);
    a_ = reinterpret_cast<const char*>(a);
    b_ = reinterpret_cast<const char*>(b);
    if (!key_.bf16) return;
    thread_local Bf16Copies copies;
    env::ComputePool* const helpers = parts_ > 1 ? pool : nullptr;
    a_ = reinterpret_cast<const char*>(copies.Copy(0, a, p.batch * p.m * p.k, helpers));
    b_ = reinterpret_cast<const char*>(copies.Copy(1, b, p.batch * p.k * p.n, helpers));
  }

  int64_t parts() const { return parts_; }
  bool narrow() const { return narrow_; }

  absl::Status All() const { return narrow_ ? Rows(0, p_.m) : RunPart(key_, a_, b_, bias_, c_); }
  absl::Status Matrices(int64_t begin, int64_t size) const {
    Key piece = key_;
    piece.batch = size;
    return RunPart(piece, a_ + begin * p_.m * p_.k * element_, b_ + begin * p_.k * p_.n * element_,
                   bias_, c_ + begin * p_.m * p_.n);
  }
  absl::Status Rows(int64_t begin, int64_t size) const {
    if (narrow_) {
      NarrowProduct(p_, reinterpret_cast<const float*>(a_), reinterpret_cast<const float*>(b_),
                    bias_, c_, begin, begin + size);
      return absl::OkStatus();
    }
    Key piece = key_;
    piece.m = size;
    return RunPart(piece, a_ + begin * (p_.transpose_a ? 1 : p_.k) * element_, b_, bias_,
                   c_ + begin * p_.n);
  }
  absl::Status Columns(int64_t begin, int64_t size) const {
    Key piece = key_;
    piece.n = size;
    return RunPart(piece, a_, b_ + begin * (p_.transpose_b ? p_.k : 1) * element_,
                   bias_ == nullptr ? nullptr : bias_ + begin, c_ + begin);
  }

  // run(begin, size) for pieces of `step` of `extent`, on the pool.
  absl::Status Split(int64_t extent, int64_t step,
                     absl::FunctionRef<absl::Status(int64_t, int64_t)> run) const {
    Parts result;
    const auto pieces = [&](int64_t first, int64_t last) {
      for (int64_t part = first; part < last; ++part) {
        const int64_t begin = part * step;
        result.Add(run(begin, std::min(extent - begin, step)));
      }
    };
    const int64_t count = (extent + step - 1) / step;
    if (parts_ > 1 && pool_ != nullptr) {
      pool_->ParallelFor(count, 1, pieces);
    } else {
      pieces(0, count);
    }
    return result.status();
  }

 private:
  const MatMulProblem& p_;
  const float* const bias_;
  float* const c_;
  env::ComputePool* const pool_;
  const bool narrow_;
  Key key_;
  int64_t parts_ = 1;
  int64_t element_ = 0;
  const char *a_ = nullptr, *b_ = nullptr;  // f32, or bf16 where the key says so
};

}  // namespace

absl::Status MatMulF32(const MatMulProblem& p, const float* a, const float* b, const float* bias,
                       float* c, env::ComputePool* pool) {
  RETURN_IF_ERROR(CheckDims(p));
  if (p.batch == 0 || p.m == 0 || p.n == 0) return absl::OkStatus();
  if (p.k == 0) {
    FillWithoutProduct(p, bias, c);
    return absl::OkStatus();
  }
  const Product product(p, a, b, bias, c, pool);
  // What is split: matrices of a batch, else rows of the output, else (few rows) its columns.
  const int64_t parts = product.parts();
  const bool by_batch = p.batch > 1;
  const bool by_rows =
      !by_batch && (product.narrow() || p.m >= p.n || p.m >= parts * 4 * kRowMultiple);
  const int64_t extent = by_batch ? p.batch : (by_rows ? p.m : p.n);
  if (parts <= 1 || (by_batch ? extent < parts : extent < parts * kRowMultiple)) {
    return product.All();
  }
  // Few different sizes, so that few primitives are needed.
  int64_t step = (extent + parts - 1) / parts;
  if (!by_batch) step = RoundUp(step, kRowMultiple);
  if (!by_batch && p.same_on_any_threads) step = std::max(step, kFixedPartRows);
  return product.Split(extent, step, [&](int64_t begin, int64_t size) {
    return by_batch  ? product.Matrices(begin, size)
           : by_rows ? product.Rows(begin, size)
                     : product.Columns(begin, size);
  });
}

absl::Status MatMulPanelsF32(const MatMulProblem& p, const float* a, const float* b, float* c,
                             env::ComputePool* pool,
                             absl::FunctionRef<void(int64_t, int64_t)> look) {
  constexpr int64_t kPanelFloats = 128 << 10;
  RETURN_IF_ERROR(CheckDims(p));
  if (p.batch != 1) return absl::InvalidArgumentError("panels of a product: wanted one product");
  if (p.m == 0 || p.n == 0) return absl::OkStatus();
  if (p.k == 0) {
    FillWithoutProduct(p, nullptr, c);
    look(0, p.m);
    return absl::OkStatus();
  }
  const Product product(p, a, b, nullptr, c, pool);
  const int64_t most = std::max(kPanelFloats / p.n / kPanelRows, int64_t{1}) * kPanelRows;
  const int64_t panels = std::max((p.m + most - 1) / most, product.parts());
  const int64_t step = RoundUp((p.m + panels - 1) / panels, kPanelRows);
  return product.Split(p.m, step, [&](int64_t begin, int64_t size) {
    RETURN_IF_ERROR(product.Rows(begin, size));
    look(begin, begin + size);
    return absl::OkStatus();
  });
}

}  // namespace coxswain::kernels
