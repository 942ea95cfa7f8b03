// As much of FlatBuffers as the footer of an Arrow file needs: every position is checked, for the
// bytes may be anything.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>

namespace coxswain::data::plugin {

// A table within some bytes. Thread model: a value.
class FlatTable {
 public:
  // The root of a buffer; nothing where it lies outside.
  static std::optional<FlatTable> Root(const char* bytes, int64_t size) {
    FlatTable buffer(bytes, size, 0);
    return buffer.At(0);
  }

  // A number; what it is by default where the table has none, and nothing where it lies outside.
  template <typename Number>
  std::optional<Number> Get(int field, Number by_default) const {
    const std::optional<int64_t> at = Find(field);
    if (!at) return std::nullopt;
    if (*at == 0) return by_default;
    return Load<Number>(*at);
  }
  // A table that the field points to.
  std::optional<FlatTable> Table(int field) const {
    const std::optional<int64_t> at = Find(field);
    if (!at || *at == 0) return std::nullopt;
    return At(*at);
  }
  // Where the structs of a vector begin, and how many there are.
  struct Vector {
    const char* data;
    int64_t count;
  };
  std::optional<Vector> Structs(int field, int64_t bytes_each) const {
    const std::optional<int64_t> at = Find(field);
    if (!at) return std::nullopt;
    if (*at == 0) return Vector{bytes_, 0};
    const auto offset = Load<uint32_t>(*at);
    if (!offset) return std::nullopt;
    const int64_t begin = *at + *offset;
    const auto count = Load<uint32_t>(begin);
    if (!count || int64_t{*count} * bytes_each > size_ - begin - 4) return std::nullopt;
    return Vector{bytes_ + begin + 4, *count};
  }

 private:
  FlatTable(const char* bytes, int64_t size, int64_t position)
      : bytes_(bytes), size_(size), position_(position) {}

  template <typename Number>
  std::optional<Number> Load(int64_t at) const {
    if (at < 0 || at > size_ - static_cast<int64_t>(sizeof(Number))) return std::nullopt;
    Number number;
    std::memcpy(&number, bytes_ + at, sizeof(number));
    return number;
  }
  // The table that the offset at this place points to.
  std::optional<FlatTable> At(int64_t place) const {
    const auto offset = Load<uint32_t>(place);
    if (!offset) return std::nullopt;
    return FlatTable(bytes_, size_, place + *offset);
  }
  // Where a field's value is; 0: the table has none.
  std::optional<int64_t> Find(int field) const {
    const auto back = Load<int32_t>(position_);
    if (!back) return std::nullopt;
    const int64_t table = position_ - *back;
    const auto table_bytes = Load<uint16_t>(table);
    if (!table_bytes) return std::nullopt;
    const int64_t entry = 4 + 2 * int64_t{field};
    if (entry + 2 > *table_bytes) return 0;
    const auto offset = Load<uint16_t>(table + entry);
    if (!offset) return std::nullopt;
    return *offset == 0 ? 0 : position_ + *offset;
  }

  const char* bytes_;
  int64_t size_, position_;
};

}  // namespace coxswain::data::plugin
