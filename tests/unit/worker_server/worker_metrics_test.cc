// What a worker counts for Prometheus.
#include "worker_server/worker_metrics.h"

#include <catch2/catch.hpp>

#include "runtime/base/status.h"
#include "tests/testing/families.h"

namespace coxswain::worker {
namespace {

using testing::FindFamily;
using testing::ValueOf;

absl::Status Because(ErrorCause cause) {
  return WithDetail(absl::UnavailableError("it"), {cause, false, "", 0});
}

}  // namespace

TEST_CASE("a worker tells how attempts ended, what went to each PS, and which GPUs it has") {
  AttemptsEnded ended;
  ended.Count(absl::OkStatus(), 5);
  ended.Count(absl::OkStatus(), 1);
  ended.Count(absl::InternalError("no cause is said"), 2);
  ended.Count(Because(ErrorCause::kApplication), 0);
  ended.Count(Because(ErrorCause::kCancelled), 0);
  ended.Count(Because(ErrorCause::kTaskLost), 3);
  WorkerReading reading;
  reading.ended = &ended;
  reading.running = 4;
  reading.traffic = {{0, {100, 200}}, {7, {300, 400}}};
  reading.gpus = {{"a GPU", int64_t{1} << 33}};
  const metrics::Families families = WorkerFamilies("coxswain_worker", {}, reading);
  CHECK(ValueOf(families, "coxswain_worker_closures_total", "completed") == 2);
  CHECK(ValueOf(families, "coxswain_worker_closures_total", "failed") == 2);
  CHECK(ValueOf(families, "coxswain_worker_closures_total", "cancelled") == 1);
  CHECK(ValueOf(families, "coxswain_worker_closures_total", "task_lost") == 1);
  CHECK(ValueOf(families, "coxswain_worker_steps_total") == 11);
  CHECK(ValueOf(families, "coxswain_worker_closures_running") == 4);
  CHECK(ValueOf(families, "coxswain_worker_ps_sent_bytes_total", "7") == 300);
  CHECK(ValueOf(families, "coxswain_worker_ps_received_bytes_total", "0") == 200);
  CHECK(ValueOf(families, "coxswain_worker_gpu_memory_bytes", "0") == int64_t{1} << 33);
  CHECK(FindFamily(families, "coxswain_worker_gpu_memory_bytes")->samples[0].labels[1].value ==
        "a GPU");
}

}  // namespace coxswain::worker
