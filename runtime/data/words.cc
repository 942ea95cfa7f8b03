#include "runtime/data/words.h"

#include <utility>

#include "absl/strings/ascii.h"

namespace coxswain::data {
namespace {

bool IsLetter(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || absl::ascii_isalnum(byte);
}

class WordsSink : public FieldSink {
 public:
  explicit WordsSink(std::unique_ptr<FieldSink> sink) : sink_(std::move(sink)) {}
  bool Append(absl::string_view text) override {
    words_.clear();
    AppendWordsOf(text, &words_);
    return sink_->Append(words_);
  }
  bool TakesLists() const override { return true; }
  bool AppendList(absl::Span<const std::string> values) override {
    words_.clear();
    for (const std::string& text : values) AppendWordsOf(text, &words_);
    return sink_->Append(words_);
  }
  std::string Wanted() const override { return sink_->Wanted(); }

 private:
  const std::unique_ptr<FieldSink> sink_;
  std::string words_;
};

}  // namespace

void AppendWordsOf(absl::string_view text, std::string* words) {
  for (size_t i = 0; i < text.size();) {
    if (!IsLetter(text[i])) {
      ++i;
      continue;
    }
    if (!words->empty()) words->push_back(' ');
    for (; i < text.size(); ++i) {
      const bool inside = text[i] == '\'' && i + 1 < text.size() && IsLetter(text[i + 1]);
      if (!inside && !IsLetter(text[i])) break;
      words->push_back(absl::ascii_tolower(static_cast<unsigned char>(text[i])));
    }
  }
}

std::unique_ptr<FieldSink> NewWordsSink(std::unique_ptr<FieldSink> sink) {
  return std::make_unique<WordsSink>(std::move(sink));
}

}  // namespace coxswain::data
