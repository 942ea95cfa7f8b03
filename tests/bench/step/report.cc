#include "tests/bench/step/report.h"

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "runtime/base/version.h"
#include "tests/bench/round.h"

namespace coxswain {
namespace {

const char* NameOf(ComputeType compute) {
  return compute == ComputeType::kBf16 ? "bf16" : compute == ComputeType::kTf32 ? "tf32" : "f32";
}

using Json = nlohmann::ordered_json;

void AddFloors(const Figures& f, Json* object) {
  if (!f.floors) return;
  const Floors& floors = *f.floors;
  Json& o = *object;
  o["floor_steps_per_second"] = Round(f.floor_steps_per_second(), 2);
  o["reached_of_floor"] = Round(f.floor_ratio(), 4);
  o["floor_share_of_cpu"] = Round(f.floor_share_of_cpu(), 4);
  o["floor_cpu_ms"] = Round(floors.cpu_ms(f.cluster.transport()), 4);
  o["floor_gather_ms"] = Round(floors.gather_ms, 4);
  o["floor_update_ms"] = Round(floors.update_ms, 4);
  o["floor_rows_ms"] = Round(floors.rows_ms(), 4);
  o["floor_products_ms"] = Round(floors.products_ms, 4);
  o["floor_memory_ms"] = Round(floors.memory_ms, 4);
  for (const auto& [transport, cost] : floors.stream) {
    o["floor_stream_" + transport + "_ms"] = Round(cost.ms, 4);
    o["floor_stream_" + transport + "_cpu_ms"] = Round(cost.cpu_ms, 4);
  }
  o["unique_rows"] = Round(floors.unique_rows, 1);
  o["row_bytes"] = Round(floors.row_bytes, 0);
  o["dense_bytes"] = Round(floors.dense_bytes, 0);
  o["flops"] = floors.flops;
  o["onednn_gflops"] = Round(floors.gflops, 1);
  o["copy_gbps"] = Round(floors.memory_gbps, 2);
}

Json ToJsonObject(const Figures& f) {
  Json cpu = Json::object();
  for (const auto& [task, ms] : f.cpu_ms) cpu[task] = Round(ms, 4);
  Json object = {{"system", std::string("coxswain ") + kVersion},
                 {"case", f.shape.name},
                 {"ps", f.cluster.ps},
                 {"workers", f.cluster.workers},
                 {"pack", f.options.pack},
                 {"threads", f.options.threads},
                 {"steps_per_second", Round(f.steps_per_second, 2)},
                 {"best_steps_per_second", Round(f.best_steps_per_second, 2)},
                 {"examples_per_step", f.shape.batch},
                 {"cpu_ms_per_step", std::move(cpu)},
                 {"steps", f.steps},
                 {"seconds", Round(f.seconds, 2)},
                 {"closure_latency_ms_median", Round(f.latency_ms, 4)},
                 {"closure_latency_ms_p99", Round(f.latency_p99_ms, 4)},
                 {"in_process", f.cluster.in_process},
                 {"in_flight", f.options.in_flight},
                 {"compute_threads", f.threads},
                 {"cpu_ms_per_step_total", Round(f.total_cpu_ms(), 4)},
                 {"frames_per_ps_per_step", Round(f.frames, 3)},
                 {"bytes_to_ps_per_step", Round(f.bytes_to_ps, 0)},
                 {"bytes_from_ps_per_step", Round(f.bytes_from_ps, 0)},
                 {"worker_compute_share", Round(f.compute, 4)},
                 {"worker_transport_share", Round(f.transport, 4)},
                 {"worker_waiting_share", Round(f.waiting, 4)},
                 {"compute", NameOf(f.options.compute)},
                 {"tables", f.options.tables_on_gpu ? "gpu" : "cpu"},
                 {"hash_tables", !f.shape.tables.empty() && f.shape.tables[0].hash},
                 {"wire", f.options.wire_bf16 ? "bf16" : "f32"},
                 {"transport", f.cluster.transport()}};
  if (f.cluster.in_process) {
    object["heap_allocations_per_step"] = Round(f.heap_allocations, 1);
    object["heap_bytes_per_step"] = Round(f.heap_bytes, 0);
  }
  AddFloors(f, &object);
  return object;
}

}  // namespace

std::string TableHead() {
  return "                              steps   1 closure  frames     KB a step            CPU ms "
         "a step"
         "           workers' time %\n"
         "shape    cluster        pack  a second      ms   /PS     to PS from PS     all   coord   "
         "   PS"
         "  worker   comp trans  wait\n";
}

std::string TableRow(const Figures& f) {
  std::string roles = absl::StrFormat("%8s%8s%8s", "", "", "");
  if (!f.cluster.in_process) {
    roles = absl::StrFormat("%8.3f%8.3f%8.3f", f.cpu_ms_of("coordinator"), f.cpu_ms_of("ps:"),
                            f.cpu_ms_of("worker:"));
  }
  return absl::StrFormat(
      "%-8s %-14s %4d %9.*f %7.3f %6.2f %8.1f %7.1f %7.3f%s   %4.0f %5.0f %5.0f\n", f.shape.name,
      f.cluster.name(), f.options.pack, f.steps_per_second < 1000 ? 1 : 0, f.steps_per_second,
      f.latency_ms, f.frames, f.bytes_to_ps / 1024, f.bytes_from_ps / 1024, f.total_cpu_ms(), roles,
      100 * f.compute, 100 * f.transport, 100 * f.waiting);
}

std::string FloorTable(const std::vector<Figures>& all) {
  std::string table;
  for (const Figures& f : all) {
    if (!f.floors) continue;
    const Floors& floors = *f.floors;
    const auto stream = [&](const char* transport) {
      const auto it = floors.stream.find(transport);
      return it == floors.stream.end() ? 0.0 : it->second.ms;
    };
    table +=
        absl::StrFormat("%-8s %-14s %8.0f", f.shape.name, f.cluster.name(), f.steps_per_second);
    table += f.floor_steps_per_second() > 0
                 ? absl::StrFormat("%9.0f %5.2f %8.3f %5.2f", f.floor_steps_per_second(),
                                   f.floor_ratio(), f.total_cpu_ms(), f.floor_share_of_cpu())
                 : absl::StrFormat("%9s %5s %8.3f %5s", "-", "-", f.total_cpu_ms(), "-");
    table += absl::StrFormat("  %8.3f %6.0f %7.3f %7.3f %7.3f %7.3f %7.3f\n", floors.products_ms,
                             floors.unique_rows, floors.gather_ms, floors.update_ms,
                             floors.memory_ms, stream("grpc"), stream("host"));
  }
  if (table.empty()) return table;
  // clang-format off
  constexpr char kHead[] =
      "\n"
      "                           steps a second     CPU ms a step   "
      "floors, ms of one thread\n"
      "shape    cluster         reached    floor ratio  reached ratio  "
      "products   rows  gather  update  memory  stream:\n"
      "                                                                "
      "                                         grpc    host\n";
  constexpr char kFoot[] =
      "floor: where products, gather, update and (between processes) a bare stream's CPU time take "
      "all cores;\n"
      "ratios: reached of the floor's rate, and the floors' CPU time of what was spent\n";
  // clang-format on
  return kHead + table + kFoot;
}

std::string ToJson(const std::vector<Figures>& all) {
  Json list = Json::array();
  for (const Figures& f : all) list.push_back(ToJsonObject(f));
  return list.dump(2) + "\n";
}

}  // namespace coxswain
