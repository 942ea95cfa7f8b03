// A PS daemon in this process, whose pool runs when the test says so and whose disk fails when the
// test wants it, and peers that talk to it message by message.
#pragma once

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "protos/control.pb.h"
#include "ps_server/ps_service.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/cluster/control.h"
#include "runtime/env/strand.h"
#include "runtime/graph/serialize.h"
#include "tests/testing/forwarding.h"
#include "tests/testing/registry.h"

namespace coxswain::testing {

// Keeps its tasks until the test runs them, in the test's thread.
class StepPool final : public env::ComputePool {
 public:
  void Schedule(absl::AnyInvocable<void()> task) override {
    absl::MutexLock lock(&mu_);
    tasks_.push_back(std::move(task));
  }
  void ParallelFor(int64_t n, int64_t, absl::FunctionRef<void(int64_t, int64_t)> body) override {
    if (n > 0) body(0, n);
  }
  int threads() const override { return 1; }
  double busy_seconds() const override { return 0; }

  // Runs the oldest task. False when there is none.
  bool RunOne() {
    absl::AnyInvocable<void()> task;
    {
      absl::MutexLock lock(&mu_);
      if (tasks_.empty()) return false;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
    return true;
  }
  int RunAll() {
    int count = 0;
    while (RunOne()) ++count;
    return count;
  }
  // Destroys the tasks without running them.
  int DropAll() {
    std::deque<absl::AnyInvocable<void()>> dropped;
    absl::MutexLock lock(&mu_);
    dropped.swap(tasks_);
    return static_cast<int>(dropped.size());
  }

 private:
  absl::Mutex mu_;
  std::deque<absl::AnyInvocable<void()>> tasks_ ABSL_GUARDED_BY(mu_);
};

// The real disk, until it is full.
class SmallDisk final : public ForwardingFileSystem {
 public:
  // How many bytes still fit.
  std::atomic<int64_t> room{int64_t{1} << 60};
  // Whether files can have second names.
  std::atomic<bool> links{true};

  absl::Status Link(const std::string& from, const std::string& to) override {
    if (links) return ForwardingFileSystem::Link(from, to);
    return absl::PermissionDeniedError(absl::StrCat("cannot link ", from));
  }
  absl::StatusOr<std::unique_ptr<env::WritableFile>> Create(const std::string& path) override {
    ASSIGN_OR_RETURN(auto file, ForwardingFileSystem::Create(path));
    return std::make_unique<File>(this, path, std::move(file));
  }

 private:
  class File final : public env::WritableFile {
   public:
    File(SmallDisk* disk, std::string path, std::unique_ptr<env::WritableFile> real)
        : disk_(disk), path_(std::move(path)), real_(std::move(real)) {}
    absl::Status Append(const void* data, size_t bytes) override {
      if ((disk_->room -= static_cast<int64_t>(bytes)) < 0) {
        return absl::ResourceExhaustedError(absl::StrCat("cannot write ", path_, ": disk is full"));
      }
      return real_->Append(data, bytes);
    }
    absl::Status Sync() override { return real_->Sync(); }
    absl::Status Close() override { return real_->Close(); }

   private:
    SmallDisk* disk_;
    std::string path_;
    std::unique_ptr<env::WritableFile> real_;
  };
};

// A loop that takes every task for a short one.
class ShortTasksLoop final : public env::EventLoop {
 public:
  explicit ShortTasksLoop(std::unique_ptr<env::EventLoop> loop) : loop_(std::move(loop)) {}
  void Post(Task task) override { loop_->Post(std::move(task)); }
  TimerId PostAfter(absl::Duration delay, Task task) override {
    return loop_->PostAfter(delay, std::move(task));
  }
  void Cancel(TimerId timer) override { loop_->Cancel(timer); }
  bool OnLoop() const override { return loop_->OnLoop(); }

 private:
  const std::unique_ptr<env::EventLoop> loop_;
};

class PsEnv final : public ForwardingEnv {
 public:
  std::unique_ptr<env::EventLoop> NewLoop() override { return env::NewStrand(loops_); }
  std::unique_ptr<env::EventLoop> NewComputeLoop() override {
    auto loop = env::NewStrand(loops_);
    if (threads_for_lanes) return loop;
    return std::make_unique<ShortTasksLoop>(std::move(loop));
  }
  env::ComputePool* pool() override { return &step_pool; }
  env::FileSystem* files() override { return &disk; }
  void FaultPoint(const char* name) override {
    {
      absl::MutexLock lock(&mu_);
      fault_points.emplace_back(name);
    }
    if (at_fault_point) at_fault_point(name);
  }

  StepPool step_pool;
  SmallDisk disk;
  // Whether lanes hand long tasks to other threads. If not, what a test sends has been worked on
  // when Send returns.
  bool threads_for_lanes = false;
  std::vector<std::string> fault_points;  // passed so far; read it when nothing runs
  // Set before anything runs; called on whatever thread passes one.
  std::function<void(const std::string& name)> at_fault_point;

 private:
  // Turns without a bound: on a busy machine, too, who posts runs all that follows.
  std::shared_ptr<env::LoopThreads> loops_ =
      env::NewLoopThreads(4, env::NewTimerThread(), {1'000'000, absl::InfiniteDuration()});
  absl::Mutex mu_;
};

// One connection to a daemon.
class PsPeer {
 public:
  PsPeer(net::Transport* transport, const std::string& address)
      : inbox_(std::make_shared<Inbox>()) {
    connection_ = transport->Connect(address, absl::Seconds(10), inbox_);
  }

  // Errors: those of the reply.
  absl::Status Hello(const proto::HelloRequest& hello) {
    connection_->Send(cluster::EncodeControl(net::MessageType::kHello, hello));
    const auto reply = cluster::DecodeControl<proto::HelloReply>(Receive());
    REQUIRE(reply.ok());
    return cluster::FromProto(reply->status());
  }
  void Send(net::Message message) { connection_->Send(std::move(message)); }
  // Sends a request; its reply is the next message.
  void Send(proto::ControlRequest request, SessionId session, const Tensor* tensor = nullptr) {
    request.set_request(++requests_);
    request.set_session(session);
    net::Message message = cluster::EncodeControl(net::MessageType::kControl, request);
    if (tensor != nullptr) message.payload = {tensor->buffer().Slice(0, tensor->bytes())};
    Send(std::move(message));
  }
  // The next message; the test ends here when none comes.
  net::Message Receive() {
    std::optional<net::Message> message = inbox_->Next();
    REQUIRE(message.has_value());
    return *std::move(message);
  }
  // The same on a thread that is not the test's: without assertions.
  std::optional<net::Message> TryReceive() { return inbox_->Next(); }
  proto::ControlReply ReceiveReply() {
    auto reply = cluster::DecodeControl<proto::ControlReply>(Receive());
    REQUIRE(reply.ok());
    return *std::move(reply);
  }
  absl::Status ReceiveStatus() { return cluster::FromProto(ReceiveReply().status()); }
  bool HasMessage() { return inbox_->HasMessage(); }
  // False when none has come after so long.
  bool AwaitMessage(absl::Duration timeout) { return inbox_->AwaitMessage(timeout); }
  // Why the connection was closed, as soon as it is.
  absl::Status WaitClosed() { return inbox_->WaitClosed(); }

 private:
  class Inbox final : public net::ConnectionHandler {
   public:
    void OnMessage(net::Message message) override {
      absl::MutexLock lock(&mu_);
      messages_.push_back(std::move(message));
    }
    void OnClosed(absl::Status status) override {
      absl::MutexLock lock(&mu_);
      closed_ = std::move(status);
    }
    std::optional<net::Message> Next() {
      absl::MutexLock lock(&mu_);
      const auto there = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !messages_.empty(); };
      if (!mu_.AwaitWithTimeout(absl::Condition(&there), absl::Seconds(20))) return std::nullopt;
      net::Message message = std::move(messages_.front());
      messages_.pop_front();
      return message;
    }
    bool HasMessage() {
      absl::MutexLock lock(&mu_);
      return !messages_.empty();
    }
    bool AwaitMessage(absl::Duration timeout) {
      absl::MutexLock lock(&mu_);
      const auto there = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !messages_.empty(); };
      return mu_.AwaitWithTimeout(absl::Condition(&there), timeout);
    }
    absl::Status WaitClosed() {
      absl::MutexLock lock(&mu_);
      const auto there = [this]()
                             ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return closed_.has_value(); };
      mu_.AwaitWithTimeout(absl::Condition(&there), absl::Seconds(20));
      return closed_.value_or(absl::DeadlineExceededError("the connection is still open"));
    }

   private:
    absl::Mutex mu_;
    std::deque<net::Message> messages_ ABSL_GUARDED_BY(mu_);
    std::optional<absl::Status> closed_ ABSL_GUARDED_BY(mu_);
  };

  std::shared_ptr<Inbox> inbox_;
  std::shared_ptr<net::Connection> connection_;
  uint64_t requests_ = 0;
};

// A PS with a coordinator of epoch 1 that holds it. Requests that work on the pool are answered
// when the pool's tasks were run: Call runs them all.
class PsDaemon {
 public:
  struct Options {
    int task = 0;
    int lanes = 1;
    bool threads_for_lanes = false;  // see PsEnv
    std::unique_ptr<net::Transport> transport = net::NewInProcessTransport();
    std::string address = "ps";
    // See cluster::DaemonOptions.
    std::function<absl::StatusOr<std::shared_ptr<const device::DeviceSet>>()> open_devices = {};
  };

  explicit PsDaemon(int task = 0, int lanes = 1) : PsDaemon(MakeOptions(task, lanes)) {}
  explicit PsDaemon(Options options) : transport_(std::move(options.transport)) {
    env.threads_for_lanes = options.threads_for_lanes;
    service_ = std::make_unique<ps::PsService>(&env, transport_.get(), &ClusterOps(),
                                               DaemonOptionsOf(options), options.lanes);
    REQUIRE(service_->Start().ok());
    coordinator = Connect();
    StartSession(1);
  }
  ~PsDaemon() { env.step_pool.RunAll(); }

  std::unique_ptr<PsPeer> Connect() {
    return std::make_unique<PsPeer>(transport_.get(), service_->address());
  }
  // As the coordinator, after the one before said goodbye.
  void StartSession(Epoch new_epoch, absl::Duration lease = absl::Seconds(600)) {
    proto::HelloRequest hello;
    hello.set_expected_epoch(epoch);
    epoch = new_epoch;
    hello.set_role(proto::COORDINATOR);
    hello.set_name("test");
    hello.set_epoch(epoch);
    hello.set_lease_seconds(absl::ToDoubleSeconds(lease));
    const absl::Status status = coordinator->Hello(hello);
    INFO(status.ToString());
    REQUIRE(status.ok());
  }
  SessionId session() const { return Session{epoch, 0}.id(); }
  void EndSession() {
    proto::ControlRequest request;
    request.mutable_end_session();
    REQUIRE(Call(request).ok());
  }
  // A worker that was set up for `generation`.
  std::unique_ptr<PsPeer> ConnectWorker(Generation generation, int task = 0) {
    auto worker = Connect();
    proto::HelloRequest hello;
    hello.set_role(proto::WORKER);
    hello.set_task(task);
    hello.set_session(session());
    hello.set_expected_incarnation(service_->incarnation());
    hello.set_generation(generation);
    REQUIRE(worker->Hello(hello).ok());
    return worker;
  }

  void Send(const proto::ControlRequest& request) { coordinator->Send(request, session()); }
  absl::StatusOr<proto::ControlReply> Call(const proto::ControlRequest& request) {
    Send(request);
    // The daemon's loop may be on a thread of its own just then, where a timer began: what it
    // brings to the pool comes later.
    for (int tries = 0; tries < 2000 && !coordinator->HasMessage(); ++tries) {
      env.step_pool.RunAll();
      if (coordinator->AwaitMessage(absl::Milliseconds(10))) break;
    }
    proto::ControlReply reply = coordinator->ReceiveReply();
    RETURN_IF_ERROR(cluster::FromProto(reply.status()));
    return reply;
  }

  absl::Status Create(const std::vector<proto::ShardSpec>& specs) {
    proto::ControlRequest request;
    for (const auto& spec : specs) *request.mutable_create_shards()->add_shards() = spec;
    return Call(request).status();
  }
  absl::Status Setup(Generation generation, const std::vector<ShardId>& keep) {
    proto::ControlRequest request;
    request.mutable_setup_ps()->set_generation(generation);
    for (ShardId id : keep) request.mutable_setup_ps()->add_keep(id);
    return Call(request).status();
  }
  static proto::ControlRequest SaveRequest(const std::string& directory,
                                           const std::vector<ShardId>& shards) {
    proto::ControlRequest request;
    request.mutable_save_shards()->set_directory(directory);
    for (ShardId id : shards) request.mutable_save_shards()->add_shards(id);
    return request;
  }
  absl::StatusOr<proto::ShardsSaved> Save(const std::string& directory,
                                          const std::vector<ShardId>& shards) {
    ASSIGN_OR_RETURN(auto reply, Call(SaveRequest(directory, shards)));
    return reply.shards_saved();
  }
  static proto::ControlRequest RestoreRequest(const std::string& directory,
                                              const proto::ShardsSaved& saved) {
    proto::ControlRequest request;
    *request.mutable_restore_shards()->mutable_shards() = saved.shards();
    for (auto& shard : *request.mutable_restore_shards()->mutable_shards()) {
      shard = checkpoint::WithPaths(shard, directory);
    }
    return request;
  }
  absl::Status Restore(const std::string& directory, const proto::ShardsSaved& saved) {
    return Call(RestoreRequest(directory, saved)).status();
  }
  // All rows of one part, as bytes.
  absl::StatusOr<std::string> Rows(const proto::ShardSpec& spec, int part = 0) {
    proto::ControlRequest request;
    request.mutable_read_rows()->set_shard(spec.id());
    request.mutable_read_rows()->set_count(spec.rows());
    request.mutable_read_rows()->set_slot(part);
    Send(request);
    const net::Message message = coordinator->Receive();
    const auto reply = cluster::DecodeControl<proto::ControlReply>(message);
    REQUIRE(reply.ok());
    RETURN_IF_ERROR(cluster::FromProto(reply->status()));
    REQUIRE(message.payload.size() == 1);
    return std::string(static_cast<const char*>(message.payload[0].data()),
                       message.payload[0].size());
  }
  proto::TaskStatus Status() {
    proto::ControlRequest request;
    request.mutable_status();
    auto reply = Call(request);
    REQUIRE(reply.ok());
    return reply->task_status();
  }
  // Registers the only PS's segments of a function.
  absl::Status Register(PlanId plan, const graph::Function& function) {
    ASSIGN_OR_RETURN(const function::Partition partition,
                     function::PartitionFunction(function, 1, [](ShardId) { return 0; }));
    proto::ControlRequest request;
    request.mutable_register_plan()->set_plan(plan);
    for (const graph::Function& segment : partition.segments[0]) {
      *request.mutable_register_plan()->add_segments() = graph::ToProto(segment);
    }
    return Call(request).status();
  }
  net::Message Frame(PlanId plan, ClosureId closure, std::vector<Tensor> tensors,
                     uint32_t segment = 0) const {
    function::SegmentRequest request;
    request.session = session();
    request.call = closure;
    request.closure = closure;
    request.plan = plan;
    request.segment = segment;
    request.tensors = std::move(tensors);
    return function::Encode(std::move(request));
  }
  // Sends a frame and takes its reply.
  static absl::Status Push(PsPeer* worker, net::Message frame) {
    worker->Send(std::move(frame));
    auto reply = function::DecodeSegmentReply(worker->Receive());
    REQUIRE(reply.ok());
    return reply->status;
  }

  std::string address() const { return service_->address(); }
  Incarnation incarnation() const { return service_->incarnation(); }
  ps::PsService* service() { return service_.get(); }
  net::Transport* transport() { return transport_.get(); }

  // Ends the daemon; what is on its pool must have been run.
  void Stop() { service_.reset(); }

  // Waits until the daemon has asked whether memory is wanted, from now on, so often.
  void AwaitMemoryQuestions(int times) {
    absl::MutexLock lock(&memory_mu_);
    const int wanted = memory_questions_ + times;
    const auto asked = [this, wanted]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(memory_mu_) {
      return memory_questions_ >= wanted;
    };
    REQUIRE(memory_mu_.AwaitWithTimeout(absl::Condition(&asked), absl::Seconds(60)));
  }

  PsEnv env;
  std::unique_ptr<PsPeer> coordinator;
  Epoch epoch = 0;
  std::atomic<bool> memory_wanted{false};

 private:
  static Options MakeOptions(int task, int lanes) {
    Options options;
    options.task = task;
    options.lanes = lanes;
    return options;
  }

  cluster::DaemonOptions DaemonOptionsOf(const Options& given) {
    cluster::DaemonOptions options;
    options.job = "ps";
    options.task = given.task;
    options.address = given.address;
    options.open_devices = given.open_devices;
    options.memory_wanted = [this] {
      absl::MutexLock lock(&memory_mu_);
      ++memory_questions_;
      return memory_wanted.load();
    };
    return options;
  }

  absl::Mutex memory_mu_;
  int memory_questions_ ABSL_GUARDED_BY(memory_mu_) = 0;
  std::unique_ptr<net::Transport> transport_;
  std::unique_ptr<ps::PsService> service_;
};

}  // namespace coxswain::testing
