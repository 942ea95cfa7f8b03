// Builds indexes for a model that is already served, on a thread of its own: until they are there,
// all rows are searched. A newer model ends the building for the older one.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "coordinator/model/vector_index.h"
#include "coordinator/serve/served_model.h"

namespace coxswain::serve {

// The end of the building of an index.
struct IndexReport {
  std::string table;  // or "items", of suggestions
  int64_t rows = 0;
  absl::Duration took;
  absl::Status status;  // why there is none
  model::IndexQuality quality;
};

class IndexBuilder {
 public:
  struct Events {
    // The model that was given to Build, with the indexes that it has got.
    std::function<void(const ServedPtr& model, ServedPtr indexed)> on_indexed;
    std::function<void(const IndexReport&)> on_report;
  };
  // `options.stopped` is not used. Events are called on the builder's thread.
  IndexBuilder(model::IndexOptions options, Events events);
  // Waits for a row's addition and an event at most, and for the search of a sample.
  ~IndexBuilder();
  IndexBuilder(const IndexBuilder&) = delete;
  IndexBuilder& operator=(const IndexBuilder&) = delete;

  // Returns at once. `model` may be null.
  void Build(ServedPtr model);

 private:
  void Loop();
  bool Stopped(const ServedPtr& model) const;
  ServedPtr Indexed(const ServedPtr& model) const;

  const model::IndexOptions options_;
  const Events events_;
  mutable absl::Mutex mutex_;
  ServedPtr wanted_ ABSL_GUARDED_BY(mutex_);
  bool fresh_ ABSL_GUARDED_BY(mutex_) = false;  // nobody has begun with wanted_
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace coxswain::serve
