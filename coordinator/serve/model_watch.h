// Notices when a saved model is replaced by a newer one, as `coxswain train --model-dir` does, and
// loads that. Until then it only checks the manifest's identity and time.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "coordinator/serve/served_model.h"

namespace coxswain::serve {

class ModelWatch {
 public:
  struct Events {
    std::function<void(ServedPtr)> on_newer;
    // Called when a newer model cannot be loaded, once for each reason; loading is tried again.
    std::function<void(const absl::Status&)> on_error;
  };
  // A text that changes when the model in a directory is replaced; empty when there is none.
  static std::string IdentityOf(const std::string& directory);
  // `loaded`: the identity of the current model, taken before it was loaded. Events are called on a
  // separate thread.
  ModelWatch(std::string directory, std::string loaded, Events events,
             absl::Duration every = absl::Seconds(1));
  // Waits for an event that is being handled.
  ~ModelWatch();
  ModelWatch(const ModelWatch&) = delete;
  ModelWatch& operator=(const ModelWatch&) = delete;

 private:
  void Watch();
  void Look();

  const std::string directory_;
  const Events events_;
  const absl::Duration every_;
  std::string loaded_;
  std::string error_;  // the last reported error
  absl::Notification ending_;
  std::thread thread_;
};

}  // namespace coxswain::serve
