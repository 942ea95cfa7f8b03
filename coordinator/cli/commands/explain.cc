// `coxswain explain`
#include <memory>

#include "CLI/CLI.hpp"
#include "coordinator/cli/commands/shared_flags.h"

namespace coxswain::cli {

void AddExplainCommand(CLI::App& app, Run* run) {
  const auto flags = std::make_shared<ExplainFlags>();
  CLI::App* c = app.add_subcommand(
      "explain", "Shows which parts of a job's step run on the worker and on each PS");
  AddJob(c, &flags->job);
  c->add_option("--ps", flags->ps, "number of parameter servers in the cluster, 1 to 64")
      ->check(CLI::Range(1, 64))
      ->type_name("N")
      ->capture_default_str();
  c->add_flag("--dot", flags->dot, "as a Graphviz graph, for `dot -Tsvg`");
  c->add_flag("--gpu", flags->gpu,
              "show the worker's part as on a worker with a GPU, with copies between host and GPU");
  AddOverrides(c, &flags->overrides);
  c->callback([flags, run] { *run = [flags] { return Explain(*flags); }; });
}

}  // namespace coxswain::cli
