// `coxswain table`
#include <memory>

#include "CLI/CLI.hpp"
#include "coordinator/cli/commands/command_list.h"
#include "coordinator/cli/saved_flags.h"
#include "coordinator/cli/table_command.h"

namespace coxswain::cli {

void AddTableCommand(CLI::App& app, Run* run) {
  CLI::App* table = app.add_subcommand("table", "Shows the tables of a saved model or checkpoint");
  table->require_subcommand(1);

  const auto stat = std::make_shared<TableStatFlags>();
  CLI::App* c = table->add_subcommand("stat", "Shows sizes and row norms of tables");
  AddSavedFlags(c, &stat->from);
  c->add_option("NAME", stat->names, "the variables to show; default: all tables")->type_name("");
  c->add_flag("--json", stat->json, "as JSON");
  c->callback([stat, run] { *run = [stat] { return TableStatCommand(*stat); }; });

  const auto lookup = std::make_shared<TableLookupFlags>();
  c = table->add_subcommand("lookup", "Shows rows of a table");
  AddSavedFlags(c, &lookup->from);
  c->add_option("NAME", lookup->table, "the table")->required()->type_name("");
  c->add_option("WORD", lookup->keys, "names of rows, or ids if rows have no names")
      ->required()
      ->type_name("");
  c->add_flag("--ids", lookup->ids, "the rows are given by ids, even if they have names");
  c->add_option("--nearest", lookup->nearest,
                "also show this many nearest rows, by cosine similarity, 1 to 1000")
      ->check(CLI::Range(1, 1000))
      ->type_name("N");
  c->add_flag("--json", lookup->json, "as JSON");
  c->callback([lookup, run] { *run = [lookup] { return TableLookupCommand(*lookup); }; });
}

}  // namespace coxswain::cli
