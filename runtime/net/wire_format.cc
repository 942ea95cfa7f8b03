#include "runtime/net/wire_format.h"

#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"

namespace coxswain {
namespace {

static_assert(std::endian::native == std::endian::little,
              "frames are written as they lie in memory");

absl::Status BadFrame(size_t offset, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("bad frame at byte ", offset, ": ", what));
}

// Reads the prefix at `offset` and checks every length in it but those of the slices.
absl::StatusOr<FramePrefix> ReadPrefix(const Buffer& batch, size_t offset) {
  const size_t left = batch.size() - offset;
  if (left < sizeof(FramePrefix)) {
    return BadFrame(
        offset, absl::StrCat("wanted a prefix of ", sizeof(FramePrefix), " bytes, found ", left));
  }
  FramePrefix prefix;
  std::memcpy(&prefix, static_cast<const char*>(batch.data()) + offset, sizeof(prefix));
  if (prefix.magic != kFrameMagic) {
    return BadFrame(offset, absl::StrCat("wanted magic ", absl::Hex(kFrameMagic), ", found ",
                                         absl::Hex(prefix.magic)));
  }
  if (prefix.version != kFrameVersion) {
    return BadFrame(offset, absl::StrCat("wanted version ", int{kFrameVersion}, ", found ",
                                         int{prefix.version}));
  }
  if (prefix.kind > static_cast<uint8_t>(FrameKind::kGoodbye)) {
    return BadFrame(offset, absl::StrCat("unknown kind ", int{prefix.kind}));
  }
  if (prefix.frame_bytes < sizeof(FramePrefix) || prefix.frame_bytes > left) {
    return BadFrame(offset, absl::StrCat("a frame of ", prefix.frame_bytes, " bytes where ", left,
                                         " are left"));
  }
  const uint64_t body = prefix.frame_bytes - sizeof(FramePrefix);
  if (uint64_t{prefix.slices} * sizeof(uint64_t) > body) {
    return BadFrame(offset, absl::StrCat(prefix.slices, " slices in a frame of ",
                                         prefix.frame_bytes, " bytes"));
  }
  if (prefix.header_bytes > body - uint64_t{prefix.slices} * sizeof(uint64_t)) {
    return BadFrame(offset, absl::StrCat("a header of ", prefix.header_bytes,
                                         " bytes in a frame of ", prefix.frame_bytes, " bytes"));
  }
  return prefix;
}

absl::Status ReadBody(const Buffer& batch, size_t offset, const FramePrefix& prefix, Frame& frame) {
  const char* base = static_cast<const char*>(batch.data());
  const size_t end = offset + prefix.frame_bytes;
  const size_t sizes = offset + sizeof(FramePrefix);
  const size_t header = sizes + size_t{prefix.slices} * sizeof(uint64_t);
  frame.kind = static_cast<FrameKind>(prefix.kind);
  frame.message.type = prefix.type;
  frame.message.header.assign(base + header, prefix.header_bytes);
  frame.message.payload.reserve(prefix.slices);
  size_t at = header + prefix.header_bytes;
  for (uint32_t i = 0; i < prefix.slices; ++i) {
    uint64_t bytes;
    std::memcpy(&bytes, base + sizes + i * sizeof(bytes), sizeof(bytes));
    const size_t begin = AlignUp(at);
    if (begin > end || bytes > end - begin) {
      return BadFrame(offset, absl::StrCat("slice ", i, " of ", prefix.slices, " has ", bytes,
                                           " bytes, the frame ", prefix.frame_bytes));
    }
    frame.message.payload.push_back(batch.Slice(begin, bytes));
    at = begin + bytes;
  }
  if (at != end) {
    return BadFrame(offset, absl::StrCat("the frame says ", prefix.frame_bytes,
                                         " bytes, its parts have ", at - offset));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status TooLarge(absl::string_view peer, size_t bytes, size_t most) {
  return absl::ResourceExhaustedError(absl::StrCat("a message to ", peer, " has ", bytes,
                                                   " bytes, at most ", most, " can be sent"));
}

FramePrefix MakePrefix(const Frame& frame) {
  return {kFrameMagic,
          kFrameVersion,
          static_cast<uint8_t>(frame.kind),
          frame.message.type,
          FrameBytes(frame.message),
          frame.message.header.size(),
          static_cast<uint32_t>(frame.message.payload.size()),
          0};
}

void WriteFrame(const Frame& frame, char* out) {
  const Message& message = frame.message;
  size_t at = 0;
  const auto put = [&](const void* data, size_t bytes) {
    if (bytes > 0) std::memcpy(out + at, data, bytes);
    at += bytes;
  };
  const FramePrefix prefix = MakePrefix(frame);
  put(&prefix, sizeof(prefix));
  for (const Buffer& slice : message.payload) {
    const uint64_t bytes = slice.size();
    put(&bytes, sizeof(bytes));
  }
  put(message.header.data(), message.header.size());
  for (const Buffer& slice : message.payload) {
    const size_t begin = AlignUp(at);
    std::memset(out + at, 0, begin - at);
    at = begin;
    put(slice.data(), slice.size());
  }
}

absl::Status ParseFrames(const Buffer& batch, absl::FunctionRef<bool(Frame)> deliver) {
  size_t offset = 0;
  do {
    ASSIGN_OR_RETURN(const FramePrefix prefix, ReadPrefix(batch, offset));
    Frame frame;
    RETURN_IF_ERROR(ReadBody(batch, offset, prefix, frame));
    if (!deliver(std::move(frame))) return absl::OkStatus();
    offset = AlignUp(offset + prefix.frame_bytes);
  } while (offset < batch.size());
  return absl::OkStatus();
}

Frame GoodbyeFrame(const absl::Status& reason) {
  const auto copy = [](absl::string_view text) {
    Buffer bytes = Buffer::Allocate(text.size());
    if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
    return bytes;
  };
  Frame frame{FrameKind::kGoodbye, {}};
  frame.message.type = static_cast<uint16_t>(reason.code());
  frame.message.header = std::string(reason.message());
  reason.ForEachPayload([&](absl::string_view url, const absl::Cord& value) {
    frame.message.payload.push_back(copy(url));
    frame.message.payload.push_back(copy(std::string(value)));
  });
  return frame;
}

absl::Status GoodbyeReason(const Message& goodbye) {
  if (goodbye.type == 0) return absl::OkStatus();
  const bool known = goodbye.type <= static_cast<uint16_t>(absl::StatusCode::kUnauthenticated);
  absl::Status status(
      known ? static_cast<absl::StatusCode>(goodbye.type) : absl::StatusCode::kUnknown,
      goodbye.header);
  const auto text = [](const Buffer& bytes) {
    return absl::string_view(static_cast<const char*>(bytes.data()), bytes.size());
  };
  for (size_t i = 0; i + 1 < goodbye.payload.size(); i += 2) {
    status.SetPayload(text(goodbye.payload[i]), absl::Cord(text(goodbye.payload[i + 1])));
  }
  return status;
}

}  // namespace coxswain
