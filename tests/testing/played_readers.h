// Workers that read parts of data sets for the pass that makes an index, each a thread of this
// process, and that can be made to fail.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "runtime/base/status.h"
#include "runtime/data/stream/file_part.h"
#include "runtime/data/stream/index_pass.h"
#include "runtime/data/stream/text_range.h"

namespace coxswain {

class PlayedReaders final : public data::PartReaders {
 public:
  // Called for each request, on its worker's thread, with how many came before it. If it returns an
  // error, that is the answer; a lost worker forgets what it has.
  using Fault = std::function<absl::Status(int worker, int64_t asked, const proto::IndexPart&)>;

  explicit PlayedReaders(int workers, Fault fault = nullptr) : fault_(std::move(fault)) {
    for (int i = 0; i < workers; ++i) workers_.push_back(std::make_unique<Worker>());
    for (int i = 0; i < workers; ++i) {
      workers_[static_cast<size_t>(i)]->thread = std::thread([this, i] { Work(i); });
    }
  }
  ~PlayedReaders() override {
    for (const auto& worker : workers_) {
      {
        absl::MutexLock lock(&worker->mu);
        worker->ends = true;
      }
      worker->thread.join();
    }
  }

  static absl::Status Lost() {
    return WithDetail(absl::UnavailableError("the worker was killed"),
                      {ErrorCause::kTaskLost, true, "", 0});
  }

  int count() override { return static_cast<int>(workers_.size()); }
  void Ask(int worker, proto::IndexPart request, Done done) override {
    Worker& asked = *workers_[static_cast<size_t>(worker)];
    absl::MutexLock lock(&asked.mu);
    asked.asks.emplace_back(std::move(request), std::move(done));
  }
  int64_t asked() const {
    absl::MutexLock lock(&mu_);
    return asked_;
  }
  int64_t reads() const {
    absl::MutexLock lock(&mu_);
    return reads_;
  }

 private:
  struct Worker {
    bool Due() const { return ends || !asks.empty(); }

    absl::Mutex mu;
    std::deque<std::pair<proto::IndexPart, Done>> asks;
    bool ends = false;
    std::thread thread;
    // Of the thread alone.
    std::map<int64_t, std::unique_ptr<data::FilePart>> parts;
    data::PartFiles shared;
  };

  void Work(int number) {
    Worker& worker = *workers_[static_cast<size_t>(number)];
    while (true) {
      std::pair<proto::IndexPart, Done> ask;
      {
        absl::MutexLock lock(&worker.mu);
        worker.mu.Await(absl::Condition(&worker, &Worker::Due));
        if (worker.asks.empty()) return;
        ask = std::move(worker.asks.front());
        worker.asks.pop_front();
      }
      int64_t before = 0;
      {
        absl::MutexLock lock(&mu_);
        before = asked_++;
        if (ask.first.has_read()) ++reads_;
      }
      const absl::Status failed =
          fault_ == nullptr ? absl::OkStatus() : fault_(number, before, ask.first);
      if (GetDetail(failed)) worker.parts.clear();
      ask.second(failed.ok() ? Answer(ask.first, &worker) : failed);
    }
  }

  static absl::StatusOr<proto::PartIndexed> Answer(const proto::IndexPart& request,
                                                   Worker* worker) {
    proto::PartIndexed found;
    if (request.has_text()) {
      ASSIGN_OR_RETURN(*found.mutable_text(), data::CountPlacesOf(request.text()));
      return found;
    }
    worker->parts.erase(worker->parts.begin(), worker->parts.lower_bound(request.first_open()));
    if (request.has_read() && request.has_before()) {
      ASSIGN_OR_RETURN(
          *found.mutable_sums(),
          data::FilePart::ReadBehind(request.read(), request.before(), &worker->shared));
      return found;
    }
    auto& rows = worker->parts[request.part()];
    if (request.has_read()) {
      ASSIGN_OR_RETURN(rows, data::FilePart::Read(request.read(), &worker->shared));
      found.set_end(rows->end());
      found.set_rows(rows->rows());
    } else if (request.has_before()) {
      if (rows == nullptr) return absl::NotFoundError("the part is not here");
      ASSIGN_OR_RETURN(*found.mutable_sums(), rows->AddUp(request.before()));
      worker->parts.erase(request.part());
    }
    return found;
  }

  const Fault fault_;
  std::vector<std::unique_ptr<Worker>> workers_;
  mutable absl::Mutex mu_;
  int64_t asked_ ABSL_GUARDED_BY(mu_) = 0, reads_ ABSL_GUARDED_BY(mu_) = 0;
};

// The index of a checked spec that workers make with parts of about so many bytes.
inline absl::StatusOr<proto::DatasetIndex> IndexByWorkers(const proto::DatasetSpec& spec,
                                                          int64_t part_bytes,
                                                          PlayedReaders* readers) {
  data::IndexOptions options;
  options.workers = readers;
  options.part_bytes = part_bytes;
  return data::BuildIndexOnWorkers(spec, options);
}

}  // namespace coxswain
