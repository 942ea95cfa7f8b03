// The bytes of a client's connection: as they travel, or through TLS.
//
// Thread model: belongs to the thread that serves the connection.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>

namespace coxswain::serve {

// Nothing here waits.
class HttpSocket {
 public:
  virtual ~HttpSocket() = default;

  struct Moved {
    ssize_t bytes = 0;   // > 0: these; 0: the client sends no more; < 0: none
    short wait_for = 0;  // where none: when poll() says this of the socket, again; 0: it is broken
  };
  // `size` is not 0.
  virtual Moved Receive(char* to, size_t size) = 0;
  // After one that moved nothing, the next has the same bytes.
  virtual Moved Send(const char* from, size_t size) = 0;
  // Tells the client, as far as that can be done at once, that nothing more comes.
  virtual void EndSending() = 0;
  // Takes what the client still sends, and drops it. False: there is nothing more.
  virtual bool Drop() = 0;
};

// `socket` stays the caller's.
std::unique_ptr<HttpSocket> PlainSocket(int socket);

// What poll() is to wait for after a system call has failed; 0: the socket is broken.
short WaitAfter(int error, short events);
// Drop, of what travels.
bool DropBytes(int socket);

}  // namespace coxswain::serve
