#include <algorithm>

#include "kernels/cuda/product.h"

namespace coxswain::cuda {
namespace {

double Wide(float x) { return x; }
double Wide(double x) { return x; }
double Wide(Bf16 x) { return x.ToFloat(); }

class HostMultiplier final : public Multiplier {
 public:
  explicit HostMultiplier(const ProductKind& kind) : kind_(kind) {}

  Status Multiply(const Run&, const Product& p) override {
    if (kind_.inputs == COX_BF16) {
      Loop<Bf16, float>(p);
    } else if (kind_.inputs == COX_F64) {
      Loop<double, double>(p);
    } else {
      Loop<float, float>(p);
    }
    return Status();
  }

 private:
  template <typename In, typename Out>
  void Loop(const Product& p) const {
    const int64_t a_size = StoredRows(kind_.transpose_a, p.m, p.k) * p.a_row;
    const int64_t b_size = StoredRows(kind_.transpose_b, p.k, p.n) * p.b_row;
    for (int64_t i = 0; i < p.batch; ++i) {
      Multiply<In, Out>(p, static_cast<const In*>(p.a) + i * a_size,
                        static_cast<const In*>(p.b) + i * b_size,
                        static_cast<Out*>(p.c) + i * p.m * p.n);
    }
  }

  template <typename In, typename Out>
  void Multiply(const Product& p, const In* a, const In* b, Out* c) const {
    const int64_t a_row = kind_.transpose_a ? 1 : p.a_row,
                  a_column = kind_.transpose_a ? p.a_row : 1;
    const int64_t b_row = kind_.transpose_b ? 1 : p.b_row,
                  b_column = kind_.transpose_b ? p.b_row : 1;
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = kind_.bias ? Wide(static_cast<const Out*>(p.bias)[j]) : 0.0;
        for (int64_t k = 0; k < p.k; ++k) {
          sum += Wide(a[i * a_row + k * a_column]) * Wide(b[k * b_row + j * b_column]);
        }
        c[i * p.n + j] = static_cast<Out>(kind_.relu && sum < 0.0 ? 0.0 : sum);
      }
    }
  }

  const ProductKind kind_;
};

}  // namespace

std::unique_ptr<Multiplier> NewMultiplier(const ProductKind& kind) {
  return std::make_unique<HostMultiplier>(kind);
}

}  // namespace coxswain::cuda
