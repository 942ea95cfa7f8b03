// A file of events for TensorBoard, as TensorFlow writes them: TFRecords of tensorflow.Event. What
// Append has written can be read at once, and whoever is killed leaves a file that can be read but
// for a torn last record, which TensorBoard passes over.
//
// Thread model: one thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "protos/tf_event.pb.h"
#include "runtime/net/unique_fd.h"

namespace coxswain::cli {

class EventFile {
 public:
  // Makes a new file in a directory, which is there; no other file is touched. TensorBoard reads a
  // directory's files by their names, which begin with a time: this one's is behind all others.
  // Errors: those of making and writing a file, which name it.
  static absl::StatusOr<EventFile> Create(const std::string& directory, absl::Time now);

  // All of the events or none. Errors: those of writing, which name the file.
  absl::Status Append(const std::vector<proto::TfEvent>& events);
  const std::string& path() const { return path_; }

 private:
  EventFile(std::string path, net::UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  net::UniqueFd fd_;
  int64_t bytes_ = 0;  // whole records
};

}  // namespace coxswain::cli
