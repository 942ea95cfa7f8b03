// `coxswain nearest`
#include <memory>

#include "CLI/CLI.hpp"
#include "coordinator/cli/commands/shared_flags.h"
#include "coordinator/cli/nearest_command.h"
#include "coordinator/cli/saved_flags.h"

namespace coxswain::cli {

void AddNearestCommand(CLI::App& app, Run* run) {
  const auto flags = std::make_shared<NearestFlags>();
  CLI::App* c = app.add_subcommand(
      "nearest", "Shows which words or items of a saved model have about the same vectors");
  AddSavedFlags(c, &flags->from);
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
                "a table of the model; else the one that has the name of its feature")
      ->type_name("NAME");
  c->add_option("--top", flags->top, "how many, 1 to 10000")
      ->check(CLI::Range(1, 10000))
      ->type_name("N")
      ->capture_default_str();
  c->add_flag("--json", flags->json, "as JSON");
  c->callback([flags, run] { *run = [flags] { return NearestCommand(*flags); }; });
}

}  // namespace coxswain::cli
