// What a model learned of its data, as files: the values of a vocabulary, and how often each occurs
// in the training part. One a line, by id; a backslash and the ends of lines in a value are written
// \\, \n and \r.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace coxswain::data {

std::string EscapeLine(absl::string_view value);
// A backslash before any other character stands for that character.
std::string UnescapeLine(absl::string_view line);

// Whether a file is one that a saved model has: in `vocabulary/` beside its features.json. A list
// of values that somebody else wrote has lines as they are.
bool IsSavedVocabulary(const std::string& path);

// The content of such files.
std::string VocabularyLines(absl::Span<const std::string> values);
std::string CountLines(absl::Span<const int64_t> counts);

// Errors of all: DataLoss for a file that has not `size` lines, or whose HashText is not `hash`:
// it is not the one that was saved; those of the file system.
absl::StatusOr<std::vector<std::string>> ReadVocabularyLines(const std::string& path, uint64_t hash,
                                                             int64_t size);
// Of a file with any number of lines: the values that keep_names keeps.
absl::StatusOr<std::vector<std::string>> ReadNameLines(const std::string& path, uint64_t hash);
absl::StatusOr<std::vector<int64_t>> ReadCountLines(const std::string& path, uint64_t hash,
                                                    int64_t size);

}  // namespace coxswain::data
