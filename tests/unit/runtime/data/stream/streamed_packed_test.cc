// Packed files that are streamed: unpacked once into copies, of which there are not too many.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/stream/cache_directory.h"
#include "runtime/data/stream/unpacked_files.h"
#include "tests/testing/same_when_streamed.h"
#include "tests/testing/tiny_disk.h"
#include "tests/testing/zstd_bytes.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
namespace fs = std::filesystem;

std::string Rows(int rows) {
  std::string text = "x,tags,y\n";
  for (int i = 0; i < rows; ++i) {
    absl::StrAppend(&text, i, ",t", i % 7, i % 3 == 0 ? "|all" : "", ",", i % 2, "\n");
  }
  return text;
}

proto::DatasetSpec Spec(const std::string& path) {
  auto spec = CsvSpec(path);
  AddNumeric(&spec, "x");
  proto::FeatureSpec* tags = AddCategorical(&spec, "tags");
  tags->set_multi_valued(true);
  tags->set_value_separator("|");
  spec.mutable_label()->set_column("y");
  return spec;
}

std::set<std::string> Copies(const DataFiles& files) {
  std::set<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(files.Path("cache/unpacked"), none)) {
    names.insert(entry.path().string());
  }
  return names;
}

absl::Status ReadAt(const Dataset& data, int64_t begin) {
  return data.Read({Part::kTraining, 0, begin, begin + 1}).status();
}

TEST_CASE("streaming: packed files have the rows and the order that they have unpacked") {
  DataFiles files;
  auto spec = Spec(files.WriteGzip("a.csv.gz", Rows(60)));
  spec.add_paths(files.Write("b.csv.zst", ZstdBytes(Rows(50))));
  spec.add_paths(files.Write("c.csv", Rows(20)));
  spec.mutable_split()->add_test_paths(files.WriteGzip("d.csv", Rows(30)));
  CheckSameWhenStreamed(files, spec);
}

TEST_CASE("streaming: a packed file is unpacked once, into a directory of the user's alone") {
  DataFiles files;
  const auto spec = Streamed(files, Spec(files.WriteGzip("a.csv.gz", Rows(500))), 100);
  const auto data = MustLoad(spec);
  CHECK(Copies(files).empty());  // the index needs none
  REQUIRE(ReadAt(*data, 400).ok());
  const auto copies = Copies(files);
  REQUIRE(copies.size() == 1);
  CHECK(fs::status(files.Path("cache/unpacked")).permissions() == fs::perms::owner_all);
  struct stat first {
  }, second{};
  REQUIRE(stat(copies.begin()->c_str(), &first) == 0);
  CHECK((first.st_mode & 077) == 0);
  CHECK(first.st_size == static_cast<off_t>(Rows(500).size()));
  REQUIRE(ReadAt(*MustLoad(spec), 3).ok());
  REQUIRE(stat(copies.begin()->c_str(), &second) == 0);
  CHECK(Copies(files) == copies);
  CHECK(first.st_ino == second.st_ino);
}

TEST_CASE(
    "streaming: an unpacked copy that was altered is told and made anew, its file is not blamed") {
  DataFiles files;
  const auto spec = Streamed(files, Spec(files.WriteGzip("a.csv.gz", Rows(500))), 100);
  REQUIRE(ReadAt(*MustLoad(spec), 400).ok());
  const std::string copy = *Copies(files).begin();
  {
    std::fstream file(copy, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(fs::file_size(copy) / 2));
    file.put('#');
  }
  const auto read = [](const Dataset& data) {
    return data.Read({Part::kTraining, 0, 0, 500}).status();
  };
  const absl::Status altered = read(*MustLoad(spec));
  CHECK(altered.code() == absl::StatusCode::kDataLoss);
  CHECK_THAT(std::string(altered.message()),
             Contains("a.csv.gz: its unpacked copy " + copy + " was altered"));
  CHECK(Copies(files).empty());
  CHECK(read(*MustLoad(spec)).ok());
}

TEST_CASE("streaming: who reads ahead has its packed files unpacked when it has opened them") {
  DataFiles files;
  const auto spec = Streamed(files, Spec(files.WriteGzip("a.csv.gz", Rows(500))), 100);
  const auto index = MustLoad(spec)->index();
  const auto run = [](absl::AnyInvocable<void()> task) { task(); };
  const auto opened = Dataset::OpenStreamed(spec, index, 1, run);
  INFO(opened.status().ToString());
  REQUIRE(opened.ok());
  CHECK(Copies(files).size() == 1);
}

TEST_CASE("streaming: a packed file that is torn, changed or gone is an error that names it") {
  DataFiles files;
  const std::string path = files.WriteGzip("a.csv.gz", Rows(3000));
  const auto spec = Streamed(files, Spec(path), 100, 1, 8 << 10);
  SECTION("torn, when it is indexed") {
    fs::resize_file(path, fs::file_size(path) - 5);
    CHECK_THAT(LoadError(spec), Contains("a.csv.gz: damaged or torn gzip file"));
    return;
  }
  const auto data = MustLoad(spec);
  SECTION("torn, before it is unpacked") {
    fs::resize_file(path, fs::file_size(path) - 5);
    CHECK_THAT(std::string(ReadAt(*data, 9).message()), Contains("a.csv.gz: changed since"));
  }
  SECTION("another, before it is unpacked") {
    files.WriteGzip("a.csv.gz", Rows(2999));
    const absl::Status status = ReadAt(*data, 9);
    CHECK(absl::IsFailedPrecondition(status));
    CHECK_THAT(std::string(status.message()), Contains("a.csv.gz: changed since it was indexed"));
    CHECK(Copies(files).empty());
  }
  SECTION("another, when it was unpacked") {
    REQUIRE(ReadAt(*data, 9).ok());
    files.WriteGzip("a.csv.gz", Rows(2999));
    CHECK_THAT(std::string(ReadAt(*data, 2900).message()), Contains("a.csv.gz: changed since"));
  }
  SECTION("gone") {
    REQUIRE(ReadAt(*data, 9).ok());
    fs::remove(path);
    CHECK_THAT(std::string(ReadAt(*data, 2900).message()), Contains("a.csv.gz"));
  }
}

TEST_CASE("streaming: a copy that was removed under its readers is still read, and made again") {
  DataFiles files;
  const auto spec = Streamed(files, Spec(files.WriteGzip("a.csv.gz", Rows(3000))), 100, 1, 8 << 10);
  const auto data = MustLoad(spec);
  REQUIRE(ReadAt(*data, 9).ok());
  fs::remove_all(files.Path("cache/unpacked"));
  CHECK(ReadAt(*data, 2900).ok());
  CHECK(ReadAt(*MustLoad(spec), 2900).ok());
  CHECK(Copies(files).size() == 1);
}

TEST_CASE("streaming: copies take no more than cache_size; unused ones make room, used ones stay") {
  DataFiles files;
  const auto of = [&](const std::string& name, int rows) {
    auto spec = Streamed(files, Spec(files.WriteGzip(name, Rows(rows))), 100);
    spec.mutable_stream()->set_cache_bytes(static_cast<int64_t>(Rows(1500).size()));
    return spec;
  };
  auto first = MustLoad(of("a.csv.gz", 1000));
  REQUIRE(ReadAt(*first, 9).ok());
  const auto copies = Copies(files);
  const auto second = MustLoad(of("b.csv.gz", 999));
  const absl::Status full = ReadAt(*second, 9);
  CHECK(absl::IsResourceExhausted(full));
  CHECK_THAT(std::string(full.message()), Contains("b.csv.gz: unpacking it") &&
                                              Contains("in use") && Contains("dataset.cache_size"));
  CHECK(Copies(files) == copies);
  first.reset();
  REQUIRE(ReadAt(*second, 9).ok());
  CHECK(Copies(files).size() == 1);
  CHECK(Copies(files) != copies);
}

TEST_CASE("streaming: what a killed process left half unpacked is removed, another's work is not") {
  DataFiles files;
  fs::create_directories(files.Path("cache/unpacked"));
  fs::permissions(files.Path("cache/unpacked"), fs::perms::owner_all);
  const std::string left = files.Write("cache/unpacked/0123456789abcdef.unpacked.part", "x,y");
  const std::string held = files.Write("cache/unpacked/fedcba9876543210.unpacked.part", "x,y");
  const std::string other = files.Write("cache/unpacked/notes.txt", "mine");
  const int fd = open(held.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(flock(fd, LOCK_EX | LOCK_NB) == 0);
  const auto data = MustLoad(Streamed(files, Spec(files.WriteGzip("a.csv.gz", Rows(50))), 100));
  REQUIRE(ReadAt(*data, 9).ok());
  CHECK_FALSE(fs::exists(left));
  CHECK(fs::exists(held));
  CHECK(fs::exists(other));
  close(fd);
}

TEST_CASE("streaming: a directory for copies that others can read is refused") {
  DataFiles files;
  fs::create_directories(files.Path("cache/unpacked"));
  fs::permissions(files.Path("cache/unpacked"), fs::perms::owner_all | fs::perms::group_read);
  const auto data = MustLoad(Streamed(files, Spec(files.WriteGzip("a.csv.gz", Rows(50))), 100));
  const absl::Status status = ReadAt(*data, 9);
  CHECK(absl::IsFailedPrecondition(status));
  CHECK_THAT(std::string(status.message()), Contains("a.csv.gz") && Contains("mode 0740"));
}

TEST_CASE("streaming: a disk that is full while a file is unpacked is told, and nothing stays") {
  DataFiles files;
  const TinyDisk disk(files.Path("cache"), "64k");
  if (!disk.mounted()) return;
  const auto data = MustLoad(Streamed(files, Spec(files.WriteGzip("a.csv.gz", Rows(20000))), 9000));
  const absl::Status status = ReadAt(*data, 9);
  CHECK(absl::IsResourceExhausted(status));
  CHECK_THAT(std::string(status.message()),
             Contains("a.csv.gz: unpacking it") && Contains("No space left"));
  CHECK(Copies(files).empty());
}

TEST_CASE("streaming: several readers unpack a file together, and each reads it whole") {
  DataFiles files;
  const auto spec = Streamed(files, Spec(files.WriteGzip("a.csv.gz", Rows(20000))), 5000);
  const auto index = MustLoad(spec)->index();
  std::vector<std::string> errors(4);
  std::vector<std::thread> readers;
  for (std::string& error : errors) {
    readers.emplace_back([&] {
      const auto opened = Dataset::OpenStreamed(spec, index, 1, nullptr);
      const absl::Status status = opened.ok() ? ReadAt(**opened, 15000) : opened.status();
      if (!status.ok()) error = status.ToString();
    });
  }
  for (std::thread& reader : readers) reader.join();
  CHECK(errors == std::vector<std::string>(4));
  CHECK(Copies(files).size() == 1);
}

TEST_CASE("cache directory: old indexes go, the newest stay, and what is not ours is not touched") {
  DataFiles files;
  const auto index = [&](int age) {
    const std::string path = files.Write(absl::StrCat("000000000000000", age, ".index"), "1234");
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(age));
    return path;
  };
  std::vector<std::string> indexes;
  for (int age = 0; age < 6; ++age) indexes.push_back(index(age));
  const std::string notes = files.Write("notes.index", "mine"), no_index = files.Write("a", "b");
  const std::string half = files.Write("0123456789abcdef.index.77-1.tmp", "half");
  fs::last_write_time(half, fs::file_time_type::clock::now() - std::chrono::hours(48));
  const std::string writing = files.Write("0123456789abcdef.index.78-1.tmp", "half");
  SECTION("too many") {
    TidyIndexes(files.Path("."), /*most_files=*/3, /*most_bytes=*/1000);
    for (int i = 0; i < 6; ++i) CHECK(fs::exists(indexes[static_cast<size_t>(i)]) == (i < 3));
    CHECK_FALSE(fs::exists(half));
  }
  SECTION("too large, but one stays") {
    TidyIndexes(files.Path("."), /*most_files=*/100, /*most_bytes=*/3);
    for (int i = 0; i < 6; ++i) CHECK(fs::exists(indexes[static_cast<size_t>(i)]) == (i < 1));
  }
  for (const std::string& path : {notes, no_index, writing}) CHECK(fs::exists(path));
}

}  // namespace
}  // namespace coxswain::data
