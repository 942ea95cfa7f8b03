// `coxswain recommend`
#include <memory>

#include "CLI/CLI.hpp"
#include "coordinator/cli/commands/shared_flags.h"
#include "coordinator/cli/saved_flags.h"

namespace coxswain::cli {

void AddRecommendCommand(CLI::App& app, Run* run) {
  const auto flags = std::make_shared<RecommendFlags>();
  CLI::App* c = app.add_subcommand("recommend",
                                   "Suggests items with a saved two_tower, sasrec or "
                                   "matrix_factorization model");
  AddSavedFlags(c, &flags->from);
  AddElsewhere(c, &flags->where, "Where the model runs; default: in this process");
  auto* whom = c->add_option_group("for", "For whom");
  auto* users = whom->add_option("--user", flags->groups,
                                 "for these users of the training data, by what the model has "
                                 "stored about them, or by their own vectors");
  users->type_name("NAME");
  auto* lists = whom->add_option(
      "--items", flags->item_lists,
      "for someone who has these items, separated by commas; an item with a comma goes in quotes");
  lists->type_name("NAME,...")->excludes(users);
  whom->add_option("--item", flags->items,
                   "as --items, for one item, taken literally with its commas; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false)
      ->excludes(users);
  auto* values = whom->add_option("--value", flags->values,
                                  "for someone described by values of the model's user features, "
                                  "each given once; a list's values are separated by commas");
  values->type_name("NAME=VALUE")
      ->allow_extra_args(false)
      ->excludes(users)
      ->excludes(lists)
      ->excludes("--item");
  auto* batch =
      whom->add_flag("--batch", flags->batch, "for all users that the model knows, as CSV")
          ->excludes(users)
          ->excludes(lists)
          ->excludes("--item")
          ->excludes(values);
  whom->require_option(1, 0);
  c->add_option("--output", flags->output, "write the CSV to this file; default: to stdout")
      ->type_name("FILE")
      ->needs(batch);
  c->add_flag("--force", flags->force, "replace the output file if it exists")->needs(batch);
  c->add_flag("--include-known", flags->include_known,
              "also suggest items that they are known to have, which are otherwise left out");
  c->add_option("--top", flags->top, "number of suggestions, 1 to 1000")
      ->check(CLI::Range(1, 1000))
      ->type_name("N")
      ->capture_default_str();
  c->callback([flags, run] { *run = [flags] { return Recommend(*flags); }; });
}

}  // namespace coxswain::cli
