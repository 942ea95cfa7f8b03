#include "coordinator/cli/commands/shared_flags.h"

#include <limits>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace coxswain::cli {
namespace {

constexpr const char* kCredentialFlags[] = {"--secret-file", "--insecure", "--tls-dir",
                                            "--tls-name"};
constexpr double kMostSeconds = 1e9;  // 31 years; sums of such times do not overflow

// `wanted`: the range in words.
CLI::Option* Check(CLI::Option* option, double least, double most, const std::string& wanted) {
  return option->check([=](const std::string& text) {
    double number = 0;
    if (absl::SimpleAtod(text, &number) && number >= least && number <= most) return std::string();
    return absl::StrCat("wanted a number ", wanted, ", found ", text);
  });
}

void AddTrainOutput(CLI::App* c, TrainFlags* flags) {
  c->add_option("--report", flags->report,
                "write the report to this file as JSON, see docs/report.md; -: to stdout, with all "
                "other output on stderr")
      ->type_name("FILE");
  c->add_option("--tensorboard", flags->tensorboard,
                "write loss, metrics and the like to a new event file in this directory, for "
                "TensorBoard, see docs/report.md")
      ->type_name("DIR");
  c->add_option("--model-dir", flags->model_dir,
                "save the model in this directory: a new or empty one, or one with an older model, "
                "which is replaced")
      ->type_name("DIR");
  c->add_flag(
      "--model-slots", flags->model_slots,
      "save the optimizers' slots with the model, so that --init-from can continue with them");
  c->add_option("--checkpoint-dir", flags->checkpoint_dir,
                "write checkpoints to this directory, which all parameter servers must be able to "
                "reach; overrides the job's")
      ->type_name("DIR");
  CheckSeconds(c->add_option("--checkpoint-every", flags->checkpoint_every,
                             "time between two checkpoints; overrides the job's; 0: not by time"))
      ->type_name("SECONDS");
}

}  // namespace

CLI::Option* CheckNumber(CLI::Option* option, double least, double most) {
  return Check(option, least, most, absl::StrCat("from ", least, " to ", most));
}

CLI::Option* CheckTimeout(CLI::Option* option) {
  return Check(option, std::numeric_limits<double>::min(), kMostSeconds,
               absl::StrCat("> 0, at most ", kMostSeconds));
}

CLI::Option* CheckSeconds(CLI::Option* option) { return CheckNumber(option, 0, kMostSeconds); }

void AddJob(CLI::App* command, std::string* job) {
  command->add_option("JOB", *job, "the job file, see docs/job.md")->required()->type_name("FILE");
}

void AddOverrides(CLI::App* command, std::vector<std::string>* overrides) {
  command
      ->add_option("--set", *overrides,
                   "set a key of the job for this run, e.g. train.batch_size=256; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

void AddElsewhere(CLI::App* command, Where* where, const std::string& what) {
  auto* group = command->add_option_group("where", what);
  CLI::Option* const cluster =
      group
          ->add_option("--cluster", where->cluster_file,
                       "on the daemons of this cluster file, which no running job uses")
          ->type_name("FILE");
  group
      ->add_option("--local", where->local,
                   "in processes on this machine: 2x3 for 2 parameter servers and 3 workers")
      ->type_name("PSxW");
  group->require_option(0, 1);
  AddCredentials(command, &where->credentials);
  for (const char* name : kCredentialFlags) command->get_option(name)->needs(cluster);
}

void AddCredentials(CLI::App* command, net::CredentialOptions* credentials) {
  auto* file = command->add_option("--secret-file", credentials->secret.file,
                                   "file with the secret of the cluster's daemons; default: "
                                   "$COXSWAIN_SECRET_FILE, or ~/.config/coxswain/secret");
  file->type_name("FILE");
  command
      ->add_flag("--insecure", credentials->secret.insecure,
                 "the daemons have no secret: anyone who can reach them can control them")
      ->excludes(file);
  command
      ->add_option("--tls-dir", credentials->tls.directory,
                   "encrypt connections, as daemons with --tls-dir require: the directory with "
                   "ca.crt, tls.crt and tls.key; default: $COXSWAIN_TLS_DIR")
      ->type_name("DIR");
  command
      ->add_option(
          "--tls-name", credentials->tls.name,
          "DNS name in the cluster's certificates; default: $COXSWAIN_TLS_NAME, or coxswain")
      ->type_name("NAME");
}

void ExcludeCredentials(CLI::App* command, CLI::Option* option) {
  for (const char* name : kCredentialFlags) option->excludes(command->get_option(name));
}

void AddTrainFlags(CLI::App* c, const std::shared_ptr<TrainFlags>& flags, Run* run) {
  AddOverrides(c, &flags->overrides);
  AddTrainOutput(c, flags.get());
  AddCredentials(c, &flags->where.credentials);
  CheckTimeout(c->add_option("--connect-timeout", flags->where.connect_timeout,
                             "how long to wait for the cluster"))
      ->type_name("SECONDS")
      ->capture_default_str();
  c->add_flag(
      "--resume", flags->resume,
      "continue from the newest good checkpoint, or start from the beginning if there is none yet");
  CLI::Option* const init_from =
      c->add_option(
           "--init-from", flags->init_from,
           "start from the weights of this saved model or checkpoint, with other data: values "
           "that it knows keep their rows, see docs/warm-start.md")
          ->type_name("DIR");
  c->add_option("--init-map", flags->init_map,
                "with --init-from: a feature, a variable or a prefix of variables is named NEW in "
                "the job and OLD in the model; may be repeated")
      ->type_name("OLD=NEW")
      ->allow_extra_args(false);
  c->add_option("--init-slots", flags->init_slots,
                "with --init-from: auto takes the optimizers' slots if the source has them, none "
                "starts with new ones")
      ->check(CLI::IsMember({"auto", "none"}))
      ->type_name("WHICH")  // help lists the values itself
      ->capture_default_str();
  c->add_flag(
       "--allow-training-rows", flags->allow_training_rows,
       "with --init-from: evaluate even if the split of the same data is another one: rows "
       "that the model was trained on are then scored, which makes it look better than it is")
      ->needs(init_from);
  c->add_option("--chaos-dir", flags->chaos_dir,
                "with --chaos: keep logs, checkpoints and reports of the run in this directory")
      ->type_name("DIR");
  c->add_flag("--quiet", flags->quiet, "print errors only");
  c->callback([flags, run] { *run = [flags] { return Train(*flags); }; });
}

}  // namespace coxswain::cli
