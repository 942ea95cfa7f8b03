// A section of a job whose selector (`kind`, `format`) says which keys it has, made of what each of
// the selector's words brings: a model's kind, a loss, a format of files.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "coordinator/job/schema.h"

namespace coxswain::job {

struct KeysOfWord {
  const char* word;
  absl::Span<const SchemaKey> keys;
};

// Where several words bring the very same key, it is one line of the schema. Sections of the same
// name become one that is merged in the same way. Keys of one name lie together, and those that all
// words bring come last. What the keys point to must outlive the object; so must the object what
// takes its section.
class MergedSection {
 public:
  // `selector` gets the words as its choices. `common`: keys for all words, behind it.
  MergedSection(absl::Span<const KeysOfWord> words, const char* path, SchemaKey selector,
                absl::Span<const SchemaKey> common = {});
  MergedSection(const MergedSection&) = delete;
  MergedSection& operator=(const MergedSection&) = delete;

  const SchemaSection& section() const { return section_; }

 private:
  // A section below one: its selector is that one's.
  MergedSection(absl::Span<const KeysOfWord> words, const char* path);

  struct Row {
    SchemaKey key;
    std::vector<const char*> words;
    std::vector<KeysOfWord> below;  // of a section
  };

  static std::vector<Row> Rows(absl::Span<const KeysOfWord> words);
  void Append(absl::Span<const KeysOfWord> words);
  SchemaKey Finished(const Row& row, size_t words);

  std::deque<std::string> texts_;
  std::vector<std::unique_ptr<MergedSection>> sections_;
  std::vector<SchemaKey> keys_;
  SchemaSection section_;
};

}  // namespace coxswain::job
