// `coxswain eval`
#include <memory>

#include "CLI/CLI.hpp"
#include "coordinator/cli/commands/shared_flags.h"

namespace coxswain::cli {
namespace {

void AddFollowFlags(CLI::App* c, EvalFlags* flags, CLI::Option* follow) {
  const auto with_follow = [follow](CLI::Option* option) { option->needs(follow); };
  with_follow(c->add_option("--eval-dir", flags->eval_dir,
                            "with --follow: a directory of its own for the reports and the best "
                            "checkpoint; else DIR/eval")
                  ->type_name("DIR"));
  with_follow(c->add_option("--metric", flags->metric,
                            "with --follow: which checkpoint is the best one goes by this metric; "
                            "else by that of early stopping, or the job's first")
                  ->type_name("NAME"));
  with_follow(c->add_option("--until-step", flags->until_step,
                            "with --follow: end when a checkpoint of so many steps is evaluated")
                  ->check(CLI::NonNegativeNumber)
                  ->type_name("N"));
  with_follow(c->add_flag("--until-finished", flags->until_finished,
                          "with --follow: end when the job's last checkpoint is evaluated"));
  with_follow(
      CheckSeconds(
          c->add_option("--idle-seconds", flags->idle_seconds,
                        "with --follow: end when no checkpoint has come for so long; 0: wait on"))
          ->type_name("SECONDS")
          ->capture_default_str());
}

}  // namespace

void AddEvalCommand(CLI::App& app, Run* run) {
  const auto flags = std::make_shared<EvalFlags>();
  CLI::App* c = app.add_subcommand(
      "eval", "Evaluates a saved model, or a job's checkpoints as they come, on the data");
  c->add_option("JOB", flags->job,
                "the job file; else the one that the model was trained with, which is kept with it")
      ->type_name("FILE");
  auto* what = c->add_option_group("what");
  what->add_option("--model-dir", flags->from.model_dir,
                   "a model that `coxswain train` saved: its job's test "
                   "(or validation) part is evaluated")
      ->type_name("DIR");
  CLI::Option* const checkpoints =
      what->add_option("--checkpoint-dir", flags->from.checkpoint_dir,
                       "the same of a checkpoint: of the newest one in a directory of checkpoints, "
                       "or of a directory that is one")
          ->type_name("DIR");
  CheckNumber(c->add_option("--checkpoint", flags->from.checkpoint,
                            "the checkpoint of this number; else the newest that is good"),
              0, kMostCheckpoint)
      ->needs(checkpoints)
      ->type_name("N");
  CLI::Option* const follow =
      what->add_option("--follow", flags->follow,
                       "the checkpoints of a job that trains: each new one is evaluated on "
                       "`evaluate.part`, and the best one kept, see docs/evaluation.md")
          ->type_name("CHECKPOINT_DIR");
  what->require_option(1);
  AddOverrides(c, &flags->overrides);
  c->add_option("--report", flags->report,
                "write the metrics here as JSON, see docs/report.md; -: to stdout, and all else to "
                "stderr")
      ->type_name("FILE")
      ->excludes(follow);
  c->add_option("--part", flags->part,
                "the part that is evaluated, validation or test; else test, if the split keeps one")
      ->check(CLI::IsMember({"validation", "test"}))
      ->type_name("PART")
      ->excludes(follow);
  c->add_flag("--allow-training-rows", flags->allow_training_rows,
              "also score data whose rows or split are not those of training: rows that the model "
              "was trained on may be among the scored ones, which makes it look better than it is");
  AddFollowFlags(c, flags.get(), follow);
  AddElsewhere(c, &flags->where, "Where it is evaluated; else in this process");
  c->callback([flags, run] {
    flags->where.in_process = flags->where.cluster_file.empty() && flags->where.local.empty();
    *run = [flags] { return Eval(*flags); };
  });
}

}  // namespace coxswain::cli
