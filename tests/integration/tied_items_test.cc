// Items that a model cannot tell apart: each of them counts against the others.
#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/integration/jobs.h"

namespace coxswain {
namespace {

constexpr int kNew = 60;  // items that training never meets, all of one genre

std::string WriteJob(const DataFiles& files, const std::string& model) {
  std::string items = "movie,genre\n", words, rated = "user,movie\n", held_out = "user,movie\n";
  for (int i = 0; i < 20 + kNew; ++i) {
    const std::string name = absl::StrCat(i < 20 ? "old" : "new", i);
    absl::StrAppend(&items, name, ",", i < 20 ? absl::StrCat("g", i % 3) : "g0", "\n");
    absl::StrAppend(&words, name, "\n");
    if (i < 20) continue;
    absl::StrAppend(&held_out, "u", i - 20, ",", name, "\n");
    for (int r = 0; r < 5; ++r)
      absl::StrAppend(&rated, "u", i - 20, ",old", (i * 7 + r) % 20, "\n");
  }
  files.Write("items.csv", items);
  files.Write("words.txt", words);
  files.Write("rated.csv", rated);
  files.Write("held_out.csv", held_out);
  return files.Write(
      "job.yaml",
      absl::StrCat("dataset:\n  path: rated.csv\n  join: [{path: items.csv, on: movie}]\n"
                   "features:\n  - {name: user, kind: categorical}\n"
                   "  - {name: movie, kind: categorical, vocabulary_file: words.txt}\n"
                   "  - {name: genre, kind: categorical}\n"
                   "split: {test_path: held_out.csv}\nmodel:\n  kind: two_tower\n  dim: 16\n",
                   model,
                   "train: {epochs: 3, batch_size: 20}\n"
                   "evaluate: {group: user, metrics: [hit_rate@",
                   kNew - 1, ", mrr]}\n"));
}

TEST_CASE("new items that are described alike rank behind each other, whatever the rounding",
          "[ranking]") {
  for (const std::string model :
       {"  user: {features: user}\n  item: {feature: movie, features: genre, bias: false}\n",
        "  user: {features: user}\n  item: {feature: movie, features: genre, hidden: [8], bias: "
        "false}\n",
        "  user: {features: user, hidden: [8]}\n  normalize: true\n"
        "  item: {feature: movie, features: genre, bias: false}\n"}) {
    for (const std::string compute : {"f32", "bf16"}) {
      const DataFiles files;
      const std::string report = files.Path("report.json");
      const auto trained = Coxswain({"train", WriteJob(files, model), "--in-process", "--quiet",
                                     "--report", report, "--set", "train.compute=" + compute});
      CAPTURE(model, compute, trained.out, trained.err);
      REQUIRE(trained.code == 0);
      const auto metrics = ReadJson(report)["metrics"];
      CAPTURE(metrics.dump());
      CHECK(metrics[absl::StrCat("hit_rate@", kNew - 1)] == 0);
      CHECK(metrics["mrr"].get<double>() <= 1.0 / kNew);
    }
  }
}

}  // namespace
}  // namespace coxswain
