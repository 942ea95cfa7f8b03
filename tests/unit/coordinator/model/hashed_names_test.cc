// What rows of hashed values are called, and how they are found by a name.
#include "coordinator/model/hashed_names.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/model/named_rows.h"
#include "coordinator/model/row_names.h"
#include "runtime/data/hash.h"
#include "runtime/data/vocabulary.h"
#include "runtime/data/vocabulary_file.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"
#include "tests/testing/saved_models.h"

namespace coxswain::model {
namespace {

using Catch::Matchers::Contains;
using testing::Must;
using Strings = std::vector<std::string>;

int64_t HashOf(const std::string& name) { return static_cast<int64_t>(data::HashText(name)); }

// So many names that have a bucket, of 4, to themselves.
Strings NamesOfBuckets(int count) {
  Strings names;
  std::set<int64_t> taken;
  for (int i = 0; static_cast<int>(names.size()) < count; ++i) {
    const std::string name = absl::StrCat("n", i);
    if (taken.insert(data::IdOfHash(name, 4)).second) names.push_back(name);
  }
  return names;
}

TEST_CASE("a bucket is called by its first names, and by how many others there are") {
  CHECK(NameOfBucket({}).empty());
  CHECK(NameOfBucket({"a"}) == "a");
  CHECK(NameOfBucket({"a", "b"}) == "a | b");
  CHECK(NameOfBucket({"a", "b", "c"}) == "a | b | c");
  CHECK(NameOfBucket({"a", "b", "c", "d", "e"}) == "a | b | c | +2");
}

TEST_CASE("names are found by what they are hashed into, in the order of the file") {
  const DataFiles files;
  const Strings names = {"z", "line\nend", "", "a", "b"};
  const std::string path = files.Write("f.names", data::VocabularyLines(names));
  const HashedNames all = Must(HashedNames::Load(path, 0));
  CHECK(all.names() == names);
  CHECK(all.named_ids() == 5);
  for (const std::string& name : names) {
    CHECK(all.IdOf(name) == HashOf(name));
    CHECK(all.Of(HashOf(name)) == name);
    CHECK(all.Has(HashOf(name)));
    CHECK(all.Knows(name));
  }
  CHECK_FALSE(all.Knows("other"));
  CHECK_FALSE(all.Has(HashOf("other")));
  CHECK(all.Of(7).empty());
  const HashedNames one = Must(HashedNames::Load(path, 1));
  CHECK(one.named_ids() == 1);
  CHECK(one.Of(0) == "z | line\nend |  | +2");
  CHECK(one.Knows("b"));
  CHECK_FALSE(one.Knows("other"));
  CHECK(HashedNames::Load(files.Path("none"), 0).status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("nearest: buckets are found by a name, and only those with a name are answers") {
  const DataFiles files;
  const Strings names = NamesOfBuckets(3);
  const auto id = [&](size_t i) { return data::IdOfHash(names[i], 4); };
  // The bucket without a name is nearer to the first one than any other.
  std::vector<float> rows = {1, 0.01F, 1, 0.01F, 1, 0.01F, 1, 0.01F};
  const std::vector<std::pair<float, float>> wanted = {{1, 0}, {1, 1}, {-1, 1}};
  for (size_t i = 0; i < 3; ++i) {
    rows[static_cast<size_t>(2 * id(i))] = wanted[i].first;
    rows[static_cast<size_t>(2 * id(i) + 1)] = wanted[i].second;
  }
  WriteModel(files.Path("model"), {{.name = "page",
                                    .values = Tensor::FromVector<float>(rows, Shape{4, 2}).value(),
                                    .table = true,
                                    .names = names}});
  const SavedSource source = Must(SavedSource::OpenModel(files.Path("model")));
  CHECK(source.variables()[0].named());
  CHECK(source.variables()[0].vocabulary.empty());
  const NamedRows named = Must(NamedRows::Open(source, ""));
  CHECK(named.feature() == "page");
  CHECK(named.size() == 3);
  const auto pool = env::NewComputePool(1);
  const NamedRows indexed = Must(named.WithIndex({}, pool.get()));
  for (const NamedRows& each : {named, indexed}) {
    const auto answers = Must(each.Nearest({{names[0], {{names[0], 1.0}}}}, 5, pool.get()));
    REQUIRE(answers[0].size() == 2);
    CHECK(answers[0][0].name == names[1]);
    CHECK(answers[0][0].id == id(1));
    CHECK(answers[0][1].name == names[2]);
  }
  // Another value of the same buckets says nothing.
  const auto other = named.Nearest({{"n99", {{"n99", 1.0}}}}, 5, pool.get());
  CHECK(other.status().code() == absl::StatusCode::kNotFound);
  CHECK_THAT(std::string(other.status().message()),
             Contains("\"n99\" is not among the names that were kept of feature \"page\"") &&
                 Contains(names[0]));
}

TEST_CASE("nearest: a hash table has rows of names, and of values whose names were not kept") {
  const DataFiles files;
  const Strings names = {"ann", "bob", "gone"};
  WriteModel(files.Path("model"),
             {{.name = "user",
               .values = Tensor::FromVector<float>({1, 0, 1, 1, 1, 0.5F}, Shape{3, 2}).value(),
               .table = true,
               .ids = {HashOf("ann"), HashOf("bob"), HashOf("unnamed")},
               .names = names}});
  const SavedSource source = Must(SavedSource::OpenModel(files.Path("model")));
  const NamedRows named = Must(NamedRows::Open(source, "user"));
  const auto pool = env::NewComputePool(1);
  const NamedRows indexed = Must(named.WithIndex({}, pool.get()));
  const auto ask = [&](const NamedRows& rows, const std::string& name) {
    return rows.Nearest({{name, {{name, 1.0}}}}, 5, pool.get());
  };
  for (const NamedRows& each : {named, indexed}) {
    const auto of_ann = Must(ask(each, "ann"));
    REQUIRE(of_ann[0].size() == 1);
    CHECK(of_ann[0][0].name == "bob");
    CHECK(of_ann[0][0].id == HashOf("bob"));
    const auto of_unnamed = Must(ask(each, "unnamed"));
    REQUIRE(of_unnamed[0].size() == 2);
    CHECK(of_unnamed[0][0].name == "bob");
    CHECK(of_unnamed[0][1].name == "ann");
  }
  for (const char* name : {"gone", "never seen"}) {
    CHECK_THAT(std::string(ask(named, name).status().message()),
               Contains(absl::StrCat("table \"user\" has no row of \"", name, "\"")));
  }
}

TEST_CASE("row names: a table without a vocabulary and without kept names has none") {
  const DataFiles files;
  WriteModel(files.Path("model"),
             {{.name = "page", .values = Tensor(DType::kF32, Shape{4, 2}), .table = true}});
  const SavedSource source = Must(SavedSource::OpenModel(files.Path("model")));
  const RowNames none = Must(RowNames::Read(source, source.variables()[0]));
  CHECK_FALSE(none.any());
  CHECK_FALSE(none.Has(0));
  CHECK(none.Of(0).empty());
  const auto named = NamedRows::Open(source, "");
  CHECK_THAT(std::string(named.status().message()), Contains("keep_names"));
}

}  // namespace
}  // namespace coxswain::model
