// Gather: rows by index, of any dtype. SegmentSumLike: sums of rows by index; f32, f64.
#include "kernels/cuda/op_list.h"
#include "kernels/cuda/segment_sum.h"

namespace coxswain::cuda {
namespace {

// `T`: as large a piece of a row as its length and the addresses allow.
template <typename T, typename Id>
struct GatherOp {
  const T* params;
  Indices<Id> ids;
  int64_t width;  // of a row, in T

  COX_DEVICE T operator()(int64_t i) const {
    const int64_t row = i / width, column = i - row * width;
    const int64_t id = ids.At(row, column == 0);
    return id < 0 ? T{} : params[id * width + column];
  }
};

struct alignas(16) Piece {
  uint64_t low, high;
};

template <typename T, typename Id>
Status GatherPieces(const Run& run, int64_t row_bytes) {
  const CoxTensor &params = run.input(0), &ids = run.input(1), &out = run.output(0);
  const int64_t width = row_bytes / static_cast<int64_t>(sizeof(T));
  const GatherOp<T, Id> gather{Data<T>(params), IndicesOf<Id>(run, 1, params.dims[0]), width};
  return FillElements(run.queue(), Data<T>(out), Elements(ids) * width, gather);
}

bool Suits(const CoxTensor& t, int64_t row_bytes, size_t piece) {
  return row_bytes % static_cast<int64_t>(piece) == 0 &&
         reinterpret_cast<uintptr_t>(t.data) % piece == 0;
}

Status RunGather(const Run& run) {
  const CoxTensor &params = run.input(0), &out = run.output(0);
  const int64_t row_bytes =
      DimsProduct(params, 1, params.rank) * static_cast<int64_t>(SizeOf(params.dtype));
  if (row_bytes == 0) return Status();
  return DispatchIndex(run.input(1).dtype, [&](auto zero) {
    using Id = decltype(zero);
    const auto suits = [&](size_t piece) {
      return Suits(params, row_bytes, piece) && Suits(out, row_bytes, piece);
    };
    if (suits(16)) return GatherPieces<Piece, Id>(run, row_bytes);
    if (suits(4)) return GatherPieces<uint32_t, Id>(run, row_bytes);
    return GatherPieces<uint8_t, Id>(run, row_bytes);
  });
}

template <typename Id>
struct IdKeys {
  Indices<Id> ids;
  uint32_t* keys;

  COX_DEVICE void operator()(int64_t entry) const {
    const int64_t id = ids.At(entry, true);
    keys[entry] = static_cast<uint32_t>(id < 0 ? ids.bound : id);
  }
};

template <typename T>
struct RowOf {
  const T* data;
  int64_t width;
  COX_DEVICE T operator()(int64_t entry, int64_t column) const {
    return data[entry * width + column];
  }
};

Status RunSegmentSum(const Run& run) {
  const CoxTensor &data = run.input(0), &ids = run.input(1), &out = run.output(0);
  const int64_t rows = out.dims[0], width = DimsProduct(out, 1, out.rank);
  return DispatchFloat(data.dtype, [&](auto value) {
    return DispatchIndex(ids.dtype, [&](auto index) {
      using T = decltype(value);
      using Id = decltype(index);
      const auto write_keys = [&](uint32_t* keys) {
        return ForElements(run.queue(), Elements(ids),
                           IdKeys<Id>{IndicesOf<Id>(run, 1, rows), keys});
      };
      return SegmentSum(run, Elements(ids), rows, width, write_keys, RowOf<T>{Data<T>(data), width},
                        Data<T>(out));
    });
  });
}

}  // namespace

void AddGatherOps(OpTable* table) {
  table->Add("Gather", AllTypes(), RunGather);
  table->Add("SegmentSumLike", Floats(), RunSegmentSum);
}

}  // namespace coxswain::cuda
