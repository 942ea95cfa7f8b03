#include "coordinator/serve/inflater.h"

#include <array>
#include <new>

namespace coxswain::serve {
namespace {

constexpr int kGzipOrZlib = 32;  // whichever its first bytes say
constexpr size_t kPiece = 16 << 10;

}  // namespace

Inflater::Inflater() {
  if (inflateInit2(&stream_, kGzipOrZlib + MAX_WBITS) != Z_OK) throw std::bad_alloc();
}
Inflater::~Inflater() { inflateEnd(&stream_); }

bool Inflater::Add(absl::string_view packed, absl::FunctionRef<bool(absl::string_view)> take) {
  stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream_.avail_in = static_cast<uInt>(packed.size());
  std::array<char, kPiece> piece;
  do {
    if (ended_) return packed.empty();
    stream_.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream_.avail_out = kPiece;
    const int code = inflate(&stream_, Z_NO_FLUSH);
    // Z_BUF_ERROR: the last piece was just full, and there is no more in what came.
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) return false;
    ended_ = code == Z_STREAM_END;
    if (!take({piece.data(), kPiece - stream_.avail_out})) return false;
  } while (stream_.avail_in > 0 || (stream_.avail_out == 0 && !ended_));
  return true;
}

}  // namespace coxswain::serve
