// `coxswain export` and `coxswain table` on models that were trained.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/checkpoint/safetensors_reader.h"
#include "tests/integration/jobs.h"
#include "tests/testing/paths.h"
#include "tests/testing/process.h"
#include "tests/testing/saved_models.h"

namespace coxswain {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

void Succeed(const std::vector<std::string>& arguments) {
  const auto result = Coxswain(arguments);
  CAPTURE(arguments, result.out, result.err);
  REQUIRE(result.code == 0);
}

struct Exported {
  std::map<std::string, std::string> facts;
  std::map<std::string, std::vector<float>> values;
  std::map<std::string, std::vector<int64_t>> ids;
};

Exported ReadExport(const std::string& path) {
  const auto file = checkpoint::SafetensorsReader::Open(path);
  INFO(file.status().message());
  REQUIRE(file.ok());
  Exported e{file->metadata(), {}, {}};
  for (const checkpoint::SafetensorsEntry& entry : file->entries()) {
    const auto n = static_cast<size_t>(entry.shape.num_elements());
    void* to = nullptr;
    if (entry.dtype == DType::kI64) {
      e.ids[entry.name].resize(n);
      to = e.ids[entry.name].data();
    } else {
      REQUIRE(entry.dtype == DType::kF32);
      e.values[entry.name].resize(n);
      to = e.values[entry.name].data();
    }
    REQUIRE(file->Read(entry.name, 0, to, n * SizeOf(entry.dtype)).ok());
  }
  return e;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST_CASE("a model and its last checkpoint are exported alike, and a delta makes up for the rest",
          "[export]") {
  const DataFiles files;
  const std::string job = WriteTwoTower(files), model = files.Path("model"),
                    checkpoints = files.Path("checkpoints");
  // Training ends with a checkpoint of what the model has.
  Succeed({"train", job, "--local", "2x1", "--quiet", "--model-dir", model, "--checkpoint-dir",
           checkpoints, "--set", "checkpoint.every_steps=60", "--set", "checkpoint.keep=100",
           "--set", "evaluate.metrics=[hit_rate@3]"});
  const auto listed = Coxswain({"checkpoint", "list", checkpoints, "--json"});
  const auto list = nlohmann::json::parse(listed.out);
  REQUIRE(list.size() >= 2);  // the first one and the last; others where there was time
  const std::string newest = list[0]["checkpoint"], oldest = list.back()["checkpoint"];

  const std::string whole = files.Path("whole.safetensors"),
                    saved = files.Path("saved.safetensors"), old = files.Path("old.safetensors"),
                    delta = files.Path("delta.safetensors");
  Succeed({"export", "--model-dir", model, "--to", "safetensors", "--out", whole});
  Succeed({"export", "--checkpoint-dir", checkpoints, "--to", "safetensors", "--out", saved});
  Succeed({"export", "--checkpoint-dir", checkpoints, "--checkpoint",
           absl::StrCat(list.back()["number"].get<int>()), "--to", "safetensors", "--out", old});
  Succeed({"export", "--checkpoint-dir", checkpoints, "--to", "safetensors", "--out", delta,
           "--since", oldest});
  const Exported model_rows = ReadExport(whole), last = ReadExport(saved), d = ReadExport(delta);
  CHECK(model_rows.values.size() >= 2);
  CHECK(model_rows.values == last.values);
  CHECK(model_rows.ids == last.ids);
  CHECK(absl::StrCat("checkpoint-", std::string(6 - d.facts.at("checkpoint").size(), '0'),
                     d.facts.at("checkpoint")) == newest);
  Exported merged = ReadExport(old);
  CHECK(merged.values != last.values);
  for (const auto& [name, ids] : d.ids) {
    const std::string table = name.substr(0, name.size() - 4);
    const std::vector<float>& rows = d.values.at(table);
    const size_t width = rows.size() / ids.size();
    for (size_t i = 0; i < ids.size(); ++i) {
      std::copy_n(rows.begin() + static_cast<int64_t>(i * width), width,
                  merged.values[table].begin() + ids[i] * static_cast<int64_t>(width));
    }
  }
  CHECK(merged.values == last.values);
}

TEST_CASE("a model's tables are exported for the embedding projector", "[export]") {
  const DataFiles files;
  const std::string job = WriteTwoTower(files), model = files.Path("model"),
                    out = files.Path("projector");
  Succeed({"train", job, "--in-process", "--quiet", "--model-dir", model});
  Succeed({"export", "--model-dir", model, "--to", "projector", "--out", out});
  const auto lines = [&](const std::string& name) {
    std::ifstream file(out + "/" + name, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return std::vector<std::string>(absl::StrSplit(text, '\n'));
  };
  const auto vectors = lines("item.vectors.tsv"), metadata = lines("item.metadata.tsv");
  REQUIRE(vectors.size() == 34);  // 32 items, the unknown ones, and the end of the last line
  REQUIRE(metadata.size() == vectors.size());
  CHECK(metadata[32] == "#32");
  const std::vector<std::string> row = absl::StrSplit(vectors[3], '\t');
  REQUIRE(row.size() == 8);
  const auto shown =
      Coxswain({"table", "lookup", "item", metadata[3], "--model-dir", model, "--json"});
  REQUIRE(shown.code == 0);
  double first = 0;
  REQUIRE(absl::SimpleAtod(row[0], &first));
  CHECK(nlohmann::json::parse(shown.out)[0]["values"][0].get<double>() == Approx(first));
  CHECK(std::filesystem::exists(out + "/history.vectors.tsv"));
  Succeed({"export", "--model-dir", model, "--to", "projector", "--out", out, "--force"});
  CHECK(Coxswain({"export", "--model-dir", model, "--to", "projector", "--out", files.Path("dense"),
                  "--variables", "nothing"})
            .code == 2);
}

TEST_CASE("a model's tables are exported as indexes that hnswlib loads", "[export]") {
  const DataFiles files;
  const std::string job = WriteTwoTower(files), model = files.Path("model"),
                    out = files.Path("indexes");
  Succeed({"train", job, "--in-process", "--quiet", "--model-dir", model});
  Succeed({"export", "--model-dir", model, "--to", "hnsw", "--out", out, "--variables", "item"});
  CHECK_FALSE(std::filesystem::exists(out + "/history.hnsw"));
  Succeed({"export", "--model-dir", model, "--to", "hnsw", "--out", out, "--force"});
  CHECK(std::filesystem::exists(out + "/history.hnsw"));
  std::ifstream names(out + "/item.metadata.tsv");
  std::vector<std::string> metadata;
  for (std::string line; std::getline(names, line);) metadata.push_back(line);
  REQUIRE(metadata.size() == 33);  // 32 items, and the unknown ones

  for (const size_t label : {size_t{3}, size_t{20}}) {
    const auto read = Run({COXSWAIN_BINARY_DIR "/bin/hnsw_nearest", out + "/item.hnsw", "8",
                           absl::StrCat(label), "2"});
    CAPTURE(read.out, read.err);
    REQUIRE(read.code == 0);
    const std::vector<std::string> labels = absl::StrSplit(read.out, '\n', absl::SkipEmpty());
    REQUIRE(labels.size() == 2);
    CHECK(labels[0] == absl::StrCat(label));
    const auto exact = Coxswain({"table", "lookup", "item", metadata[label], "--nearest", "1",
                                 "--model-dir", model, "--json"});
    REQUIRE(exact.code == 0);
    size_t neighbour = 0;
    REQUIRE(absl::SimpleAtoi(labels[1], &neighbour));
    CHECK_THAT(nlohmann::json::parse(exact.out)[0]["nearest"].dump(),
               Contains(absl::StrCat("\"", metadata[neighbour], "\"")));
  }
}

TEST_CASE("table stat and lookup tell of a trained model", "[export]") {
  const DataFiles files;
  const std::string job = WriteTwoTower(files), model = files.Path("model");
  Succeed({"train", job, "--in-process", "--quiet", "--model-dir", model});
  const auto stat = Coxswain({"table", "stat", "--model-dir", model});
  CAPTURE(stat.out, stat.err);
  REQUIRE(stat.code == 0);
  CHECK_THAT(stat.out, Contains("item  f32[33,8], 33 rows, 1,056 bytes"));
  CHECK_THAT(stat.out, Contains("history  f32[33,8]"));
  const auto as_json = Coxswain({"table", "stat", "--model-dir", model, "--json", "item"});
  const auto json = nlohmann::json::parse(as_json.out);
  REQUIRE(json.size() == 1);
  CHECK(json[0]["rows"] == 33);  // the last one is that of unknown items
  CHECK(json[0]["norm"]["min"].get<double>() <= json[0]["norm"]["median"].get<double>());
  CHECK(json[0]["norm"]["median"].get<double>() <= json[0]["norm"]["max"].get<double>());
  int64_t counted = 0;
  for (const auto& n : json[0]["norm"]["histogram"]) counted += n.get<int64_t>();
  CHECK(counted == 33);

  const auto found = Coxswain(
      {"table", "lookup", "item", "i3", "i20", "--nearest", "3", "--model-dir", model, "--json"});
  CAPTURE(found.out, found.err);
  REQUIRE(found.code == 0);
  const auto rows = nlohmann::json::parse(found.out);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["word"] == "i3");
  CHECK(rows[1]["word"] == "i20");
  CHECK(rows[0]["values"].size() == 8);
  REQUIRE(rows[0]["nearest"].size() == 3);
  CHECK(rows[0]["nearest"][0]["word"] != "i3");
  CHECK(rows[0]["nearest"][0]["cosine"].get<double>() >=
        rows[0]["nearest"][2]["cosine"].get<double>());
  const auto text = Coxswain({"table", "lookup", "item", "--ids", "0", "--model-dir", model});
  CHECK(text.code == 0);
  CHECK_THAT(text.out, Contains("(id 0), norm "));

  const auto unknown = Coxswain({"table", "lookup", "item", "i33", "--model-dir", model});
  CHECK(unknown.code == 2);
  CHECK_THAT(unknown.err, Contains("\"i33\"") && Contains("did you mean"));
  // 32 is the row of unknown items.
  const auto far = Coxswain({"table", "lookup", "item", "--ids", "33", "--model-dir", model});
  CHECK(far.code == 2);
  CHECK_THAT(far.err, Contains("0 to 32"));
  const auto no_table = Coxswain({"table", "lookup", "iten", "i3", "--model-dir", model});
  CHECK(no_table.code == 2);
  CHECK_THAT(no_table.err, Contains("did you mean \"item\"?"));
  const auto nothing = Coxswain({"table", "stat", "--model-dir", files.Path("none")});
  CHECK(nothing.code == 2);
  CHECK_THAT(nothing.err, StartsWith("error: ") && Contains("holds no saved model"));
}

TEST_CASE("table lookup finds the rows that point the same way", "[export]") {
  const DataFiles files;
  const std::string model = files.Path("model");
  WriteModel(model, {{"t",
                      Tensor::FromVector<float>({1, 0, 0, 2, 5, 0.5f, -3, 0}, Shape{4, 2}).value(),
                      true,
                      {"east", "north", "east-north-east", "west"}}});
  const auto found =
      Coxswain({"table", "lookup", "t", "east", "--nearest", "3", "--model-dir", model});
  CAPTURE(found.out, found.err);
  REQUIRE(found.code == 0);
  CHECK(found.out ==
        "east (id 0), norm 1\n  1 0\n   0.9950  east-north-east\n   0.0000  north\n"
        "  -1.0000  west\n");
}

TEST_CASE("a table larger than the memory that there may be is exported", "[export]") {
  const DataFiles files;
  const std::string model = files.Path("model");
  WriteModel(model, {{"t", Tensor(DType::kF32, Shape{4, 64}), true}});
  // 192 MiB of zeros that take no place on the disk.
  constexpr int64_t kRows = 3 << 18;
  const std::string path = model + "/t.safetensors";
  std::string header = absl::StrCat(R"({"values": {"dtype": "F32", "shape": [)", kRows,
                                    R"(, 64], "data_offsets": [0, )", kRows * 256, "]}}");
  header.resize(4096 - 8, ' ');
  const uint64_t length = header.size();
  files.Write("model/t.safetensors",
              std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header);
  std::filesystem::resize_file(path, 4096 + kRows * 256);
  std::ofstream(model + "/model.json")
      << R"({"format": "coxswain-model", "variables": [{"name": "t", "dtype": "f32", "shape": [)"
      << kRows << R"(, 64], "table": true, "file": "t.safetensors"}]})";
  // Address space, so that mapping the file would not do either.
  const auto limited = [&](const std::string& command) {
    return Run({"/bin/sh", "-c", absl::StrCat("ulimit -v 160000; exec ", kProgram, " ", command)});
  };
  for (const std::string format : {"safetensors", "npz", "csv"}) {
    const std::string out = files.Path("out");
    const auto result =
        limited(absl::StrCat("export --model-dir ", model, " --to ", format, " --out ", out));
    CAPTURE(format, result.err);
    REQUIRE(result.code == 0);
    if (format != "csv") CHECK(std::filesystem::file_size(out) > kRows * 256);
    std::filesystem::remove_all(out);
  }
  const auto stat = limited(absl::StrCat("table stat --model-dir ", model));
  CHECK(stat.code == 0);
  CHECK_THAT(stat.out, Contains("zeros only: 100.0%"));
}

TEST_CASE("numpy reads an exported npz", "[export]") {
  if (Run({"/bin/sh", "-c", "python3 -c 'import numpy'"}).code != 0) {
    WARN("skipped: python3 with numpy is not here");
    return;
  }
  const DataFiles files;
  const std::string model = files.Path("model"), out = files.Path("out.npz");
  WriteModel(model,
             {{"t", Tensor::FromVector<float>({1, 2, 3, 4, 5, 6}, Shape{3, 2}).value(), true},
              {"half", Tensor::FromVector<BFloat16>({BFloat16::FromFloat(1.5f)})}});
  Succeed({"export", "--model-dir", model, "--to", "npz", "--out", out});
  const auto read = Run({"/bin/sh", "-c",
                         absl::StrCat("python3 -c 'import numpy, json\n"
                                      "z = numpy.load(\"",
                                      out,
                                      "\")\n"
                                      "print(z[\"t\"].tolist(), z[\"t.ids\"].tolist(), "
                                      "z[\"half\"].tolist(), "
                                      "json.loads(z[\"__metadata__\"].item())[\"steps\"])'")});
  CAPTURE(read.err);
  CHECK(read.out == "[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]] [0, 1, 2] [1.5] 12\n");
}

TEST_CASE("rows of a checkpoint have the names that they have in the model", "[export]") {
  const DataFiles files;
  const std::string model = files.Path("model"), checkpoints = files.Path("checkpoints");
  Succeed({"train", WriteTwoTower(files), "--local", "1x1", "--quiet", "--model-dir", model,
           "--checkpoint-dir", checkpoints, "--set", "evaluate.metrics=[hit_rate@3]"});
  std::vector<std::string> found, tables;
  for (const auto& [flag, from] :
       {std::pair("--model-dir", model), {"--checkpoint-dir", checkpoints}}) {
    const auto row = Coxswain({"table", "lookup", "item", "i3", flag, from});
    CAPTURE(row.out, row.err);
    REQUIRE(row.code == 0);
    CHECK_THAT(row.out, Contains("i3 (id "));
    found.push_back(row.out);
    const std::string out = files.Path(absl::StrCat("out", tables.size()));
    Succeed({"export", flag, from, "--to", "csv", "--variables", "item", "--out", out});
    tables.push_back(ReadFile(out + "/item.csv"));
  }
  CHECK(found[0] == found[1]);
  CHECK(tables[0] == tables[1]);
  CHECK_THAT(tables[0], StartsWith("id,word,"));
}

TEST_CASE("a vocabulary that has changed is told by all that name rows by it", "[export]") {
  const DataFiles files;
  const std::string model = files.Path("model"), out = files.Path("out");
  Succeed({"train", WriteTwoTower(files), "--in-process", "--quiet", "--model-dir", model});
  const std::string words = absl::StrCat(model, "/vocabulary/item.txt");
  std::string text = ReadFile(words);
  const size_t first = text.find('\n'), second = text.find('\n', first + 1);
  text = absl::StrCat(text.substr(first + 1, second - first), text.substr(0, first + 1),
                      text.substr(second + 1));
  std::ofstream(words) << text;
  const std::vector<std::vector<std::string>> commands = {
      {"nearest", "--table", "item", "i3"},
      {"table", "lookup", "item", "i3"},
      {"export", "--to", "csv", "--out", out},
      {"export", "--to", "projector", "--out", out}};
  for (std::vector<std::string> command : commands) {
    command.insert(command.end(), {"--model-dir", model});
    const auto result = Coxswain(command);
    CAPTURE(command, result.out, result.err);
    CHECK(result.code == 3);
    CHECK_THAT(result.err, Contains("item.txt: its content is not what was saved"));
  }
}

TEST_CASE("export --force replaces neither the job's data nor a file of another model",
          "[export]") {
  const DataFiles files;
  const std::string model = files.Path("model"), other = files.Path("other");
  const std::string job = WriteMatrixFactorization(files);
  for (const std::string& directory : {model, other}) {
    Succeed({"train", job, "--in-process", "--quiet", "--model-dir", directory});
  }
  for (const std::string& path : {files.Path("ratings.csv"), other + "/model.json"}) {
    const std::string before = ReadFile(path);
    REQUIRE_FALSE(before.empty());
    const auto result =
        Coxswain({"export", "--model-dir", model, "--to", "npz", "--out", path, "--force"});
    CAPTURE(path, result.out, result.err);
    CHECK(result.code == 2);
    CHECK(ReadFile(path) == before);
  }
}

TEST_CASE("export says what is wrong with its flags", "[export]") {
  const DataFiles files;
  const std::string model = files.Path("model"), out = files.Path("out");
  WriteModel(model, {{"t", Tensor::FromVector<float>({1, 2}, Shape{1, 2}).value(), true}});
  const auto fails = [&](std::vector<std::string> arguments, const std::string& with) {
    arguments.insert(arguments.begin(), "export");
    const auto result = Coxswain(arguments);
    CAPTURE(arguments, result.out, result.err);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, StartsWith("error: ") && Contains(with));
  };
  fails({"--to", "npz", "--out", out}, "--model-dir");
  fails({"--model-dir", model, "--to", "npy", "--out", out}, "npy");
  fails({"--model-dir", model, "--checkpoint-dir", model, "--to", "npz", "--out", out}, "from");
  fails({"--model-dir", model, "--to", "npz", "--out", out, "--since", "1"}, "checkpoint");
  fails({"--model-dir", model, "--to", "npz", "--out", files.Path(""), "--force"}, "directory");
  fails({"--checkpoint-dir", files.Path("none"), "--to", "npz", "--out", out}, "none");
  Succeed({"export", "--model-dir", model, "--to", "npz", "--out", out});
  fails({"--model-dir", model, "--to", "npz", "--out", out}, "--force");
  fails({"--model-dir", model, "--to", "npz", "--out", "-"}, "--out: wanted a file's name");
  Succeed({"export", "--model-dir", model, "--to", "npz", "--out", out, "--force"});
}

}  // namespace
}  // namespace coxswain
