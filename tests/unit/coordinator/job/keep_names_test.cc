// keep_names in a job, and where it is refused.
#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/testing/job_texts.h"

namespace coxswain::job {
namespace {

using Catch::Contains;
using testing::ErrorOf;
using testing::MustParse;

std::string Text(const std::string& user, const std::string& dataset = "path: a.csv") {
  return absl::StrCat("name: j\ndataset: {", dataset,
                      "}\n"
                      "features:\n"
                      "  - {name: user, ",
                      user,
                      "}\n"
                      "  - {name: a, kind: categorical, hash_buckets: 5}\n"
                      "  - {name: b, kind: categorical, hash_buckets: 5}\n"
                      "label: {column: y}\n"
                      "model: {kind: mlp, hidden: [4]}\n");
}

TEST_CASE("job: features of hashed values keep names where the job asks for it", "[job]") {
  for (const std::string hashed : {"hash_buckets: 10", "id: hash"}) {
    const std::string user = absl::StrCat("kind: categorical, ", hashed);
    CHECK_FALSE(MustParse(Text(user)).FindFeature("user")->keep_names());
    CHECK(MustParse(Text(user + ", keep_names: true")).FindFeature("user")->keep_names());
    const std::string crossed =
        absl::StrCat("kind: crossed, features: [a, b], ", hashed, ", keep_names: true");
    CHECK(MustParse(Text(crossed)).FindFeature("user")->keep_names());
  }
  // Without a wish there is nothing to refuse.
  CHECK(ErrorOf(Text("kind: categorical, keep_names: false")).empty());
}

TEST_CASE("job: where names cannot be kept it is told with its line", "[job]") {
  const auto check = [](const std::string& user, const char* why,
                        const std::string& dataset = "path: a.csv") {
    INFO(user);
    const std::string error = ErrorOf(Text(user + ", keep_names: true", dataset));
    CHECK_THAT(error, Contains("job.yaml:4:") && Contains("keep_names") && Contains(why));
  };
  const char* const named = "a vocabulary has the names already";
  check("kind: categorical", named);
  check("kind: categorical, vocabulary: [x, y]", named);
  check("kind: crossed, features: [a, b]", named);
  check("kind: categorical, id: raw", "a value is its own name");
  check("kind: numeric", "");
  check("kind: history, history_of: a, group_by: g", "");
  check("kind: bucketized, boundaries: [1]", "");
  check("kind: categorical, hash_buckets: 9", "with dataset.follow", "path: clicks, follow: true");
  const std::string libsvm =
      "dataset: {path: a, format: libsvm}\n"
      "features: [{name: features, kind: categorical, keep_names: true}]\n"
      "model: {kind: logistic_regression}\n";
  CHECK_THAT(ErrorOf(libsvm), Contains("job.yaml:2:") && Contains("features.keep_names") &&
                                  Contains("allows only name, kind, dim and combiner"));
}

}  // namespace
}  // namespace coxswain::job
