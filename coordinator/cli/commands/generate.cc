// `coxswain generate`
#include <memory>

#include "CLI/CLI.hpp"
#include "coordinator/cli/commands/command_list.h"
#include "coordinator/cli/generate_command.h"

namespace coxswain::cli {
namespace {

// What all kinds of generated data share.
CLI::App* AddGenerated(CLI::App* generate, const char* name, const char* help,
                       const std::shared_ptr<GenerateFlags>& flags, Run* run,
                       int (*command)(const GenerateFlags&)) {
  CLI::App* c = generate->add_subcommand(name, help);
  c->add_option("--out", flags->out,
                "the file to write, compressed with gzip if its name ends in .gz")
      ->required()
      ->type_name("FILE");
  c->add_option("--rows", flags->rows, "number of rows; may be written as 1e9")
      ->required()
      ->type_name("N");
  c->add_option("--seed", flags->seed, "random seed; the same seed gives the same file")
      ->type_name("N")
      ->capture_default_str();
  c->add_option("--threads", flags->threads, "number of threads; 0: by the machine's cores")
      ->check(CLI::Range(0, 1024))
      ->type_name("N")
      ->capture_default_str();
  c->add_flag("--force", flags->force, "replace the file if it exists");
  c->add_flag("--quiet", flags->quiet, "print errors only");
  c->callback([flags, run, command] { *run = [flags, command] { return command(*flags); }; });
  return c;
}

}  // namespace

void AddGenerateCommand(CLI::App& app, Run* run) {
  const auto flags = std::make_shared<GenerateFlags>();
  CLI::App* generate = app.add_subcommand(
      "generate",
      "Generates data of any size, and shows the best score that a model can reach on it");
  generate->require_subcommand(1);
  CLI::App* criteo = AddGenerated(generate, "criteo",
                                  "Clicks in Criteo's format, drawn from a factorisation machine",
                                  flags, run, GenerateCriteo);
  criteo->add_option("--zipf", flags->zipf, "Zipf exponent of the words' frequencies")
      ->type_name("S")
      ->capture_default_str();
  criteo
      ->add_option("--ids", flags->ids,
                   "number of distinct words of the largest feature; the smallest has 3")
      ->type_name("N")
      ->capture_default_str();
  CLI::App* ratings = AddGenerated(generate, "ratings",
                                   "Ratings user,item,rating, drawn from a matrix factorisation",
                                   flags, run, GenerateRatings);
  ratings->add_option("--zipf", flags->zipf, "Zipf exponent of the users' and items' frequencies")
      ->type_name("S")
      ->capture_default_str();
  ratings->add_option("--users", flags->users, "number of distinct users")
      ->type_name("N")
      ->capture_default_str();
  ratings->add_option("--items", flags->items, "number of distinct items")
      ->type_name("N")
      ->capture_default_str();
  ratings->add_option("--dim", flags->dim, "dimension of the user and item vectors")
      ->type_name("N")
      ->capture_default_str();
  ratings->add_option("--noise", flags->noise, "standard deviation of the noise")
      ->type_name("S")
      ->capture_default_str();
}

}  // namespace coxswain::cli
