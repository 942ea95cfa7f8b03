// Items with features: what is known of each item by its id, the vectors that follow of it in
// training, in rankings and in searches, against plain loops over the values of the variables.
//
// First the data, then the catalogue, then vectors and ranks, then what is refused.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/job/job_parser.h"
#include "coordinator/model/item_catalogue.h"
#include "coordinator/model/item_search.h"
#include "coordinator/model/model.h"
#include "coordinator/model/model_parts.h"
#include "runtime/data/dataset.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"
#include "tests/testing/items_on_cluster.h"

namespace coxswain::model {
namespace {

using Catch::Matchers::Contains;
using testing::Must;
using testing::MustStart;
using testing::ToVector;

constexpr char kRows[] =
    "user,film\nu,heat\nu,ronin\nv,babe\nv,heat\nw,babe\nw,lost\nu,heat\nv,ronin\n";
constexpr char kTest[] = "user,film\nu,babe\nv,ronin\nw,heat\nw,other\n";
// "lost" is not among them; "alien" is in no row.
constexpr char kFilms[] =
    "id,genres,title,year,studio,tags\n"
    "babe,family,Babe,1995,u,pig:2|farm\n"
    "heat,crime|drama,The Heat,1996,w,\n"
    "alien,horror|crime,\"The Alien, the\",1979,f,ship:0.5\n"
    "ronin,crime,Ronin,1998,u,paris\n";

std::string Features(absl::string_view film) {
  return absl::StrCat(
      "features:\n  - {name: user, kind: categorical}\n  - {name: film, kind: categorical", film,
      "}\n  - {name: genres, kind: categorical, value_separator: '|'}\n",
      "  - {name: words, kind: categorical, column: title, tokens: words, combiner: sum}\n",
      "  - {name: year, kind: numeric, normalization: min_max}\n",
      "  - {name: studio, kind: categorical}\n",
      "  - {name: tags, kind: categorical, value_separator: '|', weight_separator: ':', ",
      "combiner: sum}\n");
}

constexpr char kOfTable[] = ", vocabulary_file: films.csv";

// The files, and the job with this model.
struct Films {
  explicit Films(const std::string& model, absl::string_view film = kOfTable,
                 absl::string_view films = kFilms) {
    files.Write("rows.csv", kRows);
    files.Write("test.csv", kTest);
    files.Write("films.csv", films);
    text = absl::StrCat(
        "dataset: {path: rows.csv, join: [{path: films.csv, left_on: film, right_on: id}]}\n",
        Features(film), "split: {test_path: test.csv}\n", model);
  }
  absl::StatusOr<job::JobSpec> Job(const std::vector<std::string>& set = {}) const {
    return job::ParseKeptJob(text, files.Path("job.yaml"), files.Path(""), set);
  }
  std::unique_ptr<data::Dataset> Data(const job::JobSpec& job) const {
    return Must(data::Dataset::Load(job.dataset));
  }

  DataFiles files;
  std::string text;
};

std::string Model(const std::string& item, const std::string& rest = "") {
  return absl::StrCat("model: {kind: two_tower, dim: 4, user: {features: [user]}, item: {", item,
                      "}", rest, "}\n");
}

constexpr char kAllFeatures[] =
    "feature: film, features: [genres, words, year, studio, tags], hidden: [6]";

TEST_CASE("each item has its values by its id, from the table that is joined by it", "[items]") {
  const Films films(Model(kAllFeatures));
  for (const bool streamed : {false, true}) {
    CAPTURE(streamed);
    const auto job =
        Must(films.Job({absl::StrCat("dataset.streaming=", streamed ? "true" : "false"),
                        absl::StrCat("dataset.cache_directory=", films.files.Path("cache"))}));
    const auto data = films.Data(job);
    REQUIRE((data->index() != nullptr) == streamed);
    // The table's keys, in its order, and a bucket of others.
    REQUIRE(*data->vocabulary("film") ==
            std::vector<std::string>{"babe", "heat", "alien", "ronin"});
    REQUIRE(data->vocabulary_size("film") == 5);
    const auto catalogue = Must(
        ItemCatalogue::Read(job, *data, "film", {"genres", "words", "year", "studio", "tags"}));
    const auto id = [&](const char* feature, const char* text) {
      return *data->Lookup(feature, text);
    };
    const ItemCatalogue::Values& genres = *catalogue.Find("genres");
    // Nobody watched a film of horror.
    CHECK(ToVector<int64_t>(genres.values) ==
          std::vector<int64_t>{id("genres", "family"), id("genres", "crime"), id("genres", "drama"),
                               id("genres", "crime"), id("genres", "crime")});
    CHECK(ToVector<int32_t>(genres.offsets) == std::vector<int32_t>{0, 1, 3, 4, 5, 5});
    const ItemCatalogue::Values& words = *catalogue.Find("words");
    CHECK(ToVector<int64_t>(words.values) ==
          std::vector<int64_t>{id("words", "babe"), id("words", "the"), id("words", "heat"),
                               id("words", "the"), id("words", "the"), id("words", "ronin")});
    CHECK(ToVector<int32_t>(words.offsets) == std::vector<int32_t>{0, 1, 3, 5, 6, 6});
    // Of the rows' years the least is 0 (missing, of "lost"), and the largest 1998.
    const std::vector<float> years = ToVector<float>(catalogue.Find("year")->numbers);
    REQUIRE(years.size() == 5);
    CHECK(years[2] == Approx(1979.0 / 1998));
    CHECK(years[3] == Approx(1));
    CHECK(years[4] == 0);
    const ItemCatalogue::Values& studio = *catalogue.Find("studio");
    CHECK(ToVector<int32_t>(studio.offsets) == std::vector<int32_t>{0, 1, 2, 3, 4, 4});
    CHECK(studio.values.data<int64_t>()[3] == id("studio", "u"));
    const ItemCatalogue::Values& tags = *catalogue.Find("tags");
    CHECK(ToVector<float>(tags.weights) == std::vector<float>{2, 1, 1});
    CHECK(ToVector<int32_t>(tags.offsets) == std::vector<int32_t>{0, 2, 2, 2, 3, 3});
    CHECK(catalogue.Find("user") == nullptr);
  }
}

TEST_CASE("items that the table lacks have no values, and a learned vocabulary no other items",
          "[items]") {
  const Films films(Model(kAllFeatures), "");
  const auto job = Must(films.Job());
  const auto data = films.Data(job);
  const auto items = *data->vocabulary("film");
  CHECK(items == std::vector<std::string>{"heat", "ronin", "babe", "lost"});
  const auto catalogue = Must(ItemCatalogue::Read(job, *data, "film", {"genres", "studio"}));
  CHECK(ToVector<int32_t>(catalogue.Find("genres")->offsets) ==
        std::vector<int32_t>{0, 2, 3, 4, 4, 4});
}

// A model as it begins or after some steps: the scores of all items, whole and in pieces.
struct Scored {
  Scored(const Films& films, int64_t steps, const std::vector<std::string>& set = {}, int ps = 2) {
    const job::JobSpec job = Must(films.Job(set));
    strategy.emplace(MustStart(ps, 2, 1));
    testing::ItemsOnCluster on(&*strategy, job, /*batch_size=*/8, std::max<int64_t>(1, steps));
    PerWorkerDataset& dataset = on.dataset;
    ModelParts& parts = on.parts;
    const ItemModel& model = on.model;
    REQUIRE(model.in_pieces());
    items = parts.Candidates("film");
    const RemoteFunction step = Must(strategy->Define("step", dataset, [&](FunctionBuilder& f) {
      parts.set_training(true);
      f.Result("loss", model.Train(f, parts));
      parts.set_training(false);
    }));
    const RemoteFunction all = Must(strategy->Define(
        "all", dataset,
        [&](FunctionBuilder& f) {
          model.Predict(f, parts);
          model.PredictUser(f, parts);
          model.PredictItems(f, parts);
        },
        Part::kTest));
    const RemoteFunction evaluate = Must(strategy->Define(
        "evaluate", dataset, [&](FunctionBuilder& f) { model.Evaluate(f, parts); }, Part::kTest));
    ClusterCoordinator coordinator(*strategy);
    for (int64_t i = 0; i < steps; ++i) {
      const auto results = Must(coordinator.Schedule(step, *dataset.NextTicket()).Get());
      losses.push_back(results[0].data<float>()[0]);
    }
    whole = Must(coordinator.Schedule(all, Ticket{Part::kTest, 0, 0, 4}).Get());
    const std::vector<std::vector<Tensor>> evaluated = {
        Must(coordinator.Schedule(evaluate, Ticket{Part::kTest, 0, 0, 4}).Get())};
    ItemSearch::Limits limits;
    limits.least = limits.most = 2;
    ItemSearch search(&*strategy, model, parts, limits);
    ranks = Must(search.Ranks(evaluated, [] { return false; }));
    best = Must(search.Best(whole[1], items, [] { return false; }));
    for (const auto& info : strategy->variables()) {
      std::vector<float>& values = tables[info->name];
      if (info->shards.size() > 1) continue;
      values = ToVector<float>(Must(strategy->ReadShard(*info, 0, 0, info->shape.dim(0))));
    }
    const auto catalogue = parts.items();
    genres = ToVector<int64_t>(catalogue->Find("genres")->values);
    offsets = ToVector<int32_t>(catalogue->Find("genres")->offsets);
  }

  std::optional<ParameterServerStrategy> strategy;
  int64_t items = 0;
  std::vector<float> losses;
  std::vector<Tensor> whole;  // scores, users, items, their biases
  std::vector<int64_t> ranks, genres;
  std::vector<int32_t> offsets;
  BestItems best;
  std::map<std::string, std::vector<float>> tables;
};

TEST_CASE("an item's vector is the sum of its row and of what its features say", "[items]") {
  const Films films(Model("feature: film, features: [genres]"));
  for (const int64_t steps : {0, 3}) {
    CAPTURE(steps);
    const Scored s(films, steps, {}, 1);
    const std::vector<float> vectors = ToVector<float>(s.whole[2]);
    REQUIRE(vectors.size() == 5 * 4);
    const std::vector<float>&own = s.tables.at("film"), &genre = s.tables.at("genres");
    for (size_t item = 0; item < 5; ++item) {
      for (size_t d = 0; d < 4; ++d) {
        const int32_t begin = s.offsets[item], end = s.offsets[item + 1];
        float sum = 0;
        for (int32_t e = begin; e < end; ++e) {
          sum += genre[static_cast<size_t>(s.genres[static_cast<size_t>(e)]) * 4 + d];
        }
        const float mean = begin == end ? 0 : sum / static_cast<float>(end - begin);
        CHECK(vectors[item * 4 + d] == Approx(own[item * 4 + d] + mean).margin(1e-6));
      }
    }
    // A row begins as nothing, and that of "alien", which is in no row of the data, stays so.
    const auto zero = [&](size_t item) {
      return std::all_of(own.begin() + static_cast<int64_t>(item) * 4,
                         own.begin() + static_cast<int64_t>(item + 1) * 4,
                         [](float x) { return x == 0; });
    };
    CHECK(zero(1) == (steps == 0));
    CHECK(zero(2));
  }
}

TEST_CASE("an item that no row has is held against none by any loss", "[items]") {
  for (const char* loss : {"{kind: sampled_softmax, negatives: 64}", "{kind: full_softmax}",
                           "{kind: bpr, negatives: 64}", "{kind: in_batch_softmax}",
                           "{kind: sampled_softmax, distribution: popularity}"}) {
    CAPTURE(loss);
    const Films films(absl::StrCat(Model("feature: film, features: [genres]"), "loss: ", loss,
                                   "\noptimizer: {table: {kind: sgd, learning_rate: 0.5}}\n"));
    const Scored s(films, 5, {}, 1);
    const std::vector<float>&own = s.tables.at("film"), &bias = s.tables.at("film_bias");
    const auto moved = [&](size_t item) {
      return bias[item] != 0 || std::any_of(own.begin() + static_cast<int64_t>(item) * 4,
                                            own.begin() + static_cast<int64_t>(item + 1) * 4,
                                            [](float x) { return x != 0; });
    };
    CHECK(moved(0));
    CHECK(moved(1));
    CHECK_FALSE(moved(2));
    CHECK(moved(3));
  }
}

TEST_CASE("all items are scored the same, whole and in pieces, whatever describes them",
          "[items]") {
  for (const char* item :
       {"feature: film, features: [genres, words, studio, tags]", kAllFeatures}) {
    for (const char* loss : {"sampled_softmax", "in_batch_softmax", "full_softmax", "bpr"}) {
      CAPTURE(item, loss);
      const Films films(absl::StrCat(Model(item, ", normalize: true"), "loss: {kind: ", loss,
                                     "}\noptimizer: {table: {kind: adagrad, ",
                                     "learning_rate: 0.1}}\n"));
      const Scored s(films, 20);
      CHECK(s.losses.back() < s.losses.front());
      REQUIRE(s.items == 4);
      const int64_t width = s.whole[0].dim(1);
      for (int64_t user = 0; user < 4; ++user) {
        const float* const scores = s.whole[0].data<float>() + user * width;
        std::vector<std::pair<float, int64_t>> order;
        for (int64_t i = 0; i < s.items; ++i) order.push_back({-scores[i], i});
        std::sort(order.begin(), order.end());
        for (int64_t n = 0; n < s.items; ++n) {
          const auto [score, id] = order[static_cast<size_t>(n)];
          CHECK(s.best.ids.data<int64_t>()[user * s.items + n] == id);
          CHECK(s.best.scores.data<float>()[user * s.items + n] == Approx(-score).margin(1e-5));
        }
      }
      // u had heat and ronin, and has babe here: only alien is held against it.
      const float* const of_u = s.whole[0].data<float>();
      CHECK(s.ranks[0] == (of_u[2] > of_u[0] ? 1 : 0));
      CHECK(s.ranks[3] == 4);  // an item that is not known
    }
  }
}

TEST_CASE("what cannot describe an item is refused, by file and line", "[items]") {
  const auto error = [](const std::string& item, const std::string& rest = "",
                        const std::vector<std::string>& set = {}) {
    const Films films(Model(item, rest));
    return std::string(films.Job(set).status().message());
  };
  CHECK_THAT(error("feature: film, features: [year]"),
             Contains("job.yaml:11:") && Contains("'year' is a number, which needs layers "
                                                  "(model.item.hidden)"));
  CHECK_THAT(error("feature: film, features: [film]"), Contains("'film' is the item, whose id"));
  CHECK_THAT(error("feature: film, features: [genres, genres]"), Contains("is there twice"));
  CHECK_THAT(error("feature: film, features: [user]"), Contains("'user' describes the user"));
  CHECK_THAT(error("feature: film, features: [genre]"), Contains("genres"));
  CHECK_THAT(error("feature: film, features: [genres]", "", {"dataset.join="}),
             Contains("wanted dataset.join, on: film"));

  // A column of the rows describes no item that has no row.
  const Films films(Model("feature: film, features: [mood]"));
  films.files.Write("rows.csv", "user,film,mood\nu,heat,a\nu,babe,b\n");
  films.files.Write("test.csv", "user,film,mood\nu,heat,a\n");
  const auto job = Must(
      job::ParseKeptJob(absl::StrCat(films.text.substr(0, films.text.find("  - {name: genres")),
                                     "  - {name: mood, kind: categorical}\n",
                                     films.text.substr(films.text.find("  - {name: genres"))),
                        films.files.Path("job.yaml"), films.files.Path(""), {}));
  const auto data = films.Data(job);
  const auto read = ItemCatalogue::Read(job, *data, "film", {"mood"});
  CHECK(absl::IsInvalidArgument(read.status()));
  CHECK_THAT(std::string(read.status().message()), Contains("job.yaml:") &&
                                                       Contains("dataset.join, on: film") &&
                                                       Contains("found the column \"mood\""));
  CHECK(absl::IsResourceExhausted(
      ItemCatalogue::Read(job, *data, "film", {"genres"}, /*most_bytes=*/10).status()));

  // A value that a feature cannot have, of an item that no row has.
  const Films bad(Model(kAllFeatures), kOfTable,
                  absl::StrCat(kFilms, "brazil,drama,Brazil,soon,u,\n"));
  const auto bad_job = Must(bad.Job());
  const auto bad_data = bad.Data(bad_job);
  const auto bad_read = ItemCatalogue::Read(bad_job, *bad_data, "film", {"year"});
  CHECK_THAT(std::string(bad_read.status().message()),
             Contains("films.csv:6") && Contains("number") && Contains("soon"));
}

}  // namespace
}  // namespace coxswain::model
