// What is told of each type; then lists, dictionaries, texts, numbers, times and decimals.
#include "runtime/data/arrow/plugin/columns.h"

#include <arrow/array/array_decimal.h>
#include <arrow/array/array_nested.h>
#include <arrow/extension_type.h>
#include <arrow/util/decimal.h>
#include <arrow/util/float16.h>

#include <algorithm>
#include <limits>
#include <string>

namespace coxswain::data::plugin {
namespace {

using arrow::Status;
using arrow::Type;

int32_t KindOf(const arrow::DataType& type) {
  switch (type.id()) {
    case Type::INT8:
    case Type::INT16:
    case Type::INT32:
    case Type::INT64:
      return COX_ARROW_INTEGER;
    case Type::UINT8:
    case Type::UINT16:
    case Type::UINT32:
    case Type::UINT64:
      return COX_ARROW_UNSIGNED;
    case Type::HALF_FLOAT:
    case Type::FLOAT:
    case Type::DOUBLE:
    case Type::DATE32:
    case Type::DATE64:
    case Type::TIME32:
    case Type::TIME64:
    case Type::TIMESTAMP:
    case Type::DURATION:
      return COX_ARROW_REAL;
    case Type::BOOL:
      return COX_ARROW_BOOL;
    case Type::STRING:
    case Type::LARGE_STRING:
    case Type::STRING_VIEW:
    case Type::BINARY:
    case Type::LARGE_BINARY:
    case Type::BINARY_VIEW:
    case Type::FIXED_SIZE_BINARY:
    case Type::DECIMAL128:
    case Type::DECIMAL256:
    case Type::NA:
      return COX_ARROW_TEXT;
    case Type::DICTIONARY:
      return KindOf(*static_cast<const arrow::DictionaryType&>(type).value_type());
    case Type::EXTENSION:
      return KindOf(*static_cast<const arrow::ExtensionType&>(type).storage_type());
    default:
      return COX_ARROW_OTHER;
  }
}

// An integer times 10 ^ -scale in full, as the shortest text: "12.5" of 1250 and 2.
std::string DecimalText(std::string digits, int32_t scale) {
  if (scale <= 0)
    return digits == "0" ? digits : digits + std::string(static_cast<size_t>(-scale), '0');
  const bool negative = digits[0] == '-';
  if (negative) digits.erase(0, 1);
  const auto behind = static_cast<size_t>(scale);
  if (digits.size() <= behind) digits.insert(0, behind + 1 - digits.size(), '0');
  digits.insert(digits.size() - behind, ".");
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.back() == '.') digits.pop_back();
  return negative ? "-" + digits : digits;
}

bool IsList(const arrow::DataType& type) {
  return type.id() == Type::LIST || type.id() == Type::LARGE_LIST ||
         type.id() == Type::FIXED_SIZE_LIST;
}

double SecondsIn(arrow::TimeUnit::type unit) {
  switch (unit) {
    case arrow::TimeUnit::SECOND:
      return 1;
    case arrow::TimeUnit::MILLI:
      return 1e3;
    case arrow::TimeUnit::MICRO:
      return 1e6;
    default:
      return 1e9;
  }
}

// The array, or what it is stored as.
std::shared_ptr<arrow::Array> Storage(std::shared_ptr<arrow::Array> array) {
  while (array->type_id() == Type::EXTENSION) {
    array = static_cast<const arrow::ExtensionArray&>(*array).storage();
  }
  return array;
}

template <typename Array>
void ListsOf(const Array& array, std::vector<int64_t>* lists) {
  for (int64_t i = 0; i < array.length(); ++i) lists->push_back(array.value_offset(i));
  lists->push_back(array.length() == 0 ? 0 : array.value_offset(array.length()));
}

}  // namespace

CoxArrowField FieldOf(const arrow::DataType& type) {
  CoxArrowField field = {};
  field.is_list = IsList(type) ? 1 : 0;
  field.kind = KindOf(field.is_list != 0 ? *type.field(0)->type() : type);
  return field;
}

Status Column::Set(std::shared_ptr<arrow::Array> array) {
  column_ = {};
  array_ = Storage(std::move(array));
  column_.rows = array_->length();
  std::shared_ptr<arrow::Array> values = array_;
  if (IsList(*array_->type())) ARROW_RETURN_NOT_OK(SetLists(*array_, &values));
  elements_ = Storage(std::move(values));
  if (elements_->type_id() != Type::DICTIONARY) return SetValues(*elements_);
  return SetCodes(static_cast<const arrow::DictionaryArray&>(*elements_));
}

Status Column::SetLists(const arrow::Array& array, std::shared_ptr<arrow::Array>* values) {
  lists_.clear();
  lists_.reserve(static_cast<size_t>(array.length()) + 1);
  if (array.type_id() == Type::LIST) {
    const auto& lists = static_cast<const arrow::ListArray&>(array);
    ListsOf(lists, &lists_);
    *values = lists.values();
  } else if (array.type_id() == Type::LARGE_LIST) {
    const auto& lists = static_cast<const arrow::LargeListArray&>(array);
    ListsOf(lists, &lists_);
    *values = lists.values();
  } else {
    const auto& lists = static_cast<const arrow::FixedSizeListArray&>(array);
    for (int64_t i = 0; i <= array.length(); ++i) lists_.push_back(lists.value_offset(i));
    *values = lists.values();
  }
  // Of a slice the values begin somewhere; those of other rows need not be looked at.
  const int64_t first = lists_.front(), last = lists_.back();
  if (!std::is_sorted(lists_.begin(), lists_.end()) || first < 0 || last > (*values)->length()) {
    return Status::Invalid("a column of lists whose offsets do not rise");
  }
  *values = (*values)->Slice(first, last - first);
  for (int64_t& offset : lists_) offset -= first;
  column_.lists = lists_.data();
  if (array.null_count() > 0) {
    column_.valid_rows = array.null_bitmap_data();
    column_.valid_rows_offset = array.offset();
  }
  return Status::OK();
}

Status Column::SetCodes(const arrow::DictionaryArray& array) {
  entries_ = Storage(array.dictionary());
  const int64_t entries = entries_->length();
  codes_.resize(static_cast<size_t>(array.length()));
  if (entries > std::numeric_limits<int32_t>::max()) {
    return Status::Invalid("a dictionary of more than 2^31 - 1 entries");
  }
  for (int64_t i = 0; i < array.length(); ++i) {
    int32_t* const code = &codes_[static_cast<size_t>(i)];
    *code = -1;
    if (array.IsNull(i)) continue;
    const int64_t index = array.GetValueIndex(i);
    if (index < 0 || index >= entries) {
      return Status::Invalid("entry ", index, " of a dictionary that has ", entries);
    }
    if (entries_->IsValid(index)) *code = static_cast<int32_t>(index);
  }
  column_.codes = codes_.data();
  return SetValues(*entries_);
}

template <typename Array>
void Column::SetTexts(const Array& array) {
  offsets_.clear();
  offsets_.reserve(static_cast<size_t>(array.length()) + 1);
  for (int64_t i = 0; i < array.length(); ++i) offsets_.push_back(array.value_offset(i));
  offsets_.push_back(array.length() == 0 ? 0 : array.value_offset(array.length()));
  column_.values.bytes = reinterpret_cast<const char*>(array.raw_data());
}

template <typename Array, typename To, typename Convert>
void Column::SetNumbers(const arrow::Array& array, std::vector<To>* to, Convert convert) {
  const auto* const from = static_cast<const Array&>(array).raw_values();
  to->resize(static_cast<size_t>(array.length()));
  for (int64_t i = 0; i < array.length(); ++i) (*to)[static_cast<size_t>(i)] = convert(from[i]);
  column_.values.numbers = to->data();
}

void Column::SetBools(const arrow::BooleanArray& array) {
  bools_.resize(static_cast<size_t>(array.length()));
  for (int64_t i = 0; i < array.length(); ++i) {
    bools_[static_cast<size_t>(i)] = array.Value(i) ? 1 : 0;
  }
  column_.values.numbers = bools_.data();
}

// Texts, for ids have more digits than a double.
void Column::SetDecimals(const arrow::Array& array) {
  texts_.clear();
  offsets_.assign(1, 0);
  const int32_t scale = static_cast<const arrow::DecimalType&>(*array.type()).scale();
  for (int64_t i = 0; i < array.length(); ++i) {
    if (array.IsValid(i)) {
      const uint8_t* const bytes =
          static_cast<const arrow::FixedSizeBinaryArray&>(array).GetValue(i);
      texts_ += DecimalText(array.type_id() == Type::DECIMAL128
                                ? arrow::Decimal128(bytes).ToIntegerString()
                                : arrow::Decimal256(bytes).ToIntegerString(),
                            scale);
    }
    offsets_.push_back(static_cast<int64_t>(texts_.size()));
  }
  column_.values.bytes = texts_.data();
}

void Column::SetTimes(const arrow::Array& array) {
  const auto divided = [](double by) {
    return [by](auto value) { return static_cast<double>(value) / by; };
  };
  const arrow::DataType& type = *array.type();
  switch (array.type_id()) {
    case Type::DATE32:
      SetNumbers<arrow::Date32Array>(array, &reals_, [](int32_t days) { return days * 86400.0; });
      break;
    case Type::DATE64:
      SetNumbers<arrow::Date64Array>(array, &reals_, divided(1e3));
      break;
    case Type::TIME32:
      SetNumbers<arrow::Time32Array>(
          array, &reals_, divided(SecondsIn(static_cast<const arrow::Time32Type&>(type).unit())));
      break;
    case Type::TIME64:
      SetNumbers<arrow::Time64Array>(
          array, &reals_, divided(SecondsIn(static_cast<const arrow::Time64Type&>(type).unit())));
      break;
    case Type::TIMESTAMP:
      SetNumbers<arrow::TimestampArray>(
          array, &reals_,
          divided(SecondsIn(static_cast<const arrow::TimestampType&>(type).unit())));
      break;
    default:
      SetNumbers<arrow::DurationArray>(
          array, &reals_, divided(SecondsIn(static_cast<const arrow::DurationType&>(type).unit())));
  }
}

Status Column::SetNumeric(const arrow::Array& array) {
  const auto same = [](auto value) { return value; };
  switch (array.type_id()) {
    case Type::INT8:
      SetNumbers<arrow::Int8Array>(array, &integers_, same);
      break;
    case Type::INT16:
      SetNumbers<arrow::Int16Array>(array, &integers_, same);
      break;
    case Type::INT32:
      SetNumbers<arrow::Int32Array>(array, &integers_, same);
      break;
    case Type::INT64:
      column_.values.numbers = static_cast<const arrow::Int64Array&>(array).raw_values();
      break;
    case Type::UINT8:
      SetNumbers<arrow::UInt8Array>(array, &unsigned_, same);
      break;
    case Type::UINT16:
      SetNumbers<arrow::UInt16Array>(array, &unsigned_, same);
      break;
    case Type::UINT32:
      SetNumbers<arrow::UInt32Array>(array, &unsigned_, same);
      break;
    case Type::UINT64:
      column_.values.numbers = static_cast<const arrow::UInt64Array&>(array).raw_values();
      break;
    case Type::HALF_FLOAT:
      SetNumbers<arrow::HalfFloatArray>(array, &reals_, [](uint16_t bits) {
        return arrow::util::Float16::FromBits(bits).ToDouble();
      });
      break;
    case Type::FLOAT:
      SetNumbers<arrow::FloatArray>(array, &reals_, same);
      break;
    case Type::DOUBLE:
      column_.values.numbers = static_cast<const arrow::DoubleArray&>(array).raw_values();
      break;
    default:
      SetTimes(array);
  }
  return Status::OK();
}

void Column::SetFixedTexts(const arrow::FixedSizeBinaryArray& array) {
  offsets_.resize(static_cast<size_t>(array.length()) + 1);
  for (size_t i = 0; i < offsets_.size(); ++i) {
    offsets_[i] = static_cast<int64_t>(i) * array.byte_width();
  }
  column_.values.bytes = reinterpret_cast<const char*>(array.raw_values());
}

void Column::SetViews(const arrow::BinaryViewArray& array) {
  texts_.clear();
  offsets_.assign(1, 0);
  for (int64_t i = 0; i < array.length(); ++i) {
    if (array.IsValid(i)) texts_ += array.GetView(i);
    offsets_.push_back(static_cast<int64_t>(texts_.size()));
  }
  column_.values.bytes = texts_.data();
}

// Of a column that has nothing but missing values.
void Column::SetNone(int64_t count) {
  none_.assign(static_cast<size_t>(count) / 8 + 1, 0);
  column_.values.valid = none_.data();
  column_.values.valid_offset = 0;
  offsets_.assign(static_cast<size_t>(count) + 1, 0);
  column_.values.bytes = "";
}

Status Column::SetText(const arrow::Array& array) {
  switch (array.type_id()) {
    case Type::STRING:
    case Type::BINARY:
      SetTexts(static_cast<const arrow::BinaryArray&>(array));
      break;
    case Type::LARGE_STRING:
    case Type::LARGE_BINARY:
      SetTexts(static_cast<const arrow::LargeBinaryArray&>(array));
      break;
    case Type::FIXED_SIZE_BINARY:
      SetFixedTexts(static_cast<const arrow::FixedSizeBinaryArray&>(array));
      break;
    case Type::STRING_VIEW:
    case Type::BINARY_VIEW:
      SetViews(static_cast<const arrow::BinaryViewArray&>(array));
      break;
    case Type::DECIMAL128:
    case Type::DECIMAL256:
      SetDecimals(array);
      break;
    case Type::NA:
      SetNone(array.length());
      break;
    default:  // a dictionary of dictionaries
      return Status::Invalid("values of the type ", array.type()->ToString());
  }
  column_.values.offsets = offsets_.data();
  return Status::OK();
}

Status Column::SetValues(const arrow::Array& array) {
  CoxArrowValues* const values = &column_.values;
  values->kind = KindOf(*array.type());
  values->count = array.length();
  if (array.null_count() > 0) {
    values->valid = array.null_bitmap_data();
    values->valid_offset = array.offset();
  }
  switch (values->kind) {
    case COX_ARROW_INTEGER:
    case COX_ARROW_UNSIGNED:
    case COX_ARROW_REAL:
      if (array.type_id() != Type::DICTIONARY) return SetNumeric(array);
      break;
    case COX_ARROW_BOOL:
      if (array.type_id() != Type::BOOL) break;
      SetBools(static_cast<const arrow::BooleanArray&>(array));
      return Status::OK();
    case COX_ARROW_TEXT:
      return SetText(array);
    default:
      break;
  }
  return Status::Invalid("values of the type ", array.type()->ToString());
}

}  // namespace coxswain::data::plugin
