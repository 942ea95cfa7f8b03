#include "coordinator/generate/generate.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/generate/zipf.h"
#include "coordinator/model/metrics/auc.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/data/criteo.h"
#include "runtime/data/input_file.h"
#include "tests/testing/cluster.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"
#include "tests/testing/forwarding.h"

namespace coxswain::generate {
namespace {

using Catch::Matchers::Contains;
using testing::ForwardingFileSystem;
using testing::Must;

absl::StatusOr<Generated> Make(const PlantedData& data, const GenerateOptions& options,
                               int threads = 1) {
  const auto files = env::NewRealFileSystem();
  return Generate(data, options, env::NewComputePool(threads).get(), files.get());
}

std::string ReadLines(const std::string& path, int64_t lines = -1) {
  auto reader = Must(data::LineReader::Open(path));
  std::string text;
  absl::string_view line;
  while (lines-- != 0 && Must(reader->Next(&line))) absl::StrAppend(&text, line, "\n");
  return text;
}

TEST_CASE("ranks follow Zipf's law for every exponent and count") {
  constexpr int kDraws = 200'000;
  for (const double exponent : {0.0, 0.5, 1.0, 1.05, 2.5}) {
    for (const int64_t count : {1, 2, 10, 1000}) {
      INFO("exponent " << exponent << ", " << count << " ranks");
      const Zipf zipf(count, exponent);
      std::vector<double> drawn(static_cast<size_t>(count));
      for (int i = 0; i < kDraws; ++i) {
        RowRandom random(42, i);
        const int64_t rank = zipf.Draw(&random);
        if (rank < 0 || rank >= count) FAIL("rank " << rank);
        drawn[static_cast<size_t>(rank)] += 1;
      }
      double total = 0;
      for (int64_t r = 1; r <= count; ++r) total += std::pow(static_cast<double>(r), -exponent);
      // Chi square: its mean is the degrees of freedom, its deviation sqrt(2 of them). Rare ranks
      // are taken together, as the test wants.
      double chi = 0, rest_drawn = 0, rest_wanted = 0;
      int cells = 0;
      for (int64_t r = 1; r <= count; ++r) {
        const double wanted = kDraws * std::pow(static_cast<double>(r), -exponent) / total;
        const double found = drawn[static_cast<size_t>(r - 1)];
        if (wanted < 10) {
          rest_drawn += found;
          rest_wanted += wanted;
          continue;
        }
        chi += (found - wanted) * (found - wanted) / wanted;
        ++cells;
      }
      if (rest_wanted > 10) {
        chi += (rest_drawn - rest_wanted) * (rest_drawn - rest_wanted) / rest_wanted;
        ++cells;
      }
      const double freedom = cells - 1;
      CHECK(chi <= freedom + 5 * std::sqrt(2 * freedom) + 1e-9);
    }
  }
}

TEST_CASE("ranks of a law over more ids than any table has stay in range") {
  const Zipf zipf(int64_t{1} << 40, 1.05);
  int64_t largest = 0;
  for (int i = 0; i < 100'000; ++i) {
    RowRandom random(1, i);
    const int64_t rank = zipf.Draw(&random);
    if (rank < 0 || rank >= int64_t{1} << 40) FAIL("rank " << rank);
    largest = std::max(largest, rank);
  }
  CHECK(largest > int64_t{1} << 32);
}

TEST_CASE("what is generated depends on options and seed alone, and gzip changes nothing") {
  DataFiles files;
  const auto data = Must(NewPlantedCriteo({.seed = 7, .ids = 1000}));
  const int64_t rows = 20'000;  // several parts
  Must(Make(*data, {.path = files.Path("one"), .rows = rows}, 1).status());
  Must(Make(*data, {.path = files.Path("three"), .rows = rows}, 3).status());
  Must(Make(*data, {.path = files.Path("packed.gz"), .rows = rows}, 2).status());
  Must(Make(*data, {.path = files.Path("fewer"), .rows = 9000}, 1).status());
  const std::string text = ReadLines(files.Path("one"));
  CHECK(ReadLines(files.Path("three")) == text);
  CHECK(ReadLines(files.Path("packed.gz")) == text);
  CHECK(ReadLines(files.Path("one"), 9000) == ReadLines(files.Path("fewer")));
  CHECK(std::filesystem::file_size(files.Path("packed.gz")) < text.size() / 2);
  const auto other = Must(NewPlantedCriteo({.seed = 8, .ids = 1000}));
  Must(Make(*other, {.path = files.Path("other"), .rows = 9000}).status());
  CHECK(ReadLines(files.Path("other")) != ReadLines(files.Path("fewer")));
}

TEST_CASE("generated clicks are Criteo's format, and the sidecar's counts are theirs") {
  DataFiles files;
  const auto data = Must(NewPlantedCriteo({.seed = 1, .ids = 300}));
  const std::string path = files.Path("clicks.tsv.gz");
  const Generated made = Must(Make(*data, {.path = path, .rows = 5000}, 2));
  proto::DatasetSpec spec;
  spec.set_format(data::kCriteoFormat);
  spec.add_paths(path);
  const auto loaded = MustLoad(spec);
  REQUIRE(loaded->num_examples(Part::kTraining) == 5000);
  double positives = 0;
  for (const float label : Values<float>(*loaded, AllOf(*loaded, Part::kTraining), "label")) {
    positives += static_cast<double>(label);
  }
  CHECK(positives == static_cast<double>(made.truth.clicks.positives()));
  CHECK(positives > 500);
  const auto json = nlohmann::json::parse(ReadLines(made.truth_path));
  CHECK(made.truth_path == path + ".truth.json");
  CHECK(json.at("rows") == 5000);
  CHECK(json.at("positives") == made.truth.clicks.positives());
  CHECK(json.at("auc") == made.truth.clicks.auc());
  CHECK(json.at("auc") > 0.75);
  CHECK(json.at("auc") < 0.9);
}

TEST_CASE("the truth's AUC and log loss are those of its probabilities") {
  ClickTruth truth, half;
  std::vector<std::pair<float, float>> scored;
  double expected_loss = 0, drawn_loss = 0;
  for (int i = 0; i < 4000; ++i) {
    RowRandom random(3, i);
    const double logit = 2 * random.Normal(), p = 1 / (1 + std::exp(-logit));
    const bool label = random.Uniform() < p;
    (i % 2 == 0 ? truth : half).Add(logit, label);
    scored.emplace_back(static_cast<float>(logit), label ? 1.0f : 0.0f);
    expected_loss -= (p * std::log(p) + (1 - p) * std::log(1 - p)) / 4000;
    drawn_loss -= std::log(label ? p : 1 - p) / 4000;
  }
  truth.Merge(half);
  CHECK(truth.drawn_auc() == Approx(model::AreaUnderCurve(scored)).margin(1e-4));
  CHECK(truth.log_loss() == Approx(expected_loss));
  CHECK(truth.drawn_log_loss() == Approx(drawn_loss));
  // The expected AUC, from all pairs: each example is positive by p and negative by 1 - p.
  double won = 0, pairs = 0;
  for (const auto& [a, unused_a] : scored) {
    const double p = 1 / (1 + std::exp(-static_cast<double>(a)));
    for (const auto& [b, unused_b] : scored) {
      const double q = 1 / (1 + std::exp(-static_cast<double>(b)));
      won += p * (1 - q) * (a > b ? 1.0 : a == b ? 0.5 : 0.0);
      pairs += p * (1 - q);
    }
  }
  CHECK(truth.auc() == Approx(won / pairs).margin(1e-4));
  CHECK(truth.auc() == Approx(truth.drawn_auc()).margin(0.02));
}

TEST_CASE("generated ratings have the noise that the sidecar says") {
  DataFiles files;
  const auto data = Must(NewPlantedRatings({.seed = 2, .users = 50, .items = 20, .noise = 0.25}));
  const std::string path = files.Path("ratings.csv");
  const Generated made = Must(Make(*data, {.path = path, .rows = 30'000}));
  CHECK(made.truth.noise.rmse() == Approx(0.25).epsilon(0.02));
  // The same pair of user and item differs by its noise alone.
  auto spec = CsvSpec(path);
  AddCategorical(&spec, "user");
  AddCategorical(&spec, "item");
  AddNumeric(&spec, "rating");
  const auto loaded = MustLoad(spec);
  const Ticket all = AllOf(*loaded, Part::kTraining);
  const auto users = Values<int64_t>(*loaded, all, "user");
  const auto items = Values<int64_t>(*loaded, all, "item");
  const auto ratings = Values<float>(*loaded, all, "rating");
  std::map<std::pair<int64_t, int64_t>, std::vector<double>> pairs;
  for (size_t i = 0; i < users.size(); ++i) {
    pairs[{users[i], items[i]}].push_back(static_cast<double>(ratings[i]));
  }
  double squares = 0, freedom = 0;
  for (const auto& [pair, values] : pairs) {
    double mean = 0;
    for (const double v : values) mean += v / static_cast<double>(values.size());
    for (const double v : values) squares += (v - mean) * (v - mean);
    freedom += static_cast<double>(values.size() - 1);
  }
  REQUIRE(freedom > 20'000);
  CHECK(std::sqrt(squares / freedom) == Approx(0.25).epsilon(0.02));
  CHECK(loaded->vocabulary_size("user") == 50);
}

TEST_CASE("generate keeps what is there, unless it is told to replace it") {
  DataFiles files;
  const auto data = Must(NewPlantedRatings({.users = 5, .items = 5}));
  const std::string path = files.Write("r.csv", "precious");
  const absl::Status refused = Make(*data, {.path = path, .rows = 10}).status();
  CHECK(refused.code() == absl::StatusCode::kAlreadyExists);
  CHECK_THAT(std::string(refused.message()), Contains("r.csv") && Contains("--force"));
  CHECK(GetDetail(refused)->cause == ErrorCause::kConfiguration);
  CHECK(ReadLines(path) == "precious\n");
  Must(Make(*data, {.path = path, .rows = 10, .force = true}).status());
  CHECK(ReadLines(path, 1) == "user,item,rating\n");
  // A sidecar alone is precious, too.
  std::filesystem::remove(path);
  CHECK(Make(*data, {.path = path, .rows = 10}).status().code() ==
        absl::StatusCode::kAlreadyExists);
}

// A disk with room for some bytes.
class SmallDisk : public ForwardingFileSystem {
 public:
  explicit SmallDisk(size_t bytes) : left_(bytes) {}
  absl::StatusOr<std::unique_ptr<env::WritableFile>> Create(const std::string& path) override {
    auto file = ForwardingFileSystem::Create(path);
    if (!file.ok()) return file.status();
    return std::unique_ptr<env::WritableFile>(new File(*std::move(file), &left_, path));
  }

 private:
  class File : public env::WritableFile {
   public:
    File(std::unique_ptr<env::WritableFile> file, size_t* left, std::string path)
        : file_(std::move(file)), left_(left), path_(std::move(path)) {}
    absl::Status Append(const void* data, size_t bytes) override {
      if (bytes > *left_) return absl::ResourceExhaustedError(path_ + ": no space left on device");
      *left_ -= bytes;
      return file_->Append(data, bytes);
    }
    absl::Status Sync() override { return file_->Sync(); }
    absl::Status Close() override { return file_->Close(); }

   private:
    std::unique_ptr<env::WritableFile> file_;
    size_t* left_;
    std::string path_;
  };
  size_t left_;
};

TEST_CASE("a full disk is an error and leaves nothing behind") {
  DataFiles files;
  SmallDisk disk(1 << 20);
  const auto data = Must(NewPlantedRatings({}));
  const auto pool = env::NewInlinePool();
  const absl::Status status =
      Generate(*data, {.path = files.Path("r.csv"), .rows = 1'000'000}, pool.get(), &disk).status();
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  CHECK_THAT(std::string(status.message()), Contains("no space left"));
  CHECK(std::filesystem::is_empty(std::filesystem::path(files.Path("r.csv")).parent_path()));
}

TEST_CASE("what is left of a generator that was killed goes when the next one begins") {
  DataFiles files;
  const std::string left = files.Write("r.csv.4711-1.tmp", "user,item");
  const auto disk = env::NewRealFileSystem();
  const auto data = Must(NewPlantedRatings({}));
  Must(Generate(*data, {.path = files.Path("r.csv"), .rows = 10}, env::NewInlinePool().get(),
                disk.get()));
  CHECK_FALSE(std::filesystem::exists(left));
  CHECK(std::filesystem::exists(files.Path("r.csv")));
}

TEST_CASE("who is interrupted leaves nothing behind") {
  DataFiles files;
  const auto data = Must(NewPlantedRatings({}));
  int64_t seen = 0;
  GenerateOptions options{.path = files.Path("r.csv"), .rows = 1'000'000};
  options.progress = [&](int64_t rows) {
    seen = rows;
    return rows < 100'000;
  };
  CHECK(absl::IsCancelled(Make(*data, options).status()));
  CHECK(seen >= 100'000);
  CHECK(seen < 1'000'000);
  CHECK(std::filesystem::is_empty(std::filesystem::path(options.path).parent_path()));
}

TEST_CASE("options that cannot be are told by their names") {
  const auto error = [](const auto& made) { return std::string(made.status().message()); };
  CHECK(error(NewPlantedCriteo({.ids = 2})) == "--ids: wanted 3 to 2^40, found 2");
  CHECK(error(NewPlantedCriteo({.zipf = -1})) == "--zipf: wanted 0 to 10, found -1");
  CHECK(error(NewPlantedRatings({.users = 0})) == "--users: wanted 1 to 2^40, found 0");
  CHECK(error(NewPlantedRatings({.items = -5})) == "--items: wanted 1 to 2^40, found -5");
  CHECK(error(NewPlantedRatings({.dim = 0})) == "--dim: wanted 1 to 1024, found 0");
  CHECK(error(NewPlantedRatings({.noise = NAN})) == "--noise: wanted 0 to 1e6, found nan");
}

}  // namespace
}  // namespace coxswain::generate
