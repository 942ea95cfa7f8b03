// One connection through shared memory, seen from either end.
//
// A socket between the two ends carries the handshake, one byte for each time that the other end
// has to be woken, and the news that its process is gone. Close tells the own handler at once and
// puts a goodbye behind what was sent; when that is in shared memory, or after the linger time, the
// socket is shut down, and the other end takes what is there before it tells its handler.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/net/inbox.h"
#include "runtime/net/poller.h"
#include "runtime/net/shm_arena.h"
#include "runtime/net/shm_segment.h"
#include "runtime/net/transport.h"
#include "runtime/net/unique_fd.h"
#include "runtime/net/wire_format.h"

namespace coxswain::net {

// Thread-safe, but for what is its poller's.
class ShmLink final : public PollerSource, public std::enable_shared_from_this<ShmLink> {
 public:
  enum Side { kClient = 0, kServer = 1 };

  // `poller` is for the linger time. The caller adds the link to it.
  ShmLink(Side side, UniqueFd socket, std::shared_ptr<ShmSegment> segment, std::string peer,
          const TransportOptions& options, std::weak_ptr<Poller> poller);

  // Says who handles, and delivers what came before. Once. nullptr: nobody; all is dropped.
  void Open(std::shared_ptr<ConnectionHandler> handler);
  void Send(Message message);
  void Close(absl::Status reason);
  const std::string& peer() const { return peer_; }
  size_t max_message_bytes() const { return options_.max_message_bytes; }
  // Blocks until OnClosed returned. Not from a handler of this link.
  void WaitClosed() { inbox_.WaitDone(); }

  // What the poller does.
  int fd() const override { return socket_.get(); }
  bool OnReady() override;
  bool Poll() override;
  bool Arm() override;

 private:
  // Sends what waits as far as there is room. True: nothing waits any more, and all is out.
  bool Flush() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool TryWrite(const Packet& packet) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Where a packet goes.
  struct Place {
    uint64_t number = 0;  // among all packets of this side
    size_t offset = 0;    // in the arena
  };
  // Nothing: there is no room.
  std::optional<Place> Reserve(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The packet is written: it goes out after those before it.
  void Publish(uint64_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TakeReturns() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Nothing more can be sent, and the other end learns it.
  void ShutDown() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The other end is gone, or has broken the rules.
  void Lose(absl::Status status);
  void WakePeer();
  // Reads one packet. False: no more is to come.
  bool Deliver(const ShmDescriptor& descriptor);
  // The packet's bytes: where they lie, or a copy of what is small.
  Buffer Bytes(const ShmDescriptor& descriptor);
  void ReturnBlock(uint32_t block);

  const std::string peer_;
  const TransportOptions options_;
  const std::weak_ptr<Poller> poller_;
  const UniqueFd socket_;
  const std::shared_ptr<ShmSegment> segment_;
  const Side side_;
  ShmDirection& out_;
  ShmDirection& in_;
  Inbox inbox_;

  // The poller's.
  uint64_t taken_ = 0;
  bool over_ = false;     // nothing more is read
  bool hung_up_ = false;  // the socket has ended; what is in memory is still read

  absl::Mutex mu_;
  bool closing_ ABSL_GUARDED_BY(mu_) = false;                // nothing more may be queued
  bool down_ ABSL_GUARDED_BY(mu_) = false;                   // the socket is shut down
  std::optional<absl::Status> reason_ ABSL_GUARDED_BY(mu_);  // of the Close on this side
  std::deque<Packet> queue_ ABSL_GUARDED_BY(mu_);
  ShmArena arena_ ABSL_GUARDED_BY(mu_);
  uint64_t sent_ ABSL_GUARDED_BY(mu_) = 0;
  // From packet number sent_ on: those that have their place. Senders write large ones without the
  // lock, several at the same time.
  struct Reserved {
    ShmDescriptor descriptor;
    bool written = false;
  };
  std::deque<Reserved> reserved_ ABSL_GUARDED_BY(mu_);
  uint64_t returns_taken_ ABSL_GUARDED_BY(mu_) = 0;

  absl::Mutex return_mu_;
  uint64_t returned_ ABSL_GUARDED_BY(return_mu_) = 0;
};

// The handle that users hold: closes the link when it goes.
class ShmConnection final : public Connection {
 public:
  explicit ShmConnection(std::shared_ptr<ShmLink> link) : link_(std::move(link)) {}
  ~ShmConnection() override { link_->Close(absl::OkStatus()); }

  // The handler that is called may drop this object: the link is held here.
  void Send(Message message) override {
    const std::shared_ptr<ShmLink> link = link_;
    link->Send(std::move(message));
  }
  void Close(absl::Status reason) override {
    const std::shared_ptr<ShmLink> link = link_;
    link->Close(std::move(reason));
  }
  std::string peer() const override { return link_->peer(); }
  size_t max_message_bytes() const override { return link_->max_message_bytes(); }

 private:
  const std::shared_ptr<ShmLink> link_;
};

}  // namespace coxswain::net
