// Numbers and words as texts; a CSV file; the projector's numbers; names of rows; removed ids.
#include "coordinator/export/csv_writer.h"

#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/model/hashed_names.h"
#include "runtime/base/status.h"

namespace coxswain::exporter {
namespace {

constexpr size_t kBuffer = 1 << 20;

template <typename T>
void AppendNumber(const char* from, std::string* out) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  char text[64];
  if constexpr (std::is_same_v<T, BFloat16>) {
    const float wide = value.ToFloat();
    out->append(text, std::to_chars(text, text + sizeof(text), wide).ptr);
  } else if constexpr (std::is_same_v<T, bool>) {
    out->push_back(value ? '1' : '0');
  } else {
    out->append(text, std::to_chars(text, text + sizeof(text), value).ptr);
  }
}

using Formatter = void (*)(const char*, std::string*);

Formatter FormatterOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return AppendNumber<double>;
    case DType::kI32:
      return AppendNumber<int32_t>;
    case DType::kI64:
      return AppendNumber<int64_t>;
    case DType::kBool:
      return AppendNumber<bool>;
    case DType::kBF16:
      return AppendNumber<BFloat16>;
    case DType::kF32:
    case DType::kInvalid:
      break;
  }
  return AppendNumber<float>;
}

// The words of ascending ids.
class WordsById {
 public:
  explicit WordsById(model::SavedWords::Reader reader) : reader_(std::move(reader)) {}

  absl::StatusOr<std::string> Word(int64_t id) {
    for (; next_ <= id; ++next_) {
      ASSIGN_OR_RETURN(word_, reader_.Next());
      if (!word_) next_ = id;  // there are no more
    }
    return word_ ? *word_ : std::string();
  }

 private:
  model::SavedWords::Reader reader_;
  int64_t next_ = 0;
  std::optional<std::string> word_;  // of id next_ - 1
};

std::string Header(const SelectedRows& rows, bool words) {
  std::string header = rows.variable().table ? "id," : "";
  if (!rows.variable().table && rows.variable().shape.rank() > 0) header = "row,";
  if (words) header += "word,";
  for (int64_t i = 0; i < rows.saved().row_elements(); ++i) absl::StrAppend(&header, "x", i, ",");
  if (!header.empty()) header.pop_back();
  return header + "\n";
}

}  // namespace

std::string CsvField(absl::string_view text) {
  const bool plain = text.find_first_of(",\"\r\n") == absl::string_view::npos &&
                     (text.empty() || (text.front() != ' ' && text.back() != ' '));
  if (plain) return std::string(text);
  std::string field = "\"";
  for (char c : text) {
    if (c == '"') field += '"';
    field += c;
  }
  return field + '"';
}

absl::StatusOr<WordOf> WordsOf(const model::SavedSource& source, const model::SavedVariable& of) {
  if (!of.names.empty()) {
    ASSIGN_OR_RETURN(model::HashedNames names, source.Names(of));
    const auto shared = std::make_shared<const model::HashedNames>(std::move(names));
    return WordOf([shared](int64_t id) { return absl::StatusOr<std::string>(shared->Of(id)); });
  }
  if (of.vocabulary.empty() || of.hash) return WordOf();
  ASSIGN_OR_RETURN(const std::string path, source.WordsFile(of.vocabulary));
  ASSIGN_OR_RETURN(auto reader, model::SavedWords::Reader::Open(path));
  const auto shared = std::make_shared<WordsById>(std::move(reader));
  return WordOf([shared](int64_t id) { return shared->Word(id); });
}

absl::Status WriteCsv(const SelectedRows& rows, const WordOf& words, env::FileSystem* files,
                      const std::string& path) {
  ASSIGN_OR_RETURN(auto file, files->CreateLarge(path));
  const model::SavedRows& saved = rows.saved();
  const Formatter append = FormatterOf(saved.variable().dtype);
  const size_t size = SizeOf(saved.variable().dtype);
  const bool numbered = saved.variable().shape.rank() > 0;
  std::string text = Header(rows, words != nullptr);
  RETURN_IF_ERROR(rows.ForEach(true, true, [&](const SelectedBlock& block) -> absl::Status {
    const char* value = block.values;
    for (int64_t r = 0; r < block.rows; ++r) {
      if (numbered) absl::StrAppend(&text, block.ids[r], ",");
      if (words != nullptr) {
        ASSIGN_OR_RETURN(const std::string word, words(block.ids[r]));
        absl::StrAppend(&text, CsvField(word), ",");
      }
      for (int64_t i = 0; i < saved.row_elements(); ++i, value += size) {
        append(value, &text);
        text += ',';
      }
      if (numbered || saved.row_elements() > 0) text.pop_back();
      text += '\n';
      if (text.size() < kBuffer) continue;
      RETURN_IF_ERROR(file->Append(text.data(), text.size()));
      text.clear();
    }
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(file->Append(text.data(), text.size()));
  RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

absl::Status WriteProjector(const SelectedRows& rows, const WordOf&, env::FileSystem* files,
                            const std::string& vectors) {
  ASSIGN_OR_RETURN(auto numbers, files->CreateLarge(vectors));
  const model::SavedRows& saved = rows.saved();
  const Formatter append = FormatterOf(saved.variable().dtype);
  const size_t size = SizeOf(saved.variable().dtype);
  std::string text;
  RETURN_IF_ERROR(rows.ForEach(true, false, [&](const SelectedBlock& block) -> absl::Status {
    const char* value = block.values;
    for (int64_t r = 0; r < block.rows; ++r) {
      for (int64_t i = 0; i < saved.row_elements(); ++i, value += size) {
        if (i > 0) text += '\t';
        append(value, &text);
      }
      text += '\n';
    }
    const absl::Status written = numbers->Append(text.data(), text.size());
    text.clear();
    return written;
  }));
  RETURN_IF_ERROR(numbers->Sync());
  return numbers->Close();
}

absl::Status WriteLabels(const SelectedRows& rows, const WordOf& words, env::FileSystem* files,
                         const std::string& metadata) {
  ASSIGN_OR_RETURN(auto labels, files->CreateLarge(metadata));
  std::string label;
  RETURN_IF_ERROR(rows.ForEach(false, true, [&](const SelectedBlock& block) -> absl::Status {
    for (int64_t r = 0; r < block.rows; ++r) {
      std::string word;
      if (words != nullptr) {
        ASSIGN_OR_RETURN(word, words(block.ids[r]));
      }
      if (word.empty()) word = absl::StrCat(words != nullptr ? "#" : "", block.ids[r]);
      for (char& c : word) c = c == '\t' || c == '\n' || c == '\r' ? ' ' : c;
      absl::StrAppend(&label, word, "\n");
    }
    const absl::Status written = labels->Append(label.data(), label.size());
    label.clear();
    return written;
  }));
  RETURN_IF_ERROR(labels->Sync());
  return labels->Close();
}

absl::Status WriteRemovedCsv(const SelectedRows& rows, env::FileSystem* files,
                             const std::string& path) {
  ASSIGN_OR_RETURN(auto file, files->CreateLarge(path));
  std::string text = "id\n";
  RETURN_IF_ERROR(rows.ForEachRemoved([&](absl::Span<const int64_t> ids) {
    for (int64_t id : ids) absl::StrAppend(&text, id, "\n");
    const absl::Status written = file->Append(text.data(), text.size());
    text.clear();
    return written;
  }));
  RETURN_IF_ERROR(file->Append(text.data(), text.size()));
  RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

}  // namespace coxswain::exporter
