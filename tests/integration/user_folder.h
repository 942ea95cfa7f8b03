// A folder as a user of the pages has it: the programs in PATH, and what the commands that are
// shown there speak of.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/testing/data_files.h"
#include "tests/testing/pages.h"
#include "tests/testing/paths.h"
#include "tests/testing/process.h"

namespace coxswain {

using Changes = std::vector<std::pair<std::string, std::string>>;

inline constexpr char kReadme[] = "README.md";

// A folder in which a user works, with the programs in PATH.
class Folder {
 public:
  Process::Result Do(const std::string& line) const {
    return Run({"/bin/sh", "-c", Whole(line)}, Path(), absl::Seconds(120));
  }
  // The same for a line that has to succeed; returns what it wrote.
  std::string MustDo(const std::string& line) const {
    const auto result = Do(line);
    CAPTURE(line, result.out, result.err);
    REQUIRE(result.code == 0);
    return result.out;
  }
  // A line that does not end by itself.
  std::unique_ptr<Process> Start(const std::string& line) const {
    return std::make_unique<Process>(
        std::vector<std::string>{"/bin/sh", "-c", Whole(absl::StrCat("exec ", line))}, Path());
  }
  const DataFiles files;

 private:
  std::string Whole(const std::string& line) const {
    return absl::StrCat("cd ", files.Path(""), " && ", line);
  }
  static Process::Environment Path() {
    const char* path = std::getenv("PATH");
    return {{"PATH", absl::StrCat(COXSWAIN_BINARY_DIR "/bin:", path == nullptr ? "" : path)}};
  }
};

// The job of the front page, with ratings for it; `changes` to the names in both.
inline void WriteFilms(const DataFiles& files, const Changes& changes = {}) {
  const std::vector<std::string> named = {"Heat", "Ronin", "Collateral"};
  std::string ratings = "user,film,stars\n", rows = "user,film\n";
  for (size_t user = 0; user < 20; ++user) {
    const std::string name = user == 0 ? "ada" : absl::StrCat("u", user);
    for (size_t film = 0; film < 20; ++film) {
      if ((user + film) % 5 == 0) continue;  // left to be suggested
      const std::string title = film < 3 ? named[film] : absl::StrCat("f", film);
      absl::StrAppend(&ratings, name, ",", title, ",", 1 + user % 3 + film % 3, "\n");
    }
  }
  absl::StrAppend(&rows, "ada,Heat\nada,Ronin\n");
  const std::vector<std::string> blocks = CodeBlocks(kReadme, "yaml");
  REQUIRE_FALSE(blocks.empty());
  files.Write("films.yaml", absl::StrReplaceAll(blocks[0], changes));
  files.Write("ratings.csv", absl::StrReplaceAll(ratings, changes));
  files.Write("rows.csv", absl::StrReplaceAll(rows, changes));
}

// Jobs whose users are described by what they have, and by more than that.
inline void WriteUsers(const DataFiles& files) {
  const std::vector<std::string> named = {"Heat", "Ronin"};
  std::string rows = "user,item,age,city\n";
  for (size_t user = 0; user < 12; ++user) {
    for (size_t i = 0; i < 8; ++i) {
      const size_t item = (i + user * 3) % 20;
      absl::StrAppend(&rows, user == 0 ? "ada" : absl::StrCat("u", user), ",",
                      item < 2 ? named[item] : absl::StrCat("i", item), ",", 20 + user, ",",
                      user % 2 == 0 ? "Oslo" : "Bergen", "\n");
    }
  }
  files.Write("pairs.csv", rows);
  files.Write("rows.csv", "user_id,item_id,history\n17,3,Heat|Ronin\n");
  const std::string job =
      "name: pairs\ndataset: {path: pairs.csv}\nfeatures:\n  - {name: item, kind: categorical}\n"
      "  - {name: history, kind: history, history_of: item, group_by: user}\n";
  const std::string model =
      "train: {epochs: 2, batch_size: 16}\n"
      "model: {kind: two_tower, dim: 4, item: {feature: item}, user: {features: [";
  files.Write("pairs.yaml", absl::StrCat(job, model, "history]}}\n"));
  files.Write("described.yaml",
              absl::StrCat(job,
                           "  - {name: age, kind: numeric, normalization: standard}\n"
                           "  - {name: city, kind: categorical}\n",
                           model, "history, age, city], hidden: [8]}}\n"));
}

}  // namespace coxswain
