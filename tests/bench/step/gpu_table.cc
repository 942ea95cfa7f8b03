// A shard and its lookups; what is measured of the device alone; text and JSON.
#include "tests/bench/step/gpu_table.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "kernels/register.h"
#include "nlohmann/json.hpp"
#include "ps_server/device_rows.h"
#include "ps_server/shard.h"
#include "runtime/base/id_hash.h"
#include "runtime/base/status.h"
#include "runtime/graph/graph.h"
#include "tests/bench/round.h"

namespace coxswain {
namespace {

constexpr int64_t kLookups = 16;   // different ones
constexpr int kUnderWay = 4;       // of a thread
constexpr int64_t kFirst = 65536;  // rows that get their first gradient together

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

const graph::OpRegistry& Ops() {
  static const auto* const registry = [] {
    auto* made = new graph::OpRegistry;
    kernels::RegisterAllOps(made);
    return made;
  }();
  return *registry;
}

proto::ShardSpec SpecOf(int64_t rows, int64_t dim, bool hash) {
  proto::ShardSpec spec;
  spec.set_id(1);
  spec.set_count(1);
  proto::VariableSpec* variable = spec.mutable_variable();
  if (hash) {
    spec.set_strategy("hash");
    variable->mutable_hash()->set_max_rows(rows);
  } else {
    spec.set_rows(rows);
  }
  variable->set_name("bench");
  variable->set_dtype(static_cast<int32_t>(DType::kF32));
  variable->mutable_shape()->add_dims(hash ? -1 : rows);
  variable->mutable_shape()->add_dims(dim);
  variable->mutable_initializer()->set_kind("uniform");
  variable->mutable_optimizer()->set_kind("adagrad");
  variable->mutable_optimizer()->set_learning_rate(0.01);
  variable->set_table(true);
  variable->set_device(ps::kOnGpu);
  return spec;
}

// The number-th row of an order in which neighbours lie far apart: the factor is a prime above all
// numbers of rows, so that rows do not come twice.
int64_t Scattered(int64_t number, int64_t rows) {
  constexpr uint64_t kPrime = 2654435761;
  const uint64_t all = static_cast<uint64_t>(rows);
  return static_cast<int64_t>(static_cast<uint64_t>(number) % all * kPrime % all);
}

// A shard, and lookups in it that are made beforehand.
class Table {
 public:
  static absl::StatusOr<std::unique_ptr<Table>> Make(int64_t rows, const GpuTableBench& bench,
                                                     bool hash, ps::RowDevices* devices) {
    std::unique_ptr<Table> table(new Table);
    ASSIGN_OR_RETURN(table->shard_, ps::Shard::Create(SpecOf(rows, bench.dim, hash),
                                                      ps::Shard::Fill::kInitialize, devices));
    const auto id_of = [&](int64_t row) { return hash ? static_cast<int64_t>(HashId(row)) : row; };
    // Rows of a hash table are made by their first gradient.
    for (int64_t row = 0; hash && row < rows; row += kFirst) {
      std::vector<int64_t> ids;
      for (int64_t r = row; r < std::min(rows, row + kFirst); ++r) ids.push_back(id_of(r));
      RETURN_IF_ERROR(table->Begin(ids, bench.dim));
    }
    const int64_t n = std::min(bench.ids, rows);
    for (int64_t lookup = 0; lookup < kLookups; ++lookup) {
      std::vector<int64_t> ids;
      for (int64_t i = 0; i < n; ++i) ids.push_back(id_of(Scattered(lookup * n + i, rows)));
      table->lookups_.push_back(Tensor::FromVector(ids));
    }
    return table;
  }

  // Rows a second over about `seconds`. By one thread.
  absl::StatusOr<double> LookUp(double seconds, device::DeviceRuntime* device) {
    ASSIGN_OR_RETURN(const std::shared_ptr<device::DeviceStream> stream, device->BorrowStream());
    int64_t rows = 0;
    size_t next = 0;
    const double begin = Now();
    absl::Status status;
    while (status.ok() && Now() - begin < seconds) {
      const Tensor& ids = lookups_[next++ % lookups_.size()];
      status = LookUpOnce(ids, device, stream.get());
      rows += ids.num_elements();
    }
    AwaitUnderWay(0);
    const double taken = Now() - begin;
    device->ReturnStream(stream);
    RETURN_IF_ERROR(status);
    return static_cast<double>(rows) / taken;
  }

 private:
  Table() = default;

  absl::Status Begin(const std::vector<int64_t>& ids, int64_t dim) {
    graph::Update update;
    update.kind = graph::Update::Kind::kSparse;
    update.ids = Tensor::FromVector(ids);
    update.values = Tensor::Zeros(DType::kF32, Shape{update.ids.num_elements(), dim});
    RETURN_IF_ERROR(shard_->Validate(update));
    RETURN_IF_ERROR(shard_->Reserve(update.ids.num_elements()));
    const graph::Update* const one = &update;
    shard_->ApplySegment(absl::MakeConstSpan(&one, 1), {});
    return absl::OkStatus();
  }

  // As a worker's step does it: its own stream waits for the rows.
  absl::Status LookUpOnce(const Tensor& ids, device::DeviceRuntime* device,
                          device::DeviceStream* stream) {
    AwaitUnderWay(kUnderWay - 1);
    RETURN_IF_ERROR(shard_->GatherOnDevice(ids).status());
    for (const auto& rows : device->row_streams()) RETURN_IF_ERROR(stream->WaitFor(rows.get()));
    {
      const absl::MutexLock lock(&mu_);
      ++under_way_;
    }
    const absl::Status asked = stream->Notify([this](const absl::Status& status) {
      const absl::MutexLock lock(&mu_);
      status_.Update(status);
      --under_way_;
    });
    const absl::MutexLock lock(&mu_);
    if (!asked.ok()) --under_way_;
    status_.Update(asked);
    return status_;
  }
  void AwaitUnderWay(int most) {
    const absl::MutexLock lock(&mu_);
    const auto few = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return under_way_ <= most; };
    mu_.Await(absl::Condition(&few));
  }

  std::unique_ptr<ps::Shard> shard_;
  std::vector<Tensor> lookups_;
  absl::Mutex mu_;
  int under_way_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

absl::StatusOr<double> LookUpAll(const GpuTableBench& bench, int shards, bool hash,
                                 const std::shared_ptr<device::DeviceRuntime>& device) {
  using Devices = std::vector<std::shared_ptr<device::DeviceRuntime>>;
  const auto only = std::make_shared<const device::DeviceSet>(Devices{device});
  ps::RowDevices rows([&] { return only; }, 0, &Ops(), [](const absl::Status&) {});
  std::vector<std::unique_ptr<Table>> tables;
  for (int i = 0; i < shards; ++i) {
    ASSIGN_OR_RETURN(std::unique_ptr<Table> table,
                     Table::Make(bench.rows / shards, bench, hash, &rows));
    tables.push_back(std::move(table));
  }
  for (const auto& table : tables) {  // ops and memory are made
    RETURN_IF_ERROR(table->LookUp(bench.seconds / 10, device.get()).status());
  }
  std::vector<absl::StatusOr<double>> rates(tables.size(), 0.0);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < tables.size(); ++i) {
    threads.emplace_back([&, i] { rates[i] = tables[i]->LookUp(bench.seconds, device.get()); });
  }
  for (std::thread& thread : threads) thread.join();
  double sum = 0;
  for (const absl::StatusOr<double>& rate : rates) {
    RETURN_IF_ERROR(rate.status());
    sum += *rate;
  }
  return sum;
}

// How often a second the device does what `enqueue` enqueues.
template <typename Enqueue>
absl::StatusOr<double> RateOf(double seconds, device::DeviceStream* stream,
                              const Enqueue& enqueue) {
  RETURN_IF_ERROR(enqueue());
  RETURN_IF_ERROR(stream->Synchronize());
  constexpr int kTogether = 8;
  int64_t done = 0;
  const double begin = Now();
  double now = begin;
  for (; now - begin < seconds; now = Now()) {
    for (int i = 0; i < kTogether; ++i) RETURN_IF_ERROR(enqueue());
    RETURN_IF_ERROR(stream->Synchronize());
    done += kTogether;
  }
  return static_cast<double>(done) / (now - begin);
}

absl::StatusOr<double> CopyGbps(double seconds, device::DeviceRuntime* device,
                                device::DeviceStream* stream) {
  const size_t bytes =
      static_cast<size_t>(std::min<int64_t>(int64_t{1} << 30, device->memory_bytes() / 64));
  ASSIGN_OR_RETURN(const Buffer from, device->Allocate(bytes));
  ASSIGN_OR_RETURN(const Buffer to, device->Allocate(bytes));
  ASSIGN_OR_RETURN(const double rate,
                   RateOf(seconds, stream, [&] { return stream->CopyOnDevice(to, from); }));
  return 2e-9 * static_cast<double>(bytes) * rate;
}

// The op with which a shard gathers, on a block of rows with a slot as large as they are.
absl::StatusOr<double> GatherRate(const GpuTableBench& bench, device::DeviceRuntime* device,
                                  device::DeviceStream* stream) {
  const int64_t n = std::min(bench.ids, bench.rows), columns = 2 * bench.dim;
  graph::Graph graph(&Ops());
  graph::Node gather;
  gather.op = "BlockGather";
  gather.attrs = {{"offset", int64_t{0}}, {"width", bench.dim}};
  for (const TensorType& type :
       {TensorType{DType::kF32, Shape{bench.rows, columns}}, TensorType{DType::kI64, Shape{n}}}) {
    graph::Node argument;
    argument.op = "Arg";
    argument.attrs = {{"index", graph.size()}, {"dtype", type.dtype}, {"shape", type.shape}};
    ASSIGN_OR_RETURN(const int id, graph.Add(std::move(argument)));
    gather.inputs.push_back({id, 0});
  }
  ASSIGN_OR_RETURN(const int id, graph.Add(std::move(gather)));
  ASSIGN_OR_RETURN(const auto op, device->CreateOp(graph.node(id), graph));

  const size_t row_bytes = static_cast<size_t>(columns) * sizeof(float);
  ASSIGN_OR_RETURN(Buffer block, device->Allocate(static_cast<size_t>(bench.rows) * row_bytes));
  ASSIGN_OR_RETURN(const Buffer fault, device->Allocate(sizeof(CoxFault)));
  std::vector<Tensor> lists;
  for (int64_t lookup = 0; lookup < kLookups; ++lookup) {
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < n; ++i) rows.push_back(Scattered(lookup * n + i, bench.rows));
    const Tensor list = Tensor::FromVector(rows);
    ASSIGN_OR_RETURN(Buffer there, device->Constant(list.buffer().Slice(0, list.bytes())));
    lists.emplace_back(DType::kI64, Shape{n}, std::move(there));
  }
  const Tensor table(DType::kF32, Shape{bench.rows, columns}, std::move(block));
  ASSIGN_OR_RETURN(Buffer made, device->Allocate(static_cast<size_t>(n) * row_bytes / 2));
  const Tensor gathered(DType::kF32, Shape{n, bench.dim}, std::move(made));
  size_t next = 0;
  ASSIGN_OR_RETURN(const double rate, RateOf(bench.seconds, stream, [&] {
                     const Tensor inputs[] = {table, lists[next++ % lists.size()]};
                     return op->Enqueue(stream, {inputs, {&gathered, 1}, fault, id, {}});
                   }));
  return rate * static_cast<double>(n);
}

}  // namespace

double GpuTableFigures::floor_rows_per_second(const GpuTableBench& bench) const {
  return 1e9 * copy_gbps / static_cast<double>(2 * bench.dim * 4 + 8);
}

absl::StatusOr<std::vector<GpuTableFigures>> MeasureGpuTables(
    const std::shared_ptr<device::DeviceRuntime>& device, const GpuTableBench& bench) {
  ASSIGN_OR_RETURN(const std::shared_ptr<device::DeviceStream> stream, device->BorrowStream());
  absl::StatusOr<double> copy = CopyGbps(bench.seconds / 2, device.get(), stream.get());
  absl::StatusOr<double> gather = GatherRate(bench, device.get(), stream.get());
  device->ReturnStream(stream);
  RETURN_IF_ERROR(copy.status());
  RETURN_IF_ERROR(gather.status());
  std::vector<GpuTableFigures> all;
  for (const bool hash : {false, true}) {
    for (const int shards : {1, bench.shards}) {
      GpuTableFigures f{hash, shards, 0, *gather, *copy};
      ASSIGN_OR_RETURN(f.rows_per_second, LookUpAll(bench, shards, hash, device));
      all.push_back(f);
    }
  }
  return all;
}

std::string GpuTableText(const GpuTableBench& bench, const std::vector<GpuTableFigures>& all) {
  std::string text = absl::StrFormat(
      "table of %d x %d in the GPU's memory, %d different ids a lookup, M rows/s:\n", bench.rows,
      bench.dim, bench.ids);
  for (const GpuTableFigures& f : all) {
    absl::StrAppendFormat(&text, "  find and gather, %-13s %d shard%s %9.1f\n",
                          f.hash ? "hash table," : "numbered rows,", f.shards,
                          f.shards == 1 ? " " : "s", f.rows_per_second * 1e-6);
  }
  if (all.empty()) return text;
  absl::StrAppendFormat(&text, "  gather alone, numbers on the GPU %16.1f\n",
                        all[0].gather_rows_per_second * 1e-6);
  absl::StrAppendFormat(&text, "  floor: a row's bytes at %.0f GB/s %15.1f\n", all[0].copy_gbps,
                        all[0].floor_rows_per_second(bench) * 1e-6);
  return text;
}

std::string GpuTableJson(const GpuTableBench& bench, const std::vector<GpuTableFigures>& all) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const GpuTableFigures& f : all) {
    list.push_back({{"case", "table"},
                    {"hash", f.hash},
                    {"shards", f.shards},
                    {"rows", bench.rows},
                    {"dim", bench.dim},
                    {"ids", bench.ids},
                    {"rows_per_second", Round(f.rows_per_second, 0)},
                    {"gather_rows_per_second", Round(f.gather_rows_per_second, 0)},
                    {"floor_rows_per_second", Round(f.floor_rows_per_second(bench), 0)},
                    {"copy_gbps", Round(f.copy_gbps, 1)}});
  }
  return list.dump(2);
}

}  // namespace coxswain
