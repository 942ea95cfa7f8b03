// Which files of a directory are new, which are not there yet, and which have changed.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/dataset.h"
#include "runtime/data/stream/file_identity.h"
#include "runtime/data/stream/followed_files.h"
#include "tests/s3/object_store.h"
#include "tests/testing/arrow_specs.h"
#include "tests/testing/data_files.h"
#include "tests/testing/streamed_specs.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Strings = std::vector<std::string>;
namespace fs = std::filesystem;

struct Clicks {
  DataFiles files;
  FollowedFiles followed;

  explicit Clicks(const std::string& pattern = "")
      : followed({Made(files) + (pattern.empty() ? "" : "/" + pattern)}, "_DONE") {}
  static std::string Made(const DataFiles& files) {
    fs::create_directory(files.Path("clicks"));
    return files.Path("clicks");
  }
  void Write(const std::string& name, const std::string& text) const {
    files.Write("clicks/" + name, text);
  }
  // The names of new files; nothing else is expected.
  Strings New() {
    const auto look = followed.LookForNew();
    INFO(look.status().ToString());
    REQUIRE(look.ok());
    Strings names;
    for (const FollowedFile& file : look->files) names.push_back(fs::path(file.path).filename());
    return names;
  }
};

TEST_CASE("follow: a file is taken once, when it has its name") {
  Clicks clicks;
  REQUIRE(clicks.followed.Check().ok());
  CHECK(clicks.New().empty());
  clicks.Write(".b.csv", "1\n");
  clicks.Write("_b.csv", "1\n");
  clicks.Write("b.csv.tmp", "1\n");
  CHECK(clicks.New().empty());
  fs::rename(clicks.files.Path("clicks/b.csv.tmp"), clicks.files.Path("clicks/b.csv"));
  CHECK(clicks.New() == Strings{"b.csv"});
  CHECK(clicks.New().empty());
  // Also where it is taken away: a name is used once.
  const std::string b = clicks.files.Path("clicks/b.csv");
  const auto time = fs::last_write_time(b);
  fs::remove(b);
  CHECK(clicks.New().empty());
  clicks.Write("b.csv", "1\n");
  fs::last_write_time(b, time);
  CHECK(clicks.New().empty());
}

TEST_CASE("follow: a file that was taken does not come again under another name") {
  Clicks clicks;
  clicks.Write("a.csv", "1\n");
  clicks.Write("b.csv", "2\n");
  CHECK(clicks.New() == Strings{"a.csv", "b.csv"});
  const auto path = [&](const char* name) {
    return clicks.files.Path(absl::StrCat("clicks/", name));
  };
  fs::rename(path("a.csv"), path("a.csv.done"));
  fs::create_hard_link(path("b.csv"), path("c.csv"));
  fs::create_symlink(path("b.csv"), path("d.csv"));
  CHECK(clicks.New().empty());
  // Also where another run took it, and after it was touched.
  const auto identity = IdentifyFile(path("b.csv"));
  REQUIRE(identity.ok());
  FollowedFiles resumed({clicks.files.Path("clicks")}, "_DONE");
  resumed.Take({path("b.csv"), *identity});
  const auto left = resumed.LookForNew();
  REQUIRE(left.ok());
  REQUIRE(left->files.size() == 1);
  CHECK(fs::path(left->files[0].path).filename() == "a.csv.done");
  fs::last_write_time(path("b.csv"), fs::file_time_type::clock::now() + std::chrono::hours(1));
  CHECK(clicks.New().empty());
  fs::create_hard_link(path("b.csv"), path("e.csv"));
  CHECK(clicks.New().empty());
  // The same rows in a file of another time are new ones, and so are others of the same size.
  clicks.Write("f.csv", "2\n");
  fs::last_write_time(path("f.csv"), fs::file_time_type::clock::now() - std::chrono::hours(1));
  clicks.Write("g.csv", "3\n");
  CHECK(clicks.New() == Strings{"f.csv", "g.csv"});
}

TEST_CASE("follow: a file that was left out is a new one when it has changed") {
  Clicks clicks;
  clicks.Write("a.csv", "wrong\n");
  const auto look = clicks.followed.LookForNew();
  REQUIRE(look.ok());
  REQUIRE(look->files.size() == 1);
  clicks.followed.LeaveOut(look->files[0]);
  CHECK(clicks.New().empty());
  clicks.Write("a.csv", "1\n");
  CHECK(clicks.New() == Strings{"a.csv"});
  CHECK(clicks.New().empty());
  clicks.Write("a.csv", "12\n");
  CHECK(absl::IsFailedPrecondition(clicks.followed.LookForNew().status()));
}

TEST_CASE("follow: the mark of the end is no file with rows, whatever its name is") {
  DataFiles files;
  FollowedFiles followed({Clicks::Made(files), files.Path("clicks/*")}, "END");
  files.Write("clicks/a.csv", "1\n");
  files.Write("clicks/END", "");
  files.Write("clicks/END.csv", "2\n");
  const auto look = followed.LookForNew();
  REQUIRE(look.ok());
  CHECK(look->ended);
  REQUIRE(look->files.size() == 2);
  for (const FollowedFile& file : look->files) CHECK(fs::path(file.path).extension() == ".csv");
}

TEST_CASE("follow: names that editors and tools give to what they are writing are passed over") {
  Clicks clicks;
  for (const char* name : {"a.csv~", "a.csv.part", "a.csv.crdownload", ".a.csv.swp", "a.csv.swp"}) {
    clicks.Write(name, "1\n");
  }
  clicks.Write("a.part.csv", "1\n");
  CHECK(clicks.New() == Strings{"a.part.csv"});
}

TEST_CASE("follow: files come in the order of their last change, and then of their names") {
  Clicks clicks;
  for (const char* name : {"c.csv", "a.csv", "b.csv"}) clicks.Write(name, name);
  const auto time = fs::last_write_time(clicks.files.Path("clicks/c.csv"));
  fs::last_write_time(clicks.files.Path("clicks/a.csv"), time + std::chrono::seconds(10));
  fs::last_write_time(clicks.files.Path("clicks/b.csv"), time);
  CHECK(clicks.New() == Strings{"b.csv", "c.csv", "a.csv"});
}

TEST_CASE("follow: a pattern takes the names that it matches") {
  Clicks clicks("day_*");
  clicks.Write("day_1", "1\n");
  clicks.Write("day_2.tmp", "1\n");
  clicks.Write("other", "1\n");
  CHECK(clicks.New() == Strings{"day_1"});
}

TEST_CASE("follow: what was taken by an earlier run is not new") {
  Clicks clicks;
  clicks.Write("a.csv", "1\n");
  const auto identity = IdentifyFile(clicks.files.Path("clicks/a.csv"));
  REQUIRE(identity.ok());
  clicks.followed.Take({clicks.files.Path("clicks/a.csv"), *identity});
  CHECK(clicks.New().empty());
  CHECK(clicks.followed.taken() == 1);
}

TEST_CASE("follow: a file that changes after it was taken is an error that names it") {
  Clicks clicks;
  clicks.Write("a.csv", "1\n");
  CHECK(clicks.New() == Strings{"a.csv"});
  const std::string a = clicks.files.Path("clicks/a.csv");
  // Only touched, it is what it was.
  fs::last_write_time(a, fs::last_write_time(a) + std::chrono::seconds(10));
  CHECK(clicks.New().empty());
  clicks.Write("a.csv", "1\n2\n");
  const auto look = clicks.followed.LookForNew();
  CHECK(look.status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(look.status().message()),
             Contains("clicks/a.csv: changed since it was indexed: wanted 2 bytes") &&
                 Contains("found 4 bytes") && Contains("new rows go into new files"));
}

TEST_CASE("follow: the end counts once no file came behind it") {
  Clicks clicks;
  CHECK_FALSE(clicks.followed.LookForNew()->ended);
  clicks.Write("a.csv", "1\n");
  clicks.Write("_DONE", "");
  const auto look = clicks.followed.LookForNew();
  REQUIRE(look.ok());
  CHECK(look->ended);
  CHECK(look->files.size() == 1);
  CHECK(clicks.followed.LookForNew()->files.empty());
}

TEST_CASE("follow: of several directories each has to have its end") {
  const DataFiles files;
  for (const char* name : {"a", "b"}) fs::create_directory(files.Path(name));
  FollowedFiles followed({files.Path("a"), files.Path("b/*.csv")}, "_DONE");
  files.Write("a/_DONE", "");
  CHECK_FALSE(followed.LookForNew()->ended);
  files.Write("b/_DONE", "");
  CHECK(followed.LookForNew()->ended);
}

TEST_CASE("follow: a path that files cannot come to is refused; one that goes away is waited for") {
  const DataFiles files;
  files.Write("a.csv", "1\n");
  for (const char* path : {"a.csv", "none", "none/*.csv"}) {
    const absl::Status status = FollowedFiles({files.Path(path)}, "").Check();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(status.message()), Contains("wanted a directory"));
  }
  Clicks clicks;
  fs::remove(clicks.files.Path("clicks"));
  CHECK(absl::IsUnavailable(clicks.followed.LookForNew().status()));
}

TEST_CASE("follow: objects of a store come, change and end as files do", "[remote]") {
  if (!HasArrow()) return;
  ObjectStore store;
  store.Use();
  store.Put("shop/odd", "1\n");
  FollowedFiles followed({"s3://shop/clicks/", "s3://shop/views/day_*.csv"}, "_DONE");
  CHECK(followed.remote());
  REQUIRE(followed.Check().ok());  // directories are there when something is in them
  const auto look = [&followed] {
    auto found = followed.LookForNew();
    INFO(found.status().ToString());
    REQUIRE(found.ok());
    Strings paths;
    for (const FollowedFile& file : found->files) paths.push_back(file.path);
    std::sort(paths.begin(), paths.end());
    return std::pair(paths, found->ended);
  };
  CHECK(look() == std::pair(Strings{}, false));
  store.Put("shop/clicks/a.csv", "1\n");
  store.Put("shop/clicks/b.csv.tmp", "1\n");
  store.Put("shop/clicks/_DONE", "");
  store.Put("shop/views/day_1.csv", "1\n");
  store.Put("shop/views/other.csv", "1\n");
  CHECK(look() == std::pair(Strings{"s3://shop/clicks/a.csv", "s3://shop/views/day_1.csv"}, false));
  // What a look costs does not depend on how many objects were taken.
  const int before = store.requests();
  CHECK(look() == std::pair(Strings{}, false));
  const int of_look = store.requests() - before;
  INFO("requests of a look: " << of_look);
  for (int i = 0; i < 20; ++i) store.Put(absl::StrCat("shop/clicks/more_", i, ".csv"), "1\n");
  CHECK(look().first.size() == 20);
  const int with_more = store.requests();
  CHECK(look() == std::pair(Strings{}, false));
  CHECK(store.requests() - with_more == of_look);
  CHECK(of_look <= 2 * 3);
  store.Put("shop/views/_DONE", "");
  CHECK(look() == std::pair(Strings{}, true));
  store.Put("shop/clicks/a.csv", "1\n2\n");
  const absl::Status changed = followed.LookForNew().status();
  CHECK(changed.code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(changed.message()), Contains("s3://shop/clicks/a.csv: changed"));
}

TEST_CASE("follow: what is no directory of a store is refused", "[remote]") {
  if (!HasArrow()) return;
  ObjectStore store;
  store.Use();
  store.Put("shop/a.csv", "1\n");
  for (const char* path : {"s3://shop/a.csv", "s3://shop/*/a.csv", "s3://none/clicks", "s3://*"}) {
    CAPTURE(path);
    const absl::Status status = FollowedFiles({path}, "").Check();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(status.message()), Contains("wanted a directory"));
  }
}

proto::DatasetSpec Followed(const DataFiles& files, const std::vector<std::string>& names) {
  proto::DatasetSpec spec;
  spec.set_format("csv");
  spec.mutable_csv()->set_header(true);
  for (const std::string& name : names) spec.add_paths(files.Path(name));
  proto::FeatureSpec* n = spec.add_features();
  n->set_name("n");
  n->set_kind(proto::FeatureSpec::CATEGORICAL);
  n->set_id("raw");
  spec.mutable_label()->set_column("y");
  spec.set_followed(true);
  spec.mutable_stream()->set_cache_directory(files.Path("cache"));
  return spec;
}

TEST_CASE("follow: a data set may have no file yet, or one without rows, and has its columns") {
  const DataFiles files;
  files.Write("empty.csv", "n,y\n");
  files.Write("some.csv", "n,y\n7,1\n8,0\n");
  for (const auto& [names, rows] : std::vector<std::pair<Strings, int64_t>>{
           {{}, 0}, {{"empty.csv"}, 0}, {{"empty.csv", "some.csv"}, 2}}) {
    const auto data = Dataset::Load(Followed(files, names));
    INFO(data.status().ToString());
    REQUIRE(data.ok());
    CHECK((*data)->num_examples(Part::kTraining) == rows);
    REQUIRE((*data)->columns(Part::kTraining).size() == 2);
    CHECK((*data)->columns(Part::kTraining)[0].name == "n");
    CHECK((*data)->index() != nullptr);  // whatever its size it is streamed
  }
}

TEST_CASE("follow: indexes of files that come are not kept, as each is used once") {
  const DataFiles files;
  files.Write("some.csv", "n,y\n7,1\n8,0\n");
  const auto kept = [&](bool followed) {
    proto::DatasetSpec spec = Followed(files, {"some.csv"});
    spec.set_followed(followed);
    spec.mutable_stream()->set_mode(proto::StreamOptions::ALWAYS);
    REQUIRE(Dataset::Load(spec).ok());
    std::error_code none;
    const fs::recursive_directory_iterator cache(files.Path("cache"), none);
    return std::count_if(begin(cache), end(cache),
                         [](const auto& e) { return e.is_regular_file(); });
  };
  CHECK(kept(true) == 0);
  CHECK(kept(false) > 0);
}

TEST_CASE("follow: without a file it is not held in memory") {
  const DataFiles files;
  const auto data = Dataset::LoadInMemory(Followed(files, {}));
  CHECK(data.status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("follow: what would be learned of all rows is refused, with its key") {
  const DataFiles files;
  const auto error = [&](auto change) {
    proto::DatasetSpec spec = Followed(files, {});
    change(&spec);
    const absl::Status status = Dataset::Load(spec).status();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  CHECK_THAT(error([](auto* s) { s->mutable_features(0)->clear_id(); }),
             Contains("feature \"n\"") && Contains("a vocabulary is learned from all rows"));
  CHECK_THAT(error([](auto* s) {
               s->mutable_features(0)->clear_id();
               s->mutable_features(0)->set_kind(proto::FeatureSpec::NUMERIC);
               s->mutable_features(0)->set_normalization(proto::FeatureSpec::STANDARD);
             }),
             Contains("normalization"));
  CHECK_THAT(error([](auto* s) { s->mutable_split()->set_test_fraction(0.1); }),
             Contains("split.test_path"));
  CHECK_THAT(error([](auto* s) { s->set_per_worker(true); }), Contains("per_worker"));
  CHECK_THAT(error([](auto* s) { s->set_format("idx"); }), Contains("dataset.follow is true"));
}

TEST_CASE("blocks that are dropped are parsed again when they are wanted") {
  const DataFiles files;
  files.Write("some.csv", "n,y\n7,1\n8,0\n");
  const auto data = Dataset::Load(Followed(files, {"some.csv"}));
  REQUIRE(data.ok());
  const auto before = Bytes(**data, {Part::kTraining, 0, 0, 2});
  (*data)->DropBlocks();
  CHECK(Bytes(**data, {Part::kTraining, 0, 0, 2}) == before);
}

}  // namespace
}  // namespace coxswain::data
