// The words by which a job names the values of an enum: one table for each enum, which the schema,
// the parser and messages go by.
#pragma once

#include <array>
#include <cstddef>

#include "absl/strings/string_view.h"

namespace coxswain::job {

template <typename E>
struct EnumWord {
  const char* word;
  E value;
};

// Specialised for each enum of a job, with `static constexpr EnumWord<E> kAll[]`, the words in the
// order in which messages name them.
template <typename E>
struct EnumWords;

// False, and `value` stays, when there is no such word.
template <typename E>
bool FromWord(absl::string_view word, E* value) {
  for (const EnumWord<E>& known : EnumWords<E>::kAll) {
    if (word != known.word) continue;
    *value = known.value;
    return true;
  }
  return false;
}

template <typename E>
const char* ToWord(E value) {
  for (const EnumWord<E>& known : EnumWords<E>::kAll) {
    if (known.value == value) return known.word;
  }
  return "";
}

namespace internal {

constexpr size_t Length(const char* text) {
  size_t length = 0;
  while (text[length] != '\0') ++length;
  return length;
}

template <typename E>
constexpr size_t LengthOfWords() {
  size_t length = 0;
  for (const EnumWord<E>& known : EnumWords<E>::kAll) length += Length(known.word) + 1;
  return length;
}

template <typename E>
constexpr std::array<char, LengthOfWords<E>()> JoinWords() {
  std::array<char, LengthOfWords<E>()> text{};
  size_t at = 0;
  for (const EnumWord<E>& known : EnumWords<E>::kAll) {
    if (at > 0) text[at++] = ' ';
    for (size_t i = 0; known.word[i] != '\0'; ++i) text[at++] = known.word[i];
  }
  return text;
}

}  // namespace internal

// "relu tanh sigmoid": SchemaKey::choices.
template <typename E>
inline constexpr auto kJoinedWords = internal::JoinWords<E>();

}  // namespace coxswain::job
