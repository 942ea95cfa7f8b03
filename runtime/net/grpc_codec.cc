#include "runtime/net/grpc_codec.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpc/slice.h"
#include "grpcpp/support/slice.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/tensor/limits.h"

namespace coxswain::net {
namespace {

constexpr size_t kMinSharedSlice = 512;

bool IsShared(const Buffer& slice) { return slice.size() >= kMinSharedSlice; }

// Writes a batch: a run of copied bytes is a part of one allocation for all of them.
class BatchWriter {
 public:
  explicit BatchWriter(size_t copied_bytes) : copied_(grpc_slice_malloc(copied_bytes)) {
    at_ = GRPC_SLICE_START_PTR(copied_);
    run_ = at_;
  }
  ~BatchWriter() { grpc_slice_unref(copied_); }
  BatchWriter(const BatchWriter&) = delete;
  BatchWriter& operator=(const BatchWriter&) = delete;

  void Copy(const void* data, size_t bytes) {
    if (bytes > 0) std::memcpy(at_, data, bytes);
    Skip(bytes);
  }

  void Align() {
    const size_t pad = AlignUp(offset_) - offset_;
    std::memset(at_, 0, pad);
    Skip(pad);
  }

  void Share(Buffer slice) {
    EndRun();
    auto* owner = new Buffer(std::move(slice));
    slices_.emplace_back(
        owner->data(), owner->size(), [](void* p) { delete static_cast<Buffer*>(p); }, owner);
    offset_ += owner->size();
  }

  grpc::ByteBuffer Finish() {
    EndRun();
    COX_CHECK(at_ == GRPC_SLICE_END_PTR(copied_), "a batch has another size than was computed");
    return grpc::ByteBuffer(slices_.data(), slices_.size());
  }

 private:
  void Skip(size_t bytes) {
    at_ += bytes;
    offset_ += bytes;
  }

  void EndRun() {
    if (at_ == run_) return;
    uint8_t* start = GRPC_SLICE_START_PTR(copied_);
    slices_.emplace_back(grpc_slice_sub(copied_, run_ - start, at_ - start),
                         grpc::Slice::STEAL_REF);
    run_ = at_;
  }

  grpc_slice copied_;
  uint8_t* at_;        // where the next copied byte goes
  uint8_t* run_;       // the first copied byte that is in no slice yet
  size_t offset_ = 0;  // in the batch
  std::vector<grpc::Slice> slices_;
};

size_t CopiedBytes(const std::vector<Packet>& packets) {
  size_t bytes = 0;
  for (const Packet& packet : packets) {
    bytes = AlignUp(bytes) + PacketBytes(packet.message);
  }
  for (const Packet& packet : packets) {
    for (const Buffer& slice : packet.message.payload) {
      if (IsShared(slice)) bytes -= slice.size();
    }
  }
  return bytes;
}

}  // namespace

grpc::ByteBuffer EncodeBatch(std::vector<Packet> packets) {
  BatchWriter writer(CopiedBytes(packets));
  for (Packet& packet : packets) {
    Message& message = packet.message;
    const PacketPrefix prefix = MakePrefix(packet);
    writer.Align();
    writer.Copy(&prefix, sizeof(prefix));
    for (const Buffer& slice : message.payload) {
      const uint64_t bytes = slice.size();
      writer.Copy(&bytes, sizeof(bytes));
    }
    writer.Copy(message.header.data(), message.header.size());
    for (Buffer& slice : message.payload) {
      COX_CHECK(slice.device().type == DeviceType::kCpu, "a payload slice is not in host memory");
      writer.Align();
      if (IsShared(slice)) {
        writer.Share(std::move(slice));
      } else {
        writer.Copy(slice.data(), slice.size());
      }
    }
  }
  return writer.Finish();
}

absl::StatusOr<Buffer> GatherBatch(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  const grpc::Status dumped = bytes.Dump(&slices);
  if (!dumped.ok()) {
    return absl::DataLossError(absl::StrCat("cannot read a message: ", dumped.error_message()));
  }
  Buffer batch;
  RETURN_IF_ERROR(CatchAllocationErrors([&] {
    batch = Buffer::Allocate(bytes.Length());
    return absl::OkStatus();
  }));
  char* at = static_cast<char*>(batch.data());
  for (const grpc::Slice& slice : slices) {
    if (slice.size() > 0) std::memcpy(at, slice.begin(), slice.size());
    at += slice.size();
  }
  return batch;
}

}  // namespace coxswain::net
