#include "tests/bench/step/report.h"

#include <cmath>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "runtime/base/version.h"

namespace coxswain {
namespace {

using Json = nlohmann::ordered_json;

double Round(double value, int digits) {
  const double scale = std::pow(10.0, digits);
  return std::round(value * scale) / scale;
}

Json ToJsonObject(const Figures& f) {
  Json cpu = Json::object();
  for (const auto& [task, ms] : f.cpu_ms) cpu[task] = Round(ms, 4);
  return {{"system", std::string("coxswain ") + kVersion},
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
          {"worker_waiting_share", Round(f.waiting, 4)}};
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

std::string ToJson(const std::vector<Figures>& all) {
  Json list = Json::array();
  for (const Figures& f : all) list.push_back(ToJsonObject(f));
  return list.dump(2) + "\n";
}

}  // namespace coxswain
