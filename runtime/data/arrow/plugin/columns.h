// Arrow's arrays as the columns of the C table.
#pragma once

#include <arrow/array.h>
#include <arrow/status.h>
#include <arrow/type.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/arrow/arrow_api.h"

namespace coxswain::data::plugin {

// What is told of a column of this type; `name` and `type` are left to the caller.
CoxArrowField FieldOf(const arrow::DataType& type);

// A column and what it points to. Thread model: one thread.
class Column {
 public:
  Column() = default;
  Column(const Column&) = delete;
  Column& operator=(const Column&) = delete;

  // Errors: Invalid for a type that FieldOf calls other, for codes outside of their dictionary, and
  // for offsets that do not rise.
  arrow::Status Set(std::shared_ptr<arrow::Array> array);
  const CoxArrowColumn& column() const { return column_; }

 private:
  arrow::Status SetLists(const arrow::Array& array, std::shared_ptr<arrow::Array>* values);
  arrow::Status SetCodes(const arrow::DictionaryArray& array);
  arrow::Status SetValues(const arrow::Array& array);
  template <typename Array>
  void SetTexts(const Array& array);
  template <typename Array, typename To, typename Convert>
  void SetNumbers(const arrow::Array& array, std::vector<To>* to, Convert convert);
  arrow::Status SetNumeric(const arrow::Array& array);
  void SetBools(const arrow::BooleanArray& array);
  void SetDecimals(const arrow::Array& array);
  void SetTimes(const arrow::Array& array);
  arrow::Status SetText(const arrow::Array& array);
  void SetFixedTexts(const arrow::FixedSizeBinaryArray& array);
  void SetViews(const arrow::BinaryViewArray& array);
  void SetNone(int64_t count);

  std::shared_ptr<arrow::Array> array_, elements_, entries_;
  std::vector<int64_t> lists_, offsets_, integers_;
  std::vector<uint64_t> unsigned_;
  std::vector<double> reals_;
  std::vector<uint8_t> bools_, none_;
  std::string texts_;
  std::vector<int32_t> codes_;
  CoxArrowColumn column_ = {};
};

}  // namespace coxswain::data::plugin
