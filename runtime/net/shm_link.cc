// Sending: packets into blocks, and those that come back. Then the end of a link, the wake-ups, and
// receiving.
#include "runtime/net/shm_link.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"
#include "runtime/tensor/limits.h"

namespace coxswain::net {
namespace {

static_assert(kMaxMessageBytes <= kShmArenaBytes / 2);
// Packets up to this size are copied out, so that their blocks go back, warm, at once.
constexpr size_t kCopiedBytes = 16 << 10;
// Packets from this size on are written without the lock, for that takes longer than to take it
// again.
constexpr size_t kLargePacket = 64 << 10;
// Packets that are read before others get their turn, which also comes when this time has passed
// since the first of them was handled.
constexpr int kFramesATurn = 16;
constexpr std::chrono::milliseconds kTimeATurn{1};

void WriteOnHost(const Packet& packet, char* out) {
  for (const Buffer& slice : packet.message.payload) {
    COX_CHECK(slice.device().type == DeviceType::kCpu, "a payload slice is not in host memory");
  }
  WritePacket(packet, out);
}

}  // namespace

ShmLink::ShmLink(Side side, UniqueFd socket, std::shared_ptr<ShmSegment> segment, std::string peer,
                 const TransportOptions& options, std::weak_ptr<Poller> poller)
    : peer_(std::move(peer)),
      options_(options),
      poller_(std::move(poller)),
      socket_(std::move(socket)),
      segment_(std::move(segment)),
      side_(side),
      out_(segment_->direction(side)),
      in_(segment_->direction(1 - side)),
      arena_(kShmArenaBytes, kShmSlots) {}

void ShmLink::Open(std::shared_ptr<ConnectionHandler> handler) { inbox_.Open(std::move(handler)); }

void ShmLink::Send(Message message) {
  const size_t bytes = PacketBytes(message);
  if (bytes > options_.max_message_bytes) {
    Close(TooLarge(peer_, bytes, options_.max_message_bytes));
    return;
  }
  Packet packet{PacketKind::kMessage, std::move(message)};
  std::optional<Place> place;
  {
    absl::MutexLock lock(&mu_);
    if (closing_) return;
    if (queue_.empty()) {
      TakeReturns();
      if (down_) return;
      if (bytes < kLargePacket) {
        if (TryWrite(packet)) return;
      } else {
        place = Reserve(bytes);
      }
    }
    if (!place.has_value()) {
      queue_.push_back(std::move(packet));
      Flush();
      return;
    }
  }
  WriteOnHost(packet, segment_->arena(side_) + place->offset);
  absl::MutexLock lock(&mu_);
  Publish(place->number);
  // Close may have waited for this one.
  if (closing_ && queue_.empty() && reserved_.empty()) ShutDown();
}

void ShmLink::Close(absl::Status reason) {
  bool flushed = false;
  {
    absl::MutexLock lock(&mu_);
    if (closing_) return;
    closing_ = true;
    reason_ = reason;
    queue_.push_back(GoodbyePacket(reason));
    flushed = Flush();
    if (flushed) ShutDown();
  }
  if (!flushed) {
    if (const std::shared_ptr<Poller> poller = poller_.lock()) {
      poller->RunAfter(options_.close_linger, [weak = weak_from_this()] {
        const std::shared_ptr<ShmLink> link = weak.lock();
        if (link == nullptr) return;
        absl::MutexLock lock(&link->mu_);
        link->ShutDown();
      });
    }
  }
  inbox_.Close(std::move(reason));
}

bool ShmLink::Flush() {
  TakeReturns();
  while (!queue_.empty() && !down_) {
    if (TryWrite(queue_.front())) {
      queue_.pop_front();
      continue;
    }
    out_.starved.store(1);
    if (out_.returned.load() == returns_taken_) return false;
    out_.starved.store(0);
    TakeReturns();
  }
  return reserved_.empty();
}

bool ShmLink::TryWrite(const Packet& packet) {
  if (down_) return true;  // nobody reads it
  const std::optional<Place> place = Reserve(PacketBytes(packet.message));
  if (!place.has_value()) return false;
  WriteOnHost(packet, segment_->arena(side_) + place->offset);
  Publish(place->number);
  return true;
}

std::optional<ShmLink::Place> ShmLink::Reserve(size_t bytes) {
  const std::optional<ShmArena::Block> block = arena_.Allocate(bytes);
  if (!block.has_value()) return std::nullopt;
  reserved_.push_back({{block->offset, bytes, block->id, 0}, false});
  return Place{sent_ + reserved_.size() - 1, block->offset};
}

void ShmLink::Publish(uint64_t number) {
  reserved_[number - sent_].written = true;
  if (!reserved_.front().written) return;  // who writes that one publishes both
  while (!reserved_.empty() && reserved_.front().written) {
    out_.ring[sent_ % kShmSlots] = reserved_.front().descriptor;
    reserved_.pop_front();
    out_.sent.store(++sent_);
  }
  if (out_.asleep.load() != 0 && out_.asleep.exchange(0) != 0) WakePeer();
}

void ShmLink::TakeReturns() {
  const uint64_t returned = out_.returned.load();
  while (returns_taken_ != returned) {
    const ShmArena::Returned block = arena_.Return(out_.returns[returns_taken_++ % kShmSlots]);
    if (!block.known) {
      LogWarning(peer_, " gives back shared memory that it does not have");
      ShutDown();
      return;
    }
    if (block.discard_bytes > 0) {
      segment_->Discard(side_, block.discard_offset, block.discard_bytes);
    }
  }
}

void ShmLink::ShutDown() {
  closing_ = true;
  down_ = true;
  queue_.clear();
  shutdown(socket_.get(), SHUT_RDWR);
}

void ShmLink::Lose(absl::Status status) {
  over_ = true;
  {
    absl::MutexLock lock(&mu_);
    ShutDown();
    // A Close that has not come to tell the handler yet says why this ended.
    if (reason_.has_value()) status = *reason_;
  }
  inbox_.Close(std::move(status));
}

void ShmLink::WakePeer() {
  const char byte = 'w';
  // A full socket wakes it too.
  [[maybe_unused]] const ssize_t sent = send(socket_.get(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool ShmLink::OnReady() {
  std::array<char, 64> bytes;
  while (!hung_up_) {
    const ssize_t got = recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    hung_up_ = got <= 0;
  }
  if (hung_up_) {
    while (!over_ && Poll()) {
    }
    if (!over_) Lose(absl::UnavailableError(absl::StrCat("lost the connection to ", peer_)));
    return false;
  }
  absl::MutexLock lock(&mu_);
  if (!queue_.empty() && Flush() && closing_) ShutDown();
  return true;
}

bool ShmLink::Poll() {
  std::chrono::steady_clock::time_point end;
  for (int i = 0; i < kFramesATurn; ++i) {
    if (over_) return false;
    const uint64_t waiting = in_.sent.load() - taken_;
    if (waiting == 0) return i > 0;
    if (i == 1) end = std::chrono::steady_clock::now() + kTimeATurn;
    if (i > 1 && std::chrono::steady_clock::now() >= end) return true;
    if (waiting > kShmSlots) {
      Lose(absl::DataLossError(
          absl::StrCat("from ", peer_, ": ", waiting, " packets in a ring of ", kShmSlots)));
      return false;
    }
    const ShmDescriptor descriptor = in_.ring[taken_++ % kShmSlots];
    if (!Deliver(descriptor)) over_ = true;
  }
  return true;
}

bool ShmLink::Arm() {
  if (over_) return true;
  in_.asleep.store(1);
  return in_.sent.load() == taken_;
}

bool ShmLink::Deliver(const ShmDescriptor& descriptor) {
  if (descriptor.offset % kBufferAlignment != 0 || descriptor.offset > kShmArenaBytes ||
      descriptor.bytes > kShmArenaBytes - descriptor.offset) {
    Lose(absl::DataLossError(absl::StrCat("from ", peer_, ": a packet of ", descriptor.bytes,
                                          " bytes at ", descriptor.offset,
                                          " is not within the shared memory")));
    return false;
  }
  bool goodbye = false;
  Buffer bytes;
  absl::Status status = CatchAllocationErrors([&] {
    bytes = Bytes(descriptor);
    return absl::OkStatus();
  });
  if (status.ok()) {
    status = ParsePackets(bytes, [&](Packet packet) {
      if (packet.kind == PacketKind::kMessage) {
        inbox_.Push(std::move(packet.message));
        return true;
      }
      goodbye = true;
      Lose(GoodbyeReason(packet.message));
      return false;
    });
  }
  if (!status.ok()) Close(Annotate(status, absl::StrCat("from ", peer_)));
  return status.ok() && !goodbye;
}

Buffer ShmLink::Bytes(const ShmDescriptor& descriptor) {
  char* data = segment_->arena(1 - side_) + descriptor.offset;
  if (descriptor.bytes <= kCopiedBytes) {
    Buffer copy = Buffer::Allocate(descriptor.bytes);
    std::memcpy(copy.data(), data, descriptor.bytes);
    ReturnBlock(descriptor.block);
    return copy;
  }
  return Buffer::Wrap(
      data, descriptor.bytes, Device{},
      [link = shared_from_this(), block = descriptor.block] { link->ReturnBlock(block); });
}

void ShmLink::ReturnBlock(uint32_t block) {
  {
    absl::MutexLock lock(&return_mu_);
    in_.returns[returned_ % kShmSlots] = block;
    in_.returned.store(++returned_);
  }
  if (in_.starved.load() != 0 && in_.starved.exchange(0) != 0) WakePeer();
}

}  // namespace coxswain::net
