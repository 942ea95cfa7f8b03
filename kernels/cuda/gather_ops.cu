// Gather: rows by index, of any dtype. SegmentSumLike: sums of rows by index; f32, f64.
#include "kernels/cuda/joined.h"
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

template <typename T, typename Id>
Status GatherPieces(const Run& run, int64_t row_bytes) {
  const CoxTensor &params = run.input(0), &ids = run.input(1), &out = run.output(0);
  const int64_t width = row_bytes / static_cast<int64_t>(sizeof(T));
  const GatherOp<T, Id> gather{Data<T>(params), IndicesOf<Id>(run, 1, params.dims[0]), width};
  return FillJoined(run.stream(), Data<T>(out), Elements(ids) * width, gather,
                    {{All(params), All(ids)}, All(out)});
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

template <typename T>
struct RowOf {
  const T* data;
  int64_t width;
  COX_DEVICE T operator()(int64_t entry, int64_t column) const {
    return data[entry * width + column];
  }
};

template <typename T, typename Id>
struct IdKeys {
  SumParts<T, RowOf<T>> parts;
  Indices<Id> ids[SumParts<T, RowOf<T>>::kMost];
  uint32_t* keys;

  COX_DEVICE void operator()(int64_t entry) const {
    const int part = parts.Find(parts.entries, entry);
    const int64_t id = ids[part].At(entry - parts.entries[part], true);
    keys[entry] = id < 0 ? parts.Nowhere(part) : static_cast<uint32_t>(parts.rows[part] + id);
  }
};

// Sums that nobody has read yet: a step has one for each table, one behind the other, and together
// they take as many launches as one alone.
template <typename T, typename Id>
class PendingSums final : public PendingWork {
 public:
  // Whether it is as well to start this one with those that are pending.
  bool Suits(const Run& run) const {
    const SumParts<T, RowOf<T>>& parts = work_.parts;
    if (parts.count == parts.kMost || parts.width != WidthOf(run)) return false;
    for (int i = 0; i < parts.count; ++i) {
      if (IsWithin(run.input(0).data, i) || IsWithin(run.input(1).data, i)) return false;
    }
    return FitsBeside(Elements(run.input(1)), parts.entries[parts.count]) &&
           FitsBeside(run.output(0).dims[0] + 1, parts.rows[parts.count]);
  }
  void Add(const Run& run) {
    SumParts<T, RowOf<T>>* const parts = &work_.parts;
    const CoxTensor& out = run.output(0);
    parts->width = WidthOf(run);
    work_.ids[parts->count] = IndicesOf<Id>(run, 1, out.dims[0]);
    parts->Add({Data<T>(run.input(0)), parts->width}, Data<T>(out), Elements(run.input(1)),
               out.dims[0]);
  }
  Status Start(CoxStream* stream) override {
    const Status started = SegmentSums(stream, work_.parts, [&](uint32_t* keys) {
      work_.keys = keys;
      return ForElements(stream->queue, work_.parts.entries[work_.parts.count], work_);
    });
    // Whoever made it start would seem to be wrong.
    return started.ok() ? started
                        : Status(started.code(),
                                 "sums of rows by key, which were put off: " + started.message());
  }

 private:
  static int64_t WidthOf(const Run& run) {
    return DimsProduct(run.output(0), 1, run.output(0).rank);
  }
  static bool FitsBeside(int64_t more, int64_t there) {
    return more <= int64_t{UINT32_MAX} && more + there <= int64_t{UINT32_MAX};
  }
  // Whether the memory belongs to the output of a pending sum.
  bool IsWithin(const void* memory, int i) const {
    const SumParts<T, RowOf<T>>& parts = work_.parts;
    const auto at = reinterpret_cast<uintptr_t>(memory);
    const auto begin = reinterpret_cast<uintptr_t>(parts.outs[i]);
    const int64_t rows = parts.rows[i + 1] - parts.rows[i] - 1;
    return begin <= at && at < begin + static_cast<size_t>(rows * parts.width) * sizeof(T);
  }

  IdKeys<T, Id> work_ = {};
};

template <typename T, typename Id>
Status AddPendingSum(const Run& run) {
  COX_CUDA_RETURN_IF_ERROR(
      EntrySorter::CheckSizes(Elements(run.input(1)), run.output(0).dims[0] + 1));
  auto* pending = dynamic_cast<PendingSums<T, Id>*>(run.stream()->pending.get());
  if (pending == nullptr || !pending->Suits(run)) {
    COX_CUDA_RETURN_IF_ERROR(Flush(run.stream()));
    auto made = std::make_unique<PendingSums<T, Id>>();
    pending = made.get();
    run.stream()->pending = std::move(made);
  }
  pending->Add(run);
  return Status();
}

Status RunSegmentSum(const Run& run) {
  return DispatchFloat(run.input(0).dtype, [&](auto value) {
    return DispatchIndex(run.input(1).dtype, [&](auto index) {
      return AddPendingSum<decltype(value), decltype(index)>(run);
    });
  });
}

}  // namespace

void AddGatherOps(OpTable* table) {
  table->Add("Gather", AllTypes(), RunGather);
  table->Add("SegmentSumLike", Floats(), RunSegmentSum);
  table->SetPending({"Gather", "SegmentSumLike"});
}

}  // namespace coxswain::cuda
