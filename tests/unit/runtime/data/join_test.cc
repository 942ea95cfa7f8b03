// Side tables: columns that rows get by a key.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/hash.h"
#include "runtime/data/side_table.h"
#include "runtime/env/file_system.h"
#include "tests/testing/same_when_streamed.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Strings = std::vector<std::string>;

proto::JoinSpec* AddJoin(proto::DatasetSpec* spec, const std::string& path, const std::string& on) {
  proto::JoinSpec* join = spec->add_joins();
  join->set_path(path);
  join->set_left_on(on);
  join->mutable_csv()->set_header(true);
  join->mutable_csv()->set_quoting(true);
  return join;
}

proto::FeatureSpec* AddList(proto::DatasetSpec* spec, const std::string& name) {
  proto::FeatureSpec* feature = AddCategorical(spec, name);
  feature->set_multi_valued(true);
  feature->set_value_separator("|");
  return feature;
}

// Ratings; films with genres and a year; years are joined by the films' column.
struct Films {
  Films() {
    std::string ratings = "user,film,stars\n", films = "id,title,genres,year\n";
    for (int i = 0; i < 90; ++i) {
      const uint64_t h = Mix64(static_cast<uint64_t>(i));
      absl::StrAppend(&ratings, "u", h % 9, ",", h % 14, ",", 1 + h % 5, "\n");
    }
    // Films 12 and 13 are in the ratings and not here.
    for (int i = 0; i < 12; ++i) {
      absl::StrAppend(&films, i, ",\"A, \"\"title\"\"", i, "\",g", i % 3, "|g", i % 5, ",",
                      1990 + i % 4, "\n");
    }
    spec = CsvSpec(files.Write("ratings.csv", ratings));
    AddJoin(&spec, files.Write("films.csv", films), "film")->set_right_on("id");
    AddCategorical(&spec, "user");
    AddList(&spec, "genres");
    AddCategorical(&spec, "title")->set_oov_buckets(1);
    spec.mutable_label()->set_column("stars");
  }
  DataFiles files;
  proto::DatasetSpec spec;
};

TEST_CASE("join: rows get a table's columns by their key, and nothing where it lacks it") {
  Films films;
  films.spec.set_paths(0, films.files.Write("r.csv", "user,film,stars\na,4,5\nb,13,1\na,1,2\n"));
  const auto data = MustLoad(films.spec);
  const Ticket all = AllOf(*data, Part::kTraining);
  const Strings& genres = *data->vocabulary("genres");
  Strings found;
  for (const int64_t id : Values<int64_t>(*data, all, "genres.values")) {
    found.push_back(genres[static_cast<size_t>(id)]);
  }
  CHECK(found == Strings{"g1", "g4", "g1", "g1"});
  CHECK(Values<int32_t>(*data, all, "genres.offsets") == std::vector<int32_t>{0, 2, 2, 4});
  CHECK(*data->vocabulary("title") == Strings{"A, \"title\"4", "", "A, \"title\"1"});
}

TEST_CASE("join: a key that the table lacks is an error where the spec says so") {
  Films films;
  films.spec.set_paths(0, films.files.Write("r.csv", "user,film,stars\na,4,5\nb,13,1\n"));
  films.spec.mutable_joins(0)->set_required(true);
  CHECK_THAT(LoadError(films.spec), Contains("r.csv:3:3: field 2 (\"film\"): wanted a key of ") &&
                                        EndsWith("films.csv, found \"13\""));
  films.spec.mutable_joins(0)->set_required(false);
  // What a label has to be, nothing is not.
  films.spec.mutable_label()->set_column("year");
  CHECK_THAT(LoadError(films.spec), Contains("r.csv:3:3") && Contains("a finite number (f32)"));
}

TEST_CASE("join: a field that is wrong is told by both files") {
  Films films;
  films.spec.set_paths(0, films.files.Write("r.csv", "user,film,stars\na,1,5\n"));
  films.spec.mutable_joins(0)->set_path(
      films.files.Write("f.csv", "id,title,genres,year\n0,x,g,1990\n1,y,g,old\n"));
  AddNumeric(&films.spec, "year");
  CHECK_THAT(LoadError(films.spec),
             Contains("r.csv:2:3: field 2 (\"film\"): wanted a key for which \"year\" in ") &&
                 EndsWith("f.csv:3 is a finite number (f32) and not \"old\", found \"1\""));
  films.spec.mutable_joins(0)->mutable_csv()->add_missing_values("old");
  CHECK(Values<float>(*MustLoad(films.spec), {Part::kTraining, 0, 0, 1}, "year") ==
        std::vector<float>{0});
}

TEST_CASE("join: a table's key may come from a table before it") {
  Films films;
  films.spec.set_paths(0, films.files.Write("r.csv", "user,film,stars\na,4,5\nb,13,1\na,1,2\n"));
  AddJoin(&films.spec, films.files.Write("years.csv", "year,decade\n1990,early\n1991,late\n"),
          "year");
  AddCategorical(&films.spec, "decade");
  const auto data = MustLoad(films.spec);
  CHECK(*data->vocabulary("decade") == Strings{"early", "", "late"});
  std::swap(*films.spec.mutable_joins(0), *films.spec.mutable_joins(1));
  CHECK_THAT(LoadError(films.spec), Contains("is a column of ") && Contains("joined later"));
}

TEST_CASE("join: names that several files have are told, and a prefix tells them apart") {
  Films films;
  const std::string tags = films.files.Write("tags.csv", "id,title\n1,x\n4,y\n");
  AddJoin(&films.spec, tags, "film")->set_right_on("id");
  CHECK_THAT(LoadError(films.spec), Contains("wanted one column \"title\", found it in ") &&
                                        EndsWith("a prefix (dataset.join) tells them apart"));
  films.spec.mutable_joins(1)->set_prefix("tag_");
  AddCategorical(&films.spec, "tag_title");
  MustLoad(films.spec);
  films.spec.set_paths(0, films.files.Write("r.csv", "user,film,title,stars\na,4,t,5\n"));
  CHECK_THAT(LoadError(films.spec), Contains("r.csv: wanted one column \"title\", found it here"));
  // A column that nobody reads may be anywhere.
  films.spec.mutable_features()->DeleteSubrange(2, 1);
  MustLoad(films.spec);
}

TEST_CASE("join: a key that stands twice, and a column that is nowhere, are errors") {
  Films films;
  films.spec.mutable_joins(0)->set_path(
      films.files.Write("f.csv", "id,title,genres\n1,a,g\n2,b,g\n1,c,g\n"));
  CHECK_THAT(LoadError(films.spec),
             EndsWith("f.csv:4:1: field 1 (\"id\"): wanted each key of a joined table once, and it "
                      "stands on line 2, found \"1\""));
  films.spec.mutable_joins(0)->set_path(films.files.Write("g.csv", "no,title,genres\n1,a,g\n"));
  CHECK_THAT(LoadError(films.spec), Contains("g.csv: wanted a column \"id\""));
  films.spec.mutable_joins(0)->set_path(films.files.Path("none.csv"));
  CHECK_THAT(LoadError(films.spec), Contains("none.csv: cannot open"));
  films.spec.mutable_joins(0)->clear_path();
  CHECK_THAT(LoadError(films.spec), Contains("join: wanted a path"));
}

TEST_CASE("join: a table that is a Parquet file is told to be csv, whatever the rows are") {
  Films films;
  films.spec.mutable_joins(0)->set_path(films.files.Write("f.parquet", "PAR1\x15\x04"));
  const std::string error = LoadError(films.spec);
  CHECK_THAT(error, EndsWith("f.parquet: wanted a csv file, as every joined table is, found a "
                             "Parquet file"));
  CHECK_THAT(error, !Contains("dataset.format"));
}

TEST_CASE("join: streamed rows have the columns of those in memory") {
  Films films;
  films.spec.mutable_split()->set_validation_fraction(0.2);
  films.spec.mutable_split()->set_test_fraction(0.1);
  CheckSameWhenStreamed(films.files, films.spec);
}

TEST_CASE("join: a table that changes makes another data set and another index") {
  Films films;
  const uint64_t before = MustLoad(films.spec)->fingerprint();
  const auto streamed = Streamed(films.files, films.spec, 100);
  const auto open = [&](const std::shared_ptr<const proto::DatasetIndex>& index) {
    return Dataset::OpenStreamed(streamed, index, 0, nullptr).status();
  };
  const auto index = MustLoad(streamed)->index();
  CHECK(open(index).ok());
  films.files.Write("films.csv", "id,title,genres\n0,other,g0\n");
  CHECK(MustLoad(films.spec)->fingerprint() != before);
  CHECK_THAT(std::string(open(index).message()), Contains("films.csv"));
  CHECK(MustLoad(streamed)->index()->content_hash() != index->content_hash());
  // Where the table lies is not what it is.
  Films moved;
  moved.spec.mutable_joins(0)->set_path(
      moved.files.Write("elsewhere.csv", "id,title,genres\n0,other,g0\n"));
  CHECK(MustLoad(moved.spec)->fingerprint() == MustLoad(films.spec)->fingerprint());
}

TEST_CASE("join: tables count against the memory of streamed data") {
  Films films;
  std::string large = "id,title,genres\n";
  for (int i = 0; i < 3000; ++i) absl::StrAppend(&large, i, ",t", i, ",g", i % 7, "|g8\n");
  films.spec.mutable_joins(0)->set_path(films.files.Write("large.csv", large));
  const auto spec = Streamed(films.files, films.spec, 100, 0, 100000);
  CHECK_THAT(LoadError(spec), Contains("large.csv:") &&
                                  Contains("it takes more than dataset.memory leaves (97.66 KiB)"));
  const auto roomy = Streamed(films.files, films.spec, 100, 0, 1 << 20);
  MustLoad(roomy);
}

// What a job has that joins `items` to files that come, before any has come.
struct Followed {
  Followed() {
    spec.clear_paths();
    spec.set_followed(true);
    AddJoin(&spec, items, "i")->set_right_on("i");
    AddNumeric(&spec, "price");
    spec.mutable_label()->set_column("y");
    spec.mutable_stream()->set_cache_directory(files.Path("cache"));
  }
  DataFiles files;
  const std::string items = files.Write("items.csv", "i,price\n1,0.5\n2,8\n");
  proto::DatasetSpec spec = CsvSpec(items);
};

TEST_CASE("join: a job that follows is the same job when a table is replaced, but not its epochs") {
  Followed f;
  AddCategorical(&f.spec, "i")->set_id("raw");
  const auto before = MustLoad(f.spec);
  REQUIRE(before->index() != nullptr);
  proto::DatasetSpec of_epoch = f.spec;
  of_epoch.add_paths(f.files.Write("a.csv", "i,y\n1,0\n2,1\n"));
  const auto epoch = MustLoad(of_epoch);
  f.files.Write("items.csv", "i,price\n1,0.25\n2,8\n3,9\n");
  CHECK(MustLoad(f.spec)->fingerprint() == before->fingerprint());
  CHECK(MustLoad(of_epoch)->fingerprint() != epoch->fingerprint());
  // As a worker that comes back does, which reads the tables as they are.
  CHECK(Dataset::OpenStreamed(f.spec, before->index(), 1, nullptr).ok());
  const auto again = Dataset::OpenStreamed(of_epoch, epoch->index(), 1, nullptr);
  REQUIRE(again.ok());
  CHECK(Values<float>(**again, AllOf(**again, Part::kTraining), "price")[0] == 0.25f);
  // But other files are what they were.
  f.files.Write("a.csv", "i,y\n1,1\n2,1\n");
  CHECK(absl::IsFailedPrecondition(
      Dataset::OpenStreamed(of_epoch, epoch->index(), 1, nullptr).status()));
}

TEST_CASE("join: a job that follows is another job when the keys that are its ids are others") {
  Followed f;
  AddCategorical(&f.spec, "i")->set_vocabulary_file(f.items);
  const auto before = MustLoad(f.spec);
  f.files.Write("items.csv", "i,price\n1,0.25\n2,9\n");
  CHECK(MustLoad(f.spec)->fingerprint() == before->fingerprint());
  CHECK(Dataset::OpenStreamed(f.spec, before->index(), 1, nullptr).ok());
  f.files.Write("items.csv", "i,price\n2,9\n1,0.25\n");
  const auto now = MustLoad(f.spec);
  CHECK(*now->vocabulary("i") == Strings{"2", "1"});
  CHECK(now->fingerprint() != before->fingerprint());
}

TEST_CASE("join: a data set has the bytes of its tables' files, whatever becomes of these") {
  Films films;
  const std::string text = "id,title,genres,year\n4,t,g1|g2,1990\n";
  films.spec.mutable_joins(0)->set_path(films.files.WriteGzip("films.gz", text));
  const auto disk = env::NewRealFileSystem();
  const std::string packed = disk->Read(films.files.Path("films.gz")).value();
  for (const auto mode : {proto::StreamOptions::NEVER, proto::StreamOptions::ALWAYS}) {
    films.spec.mutable_stream()->set_mode(mode);
    films.spec.mutable_stream()->set_cache_directory(films.files.Path("cache"));
    films.files.WriteGzip("films.gz", text);
    const auto data = MustLoad(films.spec);
    std::filesystem::remove(films.files.Path("films.gz"));
    const SideTableFilesPtr tables = data->side_tables().Get();
    REQUIRE(tables != nullptr);
    CHECK(tables->contents == Strings{packed});
    CHECK(tables->version.size() == 16);
  }
  const auto without = MustLoad(CsvSpec(films.files.Path("ratings.csv")));
  CHECK(without->side_tables().Get() == nullptr);
}

}  // namespace
}  // namespace coxswain::data
