#include "runtime/data/text_rows.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/hash.h"
#include "runtime/data/word_scanner.h"

namespace coxswain::data {
namespace {

class WordSink final : public FieldSink {
 public:
  explicit WordSink(TableFeature* feature) : feature_(*feature) {}
  bool Append(absl::string_view text) override {
    if (feature_.vocabulary != nullptr) {
      feature_.ids.push_back(feature_.vocabulary->Find(text).value_or(-1));
      return true;
    }
    const int32_t id = feature_.texts.Intern(text);
    if (id < 0) return false;
    feature_.ids.push_back(id);
    return true;
  }
  std::string Wanted() const override { return "at most 2^31 - 1 different words"; }

 private:
  TableFeature& feature_;
};

}  // namespace

absl::Status NoWordError(const std::string& path) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": wanted at least one word, found none"));
}

std::unique_ptr<FieldSink> NewWordSink(TableFeature* feature) {
  return std::make_unique<WordSink>(feature);
}

absl::Status ReadWordRows(const proto::DatasetSpec& spec, InputFile* file, int64_t line,
                          int64_t column, TableRows* rows, int64_t* words) {
  FieldSink& sink = *rows->bindings()[0].sink;
  RowChain& chain = rows->chain();
  WordScanner scanner(file, line, spec.text().lower_case(), column);
  const auto limit = [&] {
    const int64_t left = rows->bytes_left(*file);
    const auto at = static_cast<int64_t>(file->offset());
    return left > std::numeric_limits<int64_t>::max() - at ? left : at + left;
  };
  int64_t end = limit();  // a word that begins there or behind it is told of
  int64_t read = 0;       // since the listener was told
  absl::string_view word;
  while (true) {
    ASSIGN_OR_RETURN(const bool found, scanner.Next(&word));
    if (read > 0 && (!found || scanner.offset() >= end)) {
      scanner.ConsumeToWord();
      RETURN_IF_ERROR(rows->EndWords(file, read, scanner.line()));
      *words += read;
      read = 0;
      end = limit();
    }
    if (!found) break;
    if (!sink.Append(word)) {
      return absl::ResourceExhaustedError(
          absl::StrCat(file->path(), ": wanted ", sink.Wanted(), ", found more"));
    }
    chain.AddNumber(HashText(word));
    chain.EndRow();
    ++read;
  }
  scanner.ConsumeToWord();
  return absl::OkStatus();
}

}  // namespace coxswain::data
