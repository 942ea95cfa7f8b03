// Features of kind vector, and those of several values, as a job says them.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "tests/testing/job_texts.h"

namespace coxswain::job {
namespace {

using proto::FeatureSpec;
using testing::Changed;
using testing::ErrorOf;
using testing::MustParse;

constexpr char kJob[] = R"(dataset: {path: a.parquet, format: parquet}
features:
  - {name: image, kind: vector, width: 784, normalization: divide, divisor: 255}
  - {name: p, kind: vector, columns: ["p{0..2}", q], normalization: log1p}
  - {name: tags, kind: categorical, multi_valued: true}
label: {column: y}
model: {kind: mlp, hidden: [4]}
)";

TEST_CASE("a vector has a width, from its columns if it has some") {
  const JobSpec job = MustParse(kJob);
  const FeatureSpec& image = job.dataset.features(0);
  CHECK(image.kind() == FeatureSpec::VECTOR);
  CHECK(image.width() == 784);
  CHECK(image.column() == "image");
  CHECK(image.normalization() == FeatureSpec::DIVIDE);
  CHECK(image.divisor() == 255);
  const FeatureSpec& p = job.dataset.features(1);
  CHECK(p.width() == 4);
  REQUIRE(p.columns_size() == 4);
  CHECK(p.columns(0) == "p0");
  CHECK(p.columns(2) == "p2");
  CHECK(p.columns(3) == "q");
  CHECK(p.divisor() == 0);
}

TEST_CASE("what stands for an empty vector is told apart from nothing, also where it is 0") {
  const auto missing = [](const std::string& more) {
    std::string text = kJob;
    text.replace(text.find("width: 784"), 10, "width: 784" + more);
    return MustParse(text).dataset.features(0).missing_value();
  };
  CHECK_FALSE(std::signbit(missing("")));
  CHECK(missing(", missing_value: 0") == 0);
  CHECK(std::signbit(missing(", missing_value: 0")));
  CHECK(missing(", missing_value: 3") == 3);
}

TEST_CASE("multi_valued is a list of a file with lists, and what is unknown in it is left out") {
  const JobSpec job = MustParse(kJob);
  CHECK(job.dataset.features(2).multi_valued());
  CHECK(job.dataset.features(2).value_separator().empty());
  CHECK(job.dataset.features(2).oov_buckets() == 0);
  CHECK_THAT(Changed(kJob, "multi_valued: true", "multi_valued: false, value_separator: \"|\""),
             Catch::Contains("features.tags.multi_valued: with value_separator there are several"));
}

TEST_CASE("a vector that contradicts itself is an error with its key") {
  const auto error = [](const char* from, const char* to, const char* wanted) {
    CHECK_THAT(Changed(kJob, from, to), Catch::Contains(wanted));
  };
  error("width: 784, ", "", "features.image: a vector needs its width, or columns");
  error("columns:", "width: 3, columns:", "features.p.width: there are 4 columns");
  error("columns:", "column: x, columns:", "features.p.columns: give one of column and columns");
  error("p{0..2}", "p{2..0}", "features.p.columns: wanted names and ranges such as p{0..63}");
  error("log1p", "standard", "features.p.normalization: of a vector it is none, log1p or divide");
  error("divisor: 255", "divisor: 0", "divisor");
  error("{kind: mlp, hidden: [4]}", "{kind: deepfm, dim: 4}",
        "model.features: 'image' is a vector");
}

}  // namespace
}  // namespace coxswain::job
