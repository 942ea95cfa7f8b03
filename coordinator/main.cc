#include <algorithm>
#include <cstdio>
#include <functional>

#include "CLI/CLI.hpp"
#include "coordinator/cli/checkpoint_command.h"
#include "coordinator/cli/cluster_command.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/generate_command.h"
#include "coordinator/cli/interrupt.h"
#include "coordinator/cli/nearest_command.h"
#include "coordinator/cli/saved_flags.h"
#include "runtime/base/logging.h"
#include "runtime/base/version.h"
#include "runtime/data/names.h"
#include "runtime/env/process_limits.h"

namespace {

using coxswain::CheckpointFlags;
using coxswain::ClusterFlags;
using coxswain::EvalFlags;
using coxswain::ExplainFlags;
using coxswain::GenerateFlags;
using coxswain::NearestFlags;
using coxswain::RecommendFlags;
using coxswain::SecretOptions;
using coxswain::TrainFlags;
using Run = std::function<int()>;

struct ValidateFlags {
  std::string job;
  std::vector<std::string> overrides;
  bool data = false, no_data = false;
};

struct StatusFlags {
  std::string cluster_file;
  double timeout = 3;  // seconds
  bool json = false;
  SecretOptions secret;
};

constexpr char kFooter[] =
    "A cluster is a list of daemons, coxswain-ps and coxswain-worker, in a cluster file:\n"
    "  ps: [host:port, ...]\n"
    "  worker: [host:port, ...]\n\n"
    "Exit codes:\n"
    "  0    done\n"
    "  2    wrong usage, configuration or data, all that is found before training; an output that\n"
    "       would cost a file; an evaluation of rows that may have been trained on\n"
    "  3    the job failed, or its model could not be saved where it should be; a promise was\n"
    "       broken under --chaos; a file is damaged\n"
    "  4    the cluster could not be reached in time, or another job holds it or the directory of\n"
    "       checkpoints\n"
    "  75   interrupted by Ctrl-C or SIGTERM after writing a checkpoint; --resume goes on\n"
    "  130  interrupted by Ctrl-C or SIGTERM without checkpoints, or the second time";

void AddJob(CLI::App* command, std::string* job) {
  command->add_option("JOB", *job, "the job file, see docs/job.md")->required()->type_name("FILE");
}

void AddModelDir(CLI::App* command, std::string* directory) {
  command->add_option("--model-dir", *directory, "a model that `coxswain train` saved")
      ->required()
      ->type_name("DIR");
}

void AddOverrides(CLI::App* command, std::vector<std::string>* overrides) {
  command
      ->add_option("--set", *overrides,
                   "change a key of the job for this run, e.g. train.batch_size=256; may be given "
                   "several times")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

void AddSecret(CLI::App* command, SecretOptions* secret) {
  auto* file = command->add_option(
      "--secret-file", secret->file,
      "the file with the secret of the cluster's daemons; else $COXSWAIN_SECRET_FILE, or "
      "~/.config/coxswain/secret");
  file->type_name("FILE");
  command
      ->add_flag("--insecure", secret->insecure,
                 "the daemons have no secret: whoever reaches them commands them")
      ->excludes(file);
}

void AddTrainOutput(CLI::App* c, TrainFlags* flags) {
  c->add_option("--report", flags->report,
                "write the report here as JSON, see docs/report.md; -: to stdout, and all else to "
                "stderr")
      ->type_name("FILE");
  c->add_option("--model-dir", flags->model_dir,
                "save the model here: in a new or empty directory, or in place of an older model")
      ->type_name("DIR");
  c->add_option("--checkpoint-dir", flags->checkpoint_dir,
                "write checkpoints here, over what the job says; a path that all parameter servers "
                "can reach")
      ->type_name("DIR");
  c->add_option("--checkpoint-every", flags->checkpoint_every,
                "time between two, over what the job says; 0: not by time")
      ->check(CLI::NonNegativeNumber)
      ->type_name("SECONDS");
}

// What `train` and `chaos` share beside the job.
void AddTrainFlags(CLI::App* c, TrainFlags* flags, Run* run) {
  AddOverrides(c, &flags->overrides);
  AddTrainOutput(c, flags);
  AddSecret(c, &flags->where.secret);
  c->add_option("--connect-timeout", flags->where.connect_timeout,
                "how long to wait for the cluster")
      ->check(CLI::PositiveNumber)
      ->type_name("SECONDS")
      ->capture_default_str();
  c->add_flag("--resume", flags->resume,
              "go on from the newest good checkpoint; start anew where there is none yet");
  c->add_option("--chaos-dir", flags->chaos_dir,
                "with --chaos: logs, checkpoints and reports of the run go here, and stay")
      ->type_name("DIR");
  c->add_flag("--quiet", flags->quiet, "print errors only");
  c->callback([flags, run] { *run = [flags] { return coxswain::Train(*flags); }; });
}

void AddTrain(CLI::App& app, TrainFlags* flags, Run* run) {
  CLI::App* c = app.add_subcommand("train", "Trains a job on a cluster");
  AddJob(c, &flags->job);
  auto* where = c->add_option_group("where", "Where the job runs; else where TF_CONFIG says");
  where->add_option("--cluster", flags->where.cluster_file, "on the daemons of this cluster file")
      ->type_name("FILE");
  where
      ->add_option("--local", flags->where.local,
                   "on processes of this machine, started and ended with the job: 2x3 for 2 "
                   "parameter servers and 3 workers")
      ->type_name("PSxW");
  where->add_flag("--in-process", flags->where.in_process,
                  "in this process: 1 parameter server and 1 worker");
  where->require_option(0, 1);
  AddTrainFlags(c, flags, run);
  c->add_option("--threads", flags->where.threads,
                "compute threads of this process or of each local worker; 0: by the machine's "
                "cores. Daemons have a --threads of their own")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N")
      ->capture_default_str();
  CLI::Option* const trace =
      c->add_option("--trace", flags->trace,
                    "write what coordinator, workers and parameter servers do, and when, into this "
                    "file for ui.perfetto.dev or chrome://tracing, see docs/performance.md")
          ->type_name("FILE");
  c->add_option("--chaos", flags->chaos,
                "with --local: kill, stop and end the job's tasks and the job itself by this "
                "schedule, and check what comes of it, see docs/chaos.md")
      ->type_name("CHAOS.yaml")
      ->excludes(trace);
  c->add_flag("--count-visits", flags->count_visits,
              "count in a table of its own how often training uses each example, for the report");
}

void AddChaos(CLI::App& app, TrainFlags* flags, Run* run) {
  CLI::App* c = app.add_subcommand(
      "chaos",
      "Trains a job while the daemons of a cluster of this machine are killed and stopped");
  AddJob(c, &flags->job);
  c->add_option("--cluster", flags->where.cluster_file, "the cluster file")
      ->required()
      ->type_name("FILE");
  c->add_option("--chaos", flags->chaos, "the schedule of faults, see docs/chaos.md")
      ->required()
      ->type_name("CHAOS.yaml");
  AddTrainFlags(c, flags, run);
}

void AddEval(CLI::App& app, EvalFlags* flags, Run* run) {
  CLI::App* c =
      app.add_subcommand("eval", "Evaluates a saved model on the job's test (or validation) part");
  c->add_option("JOB", flags->job,
                "the job file; else the one that the model was trained with, which is kept with it")
      ->type_name("FILE");
  AddModelDir(c, &flags->model_dir);
  AddOverrides(c, &flags->overrides);
  c->add_option("--report", flags->report,
                "write the metrics here as JSON, see docs/report.md; -: to stdout, and all else to "
                "stderr")
      ->type_name("FILE");
  c->add_flag("--allow-training-rows", flags->allow_training_rows,
              "also score data whose rows or split are not those of training: rows that the model "
              "was trained on may be among the scored ones, which makes it look better than it is");
  c->callback([flags, run] { *run = [flags] { return coxswain::Eval(*flags); }; });
}

void AddRecommend(CLI::App& app, RecommendFlags* flags, Run* run) {
  CLI::App* c = app.add_subcommand("recommend", "Suggests items with a saved two_tower model");
  AddModelDir(c, &flags->model_dir);
  auto* whom = c->add_option_group("for", "For whom");
  auto* users =
      whom->add_option("--user", flags->groups,
                       "for these users (groups) of the data that the model was trained on");
  users->type_name("NAME");
  auto* lists = whom->add_option(
      "--items", flags->item_lists,
      "for someone who has these items, separated by commas; one that holds a comma in quotes");
  lists->type_name("NAME,...")->excludes(users);
  whom->add_option("--item", flags->items,
                   "the same, one item as it is, commas and all; may be given several times")
      ->type_name("NAME")
      ->allow_extra_args(false)
      ->excludes(users);
  whom->require_option(1, 0);
  c->add_option("--top", flags->top, "how many suggestions, 1 to 1000")
      ->check(CLI::Range(1, 1000))
      ->type_name("N")
      ->capture_default_str();
  c->callback([flags, run] { *run = [flags] { return coxswain::Recommend(*flags); }; });
}

void AddNearest(CLI::App& app, NearestFlags* flags, Run* run) {
  CLI::App* c = app.add_subcommand(
      "nearest", "Shows which words or items of a saved model have about the same vectors");
  AddModelDir(c, &flags->model_dir);
  auto* whose = c->add_option_group("of", "Of what");
  auto* words = whose->add_option("WORD", flags->words, "the nearest of each, by cosine");
  words->type_name("");
  auto* plus = whose->add_option("--plus", flags->plus,
                                 "the nearest to a sum of words: --plus king,woman --minus man");
  plus->type_name("WORD,...")->excludes(words);
  whose->add_option("--minus", flags->minus, "words that are taken off that sum")
      ->type_name("WORD,...")
      ->needs(plus);
  whose->require_option(1, 0);
  c->add_option("--table", flags->table,
                "a table of the model; else the one that has a vocabulary of its own name")
      ->type_name("NAME");
  c->add_option("--top", flags->top, "how many, 1 to 10000")
      ->check(CLI::Range(1, 10000))
      ->type_name("N")
      ->capture_default_str();
  c->add_flag("--json", flags->json, "as JSON");
  c->callback([flags, run] { *run = [flags] { return coxswain::NearestCommand(*flags); }; });
}

void AddExplain(CLI::App& app, ExplainFlags* flags, Run* run) {
  CLI::App* c = app.add_subcommand(
      "explain", "Shows which parts of a job's step run on the worker and on each PS");
  AddJob(c, &flags->job);
  c->add_option("--ps", flags->ps, "number of parameter servers of the cluster, 1 to 64")
      ->check(CLI::Range(1, 64))
      ->type_name("N")
      ->capture_default_str();
  c->add_flag("--dot", flags->dot, "as a Graphviz graph, for `dot -Tsvg`");
  AddOverrides(c, &flags->overrides);
  c->callback([flags, run] { *run = [flags] { return coxswain::Explain(*flags); }; });
}

void AddValidate(CLI::App& app, ValidateFlags* flags, Run* run) {
  CLI::App* c =
      app.add_subcommand("validate", "Checks a job file and the columns it names; trains nothing");
  AddJob(c, &flags->job);
  auto* all = c->add_flag("--data", flags->data,
                          "read all of the data, as training would, and show what is in it");
  c->add_flag("--no-data", flags->no_data, "check the job file alone, also where its data is not")
      ->excludes(all);
  AddOverrides(c, &flags->overrides);
  c->callback([flags, run] {
    *run = [flags] {
      using coxswain::ValidateData;
      return coxswain::Validate(flags->job, flags->overrides,
                                flags->data      ? ValidateData::kAll
                                : flags->no_data ? ValidateData::kNothing
                                                 : ValidateData::kColumns);
    };
  });
}

void AddStatus(CLI::App& app, StatusFlags* flags, Run* run) {
  CLI::App* c =
      app.add_subcommand("status", "Shows who is in the cluster, who holds it and what runs");
  c->add_option("--cluster", flags->cluster_file, "the cluster file")
      ->required()
      ->type_name("FILE");
  c->add_option("--timeout", flags->timeout, "how long to wait for answers")
      ->check(CLI::PositiveNumber)
      ->type_name("SECONDS")
      ->capture_default_str();
  c->add_flag("--json", flags->json, "as JSON");
  AddSecret(c, &flags->secret);
  c->callback([flags, run] {
    *run = [flags] {
      return coxswain::ShowStatus(flags->cluster_file, flags->secret, flags->timeout, flags->json);
    };
  });
}

void AddClusterChanges(CLI::App& app, ClusterFlags* flags, Run* run) {
  const auto add = [&](const char* name, const char* help, int (*command)(const ClusterFlags&)) {
    CLI::App* c = app.add_subcommand(name, help);
    c->add_option("HOST:PORT", flags->addresses, "the workers' addresses")
        ->required()
        ->type_name("");
    c->add_option("--cluster", flags->cluster_file, "the cluster file")
        ->required()
        ->type_name("FILE");
    c->add_option("--timeout", flags->timeout, "how long to wait for the daemons' answers")
        ->check(CLI::PositiveNumber)
        ->type_name("SECONDS")
        ->capture_default_str();
    AddSecret(c, &flags->secret);
    c->callback([flags, run, command] { *run = [flags, command] { return command(*flags); }; });
  };
  add("add-worker", "Adds workers to a cluster file and to the job that runs with it",
      coxswain::AddWorkersCommand);
  add("remove-worker", "Removes workers from the end of a cluster file's list",
      coxswain::RemoveWorkersCommand);
}

void AddCheckpoint(CLI::App& app, CheckpointFlags* flags, Run* run) {
  CLI::App* checkpoint = app.add_subcommand("checkpoint", "Shows and checks checkpoints");
  checkpoint->require_subcommand(1);
  const auto add = [&](const char* name, const char* help, int (*command)(const CheckpointFlags&)) {
    CLI::App* c = checkpoint->add_subcommand(name, help);
    c->add_option("DIR", flags->directory, "a directory of checkpoints, or one checkpoint")
        ->required()
        ->type_name("DIR");
    c->callback([flags, run, command] { *run = [flags, command] { return command(*flags); }; });
    return c;
  };
  add("list", "Lists them, newest first", coxswain::ListCheckpointsCommand)
      ->add_flag("--json", flags->json, "as JSON");
  add("verify", "Reads every byte; exit code 3 when the newest is damaged or there is none",
      coxswain::VerifyCheckpointsCommand)
      ->add_flag("--json", flags->json, "as JSON");
  add("inspect", "Shows what the newest one holds", coxswain::InspectCheckpointCommand);
}

// What all kinds of generated data share.
CLI::App* AddGenerated(CLI::App* generate, const char* name, const char* help, GenerateFlags* flags,
                       Run* run, int (*command)(const GenerateFlags&)) {
  CLI::App* c = generate->add_subcommand(name, help);
  c->add_option("--out", flags->out, "the file; gzip when its name ends in .gz")
      ->required()
      ->type_name("FILE");
  c->add_option("--rows", flags->rows, "how many; 1e9 is a number, too")
      ->required()
      ->type_name("N");
  c->add_option("--seed", flags->seed, "the same seed, the same file")
      ->type_name("N")
      ->capture_default_str();
  c->add_option("--threads", flags->threads, "0: by the machine's cores")
      ->check(CLI::Range(0, 1024))
      ->type_name("N")
      ->capture_default_str();
  c->add_flag("--force", flags->force, "replace what is there");
  c->add_flag("--quiet", flags->quiet, "print errors only");
  c->callback([flags, run, command] { *run = [flags, command] { return command(*flags); }; });
  return c;
}

void AddGenerate(CLI::App& app, GenerateFlags* flags, Run* run) {
  CLI::App* generate = app.add_subcommand(
      "generate", "Makes data of any size, and says how good the best model of it is");
  generate->require_subcommand(1);
  CLI::App* criteo =
      AddGenerated(generate, "criteo", "Clicks in Criteo's format, by a factorisation machine",
                   flags, run, coxswain::GenerateCriteo);
  criteo->add_option("--zipf", flags->zipf, "exponent of the words' frequencies")
      ->type_name("S")
      ->capture_default_str();
  criteo
      ->add_option("--ids", flags->ids,
                   "different words of the largest feature; the smallest has 3")
      ->type_name("N")
      ->capture_default_str();
  CLI::App* ratings =
      AddGenerated(generate, "ratings", "Ratings user,item,rating, by a factorisation", flags, run,
                   coxswain::GenerateRatings);
  ratings->add_option("--zipf", flags->zipf, "exponent of the users' and items' frequencies")
      ->type_name("S")
      ->capture_default_str();
  ratings->add_option("--users", flags->users, "different users")
      ->type_name("N")
      ->capture_default_str();
  ratings->add_option("--items", flags->items, "different items")
      ->type_name("N")
      ->capture_default_str();
  ratings->add_option("--dim", flags->dim, "width of the vectors whose products count")
      ->type_name("N")
      ->capture_default_str();
  ratings->add_option("--noise", flags->noise, "deviation of the noise")
      ->type_name("S")
      ->capture_default_str();
}

void AddMakeSecret(CLI::App& app, std::string* path, Run* run) {
  CLI::App* c = app.add_subcommand(
      "make-secret", "Makes a file with a secret for a cluster, which daemons and commands read");
  c->add_option("FILE", *path, "must not be there yet")->required()->type_name("FILE");
  c->callback([path, run] { *run = [path] { return coxswain::MakeSecret(*path); }; });
}

void AddVersion(CLI::App& app, Run* run) {
  app.add_subcommand("version", "Prints the version")->callback([run] {
    *run = [] {
      std::printf("coxswain %s\n", coxswain::kVersion);
      return 0;
    };
  });
}

// A path that is empty comes of a shell's variable that is not set. Taken for a flag that is not
// given, it would cost what the user wanted to keep.
void RefuseEmptyPaths(CLI::App* app) {
  for (CLI::Option* option : app->get_options()) {
    const std::string type = option->get_type_name();
    if (type != "DIR" && type != "FILE" && type != "PATH" && type != "PSxW" &&
        type != "CHAOS.yaml" && type != "CHECKPOINT|STEP") {
      continue;
    }
    option->check(CLI::Validator(
        [type](std::string& value) {
          return value.empty() ? "wanted " + type + ", but what is given is empty" : "";
        },
        ""));
  }
  for (CLI::App* command : app->get_subcommands([](const CLI::App*) { return true; })) {
    RefuseEmptyPaths(command);
  }
}

// `coxswain help`, `coxswain help train`, `coxswain help checkpoint list`: as --help of each.
int Help(CLI::App& app, const std::vector<std::string>& commands) {
  CLI::App* c = &app;
  std::string path = app.get_name();
  for (const std::string& name : commands) {
    std::vector<std::string> names;
    CLI::App* found = nullptr;
    for (CLI::App* sub : c->get_subcommands([](const CLI::App*) { return true; })) {
      if (sub->get_name().empty()) continue;  // a group of options
      names.push_back(sub->get_name());
      if (sub->get_name() == name) found = sub;
    }
    if (found == nullptr) {
      std::fprintf(
          stderr, "error: unknown command %s; %s\n", coxswain::Quoted(name).c_str(),
          names.empty() ? "there is none below it" : coxswain::Alternatives(name, names).c_str());
      return coxswain::kExitUsage;
    }
    path += " " + name;
    c = found;
  }
  // c->help() would tell of the command that was parsed, which is this one.
  const auto formatter = c->get_formatter();
  std::printf("%s", formatter->make_help(c, path, CLI::AppFormatMode::Normal).c_str());
  return coxswain::kExitDone;
}

void AddHelp(CLI::App& app, std::vector<std::string>* commands, Run* run) {
  CLI::App* c = app.add_subcommand("help", "Prints this, or what --help of a command prints");
  c->add_option("COMMAND", *commands, "the command")->type_name("");
  c->callback([&app, commands, run] { *run = [&app, commands] { return Help(app, *commands); }; });
}

// False, with a message that names the command that may have been meant, when the first argument is
// none of the commands: CLI11 would only say that one is required.
bool KnowsCommand(CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return true;
  std::vector<std::string> names;
  for (CLI::App* c : app.get_subcommands([](const CLI::App*) { return true; })) {
    // Of a command with commands of its own, too.
    if (c->get_name() == argv[1]) {
      return c->get_require_subcommand_min() == 0 || KnowsCommand(*c, argc - 1, argv + 1);
    }
    names.push_back(c->get_name());
  }
  std::fprintf(stderr, "error: unknown command %s; %s\n", coxswain::Quoted(argv[1]).c_str(),
               coxswain::Alternatives(argv[1], names).c_str());
  return false;
}

// Says what is wrong with the command line, in the way of all other errors.
int WrongUsage(CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* c = &app;
  std::string command;
  while (!c->get_subcommands().empty()) {
    c = c->get_subcommands()[0];
    command += " " + c->get_name();
  }
  const std::vector<std::string> unknown = c->remaining();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !unknown.empty()) {
    std::vector<std::string> flags;
    std::vector<const CLI::App*> groups = c->get_subcommands(nullptr);
    groups.push_back(c);
    for (const CLI::App* group : groups) {
      for (const CLI::Option* o : group->get_options()) {
        for (const std::string& name : o->get_lnames()) flags.push_back("--" + name);
      }
    }
    const bool flag = unknown[0].rfind("-", 0) == 0;
    std::fprintf(stderr, "error: unknown %s %s; %s\n", flag ? "flag" : "argument",
                 coxswain::Quoted(unknown[0]).c_str(),
                 coxswain::Alternatives(unknown[0], flags).c_str());
  } else {
    std::fprintf(stderr, "error: %s\n", error.what());
  }
  std::fprintf(stderr, "`coxswain%s --help` tells more\n", command.c_str());
  return coxswain::kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  coxswain::StartInterruptThread();
  coxswain::RaiseFileLimit();
  coxswain::InitLogging("coordinator", coxswain::LogLevel::kWarning);
  CLI::App app("Coxswain trains models with large embedding tables on a cluster.", "coxswain");
  app.require_subcommand(1);
  app.footer(kFooter);

  Run run;
  TrainFlags train;
  AddTrain(app, &train, &run);
  TrainFlags chaos;
  AddChaos(app, &chaos, &run);
  EvalFlags eval;
  AddEval(app, &eval, &run);
  RecommendFlags recommend;
  AddRecommend(app, &recommend, &run);
  NearestFlags nearest;
  AddNearest(app, &nearest, &run);
  ExplainFlags explain;
  AddExplain(app, &explain, &run);
  ValidateFlags validate;
  AddValidate(app, &validate, &run);
  StatusFlags status;
  AddStatus(app, &status, &run);
  ClusterFlags cluster;
  AddClusterChanges(app, &cluster, &run);
  CheckpointFlags checkpoint;
  AddCheckpoint(app, &checkpoint, &run);
  coxswain::AddSavedCommands(&app, &run);
  GenerateFlags generate;
  AddGenerate(app, &generate, &run);
  std::string secret_path;
  AddMakeSecret(app, &secret_path, &run);
  AddVersion(app, &run);
  std::vector<std::string> help;
  AddHelp(app, &help, &run);
  RefuseEmptyPaths(&app);

  if (!KnowsCommand(app, argc, argv)) return coxswain::kExitUsage;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != 0) return WrongUsage(app, e);
    app.exit(e);  // prints the help that was asked for
    return coxswain::kExitDone;
  }
  return run();
}
