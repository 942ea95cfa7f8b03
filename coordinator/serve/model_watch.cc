#include "coordinator/serve/model_watch.h"

#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace coxswain::serve {

ModelWatch::ModelWatch(std::string directory, std::string loaded, Events events,
                       absl::Duration every)
    : directory_(std::move(directory)),
      events_(std::move(events)),
      every_(every),
      loaded_(std::move(loaded)),
      thread_([this] { Watch(); }) {}

ModelWatch::~ModelWatch() {
  ending_.Notify();
  thread_.join();
}

std::string ModelWatch::IdentityOf(const std::string& directory) {
  struct stat file {};
  if (stat(absl::StrCat(directory, "/model.json").c_str(), &file) != 0) return "";
  return absl::StrCat(file.st_dev, ".", file.st_ino, ".", file.st_size, ".", file.st_mtim.tv_sec,
                      ".", file.st_mtim.tv_nsec);
}

void ModelWatch::Watch() {
  while (!ending_.WaitForNotificationWithTimeout(every_)) Look();
}

void ModelWatch::Look() {
  const std::string there = IdentityOf(directory_);
  if (there.empty() || there == loaded_) return;
  auto model = LoadServed(directory_);
  if (model.ok()) {
    loaded_ = there;
    error_.clear();
    events_.on_newer(*std::move(model));
    return;
  }
  if (error_ == model.status().message()) return;
  error_ = std::string(model.status().message());
  events_.on_error(model.status());
}

}  // namespace coxswain::serve
