// The keys of JOB.yaml as data. The parser takes types, ranges and defaults from here, messages
// take the nearest key from here, and a test holds docs/job.md against it: a key exists in one
// place.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace coxswain::job {

enum class KeyType {
  kBool,
  kInt,
  kBytes,  // an integer, or a number with a unit: 512MiB
  kReal,
  kString,
  kChoice,    // one of `choices`
  kStrings,   // a list; a single value stands for a list of one
  kInts,      // a list of integers in the range
  kReals,     // a list of numbers in the range
  kSection,   // keys of `section`
  kSections,  // a list of such
  kNamed,     // names, each with such
};

struct SchemaSection;
struct SchemaKey;
class SectionView;

// How a key's value gets into a struct: see bound_key.h.
struct KeyBinding {
  const void* target;  // stands for the struct's type
  void (*read)(const SchemaKey& key, const SectionView& view, void* target);
  std::string (*show)(const SchemaKey& key, const void* target);  // null: not shown
};

struct SchemaKey {
  constexpr SchemaKey(KeyType key_type, const char* key_name, const char* key_fallback,
                      const char* key_help)
      : type(key_type), name(key_name), fallback(key_fallback), help(key_help) {}
  // Each returns a copy with one thing more.
  constexpr SchemaKey Only(const char* selected) const {
    SchemaKey k = *this;
    k.only = selected;
    return k;
  }
  constexpr SchemaKey Choices(const char* words) const {
    SchemaKey k = *this;
    k.choices = words;
    if (k.type == KeyType::kString) k.type = KeyType::kChoice;
    return k;
  }
  constexpr SchemaKey Of(const SchemaSection* below) const {
    SchemaKey k = *this;
    k.section = below;
    return k;
  }
  // Of a section that is made when it is first asked for.
  constexpr SchemaKey Of(const SchemaSection& (*below)()) const {
    SchemaKey k = *this;
    k.made_section = below;
    return k;
  }
  constexpr SchemaKey Min(double value) const {
    SchemaKey k = *this;
    k.min = value;
    return k;
  }
  constexpr SchemaKey Above(double value) const {
    SchemaKey k = *this;
    k.min = value;
    k.above_min = true;
    return k;
  }
  constexpr SchemaKey Max(double value) const {
    SchemaKey k = *this;
    k.max = value;
    return k;
  }

  // Of a message's field that has another name.
  constexpr SchemaKey Into(const char* name_of_field) const {
    SchemaKey k = *this;
    k.field = name_of_field;
    return k;
  }
  constexpr SchemaKey Below(double value) const {
    SchemaKey k = *this;
    k.max = value;
    k.below_max = true;
    return k;
  }

  // Null, unless of kSection, kSections or kNamed.
  const SchemaSection* Sub() const { return made_section ? &made_section() : section; }

  KeyType type;
  const char* name;
  // YAML text of the default; "": there is none; "=text": the parser works it out, as the text
  // says; nullptr: the key must be there.
  const char* fallback;
  const char* help;
  // Values of the section's selector that the key is for, separated by spaces; "": all. A section
  // may have several keys of one name, for different values.
  const char* only = "";
  const char* choices = "";  // separated by spaces
  const SchemaSection* section = nullptr;
  const SchemaSection& (*made_section)() = nullptr;
  double min = -std::numeric_limits<double>::infinity();
  bool above_min = false;  // the value must be larger than `min`
  double max = std::numeric_limits<double>::infinity();
  bool below_max = false;  // the value must be smaller than `max`
  const KeyBinding* binding = nullptr;
  const char* field = nullptr;  // that it is bound to; null: of the key's name
};

struct SchemaSection {
  const char* path;  // "train", "features[]", "tables.NAME"; "" is the file
  // The kChoice key that says which keys are valid; "": that of the section above does.
  const char* selector;
  absl::Span<const SchemaKey> keys;
};

// The whole file.
const SchemaSection& JobSchema();

// The section of a path: "train". It must be there.
const SchemaSection& JobSection(absl::string_view path);

// `section` and all below, each once, in the order of the file.
std::vector<const SchemaSection*> AllSections(const SchemaSection& section);

// "integer >= 1": what a page or a message says is wanted.
std::string TypeText(const SchemaKey& key);

// The table of docs/job.md for one section, in Markdown.
std::string SchemaTable(const SchemaSection& section);

std::vector<std::string> Words(absl::string_view text);
bool HasWord(absl::string_view words, absl::string_view word);

}  // namespace coxswain::job
