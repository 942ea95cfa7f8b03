// Notices when a saved model is replaced by a newer one, as `coxswain train --model-dir` does, and
// loads that. Until then it only checks the identities and times of the model's files.
//
// What it loads is verified: files that are copied into the directory one after the other are, in
// between, those of two models.
#pragma once

#include <cstdint>
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
    // Called each time that a newer model cannot be loaded; `said`: for this reason, as the last
    // time. Loading is tried again: soon where files change, and else ever more rarely.
    std::function<void(const absl::Status&, bool said)> on_error;
  };
  // What tells the current model from a newer one. Both are taken before it is loaded.
  struct Loaded {
    std::string identity;
    int64_t lost_pages = 0;  // of ServedModel
  };
  // A text that changes when any file of the model in a directory is replaced; empty when there is
  // no model.
  static std::string IdentityOf(const std::string& directory);
  // Events are called on a separate thread.
  ModelWatch(std::string directory, Loaded loaded, Events events,
             absl::Duration every = absl::Seconds(1));
  // Waits for an event that is being handled.
  ~ModelWatch();
  ModelWatch(const ModelWatch&) = delete;
  ModelWatch& operator=(const ModelWatch&) = delete;

 private:
  void Watch();
  void Look();
  absl::Status Load(const std::string& identity);
  void NoteFailure(const std::string& identity, const absl::Status& status);

  const std::string directory_;
  const Events events_;
  const absl::Duration every_;
  Loaded loaded_;
  std::string failed_;  // the identity of the files that could not be loaded
  std::string error_;   // why; empty: the last load was good
  absl::Duration pause_ = absl::ZeroDuration();
  absl::Time again_ = absl::InfinitePast();
  absl::Notification ending_;
  std::thread thread_;
};

}  // namespace coxswain::serve
