#include "tests/bench/coordinator/scaling_model.h"

#include <algorithm>
#include <string>
#include <utility>

namespace coxswain {
namespace {

// CPU of a step at each role when there are `ps` PS.
struct Roles {
  Roles(const StepCosts& costs, int ps)
      : worker(costs.worker_ms + ps * costs.worker_per_ps_ms),
        all_ps(costs.ps_ms + ps * costs.ps_per_ps_ms),
        coordinator(costs.coordinator_ms) {}
  double worker, all_ps, coordinator;
};

// What a role pays whatever the number of PS, and for each; at least its frames.
void Split(const Figures& one, const Figures& several, const std::string& role, double least,
           double* fixed_ms, double* per_ps_ms) {
  const double more = several.cpu_ms_of(role) - one.cpu_ms_of(role);
  *per_ps_ms = std::max(least, more / (several.cluster.ps - one.cluster.ps));
  *fixed_ms = std::max(0.0, one.cpu_ms_of(role) - *per_ps_ms);
}

}  // namespace

StepCosts TakeCosts(const Figures& one_ps, const Figures& several_ps, const Floors& floors,
                    double frame_both_ends_ms, double coordinator_ms) {
  StepCosts costs;
  costs.products_ms = floors.products_ms;
  costs.rows_ms = floors.rows_ms();
  costs.frame_ms = frame_both_ends_ms / 2;
  costs.frames = one_ps.frames;
  const double least = costs.frames * costs.frame_ms;
  Split(one_ps, several_ps, "worker", least, &costs.worker_ms, &costs.worker_per_ps_ms);
  Split(one_ps, several_ps, "ps", least, &costs.ps_ms, &costs.ps_per_ps_ms);
  costs.coordinator_ms = coordinator_ms;
  costs.bytes_to_ps = one_ps.bytes_to_ps;
  costs.bytes_from_ps = one_ps.bytes_from_ps;
  return costs;
}

PredictedRate Predict(const StepCosts& costs, int ps, int workers, const Machines& machines) {
  const Roles ms(costs, ps);
  const double bytes_per_second = machines.network_gbps * 1e9 / 8;
  const double bytes = std::max(costs.bytes_to_ps, costs.bytes_from_ps);
  // The coordinator's state machine is one loop, so one core.
  const std::pair<double, const char*> bounds[] = {
      {1e3 * workers * machines.cores / ms.worker, "worker CPU"},
      {1e3 * ps * machines.cores / ms.all_ps, "PS CPU"},
      {1e3 / ms.coordinator, "coordinator"},
      {workers * bytes_per_second / std::max(1.0, bytes), "worker network"},
      {ps * bytes_per_second / std::max(1.0, bytes), "PS network"}};
  const auto least = std::min_element(std::begin(bounds), std::end(bounds));
  PredictedRate p;
  p.ps = ps;
  p.workers = workers;
  p.steps_per_second = least->first;
  p.cpu_ms = ms.worker + ms.all_ps + ms.coordinator;
  p.bound = least->second;
  p.worker_share = least->first / bounds[0].first;
  p.ps_share = least->first / bounds[1].first;
  p.coordinator_share = least->first / bounds[2].first;
  return p;
}

PredictedRate PredictShared(const StepCosts& costs, int ps, int workers, double cores) {
  const Roles ms(costs, ps);
  const double total = ms.worker + ms.all_ps + ms.coordinator;
  PredictedRate p;
  p.ps = ps;
  p.workers = workers;
  p.steps_per_second = 1e3 * cores / total;
  p.cpu_ms = total;
  p.bound = "CPU of all";
  p.worker_share = ms.worker / total;
  p.ps_share = ms.all_ps / total;
  p.coordinator_share = ms.coordinator / total;
  return p;
}

}  // namespace coxswain
