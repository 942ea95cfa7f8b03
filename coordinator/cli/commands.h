// The subcommands of `coxswain`. Each prints its results on stdout and its errors on stderr, and
// returns the exit code.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coordinator/cli/saved_flags.h"
#include "runtime/net/credentials.h"

namespace coxswain::cli {

// Where a job runs: one of the first three, or else the cluster of TF_CONFIG.
struct Where {
  std::string cluster_file;
  std::string local;  // "PSxW"
  bool in_process = false;
  double connect_timeout = 10;  // seconds
  int threads = 0;
  net::CredentialOptions credentials;  // of a cluster of daemons
};

struct TrainFlags {
  std::string job;
  Where where;
  std::vector<std::string> overrides;
  std::string report;
  std::string model_dir;
  bool quiet = false;
  std::string checkpoint_dir;              // empty: the job's
  std::optional<double> checkpoint_every;  // seconds; else the job's
  bool resume = false;
  std::string chaos;      // CHAOS.yaml; see chaos_command.h
  std::string chaos_dir;  // logs, checkpoints and reports of such a run; empty: a temporary one
  bool count_visits = false;
  std::string init_from;
  std::vector<std::string> init_map;  // "old=new": names of that model
  std::string init_slots = "auto";    // or "none"
  bool allow_training_rows = false;   // of that model: scores them where they cannot be told apart
  bool model_slots = false;           // the model is saved with the slots of optimizers
  std::string trace;                  // a file for a trace of all tasks; empty: none
  std::string tensorboard;            // a directory for summaries; empty: none
  std::string metrics;                // the address of an endpoint for Prometheus; empty: none
};
int Train(const TrainFlags& flags);

struct EvalFlags {
  std::string job;  // empty: the one that the model was trained with
  SavedFlags from;
  std::vector<std::string> overrides;
  std::string report;
  std::string part;                  // validation or test; empty: test, if there is one
  bool allow_training_rows = false;  // scores them where they cannot be told from others
  Where where;
  // Or, in place of `from` and report; see eval_follow_command.h.
  std::string follow;  // a directory of checkpoints
  std::string eval_dir;
  std::string metric;
  std::optional<int64_t> until_step;
  bool until_finished = false;
  double idle_seconds = 0;  // 0: no bound
  std::string tensorboard;  // a directory for summaries; empty: none
};
int Eval(const EvalFlags& flags);

struct RecommendFlags {
  SavedFlags from;
  Where where;
  std::vector<std::string> groups;      // users of the training data
  std::vector<std::string> item_lists;  // or lists of known items, see SplitNames
  std::vector<std::string> items;       // or names of single items
  std::vector<std::string> values;      // or NAME=VALUE of what describes a user
  bool batch = false;                   // or for all users, as CSV
  int top = 10;
  bool include_known = false;
  std::string output;  // of a batch; empty: stdout
  bool force = false;
};
int Recommend(const RecommendFlags& flags);

struct ExplainFlags {
  std::string job;
  std::vector<std::string> overrides;
  int ps = 2;
  bool dot = false;
  bool gpu = false;
};
int Explain(const ExplainFlags& flags);

// How much of the data is checked.
enum class ValidateData { kNothing, kColumns, kAll };
int Validate(const std::string& job, const std::vector<std::string>& overrides, ValidateData data);
// Makes a file with a new secret for a cluster; see docs of --secret-file.
int MakeSecret(const std::string& path);
// Makes the certificates of a cluster in a directory; see docs of --tls-dir.
int MakeCertificates(const std::string& directory, const std::string& name, int days);

}  // namespace coxswain::cli
