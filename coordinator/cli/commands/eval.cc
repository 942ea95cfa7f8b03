// `coxswain eval`
#include <memory>

#include "CLI/CLI.hpp"
#include "coordinator/cli/commands/shared_flags.h"

namespace coxswain::cli {

void AddEvalCommand(CLI::App& app, Run* run) {
  const auto flags = std::make_shared<EvalFlags>();
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
  c->callback([flags, run] { *run = [flags] { return Eval(*flags); }; });
}

}  // namespace coxswain::cli
