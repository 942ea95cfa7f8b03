#include "coordinator/job/merged_section.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"

namespace coxswain::job {
namespace {

bool SameText(const char* a, const char* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return absl::string_view(a) == b;
}

bool Same(const SchemaKey& a, const SchemaKey& b) {
  return a.type == b.type && SameText(a.name, b.name) && SameText(a.fallback, b.fallback) &&
         SameText(a.help, b.help) && SameText(a.choices, b.choices) && a.min == b.min &&
         a.max == b.max && a.above_min == b.above_min && a.below_max == b.below_max &&
         a.made_section == b.made_section;
}

}  // namespace

std::vector<MergedSection::Row> MergedSection::Rows(absl::Span<const KeysOfWord> words) {
  std::vector<Row> rows;
  for (const KeysOfWord& of : words) {
    for (const SchemaKey& key : of.keys) {
      auto row = std::find_if(rows.begin(), rows.end(),
                              [&](const Row& other) { return Same(other.key, key); });
      if (row == rows.end()) {
        const auto last = std::find_if(rows.rbegin(), rows.rend(), [&](const Row& other) {
          return SameText(other.key.name, key.name);
        });
        row = rows.insert(last == rows.rend() ? rows.end() : last.base(), Row{key, {}, {}});
      }
      row->words.push_back(of.word);
      if (key.section != nullptr) row->below.push_back({of.word, key.section->keys});
    }
  }
  std::stable_partition(rows.begin(), rows.end(),
                        [&](const Row& row) { return row.words.size() < words.size(); });
  return rows;
}

SchemaKey MergedSection::Finished(const Row& row, size_t words) {
  SchemaKey key = row.key;
  if (row.words.size() < words) {
    key.only = texts_.emplace_back(absl::StrJoin(row.words, " ")).c_str();
  }
  const bool one = std::all_of(row.below.begin(), row.below.end(), [&](const KeysOfWord& below) {
    return below.keys.data() == row.below[0].keys.data();
  });
  if (!one) {
    // Its keys are chosen by the selector of this section.
    sections_.emplace_back(new MergedSection(row.below, key.section->path));
    key.section = &sections_.back()->section();
  }
  return key;
}

MergedSection::MergedSection(absl::Span<const KeysOfWord> words, const char* path) {
  Append(words);
  section_ = {path, "", keys_};
}

MergedSection::MergedSection(absl::Span<const KeysOfWord> words, const char* path,
                             SchemaKey selector, absl::Span<const SchemaKey> common) {
  const auto word = [](std::string* out, const KeysOfWord& of) { out->append(of.word); };
  keys_.push_back(selector.Choices(texts_.emplace_back(absl::StrJoin(words, " ", word)).c_str()));
  keys_.insert(keys_.end(), common.begin(), common.end());
  Append(words);
  section_ = {path, selector.name, keys_};
}

void MergedSection::Append(absl::Span<const KeysOfWord> words) {
  for (const Row& row : Rows(words)) keys_.push_back(Finished(row, words.size()));
}

}  // namespace coxswain::job
