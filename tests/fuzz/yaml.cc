// What a user writes: job, cluster and chaos files, and TF_CONFIG. Each text goes to all of them.
#include "absl/strings/str_cat.h"
#include "coordinator/chaos/chaos_spec.h"
#include "coordinator/job/job_parser.h"
#include "runtime/cluster/cluster_config.h"
#include "runtime/config/yaml_reader.h"
#include "tests/fuzz/fuzz_target.h"

namespace coxswain {
namespace {

// Errors of a file say where they are.
void CheckError(const absl::Status& status, absl::string_view file) {
  if (status.ok()) return;
  if (status.code() != absl::StatusCode::kInvalidArgument) fuzz::Broken(status.ToString());
  if (status.message().find(file) == absl::string_view::npos) fuzz::Broken(status.ToString());
}

void Run(absl::string_view text) {
  CheckError(config::ParseYaml(text, "u.yaml").status(), "u.yaml");
  CheckError(job::ParseJob(text, "job.yaml").status(), "job.yaml");
  CheckError(chaos::ParseChaos(text, "chaos.yaml").status(), "chaos.yaml");
  CheckError(cluster::ParseTfConfig(text).status(), "TF_CONFIG");
  const absl::StatusOr<cluster::ClusterConfig> config =
      cluster::ParseClusterConfig(text, "cluster.yaml");
  CheckError(config.status(), "cluster.yaml");
  if (!config.ok()) return;
  // A cluster file that is edited has the workers that were asked for, and says so when read again.
  std::vector<std::string> workers = config->workers;
  workers.back() = "a-new-one:1";
  const auto edited = cluster::WithWorkers(text, "cluster.yaml", workers);
  if (!edited.ok()) return;
  const auto again = cluster::ParseClusterConfig(*edited, "cluster.yaml");
  if (!again.ok() || again->workers != workers || again->ps != config->ps) {
    fuzz::Broken(absl::StrCat("edited cluster file: ", *edited));
  }
}

}  // namespace
}  // namespace coxswain

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  coxswain::Run(coxswain::fuzz::Text(data, size));
  return 0;
}
