// What a family of ops is made of: functions that enqueue kernels for one run, and their lines in
// the table of ops. See README.md.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/cuda/fault.h"
#include "kernels/cuda/math.h"
#include "kernels/cuda/node.h"

namespace coxswain::cuda {

// One run of an op.
class Run {
 public:
  Run(const CoxRun& run, CoxStream* stream) : run_(run), stream_(stream) {}

  int num_inputs() const { return run_.num_inputs; }
  int num_outputs() const { return run_.num_outputs; }
  const CoxTensor& input(int i) const { return run_.inputs[i]; }
  const CoxTensor& output(int i) const { return run_.outputs[i]; }
  const CoxRun& info() const { return run_; }

  CoxStream* stream() const { return stream_; }
  const Queue& queue() const { return stream_->queue; }
  FaultSink faults() const { return FaultSink{run_.fault, run_.node}; }

 private:
  const CoxRun& run_;
  CoxStream* stream_;
};

// Enqueues what the op does. Several threads call it at once.
using OpFunction = std::function<Status(const Run&)>;
// Reads the node's attributes; NOT_FOUND for dtypes without a kernel.
using MakeFunction = std::function<Status(const Node&, OpFunction*)>;

// The dtypes of input 0 that families take.
using DTypes = std::vector<int32_t>;
inline const DTypes& Floats() {
  static const DTypes dtypes = {COX_F32, COX_F64};
  return dtypes;
}
inline const DTypes& Numbers() {
  static const DTypes dtypes = {COX_F32, COX_F64, COX_I32, COX_I64};
  return dtypes;
}
inline const DTypes& AllTypes() {
  static const DTypes dtypes = {COX_F32, COX_F64, COX_I32, COX_I64, COX_BOOL, COX_BF16};
  return dtypes;
}

// NOT_FOUND unless input 0 has one of the dtypes.
Status WantFirst(const Node& node, const DTypes& dtypes);

class OpTable {
 public:
  void Add(const char* op, MakeFunction make) { makers_[op] = std::move(make); }
  // An op without attributes, of these dtypes of input 0.
  void Add(const char* op, const DTypes& dtypes, Status (*run)(const Run&));
  // An op whose attributes `read` takes when it is made.
  template <typename A>
  void Add(const char* op, const DTypes& dtypes, A (*read)(const Node&),
           Status (*run)(const A&, const Run&)) {
    Add(op, [dtypes, read, run](const Node& node, OpFunction* made) {
      COX_CUDA_RETURN_IF_ERROR(WantFirst(node, dtypes));
      *made = [a = read(node), run](const Run& r) { return run(a, r); };
      return Status();
    });
  }
  // Of ops whose work may be pending when they return: they flush the stream themselves.
  void SetPending(std::initializer_list<const char*> ops) {
    pending_.insert(ops.begin(), ops.end());
  }
  // The node's op. Errors: NOT_FOUND.
  Status Make(const Node& node, OpFunction* op) const;
  bool MayBePending(const Node& node) const { return pending_.count(node.op()) != 0; }

 private:
  std::set<std::string> pending_;
  std::map<std::string, MakeFunction> makers_;
};

// ---- tensors

size_t SizeOf(int32_t dtype);
int64_t DimsProduct(const CoxTensor& t, int begin, int end);
inline int64_t Elements(const CoxTensor& t) { return DimsProduct(t, 0, t.rank); }
inline size_t Bytes(const CoxTensor& t) {
  return static_cast<size_t>(Elements(t)) * SizeOf(t.dtype);
}
bool SameShape(const CoxTensor& a, const CoxTensor& b);
inline int NormalizeAxis(int64_t axis, int rank) {
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}
template <typename T>
T* Data(const CoxTensor& t) {
  return static_cast<T*>(t.data);
}
template <typename Id>
Indices<Id> IndicesOf(const Run& run, int input, int64_t bound) {
  return Indices<Id>{Data<Id>(run.input(input)), bound, input, run.faults()};
}

inline AnyIndices AnyIndicesOf(const Run& run, int input, int64_t bound) {
  const CoxTensor& ids = run.input(input);
  return {{ids.data, bound, input, run.faults()}, ids.dtype == COX_I64};
}

// Copies, unless both are the same memory: whoever runs an op that only passes a tensor on may let
// the output share it.
Status PassOn(const Run& run, const CoxTensor& from, const CoxTensor& to);

// ---- dtypes: calls f with a value of the C++ type

template <typename F>
Status DispatchFloat(int32_t dtype, const F& f) {
  if (dtype == COX_F32) return f(float{});
  if (dtype == COX_F64) return f(double{});
  return InvalidArgument("wanted f32 or f64");
}
template <typename F>
Status DispatchIndex(int32_t dtype, const F& f) {
  if (dtype == COX_I32) return f(int32_t{});
  if (dtype == COX_I64) return f(int64_t{});
  return InvalidArgument("wanted i32 or i64");
}
template <typename F>
Status DispatchNumber(int32_t dtype, const F& f) {
  if (dtype == COX_F32 || dtype == COX_F64) return DispatchFloat(dtype, f);
  return DispatchIndex(dtype, f);
}
// By the size of an element, for ops that only move them.
template <typename F>
Status DispatchBytes(int32_t dtype, const F& f) {
  const size_t size = SizeOf(dtype);
  if (size == 1) return f(uint8_t{});
  if (size == 2) return f(uint16_t{});
  if (size == 4) return f(uint32_t{});
  if (size == 8) return f(uint64_t{});
  return InvalidArgument("wanted a dtype");
}

}  // namespace coxswain::cuda
