// labelled_files: a text in each file, and a directory for each class.
#include <memory>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/data/formats/format_list.h"
#include "runtime/data/hash.h"
#include "runtime/data/input_file.h"
#include "runtime/data/labelled_text.h"
#include "runtime/data/table_rows.h"

namespace coxswain::data {
namespace {

// All of a file is one row.
absl::Status ReadText(InputFile* input, TableRows* rows) {
  LabelledTexts texts(rows, ClassOfDirectory(input->path()));
  RETURN_IF_ERROR(texts.Start(input, 1));
  while (!input->at_end()) RETURN_IF_ERROR(input->More());
  const absl::string_view text(input->begin(), static_cast<size_t>(input->end() - input->begin()));
  input->Consume(text.size());  // it stays in the window
  RETURN_IF_ERROR(texts.Add(input, 1, 2, text));
  return rows->EndFile(input);
}

class LabelledFiles final : public DataFormat {
 public:
  const char* name() const override { return "labelled_files"; }
  bool has_lines() const override { return false; }

  absl::Status Read(const proto::DatasetSpec&, const std::string& path,
                    TableRows* rows) const override {
    ASSIGN_OR_RETURN(std::unique_ptr<InputFile> input, InputFile::Open(path));
    RETURN_IF_ERROR(ReadText(input.get(), rows));
    rows->AddContent(HashPair(input->content_hash(), HashText(ClassOfDirectory(path))));
    return absl::OkStatus();
  }

  absl::Status ReadBlock(const proto::DatasetSpec&, FileBlock block,
                         TableRows* rows) const override {
    const auto input = InputFile::OfBytes(block.path, std::move(block.bytes));
    return ReadText(input.get(), rows);
  }
};

}  // namespace

const DataFormat& LabelledFilesFiles() {
  static const auto* const format = new LabelledFiles;
  return *format;
}

}  // namespace coxswain::data
