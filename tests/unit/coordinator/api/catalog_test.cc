// Which of a checkpoint's data sets a new one is, and so where the program goes on in it.
#include "coordinator/api/catalog.h"
#include "runtime/checkpoint/manifest.h"

#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace coxswain {
namespace {

constexpr uint64_t kRatings = 11, kFilms = 22, kOther = 33;

// A checkpoint with these data sets, by number: their data, and how many examples were scheduled.
checkpoint::Manifest ManifestOf(
    const std::vector<std::pair<DatasetId, std::pair<uint64_t, int64_t>>>& data) {
  checkpoint::Manifest manifest;
  for (const auto& [id, what] : data) {
    checkpoint::DatasetProgress& progress = manifest.data.emplace_back();
    progress.dataset = id;
    progress.fingerprint = what.first;
    progress.scheduled.Add({Part::kTraining, 0, 0, what.second});
  }
  return manifest;
}

struct Place {
  DatasetId id = 0;
  int64_t next = 0;  // example
  bool operator==(const Place& o) const { return id == o.id && next == o.next; }
};

// Nothing when it is refused.
std::optional<Place> Add(Catalog* catalog, uint64_t fingerprint) {
  const auto place = catalog->AddDataset(fingerprint);
  if (!place.ok()) {
    CHECK(absl::IsFailedPrecondition(place.status()));
    return std::nullopt;
  }
  const auto ticket = place->cursor->Next(1, 1000, 1, false);
  REQUIRE(ticket.has_value());
  return Place{place->id, ticket->begin};
}

TEST_CASE("a data set that could not be created costs no number and no place in the data",
          "[api]") {
  Catalog first(1);
  CHECK(Add(&first, kRatings) == Place{1, 0});
  first.RemoveDataset(1);
  CHECK(Add(&first, kFilms) == Place{1, 0});
  CHECK(Add(&first, kRatings) == Place{2, 0});
  first.RemoveDataset(1);
  CHECK(Add(&first, kOther) == Place{1, 0});

  Catalog resumed(1);
  REQUIRE(resumed.TakeLayout(ManifestOf({{1, {kRatings, 500}}, {2, {kFilms, 70}}}), "s").ok());
  const auto failed = resumed.AddDataset(kRatings);
  REQUIRE(failed.ok());
  resumed.RemoveDataset(failed->id);
  CHECK(Add(&resumed, kRatings) == Place{1, 500});
  CHECK(Add(&resumed, kFilms) == Place{2, 70});
  CHECK(Add(&resumed, kFilms) == Place{3, 0});  // a new one
}

TEST_CASE("a data set goes on where the checkpoint was in the same data, whatever its number",
          "[api]") {
  // Before, one that was not trained on had the first number, or could not be created.
  Catalog shifted(1);
  REQUIRE(shifted.TakeLayout(ManifestOf({{2, {kRatings, 500}}}), "s").ok());
  CHECK(Add(&shifted, kRatings) == Place{2, 500});
  CHECK(Add(&shifted, kRatings) == Place{1, 0});

  Catalog swapped(1);
  REQUIRE(swapped.TakeLayout(ManifestOf({{1, {kRatings, 500}}, {2, {kFilms, 70}}}), "s").ok());
  CHECK(Add(&swapped, kFilms) == Place{2, 70});
  CHECK(Add(&swapped, kRatings) == Place{1, 500});
}

TEST_CASE("of two data sets of the same data each goes on where it was itself", "[api]") {
  Catalog catalog(1);
  REQUIRE(catalog.TakeLayout(ManifestOf({{1, {kRatings, 0}}, {2, {kRatings, 500}}}), "s").ok());
  CHECK(Add(&catalog, kRatings) == Place{1, 0});
  CHECK(Add(&catalog, kRatings) == Place{2, 500});
}

TEST_CASE("other data than the checkpoint's is refused, unless nothing was trained on it",
          "[api]") {
  Catalog catalog(1);
  REQUIRE(catalog.TakeLayout(ManifestOf({{1, {kFilms, 0}}, {2, {kRatings, 500}}}), "s").ok());
  CHECK(Add(&catalog, kOther) == Place{1, 0});
  CHECK_FALSE(Add(&catalog, kFilms));
  CHECK(Add(&catalog, kRatings) == Place{2, 500});
}

TEST_CASE("data sets that are there before the checkpoint is chosen go on in it or are refused",
          "[api]") {
  const auto before = [](const checkpoint::Manifest& manifest) {
    Catalog catalog(1);
    const auto place = catalog.AddDataset(kRatings);
    REQUIRE(place.ok());
    const absl::Status taken = catalog.TakeLayout(manifest, "s");
    const auto ticket = place->cursor->Next(1, 1000, 1, false);
    return taken.ok() ? ticket->begin : -1;
  };
  CHECK(before(ManifestOf({{1, {kRatings, 500}}})) == 500);
  CHECK(before(ManifestOf({{1, {kFilms, 0}}, {2, {kOther, 70}}})) == 0);
  CHECK(before(ManifestOf({{1, {kFilms, 70}}})) == -1);
  // Under another number it would begin anew.
  CHECK(before(ManifestOf({{2, {kRatings, 500}}})) == -1);
  CHECK(before(ManifestOf({{1, {kRatings, 0}}, {2, {kRatings, 500}}})) == 0);
}

TEST_CASE("a data set that was released has neither a place nor a number to give", "[api]") {
  Catalog catalog(1);
  CHECK(Add(&catalog, kRatings) == Place{1, 0});
  catalog.ReleaseDataset(1);
  CHECK(Add(&catalog, kRatings) == Place{2, 0});
}

TEST_CASE("the checkpoint's data sets that nobody makes again leave their places", "[api]") {
  Catalog resumed(1);
  REQUIRE(resumed.TakeLayout(ManifestOf({{1, {kRatings, 500}}, {2, {kFilms, 70}}}), "s").ok());
  CHECK(Add(&resumed, kFilms) == Place{2, 70});
  CHECK_FALSE(Add(&resumed, kOther).has_value());  // 1 was trained on other data
  CHECK(resumed.TakeUnclaimed() == std::vector<DatasetId>{1});
  CHECK(resumed.TakeUnclaimed().empty());
  CHECK(Add(&resumed, kOther) == Place{1, 0});
}

// A table's shards, which the catalog places.
std::vector<proto::ShardSpec> Cut(const std::string& name, int64_t rows, int64_t dim, int count) {
  std::vector<proto::ShardSpec> shards;
  for (int s = 0; s < count; ++s) {
    proto::ShardSpec& shard = shards.emplace_back();
    shard.mutable_variable()->set_name(name);
    shard.mutable_variable()->set_table(true);
    shard.mutable_variable()->set_dtype(static_cast<int>(DType::kF32));
    shard.mutable_variable()->mutable_shape()->add_dims(rows);
    shard.mutable_variable()->mutable_shape()->add_dims(dim);
    shard.set_strategy("mod");
    shard.set_index(s);
    shard.set_count(count);
    shard.set_rows(rows / count + (s < rows % count ? 1 : 0));
  }
  return shards;
}

std::vector<int> PsOf(const std::vector<proto::ShardSpec>& shards, const Catalog& catalog) {
  std::vector<int> ps;
  for (const proto::ShardSpec& shard : shards) ps.push_back(catalog.PsOf(shard.id()));
  return ps;
}

TEST_CASE("a table of biases lies beside the rows that they belong to, also after a resume",
          "[api]") {
  std::map<std::string, std::vector<proto::ShardSpec>> tables;
  const auto of = [&](const char* name) -> const std::vector<proto::ShardSpec>& {
    return tables.at(name);
  };
  Catalog catalog(3);
  for (const auto& [name, rows, dim, count] :
       std::vector<std::tuple<std::string, int64_t, int64_t, int>>{{"users", 101, 8, 3},
                                                                   {"items", 50, 8, 3},
                                                                   {"users_bias", 101, 1, 3},
                                                                   {"items_bias", 50, 1, 3},
                                                                   {"words", 9, 2, 3},
                                                                   {"words_bias", 9, 1, 1}}) {
    tables[name] = Cut(name, rows, dim, count);
    catalog.Place(&tables[name]);
  }
  CHECK(PsOf(of("users_bias"), catalog) == PsOf(of("users"), catalog));
  CHECK(PsOf(of("items_bias"), catalog) == PsOf(of("items"), catalog));
  CHECK(catalog.PsOf(of("words_bias")[0].id()) >= 0);  // cut in another way: anywhere

  checkpoint::Manifest manifest;
  for (const auto& [name, shards] : tables) {
    for (const proto::ShardSpec& shard : shards)
      *manifest.shards.emplace_back().mutable_shard() = shard;
  }
  Catalog resumed(2);
  REQUIRE(resumed.TakeLayout(manifest, "s").ok());
  CHECK(PsOf(of("users_bias"), resumed) == PsOf(of("users"), resumed));
  CHECK(PsOf(of("items_bias"), resumed) == PsOf(of("items"), resumed));

  // What could not be created is nobody's company.
  catalog.Remove(of("items"));
  std::vector<proto::ShardSpec> again = Cut("items_bias", 50, 1, 3);
  catalog.Place(&again);
  for (const int ps : PsOf(again, catalog)) CHECK(ps >= 0);
}

}  // namespace
}  // namespace coxswain
