#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/data/tfrecord_reader.h"
#include "tests/testing/same_when_streamed.h"
#include "tests/testing/tf_records.h"
#include "tests/testing/zlib_bytes.h"
#include "tests/testing/zstd_bytes.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;

proto::DatasetSpec Spec(const std::string& path) {
  proto::DatasetSpec spec;
  spec.set_format("tfrecord");
  spec.add_paths(path);
  return spec;
}

proto::FeatureSpec* AddList(proto::DatasetSpec* spec, const std::string& name) {
  proto::FeatureSpec* const feature = AddCategorical(spec, name);
  feature->set_multi_valued(true);
  return feature;
}

std::string Clicks(int rows) {
  std::string file;
  for (int i = 0; i < rows; ++i) {
    ExampleBuilder example;
    example.Int("user", {i % 11}).Bytes("item", {absl::StrCat("item ", i % 7)});
    if (i % 3 != 0) example.Float("price", {0.25F * static_cast<float>(i)});
    if (i % 4 != 0) example.Bytes("tags", {absl::StrCat("a b", i % 5), "all"});
    example.Float("vector", {1, static_cast<float>(i)}).Int("label", {i % 2});
    file += example.Record();
  }
  return file;
}

proto::DatasetSpec ClicksSpec(const std::string& path) {
  auto spec = Spec(path);
  AddCategorical(&spec, "user");
  AddCategorical(&spec, "item")->set_oov_buckets(2);
  AddNumeric(&spec, "price");
  AddList(&spec, "tags");
  proto::FeatureSpec* const vector = spec.add_features();
  vector->set_name("vector");
  vector->set_kind(proto::FeatureSpec::VECTOR);
  vector->set_width(2);
  spec.mutable_label()->set_column("label");
  return spec;
}

TEST_CASE("tfrecord: the checksum is CRC-32C, of any length and place", "[data]") {
  CHECK(Crc32c("") == 0);
  CHECK(Crc32c("123456789") == 0xe3069283u);
  CHECK(Crc32c(std::string(32, '\0')) == 0x8a9136aau);
  CHECK(Crc32c(std::string(32, '\xff')) == 0x62a8ab43u);
}

TEST_CASE("tfrecord: an example as TensorFlow writes it is a row", "[data]") {
  DataFiles files;
  const std::string bytes(
      "\nR\n\x14\n\x08"
      "feature2\x12\x08\n\x06\n\x04goat\n\x14\n\x08"
      "feature3\x12\x08\x12\x06\n\x04[\xd3|?\n\x11\n\x08"
      "feature0\x12\x05\x1a\x03\n\x01\x00\n\x11\n\x08"
      "feature1\x12\x05\x1a\x03\n\x01\x04",
      84);
  auto spec = Spec(files.Write("a.tfrecord", TfRecord(bytes)));
  for (const char* name : {"feature0", "feature1", "feature3"}) AddNumeric(&spec, name);
  AddCategorical(&spec, "feature2");
  const auto data = MustLoad(spec);
  REQUIRE(data->num_examples(Part::kTraining) == 1);
  const auto batch = data->Read({Part::kTraining, 0, 0, 1});
  REQUIRE(batch.ok());
  CHECK((*batch)[0].data<float>()[0] == 0);
  CHECK((*batch)[1].data<float>()[0] == 4);
  CHECK((*batch)[2].data<float>()[0] == Approx(0.9876));
  CHECK(*data->vocabulary("feature2") == std::vector<std::string>{"goat"});
}

TEST_CASE("tfrecord: values of each type, lists and missing ones, streamed or not", "[data]") {
  DataFiles files;
  auto spec = ClicksSpec(files.Write("a.tfrecord", Clicks(120)));
  SECTION("as it is") {}
  SECTION("packed by gzip") { spec.set_paths(0, files.WriteGzip("b.tfrecord", Clicks(120))); }
  SECTION("packed by zstd") {
    spec.set_paths(0, files.Write("c.tfrecord", ZstdBytes(Clicks(120))));
  }
  SECTION("packed by zlib") {
    spec.set_paths(0, files.Write("d.tfrecord", ZlibBytes(Clicks(120))));
  }
  spec.mutable_split()->set_test_fraction(0.2);
  CheckSameWhenStreamed(files, spec);
  const auto data = MustLoad(spec);
  CHECK(data->vocabulary("tags")->size() == 6);  // blanks are a part of them
}

TEST_CASE("tfrecord: a text that stands alone is cut at the separator, where there is one") {
  DataFiles files;
  const std::string file = ExampleBuilder().Bytes("tags", {"a|b"}).Record() +
                           ExampleBuilder().Bytes("tags", {"c|d", "e"}).Record();
  auto spec = Spec(files.Write("a", file));
  AddList(&spec, "tags")->set_value_separator("|");
  CHECK(*MustLoad(spec)->vocabulary("tags") == std::vector<std::string>{"a", "b", "c|d", "e"});
}

TEST_CASE("tfrecord: what is damaged, torn or no example is told by file and record", "[data]") {
  DataFiles files;
  const std::string good = Clicks(3);
  const auto error = [&](const std::string& bytes) {
    return LoadError(ClicksSpec(files.Write("a.tfrecord", bytes)));
  };
  std::string flipped = good;
  flipped[flipped.size() - 6] ^= 1;
  CHECK_THAT(error(flipped), Contains("a.tfrecord: record 3: its bytes do not have the checksum"));
  CHECK_THAT(error(good.substr(0, good.size() - 2)),
             Contains("record 3: wanted") && Contains("it is torn"));
  CHECK_THAT(error(good + "1234"), Contains("record 4: wanted its length"));
  CHECK_THAT(error("user,item\n1,2\n3,4\n"), Contains("no TFRecord file"));
  CHECK_THAT(error(good + TfRecord("\xff\xff")), Contains("record 4: wanted a tf.Example"));
  CHECK_THAT(error(good + TfRecord(std::string(100, '\x0a'))), Contains("record 4"));
}

TEST_CASE("tfrecord: a feature that is not what the job wants is told by its name", "[data]") {
  DataFiles files;
  const auto error = [&](const ExampleBuilder& example) {
    return LoadError(ClicksSpec(files.Write("a.tfrecord", Clicks(2) + example.Record())));
  };
  const auto base = [] {
    return ExampleBuilder().Int("user", {1}).Bytes("item", {"x"}).Float("vector", {1, 2});
  };
  CHECK_THAT(error(base().Bytes("price", {"dear"}).Int("label", {1})),
             Contains("record 3: feature \"price\": wanted a finite number (f32), found \"dear\""));
  CHECK_THAT(error(base().Float("price", {1, 2}).Int("label", {1})),
             Contains("feature \"price\": wanted one value, found a list of 2"));
  CHECK_THAT(error(base()), Contains("feature \"label\": wanted ") && Contains("found none"));
  CHECK_THAT(error(base().Int("label", {1}).Float("vector", {1})),
             Contains("feature \"vector\": wanted a list of 2 finite numbers"));
  auto spec = Spec(files.Write("b", Clicks(2)));
  AddNumeric(&spec, "prize");
  CHECK_THAT(LoadError(spec),
             Contains("wanted a key \"prize\", found it in no row; there are: item"));
}

}  // namespace
}  // namespace coxswain::data
