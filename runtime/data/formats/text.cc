// text: words with white space between them. It has no rows: its places are the examples.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/formats/format_list.h"
#include "runtime/data/input_file.h"
#include "runtime/data/skip_gram.h"
#include "runtime/data/table_rows.h"
#include "runtime/data/text_rows.h"
#include "runtime/data/word_scanner.h"
#include "runtime/env/random_access_file.h"

namespace coxswain::data {
namespace {

using proto::DatasetSpec;
using proto::FeatureSpec;

constexpr int64_t kDefaultWindow = 5;
constexpr int64_t kMaxWindow = 100;

template <typename... Args>
absl::Status Invalid(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat("data set: ", args...));
}

// Where the first word begins at `at` or behind it; or the file's end.
absl::StatusOr<int64_t> FindWord(const env::RandomAccessFile& file, int64_t at) {
  const auto size = static_cast<int64_t>(file.size());
  std::vector<char> bytes(4096);
  for (--at; at < size;) {  // whether a word begins shows in the byte in front of it
    const auto count =
        static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(bytes.size()), size - at));
    RETURN_IF_ERROR(file.Read(static_cast<uint64_t>(at), bytes.data(), count));
    const size_t found = FindWordBegin(absl::string_view(bytes.data(), count));
    if (found != absl::string_view::npos) return at + static_cast<int64_t>(found);
    // What is behind the last byte may be the beginning of a word.
    at += static_cast<int64_t>(count);
    if (at < size) --at;
    bytes.resize(std::min<size_t>(2 * bytes.size(), size_t{1} << 20));
  }
  return size;
}

class WordsOfText final : public DataFormat {
 public:
  const char* name() const override { return "text"; }
  bool has_rows() const override { return false; }
  // Between words, see FindWordBegin.
  bool has_blocks() const override { return true; }
  bool has_lines() const override { return false; }
  bool has_ranges() const override { return true; }
  absl::StatusOr<int64_t> FindRow(const DatasetSpec&, absl::Span<const std::string>,
                                  const env::RandomAccessFile& file, int64_t,
                                  int64_t at) const override {
    return FindWord(file, at);
  }

  void FillDefaults(DatasetSpec* spec) const override {
    if (spec->features().empty()) {
      FeatureSpec* feature = spec->add_features();
      feature->set_name(kWordFeature);
      feature->set_column(kWordFeature);
      feature->set_kind(FeatureSpec::CATEGORICAL);
    }
    if (spec->text().window() == 0) spec->mutable_text()->set_window(kDefaultWindow);
  }

  absl::Status Check(const DatasetSpec& spec) const override {
    const proto::TextOptions& text = spec.text();
    if (text.window() < 1 || text.window() > kMaxWindow) {
      return Invalid("wanted a window of 1 to ", kMaxWindow, " words, found ", text.window());
    }
    if (text.min_count() < 0 || text.max_size() < 0) {
      return Invalid("wanted min_count and max_size of at least 0, found ", text.min_count(),
                     " and ", text.max_size());
    }
    // Written so that NaN fails.
    if (!(text.subsample() >= 0 && text.subsample() <= 1)) {
      return Invalid("wanted a threshold of subsampling of 0 to 1, found ", text.subsample());
    }
    FeatureSpec word = spec.features(0);
    word.clear_dim();
    word.clear_combiner();
    FeatureSpec wanted;
    wanted.set_name(kWordFeature);
    wanted.set_column(kWordFeature);
    wanted.set_kind(FeatureSpec::CATEGORICAL);
    if (spec.features_size() != 1 || word.SerializeAsString() != wanted.SerializeAsString()) {
      return Invalid("a text has one feature, \"", kWordFeature, "\", which has no options");
    }
    if (spec.label().ByteSizeLong() > 0) return Invalid("a text has no label");
    proto::SplitSpec split = spec.split();
    split.clear_validation_fraction();
    if (split.ByteSizeLong() > 0) return Invalid("a text has a validation part, and no test part");
    return absl::OkStatus();
  }

  // As rows, for an index: its words.
  absl::Status Read(const DatasetSpec& spec, const std::string& path,
                    TableRows* rows) const override {
    ASSIGN_OR_RETURN(const std::unique_ptr<InputFile> file, InputFile::Open(path));
    RETURN_IF_ERROR(rows->StartFile(file.get(), {}, 1));
    int64_t words = 0;
    RETURN_IF_ERROR(ReadWordRows(spec, file.get(), 1, 1, rows, &words));
    if (words == 0) return NoWordError(path);
    rows->AddContent(file->content_hash());
    return rows->EndFile(file.get());
  }
  absl::Status ReadBlock(const DatasetSpec& spec, FileBlock block, TableRows* rows) const override {
    const std::unique_ptr<InputFile> file = InputFile::OfBytes(block.path, std::move(block.bytes));
    RETURN_IF_ERROR(rows->StartFile(file.get(), {}, block.first_line));
    int64_t words = 0;
    RETURN_IF_ERROR(
        ReadWordRows(spec, file.get(), block.first_line, block.first_column, rows, &words));
    return rows->EndFile(file.get());
  }
};

}  // namespace

const DataFormat& TextFiles() {
  static const auto* const format = new WordsOfText;
  return *format;
}

}  // namespace coxswain::data
