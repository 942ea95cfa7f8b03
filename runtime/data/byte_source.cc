#include "runtime/data/byte_source.h"

#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

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
    // A torn file ends like a whole one but for the error it leaves.
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
    ssize_t count = 0;
    do {
      count = read(fd_, buffer_.data(), buffer_.size());
    } while (count < 0 && errno == EINTR);
    if (count < 0) return CannotRead(name_, errno);
    from_ = {buffer_.data(), static_cast<size_t>(count), 0};
    at_end_ = count == 0;
    return absl::OkStatus();
  }

  const std::string name_;
  const int fd_;
  ZSTD_DStream* const stream_;
  std::vector<char> buffer_;
  ZSTD_inBuffer from_{nullptr, 0, 0};
  bool at_end_ = false;        // of the file
  bool within_frame_ = false;  // or behind one whose last bytes were not written out yet
};

}  // namespace

bool IsZstd(absl::string_view begin) {
  if (begin.size() < 4) return false;
  const absl::string_view magic = begin.substr(0, 4);
  return magic == "\x28\xb5\x2f\xfd" ||
         (magic.substr(1) == "\x2a\x4d\x18" && (magic[0] & '\xf0') == '\x50');
}

absl::StatusOr<std::unique_ptr<ByteSource>> ByteSource::OfDescriptor(const std::string& name,
                                                                     int fd) {
  char begin[4] = {};
  const bool zstd = pread(fd, begin, sizeof(begin), 0) == sizeof(begin) &&
                    IsZstd(absl::string_view(begin, sizeof(begin)));
  if (zstd) {
    if (ZSTD_DStream* const stream = ZSTD_createDStream()) {
      return std::make_unique<Zstd>(name, fd, stream);
    }
  } else if (const gzFile file = gzdopen(fd, "rb")) {
    gzbuffer(file, kGzipBuffer);
    return std::make_unique<Gzip>(name, file);
  }
  close(fd);
  return absl::ResourceExhaustedError(absl::StrCat(name, ": no memory to read it with"));
}

}  // namespace coxswain::data
