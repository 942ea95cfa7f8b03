#include "tests/bench/floors/pull_push.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "coordinator/api/task_statuses.h"
#include "coordinator/core/controller.h"
#include "coordinator/local/local_tasks.h"
#include "coxswain/cluster.h"
#include "coxswain/strategy.h"
#include "nlohmann/json.hpp"
#include "protos/control.pb.h"
#include "runtime/base/status.h"
#include "runtime/function/partition.h"
#include "tests/bench/step/batches.h"
#include "tests/bench/step/step_function.h"
#include "worker_server/ps_channel.h"

namespace coxswain {
namespace {

constexpr ClosureId kFirstClosure = 1;
constexpr Generation kFirstGeneration = 0;  // of a cluster that nothing happened to

// Rows and nothing else: what is read is squared and summed up.
StepShape OnlyTables(const StepShape& shape) {
  StepShape tables = shape;
  tables.dense_inputs = 0;
  tables.bottom.clear();
  tables.top.clear();
  tables.dot_products = false;
  return tables;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The arguments of a segment, each row of a table with as many ids as `unique` says. Tables of one
// shape have the same arguments, so it does not matter which is which.
class Frames {
 public:
  Frames(const graph::Function& gather, const graph::Function& apply,
         const std::vector<Tensor>& ids) {
    pull.resize(gather.arguments.size());
    push.resize(apply.arguments.size());
    size_t table = 0;
    for (const graph::Node& node : gather.graph.nodes()) {
      if (node.op == "GatherShard") pull[Argument(gather, node.inputs[0])] = ids[table++];
    }
    table = 0;
    for (const graph::Node& node : apply.graph.nodes()) {
      if (node.op != "ApplySparse") continue;
      const size_t rows = Argument(apply, node.inputs[1]);
      const Tensor& of_table = ids[table++];
      push[Argument(apply, node.inputs[0])] = of_table;
      const int64_t dim = apply.arguments[rows].type.shape.dim(1);
      Tensor gradient(DType::kF32, Shape{of_table.dim(0), dim});
      std::fill_n(gradient.mutable_data<float>(), gradient.num_elements(), 1e-3f);
      push[rows] = std::move(gradient);
    }
  }

  std::vector<Tensor> pull, push;

 private:
  static size_t Argument(const graph::Function& f, const Output& input) {
    size_t i = 0;
    while (i < f.arguments.size() && f.arguments[i].node != input.node) ++i;
    return i;
  }
};

class Client {
 public:
  Client(const Cluster& cluster, const RemoteFunction& step, net::Transport* transport,
         const proto::TaskStatus& ps, std::string address)
      : plan_(step.plan()), session_(cluster.controller()->session()) {
    loop_ = cluster.env()->NewLoop();
    worker::PsChannel::Options options;
    options.address = std::move(address);
    options.incarnation = ps.incarnation();
    options.session = session_;
    options.generation = kFirstGeneration;
    options.worker_incarnation = 1;
    channel_ = std::make_shared<worker::PsChannel>(cluster.env(), loop_.get(), transport, options);
  }
  ~Client() { channel_->Close(absl::CancelledError("done")); }

  // Milliseconds until the answer.
  absl::StatusOr<double> Call(uint32_t segment, ClosureId closure, std::vector<Tensor> tensors) {
    function::SegmentRequest request;
    request.session = session_;
    request.closure = closure;
    request.plan = plan_;
    request.segment = segment;
    request.tensors = std::move(tensors);
    absl::Notification done;
    absl::Status status;
    const absl::Time begin = absl::Now();
    channel_->Call(std::move(request), [&](absl::StatusOr<std::vector<Tensor>> reply) {
      status = reply.status();
      done.Notify();
    });
    done.WaitForNotification();
    RETURN_IF_ERROR(status);
    return absl::ToDoubleMilliseconds(absl::Now() - begin);
  }

 private:
  const PlanId plan_;
  const SessionId session_;
  std::unique_ptr<env::EventLoop> loop_;
  std::shared_ptr<worker::PsChannel> channel_;
};

std::vector<Tensor> DistinctIds(const StepShape& shape, int64_t batch, const StepBatches& batches) {
  std::vector<Tensor> all;
  for (size_t t = 0; t < shape.tables.size(); ++t) {
    const int64_t n = batches.ids[t].dim(1);
    const int64_t* begin = batches.ids[t].data<int64_t>() + batch * n;
    std::set<int64_t> seen;
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < n; ++i) {
      if (seen.insert(begin[i]).second) ids.push_back(begin[i]);
    }
    all.push_back(Tensor::FromVector(ids));
  }
  return all;
}

absl::Status MeasureFrames(const StepShape& shape, double seconds, PullPush* result) {
  ASSIGN_OR_RETURN(const std::string directory, local::ProgramDirectory());
  ASSIGN_OR_RETURN(const auto tasks,
                   local::StartChildTasks(1, 1, /*worker_threads=*/1, directory, net::Secret()));
  ClusterOptions cluster_options;
  cluster_options.insecure = true;
  ASSIGN_OR_RETURN(Cluster cluster, Cluster::Connect(tasks->config(), cluster_options));
  ParameterServerStrategy strategy(cluster);
  ASSIGN_OR_RETURN(RemoteFunction step, DefineStep(shape, &strategy));
  const std::vector<graph::Function>& segments = step.partition().segments[0];
  if (segments.size() != 2) {
    return absl::InternalError(
        absl::StrCat("wanted a segment to pull and one to push, found ", segments.size()));
  }
  const StepBatches batches = MakeBatches(shape);
  std::vector<Frames> frames;
  for (int64_t b = 0; b < kBatches; ++b) {
    frames.emplace_back(segments[0], segments[1], DistinctIds(shape, b, batches));
  }
  ASSIGN_OR_RETURN(const auto transport, MakeTransport(result->transport));
  proto::TaskStatus ps;
  for (const proto::TaskStatus& task : TaskStatuses(cluster)) {
    if (task.job() == "ps") ps = task;
  }
  Client client(cluster, step, transport.get(), ps, tasks->config().ps[0]);
  std::vector<double> pulls, pushes;
  ClosureId closure = kFirstClosure;
  const absl::Time begin = absl::Now();
  for (size_t i = 0; absl::Now() - begin < absl::Seconds(seconds) || i < 2 * kBatches; ++i) {
    const Frames& frame = frames[i % kBatches];
    ASSIGN_OR_RETURN(const double pull, client.Call(0, closure, frame.pull));
    ASSIGN_OR_RETURN(const double push, client.Call(1, closure, frame.push));
    ++closure;
    if (i < kBatches) continue;  // every page is there after one round
    pulls.push_back(pull);
    pushes.push_back(push);
  }
  const auto pushed = static_cast<uint64_t>(closure - kFirstClosure);
  for (const proto::TaskStatus& task : TaskStatuses(cluster)) {
    for (const proto::ShardStatus& shard : task.shards()) {
      if (shard.updates_applied() == pushed) continue;
      return absl::DataLossError(absl::StrCat("'", shard.variable(), "': ", shard.updates_applied(),
                                              " updates of ", pushed));
    }
  }
  result->pull_ms = Median(std::move(pulls));
  result->push_ms = Median(std::move(pushes));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<PullPush>> MeasurePullPush(const StepShape& whole, double seconds) {
  const StepShape shape = OnlyTables(whole);
  if (shape.tables.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("'", whole.name, "' has no tables"));
  }
  FloorOptions options;
  options.seconds = seconds / 4;
  ASSIGN_OR_RETURN(const Floors floors, MeasureFloors(shape, options));
  std::vector<PullPush> all;
  for (const char* transport : kTransports) {
    PullPush& result = all.emplace_back();
    result.transport = transport;
    result.rows = floors.unique_rows;
    result.local_ms = floors.rows_ms();
    result.stream = floors.stream.at(transport);
    // The daemons are told what to talk over.
    setenv("COXSWAIN_TRANSPORT", transport, /*overwrite=*/1);
    const absl::Status status = MeasureFrames(shape, seconds, &result);
    unsetenv("COXSWAIN_TRANSPORT");
    RETURN_IF_ERROR(status);
  }
  return all;
}

std::string PullPushTable(const std::string& shape, const std::vector<PullPush>& all) {
  std::string table =
      "                                      ms                      pull + push against\n"
      "shape    transport     rows     pull     push      sum   stream   ratio    local   ratio\n";
  for (const PullPush& p : all) {
    absl::StrAppendFormat(&table, "%-8s %-9s %8.0f %8.3f %8.3f %8.3f %8.3f %7.2f %8.3f %7.2f\n",
                          shape, p.transport, p.rows, p.pull_ms, p.push_ms, p.ms(), p.stream.ms,
                          p.ms() / p.stream.ms, p.local_ms, p.ms() / p.local_ms);
  }
  return table;
}

std::string PullPushJson(const std::string& shape, const std::vector<PullPush>& all) {
  auto list = nlohmann::ordered_json::array();
  for (const PullPush& p : all) {
    list.push_back({{"case", absl::StrCat(shape, " rows")},
                    {"ps", 1},
                    {"workers", 1},
                    {"pack", 1},
                    {"transport", p.transport},
                    {"steps_per_second", 1e3 / p.ms()},
                    {"unique_rows", p.rows},
                    {"pull_ms", p.pull_ms},
                    {"push_ms", p.push_ms},
                    {"floor_stream_ms", p.stream.ms},
                    {"floor_stream_cpu_ms", p.stream.cpu_ms},
                    {"floor_rows_ms", p.local_ms}});
  }
  return list.dump(2) + "\n";
}

}  // namespace coxswain
