// `coxswain help`
#include <memory>

#include "CLI/CLI.hpp"
#include "coordinator/cli/commands/command_list.h"
#include "coordinator/cli/exit_code.h"
#include "runtime/data/names.h"

namespace coxswain::cli {
namespace {

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
          stderr, "error: unknown command %s; %s\n", data::Quoted(name).c_str(),
          names.empty() ? "there is none below it" : data::Alternatives(name, names).c_str());
      return kExitUsage;
    }
    path += " " + name;
    c = found;
  }
  // c->help() would tell of the command that was parsed, which is this one.
  const auto formatter = c->get_formatter();
  std::printf("%s", formatter->make_help(c, path, CLI::AppFormatMode::Normal).c_str());
  return kExitDone;
}

}  // namespace

void AddHelpCommand(CLI::App& app, Run* run) {
  const auto commands = std::make_shared<std::vector<std::string>>();
  CLI::App* c = app.add_subcommand("help", "Prints this help, or that of a command");
  c->add_option("COMMAND", *commands, "the command")->type_name("");
  c->callback([&app, commands, run] { *run = [&app, commands] { return Help(app, *commands); }; });
}

}  // namespace coxswain::cli
