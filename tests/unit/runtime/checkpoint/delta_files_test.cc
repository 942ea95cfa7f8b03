// A file and its deltas, read as the rows that they make up.
#include "runtime/checkpoint/delta_files.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/testing/data_files.h"
#include "tests/testing/saved_models.h"

namespace coxswain::checkpoint {
namespace {

using Catch::Contains;

constexpr int64_t kDim = 3;

RowFiles::File FileOf(const std::string& path, const WrittenFile& written, int64_t rows = 0) {
  return {path, written.bytes, written.crc32, true, rows};
}

// Random rows and deltas to them, and what they come to.
struct Layers {
  Layers(const DataFiles& files, int64_t base_rows, int64_t all_rows, int deltas) : random(7) {
    rows.resize(static_cast<size_t>(all_rows * kDim));
    for (size_t i = 0; i < static_cast<size_t>(base_rows * kDim); ++i) rows[i] = Next();
    std::vector<float> base(rows.begin(), rows.begin() + base_rows * kDim);
    whole = FileOf(
        files.Path("whole"),
        WriteTensors(files.Path("whole"),
                     {{"weights", Tensor::FromVector(base, Shape{base_rows, kDim}).value()}}));
    for (int d = 0; d < deltas; ++d) {
      std::vector<int64_t> changed;
      std::vector<float> values;
      for (int64_t row = 0; row < all_rows; ++row) {
        const bool fresh = row >= base_rows && d == 0;
        if (!fresh && random() % 4 != 0) continue;
        changed.push_back(row);
        for (int64_t i = 0; i < kDim; ++i) {
          values.push_back(rows[static_cast<size_t>(row * kDim + i)] = Next());
        }
      }
      const auto n = static_cast<int64_t>(changed.size());
      const std::string path = files.Path(absl::StrCat("delta", d));
      const WrittenFile written =
          WriteTensors(path, {{kDeltaRows, Tensor::FromVector(changed)},
                              {"weights", Tensor::FromVector(values, Shape{n, kDim}).value()}});
      this->deltas.push_back(FileOf(path, written, n));
    }
  }
  float Next() { return static_cast<float>(random() % 1000); }

  std::mt19937_64 random;
  std::vector<float> rows;
  RowFiles::File whole;
  std::vector<RowFiles::File> deltas;
};

TEST_CASE("every range of rows is that of the last delta that has them", "[deltas]") {
  const DataFiles files;
  for (const int64_t base : {31, 20}) {
    for (const int deltas : {0, 1, 3}) {
      if (deltas == 0 && base < 31) continue;
      INFO(base << " rows, " << deltas << " deltas");
      const Layers layers(files, base, 31, deltas);
      const auto open = RowFiles::Open(layers.whole, layers.deltas, 31);
      INFO(open.status().ToString());
      REQUIRE(open.ok());
      CHECK(open->Verify().ok());
      REQUIRE(open->Find("weights") != nullptr);
      CHECK(open->Find("weights")->shape == Shape{31, kDim});
      CHECK(open->Find("slot") == nullptr);
      std::vector<float> read(31 * kDim);
      char* const out = reinterpret_cast<char*>(read.data());
      for (int64_t begin = 0; begin <= 31; ++begin) {
        for (int64_t end = begin; end <= 31; ++end) {
          REQUIRE(open->Read("weights", kDim * sizeof(float), begin, end - begin, out).ok());
          REQUIRE(std::equal(layers.rows.begin() + begin * kDim, layers.rows.begin() + end * kDim,
                             read.begin()));
        }
      }
      CHECK(absl::IsOutOfRange(open->Read("weights", kDim * sizeof(float), 30, 2, out)));
      CHECK(absl::IsNotFound(open->Read("slot", sizeof(float), 0, 1, out)));
    }
  }
}

TEST_CASE("deltas that do not fit are told with their names", "[deltas]") {
  const DataFiles files;
  const Layers layers(files, 31, 31, 2);
  const auto error = [&](std::vector<RowFiles::File> deltas) {
    const auto open = RowFiles::Open(layers.whole, deltas, 31);
    std::vector<float> read(31 * kDim);
    absl::Status status = open.status();
    if (status.ok()) {
      status =
          open->Read("weights", kDim * sizeof(float), 0, 31, reinterpret_cast<char*>(read.data()));
    }
    CHECK_FALSE(status.ok());
    return std::string(status.message());
  };
  const auto with = [&](const NamedTensors& tensors, int64_t rows) {
    const std::string path = files.Path("other");
    return std::vector<RowFiles::File>{FileOf(path, WriteTensors(path, tensors), rows)};
  };
  const Tensor two = Tensor::FromVector<float>({1, 2, 3, 4, 5, 6}, Shape{2, 3}).value();
  const auto listed = [](std::vector<int64_t> rows) { return Tensor::FromVector(rows); };
  CHECK_THAT(error(with({{"weights", two}}, 2)), Contains("other") && Contains("'row'"));
  CHECK_THAT(error(with({{"row", listed({1, 2})}, {"weights", two}}, 3)), Contains("3 rows"));
  CHECK_THAT(error(with({{"row", listed({1, 2})}}, 2)), Contains("weights") && Contains("none"));
  CHECK_THAT(error(with({{"row", listed({5, 5})}, {"weights", two}}, 2)), Contains("ascending"));
  CHECK_THAT(error(with({{"row", listed({9, 3})}, {"weights", two}}, 2)), Contains("ascending"));
  CHECK_THAT(error(with({{"row", listed({1, 2})},
                         {"weights", Tensor::FromVector<float>({1, 2, 3, 4}, Shape{2, 2}).value()}},
                        2)),
             Contains("[2,3]") && Contains("[2,2]"));
  std::vector<RowFiles::File> gone = layers.deltas;
  gone[1].path = files.Path("gone");
  CHECK_THAT(error(gone), Contains("gone"));
  std::vector<RowFiles::File> altered = layers.deltas;
  altered[1].crc32 ^= 1;
  const absl::Status verified = RowFiles::Open(layers.whole, altered, 31)->Verify();
  CHECK_THAT(std::string(verified.message()), Contains("delta1"));
}

}  // namespace
}  // namespace coxswain::checkpoint
