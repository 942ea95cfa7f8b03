// The one transport seam. Everything that two tasks say to each other is a Message on a Connection.
//
// A message is a small header (bytes that the sender and receiver agree on: a protobuf for control,
// a packed struct for tensor frames) and a list of payload slices that are never copied by
// protobuf. A connection delivers messages in order and at most once; when it breaks, everything
// not yet delivered is lost and both sides learn it once through OnClosed.
//
// Locks: Send, Close and dropping the last handle of a connection may call handlers before they
// return (the peer's in process, the own OnClosed everywhere). So hold no lock in these calls that
// a handler takes. No transport holds a lock while it calls a handler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coxswain/tensor.h"

namespace coxswain::net {

struct Message {
  uint16_t type = 0;  // of runtime/net/message_type.h
  std::string header;
  // Host memory; received slices start 64-byte aligned. Where Transport::in_process, also that of
  // devices.
  std::vector<Buffer> payload;

  size_t payload_bytes() const;
  // As it travels: prefix, header, slices and what lies between them (wire_format.h).
  size_t wire_bytes() const;
};

// The most that a message may have on its way between processes (wire_bytes): 4 GiB.
constexpr size_t kMaxMessageBytes = (size_t{1} << 32) - 64;

class Connection {
 public:
  virtual ~Connection() = default;
  // Queues the message. Never blocks. After the connection closed the message is dropped. The bytes
  // of the payload must not change until the last handle on them is gone. Thread-safe.
  //
  // A message that is larger than max_message_bytes ends the connection (ResourceExhausted), and
  // with it whatever else is under way; who sends what others have made looks first.
  virtual void Send(Message message) = 0;
  virtual size_t max_message_bytes() const { return kMaxMessageBytes; }
  // Ends the connection; OnClosed(reason) follows on both sides, here without waiting for the peer.
  // What was sent before may be lost (it is delivered when the peer reads on). Only the first Close
  // counts. Thread-safe.
  virtual void Close(absl::Status reason) = 0;
  // "127.0.0.1:4321", for people.
  virtual std::string peer() const = 0;
};

// Receives what happens on one connection. Calls for one connection never overlap. They come on a
// thread of the transport, of the sender (in process) or of whoever closes, and must not block;
// they may call anything of any Connection, and drop it.
class ConnectionHandler {
 public:
  virtual ~ConnectionHandler() = default;
  virtual void OnMessage(Message message) = 0;
  // The last call. OK: closed by Close(OK) of one side, or its last handle went. Unavailable: peer
  // or network gone, or its Listener or Transport ended. DataLoss: a packet that nobody
  // understands. Otherwise what one side passed to Close.
  virtual void OnClosed(absl::Status status) = 0;
};

// Accepts a new connection: returns who handles it; nullptr refuses it (the peer sees Unavailable).
// Whoever wants to answer later keeps `connection`: it closes when its last handle goes. Runs on a
// thread of the transport.
using AcceptFunction =
    std::function<std::shared_ptr<ConnectionHandler>(std::shared_ptr<Connection> connection)>;

class Listener {
 public:
  // Stops accepting, closes the connections it accepted (Unavailable) and waits until no handler of
  // theirs is running. Never call it from one of these handlers.
  virtual ~Listener() = default;
  virtual std::string address() const = 0;  // with the port that was picked
};

class Transport {
 public:
  // Closes the connections made by Connect (Unavailable) and waits until no handler of theirs is
  // running. Never call it from one of these handlers. Listeners may go before or after it. A
  // Connect that a handler calls meanwhile gives a dead connection, whose handler is never called.
  virtual ~Transport() = default;
  // `address` "host:port" or "[::1]:port"; port 0 picks one.
  // Errors: InvalidArgument for an address that cannot be read; Unavailable when the port is taken
  // or the host is not of this machine.
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                           AcceptFunction accept) = 0;
  // Starts to connect and returns at once; messages sent meanwhile wait. When nobody answers within
  // `timeout`, OnClosed(Unavailable) comes (in process: at once when there is no such listener);
  // InvalidArgument when the address cannot be read. The transport keeps `handler` until OnClosed
  // returned; the connection closes when its last handle goes. Handlers are called on other
  // threads, perhaps before Connect returned.
  virtual std::shared_ptr<Connection> Connect(const std::string& address, absl::Duration timeout,
                                              std::shared_ptr<ConnectionHandler> handler) = 0;
  // Whether both ends of all connections are in this process.
  virtual bool in_process() const { return false; }
};

// Between tasks of one process: addresses are any strings, known to this transport only. Slices are
// handed over, not copied; a message is handled on the sender's thread when the receiver is idle.
std::unique_ptr<Transport> NewInProcessTransport(
    size_t max_message_bytes = std::numeric_limits<size_t>::max());

class Tls;

struct TransportOptions {
  // How long a closed connection may go on in the background to tell its peer the reason.
  absl::Duration close_linger = absl::Seconds(1);
  // At most kMaxMessageBytes.
  size_t max_message_bytes = kMaxMessageBytes;
  // What goes over TCP is encrypted, and both ends show a certificate of the cluster; null: no.
  std::shared_ptr<const Tls> tls;
};

// gRPC: one bidirectional stream of raw byte buffers per connection, over a TCP connection of its
// own.
//
// Handlers run on gRPC's threads: half as many as cores, 2 to 16, shared by all gRPC transports of
// the process. While all of them are busy in handlers, nothing is read or written.
std::unique_ptr<Transport> NewGrpcTransport(const TransportOptions& options = {});

// What daemons and coordinators use: gRPC, but memory that both share where the listener belongs to
// the same user on the same host (of the same network namespace) and uses this transport too. A
// packet is written once, by the sender; the receiver's slices lie where it was written. Handlers
// of these connections run on threads of the transport: half as many as cores, 1 to 8. With
// COXSWAIN_TRANSPORT=grpc in the environment it is NewGrpcTransport.
std::unique_ptr<Transport> NewHostTransport(const TransportOptions& options = {});

}  // namespace coxswain::net
