// Answers requests for a model, independent of the transport: TensorFlow Serving's REST paths, and
// those for supervisors and Prometheus.
//
//   GET  /v1/models                        the name
//   GET  /v1/models/NAME                   status
//   GET  /v1/models/NAME/metadata          columns and results
//   POST /v1/models/NAME:predict           predictions, see json_rows.h
//   POST /v1/models/NAME:recommend         items for users, see json_questions.h
//   POST /v1/models/NAME:nearest           words or items that are near to others
//        /v1/models/NAME/versions/STEPS... the same, of this version only
//   POST /v1/models/NAME:use               another version answers; from this machine only
//   GET  /healthz, /readyz, /metrics
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/serve/admission.h"
#include "coordinator/serve/checkpoint_follower.h"
#include "coordinator/serve/serve_metrics.h"
#include "coordinator/serve/served_model.h"
#include "coxswain/saved_model.h"

namespace coxswain::serve {

struct ServiceOptions {
  std::string name = "model";
  int64_t max_rows = 10'000;  // in a request
  AdmissionOptions admission;
  // If checkpoints are followed: chooses the one that answers (CheckpointFollower::Use).
  std::function<absl::StatusOr<VersionInUse>(std::optional<int64_t>)> use = {};
};

// The sender of a request.
struct Caller {
  bool trusted = true;  // a program on this machine, as far as the server can tell
};

struct Answer {
  int status = 200;  // of HTTP
  std::string body;
  const char* type = "application/json";
};

class ModelService {
 public:
  // `model` is null if there is no model yet; requests for it are then answered with 503.
  ModelService(ServedPtr model, ServiceOptions options);
  ModelService(SavedModel model, ServiceOptions options);

  Answer Handle(absl::string_view method, absl::string_view path, absl::string_view body,
                const Caller& caller = {});
  // New requests go to this model; requests under way keep theirs.
  void Replace(ServedPtr model);
  // The same, unless another model than `old` answers by now: then nothing happens.
  void ReplaceIf(const ServedPtr& old, ServedPtr model);
  // For /metrics: an answer of any kind, by its status; a newer model that could not be loaded.
  void CountAnswer(int status) { metrics_.CountAnswer(status); }
  void CountReloadFailure() { metrics_.CountReloadFailure(); }
  // From now on /readyz says that the server is not ready; requests are still answered.
  void StartDraining();

 private:
  ServedPtr model() const;
  Answer Health(absl::string_view path) const;
  Answer OfModel(absl::string_view method, absl::string_view rest, absl::string_view body,
                 const Caller& caller);
  Answer Ask(const ServedModel& model, absl::string_view verb, absl::string_view body);
  Answer Predict(const ServedModel& model, absl::string_view body, int64_t* rows) const;
  Answer Recommend(const ServedModel& model, absl::string_view body, int64_t* rows) const;
  Answer Nearest(const ServedModel& model, absl::string_view body, int64_t* rows) const;
  Answer Use(absl::string_view body, const Caller& caller) const;

  const ServiceOptions options_;
  Admission admission_;
  ServeMetrics metrics_;
  mutable absl::Mutex mutex_;
  ServedPtr model_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace coxswain::serve
