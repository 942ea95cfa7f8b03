// Answers to requests for a model, whatever brings them: TensorFlow Serving's REST paths, and what
// supervisors and Prometheus ask for.
//
//   GET  /v1/models                        the name
//   GET  /v1/models/NAME                   status
//   GET  /v1/models/NAME/metadata          columns and results
//   POST /v1/models/NAME:predict           predictions, see json_rows.h
//        /v1/models/NAME/versions/STEPS... the same, of this version only
//   GET  /healthz, /readyz, /metrics
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/serve/admission.h"
#include "coordinator/serve/serve_metrics.h"
#include "coxswain/saved_model.h"

namespace coxswain::serve {

struct ServiceOptions {
  std::string name = "model";
  int64_t max_rows = 10'000;  // in a request
  AdmissionOptions admission;
};

struct Answer {
  int status = 200;  // of HTTP
  std::string body;
  const char* type = "application/json";
};

class ModelService {
 public:
  ModelService(SavedModel model, ServiceOptions options);

  Answer Handle(absl::string_view method, absl::string_view path, absl::string_view body);
  // The next requests go to this model; those under way end with theirs.
  void Replace(SavedModel model);
  // From here on it says that it is not ready; requests are still answered.
  void StartDraining();

 private:
  SavedModel model() const;
  Answer OfModel(absl::string_view method, absl::string_view rest, absl::string_view body);
  Answer Predict(const SavedModel& model, absl::string_view body, int64_t* rows);

  const ServiceOptions options_;
  Admission admission_;
  ServeMetrics metrics_;
  mutable absl::Mutex mutex_;
  SavedModel model_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace coxswain::serve
