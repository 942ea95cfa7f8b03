// A file of bytes, decompressed while reading if it is gzip or zstd, with a window on the bytes
// that are not consumed yet.
//
// Thread model: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/data/byte_source.h"
#include "runtime/data/hash.h"

namespace coxswain::data {

// No line or record may be longer: a quote that is never closed must not read the rest of a large
// file into memory.
constexpr size_t kMaxRecordBytes = size_t{64} << 20;

class InputFile {
 public:
  // Of this machine or of an object store. Errors: NotFound, PermissionDenied, InvalidArgument for
  // anything but a regular file and for
  // text in UTF-16, or Unavailable with the system's reason. A UTF-8 byte order mark is skipped.
  static absl::StatusOr<std::unique_ptr<InputFile>> Open(const std::string& path);
  // The same for binary files: the beginning is not interpreted.
  static absl::StatusOr<std::unique_ptr<InputFile>> OpenBytes(const std::string& path);
  // Reads from an open descriptor, such as a pipe, and takes ownership of it. `name` is for
  // messages. Errors: as Open, when data is read.
  static absl::StatusOr<std::unique_ptr<InputFile>> OfDescriptor(const std::string& name, int fd);
  // Decompressed bytes from any position in the file `path`, which messages name.
  static std::unique_ptr<InputFile> OfBytes(const std::string& path, std::vector<char> bytes);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  // The window: bytes read and not consumed. Pointers are valid until More.
  char* begin() { return buffer_.data() + begin_; }
  char* end() { return buffer_.data() + end_; }
  bool at_end() const { return at_end_; }  // nothing follows the window
  void Consume(size_t bytes) {
    if (hashes_blocks_) block_hash_.Update(absl::string_view(begin(), bytes));
    begin_ += bytes;
  }
  // Makes the window longer at its end, or sets at_end.
  // Errors: DataLoss for a compressed file that is damaged or torn, OutOfRange when the window
  // would exceed kMaxRecordBytes, Unavailable with the system's reason. Messages start with the
  // path.
  absl::Status More();

  // Hash of all decompressed bytes read so far, so it does not depend on compression.
  uint64_t content_hash() const { return hash_.Finish(); }

  // Position of the next byte that is not consumed, in the decompressed data.
  uint64_t offset() const { return read_ - (end_ - begin_); }
  bool packed() const { return source_ != nullptr && source_->packed(); }
  // The hash of the bytes that were consumed since StartBlock.
  uint64_t block_hash() const { return block_hash_.Finish(); }
  // Starts a new hash of the consumed bytes; returns the hash of those since the last call.
  uint64_t StartBlock() {
    const uint64_t hash = block_hash_.Finish();
    block_hash_ = StreamHash();
    hashes_blocks_ = true;
    return hash;
  }

 private:
  InputFile(std::string path, std::unique_ptr<ByteSource> source)
      : path_(std::move(path)), source_(std::move(source)) {}
  static absl::StatusOr<std::unique_ptr<InputFile>> Start(const std::string& name,
                                                          std::unique_ptr<ByteSource> source);
  // Checks that the beginning looks like text in UTF-8.
  absl::Status CheckText();

  std::string path_;
  std::unique_ptr<ByteSource> source_;  // null: from bytes in memory
  std::vector<char> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  bool at_end_ = false;
  uint64_t read_ = 0;  // bytes in all
  StreamHash hash_, block_hash_;
  bool hashes_blocks_ = false;
};

// Lines of a file without their end (LF or CRLF).
class LineReader {
 public:
  static absl::StatusOr<std::unique_ptr<LineReader>> Open(const std::string& path);
  // `first_line`: the number of the input's first one.
  LineReader(std::unique_ptr<InputFile> input, int64_t first_line)
      : input_(std::move(input)), line_number_(first_line - 1) {}
  // False at the end. `line` is valid until the next call.
  absl::StatusOr<bool> Next(absl::string_view* line);
  int64_t line_number() const { return line_number_; }  // of the last line, from 1
  // "path:line:column: message", InvalidArgument; `at` points into the last line.
  absl::Status Error(absl::string_view line, const char* at, absl::string_view message) const;
  uint64_t content_hash() const { return input_->content_hash(); }
  InputFile* input() { return input_.get(); }

 private:
  std::unique_ptr<InputFile> input_;
  int64_t line_number_ = 0;
};

}  // namespace coxswain::data
