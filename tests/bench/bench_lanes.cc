// Rows per second that a PS gathers and updates for one worker and for several at once, with one
// lane and with several: frames and all, but no network. A thread for each worker brings its
// frames, as a transport's does, and goes on while up to kInFlight are not answered.
//
//   bench_lanes [most lanes and workers = 2] [seconds per figure = 2] [rows of a frame = 6656]
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "ps_server/ps_service.h"
#include "runtime/base/status.h"
#include "runtime/cluster/control.h"
#include "runtime/env/this_process.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/serialize.h"
#include "tests/testing/registry.h"

namespace coxswain {
namespace {

constexpr int kTables = 8;
constexpr int64_t kRows = 200'000;  // of a table
constexpr Session kSession{1, 1};
constexpr PlanId kPlan = 1;
constexpr size_t kBatches = 64;
constexpr int kInFlight = 8;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "bench_lanes: %s\n", status.ToString().c_str());
  std::exit(1);
}

class Client {
 public:
  Client(net::Transport* transport, const std::string& address)
      : inbox_(std::make_shared<Inbox>()) {
    connection_ = transport->Connect(address, absl::Seconds(10), inbox_);
  }
  void Send(net::Message message) {
    {
      absl::MutexLock lock(&inbox_->mu);
      inbox_->mu.Await(absl::Condition(inbox_.get(), &Inbox::HasRoom));
      ++inbox_->in_flight;
    }
    connection_->Send(std::move(message));
  }
  // Waits for the answers of all that was sent: the last one.
  net::Message Join() {
    absl::MutexLock lock(&inbox_->mu);
    inbox_->mu.Await(absl::Condition(inbox_.get(), &Inbox::Idle));
    return std::move(inbox_->last);
  }
  net::Message Call(net::Message message) {
    Send(std::move(message));
    return Join();
  }
  void Hello(proto::HelloRequest hello) {
    hello.set_epoch(kSession.epoch);
    hello.set_nonce(kSession.nonce);
    hello.set_session(kSession.id());
    const auto reply = cluster::DecodeControl<proto::HelloReply>(
        Call(cluster::EncodeControl(net::MessageType::kHello, hello)));
    Check(reply.status());
    Check(cluster::FromProto(reply->status()));
  }
  void Control(proto::ControlRequest request) {
    request.set_session(kSession.id());
    const auto reply = cluster::DecodeControl<proto::ControlReply>(
        Call(cluster::EncodeControl(net::MessageType::kControl, request)));
    Check(reply.status());
    Check(cluster::FromProto(reply->status()));
  }

 private:
  struct Inbox final : net::ConnectionHandler {
    void OnMessage(net::Message message) override {
      if (message.type == static_cast<uint16_t>(net::MessageType::kFrameReply)) {
        const auto reply = function::DecodeSegmentReply(std::move(message));
        Check(reply.status());
        Check(reply->status);
      }
      absl::MutexLock lock(&mu);
      last = std::move(message);
      --in_flight;
    }
    void OnClosed(absl::Status) override {}
    bool HasRoom() const { return in_flight < kInFlight; }
    bool Idle() const { return in_flight == 0; }
    absl::Mutex mu;
    int in_flight = 0;
    net::Message last;
  };
  std::shared_ptr<Inbox> inbox_;
  std::shared_ptr<net::Connection> connection_;
};

proto::ShardSpec Table(int id, int64_t dim) {
  proto::ShardSpec spec;
  spec.set_id(static_cast<uint32_t>(id));
  spec.set_count(1);
  spec.set_strategy("div");
  spec.set_rows(kRows);
  proto::VariableSpec* variable = spec.mutable_variable();
  variable->set_name(absl::StrCat("table", id));
  variable->set_dtype(static_cast<int32_t>(DType::kF32));
  variable->mutable_shape()->add_dims(kRows);
  variable->mutable_shape()->add_dims(dim);
  variable->mutable_initializer()->set_kind("uniform");
  variable->mutable_optimizer()->set_kind("adagrad");
  variable->mutable_optimizer()->set_learning_rate(0.01);
  variable->set_table(true);
  return spec;
}

// Segment 0 gathers from all tables, segment 1 updates them.
proto::RegisterPlan Plan(const graph::OpRegistry* registry, int64_t dim) {
  graph::GraphBuilder pull("pull", registry), push("push", registry);
  for (int64_t t = 1; t <= kTables; ++t) {
    Attrs attrs = {{"shard", t}, {"variable", absl::StrCat("table", t)}};
    const auto ids = [&](graph::GraphBuilder* b) {
      return b->Argument(absl::StrCat("ids", t), DType::kI64, Shape{kUnknownDim});
    };
    push.Target(
        "ApplySparse",
        {ids(&push), push.Argument(absl::StrCat("rows", t), DType::kF32, Shape{kUnknownDim, dim})},
        attrs);
    attrs["dtype"] = DType::kF32;
    attrs["shape"] = Shape{kRows, dim};
    pull.Result(absl::StrCat("rows", t), pull.Op("GatherShard", {ids(&pull)}, attrs));
  }
  proto::RegisterPlan request;
  request.set_plan(kPlan);
  for (graph::GraphBuilder* b : {&pull, &push}) {
    const auto function = b->Finish();
    Check(function.status());
    *request.add_segments() = graph::ToProto(*function);
  }
  return request;
}

// What one worker sends: ids that come once in a frame, and gradients that all frames share.
struct Batches {
  Batches(uint64_t seed, int64_t rows, int64_t dim) {
    std::mt19937_64 random(seed);
    const int64_t each = rows / kTables;
    Tensor gradient(DType::kF32, Shape{each, dim});
    std::fill_n(gradient.mutable_data<float>(), each * dim, 1e-3f);
    for (size_t b = 0; b < kBatches; ++b) {
      std::vector<Tensor>& pull = pulls.emplace_back();
      std::vector<Tensor>& push = pushes.emplace_back();
      for (int t = 0; t < kTables; ++t) {
        std::vector<int64_t> ids(static_cast<size_t>(each));
        const int64_t stride = kRows / each;
        for (int64_t i = 0; i < each; ++i) {
          const auto offset = static_cast<int64_t>(random() % static_cast<uint64_t>(stride));
          ids[static_cast<size_t>(i)] = i * stride + offset;
        }
        std::shuffle(ids.begin(), ids.end(), random);
        pull.push_back(Tensor::FromVector(ids));
        push.push_back(pull.back());
        push.push_back(gradient);
      }
    }
  }
  std::vector<std::vector<Tensor>> pulls, pushes;
};

struct Rate {
  double rows_per_second = 0;
  double rows_per_cpu_second = 0;  // moves little when others use the machine
};

Rate Measure(int lanes, int workers, int64_t dim, int64_t rows, double seconds) {
  const graph::OpRegistry& ops = testing::ClusterOps();
  const auto env = env::NewRealEnv(std::max(lanes, workers));
  const auto transport = net::NewInProcessTransport();
  ps::PsService ps(env.get(), transport.get(), &ops, cluster::DaemonOptions{"ps", 0, "ps"}, lanes);
  Check(ps.Start());
  Client coordinator(transport.get(), ps.address());
  proto::HelloRequest hello;
  hello.set_role(proto::COORDINATOR);
  hello.set_lease_seconds(600);
  coordinator.Hello(hello);
  proto::ControlRequest create, plan;
  for (int t = 1; t <= kTables; ++t) {
    *create.mutable_create_shards()->add_shards() = Table(t, dim);
  }
  coordinator.Control(create);
  *plan.mutable_register_plan() = Plan(&ops, dim);
  coordinator.Control(plan);

  std::atomic<int64_t> steps{0};
  std::atomic<int> warm{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int w = 0; w < workers; ++w) {
    threads.emplace_back([&, w] {
      Client client(transport.get(), ps.address());
      proto::HelloRequest as_worker;
      as_worker.set_role(proto::WORKER);
      as_worker.set_task(w);
      as_worker.set_expected_incarnation(ps.incarnation());
      client.Hello(as_worker);
      const Batches batches(static_cast<uint64_t>(w) + 1, rows, dim);
      const auto send = [&](uint32_t segment, size_t step) {
        function::SegmentRequest request;
        request.session = kSession.id();
        request.closure = step * static_cast<size_t>(workers) + static_cast<size_t>(w) + 1;
        request.plan = kPlan;
        request.segment = segment;
        request.tensors = (segment == 0 ? batches.pulls : batches.pushes)[step % kBatches];
        client.Send(function::Encode(std::move(request)));
      };
      for (size_t step = 0; !stop; ++step) {
        if (step == kBatches) ++warm;  // every page is there
        send(0, step);
        send(1, step);
        ++steps;
      }
      client.Join();
    });
  }
  while (warm < workers) std::this_thread::yield();
  const int64_t before = steps;
  const double begin = Now(), cpu_begin = env::ProcessCpuSeconds();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  const double took = Now() - begin, cpu = env::ProcessCpuSeconds() - cpu_begin;
  const int64_t during = steps - before;
  stop = true;
  for (std::thread& thread : threads) thread.join();
  const auto all = static_cast<double>(during * (rows / kTables) * kTables);
  return {all / took, all / cpu};
}

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) {
  const int most = argc > 1 ? std::atoi(argv[1]) : 2;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 2;
  const int64_t rows = argc > 3 ? std::atoll(argv[3]) : 6656;
  if (most < 1 || !(seconds > 0) || rows < coxswain::kTables ||
      rows > coxswain::kRows * coxswain::kTables) {
    std::fprintf(stderr, "usage: bench_lanes [most lanes and workers] [seconds] [rows]\n");
    return 1;
  }
  std::printf("rows that are gathered and updated, in millions a second\n");
  for (const int64_t dim : {16, 64}) {
    double one = 0;
    for (int workers = 1; workers <= most; workers *= 2) {
      for (int lanes = 1; lanes <= most; lanes *= 2) {
        const coxswain::Rate rate = coxswain::Measure(lanes, workers, dim, rows, seconds);
        if (one == 0) one = rate.rows_per_second;
        absl::PrintF("dim %2d  workers %2d  lanes %2d  %7.2f  ratio %.2f  %7.2f a CPU second\n",
                     dim, workers, lanes, rate.rows_per_second * 1e-6, rate.rows_per_second / one,
                     rate.rows_per_cpu_second * 1e-6);
        std::fflush(stdout);
      }
    }
  }
  return 0;
}
