// Where bytes come from; bytes as they are, gzip and zlib, zstd, a class each; which of them a file
// is.
#include "runtime/data/byte_source.h"

#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain::data {
namespace {

constexpr size_t kBeginning = 512;  // says how a file is packed

bool IsGzip(absl::string_view begin) { return begin.substr(0, 2) == "\x1f\x8b"; }

// Bytes as they are stored, from the beginning to the end.
class StoredBytes {
 public:
  virtual ~StoredBytes() = default;
  // Some bytes; 0 at the end.
  virtual absl::StatusOr<size_t> Read(char* out, size_t bytes) = 0;
};

absl::Status CannotRead(const std::string& name, int error) {
  if (error == EISDIR) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": wanted a file, found a directory"));
  }
  return absl::UnavailableError(absl::StrCat(name, ": cannot read: ", std::strerror(error)));
}

// Some bytes, again where a signal came between; 0 at the end.
class OfDescriptorBytes final : public StoredBytes {
 public:
  OfDescriptorBytes(std::string name, int fd) : name_(std::move(name)), fd_(fd) {}
  ~OfDescriptorBytes() override { close(fd_); }

  absl::StatusOr<size_t> Read(char* out, size_t bytes) override {
    ssize_t count = 0;
    do {
      count = read(fd_, out, bytes);
    } while (count < 0 && errno == EINTR);
    if (count < 0) return CannotRead(name_, errno);
    return static_cast<size_t>(count);
  }

 private:
  const std::string name_;
  const int fd_;
};

// A file from its beginning to its end, piece by piece; the next piece is on its way while one is
// used, because a store in the network answers late.
class OfFileBytes final : public StoredBytes {
 public:
  explicit OfFileBytes(std::unique_ptr<env::RandomAccessFile> file) : file_(std::move(file)) {}

  absl::StatusOr<size_t> Read(char* out, size_t bytes) override {
    if (at_ == piece_.size()) RETURN_IF_ERROR(NextPiece());
    const size_t count = std::min(bytes, piece_.size() - at_);
    if (count > 0) std::memcpy(out, piece_.data() + at_, count);
    at_ += count;
    return count;
  }

 private:
  using Piece = absl::StatusOr<std::vector<char>>;

  void Ask() {
    const size_t bytes = static_cast<size_t>(std::min<uint64_t>(kPiece, file_->size() - asked_));
    // A thread of its own, or, where there is none to be had, later on this one.
    next_ = std::async([this, bytes, offset = asked_]() -> Piece {
      std::vector<char> piece(bytes);
      RETURN_IF_ERROR(file_->Read(offset, piece.data(), bytes));
      return piece;
    });
    asked_ += bytes;
  }
  absl::Status NextPiece() {
    if (!next_.valid()) Ask();
    Piece piece = next_.get();
    RETURN_IF_ERROR(piece.status());
    piece_ = *std::move(piece);
    at_ = 0;
    Ask();
    return absl::OkStatus();
  }

  static constexpr uint64_t kPiece = uint64_t{4} << 20;
  const std::unique_ptr<env::RandomAccessFile> file_;
  std::vector<char> piece_;
  size_t at_ = 0;
  uint64_t asked_ = 0;
  std::future<Piece> next_;  // ends first: it uses the file
};

// Bytes with a look at their beginning.
class Input {
 public:
  explicit Input(std::unique_ptr<StoredBytes> bytes) : bytes_(std::move(bytes)) {}

  // At least `count` bytes that have not been taken, or all until the end, which stay.
  absl::StatusOr<absl::string_view> Look(size_t count) {
    if (end_ - begin_ < count) {
      if (begin_ > 0) std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    while (end_ < count) {
      ASSIGN_OR_RETURN(const size_t got,
                       bytes_->Read(buffer_.data() + end_, buffer_.size() - end_));
      if (got == 0) break;
      end_ += got;
    }
    return absl::string_view(buffer_.data() + begin_, end_ - begin_);
  }
  void Take(size_t count) { begin_ += count; }
  // Some bytes, past the buffer where it is empty; 0 at the end.
  absl::StatusOr<size_t> Read(char* out, size_t bytes) {
    if (begin_ == end_) return bytes_->Read(out, bytes);
    const size_t count = std::min(bytes, end_ - begin_);
    std::memcpy(out, buffer_.data() + begin_, count);
    begin_ += count;
    return count;
  }

 private:
  static constexpr size_t kBuffer = size_t{256} << 10;
  std::unique_ptr<StoredBytes> bytes_;
  std::vector<char> buffer_ = std::vector<char>(kBuffer);
  size_t begin_ = 0, end_ = 0;
};

class Plain final : public ByteSource {
 public:
  explicit Plain(Input input) : input_(std::move(input)) {}
  absl::StatusOr<size_t> Read(char* out, size_t bytes) override {
    size_t done = 0;
    while (done < bytes) {
      ASSIGN_OR_RETURN(const size_t count, input_.Read(out + done, bytes - done));
      if (count == 0) break;
      done += count;
    }
    return done;
  }
  bool packed() const override { return false; }

 private:
  Input input_;
};

// gzip, which may be several members one after the other; or a stream of zlib that is all of a
// file, as TensorFlow writes it.
class Inflate final : public ByteSource {
 public:
  enum Kind { kGzip, kZlib };
  // Null without memory.
  static std::unique_ptr<Inflate> Make(std::string name, Kind kind, Input input) {
    std::unique_ptr<Inflate> source(new Inflate(std::move(name), kind, std::move(input)));
    if (inflateInit2(&source->stream_, kind == kGzip ? 16 + MAX_WBITS : MAX_WBITS) != Z_OK) {
      return nullptr;
    }
    source->begun_ = true;
    return source;
  }
  ~Inflate() override {
    if (begun_) inflateEnd(&stream_);
  }

  absl::StatusOr<size_t> Read(char* out, size_t bytes) override {
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = static_cast<uInt>(bytes);
    while (stream_.avail_out > 0 && !done_) {
      ASSIGN_OR_RETURN(const absl::string_view some, input_.Look(1));
      if (some.empty()) return Damaged("its end is missing");
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(some.data()));
      stream_.avail_in = static_cast<uInt>(some.size());
      const int code = inflate(&stream_, Z_NO_FLUSH);
      input_.Take(some.size() - stream_.avail_in);
      if (code == Z_STREAM_END) {
        RETURN_IF_ERROR(EndStream());
      } else if (code != Z_OK) {
        return Damaged(stream_.msg == nullptr ? "" : stream_.msg);
      }
    }
    return bytes - stream_.avail_out;
  }
  bool packed() const override { return true; }

 private:
  Inflate(std::string name, Kind kind, Input input)
      : name_(std::move(name)), kind_(kind), input_(std::move(input)) {}
  absl::Status Damaged(absl::string_view how) const {
    return absl::DataLossError(absl::StrCat(name_, ": damaged or torn ",
                                            kind_ == kGzip ? "gzip file: " : "zlib stream: ", how));
  }
  absl::Status EndStream() {
    ASSIGN_OR_RETURN(const absl::string_view next, input_.Look(2));
    done_ = kind_ == kZlib || !IsGzip(next);
    if (!done_) return inflateReset(&stream_) == Z_OK ? absl::OkStatus() : Damaged("");
    if (kind_ == kZlib && !next.empty()) return Damaged("more bytes follow its end");
    return CheckFill();
  }
  // Some programs fill up blocks with zeros behind the last member of gzip. Anything else would be
  // rows that nobody sees, such as those of a plain file that was appended.
  absl::Status CheckFill() {
    while (true) {
      ASSIGN_OR_RETURN(const absl::string_view next, input_.Look(1));
      if (next.empty()) return absl::OkStatus();
      if (next.find_first_not_of('\0') != absl::string_view::npos) {
        return Damaged("bytes that are not packed follow its end");
      }
      input_.Take(next.size());
    }
  }

  const std::string name_;
  const Kind kind_;
  Input input_;
  z_stream stream_ = {};
  bool begun_ = false;
  bool done_ = false;
};

class Zstd final : public ByteSource {
 public:
  Zstd(std::string name, Input input, ZSTD_DStream* stream)
      : name_(std::move(name)), input_(std::move(input)), stream_(stream) {}
  ~Zstd() override { ZSTD_freeDStream(stream_); }

  absl::StatusOr<size_t> Read(char* out, size_t bytes) override {
    ZSTD_outBuffer to{out, bytes, 0};
    while (to.pos < to.size) {
      ASSIGN_OR_RETURN(const absl::string_view some, input_.Look(1));
      if (some.empty() && !within_frame_) break;
      ZSTD_inBuffer from{some.data(), some.size(), 0};
      const size_t before = to.pos;
      const size_t left = ZSTD_decompressStream(stream_, &to, &from);
      if (ZSTD_isError(left) != 0) {
        return absl::DataLossError(
            absl::StrCat(name_, ": damaged zstd file: ", ZSTD_getErrorName(left)));
      }
      input_.Take(from.pos);
      within_frame_ = left != 0;
      if (!some.empty() || to.pos > before || !within_frame_) continue;
      return absl::DataLossError(absl::StrCat(name_, ": torn zstd file: its end is missing"));
    }
    return to.pos;
  }
  bool packed() const override { return true; }

 private:
  const std::string name_;
  Input input_;
  ZSTD_DStream* const stream_;
  bool within_frame_ = false;  // or after one whose last bytes have not been returned yet
};

absl::StatusOr<std::unique_ptr<ByteSource>> Unpacked(const std::string& name,
                                                     std::unique_ptr<StoredBytes> bytes) {
  Input input(std::move(bytes));
  ASSIGN_OR_RETURN(const absl::string_view begin, input.Look(kBeginning));
  std::unique_ptr<ByteSource> source;
  if (IsZstd(begin)) {
    if (ZSTD_DStream* const stream = ZSTD_createDStream()) {
      source = std::make_unique<Zstd>(name, std::move(input), stream);
    }
  } else if (IsGzip(begin)) {
    source = Inflate::Make(name, Inflate::kGzip, std::move(input));
  } else if (IsZlib(begin)) {
    source = Inflate::Make(name, Inflate::kZlib, std::move(input));
  } else {
    source = std::make_unique<Plain>(std::move(input));
  }
  if (source != nullptr) return source;
  return absl::ResourceExhaustedError(absl::StrCat(name, ": no memory to read it with"));
}

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
  return Unpacked(name, std::make_unique<OfDescriptorBytes>(name, fd));
}

absl::StatusOr<std::unique_ptr<ByteSource>> ByteSource::OfFile(
    std::unique_ptr<env::RandomAccessFile> file) {
  const std::string name = file->path();
  return Unpacked(name, std::make_unique<OfFileBytes>(std::move(file)));
}

}  // namespace coxswain::data
