#include "coordinator/job/bound_key.h"

#include "google/protobuf/descriptor.h"

namespace coxswain::job::internal {

void ReadKeys(absl::Span<const SchemaKey> keys, const SectionView& view, const void* type,
              void* target) {
  for (const SchemaKey& key : keys) {
    if (key.binding == nullptr || !view.Has(key.name)) continue;
    COX_CHECK(key.binding->target == type, key.name);  // it would write into another struct
    key.binding->read(key, view, target);
  }
}

std::string ShowKeys(absl::Span<const SchemaKey> keys, const void* target) {
  std::string text;
  for (const SchemaKey& key : keys) {
    if (key.binding == nullptr || key.binding->show == nullptr) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", key.name, ": ",
                    key.binding->show(key, target));
  }
  return text;
}

void ReadField(const SchemaKey& key, const SectionView& view, google::protobuf::Message* message) {
  using google::protobuf::FieldDescriptor;
  const FieldDescriptor* field =
      message->GetDescriptor()->FindFieldByName(key.field != nullptr ? key.field : key.name);
  COX_CHECK(field != nullptr, key.name);
  const google::protobuf::Reflection& fields = *message->GetReflection();
  if (field->is_repeated()) {
    fields.ClearField(message, field);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
      for (const int64_t value : view.Ints(key.name)) fields.AddInt64(message, field, value);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
      for (const double value : view.Reals(key.name)) fields.AddDouble(message, field, value);
    } else {
      COX_CHECK(field->cpp_type() == FieldDescriptor::CPPTYPE_STRING, key.name);
      for (const std::string& value : view.Strings(key.name)) {
        fields.AddString(message, field, value);
      }
    }
    return;
  }
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return fields.SetBool(message, field, view.Bool(key.name));
    case FieldDescriptor::CPPTYPE_INT64:
      return fields.SetInt64(message, field, view.Int(key.name));
    case FieldDescriptor::CPPTYPE_UINT64:
      return fields.SetUInt64(message, field, static_cast<uint64_t>(view.Int(key.name)));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return fields.SetDouble(message, field, view.Real(key.name));
    case FieldDescriptor::CPPTYPE_STRING:
      return fields.SetString(message, field, view.String(key.name));
    default:
      COX_CHECK(false, key.name);
  }
}

}  // namespace coxswain::job::internal
