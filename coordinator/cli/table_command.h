// `coxswain table stat` and `coxswain table lookup`.
#pragma once

#include <string>
#include <vector>

#include "coordinator/cli/saved_flags.h"

namespace coxswain::cli {

struct TableStatFlags {
  SavedFlags from;
  std::vector<std::string> names;  // empty: all tables
  bool json = false;
};
int TableStatCommand(const TableStatFlags& flags);

struct TableLookupFlags {
  SavedFlags from;
  std::string table;
  std::vector<std::string> keys;
  bool ids = false;  // the keys are ids, also where there is a vocabulary
  int nearest = 0;
  bool json = false;
};
int TableLookupCommand(const TableLookupFlags& flags);

}  // namespace coxswain::cli
