// gzip (or none), zlib and zstd, a class each; then which of them a file is.
#include "runtime/data/byte_source.h"

#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain::data {
namespace {

constexpr unsigned kGzipBuffer = 256 << 10;

absl::Status CannotRead(const std::string& name, int error) {
  if (error == EISDIR) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": wanted a file, found a directory"));
  }
  return absl::UnavailableError(absl::StrCat(name, ": cannot read: ", std::strerror(error)));
}

// gzip, or bytes as they are.
class Gzip final : public ByteSource {
 public:
  Gzip(std::string name, gzFile file) : name_(std::move(name)), file_(file) {}
  ~Gzip() override { gzclose(file_); }

  absl::StatusOr<size_t> Read(char* out, size_t bytes) override {
    const int count = gzread(file_, out, static_cast<unsigned>(bytes));
    if (count < 0) RETURN_IF_ERROR(Error());
    // A torn file ends like a complete one, except for the error.
    if (static_cast<size_t>(count) < bytes) RETURN_IF_ERROR(Error());
    return static_cast<size_t>(count);
  }
  bool packed() const override { return gzdirect(file_) == 0; }

 private:
  absl::Status Error() const {
    int code = Z_OK;
    const char* const message = gzerror(file_, &code);
    if (code == Z_OK) return absl::OkStatus();
    if (code == Z_ERRNO) return CannotRead(name_, errno);
    return absl::DataLossError(absl::StrCat(name_, ": damaged or torn gzip file: ", message));
  }

  const std::string name_;
  const gzFile file_;
};

// Reads what a descriptor has next, again where a signal came between; 0 at the end.
absl::StatusOr<size_t> ReadSome(const std::string& name, int fd, std::vector<char>* buffer) {
  ssize_t count = 0;
  do {
    count = read(fd, buffer->data(), buffer->size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) return CannotRead(name, errno);
  return static_cast<size_t>(count);
}

// A stream of zlib that is all of a file, as TensorFlow writes it.
class Zlib final : public ByteSource {
 public:
  // Null without memory.
  static std::unique_ptr<Zlib> Make(std::string name, int fd) {
    std::unique_ptr<Zlib> source(new Zlib(std::move(name)));
    if (inflateInit(&source->stream_) != Z_OK) return nullptr;
    source->fd_ = fd;
    return source;
  }
  ~Zlib() override {
    if (fd_ < 0) return;
    inflateEnd(&stream_);
    close(fd_);
  }

  absl::StatusOr<size_t> Read(char* out, size_t bytes) override {
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = static_cast<uInt>(bytes);
    while (stream_.avail_out > 0 && !done_) {
      if (stream_.avail_in == 0) {
        ASSIGN_OR_RETURN(const size_t count, ReadSome(name_, fd_, &buffer_));
        if (count == 0) return Damaged("its end is missing");
        stream_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
        stream_.avail_in = static_cast<uInt>(count);
      }
      const int code = inflate(&stream_, Z_NO_FLUSH);
      done_ = code == Z_STREAM_END;
      if (code != Z_OK && !done_) return Damaged(stream_.msg == nullptr ? "" : stream_.msg);
    }
    if (done_) RETURN_IF_ERROR(CheckEnd());
    return bytes - stream_.avail_out;
  }
  bool packed() const override { return true; }

 private:
  explicit Zlib(std::string name) : name_(std::move(name)), buffer_(kGzipBuffer) {}
  absl::Status Damaged(absl::string_view how) const {
    return absl::DataLossError(absl::StrCat(name_, ": damaged or torn zlib stream: ", how));
  }
  absl::Status CheckEnd() {
    if (stream_.avail_in == 0) {
      ASSIGN_OR_RETURN(const size_t count, ReadSome(name_, fd_, &buffer_));
      if (count == 0) return absl::OkStatus();
    }
    return Damaged("more bytes follow its end");
  }

  const std::string name_;
  int fd_ = -1;
  z_stream stream_ = {};
  std::vector<char> buffer_;
  bool done_ = false;
};

class Zstd final : public ByteSource {
 public:
  Zstd(std::string name, int fd, ZSTD_DStream* stream)
      : name_(std::move(name)), fd_(fd), stream_(stream), buffer_(ZSTD_DStreamInSize()) {}
  ~Zstd() override {
    ZSTD_freeDStream(stream_);
    close(fd_);
  }

  absl::StatusOr<size_t> Read(char* out, size_t bytes) override {
    ZSTD_outBuffer to{out, bytes, 0};
    while (to.pos < to.size) {
      if (from_.pos == from_.size) RETURN_IF_ERROR(Fill());
      if (at_end_ && !within_frame_) break;
      const size_t before = to.pos;
      const size_t left = ZSTD_decompressStream(stream_, &to, &from_);
      if (ZSTD_isError(left) != 0) {
        return absl::DataLossError(
            absl::StrCat(name_, ": damaged zstd file: ", ZSTD_getErrorName(left)));
      }
      within_frame_ = left != 0;
      if (!at_end_ || to.pos > before || !within_frame_) continue;
      return absl::DataLossError(absl::StrCat(name_, ": torn zstd file: its end is missing"));
    }
    return to.pos;
  }
  bool packed() const override { return true; }

 private:
  absl::Status Fill() {
    if (at_end_) return absl::OkStatus();
    ASSIGN_OR_RETURN(const size_t count, ReadSome(name_, fd_, &buffer_));
    from_ = {buffer_.data(), count, 0};
    at_end_ = count == 0;
    return absl::OkStatus();
  }

  const std::string name_;
  const int fd_;
  ZSTD_DStream* const stream_;
  std::vector<char> buffer_;
  ZSTD_inBuffer from_{nullptr, 0, 0};
  bool at_end_ = false;        // of the file
  bool within_frame_ = false;  // or after one whose last bytes have not been returned yet
};

}  // namespace

bool IsZstd(absl::string_view begin) {
  if (begin.size() < 4) return false;
  const absl::string_view magic = begin.substr(0, 4);
  return magic == "\x28\xb5\x2f\xfd" ||
         (magic.substr(1) == "\x2a\x4d\x18" && (magic[0] & '\xf0') == '\x50');
}

bool IsZlib(absl::string_view begin) {
  // 32 KiB of window, and the levels 1, 6 and 9. (What others write, "x^", may be text.)
  if (begin.size() < 3 || begin[0] != 'x') return false;
  if (begin[1] != '\x01' && begin[1] != '\x9c' && begin[1] != '\xda') return false;
  z_stream stream = {};
  if (inflateInit(&stream) != Z_OK) return false;
  char unpacked[256];
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(begin.data()));
  stream.avail_in = static_cast<uInt>(begin.size());
  stream.next_out = reinterpret_cast<Bytef*>(unpacked);
  stream.avail_out = sizeof(unpacked);
  const int code = inflate(&stream, Z_NO_FLUSH);
  inflateEnd(&stream);
  return code == Z_OK || code == Z_STREAM_END;
}

absl::StatusOr<std::unique_ptr<ByteSource>> ByteSource::OfDescriptor(const std::string& name,
                                                                     int fd) {
  char bytes[512] = {};
  const ssize_t count = pread(fd, bytes, sizeof(bytes), 0);
  const absl::string_view begin(bytes, static_cast<size_t>(std::max<ssize_t>(0, count)));
  if (IsZstd(begin)) {
    if (ZSTD_DStream* const stream = ZSTD_createDStream()) {
      return std::make_unique<Zstd>(name, fd, stream);
    }
  } else if (IsZlib(begin)) {
    if (auto source = Zlib::Make(name, fd)) return source;
  } else if (const gzFile file = gzdopen(fd, "rb")) {
    gzbuffer(file, kGzipBuffer);
    return std::make_unique<Gzip>(name, file);
  }
  close(fd);
  return absl::ResourceExhaustedError(absl::StrCat(name, ": no memory to read it with"));
}

}  // namespace coxswain::data
