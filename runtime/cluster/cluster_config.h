// Who is in the cluster: read from a YAML file or from TF_CONFIG. Used by the coordinator and by
// the daemons.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace coxswain::cluster {

struct ClusterConfig {
  std::vector<std::string> workers;  // "host:port"; the index is the task's
  std::vector<std::string> ps;
};

struct TaskConfig {
  ClusterConfig cluster;
  std::string type;  // "worker", "ps", "chief", "coordinator" or "evaluator"
  int index = 0;     // within the tasks of its type
};

// OK for "host:port", "1.2.3.4:port" and "[::1]:port" with a port of 1..65535.
// Errors: InvalidArgument; the message says what is wrong with the address.
absl::Status CheckAddress(absl::string_view address);

// `worker: [host:port, ...]` and `ps: [host:port, ...]`, both with at least one address, no address
// twice, and nothing else.
// Errors: InvalidArgument, one line "file:line:column: ..." for each thing that is wrong.
absl::StatusOr<ClusterConfig> ParseClusterConfig(absl::string_view text,
                                                 const std::string& file_name);

// Errors: those of ParseClusterConfig; NotFound, PermissionDenied.
absl::StatusOr<ClusterConfig> ReadClusterConfig(const std::string& path);

// The cluster file as it is written where there was none: one address a line.
std::string FormatClusterConfig(const ClusterConfig& config);

// A cluster file's text with another list of workers. All else stays as it is: comments, order,
// style. `*rewritten` (may be null) tells that the file was written in a way (aliases, say) that
// had to be given up: then only its first comment stays. Errors: those of ParseClusterConfig, for
// the old text and for the new list.
absl::StatusOr<std::string> WithWorkers(absl::string_view text, const std::string& file_name,
                                        const std::vector<std::string>& workers,
                                        bool* rewritten = nullptr);

// TensorFlow's TF_CONFIG:
//   {"cluster": {"worker": [...], "ps": [...], "chief": [...]}, "task": {"type": "ps", "index": 0}}
// Jobs "chief", "coordinator" and "evaluator" may be there and are not part of the result, but
// their addresses are checked and "task" may name them. Other members beside "cluster" and "task"
// are those of other tools and are not looked at. Errors: InvalidArgument "TF_CONFIG: ...", a line
// for each thing that is wrong.
absl::StatusOr<TaskConfig> ParseTfConfig(absl::string_view json);

}  // namespace coxswain::cluster
