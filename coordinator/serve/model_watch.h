// Notices that a saved model was replaced by a newer one, as `coxswain train --model-dir` does, and
// loads that. Reads nothing but the manifest's place and time until it is another.
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
    // A newer one that cannot be loaded, told once for each reason; it is tried again.
    std::function<void(const absl::Status&)> on_error;
  };
  // What tells the model in a directory from one that replaces it; empty when there is none.
  static std::string IdentityOf(const std::string& directory);
  // `loaded`: the identity of the model that answers, taken before that was loaded. The events come
  // on a thread of its own.
  ModelWatch(std::string directory, std::string loaded, Events events,
             absl::Duration every = absl::Seconds(1));
  // Waits for an event under way.
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
  std::string error_;  // the last that was told
  absl::Notification ending_;
  std::thread thread_;
};

}  // namespace coxswain::serve
