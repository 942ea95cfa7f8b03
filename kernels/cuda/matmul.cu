// MatMul, BatchMatMul and FusedDense: products by cuBLASLt. In f64 bias and ReLU are a kernel of
// their own. With compute = bf16 the inputs are rounded to bf16 first, into rows whose length is a
// multiple of 16 bytes: other lengths keep tensor cores from reading whole vectors.
#include "kernels/cuda/op_list.h"
#include "kernels/cuda/product.h"

namespace coxswain::cuda {
namespace {

constexpr int64_t kPadding = 8;  // bf16 in 16 bytes

// The rows of x in bf16, padded with zeros.
struct RoundRows {
  const float* x;
  int64_t columns, padded;

  COX_DEVICE uint16_t operator()(int64_t i) const {
    const int64_t row = i / padded, column = i - row * padded;
    return column < columns ? Bf16::FromFloat(x[row * columns + column]).bits : uint16_t{0};
  }
};

// y = activation(y + bias); without a product y is taken as 0.
template <typename T>
struct Epilogue {
  const T *y, *bias;  // each may be null
  int64_t columns;
  bool relu;

  COX_DEVICE T operator()(int64_t i) const {
    T value = y == nullptr ? T{0} : y[i];
    if (bias != nullptr) value += bias[i % columns];
    return relu && value < T{0} ? T{0} : value;
  }
};

class ProductOp {
 public:
  ProductOp(const ProductKind& kind, int rank, bool bf16)
      : kind_(kind), rank_(rank), bf16_(bf16), multiplier_(NewMultiplier(InLibrary())) {}

  Status operator()(const Run& run) const {
    const CoxTensor &a = run.input(0), &b = run.input(1), &c = run.output(0);
    if (Elements(c) == 0) return Status();
    Product p;
    p.batch = rank_ == 3 ? c.dims[0] : 1;
    p.m = c.dims[rank_ - 2];
    p.n = c.dims[rank_ - 1];
    p.k = a.dims[kind_.transpose_a ? rank_ - 2 : rank_ - 1];
    p.a = a.data;
    p.b = b.data;
    p.a_row = StoredColumns(kind_.transpose_a, p.m, p.k);
    p.b_row = StoredColumns(kind_.transpose_b, p.k, p.n);
    p.bias = kind_.bias ? run.input(2).data : nullptr;
    p.c = c.data;
    if (p.k == 0) return Finish(run, p, false);
    if (bf16_) return InBf16(run, p);
    COX_CUDA_RETURN_IF_ERROR(multiplier_->Multiply(run, p));
    return kind_.inputs == COX_F64 && (kind_.bias || kind_.relu) ? Finish(run, p, true) : Status();
  }

 private:
  // What the library is asked to do.
  ProductKind InLibrary() const {
    ProductKind kind = kind_;
    if (bf16_) kind.inputs = COX_BF16;
    if (kind.inputs == COX_F64) kind.bias = kind.relu = false;
    return kind;
  }

  Status Finish(const Run& run, const Product& p, bool with_product) const {
    return DispatchFloat(kind_.inputs, [&](auto zero) {
      using T = decltype(zero);
      T* c = static_cast<T*>(p.c);
      return FillElements(
          run.queue(), c, p.batch * p.m * p.n,
          Epilogue<T>{with_product ? c : nullptr, static_cast<const T*>(p.bias), p.n, kind_.relu});
    });
  }

  // Makes `*x`, whose rows are dense, a copy in bf16.
  Status Round(const Run& run, int64_t rows, Scratch* memory, const void** x, int64_t* row) const {
    const int64_t columns = *row, padded = CeilDiv(columns, kPadding) * kPadding;
    COX_CUDA_RETURN_IF_ERROR(
        memory->Allocate(run.stream(), static_cast<size_t>(rows * padded) * sizeof(uint16_t)));
    const RoundRows round{static_cast<const float*>(*x), columns, padded};
    *x = memory->data<uint16_t>();
    *row = padded;
    return FillElements(run.queue(), memory->data<uint16_t>(), rows * padded, round);
  }

  Status InBf16(const Run& run, Product p) const {
    Scratch a, b;
    const int64_t a_rows = p.batch * StoredRows(kind_.transpose_a, p.m, p.k);
    const int64_t b_rows = p.batch * StoredRows(kind_.transpose_b, p.k, p.n);
    COX_CUDA_RETURN_IF_ERROR(Round(run, a_rows, &a, &p.a, &p.a_row));
    COX_CUDA_RETURN_IF_ERROR(Round(run, b_rows, &b, &p.b, &p.b_row));
    return multiplier_->Multiply(run, p);
  }

  const ProductKind kind_;
  const int rank_;
  const bool bf16_;
  const std::shared_ptr<Multiplier> multiplier_;
};

Status MakeProduct(const Node& node, int rank, OpFunction* op) {
  COX_CUDA_RETURN_IF_ERROR(WantFirst(node, Floats()));
  ProductKind kind;
  kind.transpose_a = node.Integer("transpose_a", 0) != 0;
  kind.transpose_b = node.Integer("transpose_b", 0) != 0;
  kind.bias = node.num_inputs() > 2;
  kind.relu = node.Text("activation", "") == "relu";
  *op = ProductOf(node, kind, rank);
  return Status();
}

}  // namespace

OpFunction ProductOf(const Node& node, ProductKind kind, int rank) {
  kind.inputs = node.input_dtype(0);
  const bool f32 = kind.inputs == COX_F32;
  kind.tf32 = f32 && node.compute() == COX_COMPUTE_TF32;
  return ProductOp(kind, rank, f32 && node.compute() == COX_COMPUTE_BF16);
}

void AddMatMul(OpTable* table) {
  const auto of_rank = [](int rank) {
    return [rank](const Node& node, OpFunction* op) { return MakeProduct(node, rank, op); };
  };
  table->Add("MatMul", of_rank(2));
  table->Add("FusedDense", of_rank(2));
  table->Add("BatchMatMul", of_rank(3));
}

}  // namespace coxswain::cuda
