// MatMul, BatchMatMul and FusedDense: products by cuBLASLt. In f64 bias and ReLU are a kernel of
// their own. With compute = bf16 the inputs are rounded to bf16 first, into rows whose length is a
// multiple of 16 bytes: other lengths keep tensor cores from reading whole vectors. So do copies of
// large matrices whose rows have other lengths, with compute = tf32.
#include "kernels/cuda/op_list.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/rows.h"

namespace coxswain::cuda {
namespace {

constexpr int64_t kPadding = 16;  // bytes

// A matrix and how its rows lie.
struct Matrix {
  int64_t rows, columns, row;  // `row`: elements from one row to the next
};

COX_DEVICE void Convert(float from, float* to) { *to = from; }
COX_DEVICE void Convert(float from, Bf16* to) { *to = Bf16::FromFloat(from); }

// out, whose rows are dense, gets what x has, and zeros in rows and columns that x has not.
template <typename T, int kTeam>
struct CopyRows {
  Rows<kTeam> to;
  Matrix from;
  const float* x;
  T* out;

  COX_DEVICE void operator()(const Block& block, int64_t item) const {
    to.ForEach(block, item, [&](int, int64_t row, int lane) {
      for (int64_t first = lane; first < to.width; first += kTeam * kInFlight) {
        T values[kInFlight] = {};
        COX_UNROLL
        for (int k = 0; k < kInFlight; ++k) {
          const int64_t column = first + k * kTeam;
          if (row < from.rows && column < from.columns) {
            Convert(x[row * from.row + column], &values[k]);
          }
        }
        COX_UNROLL
        for (int k = 0; k < kInFlight; ++k) {
          const int64_t column = first + k * kTeam;
          if (column < to.width) out[row * to.width + column] = values[k];
        }
      }
    });
  }
};

// out [rows, columns], dense.
template <typename T>
Status Copy(const Run& run, const float* x, const Matrix& from, T* out, int64_t rows,
            int64_t columns) {
  return LaunchRows(run.queue(), rows, columns, [&](auto to) {
    return CopyRows<T, kThreads / decltype(to)::kPerItem>{to, from, x, out};
  });
}

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
    if (IsWorthPadding(p)) return Padded(run, p);
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

  // Makes `*x` a copy in T with zeros behind it: `rows` rows of `columns` each.
  template <typename T>
  Status CopyTo(const Run& run, const Matrix& from, int64_t rows, int64_t columns, Scratch* memory,
                const void** x, int64_t* row) const {
    COX_CUDA_RETURN_IF_ERROR(
        memory->Allocate(run.stream(), static_cast<size_t>(rows * columns) * sizeof(T)));
    const auto* const data = static_cast<const float*>(*x);
    *x = memory->data<T>();
    *row = columns;
    return Copy(run, data, from, memory->data<T>(), rows, columns);
  }

  Status Round(const Run& run, int64_t rows, Scratch* memory, const void** x, int64_t* row) const {
    constexpr int64_t kNumbers = kPadding / sizeof(Bf16);
    const int64_t padded = CeilDiv(*row, kNumbers) * kNumbers;
    return CopyTo<Bf16>(run, {rows, *row, *row}, rows, padded, memory, x, row);
  }

  Status InBf16(const Run& run, Product p) const {
    Scratch a, b;
    const int64_t a_rows = p.batch * StoredRows(kind_.transpose_a, p.m, p.k);
    const int64_t b_rows = p.batch * StoredRows(kind_.transpose_b, p.k, p.n);
    COX_CUDA_RETURN_IF_ERROR(Round(run, a_rows, &a, &p.a, &p.a_row));
    COX_CUDA_RETURN_IF_ERROR(Round(run, b_rows, &b, &p.b, &p.b_row));
    return multiplier_->Multiply(run, p);
  }

  // Short sides stay as they are: they have kernels of their own.
  static int64_t PadSide(int64_t side) {
    constexpr int64_t kNumbers = kPadding / sizeof(float), kShort = 16;
    return side < kShort ? side : CeilDiv(side, kNumbers) * kNumbers;
  }
  // The same product with sides along which tensor cores read and write whole vectors.
  Product WithPaddedSides(Product p) const {
    if (kind_.transpose_a) p.m = PadSide(p.m);
    if (!kind_.transpose_a || kind_.transpose_b) p.k = PadSide(p.k);
    p.n = PadSide(p.n);
    return p;
  }
  // Copies of the matrices cost less than a product of TF32 by numbers that are read one by one.
  bool IsWorthPadding(const Product& p) const {
    constexpr double kWorthIt = 1 << 27;
    if (!kind_.tf32 || p.batch > 1) return false;
    if (static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) < kWorthIt) {
      return false;
    }
    const Product padded = WithPaddedSides(p);
    return padded.m != p.m || padded.n != p.n || padded.k != p.k;
  }

  Status Padded(const Run& run, const Product& p) const {
    Product padded = WithPaddedSides(p);
    Scratch a, b, bias, c;
    const auto pad = [&](bool transposed, int64_t rows, int64_t columns, int64_t padded_rows,
                         int64_t padded_columns, Scratch* memory, const void** x, int64_t* row) {
      if (rows == padded_rows && columns == padded_columns) return Status();
      const Matrix from{StoredRows(transposed, rows, columns),
                        StoredColumns(transposed, rows, columns), *row};
      return CopyTo<float>(run, from, StoredRows(transposed, padded_rows, padded_columns),
                           StoredColumns(transposed, padded_rows, padded_columns), memory, x, row);
    };
    COX_CUDA_RETURN_IF_ERROR(
        pad(kind_.transpose_a, p.m, p.k, padded.m, padded.k, &a, &padded.a, &padded.a_row));
    COX_CUDA_RETURN_IF_ERROR(
        pad(kind_.transpose_b, p.k, p.n, padded.k, padded.n, &b, &padded.b, &padded.b_row));
    if (padded.bias != nullptr) {
      int64_t row = p.n;
      COX_CUDA_RETURN_IF_ERROR(pad(false, 1, p.n, 1, padded.n, &bias, &padded.bias, &row));
    }
    if (padded.m == p.m && padded.n == p.n) return multiplier_->Multiply(run, padded);
    COX_CUDA_RETURN_IF_ERROR(
        c.Allocate(run.stream(), static_cast<size_t>(padded.m * padded.n) * sizeof(float)));
    padded.c = c.data<float>();
    COX_CUDA_RETURN_IF_ERROR(multiplier_->Multiply(run, padded));
    return Copy(run, c.data<float>(), {p.m, p.n, padded.n}, static_cast<float*>(p.c), p.m, p.n);
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
