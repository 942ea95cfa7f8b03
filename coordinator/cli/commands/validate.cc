// `coxswain validate`
#include <memory>

#include "CLI/CLI.hpp"
#include "coordinator/cli/commands/shared_flags.h"

namespace coxswain::cli {
namespace {

struct ValidateFlags {
  std::string job;
  std::vector<std::string> overrides;
  bool data = false, no_data = false;
};

}  // namespace

void AddValidateCommand(CLI::App& app, Run* run) {
  const auto flags = std::make_shared<ValidateFlags>();
  CLI::App* c = app.add_subcommand(
      "validate", "Checks a job file and the columns that it names, without training");
  AddJob(c, &flags->job);
  auto* all =
      c->add_flag("--data", flags->data, "read all data, as training would, and summarise it");
  c->add_flag("--no-data", flags->no_data, "check only the job file, even if its data is not there")
      ->excludes(all);
  AddOverrides(c, &flags->overrides);
  c->callback([flags, run] {
    *run = [flags] {
      return Validate(flags->job, flags->overrides,
                      flags->data      ? ValidateData::kAll
                      : flags->no_data ? ValidateData::kNothing
                                       : ValidateData::kColumns);
    };
  });
}

}  // namespace coxswain::cli
