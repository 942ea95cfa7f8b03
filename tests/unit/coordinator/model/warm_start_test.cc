// Training that goes on from a saved model: which row of a table becomes which.
#include "coordinator/model/warm_start.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "coordinator/api/variable_info.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"
#include "tests/testing/job_texts.h"
#include "tests/testing/saved_models.h"

namespace coxswain::model {
namespace {

using Catch::Matchers::Contains;
using testing::Must;
using Strings = std::vector<std::string>;

// Rows [first, first], [first + 1, first + 1], ...
Tensor Rows(int64_t rows, float first) {
  std::vector<float> values;
  for (int64_t i = 0; i < 2 * rows; ++i) values.push_back(first + static_cast<float>(i / 2));
  return Tensor::FromVector<float>(values, Shape{rows, 2}).value();
}

// A job on 2 parameter servers whose tables are made here, as its features want them.
struct Fixture {
  explicit Fixture(const std::string& users)
      : job(testing::MustParse(R"(
dataset: {path: a.csv, columns: [user, film, place, key, y]}
features:
  - {name: user, kind: categorical, oov_buckets: 2}
  - {name: film, kind: categorical, oov_buckets: 1}
  - {name: place, kind: categorical, hash_buckets: 5}
  - {name: key, kind: categorical, id: raw}
label: {column: y}
model: {kind: mlp, hidden: [4]}
)")),
        strategy(testing::MustStart(2, 1, 1)) {
    std::string csv;
    for (size_t i = 0; i < users.size(); ++i) {
      csv += std::string(1, users[i]) + ",f,p,7," + (i % 2 == 0 ? "0" : "1") + "\n";
    }
    job.dataset.clear_paths();
    job.dataset.add_paths(files.Write("a.csv", csv));
  }

  void Load() { data = MustLoad(job.dataset); }
  std::string model() const { return files.Path("model"); }
  Tensor Table(const std::string& name, int64_t rows, Sharding sharding = Sharding::kMod) {
    TableOptions options;
    options.rows = rows;
    options.dim = 2;
    options.partitioner = FixedShards(3);
    options.sharding = sharding;
    tables[name] = Must(strategy.CreateTable(name, options));
    return Must(strategy.Read(tables[name]));
  }
  std::vector<float> Firsts(const std::string& name) {
    const Tensor rows = Must(strategy.Read(tables[name]));
    std::vector<float> firsts;
    for (int64_t i = 0; i < rows.dim(0); ++i) firsts.push_back(rows.data<float>()[2 * i]);
    return firsts;
  }
  absl::StatusOr<WarmStart> TryTake(const NameMap& names) {
    const WarmSource source = Must(WarmSource::Open({model(), names}, job, *data));
    return source.TakeOver(&strategy);
  }
  WarmStart Take(const NameMap& names = {}) { return Must(TryTake(names)); }

  DataFiles files;
  job::JobSpec job;
  ParameterServerStrategy strategy;
  std::unique_ptr<data::Dataset> data;
  std::map<std::string, EmbeddingTable> tables;
};

TEST_CASE("warm start: rows go by the values that they stand for, whatever the sharding") {
  const Sharding sharding = GENERATE(Sharding::kMod, Sharding::kDiv, Sharding::kHash);
  Fixture f("bbcab");
  WriteModel(f.model(), {{"user", Rows(5, 10), true, {"a", "x", "b"}}});
  f.Load();
  // As it was learned, without the model's order: b, c, a, and two buckets.
  REQUIRE(*f.data->vocabulary("user") == Strings{"b", "c", "a"});
  f.Table("user", 5, sharding);
  const WarmStart taken = f.Take();
  CHECK(f.Firsts("user") == std::vector<float>{12, 0, 10, 13, 14});
  REQUIRE(taken.taken.size() == 1);
  CHECK(taken.taken[0].taken == 4);
  CHECK(taken.taken[0].fresh == 1);
  CHECK_THAT(taken.ToString(), Contains("user: 4 rows, 1 new"));
}

TEST_CASE("warm start: a vocabulary that has grown keeps the first rows and the buckets") {
  const Sharding sharding = GENERATE(Sharding::kMod, Sharding::kDiv, Sharding::kHash);
  Fixture f("bbca");
  WriteModel(f.model(), {{"user", Rows(5, 10), true, {"a", "x", "b"}}});
  f.job.dataset.mutable_features(0)->clear_min_count();
  for (const char* value : {"a", "x", "b", "c"}) {
    f.job.dataset.mutable_features(0)->add_vocabulary(value);
  }
  f.Load();
  f.Table("user", 6, sharding);
  f.Take();
  CHECK(f.Firsts("user") == std::vector<float>{10, 11, 12, 0, 13, 14});
}

TEST_CASE("warm start: other numbers of buckets mean other things, and begin anew") {
  Fixture f("aabc");
  f.job.dataset.mutable_features(0)->set_oov_buckets(3);
  WriteModel(f.model(),
             {{"user", Rows(5, 10), true, {"a", "b", "x"}}, {"place", Rows(4, 1), true}});
  f.Load();
  f.Table("user", 6);
  f.Table("place", 5);
  const WarmStart taken = f.Take();
  CHECK(f.Firsts("user") == std::vector<float>{10, 11, 0, 0, 0, 0});
  CHECK(f.Firsts("place") == std::vector<float>(5, 0));
  CHECK_THAT(taken.ToString(),
             Contains("anew: place: it has 4 rows in the model and 5 in the job"));
}

TEST_CASE("warm start: hash tables by id, buckets and dense variables as they are") {
  Fixture f("ab");
  WriteModel(f.model(), {{"place", Rows(5, 20), true},
                         {"key", Rows(3, 30), true, {}, {-4, 7, int64_t{1} << 60}},
                         {"weights", Rows(2, 40)},
                         {"wide", Rows(2, 50)},
                         {"old", Rows(1, 60)}});
  f.Load();
  f.Table("place", 5);
  TableOptions keys;
  keys.dim = 2;
  keys.hash = HashTableOptions{};
  const EmbeddingTable key = Must(f.strategy.CreateTable("key", keys));
  VariableOptions dense;
  dense.shape = {2, 2};
  const Variable weights = Must(f.strategy.CreateVariable("weights", dense));
  dense.shape = {3, 2};
  Must(f.strategy.CreateVariable("wide", dense));
  Must(f.strategy.CreateVariable("more", dense));
  const WarmStart taken = f.Take();
  CHECK(f.Firsts("place") == std::vector<float>{20, 21, 22, 23, 24});
  CHECK(Must(f.strategy.Read(weights)).data<float>()[3] == 41);
  std::map<int64_t, float> by_id;
  for (int shard = 0; shard < static_cast<int>(key.info().shards.size()); ++shard) {
    const auto some = Must(f.strategy.ReadIds(key.info(), shard, 0, 100));
    for (int64_t i = 0; i < some.ids.num_elements(); ++i) {
      by_id[some.ids.data<int64_t>()[i]] = some.rows.data<float>()[2 * i];
    }
  }
  CHECK(by_id == std::map<int64_t, float>{{-4, 30}, {7, 31}, {int64_t{1} << 60, 32}});
  CHECK_THAT(taken.ToString(),
             Contains("key: 3 rows") && Contains("1 other variable") &&
                 Contains("anew: wide: it is f32[2,2] in the model and f32[3,2] in the job") &&
                 Contains("anew: more: the model does not have it") &&
                 Contains("not taken over: old"));
}

TEST_CASE("warm start: a directory with neither model nor checkpoints is told") {
  Fixture f("ab");
  proto::DatasetSpec spec = f.job.dataset;
  const absl::Status status = KeepIds(f.files.Path("nothing"), &spec).status();
  CHECK(absl::IsNotFound(status));
  CHECK_THAT(std::string(status.message()),
             Contains("nothing: wanted a saved model, or checkpoints, found neither"));
}

TEST_CASE("warm start: a feature of another name has its ids and its tables' rows") {
  Fixture f("bbcab");
  WriteModel(f.model(), {{"person", Rows(5, 10), true, {"a", "x", "b"}},
                         {"person_linear", Rows(5, 20), true, {"a", "x", "b"}},
                         {"deep", Rows(1, 7)}});
  f.Load();
  f.Table("user", 5);
  const NameMap names = Must(NameMap::Parse({"person=user"}));
  const WarmStart taken = f.Take(names);
  CHECK(f.Firsts("user") == std::vector<float>{12, 0, 10, 13, 14});
  REQUIRE(taken.taken.size() == 1);
  CHECK(taken.taken[0].old_name == "person");
  CHECK_THAT(taken.ToString(), Contains("user from person: 4 rows, 1 new"));
  CHECK(taken.left == Strings{"person_linear", "deep"});
}

TEST_CASE("warm start: a name that stands for nothing is an error, which tells the near ones") {
  Fixture f("bbcab");
  WriteModel(f.model(), {{"person", Rows(5, 10), true, {"a", "x", "b"}}});
  f.Load();
  f.Table("user", 5);
  const auto error = [&](const std::string& entry) {
    const NameMap names = Must(NameMap::Parse({entry}));
    const auto taken = f.TryTake(names);
    CHECK(taken.status().code() == absl::StatusCode::kInvalidArgument);
    return std::string(taken.status().message());
  };
  CHECK_THAT(error("persn=user"), Contains("--init-map persn=user") &&
                                      Contains("has no \"persn\"") && Contains("person"));
  CHECK_THAT(error("person=usr"), Contains("the job has no \"usr\"") && Contains("user"));
}

TEST_CASE("names are mapped by variable, by feature and by what stands before them") {
  job::JobSpec job;
  job.tables.resize(2);
  job.tables[0].name = job.tables[0].feature = "movie";
  job.tables[1].name = "movie_linear";
  job.tables[1].feature = "movie";
  const NameMap names =
      Must(NameMap::Parse({"film=movie", "deep=tower", "a/b=tower/layer_1/bias"}));
  const auto old_name = [&](const std::string& variable) {
    int used = -1;
    std::string name = names.OldVariable(job, variable, &used);
    return used < 0 ? "own " + name : name;
  };
  CHECK(old_name("movie") == "film");
  CHECK(old_name("movie_linear") == "film_linear");
  CHECK(old_name("movie_star") == "own movie_star");  // no table of the feature
  CHECK(old_name("tower/layer_0/bias") == "deep/layer_0/bias");
  CHECK(old_name("tower/layer_1/bias") == "a/b");
  CHECK(old_name("towers/bias") == "own towers/bias");
  CHECK(names.OldFeature("movie") == "film");
  CHECK(names.OldFeature("film") == "film");
  for (const char* wrong : {"film", "=movie", "film=", "a=b=c"}) {
    CHECK_THAT(std::string(NameMap::Parse({wrong}).status().message()), Contains("wanted OLD=NEW"));
  }
  CHECK_THAT(std::string(NameMap::Parse({"a=c", "b=c"}).status().message()),
             Contains("two names are to become \"c\""));
}

}  // namespace
}  // namespace coxswain::model
