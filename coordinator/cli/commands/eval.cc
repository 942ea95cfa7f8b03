// `coxswain eval`
#include <memory>

#include "CLI/CLI.hpp"
#include "coordinator/cli/commands/shared_flags.h"

namespace coxswain::cli {
namespace {

void AddFollowFlags(CLI::App* c, EvalFlags* flags, CLI::Option* follow) {
  const auto with_follow = [follow](CLI::Option* option) { option->needs(follow); };
  with_follow(c->add_option("--eval-dir", flags->eval_dir,
                            "with --follow: directory for the reports and the best checkpoint, and "
                            "nothing else; default: CHECKPOINT_DIR/eval")
                  ->type_name("DIR"));
  with_follow(c->add_option("--metric", flags->metric,
                            "with --follow: the metric by which the best checkpoint is chosen; "
                            "default: the metric of early stopping, or else the job's first")
                  ->type_name("NAME"));
  with_follow(c->add_option("--tensorboard", flags->tensorboard,
                            "with --follow: write the metrics to a new event file in this "
                            "directory, for TensorBoard, see docs/report.md")
                  ->type_name("DIR"));
  with_follow(
      c->add_option("--until-step", flags->until_step,
                    "with --follow: end when a checkpoint of at least N steps has been evaluated")
          ->check(CLI::NonNegativeNumber)
          ->type_name("N"));
  with_follow(c->add_flag("--until-finished", flags->until_finished,
                          "with --follow: end when the job's last checkpoint has been evaluated"));
  with_follow(CheckSeconds(c->add_option("--idle-seconds", flags->idle_seconds,
                                         "with --follow: end when no checkpoint has appeared for "
                                         "this long; 0: wait without limit"))
                  ->type_name("SECONDS")
                  ->capture_default_str());
}

}  // namespace

void AddEvalCommand(CLI::App& app, Run* run) {
  const auto flags = std::make_shared<EvalFlags>();
  CLI::App* c = app.add_subcommand(
      "eval", "Evaluates a saved model, or a job's checkpoints as they appear, on the job's data");
  c->add_option(
       "JOB", flags->job,
       "the job file; default: the one that the model was trained with, which is saved with it")
      ->type_name("FILE");
  auto* what = c->add_option_group("what");
  what->add_option(
          "--model-dir", flags->from.model_dir,
          "a model saved by `coxswain train`, evaluated on its job's test (or validation) part")
      ->type_name("DIR");
  CLI::Option* const checkpoints =
      what->add_option("--checkpoint-dir", flags->from.checkpoint_dir,
                       "a checkpoint instead of a model: the newest one in a directory of "
                       "checkpoints, or the directory of one checkpoint")
          ->type_name("DIR");
  CheckNumber(c->add_option("--checkpoint", flags->from.checkpoint,
                            "number of the checkpoint; default: the newest good one"),
              0, kMostCheckpoint)
      ->needs(checkpoints)
      ->type_name("N");
  CLI::Option* const follow =
      what->add_option("--follow", flags->follow,
                       "the checkpoints of a running job: each new one is evaluated on "
                       "`evaluate.part`, and the best one is kept, see docs/evaluation.md")
          ->type_name("CHECKPOINT_DIR");
  what->require_option(1);
  AddOverrides(c, &flags->overrides);
  c->add_option("--report", flags->report,
                "write the metrics to this file as JSON, see docs/report.md; -: to stdout, with "
                "all other output on stderr")
      ->type_name("FILE")
      ->excludes(follow);
  c->add_option("--part", flags->part,
                "part to evaluate, validation or test; default: test, if the split has a test part")
      ->check(CLI::IsMember({"validation", "test"}))
      ->type_name("PART")
      ->excludes(follow);
  c->add_flag(
      "--allow-training-rows", flags->allow_training_rows,
      "evaluate even if the rows or the split of the data are not those of training: rows that the "
      "model was trained on may then be scored, which makes it look better than it is");
  AddFollowFlags(c, flags.get(), follow);
  AddElsewhere(c, &flags->where, "Where the evaluation runs; default: in this process");
  c->callback([flags, run] {
    flags->where.in_process = flags->where.cluster_file.empty() && flags->where.local.empty();
    *run = [flags] { return Eval(*flags); };
  });
}

}  // namespace coxswain::cli
