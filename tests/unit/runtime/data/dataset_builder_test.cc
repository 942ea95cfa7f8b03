// Data sets as programs describe them.
#include <catch2/catch.hpp>
#include <string>

#include "coxswain/dataset.h"
#include "runtime/data/dataset_options.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"
#include "tests/testing/tf_records.h"

namespace coxswain {
namespace {

TEST_CASE("dataset builder: weights, vectors, parts and streaming are those of the spec") {
  DataFiles files;
  std::string csv = "x,v,w,y\n";
  for (int i = 0; i < 200; ++i) csv += "1,0.5 2,3,1\n";
  const std::string path = files.Write("a.csv", csv);
  DatasetBuilder builder = Csv(path);
  builder.Numeric("x").Vector("v", 2).Label("y").Weight("w").File(files.Write("b.csv", csv));
  builder.Split(0.1, 0.2).Shuffle(7);
  proto::DatasetSpec spec = builder.Streamed(1 << 20).options().spec;
  spec.mutable_stream()->set_cache_directory(files.Path("cache"));
  const auto data = MustLoad(spec);
  CHECK(data->index() != nullptr);
  CHECK(data->index()->rows() == 400);
  CHECK(data->num_examples(Part::kValidation) > 0);
  CHECK(data->num_examples(Part::kTest) > data->num_examples(Part::kValidation));
  const Ticket first{Part::kTraining, 0, 0, 1};
  CHECK(Values<float>(*data, first, "v") == std::vector<float>{0.5F, 2});
  CHECK(Values<float>(*data, first, "label.weight") == std::vector<float>{3});
}

TEST_CASE("dataset builder: files of a test, JSON lines and TFRecord") {
  DataFiles files;
  const std::string json = files.Write("a.jsonl", "{\"x\": 3, \"y\": 1}\n");
  const std::string test = files.Write("test.jsonl", "{\"x\": 5, \"y\": 1}\n");
  const auto rows = MustLoad(JsonLines(json).Numeric("x").Label("y").TestFile(test).options().spec);
  CHECK(rows->num_examples(Part::kTest) == 1);
  CHECK(Values<float>(*rows, AllOf(*rows, Part::kTraining), "x") == std::vector<float>{3});
  const std::string records = files.Write("a", ExampleBuilder().Float("x", {4}).Record());
  const auto examples = MustLoad(TfRecords(records).Numeric("x").options().spec);
  CHECK(Values<float>(*examples, AllOf(*examples, Part::kTraining), "x") == std::vector<float>{4});
  CHECK(Parquet("a.parquet").options().spec.format() == "parquet");
}

TEST_CASE("dataset builder: a feature of hashed values keeps their names") {
  DataFiles files;
  DatasetBuilder builder = Csv(files.Write("a.csv", "x\nb\na\nb\n"));
  builder.Add({.name = "x", .hash_buckets = 7, .keep_names = true});
  CHECK(MustLoad(builder.options().spec)->names("x") == std::vector<std::string>{"b", "a"});
}

}  // namespace
}  // namespace coxswain
