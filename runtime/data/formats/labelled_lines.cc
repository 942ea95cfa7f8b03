// labelled_lines: a text on each line, and a file for each class.
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "runtime/base/status.h"
#include "runtime/data/formats/format_list.h"
#include "runtime/data/hash.h"
#include "runtime/data/input_file.h"
#include "runtime/data/labelled_text.h"
#include "runtime/data/table_rows.h"

namespace coxswain::data {
namespace {

absl::Status ReadLines(LineReader* lines, TableRows* rows) {
  LabelledTexts texts(rows, ClassOfFile(lines->input()->path()));
  RETURN_IF_ERROR(texts.Start(lines->input(), lines->line_number() + 1));
  absl::string_view line;
  while (true) {
    ASSIGN_OR_RETURN(const bool found, lines->Next(&line));
    if (!found) return rows->EndFile(lines->input());
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    const int64_t number = lines->line_number();
    RETURN_IF_ERROR(texts.Add(lines->input(), number, number + 1, line));
  }
}

class LabelledLines final : public DataFormat {
 public:
  const char* name() const override { return "labelled_lines"; }

  absl::Status Read(const proto::DatasetSpec&, const std::string& path,
                    TableRows* rows) const override {
    ASSIGN_OR_RETURN(std::unique_ptr<LineReader> lines, LineReader::Open(path));
    RETURN_IF_ERROR(ReadLines(lines.get(), rows));
    rows->AddContent(ContentOf(path, lines->content_hash()));
    return absl::OkStatus();
  }

  uint64_t ContentOf(const std::string& path, uint64_t hash) const override {
    return HashPair(hash, HashText(ClassOfFile(path)));
  }

  absl::Status ReadBlock(const proto::DatasetSpec&, FileBlock block,
                         TableRows* rows) const override {
    LineReader lines(InputFile::OfBytes(block.path, std::move(block.bytes)), block.first_line);
    return ReadLines(&lines, rows);
  }
};

}  // namespace

const DataFormat& LabelledLinesFiles() {
  static const auto* const format = new LabelledLines;
  return *format;
}

}  // namespace coxswain::data
