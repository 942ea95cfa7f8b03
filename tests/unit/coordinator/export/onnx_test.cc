// A model written as ONNX says in onnxruntime what it says here, to 1e-5.
//
// Needs a Python that has onnxruntime and numpy: the one that COXSWAIN_ONNX_PYTHON names, or that
// `./dev test` has made, or python3. Without, only what can be seen so is checked.
#include "coordinator/export/onnx_export.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/export/export.h"
#include "nlohmann/json.hpp"
#include "runtime/data/row_blocks.h"
#include "tests/testing/paths.h"
#include "tests/testing/process.h"
#include "tests/testing/saved_jobs.h"

namespace coxswain::exporter {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;
using testing::Must;

constexpr char kScript[] = R"py(
import json, sys
import numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
types = {"tensor(float)": numpy.float32, "tensor(int64)": numpy.int64, "tensor(int32)": numpy.int32}
with open(sys.argv[2]) as file:
    given = json.load(file)
feed = {i.name: numpy.array(given[i.name]["values"], types[i.type]).reshape(given[i.name]["shape"])
        for i in session.get_inputs()}
names = [o.name for o in session.get_outputs()]
print(json.dumps({n: v.ravel().tolist() for n, v in zip(names, session.run(names, feed))}))
)py";

std::string Python() {
  if (const char* const named = std::getenv("COXSWAIN_ONNX_PYTHON")) return named;
  const std::string fetched = COXSWAIN_BINARY_DIR "/../onnxruntime/bin/python3";  // by ./dev test
  return std::filesystem::exists(fetched) ? fetched : "/usr/bin/python3";
}

bool HasOnnxRuntime() { return Run({Python(), "-c", "import onnxruntime, numpy"}).code == 0; }

// Rows of shop,tags,age,price,bought,grade,had; a row had none to three grades.
std::string Rows() {
  std::string rows = "shop,tags,age,price,bought,grade,had\n";
  for (int i = 0; i < 200; ++i) {
    const int shop = (i * 7) % 13, tag = (i * 5) % 9;
    absl::StrAppend(&rows, "s", shop, ",", i % 5 == 0 ? "" : absl::StrCat("t", tag, "|t", i % 4),
                    ",", 20 + (i * 11) % 50, ",", (i % 17) * 0.5, ",", (shop + tag) % 2, ",g",
                    (shop + i % 3) % 3, ",",
                    std::vector<std::string>{"", "g0", "g2|g1", "g1|g1|g0"}[i % 4], "\n");
  }
  return rows;
}

std::string Job(const std::string& rest, const std::string& shop = "oov_buckets: 2",
                const std::string& tags = "") {
  return absl::StrCat(
      "name: shops\ndataset: {path: train.csv}\nfeatures:\n  - {name: shop, kind: categorical, ",
      shop, "}\n  - {name: tags, kind: categorical, value_separator: \"|\"", tags, "}\n",
      "  - {name: age, kind: numeric, normalization: standard}\n",
      "  - {name: price, kind: numeric, normalization: min_max}\n",
      "split: {test_path: test.csv}\ntrain: {batch_size: 64}\n", rest);
}

json AsJson(const Tensor& tensor) {
  json values = json::array();
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (tensor.dtype() == DType::kF32) {
      values.push_back(tensor.data<float>()[i]);
    } else if (tensor.dtype() == DType::kI64) {
      values.push_back(tensor.data<int64_t>()[i]);
    } else {
      REQUIRE(tensor.dtype() == DType::kI32);
      values.push_back(tensor.data<int32_t>()[i]);
    }
  }
  return {
      {"shape", std::vector<int64_t>(tensor.shape().dims().begin(), tensor.shape().dims().end())},
      {"values", values}};
}

void CheckSays(const json& says, const std::string& name, const Tensor& wanted) {
  REQUIRE(says.contains(name));
  const std::vector<float> found = says[name].get<std::vector<float>>();
  REQUIRE(static_cast<int64_t>(found.size()) == wanted.num_elements());
  for (size_t i = 0; i < found.size(); ++i) {
    CAPTURE(name, i);
    REQUIRE(found[i] == Approx(wanted.data<float>()[i]).margin(1e-5).epsilon(1e-5));
  }
}

// Writes the model and its data.
std::string Export(const SavedJob& saved, const DataFiles& files, const OnnxFile& file,
                   bool replace = false) {
  ExportOptions options;
  options.out = files.Path("model.onnx");
  options.replace = replace;
  const absl::Status written =
      ExportOnnx(Must(model::SavedSource::OpenModel(saved.directory)), options, file);
  CAPTURE(written.ToString());
  REQUIRE(written.ok());
  return options.out;
}

// The files of data beside the model.
std::vector<std::string> DataNames(const DataFiles& files) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(files.Path(""))) {
    const std::string name = entry.path().filename().string();
    if (absl::EndsWith(name, ".data")) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void CheckAlike(const std::string& text, bool external_data = false) {
  CAPTURE(text);
  const DataFiles files;
  files.Write("train.csv", Rows());
  files.Write("test.csv", Rows());
  files.Write("grades.csv", "id,kinds,size\ng0,a|b,1\ng1,,2\nnew,b,4\ng2,a,5\n");
  const SavedJob saved = TrainAndSave(files, text);
  const auto predictor = Must(predict::Predictor::Load(saved.directory));
  const std::string model =
      Export(saved, files, Must(ToOnnx(*predictor, {"model.onnx", external_data})));
  CHECK(DataNames(files).size() == (external_data ? 1 : 0));
  if (!HasOnnxRuntime()) {
    WARN("there is no onnxruntime in " << Python() << ": nothing was computed");
    return;
  }
  const auto blocks =
      Must(data::RowBlocks::Open(predictor->rows().spec(), files.Path("test.csv"), 1 << 20));
  auto rows = Must(predictor->rows().ReadBlock(*Must(blocks->Next())));
  const data::Batch batch = Must(rows.Read(0, rows.rows()));
  json given = json::object();
  for (size_t i = 0; i < batch.size(); ++i) {
    given[predictor->rows().columns()[i].name] = AsJson(batch[i]);
  }
  const auto ran = Run(
      {Python(), files.Write("run.py", kScript), model, files.Write("batch.json", given.dump())});
  CAPTURE(ran.err);
  REQUIRE(ran.code == 0);
  const json says = json::parse(ran.out);
  const predict::Scores scores = Must(predictor->Predict(batch));
  CheckSays(says, "score", scores.score);
  if (says.contains("prediction")) CheckSays(says, "prediction", scores.prediction);
}

TEST_CASE("onnx: a model of every labelled kind says in onnxruntime what it says here, to 1e-5",
          "[export]") {
  const std::string bought = "label: {column: bought}\n";
  for (const char* model :
       {"model: {kind: logistic_regression}\n", "model: {kind: mlp, hidden: [8, 4]}\n",
        "model: {kind: mlp, hidden: [8], activation: tanh}\n",
        "model: {kind: wide_deep, deep: {hidden: [8]}}\n",
        "model: {kind: deepfm, dim: 4, hidden: [8]}\n",
        "model: {kind: dlrm, dim: 4, bottom: [8], top: [8]}\n", "model: {kind: fm, dim: 4}\n",
        "model: {kind: ffm, dim: 3}\n",
        "model: {kind: autoint, dim: 4, heads: 2, head_dim: 3, hidden: [8]}\n",
        "model: {kind: mlp, hidden: [8], batch_norm: {momentum: 0.5}}\n",
        "model: {kind: mlp, hidden: [8]}\nloss: {kind: mse}\n"}) {
    CheckAlike(Job(bought + model));
  }
  const std::string mlp = bought + "model: {kind: mlp, hidden: [8]}\n";
  CheckAlike(Job(mlp, "oov_buckets: 2", ", combiner: sqrtn"));
  CheckAlike(Job(mlp, "oov_buckets: 2", ", combiner: sum"));
  CheckAlike(Job(mlp + "tables: {shop: {dtype: bf16}, tags: {sharding: hash}}\n"));
  CheckAlike(Job(mlp + "tables: {shop: {wire_dtype: bf16}}\n"));
  CheckAlike(
      Job("label: {feature: kind}\nmodel: {kind: mlp, hidden: [8], classes: 3, "
          "features: [shop, tags, age]}\n",
          "oov_buckets: 1}\n  - {name: kind, column: grade, kind: categorical"));
  CheckAlike(
      Job("label: {column: bought}\nmodel: {kind: matrix_factorization, user: {feature: "
          "shop}, item: {feature: kind}, dim: 4}\n",
          "oov_buckets: 1}\n  - {name: kind, column: grade, kind: categorical, "
          "oov_buckets: 1"));
}

TEST_CASE("onnx: items that have features have the scores that they have here", "[export][items]") {
  for (const char* item : {"features: [kinds]", "features: [kinds, size], hidden: [5]"}) {
    CheckAlike(absl::StrCat(
        "name: grades\ndataset: {path: train.csv, join: [{path: grades.csv, left_on: grade, ",
        "right_on: id}]}\nfeatures:\n  - {name: shop, kind: categorical}\n",
        "  - {name: grade, kind: categorical, vocabulary_file: grades.csv}\n",
        "  - {name: kinds, kind: categorical, value_separator: '|'}\n",
        "  - {name: size, kind: numeric}\nsplit: {test_path: test.csv}\n",
        "train: {batch_size: 64}\nmodel: {kind: two_tower, dim: 4, user: {features: [shop]}, ",
        "item: {feature: grade, ", item, "}}\n"));
  }
}

TEST_CASE("onnx: a din, whose history is weighed for the item at hand, says the same", "[export]") {
  for (const char* rest : {"}\n", "}\ntables: {grade: {dtype: bf16}}\n", "}\nloss: {kind: mse}\n",
                           ", batch_norm: {momentum: 0.5}}\n"}) {
    CheckAlike(absl::StrCat(
        "name: grades\ndataset: {path: train.csv}\nfeatures:\n",
        "  - {name: shop, kind: categorical}\n  - {name: grade, kind: categorical}\n",
        "  - {name: had, kind: history, history_of: grade, group_by: shop}\n",
        "  - {name: age, kind: numeric, normalization: standard}\nlabel: {column: bought}\n",
        "split: {test_path: test.csv}\ntrain: {batch_size: 64}\n",
        "model: {kind: din, target: grade, history: had, attention: [6], hidden: [8]", rest));
  }
}

TEST_CASE("onnx: a model whose tables are in a file beside it says the same", "[export]") {
  CheckAlike(Job("label: {column: bought}\nmodel: {kind: mlp, hidden: [64, 32]}\n", "dim: 64"),
             true);
  CheckAlike(Job("label: {column: bought}\nmodel: {kind: deepfm, dim: 64, hidden: [64]}\n"
                 "tables: {shop: {dtype: bf16}}\n"),
             true);
}

TEST_CASE("onnx: a newer export takes the older one's data away, and nothing else", "[export]") {
  const DataFiles files;
  files.Write("train.csv", Rows());
  files.Write("test.csv", Rows());
  const SavedJob saved = TrainAndSave(
      files, Job("label: {column: bought}\nmodel: {kind: mlp, hidden: [64]}\n", "dim: 64"));
  const auto predictor = Must(predict::Predictor::Load(saved.directory));
  OnnxFile file = Must(ToOnnx(*predictor, {"model.onnx", true}));
  REQUIRE(file.data.size() >= 2);
  Export(saved, files, file);
  const std::string name = OnnxDataName("model.onnx", file.checksum);
  CHECK(DataNames(files) == std::vector<std::string>{name});
  // Each constant begins at a page.
  uint64_t bytes = 0;
  for (const Tensor& value : file.data) bytes += (value.bytes() + 4095) / 4096 * 4096;
  CHECK(std::filesystem::file_size(files.Path(name)) == bytes);
  CHECK(absl::StrContains(file.model, name));

  files.Write("model.onnx.0000000.data", "too short a number");
  files.Write("model.onnx.zzzzzzzz.data", "no number");
  files.Write("other.onnx.01234567.data", "of another model");
  files.Write("model.onnx.01234567.data", "of an older export");
  ExportOptions again;
  again.out = files.Path("model.onnx");
  const auto source = Must(model::SavedSource::OpenModel(saved.directory));
  CHECK(absl::IsAlreadyExists(ExportOnnx(source, again, file)));
  Export(saved, files, file, /*replace=*/true);
  CHECK(DataNames(files) == std::vector<std::string>{"model.onnx.0000000.data", name,
                                                     "model.onnx.zzzzzzzz.data",
                                                     "other.onnx.01234567.data"});
  Export(saved, files, Must(ToOnnx(*predictor)), /*replace=*/true);
  CHECK(DataNames(files).size() == 3);
}

TEST_CASE("onnx: what the format cannot express is refused, and says what", "[export]") {
  const DataFiles files;
  files.Write("train.csv", Rows());
  files.Write("test.csv", Rows());
  const SavedJob saved = TrainAndSave(
      files, Job("label: {column: bought}\nmodel: {kind: mlp, hidden: [8]}\n", "id: hash"));
  const auto predictor = Must(predict::Predictor::Load(saved.directory));
  const auto refused = ToOnnx(*predictor);
  CHECK(absl::IsFailedPrecondition(refused.status()));
  CHECK_THAT(std::string(refused.status().message()), Contains("hash table"));
}

TEST_CASE("onnx: that a sasrec cannot be exported is said of the model, not of one of its ops",
          "[export]") {
  const DataFiles files;
  files.Write("visits.csv", "user,item,time\nu,c,1\nv,b,1\nu,a,2\nv,c,2\nu,b,3\nv,a,3\n");
  const SavedJob saved = TrainAndSave(
      files,
      "dataset: {path: visits.csv}\nfeatures:\n  - {name: item, kind: categorical}\n"
      "  - {name: seen, kind: history, history_of: item, group_by: user, by: time, max_values: 3}\n"
      "split: {holdout_per: user, by: time, holdout_last: true}\ntrain: {batch_size: 2}\n"
      "model: {kind: sasrec, history: seen, dim: 4}\nloss: {kind: full_softmax}\n");
  const auto refused = ToOnnx(*Must(predict::Predictor::Load(saved.directory)));
  CHECK(absl::IsFailedPrecondition(refused.status()));
  CHECK_THAT(std::string(refused.status().message()),
             Contains("a sasrec cannot be exported to ONNX yet"));
}

}  // namespace
}  // namespace coxswain::exporter
