// What `coxswain train` tells Prometheus, of what it has read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "coordinator/core/controller.h"
#include "coordinator/runner/runner.h"
#include "runtime/metrics/family.h"

namespace coxswain::cli {

struct TrainReading {
  std::string job;
  std::optional<runner::Progress> progress;  // the last one
  int64_t epoch = 0, epochs = 0;             // of training; epochs 0: not known
  int64_t total_steps = 0;                   // 0: not known
  // Of the meter; `begun`: when this process began to train.
  std::optional<runner::TrainingMeter::Reading> meter;
  runner::TrainingMeter::Reading begun;
  std::map<std::string, runner::Evaluation> evaluations;  // the last one of each part
  int64_t evaluated = 0;                                  // how often
  int64_t rollbacks = 0;
  // Nullopt: there is no cluster, or it did not answer.
  std::optional<core::Controller::Stats> cluster;
  int parameter_servers = 0;
};

metrics::Families TrainFamilies(const TrainReading& reading);

}  // namespace coxswain::cli
