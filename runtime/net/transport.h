// The one transport seam. Everything that two tasks say to each other is a Message on a Connection.
//
// A message is a small header (bytes that the sender and receiver agree on: a protobuf for control, a
// packed struct for tensor frames) and a list of payload slices that are never copied by protobuf.
// A connection delivers messages in order and at most once; when it breaks, everything not yet
// delivered is lost and both sides learn it once through OnClosed.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/tensor/buffer.h"

namespace coxswain {

struct Message {
  uint16_t type = 0;            // of runtime/net/message_type.h
  std::string header;
  std::vector<Buffer> payload;  // received slices start 64-byte aligned

  size_t payload_bytes() const;
};

class Connection {
 public:
  virtual ~Connection() = default;
  // Queues the message. Never blocks. After the connection closed the message is dropped. Thread-safe.
  virtual void Send(Message message) = 0;
  // Ends the connection; OnClosed follows on both sides. What was sent before may be lost. Thread-safe.
  virtual void Close(absl::Status reason) = 0;
  // "127.0.0.1:4321", for people.
  virtual std::string peer() const = 0;
};

// Receives what happens on one connection. Calls for one connection never overlap. They come on a
// thread of the transport (or of the sender, in process) and must not block; they may call Send.
class ConnectionHandler {
 public:
  virtual ~ConnectionHandler() = default;
  virtual void OnMessage(Message message) = 0;
  // The last call. OK: closed by Close(OK) of one side. Unavailable: peer or network gone.
  virtual void OnClosed(absl::Status status) = 0;
};

// Accepts a new connection: returns who handles it. Runs on a thread of the transport.
using AcceptFunction =
    std::function<std::shared_ptr<ConnectionHandler>(std::shared_ptr<Connection> connection)>;

class Listener {
 public:
  // Stops accepting, closes the connections it accepted and waits until no handler is running.
  virtual ~Listener() = default;
  virtual std::string address() const = 0;  // with the port that was picked
};

class Transport {
 public:
  virtual ~Transport() = default;
  // `address` "host:port"; port 0 picks one.
  // Errors: InvalidArgument for an address that cannot be read; Unavailable when the port is taken.
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                           AcceptFunction accept) = 0;
  // Starts to connect and returns at once; messages sent meanwhile wait. When nobody answers within
  // `timeout`, OnClosed(Unavailable) comes. The transport keeps `handler` until OnClosed returned;
  // the connection closes when its last handle goes.
  virtual std::shared_ptr<Connection> Connect(const std::string& address, absl::Duration timeout,
                                              std::shared_ptr<ConnectionHandler> handler) = 0;
};

// Between tasks of one process: addresses are any strings. Slices are handed over, not copied.
std::unique_ptr<Transport> NewInProcessTransport();

// gRPC: one bidirectional stream of raw byte buffers per connection, over TCP.
std::unique_ptr<Transport> NewGrpcTransport();

}  // namespace coxswain
