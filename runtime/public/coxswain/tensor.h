// Tensors, element types, shapes and memory; also the outputs and attributes of nodes in a function
// that is being built. Sizes are in bytes.
//
// Thread model: all types are values. Copies of a tensor or a buffer share its bytes, which are not
// guarded; concurrent readers are fine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace coxswain {

// --- element types; bf16 is a storage type (kernels widen it to f32)

enum class DType : uint8_t {
  kInvalid = 0,
  kF32 = 1,
  kF64 = 2,
  kI32 = 3,
  kI64 = 4,
  kBool = 5,
  kBF16 = 6
};

// A bfloat16: the upper half of an f32.
struct BFloat16 {
  uint16_t bits = 0;

  // Rounds to nearest even; NaN stays NaN.
  static BFloat16 FromFloat(float value) {
    uint32_t raw;
    std::memcpy(&raw, &value, sizeof(raw));
    if ((raw & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((raw >> 16) | 0x40u)};
    raw += 0x7fffu + ((raw >> 16) & 1u);
    return {static_cast<uint16_t>(raw >> 16)};
  }
  float ToFloat() const {
    const uint32_t raw = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &raw, sizeof(value));
    return value;
  }
};

constexpr size_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kBool:
      return 1;
    case DType::kBF16:
      return 2;
    case DType::kInvalid:
      return 0;
  }
  return 0;
}

// "f32", "f64", "i32", "i64", "bool", "bf16".
absl::string_view DTypeName(DType dtype);

// Errors: InvalidArgument for a name that is none of the above.
absl::StatusOr<DType> ParseDType(absl::string_view name);

constexpr bool IsFloating(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kBF16;
}
constexpr bool IsInteger(DType dtype) { return dtype == DType::kI32 || dtype == DType::kI64; }

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::kBF16;
};

// --- shapes

constexpr int64_t kUnknownDim = -1;

// A tensor's dimensions. In a graph a dimension may be unknown (-1), such as the batch size; the
// shape of a tensor is always fully known.
class Shape {
 public:
  Shape() = default;  // a scalar
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(absl::Span<const int64_t> dims) : dims_(dims.begin(), dims.end()) {}

  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t dim(int i) const { return dims_[i]; }
  void set_dim(int i, int64_t value) { dims_[i] = value; }
  void Append(int64_t dim) { dims_.push_back(dim); }
  absl::Span<const int64_t> dims() const { return dims_; }

  bool IsFullyKnown() const;
  // Product of the dimensions, 1 for a scalar. Only for a fully known shape.
  int64_t num_elements() const;
  // True when a tensor of the fully known shape `other` may be used where this shape is declared.
  bool Accepts(const Shape& other) const;

  bool operator==(const Shape& other) const { return dims_ == other.dims_; }
  bool operator!=(const Shape& other) const { return !(*this == other); }
  std::string ToString() const;  // "[?,64]"

 private:
  absl::InlinedVector<int64_t, 4> dims_;
};

// --- memory

enum class DeviceType : uint8_t { kCpu = 0, kGpu = 1 };

// A device within one task, which holds buffers and runs kernels.
struct Device {
  DeviceType type = DeviceType::kCpu;
  int16_t index = 0;

  bool operator==(const Device& o) const { return type == o.type && index == o.index; }
  bool operator!=(const Device& o) const { return !(*this == o); }
};

absl::string_view DeviceTypeName(DeviceType type);  // "CPU", "GPU"

constexpr size_t kBufferAlignment = 64;

// Memory behind tensors and frames: reference counted, 64-byte aligned, on one device.
//
// A Buffer is a handle on a range of a shared block; copying it copies the handle. Blocks of host
// memory come from lists of free blocks by size, small ones kept per thread and all others shared,
// so that a step makes no calls to the system. The block's count is atomic.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer& other);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer other) noexcept;
  ~Buffer();

  // Uninitialised host memory.
  static Buffer Allocate(size_t bytes);
  // Memory of another owner; `release` runs once, when the last handle is gone, on any thread.
  static Buffer Wrap(void* data, size_t bytes, Device device, std::function<void()> release);

  // A handle on bytes [offset, offset + bytes) of this one.
  Buffer Slice(size_t offset, size_t bytes) const;

  void* data() const { return data_; }
  size_t size() const { return size_; }
  Device device() const;
  bool empty() const { return size_ == 0; }
  // True when no other handle shares the block, so that its bytes may be changed in place.
  bool Unique() const;

 private:
  struct Block;
  explicit Buffer(Block* block, void* data, size_t size)
      : block_(block), data_(data), size_(size) {}

  Block* block_ = nullptr;
  void* data_ = nullptr;
  size_t size_ = 0;
};

// --- tensors

// Dtype, shape and a handle on a buffer, row-major and dense. Copying a tensor copies the handle.
// It may be changed in place only by its only owner (`Unique()`).
class Tensor {
 public:
  Tensor() = default;  // no value: dtype kInvalid
  // Uninitialised host memory of that size.
  Tensor(DType dtype, Shape shape);
  // `buffer` must hold at least the bytes that dtype and shape need.
  Tensor(DType dtype, Shape shape, Buffer buffer);

  template <typename T>
  static Tensor Scalar(T value) {
    Tensor t(DTypeOf<T>::value, Shape{});
    *t.mutable_data<T>() = value;
    return t;
  }
  // Errors: InvalidArgument when the shape has another number of elements, or unknown ones.
  template <typename T>
  static absl::StatusOr<Tensor> FromVector(const std::vector<T>& values, Shape shape) {
    if (absl::Status s = CheckCount(shape, static_cast<int64_t>(values.size())); !s.ok()) return s;
    return FromVector<T>(values).Reshaped(std::move(shape));
  }
  // A vector.
  template <typename T>
  static Tensor FromVector(const std::vector<T>& values) {
    Tensor t(DTypeOf<T>::value, Shape{static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), t.mutable_data<T>());
    return t;
  }
  static Tensor Zeros(DType dtype, Shape shape);

  bool has_value() const { return dtype_ != DType::kInvalid; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  int64_t dim(int i) const { return shape_.dim(i); }
  int64_t num_elements() const { return shape_.num_elements(); }
  size_t bytes() const { return static_cast<size_t>(num_elements()) * SizeOf(dtype_); }
  Device device() const { return buffer_.device(); }
  const Buffer& buffer() const { return buffer_; }
  bool Unique() const { return buffer_.Unique(); }

  // The values in row-major order, valid as long as this tensor. For tensors from elsewhere, such
  // as a closure's results. Errors: InvalidArgument when the dtype differs, or the values are not
  // in host memory.
  template <typename T>
  absl::StatusOr<absl::Span<const T>> As() const {
    if (absl::Status s = IsOf(DTypeOf<T>::value); !s.ok()) return s;
    return absl::Span<const T>(static_cast<const T*>(buffer_.data()),
                               static_cast<size_t>(num_elements()));
  }

  // For code that knows the dtype, and that the values are in host memory, as kernels do: a
  // mismatch is a bug and ends the process. (buffer().data() is the address on any device.)
  template <typename T>
  const T* data() const {
    CheckType(DTypeOf<T>::value);
    return static_cast<const T*>(buffer_.data());
  }
  template <typename T>
  T* mutable_data() {
    CheckType(DTypeOf<T>::value);
    return static_cast<T*>(buffer_.data());
  }
  template <typename T>
  absl::Span<const T> values() const {
    return {data<T>(), static_cast<size_t>(num_elements())};
  }
  const void* raw() const {
    CheckHost();
    return buffer_.data();
  }
  void* mutable_raw() {
    CheckHost();
    return buffer_.data();
  }

  // The same bytes under another shape with as many elements.
  Tensor Reshaped(Shape shape) const;
  // Rows [begin, end) of the first dimension, sharing the bytes.
  Tensor SliceRows(int64_t begin, int64_t end) const;

  std::string ToString() const;  // "f32[2,3]{1, 2, 3, ...}", at most 8 values

 private:
  void CheckType(DType wanted) const;
  void CheckHost() const;
  absl::Status IsOf(DType wanted) const;
  static absl::Status CheckCount(const Shape& shape, int64_t count);

  DType dtype_ = DType::kInvalid;
  Shape shape_;
  Buffer buffer_;
};

// --- values of a function that is being built

struct TensorType {
  DType dtype = DType::kInvalid;
  Shape shape;  // may have unknown dimensions
  std::string ToString() const;
  bool operator==(const TensorType& o) const { return dtype == o.dtype && shape == o.shape; }
};

// One output of one node. Default-constructed: no output (an error was already recorded).
// Equal are two of the same place, whichever builder made them.
struct Output {
  int node = -1;
  int index = 0;
  // The builder that made it, which refuses those of others: their numbers mean other nodes. 0: not
  // checked, as in finished functions.
  uint32_t builder = 0;
  bool valid() const { return node >= 0; }
  bool operator==(const Output& o) const { return node == o.node && index == o.index; }
  bool operator!=(const Output& o) const { return !(*this == o); }
  template <typename H>
  friend H AbslHashValue(H h, const Output& o) {
    return H::combine(std::move(h), o.node, o.index);
  }
};

// An attribute: a constant of an op, such as the axis of a Concat.
class AttrValue {
 public:
  using Storage = std::variant<std::monostate, int64_t, double, bool, std::string, DType, Shape,
                               std::vector<int64_t>, std::vector<std::string>, Tensor>;

  AttrValue() = default;
  AttrValue(int value) : storage_(int64_t{value}) {}
  AttrValue(int64_t value) : storage_(value) {}
  AttrValue(double value) : storage_(value) {}
  AttrValue(float value) : storage_(double{value}) {}
  AttrValue(bool value) : storage_(value) {}
  AttrValue(const char* value) : storage_(std::string(value)) {}
  AttrValue(std::string value) : storage_(std::move(value)) {}
  AttrValue(DType value) : storage_(value) {}
  AttrValue(Shape value) : storage_(std::move(value)) {}
  AttrValue(std::vector<int64_t> value) : storage_(std::move(value)) {}
  AttrValue(std::vector<std::string> value) : storage_(std::move(value)) {}
  AttrValue(Tensor value) : storage_(std::move(value)) {}

  const Storage& storage() const { return storage_; }
  template <typename T>
  const T* get() const {
    return std::get_if<T>(&storage_);
  }
  std::string ToString() const;
  bool operator==(const AttrValue& other) const;

 private:
  Storage storage_;
};

using Attrs = std::map<std::string, AttrValue>;

// How the products of a function are computed.
enum class ComputeType {
  kF32,
  // Inputs of products are rounded to bf16, and products are summed in f32. All state and all other
  // computations stay f32. On a machine without instructions for bf16: f32.
  kBf16,
  // The tensor cores of GPUs round the inputs of products to 10 mantissa bits, and sum in f32. On a
  // CPU: f32.
  kTf32,
};

// On which device workers run the steps of a function.
enum class DeviceChoice {
  kAuto,  // a worker's GPUs if it has any, else its CPU
  kCpu,
  kGpu,  // a worker without a GPU refuses the function
};

}  // namespace coxswain
