// TFRecord files for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protos/tf_example.pb.h"
#include "runtime/data/crc32c.h"

namespace coxswain {

inline std::string TfRecord(const std::string& bytes) {
  const auto little_endian = [](uint64_t number, size_t size) {
    std::string text;
    for (size_t i = 0; i < size; ++i) text += static_cast<char>(number >> (8 * i) & 255);
    return text;
  };
  const std::string length = little_endian(bytes.size(), 8);
  return length + little_endian(data::MaskedCrc32c(length), 4) + bytes +
         little_endian(data::MaskedCrc32c(bytes), 4);
}

class ExampleBuilder {
 public:
  ExampleBuilder& Int(const std::string& name, std::vector<int64_t> values) {
    *Feature(name)->mutable_int64_list()->mutable_value() = {values.begin(), values.end()};
    return *this;
  }
  ExampleBuilder& Float(const std::string& name, std::vector<float> values) {
    *Feature(name)->mutable_float_list()->mutable_value() = {values.begin(), values.end()};
    return *this;
  }
  ExampleBuilder& Bytes(const std::string& name, std::vector<std::string> values) {
    *Feature(name)->mutable_bytes_list()->mutable_value() = {values.begin(), values.end()};
    return *this;
  }
  std::string Record() const { return TfRecord(example_.SerializeAsString()); }

 private:
  proto::TfFeature* Feature(const std::string& name) {
    return &(*example_.mutable_features()->mutable_feature())[name];
  }

  proto::TfExample example_;
};

}  // namespace coxswain
