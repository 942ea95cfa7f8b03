// Records what a cluster does into a trace file, beside the program that uses the cluster.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "coordinator/cli/trace_writer.h"
#include "coxswain/cluster.h"

namespace coxswain::cli {

class TraceSession {
 public:
  // Turns recording on everywhere and fetches what was recorded from then on, on a thread of its
  // own. Tasks that start again record from the first fetch on; what a task had not handed over
  // when it died is lost. Errors: of opening the file.
  static absl::StatusOr<std::unique_ptr<TraceSession>> Start(const Cluster& cluster,
                                                             const std::string& file);
  // Finishes, if that was not done; an error is lost.
  ~TraceSession();

  // Turns recording off, fetches the rest and closes the file. Errors: of writing it.
  absl::Status Finish();
  const TraceWriter& writer() const { return *writer_; }

 private:
  TraceSession(const Cluster& cluster, std::unique_ptr<TraceWriter> writer);
  // Fetches once. False: some task may have more.
  bool Fetch(bool enable);

  Cluster cluster_;
  std::unique_ptr<TraceWriter> writer_;
  absl::Status status_;
  absl::Notification stop_;
  bool finished_ = false;
  std::thread thread_;
};

}  // namespace coxswain::cli
