#include "runtime/data/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/data_file.h"
#include "runtime/env/regular_file.h"
#include "runtime/env/remote_path.h"

namespace coxswain::data {
namespace {

constexpr size_t kBlock = size_t{256} << 10;

absl::Status CannotOpen(const std::string& path, int error) {
  const std::string message = absl::StrCat(path, ": cannot open: ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  return error == EACCES ? absl::PermissionDeniedError(message) : absl::UnavailableError(message);
}

absl::StatusOr<int> OpenFile(const std::string& path) {
  // Avoids waiting for the other end of a pipe. Opening a regular file may take time, because of
  // another program's lease.
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return CannotOpen(path, errno);
  RETURN_IF_ERROR(env::CheckRegular(path, status));
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return CannotOpen(path, errno);
  return fd;
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenSource(const std::string& path) {
  if (env::IsRemotePath(path)) {
    ASSIGN_OR_RETURN(auto file, OpenDataFile(path));
    return ByteSource::OfFile(std::move(file));
  }
  ASSIGN_OR_RETURN(const int fd, OpenFile(path));
  return ByteSource::OfDescriptor(path, fd);
}

// By what other program than gzip and zstd, which are unpacked; null for none.
const char* PackedAs(absl::string_view bytes) {
  if (absl::StartsWith(bytes, "PK\x03\x04")) return "zip";
  if (absl::StartsWith(bytes,
                       "\xfd"
                       "7zXZ"))
    return "xz";
  if (absl::StartsWith(bytes, "BZh") && bytes.size() >= 10 && bytes.substr(4, 6) == "1AY&SY") {
    return "bzip2";
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<InputFile>> InputFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<InputFile> input, OpenBytes(path));
  RETURN_IF_ERROR(input->CheckText());
  return input;
}

absl::StatusOr<std::unique_ptr<InputFile>> InputFile::OpenBytes(const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, OpenSource(path));
  return Start(path, std::move(source));
}

absl::StatusOr<std::unique_ptr<InputFile>> InputFile::OfDescriptor(const std::string& path,
                                                                   int fd) {
  ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, ByteSource::OfDescriptor(path, fd));
  ASSIGN_OR_RETURN(std::unique_ptr<InputFile> input, Start(path, std::move(source)));
  RETURN_IF_ERROR(input->CheckText());
  return input;
}

absl::StatusOr<std::unique_ptr<InputFile>> InputFile::Start(const std::string& name,
                                                            std::unique_ptr<ByteSource> source) {
  std::unique_ptr<InputFile> input(new InputFile(name, std::move(source)));
  while (!input->at_end() && input->end_ < 4) RETURN_IF_ERROR(input->More());
  return input;
}

absl::Status InputFile::CheckText() {
  if (const char* packed = PackedAs({begin(), end_ - begin_}); packed != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": wanted text, found a file that is packed as ", packed,
                     ": unpack it first, or pack it by gzip or zstd"));
  }
  if (absl::string_view(begin(), std::min<size_t>(end_, 3)) == "\xef\xbb\xbf") Consume(3);
  const absl::string_view mark(begin(), std::min<size_t>(end_ - begin_, 2));
  if (mark == "\xff\xfe" || mark == "\xfe\xff") {
    return absl::InvalidArgumentError(
        absl::StrCat(path_,
                     ": wanted text in UTF-8, found UTF-16, by its first two bytes; `iconv "
                     "-f UTF-16 -t UTF-8` converts it"));
  }
  // UTF-16 without a byte order mark: ASCII characters have zero bytes beside them.
  if (end_ - begin_ >= 4) {
    const char* const p = begin();
    const bool little = p[0] != 0 && p[1] == 0 && p[2] != 0 && p[3] == 0;
    const bool big = p[0] == 0 && p[1] != 0 && p[2] == 0 && p[3] != 0;
    if (little || big) {
      return absl::InvalidArgumentError(absl::StrCat(
          path_,
          ": wanted text in UTF-8, found zero bytes, as text in UTF-16 has; `iconv -f UTF-16",
          little ? "LE" : "BE", " -t UTF-8` converts it"));
    }
  }
  const absl::string_view magic(begin(), std::min<size_t>(end_ - begin_, 4));
  if (magic == "PAR1") {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": wanted text, found a Parquet file: dataset.format: parquet"));
  }
  return absl::OkStatus();
}

std::unique_ptr<InputFile> InputFile::OfBytes(const std::string& path, std::vector<char> bytes) {
  std::unique_ptr<InputFile> input(new InputFile(path, nullptr));
  input->buffer_ = std::move(bytes);
  input->end_ = input->buffer_.size();
  input->read_ = input->end_;
  input->at_end_ = true;
  return input;
}

absl::Status InputFile::More() {
  if (at_end_) return absl::OkStatus();
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ >= kMaxRecordBytes) {
    return absl::OutOfRangeError(absl::StrCat(path_, ": a line or quoted record of more than ",
                                              kMaxRecordBytes >> 20,
                                              " MiB; is a quote not closed?"));
  }
  // As much as is there: who looks for the end of a record begins again from its begin.
  const size_t most = std::max(kBlock, std::min(end_, kMaxRecordBytes - end_));
  if (buffer_.size() - end_ < most) buffer_.resize(std::max(2 * buffer_.size(), end_ + most));
  ASSIGN_OR_RETURN(const size_t count, source_->Read(buffer_.data() + end_, most));
  at_end_ = count < most;
  hash_.Update(absl::string_view(buffer_.data() + end_, count));
  end_ += count;
  read_ += count;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LineReader>> LineReader::Open(const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<InputFile> input, InputFile::Open(path));
  return std::unique_ptr<LineReader>(new LineReader(std::move(input), 1));
}

absl::StatusOr<bool> LineReader::Next(absl::string_view* line) {
  size_t scanned = 0;
  while (true) {
    const size_t size = static_cast<size_t>(input_->end() - input_->begin());
    char* begin = input_->begin();
    const char* newline =
        size > scanned
            ? static_cast<const char*>(std::memchr(begin + scanned, '\n', size - scanned))
            : nullptr;
    if (newline == nullptr && !input_->at_end()) {
      scanned = size;
      absl::Status status = input_->More();
      if (!status.ok()) return Annotate(status, absl::StrCat("line ", line_number_ + 1));
      continue;
    }
    if (newline == nullptr && size == 0) return false;
    size_t length = newline == nullptr ? size : static_cast<size_t>(newline - begin);
    input_->Consume(newline == nullptr ? length : length + 1);
    if (length > 0 && begin[length - 1] == '\r') --length;
    *line = absl::string_view(begin, length);
    ++line_number_;
    return true;
  }
}

absl::Status LineReader::Error(absl::string_view line, const char* at,
                               absl::string_view message) const {
  return absl::InvalidArgumentError(
      absl::StrCat(input_->path(), ":", line_number_, ":", at - line.data() + 1, ": ", message));
}

}  // namespace coxswain::data
