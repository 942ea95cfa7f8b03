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
                "write the report here as JSON, see docs/report.md; -: to stdout, and all else to "
                "stderr")
      ->type_name("FILE");
  c->add_option("--model-dir", flags->model_dir,
                "save the model here: in a new or empty directory, or in place of an older model")
      ->type_name("DIR");
  c->add_flag("--model-slots", flags->model_slots,
              "save what optimizers keep with the model, so that --init-from goes on with it");
  c->add_option("--checkpoint-dir", flags->checkpoint_dir,
                "write checkpoints here, over what the job says; a path that all parameter servers "
                "can reach")
      ->type_name("DIR");
  CheckSeconds(c->add_option("--checkpoint-every", flags->checkpoint_every,
                             "time between two, over what the job says; 0: not by time"))
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
                   "change a key of the job for this run, e.g. train.batch_size=256; may be given "
                   "several times")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

void AddElsewhere(CLI::App* command, Where* where, const std::string& what) {
  auto* group = command->add_option_group("where", what);
  CLI::Option* const cluster =
      group
          ->add_option("--cluster", where->cluster_file,
                       "on the daemons of this cluster file, other ones than a running job's")
          ->type_name("FILE");
  group
      ->add_option("--local", where->local,
                   "on processes of this machine: 2x3 for 2 parameter servers and 3 workers")
      ->type_name("PSxW");
  group->require_option(0, 1);
  AddCredentials(command, &where->credentials);
  for (const char* name : kCredentialFlags) command->get_option(name)->needs(cluster);
}

void AddCredentials(CLI::App* command, net::CredentialOptions* credentials) {
  auto* file = command->add_option(
      "--secret-file", credentials->secret.file,
      "the file with the secret of the cluster's daemons; else $COXSWAIN_SECRET_FILE, or "
      "~/.config/coxswain/secret");
  file->type_name("FILE");
  command
      ->add_flag("--insecure", credentials->secret.insecure,
                 "the daemons have no secret: whoever reaches them commands them")
      ->excludes(file);
  command
      ->add_option("--tls-dir", credentials->tls.directory,
                   "connections are encrypted, as daemons with --tls-dir want it: the directory of "
                   "ca.crt, tls.crt and tls.key; else $COXSWAIN_TLS_DIR")
      ->type_name("DIR");
  command
      ->add_option("--tls-name", credentials->tls.name,
                   "the DNS name that certificates of the cluster have; else $COXSWAIN_TLS_NAME, "
                   "or coxswain")
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
  c->add_flag("--resume", flags->resume,
              "go on from the newest good checkpoint; start anew where there is none yet");
  c->add_option(
       "--init-from", flags->init_from,
       "begin with the values of this saved model (or checkpoint), with other data: values "
       "that it knows keep their rows, see docs/warm-start.md")
      ->type_name("DIR");
  c->add_option("--init-map", flags->init_map,
                "with --init-from: a feature, variable or beginning of variables' names is called "
                "NEW in the job and OLD in the model; again for each")
      ->type_name("OLD=NEW")
      ->allow_extra_args(false);
  c->add_option("--init-slots", flags->init_slots,
                "with --init-from: auto takes what optimizers keep where the source has it, none "
                "begins anew")
      ->check(CLI::IsMember({"auto", "none"}))
      ->type_name("WHICH")  // help lists the values itself
      ->capture_default_str();
  c->add_option("--chaos-dir", flags->chaos_dir,
                "with --chaos: logs, checkpoints and reports of the run go here, and stay")
      ->type_name("DIR");
  c->add_flag("--quiet", flags->quiet, "print errors only");
  c->callback([flags, run] { *run = [flags] { return Train(*flags); }; });
}

}  // namespace coxswain::cli
