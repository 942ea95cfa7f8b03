// What commands print of tables whose features keep names.
#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/exit_code.h"
#include "coordinator/cli/nearest_command.h"
#include "coordinator/cli/table_command.h"
#include "runtime/data/vocabulary.h"
#include "tests/testing/saved_jobs.h"

namespace coxswain::cli {
namespace {

using Catch::Matchers::Contains;

// What a command that ends well writes to standard output.
std::string Printed(const DataFiles& files, const std::function<int()>& command) {
  const std::string path = files.Path("printed");
  std::fflush(stdout);
  const int before = dup(STDOUT_FILENO);
  const int file = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
  dup2(file, STDOUT_FILENO);
  const int code = command();
  std::fflush(stdout);
  dup2(before, STDOUT_FILENO);
  close(file);
  close(before);
  CHECK(code == kExitDone);
  std::ifstream printed(path);
  return {std::istreambuf_iterator<char>(printed), {}};
}

// Three pages in one bucket, and a user with each.
std::string Text(const DataFiles& files) {
  files.Write("a.csv", "user,page,y\nann,p,1\nbob,q,0\ncleo,r,1\nann,p,0\n");
  return "name: visits\ndataset: {path: a.csv}\nfeatures:\n"
         "  - {name: user, kind: categorical, id: hash, keep_names: true}\n"
         "  - {name: page, kind: categorical, hash_buckets: 1, keep_names: true}\n"
         "label: {column: y}\nmodel: {kind: mlp, hidden: [4]}\ntrain: {batch_size: 4}\n";
}

TEST_CASE("nearest and table lookup print the names of hashed values", "[cli][names]") {
  const DataFiles files;
  SavedFlags from;
  from.model_dir = TrainAndSave(files, Text(files)).directory;
  const std::string nearest = Printed(files, [&] {
    NearestFlags flags;
    flags.from = from;
    flags.table = "user";
    flags.words = {"ann"};
    return NearestCommand(flags);
  });
  CHECK_THAT(nearest, Catch::StartsWith("ann\n") && Contains("  bob\n") && Contains("  cleo\n"));

  TableLookupFlags flags;
  flags.from = from;
  flags.table = "user";
  flags.keys = {"cleo"};
  flags.nearest = 2;
  const int64_t cleo = data::IdOfHash("cleo", 0);
  const std::string of_cleo = Printed(files, [&] { return TableLookupCommand(flags); });
  CHECK_THAT(of_cleo, Catch::StartsWith(absl::StrCat("cleo (id ", cleo, "), norm ")) &&
                          Contains("  ann\n") && Contains("  bob\n"));
  flags.keys = {absl::StrCat(cleo)};
  flags.ids = true;
  CHECK(Printed(files, [&] { return TableLookupCommand(flags); }) == of_cleo);

  flags.table = "page";
  flags.keys = {"q"};
  flags.ids = false;
  flags.nearest = 0;
  CHECK_THAT(Printed(files, [&] { return TableLookupCommand(flags); }),
             Catch::StartsWith("p | q | r (id 0), norm "));
}

}  // namespace
}  // namespace coxswain::cli
