#include "coordinator/serve/index_builder.h"

#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "coordinator/predict/recommender.h"
#include "runtime/env/compute_pool.h"

namespace coxswain::serve {

IndexBuilder::IndexBuilder(model::IndexOptions options, Events events)
    : options_(std::move(options)), events_(std::move(events)), thread_([this] { Loop(); }) {}

IndexBuilder::~IndexBuilder() {
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
  }
  thread_.join();
}

void IndexBuilder::Build(ServedPtr model) {
  absl::MutexLock lock(&mutex_);
  std::swap(wanted_, model);
  fresh_ = wanted_ != nullptr;
}

bool IndexBuilder::Stopped(const ServedPtr& model) const {
  absl::MutexLock lock(&mutex_);
  return ending_ || wanted_ != model;
}

void IndexBuilder::Loop() {
  while (true) {
    ServedPtr model;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(
          +[](IndexBuilder* self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mutex_) {
            return self->fresh_ || self->ending_;
          },
          this));
      if (ending_) return;
      model = wanted_;
      fresh_ = false;
    }
    if (ServedPtr indexed = Indexed(model); indexed != nullptr && !Stopped(model)) {
      events_.on_indexed(model, std::move(indexed));
    }
    // A model that nobody asks any more is not kept.
    absl::MutexLock lock(&mutex_);
    if (wanted_ == model) wanted_.reset();
  }
}

// Null: there is nothing to index.
ServedPtr IndexBuilder::Indexed(const ServedPtr& model) const {
  model::IndexOptions options = options_;
  // Asked for each row: the lock is looked at now and then.
  options.stopped = [this, &model, calls = 0]() mutable {
    return ++calls % 64 == 0 && Stopped(model);
  };
  const auto pool = env::NewInlinePool();
  auto indexed = std::make_shared<ServedModel>(*model);
  bool any = false;
  const auto report = [&](const std::string& table, int64_t rows, absl::Time start,
                          const absl::Status& status, const model::IndexQuality* quality) {
    if (absl::IsCancelled(status)) return;
    any = any || status.ok();
    events_.on_report({table, rows, absl::Now() - start, status,
                       quality == nullptr ? model::IndexQuality() : *quality});
  };
  if (model->recommender != nullptr &&
      model->recommender->predictor().choices() >= options.from_rows) {
    const absl::Time start = absl::Now();
    auto with = model->recommender->WithIndex(options);
    if (with.ok()) indexed->recommender = *std::move(with);
    report("items", model->recommender->predictor().choices(), start, with.status(),
           indexed->recommender->index());
  }
  for (model::NamedRows& named : indexed->named) {
    if (named.size() < options.from_rows || Stopped(model)) continue;
    const absl::Time start = absl::Now();
    auto with = named.WithIndex(options, pool.get());
    if (with.ok()) named = *std::move(with);
    report(named.table(), named.size(), start, with.status(), named.index());
  }
  return any ? indexed : nullptr;
}

}  // namespace coxswain::serve
