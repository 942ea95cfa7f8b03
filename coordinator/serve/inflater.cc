#include "coordinator/serve/inflater.h"

#include <array>

namespace coxswain::serve {
namespace {

constexpr int kGzipOrZlib = 32;  // whichever its first bytes say
constexpr size_t kPiece = 16 << 10;

absl::Status NoMemory() {
  return absl::ResourceExhaustedError("memory does not suffice to unpack the body");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Inflater>> Inflater::Create(alloc_func memory) {
  std::unique_ptr<Inflater> inflater(new Inflater);
  inflater->stream_.zalloc = memory;
  if (inflateInit2(&inflater->stream_, kGzipOrZlib + MAX_WBITS) != Z_OK) return NoMemory();
  return inflater;
}
Inflater::~Inflater() { inflateEnd(&stream_); }

absl::Status Inflater::Add(absl::string_view packed,
                           absl::FunctionRef<bool(absl::string_view)> take) {
  stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream_.avail_in = static_cast<uInt>(packed.size());
  const auto damaged = [] { return absl::InvalidArgumentError("the bytes are damaged"); };
  std::array<char, kPiece> piece;
  do {
    if (ended_) return packed.empty() ? absl::OkStatus() : damaged();
    stream_.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream_.avail_out = kPiece;
    const int code = inflate(&stream_, Z_NO_FLUSH);
    if (code == Z_MEM_ERROR) return NoMemory();
    // Z_BUF_ERROR: the last piece was just full, and there is no more in what came.
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) return damaged();
    ended_ = code == Z_STREAM_END;
    if (!take({piece.data(), kPiece - stream_.avail_out})) {
      return absl::CancelledError("what is in the body is not wanted");
    }
  } while (stream_.avail_in > 0 || (stream_.avail_out == 0 && !ended_));
  return absl::OkStatus();
}

}  // namespace coxswain::serve
