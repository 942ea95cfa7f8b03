// A connection as cpp-httplib reads and writes it, with an end to every request: the library bounds
// only the pauses between bytes, so that a client that sends one now and then would have a thread
// for as long as it likes.
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
  std::chrono::milliseconds pause;  // without a byte, while a request is read or an answer written
  std::chrono::milliseconds request;  // from a request's first byte to its last, and of an answer
  std::chrono::milliseconds idle;     // between requests
};

class HttpConnection final : public httplib::Stream {
 public:
  HttpConnection(socket_t socket, const ConnectionLimits& limits)
      : socket_(socket), limits_(limits) {}

  // Waits for the first byte of a request, whose time begins then. False: none comes in time, the
  // client is gone, or `ending` says that nobody serves it any more.
  bool WaitForRequest(const std::function<bool()>& ending);
  // Whether the request took too long: what is left of it is nothing to go on with.
  bool ran_out() const { return ran_out_; }
  // Whether there is an answer to it, or a part of one.
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
  // Waits for bytes, or for room: no longer than a pause may last, nor past the deadline.
  bool Wait(short events) const;

  const socket_t socket_;
  const ConnectionLimits limits_;
  Clock::time_point deadline_ = Clock::time_point::max();
  bool writing_ = false;  // the answer has begun
  bool ran_out_ = false;
  std::array<char, 16 << 10> buffer_{};  // the library reads lines byte by byte
  size_t begin_ = 0, end_ = 0;           // of what is in it
};

}  // namespace coxswain::serve
