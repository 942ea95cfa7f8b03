// The stream through which cpp-httplib reads and writes a connection, with a time limit for every
// request: the library bounds only the pauses between bytes, so a client that sends a byte now and
// then could occupy a thread for as long as it likes.
//
// Thread model: belongs to the thread that serves the connection.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "httplib.h"

namespace coxswain::serve {

struct ConnectionLimits {
  std::chrono::milliseconds pause;    // longest time without a byte of a request or answer
  std::chrono::milliseconds request;  // from a request's first byte to its last; also of answers
  std::chrono::milliseconds idle;     // between requests
};

class HttpConnection final : public httplib::Stream {
 public:
  HttpConnection(socket_t socket, const ConnectionLimits& limits)
      : socket_(socket), limits_(limits) {}

  // Waits for the first byte of a request, when its time limit begins. False: none arrives in time,
  // the client is gone, or `ending` returns true because the server is ending.
  bool WaitForRequest(const std::function<bool()>& ending);
  // Whether the request took too long, so that the connection cannot be used any more.
  bool ran_out() const { return ran_out_; }
  // Whether an answer to the request has begun.
  bool answered() const { return writing_; }

  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* out, size_t size) override;
  ssize_t write(const char* data, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return socket_; }

 private:
  using Clock = std::chrono::steady_clock;
  // Waits until the socket is readable or writable, at most for a pause and not past the deadline.
  bool Wait(short events) const;

  const socket_t socket_;
  const ConnectionLimits limits_;
  Clock::time_point deadline_ = Clock::time_point::max();
  bool writing_ = false;  // the answer has begun
  bool ran_out_ = false;
  std::array<char, 16 << 10> buffer_{};  // the library reads lines byte by byte
  size_t begin_ = 0, end_ = 0;           // the range of unread bytes
};

}  // namespace coxswain::serve
