#include "runtime/cluster/open_requests.h"

#include <utility>

namespace coxswain::cluster {

OpenRequests::Open::Open(std::shared_ptr<OpenRequests> all, uint64_t request)
    : all_(std::move(all)), request_(request) {
  absl::MutexLock lock(&all_->mu_);
  all_->open_.insert(request_);
}

void OpenRequests::Open::End() {
  absl::MutexLock lock(&all_->mu_);
  all_->open_.erase(request_);
}

void OpenRequests::Name(proto::PongReply* pong) const {
  absl::MutexLock lock(&mu_);
  for (const uint64_t request : open_) {
    if (static_cast<size_t>(pong->open_requests_size()) == kMostNamed) {
      pong->set_more_open(true);
      return;
    }
    pong->add_open_requests(request);
  }
}

}  // namespace coxswain::cluster
