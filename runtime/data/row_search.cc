// A window on a file that grows; then lines, records of TFRecord, and records of csv.
#include "runtime/data/row_search.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/string_view.h"
#include "runtime/base/status.h"
#include "runtime/data/csv_scan.h"
#include "runtime/data/tfrecord_reader.h"

namespace coxswain::data {
namespace {

constexpr int64_t kFirstLine = 4096, kFirstWindow = int64_t{16} << 10;
// A larger window is only read for a row that does not end in it.
constexpr int64_t kMostWindow = int64_t{1} << 20;
// In front of what is wanted: where a record of csv may begin.
constexpr int64_t kBack = 4096;

class Window {
 public:
  // From this offset on.
  Window(const env::RandomAccessFile& file, int64_t begin) : file_(file), begin_(begin) {}

  absl::Status Grow(int64_t bytes) {
    const auto before = static_cast<int64_t>(bytes_.size());
    const int64_t size = std::min(bytes, static_cast<int64_t>(file_.size()) - begin_);
    if (size <= before) return absl::OkStatus();
    bytes_.resize(static_cast<size_t>(size));
    return file_.Read(static_cast<uint64_t>(begin_ + before), bytes_.data() + before,
                      static_cast<size_t>(size - before));
  }
  absl::string_view text() const { return absl::string_view(bytes_.data(), bytes_.size()); }
  int64_t begin() const { return begin_; }
  int64_t end() const { return begin_ + static_cast<int64_t>(bytes_.size()); }
  bool ends_file() const { return end() == static_cast<int64_t>(file_.size()); }

 private:
  const env::RandomAccessFile& file_;
  const int64_t begin_;
  std::vector<char> bytes_;
};

}  // namespace

absl::StatusOr<int64_t> FindLine(const env::RandomAccessFile& file, int64_t at) {
  const auto size = static_cast<int64_t>(file.size());
  int64_t from = at - 1;  // a line that ends here begins at `at`
  std::vector<char> bytes(static_cast<size_t>(kFirstLine));
  while (from < size) {
    const auto count =
        static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(bytes.size()), size - from));
    RETURN_IF_ERROR(file.Read(static_cast<uint64_t>(from), bytes.data(), count));
    if (const void* end = std::memchr(bytes.data(), '\n', count); end != nullptr) {
      return from + (static_cast<const char*>(end) - bytes.data()) + 1;
    }
    from += static_cast<int64_t>(count);
    bytes.resize(std::min<size_t>(2 * bytes.size(), static_cast<size_t>(kMostWindow)));
  }
  return size;
}

namespace {

constexpr auto kTfHeader = static_cast<int64_t>(kTfRecordHeader);

// The records that must follow one for it to be one.
constexpr int kFollowing = 2;

// Whether records follow each other from `at` on, of which the first has the length.
absl::StatusOr<bool> Follow(const env::RandomAccessFile& file, const Window& window, int64_t at,
                            int64_t length) {
  const auto size = static_cast<int64_t>(file.size());
  for (int i = 0; i < kFollowing; ++i) {
    at += TfRecordBytes(length);
    if (at == size) return true;
    if (at + kTfHeader > size) return false;
    char bytes[kTfRecordHeader];
    absl::string_view header(bytes, sizeof(bytes));
    if (at + kTfHeader <= window.end()) {
      header = window.text().substr(static_cast<size_t>(at - window.begin()), sizeof(bytes));
    } else {
      RETURN_IF_ERROR(file.Read(static_cast<uint64_t>(at), bytes, sizeof(bytes)));
    }
    length = TfRecordLength(header);
    if (length < 0) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<int64_t> FindTfRecord(const env::RandomAccessFile& file, int64_t at) {
  const auto size = static_cast<int64_t>(file.size());
  // Behind so many bytes without a record there is something wrong: who reads them tells.
  const int64_t end = std::min(size, at + static_cast<int64_t>(2 * kMaxRecordBytes));
  for (int64_t bytes = kFirstWindow; at + kTfHeader <= end;
       bytes = std::min(2 * bytes, kMostWindow)) {
    Window window(file, at);
    RETURN_IF_ERROR(window.Grow(bytes));
    for (; at + kTfHeader <= window.end(); ++at) {
      const int64_t length =
          TfRecordLength(window.text().substr(static_cast<size_t>(at - window.begin())));
      if (length < 0) continue;
      ASSIGN_OR_RETURN(const bool follow, Follow(file, window, at, length));
      if (follow) return at;
    }
  }
  return at + kTfHeader <= size ? at : size;
}

absl::StatusOr<int64_t> FindCsvRecord(const env::RandomAccessFile& file, const CsvFormat& format,
                                      size_t columns, int64_t known, int64_t at) {
  const auto size = static_cast<int64_t>(file.size());
  if (at >= size) return size;
  const int64_t from = std::max(known, at - kBack);
  Window window(file, from);
  for (int64_t bytes = at - from + kFirstWindow;; bytes *= 4) {
    RETURN_IF_ERROR(window.Grow(bytes));
    absl::string_view text = window.text();
    // Both begin behind a line end, where it is clear what the next byte can be.
    size_t begin = 0;
    if (from != known) {
      const size_t line_end = text.find('\n');
      begin = line_end == absl::string_view::npos ? text.size() : line_end + 1;
      text.remove_prefix(begin);
    }
    const int64_t least = at - from - static_cast<int64_t>(begin);
    const CsvScan scan(format, columns, window.ends_file());
    const CsvScan::Found plain = scan.Find(text, /*quoted=*/false, least);
    CsvScan::Found found = plain;
    bool sure = from == known || text.find('"') == absl::string_view::npos;
    if (!sure) {
      const CsvScan::Found quoted = scan.Find(text, /*quoted=*/true, least);
      if (quoted.wrong > plain.wrong) found = quoted;
      // One of them is wrong before all of it is read.
      sure = quoted.wrong != plain.wrong;
    }
    const bool unfinished = found.end < 0 && found.wrong == CsvScan::kNowhere;
    const int64_t most = unfinished ? static_cast<int64_t>(2 * kMaxRecordBytes) : kMostWindow;
    const bool grows = !window.ends_file() && bytes < most;
    if (found.end >= 0 && (sure || !grows)) return from + static_cast<int64_t>(begin) + found.end;
    if (!grows && window.ends_file()) return size;
    // What is wrong with the text is told by who reads it.
    if (!grows) return FindLine(file, at);
  }
}

}  // namespace coxswain::data
