// Files that are unpacked while they are read.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "runtime/data/byte_source.h"
#include "runtime/data/input_file.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"
#include "tests/testing/zlib_bytes.h"
#include "tests/testing/zstd_bytes.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;

// The whole file, or the error that ended it.
absl::StatusOr<std::string> ReadWhole(const std::string& path, uint64_t* hash) {
  auto input = InputFile::Open(path);
  if (!input.ok()) return input.status();
  std::string text;
  while (true) {
    text.append((*input)->begin(), (*input)->end());
    (*input)->Consume(static_cast<size_t>((*input)->end() - (*input)->begin()));
    if ((*input)->at_end()) break;
    if (const absl::Status status = (*input)->More(); !status.ok()) return status;
  }
  *hash = (*input)->content_hash();
  return text;
}

std::string Noise(size_t size) {
  std::mt19937 random(5);
  std::string text(size, ' ');
  for (char& c : text) c = static_cast<char>('a' + random() % 24);
  return text;
}

TEST_CASE("packed files: gzip and zstd are read as the bytes that they pack, with their hash") {
  DataFiles files;
  for (const size_t size : {size_t{1}, size_t{5}, size_t{70'000}, size_t{1'500'000}}) {
    const std::string text = Noise(size);
    uint64_t plain = 0, gzip = 0, zstd = 0;
    CHECK(*ReadWhole(files.Write("a", text), &plain) == text);
    CHECK(*ReadWhole(files.WriteGzip("b", text), &gzip) == text);
    CHECK(*ReadWhole(files.Write("c", ZstdBytes(text)), &zstd) == text);
    CHECK(gzip == plain);
    CHECK(zstd == plain);
  }
}

TEST_CASE("packed files: what comes through a pipe is unpacked, too") {
  const std::string text = Noise(50'000);
  for (const std::string& bytes : {text, ZstdBytes(text), ZlibBytes(text)}) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    std::thread writer([&bytes, fd = ends[1]] {
      // In pieces, the first of which does not say what they are.
      size_t done = 0;
      for (size_t size = 1; done < bytes.size(); size *= 3) {
        const ssize_t n = write(fd, bytes.data() + done, std::min(size, bytes.size() - done));
        if (n < 0) break;
        done += static_cast<size_t>(n);
      }
      close(fd);
    });
    auto source = ByteSource::OfDescriptor("stdin", ends[0]);
    std::string read(text.size() + 1, ' ');
    const auto count = source.ok() ? (*source)->Read(read.data(), read.size()) : source.status();
    writer.join();
    INFO(count.status().ToString());
    REQUIRE(count.ok());
    CHECK(read.substr(0, *count) == text);
  }
}

TEST_CASE("packed files: several members of gzip are one file, and what fills up a block is none") {
  DataFiles files;
  const auto bytes_of = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  };
  const std::string first = Noise(300'000), second = "the end\n";
  const std::string members =
      bytes_of(files.WriteGzip("a", first)) + bytes_of(files.WriteGzip("b", second));
  uint64_t hash = 0;
  CHECK(*ReadWhole(files.Write("both", members), &hash) == first + second);
  CHECK(*ReadWhole(files.Write("filled", members + std::string(512, '\0')), &hash) ==
        first + second);
  // As `cat day.gz more.csv` makes them.
  const auto appended = ReadWhole(files.Write("appended", members + "c,d\n"), &hash);
  CHECK_THAT(std::string(appended.status().message()),
             Contains("appended: damaged or torn gzip file: bytes that are not packed follow"));
  for (const size_t less : {size_t{1}, size_t{9}}) {
    const auto torn =
        ReadWhole(files.Write("torn", members.substr(0, members.size() - less)), &hash);
    CHECK_THAT(std::string(torn.status().message()),
               Contains("torn: damaged or torn gzip file: its end is missing"));
  }
}

TEST_CASE("packed files: streams of zlib are read as the bytes that they pack") {
  DataFiles files;
  const int level = GENERATE(Z_DEFAULT_COMPRESSION, Z_BEST_SPEED, Z_BEST_COMPRESSION);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{70'000}, size_t{1'500'000}}) {
    const std::string text = Noise(size);
    uint64_t plain = 0, zlib = 0;
    CHECK(*ReadWhole(files.Write("a", text), &plain) == text);
    CHECK(*ReadWhole(files.Write("b", ZlibBytes(text, level)), &zlib) == text);
    CHECK(zlib == plain);
  }
}

TEST_CASE("packed files: a stream of zlib that is torn or damaged is an error that names it") {
  DataFiles files;
  const std::string whole = ZlibBytes(Noise(300'000));
  uint64_t hash = 0;
  const auto error = [&](const std::string& bytes) {
    const auto read = ReadWhole(files.Write("a.z", bytes), &hash);
    INFO(read.status().ToString());
    CHECK(absl::IsDataLoss(read.status()));
    return std::string(read.status().message());
  };
  for (const size_t size : {size_t{100}, whole.size() / 2, whole.size() - 1}) {
    CHECK_THAT(error(whole.substr(0, size)), Contains("a.z: damaged or torn zlib stream: its end"));
  }
  std::string damaged = whole;
  damaged[whole.size() - 1] = static_cast<char>(damaged[whole.size() - 1] ^ 1);
  CHECK_THAT(error(damaged), Contains("incorrect data check"));
  CHECK_THAT(error(whole + "x"), Contains("more bytes follow its end"));
}

TEST_CASE("packed files: what begins like zlib and is none is read as it is") {
  DataFiles files;
  uint64_t hash = 0;
  for (const std::string& text :
       {std::string("x^2,y\n1,2\n"), std::string("x\x9c"), std::string("x\xda\xa8 text of letters"),
        std::string("x\x9c\0\0\0\0\0\0abcd", 12)}) {
    CHECK_FALSE(IsZlib(text));
    CHECK(*ReadWhole(files.Write("a", text), &hash) == text);
  }
}

TEST_CASE("packed files: frames of zstd follow each other, and skippable ones are skipped") {
  DataFiles files;
  const std::string skipped("\x51\x2a\x4d\x18\x03\x00\x00\x00xyz", 11);
  uint64_t hash = 0;
  const std::string path =
      files.Write("a", skipped + ZstdBytes("one,") + ZstdBytes("") + skipped + ZstdBytes("two"));
  CHECK(*ReadWhole(path, &hash) == "one,two");
}

TEST_CASE("packed files: one that is torn or damaged is an error that names it") {
  DataFiles files;
  const std::string whole = ZstdBytes(Noise(300'000));
  uint64_t hash = 0;
  for (const size_t size : {size_t{5}, size_t{100}, whole.size() / 2, whole.size() - 1}) {
    const auto torn = ReadWhole(files.Write("torn.zst", whole.substr(0, size)), &hash);
    INFO(size << " bytes: " << torn.status().ToString());
    CHECK(absl::IsDataLoss(torn.status()));
    CHECK_THAT(std::string(torn.status().message()), Contains("torn.zst: torn zstd file"));
  }
  const auto behind = ReadWhole(files.Write("b.zst", ZstdBytes("x\n") + "no frame"), &hash);
  CHECK(absl::IsDataLoss(behind.status()));
  CHECK_THAT(std::string(behind.status().message()), Contains("b.zst: damaged zstd file: "));
}

TEST_CASE("packed files: zstd csv in memory has the data set of the file that it packs") {
  DataFiles files;
  std::string text = "x,word\n";
  for (int i = 0; i < 3000; ++i) absl::StrAppend(&text, i, ",w", i % 17, "\n");
  auto spec = CsvSpec(files.Write("a.csv", text));
  AddNumeric(&spec, "x");
  AddCategorical(&spec, "word");
  const auto plain = MustLoad(spec);
  spec.set_paths(0, files.Write("a.csv.zst", ZstdBytes(text)));
  CHECK(MustLoad(spec)->fingerprint() == plain->fingerprint());
  spec.set_paths(0, files.Write("b.csv.zst", ZstdBytes("x,word\n1,a\nzwei,b\n")));
  CHECK_THAT(LoadError(spec), Contains("b.csv.zst:3:1: field 1 (\"x\"): wanted a finite number"));
}

TEST_CASE("packed files: what other programs than gzip and zstd have packed is named") {
  DataFiles files;
  const std::string zip("PK\x03\x04\x14\x00\x00\x00\x08\x00", 10);
  const std::string xz(
      "\xfd"
      "7zXZ\x00\x00\x04\xe6\xd6",
      10);
  const std::string bzip2("BZh91AY&SY\x01\x02");
  for (const auto& [bytes, name] : {std::pair{zip, "zip"}, {xz, "xz"}, {bzip2, "bzip2"}}) {
    auto spec = CsvSpec(files.Write("a.csv", bytes));
    AddNumeric(&spec, "x");
    CHECK_THAT(LoadError(spec), Catch::Matchers::Contains(absl::StrCat(
                                    "a.csv: wanted text, found a file that is packed as ", name,
                                    ": unpack it first, or pack it by gzip or zstd")));
  }
  auto spec = CsvSpec(files.Write("a.csv", "BZh9\n1\n"));
  AddNumeric(&spec, "BZh9");
  MustLoad(spec);
}

}  // namespace
}  // namespace coxswain::data
