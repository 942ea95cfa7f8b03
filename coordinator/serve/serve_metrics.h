// What a server counts, as Prometheus reads it.
//
// Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace prometheus {
class Counter;
template <typename T>
class Family;
class Histogram;
class Registry;
}  // namespace prometheus

namespace coxswain::serve {

class ServeMetrics {
 public:
  struct Index {
    std::string table;
    double recall = 0;
  };

  ServeMetrics();
  ~ServeMetrics();

  // A request for a prediction is over; `status`: of HTTP.
  void CountPrediction(int status, int64_t rows, absl::Duration took);

  // Any answer, also those that the service has not been asked for.
  void CountAnswer(int status);
  // A newer model, or a checkpoint, that could not be loaded.
  void CountReloadFailure();

  // The text format. `steps`, `indexes`: of the model that answers.
  std::string Text(int64_t steps, const std::vector<Index>& indexes) const;

 private:
  std::unique_ptr<prometheus::Registry> registry_;
  prometheus::Counter &done_, &wrong_, &refused_, &failed_, &rows_, &reload_failures_;
  prometheus::Family<prometheus::Counter>& answers_;
  // By status; null: none yet. Looking one up in the family takes a lock and some allocations.
  std::array<std::atomic<prometheus::Counter*>, 600> of_status_{};
  prometheus::Histogram& took_;
};

}  // namespace coxswain::serve
