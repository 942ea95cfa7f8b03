// Values, fields and messages of protobuf as JSON and back; and JSON that comes from outside,
// parsed within bounds.
#include "runtime/checkpoint/message_json.h"

#include <cmath>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "runtime/base/status.h"

namespace coxswain::checkpoint {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr char kNan[] = "nan", kInfinity[] = "inf", kNegativeInfinity[] = "-inf";

Json DoubleToJson(double value) {
  if (std::isnan(value)) return kNan;
  if (std::isinf(value)) return value > 0 ? kInfinity : kNegativeInfinity;
  return value;
}

bool DoubleFromJson(const Json& json, double* value) {
  if (json.is_number()) {
    *value = json.get<double>();
    return true;
  }
  if (json == kNan) {
    *value = std::numeric_limits<double>::quiet_NaN();
  } else if (json == kInfinity) {
    *value = std::numeric_limits<double>::infinity();
  } else if (json == kNegativeInfinity) {
    *value = -std::numeric_limits<double>::infinity();
  } else {
    return false;
  }
  return true;
}

// One value of a field, or of a repeated field the value at `index` (else -1).
Json ValueToJson(const Message& m, const FieldDescriptor* field, int index) {
  const Reflection* r = m.GetReflection();
  const bool one = index < 0;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return one ? r->GetInt32(m, field) : r->GetRepeatedInt32(m, field, index);
    case FieldDescriptor::CPPTYPE_INT64:
      return one ? r->GetInt64(m, field) : r->GetRepeatedInt64(m, field, index);
    case FieldDescriptor::CPPTYPE_UINT32:
      return one ? r->GetUInt32(m, field) : r->GetRepeatedUInt32(m, field, index);
    case FieldDescriptor::CPPTYPE_UINT64:
      return one ? r->GetUInt64(m, field) : r->GetRepeatedUInt64(m, field, index);
    case FieldDescriptor::CPPTYPE_ENUM:
      return one ? r->GetEnumValue(m, field) : r->GetRepeatedEnumValue(m, field, index);
    case FieldDescriptor::CPPTYPE_BOOL:
      return one ? r->GetBool(m, field) : r->GetRepeatedBool(m, field, index);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return DoubleToJson(one ? r->GetDouble(m, field) : r->GetRepeatedDouble(m, field, index));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return DoubleToJson(one ? r->GetFloat(m, field) : r->GetRepeatedFloat(m, field, index));
    case FieldDescriptor::CPPTYPE_STRING: {
      std::string text = one ? r->GetString(m, field) : r->GetRepeatedString(m, field, index);
      if (field->type() == FieldDescriptor::TYPE_BYTES) text = absl::Base64Escape(text);
      return text;
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return MessageToJson(one ? r->GetMessage(m, field) : r->GetRepeatedMessage(m, field, index));
  }
  return nullptr;
}

absl::Status Unexpected(const FieldDescriptor* field, absl::string_view wanted, const Json& found) {
  return absl::InvalidArgumentError(
      absl::StrCat(field->name(), ": wanted ", wanted, ", found ", Shortly(found)));
}

// Sets the field, or adds to it when it is repeated.
absl::Status ValueFromJson(const Json& json, const FieldDescriptor* field, Message* m) {
  const Reflection* r = m->GetReflection();
  const bool one = !field->is_repeated();
  const auto integer = [&](auto value, auto set, auto add) {
    if (!ReadInteger(json, &value)) return Unexpected(field, "an integer that fits", json);
    (r->*(one ? set : add))(m, field, value);
    return absl::OkStatus();
  };
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return integer(int32_t{0}, &Reflection::SetInt32, &Reflection::AddInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return integer(int64_t{0}, &Reflection::SetInt64, &Reflection::AddInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return integer(uint32_t{0}, &Reflection::SetUInt32, &Reflection::AddUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return integer(uint64_t{0}, &Reflection::SetUInt64, &Reflection::AddUInt64);
    case FieldDescriptor::CPPTYPE_ENUM:
      return integer(int{0}, &Reflection::SetEnumValue, &Reflection::AddEnumValue);
    case FieldDescriptor::CPPTYPE_BOOL:
      if (!json.is_boolean()) return Unexpected(field, "true or false", json);
      one ? r->SetBool(m, field, json.get<bool>()) : r->AddBool(m, field, json.get<bool>());
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT: {
      double value = 0;
      if (!DoubleFromJson(json, &value)) return Unexpected(field, "a number", json);
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
        one ? r->SetDouble(m, field, value) : r->AddDouble(m, field, value);
      } else {
        const auto narrow = static_cast<float>(value);
        one ? r->SetFloat(m, field, narrow) : r->AddFloat(m, field, narrow);
      }
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      if (!json.is_string()) return Unexpected(field, "text", json);
      std::string text = json.get<std::string>();
      if (field->type() == FieldDescriptor::TYPE_BYTES &&
          !absl::Base64Unescape(json.get<std::string>(), &text)) {
        return Unexpected(field, "base64", json);
      }
      one ? r->SetString(m, field, std::move(text)) : r->AddString(m, field, std::move(text));
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      const absl::Status read =
          MessageFromJson(json, one ? r->MutableMessage(m, field) : r->AddMessage(m, field));
      return read.ok() ? read : Annotate(read, field->name());
    }
  }
  return absl::InternalError("a field of an unknown type");
}

}  // namespace

Json MessageToJson(const Message& message) {
  Json json = Json::object();
  const auto* descriptor = message.GetDescriptor();
  const Reflection* reflection = message.GetReflection();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* field = descriptor->field(i);
    if (field->is_repeated()) {
      Json& list = json[field->name()] = Json::array();
      for (int k = 0; k < reflection->FieldSize(message, field); ++k) {
        list.push_back(ValueToJson(message, field, k));
      }
    } else if (!field->has_presence() || reflection->HasField(message, field)) {
      json[field->name()] = ValueToJson(message, field, -1);
    }
  }
  return json;
}

absl::Status MessageFromJson(const Json& json, Message* message) {
  const auto* descriptor = message->GetDescriptor();
  if (!json.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat("wanted an object, found ", Shortly(json)));
  }
  for (const auto& [key, value] : json.items()) {
    const FieldDescriptor* field = descriptor->FindFieldByName(key);
    if (field == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown key ", Shortly(Json(key)), " in ", descriptor->name()));
    }
    if (!field->is_repeated()) {
      RETURN_IF_ERROR(ValueFromJson(value, field, message));
      continue;
    }
    if (!value.is_array()) return Unexpected(field, "a list", value);
    for (const Json& element : value) RETURN_IF_ERROR(ValueFromJson(element, field, message));
  }
  return absl::OkStatus();
}

bool JsonDepthIsAtMost(absl::string_view text, int max_depth) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > max_depth) return false;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return true;
}

Json ParseJson(absl::string_view text, int max_depth) {
  if (!JsonDepthIsAtMost(text, max_depth)) return Json(Json::value_t::discarded);
  return Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
}

}  // namespace coxswain::checkpoint
