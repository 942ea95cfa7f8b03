#include "runtime/data/vocabulary_file.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/hash.h"
#include "runtime/data/number.h"
#include "runtime/env/file_system.h"

namespace coxswain::data {
namespace {

absl::Status Damaged(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, ": not as it was saved: ", what));
}

constexpr int64_t kAnySize = -1;

// Calls `use` with each line.
template <typename Use>
absl::Status ForLines(const std::string& path, uint64_t hash, int64_t size, Use use) {
  ASSIGN_OR_RETURN(const std::string content, env::NewRealFileSystem()->Read(path));
  if (HashText(content) != hash) return Damaged(path, "its bytes are others");
  absl::string_view rest = content;
  int64_t lines = 0;
  for (; !rest.empty(); ++lines) {
    const size_t end = rest.find('\n');
    if (end == absl::string_view::npos) return Damaged(path, "the last line is cut");
    if (!use(rest.substr(0, end))) {
      return Damaged(path, absl::StrCat("line ", lines + 1, " is no number"));
    }
    rest.remove_prefix(end + 1);
  }
  if (lines == size || size == kAnySize) return absl::OkStatus();
  return Damaged(path, absl::StrCat("wanted ", size, " lines, found ", lines));
}

}  // namespace

std::string EscapeLine(absl::string_view value) {
  std::string line;
  line.reserve(value.size());
  for (const char c : value) {
    if (c == '\\') {
      line += "\\\\";
    } else if (c == '\n') {
      line += "\\n";
    } else if (c == '\r') {
      line += "\\r";
    } else {
      line += c;
    }
  }
  return line;
}

std::string UnescapeLine(absl::string_view line) {
  std::string value;
  value.reserve(line.size());
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\' || i + 1 == line.size()) {
      value += line[i];
      continue;
    }
    ++i;
    value += line[i] == 'n' ? '\n' : line[i] == 'r' ? '\r' : line[i];
  }
  return value;
}

bool IsSavedVocabulary(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.filename() != "vocabulary") return false;
  const auto features =
      env::NewRealFileSystem()->Read((folder.parent_path() / "features.json").string());
  return features.ok() && absl::StrContains(*features, "\"coxswain-features\"");
}

std::string VocabularyLines(absl::Span<const std::string> values) {
  std::string content;
  for (const std::string& value : values) absl::StrAppend(&content, EscapeLine(value), "\n");
  return content;
}

std::string CountLines(absl::Span<const int64_t> counts) {
  std::string content;
  for (const int64_t count : counts) absl::StrAppend(&content, count, "\n");
  return content;
}

absl::StatusOr<std::vector<std::string>> ReadVocabularyLines(const std::string& path, uint64_t hash,
                                                             int64_t size) {
  std::vector<std::string> values;
  RETURN_IF_ERROR(ForLines(path, hash, size, [&](absl::string_view line) {
    values.push_back(UnescapeLine(line));
    return true;
  }));
  return values;
}

absl::StatusOr<std::vector<std::string>> ReadNameLines(const std::string& path, uint64_t hash) {
  return ReadVocabularyLines(path, hash, kAnySize);
}

absl::StatusOr<std::vector<int64_t>> ReadCountLines(const std::string& path, uint64_t hash,
                                                    int64_t size) {
  std::vector<int64_t> counts;
  RETURN_IF_ERROR(ForLines(path, hash, size, [&](absl::string_view line) {
    return ParseIndex(line, &counts.emplace_back());
  }));
  return counts;
}

}  // namespace coxswain::data
