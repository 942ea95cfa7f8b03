// Keys that are bound to what they fill in: a member of a struct, or a field of a message, that of
// the same name or the one that Into names. The key's type comes from the member, and an enum's
// words from its EnumWords:
//
//   Key<&TrainSpec::batch_size>("batch_size", "256", "number of examples per step").Min(1)
//   Key<&MlpOptions::style, &LayerStyle::dropout>("dropout", "0", "...")  // of a struct within it
//   Field<proto::HashTableSpec>(KeyType::kInt, "ttl_steps", "0", "...").Min(0)
//
// ReadKeys then reads a whole section. A member keeps its value where the key is not in the file
// and has no default.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "coordinator/job/checked_yaml.h"
#include "coordinator/job/enum_words.h"
#include "coordinator/job/schema.h"
#include "google/protobuf/message.h"
#include "runtime/base/logging.h"

namespace coxswain::job {

namespace internal {

template <auto Member>
struct ClassOf;
template <typename C, typename T, T C::*M>
struct ClassOf<M> {
  using Type = C;
};

// A member of a class, or with more members a member of that member, and so on.
template <auto Member, auto... Inner>
struct Path {
  using Class = typename ClassOf<Member>::Type;
  static auto& In(Class& target) { return ((target.*Member).*....*Inner); }
  static const auto& In(const Class& target) { return ((target.*Member).*....*Inner); }
  using Type = std::remove_reference_t<decltype(In(std::declval<Class&>()))>;
};

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <typename T>
constexpr KeyType TypeOf() {
  if constexpr (IsOptional<T>::value) return TypeOf<typename T::value_type>();
  if constexpr (std::is_same_v<T, bool>) return KeyType::kBool;
  if constexpr (std::is_integral_v<T>) return KeyType::kInt;
  if constexpr (std::is_same_v<T, double>) return KeyType::kReal;
  if constexpr (std::is_same_v<T, std::string>) return KeyType::kString;
  if constexpr (std::is_enum_v<T>) return KeyType::kChoice;
  if constexpr (std::is_same_v<T, std::vector<std::string>>) return KeyType::kStrings;
  if constexpr (std::is_same_v<T, std::vector<int64_t>>) return KeyType::kInts;
  if constexpr (std::is_same_v<T, std::vector<double>>) return KeyType::kReals;
  return KeyType::kSection;
}

// One address for each type.
template <typename T>
inline constexpr char kTypeTag = 0;

void ReadKeys(absl::Span<const SchemaKey> keys, const SectionView& view, const void* type,
              void* target);
std::string ShowKeys(absl::Span<const SchemaKey> keys, const void* target);
// Sets the field that the key is bound to.
void ReadField(const SchemaKey& key, const SectionView& view, google::protobuf::Message* message);

template <typename T>
void ReadValue(const SchemaKey& key, const SectionView& view, T* value) {
  constexpr KeyType kType = TypeOf<T>();
  if constexpr (IsOptional<T>::value) {
    ReadValue(key, view, &value->emplace());
  } else if constexpr (kType == KeyType::kBool) {
    *value = view.Bool(key.name);
  } else if constexpr (kType == KeyType::kInt) {
    *value = static_cast<T>(view.Int(key.name));
  } else if constexpr (kType == KeyType::kReal) {
    *value = view.Real(key.name);
  } else if constexpr (kType == KeyType::kString) {
    *value = view.String(key.name);
  } else if constexpr (kType == KeyType::kChoice) {
    FromWord(view.String(key.name), value);
  } else if constexpr (kType == KeyType::kStrings) {
    *value = view.Strings(key.name);
  } else if constexpr (kType == KeyType::kInts) {
    *value = view.Ints(key.name);
  } else if constexpr (kType == KeyType::kReals) {
    *value = view.Reals(key.name);
  } else {
    internal::ReadKeys(key.Sub()->keys, view.Sub(key.name), &kTypeTag<T>, value);
  }
}

template <typename T>
std::string ShowValue(const SchemaKey& key, const T& value) {
  constexpr KeyType kType = TypeOf<T>();
  if constexpr (IsOptional<T>::value) {
    return value ? ShowValue(key, *value) : "none";
  } else if constexpr (kType == KeyType::kBool) {
    return value ? "true" : "false";
  } else if constexpr (kType == KeyType::kChoice) {
    return ToWord(value);
  } else if constexpr (kType == KeyType::kStrings || kType == KeyType::kInts ||
                       kType == KeyType::kReals) {
    return absl::StrCat("[", absl::StrJoin(value, ", "), "]");
  } else if constexpr (kType == KeyType::kSection) {
    return absl::StrCat("{", internal::ShowKeys(key.Sub()->keys, &value), "}");
  } else {
    return absl::StrCat(value);
  }
}

template <typename Of>
void ReadMember(const SchemaKey& key, const SectionView& view, void* target) {
  ReadValue(key, view, &Of::In(*static_cast<typename Of::Class*>(target)));
}

template <typename Of>
std::string ShowMember(const SchemaKey& key, const void* target) {
  return ShowValue(key, Of::In(*static_cast<const typename Of::Class*>(target)));
}

template <typename Message>
void ReadMessageField(const SchemaKey& key, const SectionView& view, void* target) {
  ReadField(key, view, static_cast<Message*>(target));
}

template <typename Of>
inline constexpr KeyBinding kMember = {&kTypeTag<typename Of::Class>, &ReadMember<Of>,
                                       &ShowMember<Of>};
template <typename Message>
inline constexpr KeyBinding kField = {&kTypeTag<Message>, &ReadMessageField<Message>, nullptr};

constexpr std::array<SchemaKey, 1> AsArray(const SchemaKey& key) { return {key}; }
template <size_t n>
constexpr std::array<SchemaKey, n> AsArray(const std::array<SchemaKey, n>& keys) {
  return keys;
}

}  // namespace internal

template <auto Member, auto... Inner>
constexpr SchemaKey Key(const char* name, const char* fallback, const char* help) {
  using Of = internal::Path<Member, Inner...>;
  using T = typename Of::Type;
  SchemaKey key(internal::TypeOf<T>(), name, fallback, help);
  key.binding = &internal::kMember<Of>;
  if constexpr (std::is_enum_v<T>) key.choices = kJoinedWords<T>.data();
  return key;
}

template <typename Message>
constexpr SchemaKey Field(KeyType type, const char* name, const char* fallback, const char* help) {
  SchemaKey key(type, name, fallback, help);
  key.binding = &internal::kField<Message>;
  return key;
}

// One array of keys and arrays of keys, in this order: for keys that several sections share.
template <typename... Parts>
constexpr auto KeyList(const Parts&... parts) {
  return std::apply(
      [](const auto&... keys) { return std::array<SchemaKey, sizeof...(keys)>{keys...}; },
      std::tuple_cat(internal::AsArray(parts)...));
}

// Reads the keys of a checked section into `target`, which is what they are bound to; those that
// are bound to nothing are left to whoever knows them.
template <typename T>
void ReadKeys(absl::Span<const SchemaKey> keys, const SectionView& view, T* target) {
  internal::ReadKeys(keys, view, &internal::kTypeTag<T>, target);
}

// "dim: 32, user: {features: [age], hidden: []}": what the members hold now.
template <typename T>
std::string ShowKeys(absl::Span<const SchemaKey> keys, const T& target) {
  return internal::ShowKeys(keys, &target);
}

}  // namespace coxswain::job
