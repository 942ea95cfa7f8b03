#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/graph/attr.h"
#include "tests/testing/data_files.h"

namespace coxswain::checkpoint {
namespace {

struct Named {
  std::string name;
  Tensor tensor;
};

std::vector<Named> Sample() {
  return {{"users/part_0", Tensor::FromVector<float>({1, 2, 3, 4, 5, 6}, Shape{3, 2}).value()},
          {"step", Tensor::Scalar<int64_t>(-7)},
          {"empty", Tensor(DType::kF32, Shape{0, 5})},
          {"flags", Tensor::FromVector<bool>({true, false, true})},
          {"odd \"name\" \\ \xc3\xbc", Tensor::FromVector<double>({0.5, -0.25})},
          {"half", Tensor::FromVector<BFloat16>({BFloat16::FromFloat(1.5f)})},
          {"ints", Tensor::FromVector<int32_t>({1, -2, 3}, Shape{1, 3}).value()}};
}

void Write(const std::string& path, const std::vector<Named>& tensors) {
  const auto files = env::NewRealFileSystem();
  std::vector<SafetensorsEntry> entries;
  for (const Named& n : tensors) entries.push_back({n.name, n.tensor.dtype(), n.tensor.shape()});
  auto writer = SafetensorsWriter::Create(files.get(), path, entries, {{"epoch", "3"}});
  REQUIRE(writer.ok());
  for (const Named& n : tensors) {
    // In two pieces, as rows that follow one another.
    const char* bytes = static_cast<const char*>(n.tensor.raw());
    const size_t half = n.tensor.bytes() / 2;
    REQUIRE((*writer)->Append(bytes, half).ok());
    REQUIRE((*writer)->Append(bytes + half, n.tensor.bytes() - half).ok());
  }
  REQUIRE((*writer)->Finish().ok());
}

// Opens and reads everything; how many bytes were there.
absl::StatusOr<int64_t> ReadAll(const std::string& path) {
  auto file = SafetensorsFile::Open(env::NewRealFileSystem().get(), path);
  if (!file.ok()) return file.status();
  int64_t sum = 0;
  for (const SafetensorsEntry& entry : file->entries()) {
    auto tensor = file->Read(entry.name);
    if (!tensor.ok()) return tensor.status();
    const unsigned char* p = static_cast<const unsigned char*>(tensor->raw());
    for (size_t i = 0; i < tensor->bytes(); ++i) sum += p[i];
  }
  return sum;
}

// A file with this header and this number of bytes of tensors.
std::string FileOf(const std::string& header, size_t bytes) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(bytes, 'd');
}

TEST_CASE("tensors come back from a safetensors file as they were written", "[safetensors]") {
  const DataFiles dir;
  const std::string path = dir.Path("shard.safetensors");
  Write(path, Sample());
  auto file = SafetensorsFile::Open(env::NewRealFileSystem().get(), path);
  INFO(file.status().ToString());
  REQUIRE(file.ok());
  REQUIRE(file->entries().size() == Sample().size());
  for (size_t i = 0; i < Sample().size(); ++i) {
    const Named wanted = Sample()[i];
    INFO(wanted.name);
    CHECK(file->entries()[i].name == wanted.name);  // in the order of writing
    auto tensor = file->Read(wanted.name);
    REQUIRE(tensor.ok());
    CHECK(AttrValue(*tensor) == AttrValue(wanted.tensor));
  }
  CHECK(file->Read("nobody").status().code() == absl::StatusCode::kNotFound);
  CHECK(absl::StrContains(file->Read("nobody").status().message(), "'nobody'"));
  // A tensor outlives the file.
  auto kept = file->Read("users/part_0");
  file = absl::UnknownError("gone");
  REQUIRE(kept.ok());
  CHECK(kept->data<float>()[5] == 6);
}

// The layout that other readers rely on: length, JSON with offsets from the header's end, bytes.
TEST_CASE("a file has the published layout", "[safetensors]") {
  const DataFiles dir;
  const std::string path = dir.Path("f");
  Write(path, {{"a", Tensor::FromVector<float>({1, 2})}, {"b", Tensor::Scalar<int64_t>(9)}});
  auto bytes = env::NewRealFileSystem()->Read(path);
  REQUIRE(bytes.ok());
  uint64_t length = 0;
  std::memcpy(&length, bytes->data(), 8);
  REQUIRE(bytes->size() == 8 + length + 16);
  CHECK((8 + length) % 64 == 0);
  const std::string header = bytes->substr(8, length);
  INFO(header);
  CHECK(absl::StrContains(header, R"("__metadata__":{"epoch":"3"})"));
  CHECK(absl::StrContains(header, R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})"));
  CHECK(absl::StrContains(header, R"("b":{"dtype":"I64","shape":[],"data_offsets":[8,16]})"));
  int64_t b = 0;
  std::memcpy(&b, bytes->data() + 8 + length + 8, 8);
  CHECK(b == 9);
}

TEST_CASE("a file that is cut off anywhere is DataLoss", "[safetensors]") {
  const DataFiles dir;
  const std::string path = dir.Path("f");
  Write(path, Sample());
  const std::string whole = *env::NewRealFileSystem()->Read(path);
  for (size_t size = 0; size < whole.size(); size += 5) {
    const auto read = ReadAll(dir.Write("cut", absl::string_view(whole).substr(0, size)));
    INFO(size);
    CHECK(read.status().code() == absl::StatusCode::kDataLoss);
  }
  CHECK(
      SafetensorsFile::Open(env::NewRealFileSystem().get(), dir.Path("missing")).status().code() ==
      absl::StatusCode::kNotFound);
}

TEST_CASE("flipped bits of a header are an error or another whole file, never a crash",
          "[safetensors]") {
  const DataFiles dir;
  const std::string path = dir.Path("f");
  Write(path, Sample());
  const std::string whole = *env::NewRealFileSystem()->Read(path);
  uint64_t length = 0;
  std::memcpy(&length, whole.data(), 8);
  int refused = 0;
  for (size_t i = 0; i < 8 + length; i += i < 8 ? 1 : 3) {
    std::string bad = whole;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 7)));
    refused += !ReadAll(dir.Write("bad", bad)).ok();
  }
  CHECK(refused > static_cast<int>(length / 9));
  std::mt19937_64 random(3);
  for (int round = 0; round < 150; ++round) {
    std::string bad = whole;
    for (int k = 0; k < 4; ++k) {
      bad[8 + random() % length] = "0123456789{}[]\",:-\\"[random() % 19];
    }
    ReadAll(dir.Write("bad", bad)).status().IgnoreError();
  }
}

TEST_CASE("a header that does not describe the file is DataLoss", "[safetensors]") {
  const DataFiles dir;
  const std::vector<std::string> headers = {
      "",
      "{",
      "[]",
      "null",
      "7",
      "\"text\"",
      "{\"a\":7}",
      "{\"a\":null}",
      "{\"a\":[]}",
      "{\"a\":{}}",
      R"({"a":{"shape":[2],"data_offsets":[0,8]}})",
      R"({"a":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})",
      R"({"a":{"dtype":null,"shape":[2],"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"","shape":[2],"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F32","data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F32","shape":["2"],"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F32","shape":[2]}})",
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":8}})",
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8]}})",
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4,8]}})",
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,"8"]}})",
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})",
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}})",
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})",
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
      R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})",
      R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]}})",
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[18446744073709551608,18446744073709551615]}})",
      R"({"a":{"dtype":"F32","shape":[1e300],"data_offsets":[0,8]}})"};
  for (const std::string& header : headers) {
    INFO(header);
    const auto read = ReadAll(dir.Write("bad", FileOf(header, 8)));
    CHECK(read.status().code() == absl::StatusCode::kDataLoss);
    CHECK(absl::StrContains(read.status().message(), "bad"));  // the file's name
  }
  CHECK(ReadAll(dir.Write("good",
                          FileOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8)))
            .ok());
  // A length that no file has.
  std::string huge = FileOf("{}", 0);
  for (uint64_t length : {uint64_t{3}, uint64_t{1} << 62, std::numeric_limits<uint64_t>::max()}) {
    std::memcpy(huge.data(), &length, 8);
    CHECK(ReadAll(dir.Write("huge", huge)).status().code() == absl::StatusCode::kDataLoss);
  }
  // Brackets to the depths.
  CHECK_FALSE(ReadAll(dir.Write("deep", FileOf(std::string(200000, '['), 0))).ok());
}

TEST_CASE("a writer that gets more or fewer bytes than it was told says so", "[safetensors]") {
  const DataFiles dir;
  const auto files = env::NewRealFileSystem();
  const float two[2] = {1, 2};
  const auto writer = [&] {
    auto w = SafetensorsWriter::Create(files.get(), dir.Path("f"), {{"a", DType::kF32, Shape{2}}});
    REQUIRE(w.ok());
    return *std::move(w);
  };
  auto more = writer();
  REQUIRE(more->Append(two, 8).ok());
  CHECK(more->Append(two, 1).code() == absl::StatusCode::kInternal);
  auto fewer = writer();
  REQUIRE(fewer->Append(two, 4).ok());
  CHECK(fewer->Finish().code() == absl::StatusCode::kInternal);
  CHECK_FALSE(SafetensorsWriter::Create(files.get(), dir.Path("missing/f"), {}).ok());
}

TEST_CASE("nothing appended leaves the checksum as it is", "[safetensors]") {
  const DataFiles files;
  const std::string path = files.Path("file");
  auto writer = SafetensorsWriter::Create(env::NewRealFileSystem().get(), path,
                                          {{"t", DType::kF32, Shape{1}}});
  REQUIRE(writer.ok());
  const float value = 1;
  REQUIRE((*writer)->Append(&value, sizeof(value)).ok());
  const uint32_t crc = (*writer)->crc32();
  REQUIRE((*writer)->Append(nullptr, 0).ok());
  CHECK((*writer)->crc32() == crc);
  CHECK((*writer)->Finish().ok());
}

}  // namespace
}  // namespace coxswain::checkpoint
