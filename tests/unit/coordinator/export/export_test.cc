// Exports hold what was saved, in each format; a delta brings an older export up to date; and what
// goes wrong leaves nothing behind.
#include "coordinator/export/export.h"

#include <sys/mount.h>
#include <zlib.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "coordinator/export/csv_writer.h"
#include "coordinator/export/removed_ids.h"
#include "coordinator/model/npz_reader.h"
#include "tests/testing/data_files.h"
#include "tests/testing/saved_models.h"

namespace coxswain::exporter {
namespace {

using Catch::Matchers::Contains;

std::string Slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

template <typename T>
T Get(const std::string& bytes, size_t at) {
  REQUIRE(at + sizeof(T) <= bytes.size());
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

struct NpyArray {
  std::string descr, shape;
  std::string data;
};

// By the formats' descriptions: the zip file's directory from its end, as zipfile does, and the
// headers that the entries have themselves.
std::map<std::string, NpyArray> ReadNpz(const std::string& path) {
  const std::string zip = Slurp(path);
  REQUIRE(zip.size() > 22);
  const size_t end = zip.size() - 22;
  REQUIRE(Get<uint32_t>(zip, end) == 0x06054b50);
  REQUIRE(Get<uint32_t>(zip, end - 20) == 0x07064b50);
  const auto end64 = static_cast<size_t>(Get<uint64_t>(zip, end - 12));
  REQUIRE(Get<uint32_t>(zip, end64) == 0x06064b50);
  const auto count = Get<uint64_t>(zip, end64 + 32);
  CHECK(Get<uint16_t>(zip, end + 10) == count);
  size_t at = static_cast<size_t>(Get<uint64_t>(zip, end64 + 48));
  CHECK(at + Get<uint64_t>(zip, end64 + 40) == end64);
  std::map<std::string, NpyArray> arrays;
  for (uint64_t i = 0; i < count; ++i) {
    REQUIRE(Get<uint32_t>(zip, at) == 0x02014b50);
    const auto crc = Get<uint32_t>(zip, at + 16);
    const auto name_size = Get<uint16_t>(zip, at + 28);
    const std::string name = zip.substr(at + 46, name_size);
    const size_t extra = at + 46 + name_size;
    const auto bytes = static_cast<size_t>(Get<uint64_t>(zip, extra + 4));
    const auto local = static_cast<size_t>(Get<uint64_t>(zip, extra + 20));
    at = extra + Get<uint16_t>(zip, at + 30);
    REQUIRE(Get<uint32_t>(zip, local) == 0x04034b50);
    CHECK(zip.substr(local + 30, name_size) == name);
    const size_t begin = local + 30 + name_size + Get<uint16_t>(zip, local + 28);
    const std::string content = zip.substr(begin, bytes);
    REQUIRE(content.size() == bytes);
    CHECK(crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), bytes) == crc);
    CHECK(Get<uint32_t>(zip, begin + bytes) == 0x08074b50);
    CHECK(Get<uint32_t>(zip, begin + bytes + 4) == crc);
    REQUIRE(content.substr(0, 8) == std::string("\x93NUMPY\x01\x00", 8));
    const size_t header = 10 + Get<uint16_t>(content, 8);
    CHECK(header % 64 == 0);
    const std::string text = content.substr(10, header - 10);
    const size_t descr = text.find("'descr': '") + 10, shape = text.find("'shape': (") + 10;
    REQUIRE(absl::EndsWith(name, ".npy"));
    arrays[name.substr(0, name.size() - 4)] = {text.substr(descr, text.find('\'', descr) - descr),
                                               text.substr(shape, text.find(')', shape) - shape),
                                               content.substr(header)};
  }
  CHECK(at == end64);
  return arrays;
}

template <typename T>
std::vector<T> Values(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

template <typename T>
std::vector<T> Values(const Tensor& t) {
  return Values<T>(std::string(static_cast<const char*>(t.raw()), t.bytes()));
}

model::SavedSource Model(const std::string& path) {
  auto source = model::SavedSource::OpenModel(path);
  INFO(source.status().message());
  REQUIRE(source.ok());
  return *std::move(source);
}

model::SavedSource Checkpoint(const std::string& directory, uint64_t number) {
  auto source = model::SavedSource::OpenCheckpoint(directory, number);
  INFO(source.status().message());
  REQUIRE(source.ok());
  return *std::move(source);
}

void MustExport(const model::SavedSource& source, const ExportOptions& options) {
  const auto exported = Export(source, options);
  INFO(exported.status().message());
  REQUIRE(exported.ok());
}

const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kInf = std::numeric_limits<float>::infinity();
const float kTiny = std::numeric_limits<float>::denorm_min();

// One of each kind.
std::string WriteSample(const DataFiles& files) {
  const std::string model = files.Path("model");
  WriteModel(
      model,
      {{"item",
        Tensor::FromVector<float>({1, 2, 0.1f, kNan, -kInf, kTiny}, Shape{3, 2}).value(),
        true,
        {"plain", "with,comma \"quoted\""}},
       {"hashed",
        Tensor::FromVector<float>({5, 6}, Shape{2, 1}).value(),
        true,
        {},
        {-9, 1LL << 50}},
       {"half", Tensor::FromVector<BFloat16>({BFloat16::FromFloat(1.5f), BFloat16::FromFloat(-3)})},
       {"cube", Tensor::FromVector<double>({1, 2, 3, 4, 5, 1e300, 7, 8}, Shape{2, 2, 2}).value()},
       {"steps", Tensor::Scalar<int64_t>(-7)},
       {"none", Tensor(DType::kF32, Shape{0, 4}), true}});
  return model;
}

TEST_CASE("an npz file has the arrays as numpy reads them", "[export]") {
  const DataFiles files;
  ExportOptions options{"npz", files.Path("out.npz")};
  MustExport(Model(WriteSample(files)), options);
  auto arrays = ReadNpz(options.out);
  REQUIRE(arrays.size() == 10);
  CHECK(arrays["item"].descr == "<f4");
  CHECK(arrays["item"].shape == "3, 2");
  const float wanted[] = {1, 2, 0.1f, kNan, -kInf, kTiny};
  CHECK(arrays["item"].data == std::string(reinterpret_cast<const char*>(wanted), sizeof(wanted)));
  CHECK(arrays["item.ids"].descr == "<i8");
  CHECK(arrays["item.ids"].shape == "3,");
  CHECK(Values<int64_t>(arrays["item.ids"].data) == std::vector<int64_t>{0, 1, 2});
  CHECK(Values<int64_t>(arrays["hashed.ids"].data) == std::vector<int64_t>{-9, 1LL << 50});
  CHECK(Values<float>(arrays["hashed"].data) == std::vector<float>{5, 6});
  CHECK(arrays["half"].descr == "<f4");
  CHECK(Values<float>(arrays["half"].data) == std::vector<float>{1.5f, -3});
  CHECK(arrays["cube"].descr == "<f8");
  CHECK(arrays["cube"].shape == "2, 2, 2");
  CHECK(Values<double>(arrays["cube"].data)[5] == 1e300);
  CHECK(arrays["steps"].shape.empty());
  CHECK(Values<int64_t>(arrays["steps"].data) == std::vector<int64_t>{-7});
  CHECK(arrays["none"].shape == "0, 4");
  CHECK(arrays["none"].data.empty());
  CHECK(nlohmann::json::parse(arrays["__metadata__"].data)["steps"] == "12");
}

TEST_CASE("an npz file that was exported can be read as initial rows", "[export]") {
  const DataFiles files;
  ExportOptions options{"npz", files.Path("out.npz")};
  MustExport(Model(WriteSample(files)), options);
  const auto rows = model::ReadNpz(options.out, "hashed");
  REQUIRE(rows.ok());
  CHECK(rows->values<float>() == std::vector<float>{5, 6});
  CHECK(model::ArraysOfNpz(options.out)->size() == 10);
  // Whatever byte is another one, there is an array or an error.
  const std::string bytes = Slurp(options.out);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    std::string flipped = bytes;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x55);
    const auto array = model::ReadNpz(files.Write("flipped.npz", flipped), "hashed");
    if (array.ok()) CHECK(array->num_elements() == 2);
  }
}

TEST_CASE("export: a directory of somebody else's is not replaced", "[export]") {
  const DataFiles files;
  for (const char* facts :
       {R"({"format": 3})", R"({"format": "coxswain-export", "variables": [3]})",
        R"({"format": "coxswain-export", "variables": [{"file": 3}]})", "[]"}) {
    std::filesystem::create_directories(files.Path("out"));
    std::ofstream(files.Path("out/export.json")) << facts;
    std::ofstream(files.Path("out/notes.txt")) << "mine";
    ExportOptions options{"csv", files.Path("out/")};
    options.replace = true;
    CHECK(absl::IsFailedPrecondition(Export(Model(WriteSample(files)), options).status()));
    CHECK(Slurp(files.Path("out/notes.txt")) == "mine");
  }
}

TEST_CASE("a safetensors file has the variables bit by bit", "[export]") {
  const DataFiles files;
  ExportOptions options{"safetensors", files.Path("out.safetensors")};
  MustExport(Model(WriteSample(files)), options);
  const auto file = checkpoint::SafetensorsReader::Open(options.out);
  REQUIRE(file.ok());
  CHECK(file->metadata().at("format") == "coxswain-export");
  std::map<std::string, std::string> data;
  for (const checkpoint::SafetensorsEntry& e : file->entries()) {
    std::string bytes(static_cast<size_t>(e.shape.num_elements()) * SizeOf(e.dtype), '\0');
    REQUIRE(file->Read(e.name, 0, bytes.data(), bytes.size()).ok());
    data[absl::StrCat(e.name, " ", DTypeName(e.dtype), e.shape.ToString())] = bytes;
  }
  REQUIRE(data.size() == 9);
  CHECK(Values<int64_t>(data["hashed.ids i64[2]"]) == std::vector<int64_t>{-9, 1LL << 50});
  CHECK(Values<float>(data["hashed f32[2,1]"]) == std::vector<float>{5, 6});
  CHECK(Values<uint16_t>(data["half bf16[2]"]) == std::vector<uint16_t>{0x3fc0, 0xc040});
  CHECK(Values<double>(data["cube f64[2,2,2]"])[7] == 8);
  CHECK(data.count("none f32[0,4]") == 1);
  CHECK(data.count("steps i64[]") == 1);
}

TEST_CASE("csv has ids, words and numbers that read back as they were", "[export]") {
  const DataFiles files;
  ExportOptions options{"csv", files.Path("out/")};
  MustExport(Model(WriteSample(files)), options);
  CHECK(Slurp(files.Path("out/item.csv")) ==
        "id,word,x0,x1\n0,plain,1,2\n1,\"with,comma \"\"quoted\"\"\",0.1,nan\n2,,-inf,1e-45\n");
  CHECK(Slurp(files.Path("out/hashed.csv")) == "id,x0\n-9,5\n1125899906842624,6\n");
  CHECK(Slurp(files.Path("out/half.csv")) == "row,x0\n0,1.5\n1,-3\n");
  CHECK(Slurp(files.Path("out/cube.csv")) == "row,x0,x1,x2,x3\n0,1,2,3,4\n1,5,1e+300,7,8\n");
  CHECK(Slurp(files.Path("out/steps.csv")) == "x0\n-7\n");
  CHECK(Slurp(files.Path("out/none.csv")) == "id,x0,x1,x2,x3\n");
  const auto facts = nlohmann::json::parse(Slurp(files.Path("out/export.json")));
  CHECK(facts["steps"] == "12");
  CHECK(facts["variables"].size() == 6);
  CHECK(CsvField(" x") == "\" x\"");
  CHECK(CsvField("a\nb") == "\"a\nb\"");
}

TEST_CASE("only the variables that are named are exported", "[export]") {
  const DataFiles files;
  const model::SavedSource source = Model(WriteSample(files));
  ExportOptions options{"npz", files.Path("out.npz"), {"steps", "item"}};
  MustExport(source, options);
  CHECK(ReadNpz(options.out).size() == 4);
  options.replace = true;
  options.variables = {"item", "item"};
  CHECK(absl::IsInvalidArgument(Export(source, options).status()));
  options.variables = {"iten"};
  const auto unknown = Export(source, options);
  CHECK(absl::IsNotFound(unknown.status()));
  CHECK_THAT(std::string(unknown.status().message()), Contains("did you mean \"item\"?"));
  CHECK(ReadNpz(options.out).size() == 4);  // still the first
}

std::set<std::string> Names(const std::string& directory) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

TEST_CASE("what is there is replaced only when that was asked, and never a directory of others",
          "[export]") {
  const DataFiles files;
  const model::SavedSource source = Model(WriteSample(files));
  std::filesystem::create_directory(files.Path("w"));
  for (const std::string& format : std::vector<std::string>{"npz", "csv", "safetensors"}) {
    const std::string out = files.Path("w/out");
    ExportOptions options{format, out, {"half"}};
    MustExport(source, options);
    CHECK(absl::IsAlreadyExists(Export(source, options).status()));
    options.replace = true;
    options.variables = {"cube"};
    MustExport(source, options);
    CHECK(Names(files.Path("w")) == std::set<std::string>{"out"});
    if (format == "csv") {
      CHECK(Names(out) == std::set<std::string>{"cube.csv", "export.json"});
      // A file does not replace it, and is not replaced by one.
      options.format = "npz";
      CHECK(absl::IsFailedPrecondition(Export(source, options).status()));
      std::filesystem::remove_all(out);
      files.Write("w/out", "mine");
      options.format = "csv";
      CHECK(absl::IsFailedPrecondition(Export(source, options).status()));
    }
    std::filesystem::remove_all(out);
  }
  std::filesystem::create_directory(files.Path("home"));
  files.Write("home/letter.txt", "dear");
  ExportOptions options{"csv", files.Path("home"), {}, true};
  CHECK(absl::IsFailedPrecondition(Export(source, options).status()));
  CHECK(Names(files.Path("home")) == std::set<std::string>{"letter.txt"});
}

TEST_CASE("what is left of an export that was killed goes when the next one begins", "[export]") {
  const DataFiles files;
  const model::SavedSource source = Model(WriteSample(files));
  std::filesystem::create_directories(files.Path("w/out.00000000000000aa.tmp"));
  files.Write("w/out.00000000000000aa.tmp/.being-written", "");
  files.Write("w/out.00000000000000aa.tmp/half.csv", "0.5");
  files.Write("w/out.4711-1.tmp", "PK");
  // Somebody else's, though its name is alike.
  std::filesystem::create_directories(files.Path("w/out.00000000000000bb.tmp"));
  files.Write("w/out.00000000000000bb.tmp/.being-written", "");
  files.Write("w/out.00000000000000bb.tmp/letter.txt", "dear");
  MustExport(source, {"csv", files.Path("w/out"), {"half"}});
  CHECK(Names(files.Path("w")) ==
        std::set<std::string>{"out", "out.4711-1.tmp", "out.00000000000000bb.tmp"});
  std::filesystem::remove_all(files.Path("w/out"));
  MustExport(source, {"npz", files.Path("w/out"), {"half"}});
  CHECK(Names(files.Path("w")) == std::set<std::string>{"out", "out.00000000000000bb.tmp"});
}

TEST_CASE("a full disk, an interruption and damage leave no part of an export", "[export]") {
  const DataFiles files;
  const std::string model = files.Path("big");
  WriteModel(model, {{"t", Tensor(DType::kF32, Shape{200000, 16}), true}});
  const model::SavedSource source = Model(model);
  std::filesystem::create_directory(files.Path("w"));
  for (const std::string& format : std::vector<std::string>{"npz", "csv", "safetensors"}) {
    ExportOptions options{format, files.Path("w/out")};
    int asked = 0;
    options.stopped = [&asked] { return ++asked == 2; };
    CHECK(absl::IsCancelled(Export(source, options).status()));
    CHECK(Names(files.Path("w")).empty());
  }

  const std::string disk = files.Path("disk");
  std::filesystem::create_directory(disk);
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=512k") == 0) {
    for (const std::string& format : std::vector<std::string>{"npz", "csv", "safetensors"}) {
      const auto full = Export(source, {format, disk + "/out"});
      CHECK(absl::IsResourceExhausted(full.status()));
      CHECK_THAT(std::string(full.status().message()), Contains("No space left on device"));
      CHECK(Names(disk).empty());
    }
    umount2(disk.c_str(), MNT_DETACH);
  } else {
    WARN("skipped: may not mount a small file system here");
  }

  {
    std::fstream file(model + "/t.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100000);
    file.put('x');
  }
  const auto damaged = Export(source, {"npz", files.Path("w/out")});
  CHECK(absl::IsDataLoss(damaged.status()));
  CHECK_THAT(std::string(damaged.status().message()), Contains("t.safetensors"));
  CHECK(Names(files.Path("w")).empty());
}

// A table after some updates, by the shards' counts.
struct History {
  Tensor values;
  std::vector<int64_t> touched, applied;
};

constexpr int64_t kRows = 50, kDim = 3;

// Updates of a table of `shards` mod shards: update u of shard s touches some of its rows.
std::vector<History> Train(int shards, int checkpoints) {
  std::vector<float> values(kRows * kDim, 0.5f);
  std::vector<int64_t> touched(kRows, 0), applied(static_cast<size_t>(shards), 0);
  std::vector<History> all;
  for (int c = 0; c < checkpoints; ++c) {
    for (int64_t u = 0; u < 4 + c; ++u) {
      for (int64_t s = 0; s < shards; ++s) {
        if ((u + s) % 3 == 0) continue;  // the shards do not count alike
        const int64_t now = ++applied[static_cast<size_t>(s)];
        for (int64_t r = s; r < kRows; r += shards) {
          if ((r * 7 + u * 5 + c) % 11 != 0) continue;
          touched[static_cast<size_t>(r)] = now;
          values[static_cast<size_t>(r * kDim + u % kDim)] += static_cast<float>(1 + r + c);
        }
      }
    }
    all.push_back(
        {Tensor::FromVector<float>(values, Shape{kRows, kDim}).value(), touched, applied});
  }
  return all;
}

TEST_CASE("a delta put into the older export gives the newer one", "[export]") {
  const DataFiles files;
  const std::string directory = files.Path("checkpoints");
  constexpr int kShards = 4;
  const std::vector<History> history = Train(kShards, 4);
  for (size_t c = 0; c < history.size(); ++c) {
    const auto& h = history[c];
    WriteCheckpoint(directory, c + 1, static_cast<int64_t>(c + 1) * 100,
                    {{"t", h.values, "mod", kShards, true, h.touched, h.applied},
                     {"bias", Tensor::Scalar<float>(static_cast<float>(c)), "div", 1, false}});
  }
  for (size_t from = 0; from < history.size(); ++from) {
    for (size_t to = from + 1; to < history.size(); ++to) {
      INFO(from + 1 << " to " << to + 1);
      const model::SavedSource base = Checkpoint(directory, from + 1);
      const model::SavedSource end = Checkpoint(directory, to + 1);
      ExportOptions options{"npz", files.Path("delta.npz"), {}, true};
      options.base = &base;
      MustExport(end, options);
      auto arrays = ReadNpz(options.out);
      const auto facts = nlohmann::json::parse(arrays["__metadata__"].data);
      CHECK(facts["base_checkpoint"] == absl::StrCat(from + 1));
      CHECK(facts["checkpoint"] == absl::StrCat(to + 1));
      CHECK(facts["base_steps"] == absl::StrCat((from + 1) * 100));
      const auto ids = Values<int64_t>(arrays["t.ids"].data);
      const auto rows = Values<float>(arrays["t"].data);
      CHECK(ids.size() < kRows);
      CHECK(!ids.empty());
      REQUIRE(rows.size() == ids.size() * kDim);
      auto merged = Values<float>(history[from].values);
      for (size_t i = 0; i < ids.size(); ++i) {
        std::copy_n(rows.begin() + static_cast<int64_t>(i) * kDim, kDim,
                    merged.begin() + ids[i] * kDim);
      }
      CHECK(merged == Values<float>(history[to].values));
      CHECK(Values<float>(arrays["bias"].data) == std::vector<float>{static_cast<float>(to)});
    }
  }

  const model::SavedSource newest = Checkpoint(directory, 4);
  CHECK(OpenBase(newest, "checkpoint-000002")->number() == 2);
  CHECK(OpenBase(newest, "300")->number() == 3);
  CHECK(OpenBase(newest, "299")->number() == 2);
  CHECK(OpenBase(newest, "999")->number() == 3);  // the newest that is older
  const auto none = OpenBase(newest, "99");
  CHECK(absl::IsNotFound(none.status()));
  CHECK_THAT(std::string(none.status().message()), Contains("checkpoint-000001 of step 100"));
  CHECK(absl::IsNotFound(OpenBase(newest, "checkpoint-000004").status()));
  CHECK(absl::IsInvalidArgument(OpenBase(newest, "yesterday").status()));
  CHECK(absl::IsInvalidArgument(OpenBase(Model(WriteSample(files)), "1").status()));
}

TEST_CASE("a delta of a hash table leaves free places out", "[export]") {
  const DataFiles files;
  const std::string directory = files.Path("checkpoints");
  const Tensor values = Tensor::FromVector<float>({1, 2, 3, 4, 5, 6}, Shape{6, 1}).value();
  const std::vector<int64_t> ids = {70, -1, 72, 73, 5, 75};
  WriteCheckpoint(
      directory, 1, 10,
      {{"t", values, "hash", 2, true, {1, 2, 3, 1, 2, 3}, {3, 3}, ids, {1, 1, 1, 1, 1, 1}}});
  WriteCheckpoint(
      directory, 2, 20,
      {{"t", values, "hash", 2, true, {1, 5, 4, 1, 4, 6}, {5, 6}, ids, {1, 0, 2, 1, 0, 4}}});
  const model::SavedSource base = Checkpoint(directory, 1), end = Checkpoint(directory, 2);
  ExportOptions options{"csv", files.Path("all")};
  MustExport(end, options);
  CHECK(Slurp(files.Path("all/t.csv")) == "id,x0\n70,1\n72,3\n73,4\n75,6\n");
  options.out = files.Path("delta");
  options.base = &base;
  MustExport(end, options);
  CHECK(Slurp(files.Path("delta/t.csv")) == "id,x0\n72,3\n75,6\n");
  const std::vector<std::string> removed =
      absl::StrSplit(Slurp(files.Path("delta/t.removed.csv")), '\n', absl::SkipEmpty());
  CHECK(std::set<std::string>(removed.begin(), removed.end()) ==
        std::set<std::string>{"id", "-1", "5"});
  options.format = "npz";
  options.out = files.Path("delta.npz");
  MustExport(end, options);
  auto ids_of = [](const std::string& bytes) {
    const std::vector<int64_t> v = Values<int64_t>(bytes);
    return std::set<int64_t>(v.begin(), v.end());
  };
  CHECK(ids_of(ReadNpz(options.out)["t.removed"].data) == std::set<int64_t>{-1, 5});
  options.format = "safetensors";
  options.out = files.Path("delta.safetensors");
  MustExport(end, options);
  const auto file = checkpoint::SafetensorsReader::Open(options.out);
  REQUIRE(file.ok());
  std::string bytes(16, '\0');
  REQUIRE(file->Read("t.removed", 0, bytes.data(), bytes.size()).ok());
  CHECK(ids_of(bytes) == std::set<int64_t>{-1, 5});
}

TEST_CASE("arrays without an element have their checksum, too", "[export]") {
  const DataFiles files;
  const std::string directory = files.Path("checkpoints");
  const Tensor values = Tensor::FromVector<float>({1, 2}, Shape{2, 1}).value();
  for (uint64_t number : {1, 2}) {
    WriteCheckpoint(directory, number, static_cast<int64_t>(number),
                    {{"t", values, "hash", 1, true, {1, 1}, {1}, {7, 8}, {1, 1}}});
  }
  const model::SavedSource base = Checkpoint(directory, 1), end = Checkpoint(directory, 2);
  ExportOptions options{"npz", files.Path("delta.npz")};
  options.base = &base;
  MustExport(end, options);
  auto arrays = ReadNpz(options.out);  // compares the checksums
  CHECK(arrays["t"].shape == "0, 1");
  CHECK(arrays["t.ids"].data.empty());
  CHECK(arrays["t.removed"].shape == "0,");
}

TEST_CASE("removed ids are found in parts as all at once", "[export]") {
  const DataFiles files;
  std::vector<int64_t> older, newer;
  std::set<int64_t> wanted;
  for (int64_t i = 0; i < 5000; ++i) {
    older.push_back(i * 3 - 7000);
    if (i % 5 == 2) {
      wanted.insert(older.back());
    } else {
      newer.push_back(older.back());
    }
  }
  newer.push_back(1LL << 40);
  const auto rows_of = [](const std::vector<int64_t>& ids) {
    return Tensor(DType::kF32, Shape{static_cast<int64_t>(ids.size()), 1});
  };
  WriteModel(files.Path("older"), {{"t", rows_of(older), true, {}, older}});
  WriteModel(files.Path("newer"), {{"t", rows_of(newer), true, {}, newer}});
  const auto then = Model(files.Path("older")).Open("t"),
             now = Model(files.Path("newer")).Open("t");
  REQUIRE(then.ok());
  REQUIRE(now.ok());
  for (const int64_t at_once : {1 << 20, 1000, 37}) {
    std::vector<int64_t> found;
    const absl::Status status = ForEachRemovedId(
        *then, *now,
        [&](absl::Span<const int64_t> ids) {
          found.insert(found.end(), ids.begin(), ids.end());
          return absl::OkStatus();
        },
        at_once);
    REQUIRE(status.ok());
    CHECK(found.size() == wanted.size());
    CHECK(std::set<int64_t>(found.begin(), found.end()) == wanted);
  }
}

TEST_CASE("a base that does not fit is refused", "[export]") {
  const DataFiles files;
  const std::string directory = files.Path("checkpoints");
  const History h = Train(4, 1)[0];
  WriteCheckpoint(directory, 1, 1, {{"t", h.values, "mod", 4, true, h.touched, h.applied}});
  WriteCheckpoint(directory, 2, 2, {{"t", h.values, "mod", 2, true, h.touched, {9, 9}}});
  WriteCheckpoint(directory, 3, 3, {{"t", h.values, "mod", 4, true, {}, h.applied}});
  WriteCheckpoint(directory, 4, 4, {{"t", h.values, "mod", 4, true, h.touched, {0, 0, 0, 0}}});
  const model::SavedSource base = Checkpoint(directory, 1);
  ExportOptions options{"npz", files.Path("out.npz")};
  options.base = &base;
  for (uint64_t number : {2, 3, 4}) {
    const auto refused = Export(Checkpoint(directory, number), options);
    INFO(number << ": " << refused.status().message());
    CHECK(absl::IsFailedPrecondition(refused.status()));
  }
  // Training went back behind the base: what was updated before is counted as what is then.
  WriteCheckpoint(directory, 6, 6, {{"t", h.values, "mod", 4, true, h.touched, {9, 9, 9, 9}}});
  CHECK(Export(Checkpoint(directory, 6), options).ok());
  const auto files_of = env::NewRealFileSystem();
  const std::string path = directory + "/checkpoint-000006";
  checkpoint::Manifest manifest = *checkpoint::ReadManifest(files_of.get(), path);
  manifest.abandoned.Add(1, 1);
  REQUIRE(files_of->WriteAtomically(path + "/manifest.json", checkpoint::ToJson(manifest)).ok());
  options.replace = true;
  const auto abandoned = Export(Checkpoint(directory, 6), options);
  CHECK(absl::IsFailedPrecondition(abandoned.status()));
  CHECK_THAT(std::string(abandoned.status().message()),
             Contains("checkpoint-000006 does not go on from checkpoint-000001"));
  options.replace = false;
  std::filesystem::remove(options.out);
  // Who resumes passes a damaged checkpoint over, so its successor does not follow from it.
  {
    std::fstream file(base.path() + "/shard-1.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4100);
    file.put('x');
  }
  WriteCheckpoint(directory, 5, 5, {{"t", h.values, "mod", 4, true, h.touched, {9, 9, 9, 9}}});
  const auto damaged = Export(Checkpoint(directory, 5), options);
  CHECK(absl::IsDataLoss(damaged.status()));
  CHECK_THAT(std::string(damaged.status().message()), Contains("shard-1.safetensors"));
}

}  // namespace
}  // namespace coxswain::exporter
