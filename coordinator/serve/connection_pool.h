// Connections, and the threads that serve them.
//
// A connection has a thread while a request of it is read, answered and written. Between requests
// it soon gives the thread up and waits with many others for its next byte. So those who keep their
// connections open, however many and however busy, hold nobody up for long.
//
// Everything is bounded: the threads, and the connections that wait. When another one comes, the
// one that has waited longest without a byte ends.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace coxswain::serve {

// A socket of its own, which ends with the object. Used by one thread at a time.
class PooledConnection {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Next {
    kEnd,   // nothing more
    kWait,  // until the socket is ready, or it is `until`
    kTurn,  // a request has come, but it is somebody else's turn
  };

  virtual ~PooledConnection() = default;
  // Serves requests. Does not wait for a request for longer than a moment.
  virtual Next Serve() = 0;
  virtual int socket() const = 0;
  // What poll() is to wait for, and how long.
  virtual short events() const = 0;
  virtual Clock::time_point until() const = 0;
};

class ConnectionPool {
 public:
  struct Options {
    int threads = 64;
    size_t waiting = 1024;                 // connections without a thread
    std::chrono::milliseconds drain{0};    // from Stop on, time in which it still listens
    std::chrono::milliseconds grace{200};  // then for what clients have just sent
  };
  // `make` makes a connection of a socket that was accepted; the pool is its owner.
  using Make = std::function<std::unique_ptr<PooledConnection>(int socket)>;
  ConnectionPool(const Options& options, Make make);
  ~ConnectionPool();
  ConnectionPool(const ConnectionPool&) = delete;
  ConnectionPool& operator=(const ConnectionPool&) = delete;

  // Serves the connections of a listener, which it closes, until it was stopped and the requests
  // that had come are answered. May be called once. Throws std::system_error when there cannot be
  // a single thread.
  void Run(int listener);
  // From any thread, at any time. The second time, there is no more draining.
  void Stop();
  bool stopping() const { return stops_.load() > 0; }
  // Whether a connection with a request waits, and all threads have one.
  bool others_wait() const { return requests_waiting_.load() > idle_.load(); }

 private:
  using Clock = PooledConnection::Clock;
  struct Waiting {
    std::unique_ptr<PooledConnection> connection;
    Clock::time_point since;
  };

  void StartThreads();
  void Work();
  // Takes from `ready_`; null: it has ended.
  std::unique_ptr<PooledConnection> Take();
  void Put(std::unique_ptr<PooledConnection> connection, PooledConnection::Next next);
  void Poll();
  void Accept(int most);
  void Listen(bool on);
  void MakeReady(int socket);
  void EndLate();
  // False: none waits without a request.
  bool EndOldest();
  size_t WithoutThread();
  bool Idle();
  std::unique_ptr<PooledConnection> Remove(std::map<int, Waiting>::iterator at);

  const Options options_;
  const Make make_;
  const int epoll_, wake_;
  int listener_ = -1;
  bool listening_ = false;  // `listener_` is in the epoll set
  Clock::time_point next_look_ = Clock::time_point::min();
  std::atomic<int> stops_{0};
  std::atomic<int> requests_waiting_{0};  // of `ready_`
  std::atomic<int> idle_{0};              // threads
  std::mutex mutex_;                      // of what follows
  std::condition_variable some_;
  std::deque<std::unique_ptr<PooledConnection>> ready_;
  std::map<int, Waiting> waiting_;  // by socket; in the epoll set
  int busy_ = 0;                    // threads
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace coxswain::serve
