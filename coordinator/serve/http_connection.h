// The stream through which cpp-httplib reads and writes a connection, with a limit of time and of
// bytes for every request. The library bounds only the pauses between bytes, so a client that sends
// a byte now and then could occupy a thread for as long as it likes. Nor does it bound headers, or
// lines within a body that comes in chunks.
//
// Thread model: belongs to the thread that serves the connection.
#pragma once

#include <poll.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

#include "coordinator/serve/http_socket.h"
#include "httplib.h"

namespace coxswain::serve {

struct ConnectionLimits {
  std::chrono::milliseconds pause;    // longest time without a byte of a request or answer
  std::chrono::milliseconds request;  // from a request's first byte to its last; also of answers
  std::chrono::milliseconds idle;     // between requests
  size_t head_bytes;                  // of a request's first line and headers
};

class HttpConnection final : public httplib::Stream {
 public:
  using Clock = std::chrono::steady_clock;
  // `bytes`: what goes through `socket`. Both must outlive it.
  HttpConnection(socket_t socket, HttpSocket* bytes, const ConnectionLimits& limits)
      : socket_(socket), bytes_(bytes), limits_(limits), until_(Clock::now() + limits.idle) {}

  enum class Came {
    kRequest,  // its first byte, when its time limit begins
    kNothing,  // the connection may go on waiting for the socket, as far as `until`
    kEnd,      // the client is gone, or it is `until`
  };
  // Waits for a request, for a moment; a new connection's handshake is part of that wait. What has
  // arrived is always taken.
  Came WaitForRequest(std::chrono::milliseconds moment);
  // The request is answered: one that has not begun in time from now on does not come.
  void EndRequest() { until_ = Clock::now() + limits_.idle; }
  Clock::time_point until() const { return until_; }
  // What poll() is to wait for.
  short events() const { return events_; }
  // Whether the request took too long, so that the connection cannot be used any more.
  bool ran_out() const { return ran_out_; }
  // The headers are read; at most `bytes` more belong to this request.
  void EndHead(size_t bytes) {
    in_head_ = false;
    left_ = bytes;
  }
  bool in_head() const { return in_head_; }
  // What was read of the first line and the headers.
  const std::string& head() const { return head_; }
  // Whether the first line and the headers, or the rest of the request, had more bytes than are
  // allowed. The connection cannot be used any more.
  bool head_too_large() const { return too_large_ && in_head_; }
  bool too_large() const { return too_large_; }
  // What is left of the request will not be read: the connection ends with its answer.
  void GiveUp() { given_up_ = true; }
  bool given_up() const { return given_up_; }
  // The connection ends with this answer; the request was read.
  void EndAfterAnswer() { last_ = true; }
  bool last() const { return last_; }
  // Gives up a request that is not looked at: the answer has this status, and says why.
  void Refuse(int status, std::string why) {
    refusal_ = {status, std::move(why)};
    GiveUp();
  }
  struct Refusal {
    int status = 0;  // 0: the request is looked at
    std::string why;
  };
  const Refusal& refusal() const { return refusal_; }
  // Ends the connection's sending, and drops what the client still sends: if the socket were closed
  // with unread bytes in it, the system would reset the connection, and the client might not
  // see its answer. Takes at most a second.
  void Linger();
  // Whether an answer to the request has begun.
  bool answered() const { return writing_; }

  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* out, size_t size) override;
  ssize_t write(const char* data, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  // The library only asks whether select() could take it, and would refuse numbers from 1,024; this
  // stream polls. A process that serves a model of many files has more of them open than that.
  socket_t socket() const override { return INVALID_SOCKET; }

 private:
  // Waits until the socket is readable or writable, at most for a pause and not past the deadline.
  bool Wait(short events) const;

  const socket_t socket_;
  HttpSocket* const bytes_;
  const ConnectionLimits limits_;
  Clock::time_point until_;  // the end of waiting for a request
  short events_ = POLLIN;
  Clock::time_point deadline_ = Clock::time_point::max();
  bool writing_ = false;  // the answer has begun
  bool ran_out_ = false;
  bool in_head_ = true;
  bool too_large_ = false;
  bool given_up_ = false;
  bool last_ = false;
  std::string head_;
  Refusal refusal_;
  size_t left_ = 0;                      // bytes that the request may still have
  std::array<char, 16 << 10> buffer_{};  // the library reads lines byte by byte
  size_t begin_ = 0, end_ = 0;           // the range of unread bytes
};

}  // namespace coxswain::serve
