#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/model/saved_reader.h"
#include "runtime/base/status.h"
#include "runtime/data/vocabulary_file.h"

namespace coxswain::model {
namespace {

constexpr size_t kBlock = 1 << 16;
constexpr size_t kMaxWord = 1 << 26;

}  // namespace

absl::StatusOr<SavedWords::Reader> SavedWords::Reader::Open(const std::string& path) {
  ASSIGN_OR_RETURN(auto file, env::RandomAccessFile::Open(path));
  return Reader(std::move(file));
}

absl::StatusOr<std::optional<std::string>> SavedWords::Reader::Next() {
  size_t searched = used_;
  for (;;) {
    const size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos) {
      std::string word = data::UnescapeLine(absl::string_view(buffer_).substr(used_, end - used_));
      used_ = end + 1;
      return std::optional<std::string>(std::move(word));
    }
    buffer_.erase(0, used_);
    used_ = 0;
    searched = buffer_.size();
    const size_t n = static_cast<size_t>(std::min<uint64_t>(kBlock, file_->size() - offset_));
    if (n == 0 && buffer_.empty()) return std::optional<std::string>();
    if (n == 0) return absl::DataLossError(absl::StrCat(file_->path(), ": the last line is cut"));
    if (buffer_.size() > kMaxWord) {
      return absl::DataLossError(
          absl::StrCat(file_->path(), ": a line of more than ", kMaxWord, " bytes"));
    }
    buffer_.resize(searched + n);
    RETURN_IF_ERROR(file_->Read(offset_, buffer_.data() + searched, n));
    offset_ += n;
  }
}

absl::StatusOr<SavedWords> SavedWords::Load(const std::string& path) {
  ASSIGN_OR_RETURN(Reader reader, Reader::Open(path));
  SavedWords saved;
  for (;;) {
    ASSIGN_OR_RETURN(std::optional<std::string> word, reader.Next());
    if (!word) break;
    saved.words_.push_back(*std::move(word));
  }
  saved.ids_.reserve(saved.words_.size());
  for (size_t i = 0; i < saved.words_.size(); ++i) {
    saved.ids_.emplace(saved.words_[i], static_cast<int64_t>(i));
  }
  return saved;
}

std::optional<int64_t> SavedWords::Find(absl::string_view word) const {
  const auto it = ids_.find(word);
  if (it == ids_.end()) return std::nullopt;
  return it->second;
}

}  // namespace coxswain::model
