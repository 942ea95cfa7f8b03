#include "tests/bench/coordinator/scaling_command.h"

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "tests/bench/coordinator/coordinator_command.h"

namespace coxswain {
namespace {

constexpr int kWorkersPerPs = 5;
constexpr int kWorkerCounts[] = {10, 50, 100, 200, 500, 1000};
constexpr int kSeveralPs = 4;
constexpr std::pair<int, int> kChecked[] = {{1, 1}, {1, 2}, {2, 2}};  // PS, workers

struct Checked {
  Figures figures;
  PredictedRate predicted;
};

struct ShapeScaling {
  std::string shape;
  StepCosts costs;
  std::vector<Checked> checked;
  std::vector<PredictedRate> predicted;
};

// CPU of both ends for a frame with next to nothing in it.
absl::StatusOr<double> MeasureFrame(double seconds) {
  ASSIGN_OR_RETURN(const auto stream, StreamBench::Start("grpc"));
  constexpr int kTrips = 50;
  const std::vector<RoundTrip> trips(kTrips, RoundTrip{64, 64});
  ASSIGN_OR_RETURN(const StreamCost cost, stream->Measure(trips, seconds));
  return cost.cpu_ms / kTrips / 2;  // a round trip is two frames
}

absl::StatusOr<ShapeScaling> MeasureShape(const ScalingFlags& flags, const std::string& name,
                                          double frame_ms, double coordinator_ms) {
  ASSIGN_OR_RETURN(const StepShape shape, FindStepShape(name));
  FloorOptions floor_options;
  floor_options.streams = false;
  ASSIGN_OR_RETURN(const Floors floors, MeasureFloors(shape, floor_options));
  ShapeScaling scaling;
  scaling.shape = name;
  const double cores = std::max(1u, std::thread::hardware_concurrency());
  const auto measure = [&](int ps, int workers) {
    MeasureOptions options;
    options.seconds = flags.seconds;
    return MeasureStep(shape, ClusterShape{false, ps, workers}, options);
  };
  ASSIGN_OR_RETURN(const Figures several, measure(kSeveralPs, 1));
  for (const auto& [ps, workers] : kChecked) {
    Checked checked;
    ASSIGN_OR_RETURN(checked.figures, measure(ps, workers));
    if (scaling.checked.empty()) {
      scaling.costs = TakeCosts(checked.figures, several, floors, frame_ms, coordinator_ms);
    }
    checked.predicted = PredictShared(scaling.costs, ps, workers, cores);
    scaling.checked.push_back(std::move(checked));
  }
  for (const int workers : kWorkerCounts) {
    scaling.predicted.push_back(
        Predict(scaling.costs, workers / kWorkersPerPs, workers, flags.machines));
  }
  return scaling;
}

std::string ToMarkdown(const ShapeScaling& s) {
  const StepCosts& c = s.costs;
  std::string text = absl::StrFormat(
      "### %s\n\n"
      "CPU of a step, ms: worker %.2f (of it products %.2f) + %.3f a PS; PS %.2f (of it rows %.2f) "
      "+ %.3f a PS; coordinator %.4f. Frames of a bare stream: %.1f x %.4f at each end. %.0f KB to "
      "the PS, %.0f KB back.\n\n",
      s.shape, c.worker_ms, c.products_ms, c.worker_per_ps_ms, c.ps_ms, c.rows_ms, c.ps_per_ps_ms,
      c.coordinator_ms, c.frames, c.frame_ms, c.bytes_to_ps / 1e3, c.bytes_from_ps / 1e3);
  absl::StrAppend(&text,
                  "| PS x workers, here | CPU ms a step | predicted | steps/s | predicted |\n",
                  "|---|---|---|---|---|\n");
  for (const Checked& k : s.checked) {
    const double cpu = k.figures.total_cpu_ms(), rate = k.figures.steps_per_second;
    absl::StrAppendFormat(&text, "| %dx%d | %.2f | %.2f (x %.2f) | %.0f | %.0f (x %.2f) |\n",
                          k.predicted.ps, k.predicted.workers, cpu, k.predicted.cpu_ms,
                          k.predicted.cpu_ms / cpu, rate, k.predicted.steps_per_second,
                          k.predicted.steps_per_second / rate);
  }
  absl::StrAppendFormat(&text,
                        "\n| workers | PS | steps/s | bound by | busy: worker, PS, coordinator |\n"
                        "|---|---|---|---|---|\n");
  for (const PredictedRate& p : s.predicted) {
    absl::StrAppendFormat(&text, "| %d | %d | %.0f | %s | %.0f%%, %.0f%%, %.0f%% |\n", p.workers,
                          p.ps, p.steps_per_second, p.bound, 100 * p.worker_share, 100 * p.ps_share,
                          100 * p.coordinator_share);
  }
  return text + "\n";
}

std::string ToJson(const std::vector<ShapeScaling>& all, const Machines& machines) {
  auto json = nlohmann::ordered_json::array();
  for (const ShapeScaling& s : all) {
    nlohmann::ordered_json entry = {{"case", s.shape},
                                    {"cores", machines.cores},
                                    {"network_gbps", machines.network_gbps},
                                    {"worker_ms", s.costs.worker_ms},
                                    {"worker_per_ps_ms", s.costs.worker_per_ps_ms},
                                    {"products_ms", s.costs.products_ms},
                                    {"ps_ms", s.costs.ps_ms},
                                    {"ps_per_ps_ms", s.costs.ps_per_ps_ms},
                                    {"rows_ms", s.costs.rows_ms},
                                    {"frame_ms", s.costs.frame_ms},
                                    {"frames_per_ps", s.costs.frames},
                                    {"coordinator_ms", s.costs.coordinator_ms}};
    for (const Checked& k : s.checked) {
      entry["checked"].push_back({{"ps", k.predicted.ps},
                                  {"workers", k.predicted.workers},
                                  {"cpu_ms_per_step_total", k.figures.total_cpu_ms()},
                                  {"predicted_cpu_ms_per_step_total", k.predicted.cpu_ms},
                                  {"steps_per_second", k.figures.steps_per_second},
                                  {"predicted_steps_per_second", k.predicted.steps_per_second}});
    }
    for (const PredictedRate& p : s.predicted) {
      entry["predicted"].push_back({{"ps", p.ps},
                                    {"workers", p.workers},
                                    {"steps_per_second", p.steps_per_second},
                                    {"bound", p.bound}});
    }
    json.push_back(std::move(entry));
  }
  return json.dump(2) + "\n";
}

}  // namespace

ScalingCommand AddScalingCommand(CLI::App* app, ScalingFlags* flags) {
  ScalingCommand s;
  s.command = app->add_subcommand(
      "scaling", "Predicts the rates of large clusters from costs that it measures");
  s.command->add_option("SHAPE", flags->shapes, "of `step`")->capture_default_str();
  s.command->add_option("--seconds", flags->seconds, "of timing, for each cluster")
      ->check(CLI::PositiveNumber);
  s.command->add_option("--cores", flags->machines.cores, "of each task's machine")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  s.command->add_option("--network", flags->machines.network_gbps, "Gbit/s of each, each way")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  s.json =
      s.command
          ->add_option("--json", flags->json, "also as JSON into this file (none or -: stdout)")
          ->expected(0, 1);
  return s;
}

absl::Status RunScaling(const ScalingFlags& flags,
                        absl::Status (*write)(const std::string& file, const std::string& text)) {
  // Between machines it is gRPC.
  setenv("COXSWAIN_TRANSPORT", "grpc", 1);
  FILE* out = flags.want_json && (flags.json.empty() || flags.json == "-") ? stderr : stdout;
  ASSIGN_OR_RETURN(const double frame_ms, MeasureFrame(flags.seconds / 2));
  CoordinatorOptionsOfBench coordinator;
  coordinator.workers = flags.coordinator_workers;
  coordinator.seconds = flags.seconds / 2;
  ASSIGN_OR_RETURN(const CoordinatorFigures closure, MeasureInChild(coordinator));
  std::vector<ShapeScaling> all;
  for (const std::string& shape : flags.shapes) {
    ASSIGN_OR_RETURN(ShapeScaling scaling,
                     MeasureShape(flags, shape, frame_ms, closure.cpu_us_per_closure / 1e3));
    std::fputs(ToMarkdown(scaling).c_str(), out);
    std::fflush(out);
    all.push_back(std::move(scaling));
  }
  return flags.want_json ? write(flags.json, ToJson(all, flags.machines)) : absl::OkStatus();
}

}  // namespace coxswain
