// Images and their labels (IDX), streamed.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/hash.h"
#include "runtime/data/stream/parsed_block.h"
#include "runtime/data/stream/stream_options.h"
#include "tests/testing/same_when_streamed.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;

constexpr int kRows = 3, kColumns = 2;

std::string BigEndian(int number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 255);
  return bytes;
}

std::string Header(std::vector<int> sizes) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(sizes.size())};
  for (const int size : sizes) bytes += BigEndian(size);
  return bytes;
}

std::string Images(int from, int to) {
  std::string bytes = Header({to - from, kRows, kColumns});
  for (int i = from * kRows * kColumns; i < to * kRows * kColumns; ++i) {
    bytes += static_cast<char>(Mix64(static_cast<uint64_t>(i)) & 255);
  }
  return bytes;
}

std::string Labels(int from, int to) {
  std::string bytes = Header({to - from});
  for (int i = from; i < to; ++i) bytes += static_cast<char>(Mix64(static_cast<uint64_t>(i)) % 10);
  return bytes;
}

proto::DatasetSpec Digits(const std::vector<std::string>& paths) {
  proto::DatasetSpec spec;
  spec.set_format("idx");
  for (const std::string& path : paths) spec.add_paths(path);
  proto::FeatureSpec* const image = spec.add_features();
  image->set_name("image");
  image->set_kind(proto::FeatureSpec::VECTOR);
  image->set_width(kRows * kColumns);
  image->set_normalization(proto::FeatureSpec::DIVIDE);
  image->set_divisor(255);
  spec.mutable_label()->set_column("label");
  return spec;
}

std::string WritePair(const DataFiles& files, const std::string& name, int from, int to) {
  files.Write(name + "-labels-idx1-ubyte", Labels(from, to));
  return files.Write(name + "-images-idx3-ubyte", Images(from, to));
}

std::string WritePackedPair(const DataFiles& files, const std::string& name, int from, int to) {
  files.WriteGzip(name + "-labels-idx1-ubyte.gz", Labels(from, to));
  return files.WriteGzip(name + "-images-idx3-ubyte.gz", Images(from, to));
}

TEST_CASE("idx: streamed as in memory, packed or not, one file or several", "[data]") {
  const DataFiles files;
  proto::DatasetSpec spec = Digits({WritePair(files, "a", 0, 70), WritePair(files, "b", 70, 75)});
  SECTION("as they are") {}
  SECTION("packed") { spec.add_paths(WritePackedPair(files, "c", 75, 120)); }
  SECTION("with test files") {
    spec.mutable_split()->add_test_paths(WritePackedPair(files, "t", 200, 240));
  }
  spec.mutable_split()->set_validation_fraction(0.2);
  CheckSameWhenStreamed(files, spec);
}

TEST_CASE("idx: images without their labels are streamed, and classes as labels", "[data]") {
  const DataFiles files;
  proto::DatasetSpec spec = Digits({files.Write("only-images-idx3-ubyte", Images(0, 40))});
  spec.clear_label();
  CheckSameWhenStreamed(files, spec);
  spec = Digits({WritePair(files, "a", 0, 90)});
  spec.clear_label();
  AddCategorical(&spec, "label");
  CheckSameWhenStreamed(files, spec);
}

TEST_CASE("idx: files that are no pair are errors of the pass, as in memory", "[data]") {
  const DataFiles files;
  const std::string path = WritePair(files, "a", 0, 40);
  const auto both = [&] {
    const std::string error = LoadError(Digits({path}));
    CHECK(LoadError(Streamed(files, Digits({path}), 100)) == error);
    return error;
  };
  files.Write("a-labels-idx1-ubyte", Labels(0, 39));
  CHECK_THAT(both(), Contains("wanted 40 labels"));
  files.Write("a-labels-idx1-ubyte", Labels(0, 40));
  files.Write("a-images-idx3-ubyte", Images(0, 40) + "x");
  CHECK_THAT(both(), Contains("wanted the end of the file after 40 items"));
  // In how many pieces it was read is another matter.
  files.Write("a-images-idx3-ubyte", Images(0, 40).substr(0, 100));
  CHECK_THAT(LoadError(Streamed(files, Digits({path}), 100)),
             Contains("a-images-idx3-ubyte: wanted") && Contains("found the end of the file"));
}

TEST_CASE("idx: labels that change are found when the data set is opened", "[data]") {
  const DataFiles files;
  const std::string path = WritePair(files, "a", 0, 60);
  const auto spec = Streamed(files, Digits({path}), 100);
  const auto first = MustLoad(spec);
  std::string other = Labels(0, 60);
  other.back() = static_cast<char>(other.back() ^ 1);
  files.Write("a-labels-idx1-ubyte", other);
  // Who has the index.
  const auto opened = MakeStreamedSpec(CheckSpec(spec).value(), first->index());
  CHECK(absl::IsFailedPrecondition(opened.status()));
  CHECK_THAT(std::string(opened.status().message()),
             Contains("a-labels-idx1-ubyte: changed since it was indexed"));
  std::filesystem::remove(files.Path("a-labels-idx1-ubyte"));
  CHECK(absl::IsNotFound(MakeStreamedSpec(CheckSpec(spec).value(), first->index()).status()));
  // Who has none makes it anew.
  files.Write("a-labels-idx1-ubyte", other);
  CHECK(MustLoad(spec)->fingerprint() != first->fingerprint());
}

TEST_CASE("idx: images that change are an error of the block", "[data]") {
  const DataFiles files;
  const std::string path = WritePair(files, "a", 0, 60);
  const auto data = MustLoad(Streamed(files, Digits({path}), 100));
  std::string other = Images(0, 60);
  other.back() = static_cast<char>(other.back() ^ 1);
  files.Write("a-images-idx3-ubyte", other);
  absl::Status status;
  for (int64_t i = 0; i < 60 && status.ok(); ++i) {
    status = data->Read({Part::kTraining, 0, i, i + 1}).status();
  }
  CHECK_THAT(std::string(status.message()),
             Contains("a-images-idx3-ubyte: changed since it was indexed"));
}

TEST_CASE("idx: labels count towards dataset.memory", "[data]") {
  const DataFiles files;
  // An image of a pixel, so that labels are as large as images.
  constexpr int kImages = 30'000;
  files.Write("a-labels-idx1-ubyte", Header({kImages}) + std::string(kImages, '\1'));
  auto spec = Digits(
      {files.Write("a-images-idx3-ubyte", Header({kImages, 1, 1}) + std::string(kImages, '\2'))});
  spec.mutable_features(0)->set_width(1);
  CHECK_THAT(LoadError(Streamed(files, spec, 100, 0, 50'000)),
             Contains("30000 labels") && Contains("dataset.memory: wanted at most 25000"));
  CHECK(MustLoad(Streamed(files, spec, 100, 0, 100'000))->num_examples(Part::kTraining) == kImages);
}

TEST_CASE("idx: pairs of files are not followed", "[data]") {
  auto spec = Digits({"/images"});
  spec.set_followed(true);
  CHECK_THAT(WhyNotStreamed(spec), Contains("dataset.format: idx"));
}

}  // namespace
}  // namespace coxswain::data
