#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "CLI/CLI.hpp"
#include "coordinator/cli/command_util.h"
#include "coordinator/cli/commands/command_list.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/interrupt.h"
#include "runtime/base/logging.h"
#include "runtime/data/names.h"
#include "runtime/data/store_calls.h"
#include "runtime/env/process_limits.h"
#include "runtime/tensor/limits.h"

namespace {

constexpr char kFooter[] =
    "A cluster consists of daemons, coxswain-ps and coxswain-worker, listed in a cluster file:\n"
    "  ps: [host:port, ...]\n"
    "  worker: [host:port, ...]\n\n"
    "Exit codes:\n"
    "  0    done\n"
    "  2    wrong usage, configuration or data, found before training; an output that would\n"
    "       overwrite a file; an evaluation of rows that may have been trained on\n"
    "  3    the job failed, or its model could not be saved where it should be; a promise was\n"
    "       broken under --chaos; a file is damaged; an object store does not answer\n"
    "  4    the cluster could not be reached in time, or another job holds it or the directory of\n"
    "       checkpoints\n"
    "  75   interrupted by Ctrl-C or SIGTERM after writing a checkpoint, or with --resume before\n"
    "       it trained; --resume continues\n"
    "  130  interrupted by Ctrl-C or SIGTERM without checkpoints, or a second time";

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
  std::fprintf(stderr, "error: unknown command %s; %s\n", coxswain::data::Quoted(argv[1]).c_str(),
               coxswain::data::Alternatives(argv[1], names).c_str());
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
        for (const std::string& name : o->get_lnames()) {
          const std::string listed = "--" + name;  // of --help there is one in each group
          if (std::find(flags.begin(), flags.end(), listed) == flags.end()) flags.push_back(listed);
        }
      }
    }
    const bool flag = unknown[0].rfind("-", 0) == 0;
    std::fprintf(stderr, "error: unknown %s %s; %s\n", flag ? "flag" : "argument",
                 coxswain::data::Quoted(unknown[0]).c_str(),
                 coxswain::data::Alternatives(unknown[0], flags).c_str());
  } else {
    std::fprintf(stderr, "error: %s\n", error.what());
  }
  std::fprintf(stderr, "`coxswain%s --help` tells more\n", command.c_str());
  return coxswain::cli::kExitUsage;
}

// What is printed may still lie in a buffer, and the disk that it goes to may be full.
int Finish(int code) {
  const bool printed = std::cout.flush().good() && std::fflush(stdout) == 0 && !std::ferror(stdout);
  if (printed || code != coxswain::cli::kExitDone) return code;
  std::fprintf(stderr, "error: cannot write stdout\n");
  return coxswain::cli::kExitJobFailed;
}

}  // namespace

int main(int argc, char** argv) {
  coxswain::cli::StartInterruptThread();
  coxswain::env::RaiseFileLimit();
  coxswain::InitLogging("coordinator", coxswain::LogLevel::kWarning);
  CLI::App app("Coxswain trains models with large embedding tables on a cluster.", "coxswain");
  app.require_subcommand(1);
  app.footer(kFooter);

  coxswain::cli::Run run;
#define COX_ADD(file, function) coxswain::cli::function(app, &run);
  COX_COMMANDS(COX_ADD)
#undef COX_ADD
  RefuseEmptyPaths(&app);

  if (!KnowsCommand(app, argc, argv)) return coxswain::cli::kExitUsage;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != 0) return WrongUsage(app, e);
    app.exit(e);  // prints the help that was asked for
    return Finish(coxswain::cli::kExitDone);
  }
  int code = coxswain::cli::kExitDone;
  const absl::Status had_memory = coxswain::CatchAllocationErrors([&] {
    code = run();
    return absl::OkStatus();
  });
  if (!had_memory.ok()) code = coxswain::cli::Complain(had_memory);
  // A job's results are its model and its report: what it prints is news of them.
  const bool prints_news = app.got_subcommand("train") || app.got_subcommand("chaos");
  if (!prints_news) code = Finish(code);
  if (coxswain::data::StoreCallsRun()) {  // nobody waits for them
    std::fflush(nullptr);
    _exit(code);
  }
  return code;
}
