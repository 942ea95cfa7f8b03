// A list of objects that others own, which forgets those that are gone.
#pragma once

#include <memory>
#include <utility>
#include <vector>

namespace coxswain::net {

// Not thread-safe. Adding costs O(1) on average; at most half of the list (and 16) is gone objects.
template <typename T>
class WeakList {
 public:
  void Add(const std::shared_ptr<T>& object) {
    if (objects_.size() >= prune_at_) {
      std::vector<std::weak_ptr<T>> live;
      for (auto& old : objects_) {
        if (!old.expired()) live.push_back(std::move(old));
      }
      objects_ = std::move(live);
      prune_at_ = 2 * objects_.size() + 16;
    }
    objects_.push_back(object);
  }

  std::vector<std::shared_ptr<T>> Live() const {
    std::vector<std::shared_ptr<T>> live;
    for (const auto& object : objects_) {
      if (auto locked = object.lock()) live.push_back(std::move(locked));
    }
    return live;
  }

 private:
  std::vector<std::weak_ptr<T>> objects_;
  size_t prune_at_ = 16;
};

}  // namespace coxswain::net
