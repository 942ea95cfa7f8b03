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
      "nearest", "Shows the words or items of a saved model with the most similar vectors");
  AddSavedFlags(c, &flags->from);
  auto* whose = c->add_option_group("of", "Nearest to what");
  auto* words = whose->add_option("WORD", flags->words,
                                  "the nearest neighbours of each word, by cosine similarity");
  words->type_name("");
  auto* plus =
      whose->add_option("--plus", flags->plus,
                        "the nearest neighbours of a sum of words: --plus king,woman --minus man");
  plus->type_name("WORD,...")->excludes(words);
  whose->add_option("--minus", flags->minus, "words to subtract from that sum")
      ->type_name("WORD,...")
      ->needs(plus);
  whose->require_option(1, 0);
  c->add_option("--table", flags->table,
                "the table to search; default: the one named after its feature")
      ->type_name("NAME");
  c->add_option("--top", flags->top, "number of neighbours, 1 to 10000")
      ->check(CLI::Range(1, 10000))
      ->type_name("N")
      ->capture_default_str();
  c->add_flag("--json", flags->json, "as JSON");
  c->callback([flags, run] { *run = [flags] { return NearestCommand(*flags); }; });
}

}  // namespace coxswain::cli
