#include "runtime/data/stream/index_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/data/spec_check.h"
#include "tests/testing/streamed_specs.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

struct Fixture {
  Fixture() {
    spec = CsvSpec(files.Write("a.csv", "x\n1\n2\n3\n"));
    AddNumeric(&spec, "x");
    spec = Streamed(files, spec, 2);
  }
  std::shared_ptr<const proto::DatasetIndex> Find() {
    auto index = FindOrMakeIndex(CheckSpec(spec).value(), disk.get());
    INFO(index.status().ToString());
    REQUIRE(index.ok());
    return *std::move(index);
  }
  std::string path() const { return IndexPath(CheckSpec(spec).value()); }

  DataFiles files;
  proto::DatasetSpec spec;
  std::unique_ptr<env::FileSystem> disk = env::NewRealFileSystem();
};

TEST_CASE(
    "index file: a directory that is made for it is for nobody else, another stays as it is") {
  namespace fs = std::filesystem;
  Fixture f;
  const fs::path directory = fs::path(f.path()).parent_path();
  SECTION("a new one") {
    f.Find();
    CHECK(fs::status(directory).permissions() == fs::perms::owner_all);
  }
  SECTION("one that is there") {
    const fs::perms before = fs::perms::owner_all | fs::perms::group_read | fs::perms::others_read;
    fs::create_directories(directory);
    fs::permissions(directory, before);
    f.Find();
    CHECK(fs::status(directory).permissions() == before);
  }
  CHECK(fs::exists(f.path()));
}

TEST_CASE("index file: what is saved is used again, until the data or the spec is another") {
  Fixture f;
  const auto first = f.Find();
  REQUIRE(first->rows() == 3);
  CHECK(first->blocks_size() == 3);
  CHECK_THAT(f.path(), Contains("/cache/") && EndsWith(".index"));
  // A mark that no pass would make.
  proto::DatasetIndex marked = *first;
  marked.set_own_rows(77);
  REQUIRE(WriteIndex(f.disk.get(), f.path(), marked).ok());
  CHECK(f.Find()->own_rows() == 77);
  SECTION("another time of the file") {
    std::filesystem::last_write_time(
        f.spec.paths(0), std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
    CHECK(f.Find()->own_rows() == 3);
  }
  SECTION("other content") {
    f.files.Write("a.csv", "x\n1\n2\n3\n4\n");
    CHECK(f.Find()->own_rows() == 4);
  }
  SECTION("another spec") {
    f.spec.set_seed(4);
    CHECK(f.Find()->own_rows() == 3);
    f.spec.set_seed(0);
    CHECK(f.Find()->own_rows() == 77);
  }
  SECTION("what no row depends on") {
    f.spec.set_shuffle(true);
    f.spec.mutable_features(0)->set_dim(7);
    CHECK(f.Find()->own_rows() == 77);
  }
  SECTION("a damaged file") {
    std::string content = f.disk->Read(f.path()).value();
    content.back() = static_cast<char>(content.back() ^ 1);
    REQUIRE(f.disk->WriteAtomically(f.path(), content).ok());
    CHECK(absl::IsDataLoss(ReadIndex(f.disk.get(), f.path()).status()));
    CHECK(f.Find()->own_rows() == 3);
    CHECK(ReadIndex(f.disk.get(), f.path())->own_rows() == 3);
  }
  SECTION("a cut file") {
    const std::string content = f.disk->Read(f.path()).value();
    REQUIRE(f.disk->WriteAtomically(f.path(), content.substr(0, 20)).ok());
    CHECK(f.Find()->own_rows() == 3);
  }
}

TEST_CASE("index file: what others could have put there is not used") {
  namespace fs = std::filesystem;
  Fixture f;
  const fs::path directory = fs::path(f.path()).parent_path();
  proto::DatasetIndex marked = *f.Find();
  marked.set_own_rows(77);
  REQUIRE(WriteIndex(f.disk.get(), f.path(), marked).ok());
  REQUIRE(f.Find()->own_rows() == 77);
  const auto saved = [&] { return ReadIndex(f.disk.get(), f.path())->own_rows(); };
  SECTION("a file that others can write is replaced") {
    fs::permissions(f.path(), fs::perms::others_write, fs::perm_options::add);
    CHECK(f.Find()->own_rows() == 3);
    CHECK(saved() == 3);
  }
  SECTION("a directory that others can write is left alone") {
    fs::permissions(directory, fs::perms::all);
    CHECK(f.Find()->own_rows() == 3);
    CHECK(saved() == 77);
  }
  SECTION("in a directory that its group can write it is used") {
    fs::permissions(directory, fs::perms::group_all, fs::perm_options::add);
    CHECK(f.Find()->own_rows() == 77);
  }
  SECTION("where others can write and remove nothing of this user's it is used") {
    fs::permissions(directory, fs::perms::all | fs::perms::sticky_bit);
    CHECK(f.Find()->own_rows() == 77);
  }
  SECTION("another user's file is replaced") {
    if (geteuid() != 0) return;  // only root can make one
    REQUIRE(chown(f.path().c_str(), 12345, 12345) == 0);
    CHECK(f.Find()->own_rows() == 3);
    CHECK(saved() == 3);
  }
}

TEST_CASE("index file: what is saved can be used again, whatever the umask") {
  Fixture f;
  const mode_t before = umask(0);
  f.Find();
  umask(before);
  CHECK((std::filesystem::status(f.path()).permissions() & std::filesystem::perms(022)) ==
        std::filesystem::perms::none);
}

TEST_CASE("index file: a vocabulary file belongs to the data") {
  Fixture f;
  f.spec.mutable_features(0)->set_kind(proto::FeatureSpec::CATEGORICAL);
  f.spec.mutable_features(0)->set_vocabulary_file(f.files.Write("v.txt", "1\n2\n3\n"));
  CHECK(f.Find()->features(0).vocabulary_size() == 3);
  f.files.Write("v.txt", "3\n2\n1\n0\n");
  CHECK(f.Find()->features(0).vocabulary_size() == 4);
}

TEST_CASE("index file: where it cannot be saved the data set is there all the same") {
  Fixture f;
  f.spec.mutable_stream()->set_cache_directory(f.files.Write("file", "no directory"));
  CHECK(f.Find()->rows() == 3);
}

TEST_CASE("index file: other machines have the data under other paths and times") {
  Fixture f;
  const auto index = f.Find();
  f.spec.set_paths(0, f.files.Write("copy.csv", "x\n1\n2\n3\n"));
  CHECK(Dataset::OpenStreamed(f.spec, index, 1, nullptr).ok());
  f.spec.set_seed(3);
  CHECK(absl::IsFailedPrecondition(Dataset::OpenStreamed(f.spec, index, 1, nullptr).status()));
}

}  // namespace
}  // namespace coxswain::data
