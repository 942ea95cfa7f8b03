// The commands of the program `coxswain`, one line each, in the order of its help. X(train,
// AddTrainCommand) stands for coordinator/cli/commands/train.cc, which defines AddTrainCommand.
#pragma once

#include <functional>

namespace CLI {
class App;
}

#define COX_COMMANDS(X)                            \
  X(train, AddTrainCommand)                        \
  X(chaos, AddChaosCommand)                        \
  X(eval, AddEvalCommand)                          \
  X(predict, AddPredictCommand)                    \
  X(serve, AddServeCommand)                        \
  X(recommend, AddRecommendCommand)                \
  X(nearest, AddNearestCommand)                    \
  X(explain, AddExplainCommand)                    \
  X(validate, AddValidateCommand)                  \
  X(status, AddStatusCommand)                      \
  X(cluster_changes, AddClusterChanges)            \
  X(checkpoint, AddCheckpointCommand)              \
  X(export, AddExportCommand)                      \
  X(table, AddTableCommand)                        \
  X(generate, AddGenerateCommand)                  \
  X(make_secret, AddMakeSecretCommand)             \
  X(make_certificates, AddMakeCertificatesCommand) \
  X(version, AddVersionCommand)                    \
  X(help, AddHelpCommand)

namespace coxswain::cli {

// What the chosen command does; returns the exit code.
using Run = std::function<int()>;

// Each adds its command with its flags to the program; the chosen one sets `run`.
#define COX_DECLARE(file, function) void function(CLI::App& app, Run* run);
COX_COMMANDS(COX_DECLARE)
#undef COX_DECLARE

}  // namespace coxswain::cli
