// Saved models and checkpoints read in pieces: every row is where it belongs, and damage is told
// with the name of the file.
#include "coordinator/model/saved_reader.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <random>

#include "absl/strings/match.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/model/table_stat.h"
#include "runtime/checkpoint/manifest.h"
#include "tests/testing/data_files.h"
#include "tests/testing/saved_models.h"

namespace coxswain::model {
namespace {

using Catch::Matchers::Contains;

Tensor Counting(int64_t rows, int64_t dim) {
  std::vector<float> values(static_cast<size_t>(rows * dim));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return Tensor::FromVector<float>(values, Shape{rows, dim}).value();
}

std::vector<float> ReadFloats(const SavedRows& rows, int64_t begin, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count * rows.row_elements()));
  const absl::Status read = rows.ReadFloats(begin, count, values.data());
  INFO(read.message());
  REQUIRE(read.ok());
  return values;
}

SavedRows Open(const SavedSource& source, const std::string& name) {
  auto rows = source.Open(name);
  INFO(rows.status().message());
  REQUIRE(rows.ok());
  return *std::move(rows);
}

TEST_CASE("every range of rows of a checkpoint is read, whatever its shards are", "[saved]") {
  const DataFiles files;
  const Tensor values = Counting(23, 3);
  for (const std::string strategy : {"div", "mod", "hash"}) {
    for (int shards : {1, 2, 5, 30}) {
      INFO(strategy << " in " << shards);
      const std::string directory = files.Path(absl::StrCat(strategy, shards));
      WriteCheckpoint(directory, 3, 100, {{"t", values, strategy, shards}});
      const auto source = SavedSource::OpenCheckpoint(directory, std::nullopt);
      REQUIRE(source.ok());
      CHECK(source->number() == 3);
      CHECK(source->steps() == 100);
      const SavedRows rows = Open(*source, "t");
      REQUIRE(rows.rows() == 23);
      CHECK(rows.Verify().ok());
      for (int64_t begin = 0; begin <= 23; ++begin) {
        for (int64_t end = begin; end <= 23; ++end) {
          const std::vector<float> read = ReadFloats(rows, begin, end - begin);
          const float* wanted = values.data<float>() + begin * 3;
          REQUIRE(read == std::vector<float>(wanted, wanted + (end - begin) * 3));
        }
      }
      std::vector<float> out(30);
      CHECK(absl::IsOutOfRange(rows.ReadFloats(20, 4, out.data())));
      CHECK(absl::IsOutOfRange(rows.ReadFloats(-1, 2, out.data())));
      for (int64_t p : {0, 7, 22}) {
        CHECK(rows.ShardOf(p) == (strategy == "mod" || shards == 1 ? p % shards : rows.ShardOf(p)));
        CHECK(rows.ShardOf(p) < shards);
      }
    }
  }
}

TEST_CASE("a model's variables of every dtype are read as numbers", "[saved]") {
  const DataFiles files;
  const std::string model = files.Path("model");
  WriteModel(model, {{"half", Tensor::FromVector<BFloat16>(
                                  {BFloat16::FromFloat(1.5f), BFloat16::FromFloat(-0.25f)})},
                     {"double", Tensor::FromVector<double>({0.125, 7}, Shape{1, 2}).value()},
                     {"count", Tensor::Scalar<int64_t>(-3)},
                     {"empty", Tensor(DType::kF32, Shape{0, 4}), true}});
  const auto source = SavedSource::OpenModel(model);
  REQUIRE(source.ok());
  CHECK(source->steps() == 12);
  CHECK(ReadFloats(Open(*source, "half"), 0, 2) == std::vector<float>{1.5f, -0.25f});
  CHECK(ReadFloats(Open(*source, "double"), 0, 1) == std::vector<float>{0.125f, 7});
  CHECK(ReadFloats(Open(*source, "count"), 0, 1) == std::vector<float>{-3});
  CHECK(Open(*source, "empty").rows() == 0);
  const auto none = source->Open("halt");
  CHECK(absl::IsNotFound(none.status()));
  CHECK_THAT(std::string(none.status().message()), Contains("did you mean \"half\"?"));
}

TEST_CASE("a hash table's rows are found by their ids", "[saved]") {
  const DataFiles files;
  const std::string model = files.Path("model");
  const std::vector<int64_t> ids = {1LL << 60, -5, 42, 7};
  WriteModel(model, {{"t", Counting(4, 2), true, {}, ids}});
  const auto source = SavedSource::OpenModel(model);
  REQUIRE(source.ok());
  const SavedRows rows = Open(*source, "t");
  CHECK(rows.variable().shape == Shape{4, 2});
  for (size_t p = 0; p < ids.size(); ++p) CHECK(*rows.FindId(ids[p]) == static_cast<int64_t>(p));
  CHECK(*rows.FindId(8) == -1);

  // In a checkpoint some places are free.
  const std::string directory = files.Path("checkpoints");
  WriteCheckpoint(
      directory, 1, 1,
      {{"t", Counting(4, 2), "hash", 2, true, {3, 0, 9, 4}, {9, 9}, ids, {1, 0, 5, 2}}});
  const auto saved = SavedSource::OpenCheckpoint(directory, 1);
  REQUIRE(saved.ok());
  const SavedRows there = Open(*saved, "t");
  CHECK(there.rows() == 4);
  char live[4];
  REQUIRE(there.ReadLive(0, 4, live).ok());
  CHECK(std::vector<int>(live, live + 4) == std::vector<int>{1, 0, 1, 1});
  int64_t touched[4];
  REQUIRE(there.ReadTouched(0, 4, touched).ok());
  CHECK(std::vector<int64_t>(touched, touched + 4) == std::vector<int64_t>{3, 0, 9, 4});
}

TEST_CASE("words come back as they were, whatever is in them", "[saved]") {
  const DataFiles files;
  std::string text;
  std::vector<std::string> wanted;
  std::mt19937 random(1);
  for (int i = 0; i < 30000; ++i) {
    wanted.push_back(absl::StrCat("w", i, std::string(random() % 9, 'x')));
    absl::StrAppend(&text, wanted.back(), "\n");
  }
  for (const auto& [line, word] : {std::pair<std::string, std::string>{"two\\nlines", "two\nlines"},
                                   {"back\\\\slash", "back\\slash"},
                                   {"", ""},
                                   {"\r", "\r"}}) {
    wanted.push_back(word);
    absl::StrAppend(&text, line, "\n");
  }
  const auto words = SavedWords::Load(files.Write("words.txt", text));
  REQUIRE(words.ok());
  CHECK(words->words() == wanted);
  CHECK(*words->Find("two\nlines") == 30000);
  CHECK(!words->Find("three"));
  const auto cut = SavedWords::Load(files.Write("cut.txt", "one\ntw"));
  CHECK(absl::IsDataLoss(cut.status()));
  CHECK_THAT(std::string(cut.status().message()), Contains("cut.txt"));
}

TEST_CASE("statistics of a table count what is in it", "[saved]") {
  const DataFiles files;
  const std::string directory = files.Path("checkpoints");
  std::vector<float> values;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  for (int i = 1; i <= 101; ++i) values.insert(values.end(), {3.0f * i, 4.0f * i});
  values.insert(values.end(), {0, 0, nan, 1, inf, -inf});
  std::vector<int64_t> touched(104, 2);
  touched[0] = touched[50] = 0;
  WriteCheckpoint(
      directory, 1, 1,
      {{"t", Tensor::FromVector<float>(values, Shape{104, 2}).value(), "mod", 3, true, touched}});
  const auto source = SavedSource::OpenCheckpoint(directory, std::nullopt);
  REQUIRE(source.ok());
  const auto stat = ComputeTableStat(Open(*source, "t"));
  REQUIRE(stat.ok());
  CHECK(stat->rows == 104);
  CHECK(stat->bytes == 104 * 8);
  CHECK(stat->zero_rows == 1);
  CHECK(stat->nan_values == 1);
  CHECK(stat->inf_values == 2);
  CHECK(stat->knows_touched);
  CHECK(stat->never_touched == 2);
  CHECK(stat->norms.count() == 102);
  CHECK(stat->norms.min() == 0);
  CHECK(stat->norms.max() == Approx(505));
  CHECK(stat->norms.Quantile(0.5) == Approx(250).epsilon(0.001));
  const std::vector<int64_t> histogram = stat->norms.Histogram(5);
  CHECK(histogram == std::vector<int64_t>{21, 20, 20, 20, 21});
}

// What reading everything says.
absl::Status ReadAll(const absl::StatusOr<SavedSource>& source) {
  if (!source.ok()) return source.status();
  for (const SavedVariable& v : source->variables()) {
    auto rows = source->Open(v.name);
    if (!rows.ok()) return rows.status();
    if (absl::Status s = ComputeTableStat(*rows).status(); !s.ok()) return s;
    if (absl::Status s = rows->Verify(); !s.ok()) return s;
  }
  return absl::OkStatus();
}

void FlipByte(const std::string& path, uint64_t at, char with) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const char was = static_cast<char>(file.get());
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(was ^ with));
}

TEST_CASE("a model with any byte altered, cut off or missing is an error that names the file",
          "[saved]") {
  const DataFiles files;
  const std::string model = files.Path("model");
  const auto write = [&] {
    WriteModel(model, {{"t", Counting(5, 2), true}, {"bias", Tensor::Scalar<float>(1)}});
  };
  write();
  const std::string path = model + "/t.safetensors";
  const auto size = std::filesystem::file_size(path);
  REQUIRE(ReadAll(SavedSource::OpenModel(model)).ok());
  std::mt19937 random(7);
  for (uint64_t i = 0; i < 400; ++i) {
    // The header's length and text first, then anywhere.
    const uint64_t at = i < 150 ? i : random() % size;
    FlipByte(path, at, static_cast<char>(1 << (random() % 8)));
    const absl::Status status = ReadAll(SavedSource::OpenModel(model));
    INFO("byte " << at << ": " << status.message());
    REQUIRE(absl::IsDataLoss(status));
    REQUIRE(absl::StrContains(status.message(), "t.safetensors"));
    write();
  }
  for (uint64_t length : {size - 1, size / 2, uint64_t{12}, uint64_t{7}, uint64_t{0}}) {
    std::filesystem::resize_file(path, length);
    const absl::Status status = ReadAll(SavedSource::OpenModel(model));
    INFO(length << " bytes: " << status.message());
    REQUIRE(absl::IsDataLoss(status));
    REQUIRE(absl::StrContains(status.message(), "t.safetensors"));
    write();
  }
  std::filesystem::remove(path);
  const absl::Status missing = ReadAll(SavedSource::OpenModel(model));
  CHECK(absl::IsDataLoss(missing));
  CHECK_THAT(std::string(missing.message()), Contains("t.safetensors"));
  std::filesystem::create_directory(path);
  CHECK_THAT(std::string(ReadAll(SavedSource::OpenModel(model)).message()),
             Contains("t.safetensors"));
}

TEST_CASE("a manifest with any byte altered is read or refused, and never crashes", "[saved]") {
  const DataFiles files;
  const std::string model = files.Path("model");
  const auto write = [&] { WriteModel(model, {{"t", Counting(5, 2), true, {}, {4, 5, 6, 7, 8}}}); };
  write();
  const std::string path = model + "/model.json";
  const auto size = std::filesystem::file_size(path);
  int refused = 0;
  for (uint64_t at = 0; at < size; ++at) {
    for (char bit : {1, 4, 64}) {
      FlipByte(path, at, bit);
      const absl::Status status = ReadAll(SavedSource::OpenModel(model));
      refused += !status.ok();
      INFO("byte " << at << ": " << status.message());
      if (!status.ok()) REQUIRE(absl::StrContains(status.message(), model));
      FlipByte(path, at, bit);
    }
  }
  CHECK(refused > static_cast<int>(size));
  CHECK(absl::IsNotFound(SavedSource::OpenModel(files.Path("nothing")).status()));
}

TEST_CASE("shards that do not make up a variable are refused", "[saved]") {
  const DataFiles files;
  const std::string directory = files.Path("checkpoints");
  const std::string path = WriteCheckpoint(directory, 2, 1, {{"t", Counting(10, 2), "div", 3}});
  const auto disk = env::NewRealFileSystem();
  auto manifest = checkpoint::ReadManifest(disk.get(), path);
  REQUIRE(manifest.ok());
  const auto with = [&](std::function<void(checkpoint::Manifest*)> change) {
    checkpoint::Manifest changed = *manifest;
    change(&changed);
    REQUIRE(disk->WriteAtomically(path + "/manifest.json", checkpoint::ToJson(changed)).ok());
    const absl::Status status = ReadAll(SavedSource::OpenCheckpoint(directory, 2));
    INFO(status.message());
    CHECK(absl::IsDataLoss(status));
  };
  with([](checkpoint::Manifest* m) { m->shards.pop_back(); });
  with([](checkpoint::Manifest* m) { m->shards[1].mutable_shard()->set_rows(2); });
  with([](checkpoint::Manifest* m) { m->shards[1].mutable_shard()->set_row_begin(5); });
  with([](checkpoint::Manifest* m) { m->shards[2].mutable_shard()->set_strategy("mod"); });
  with([](checkpoint::Manifest* m) { m->shards[1].set_file("shard-1.safetensors"); });
  CHECK(absl::IsNotFound(SavedSource::OpenCheckpoint(directory, 9).status()));
  CHECK(absl::IsNotFound(SavedSource::OpenCheckpoint(files.Path("none"), 9).status()));
}

}  // namespace
}  // namespace coxswain::model
