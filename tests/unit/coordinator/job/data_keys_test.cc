// Keys that say how rows are read, joined, weighted, split and made into features.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/job/check_columns.h"
#include "tests/testing/data_files.h"
#include "tests/testing/job_texts.h"

namespace coxswain::job {
namespace {

using testing::ErrorOf;
using testing::MustParse;
using Strings = std::vector<std::string>;

constexpr char kRatings[] = R"(
dataset:
  path: ratings.csv
  trim: true
  comment: "#"
  skip_lines: 2
  missing_values: ["?", NA]
  join:
    - {path: movies.csv, on: movieId, separator: "::", columns: [movieId, title, genres]}
    - {path: users.csv, left_on: userId, right_on: id, prefix: user_, missing_key: error}
features:
  - {name: user, kind: categorical, column: userId}
  - {name: age, kind: bucketized, column: user_age, boundaries: [18, 35.5]}
  - {name: hour, kind: calendar, column: timestamp, part: hour_of_week, time_zone: UTC}
  - {name: month, kind: calendar, column: day, part: month, time_format: "%d.%m.%y"}
  - {name: genres, kind: categorical, value_separator: "|"}
  - {name: sex, kind: categorical, column: user_sex}
  - {name: sex_x_age, kind: crossed, features: [sex, age], hash_buckets: 100, dim: 4}
label: {column: rating, weight: importance, positive: ">= 4"}
split: {by: timestamp, validation: 0.1, test: 0.1}
model: {kind: wide_deep}
)";

TEST_CASE("the keys of raw files, joins, weights, order and made features become the data set") {
  const JobSpec job = MustParse(kRatings);
  const proto::DatasetSpec& data = job.dataset;
  CHECK(data.csv().trim());
  CHECK(data.csv().comment() == "#");
  CHECK(data.csv().skip_lines() == 2);
  CHECK(Strings(data.csv().missing_values().begin(), data.csv().missing_values().end()) ==
        Strings{"?", "NA"});
  REQUIRE(data.joins_size() == 2);
  CHECK(data.joins(0).left_on() == "movieId");
  CHECK(data.joins(0).right_on() == "movieId");
  CHECK(data.joins(0).csv().separator() == "::");
  CHECK_FALSE(data.joins(0).csv().header());
  CHECK_FALSE(data.joins(0).required());
  CHECK(data.joins(1).left_on() == "userId");
  CHECK(data.joins(1).right_on() == "id");
  CHECK(data.joins(1).prefix() == "user_");
  CHECK(data.joins(1).required());
  CHECK(data.joins(1).csv().header());
  CHECK(data.label().weight() == "importance");
  CHECK(data.split().by() == "timestamp");
  CHECK(job.FindFeature("age")->boundaries_size() == 2);
  CHECK(job.FindFeature("hour")->calendar() == "hour_of_week");
  CHECK(job.FindFeature("hour")->time_unit() == "seconds");
  CHECK(job.FindFeature("hour")->time_zone() == "UTC");
  CHECK(job.FindFeature("hour")->column() == "timestamp");
  CHECK(job.FindFeature("month")->time_format() == "%d.%m.%y");
  CHECK(job.FindFeature("month")->time_unit().empty());
  CHECK(job.FindFeature("age")->kind() == proto::FeatureSpec::CATEGORICAL);
  CHECK(job.FindFeature("sex_x_age")->crossed_size() == 2);
  CHECK(job.FindFeature("sex_x_age")->hash_buckets() == 100);
  CHECK(job.FindFeature("sex_x_age")->dim() == 4);
  CHECK(job.FindFeature("sex_x_age")->column().empty());
}

TEST_CASE("what these keys contradict is told by the key") {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"dataset.comment=\"\\\"x\"",
       "dataset.comment: a comment that begins with a quote needs quoting: false"},
      {"dataset.join.0.left_on=x",
       "dataset.join.0: give the key's column: on, or left_on and right_on"},
      {"dataset.join.1.right_on=",
       "dataset.join.1: give the key's column: on, or left_on and right_on"},
      {"dataset.join.0.columns=[a, a]", "dataset.join.0.columns: column 'a' is there twice"},
      {"dataset.join.0.header=true",
       "dataset.join.0.header: the names come from a header or from dataset.join.0.columns"},
      {"split.holdout_last=true",
       "split.holdout_last: wanted holdout_per, and by, which says what is last"},
      {"features.age.boundaries=[2, 1]", "features.age.boundaries: wanted numbers that ascend"},
      {"features.age.boundaries=[]", "features.age.boundaries: wanted at least one"},
      {"features.month.time_unit=seconds",
       "features.month.time_unit: only for numbers, and with time_format times are texts"},
      {"features.hour.time_zone=Middle/Earth",
       "features.hour.time_zone: wanted a zone that this machine knows, such as Europe/Berlin (the "
       "package tzdata has them), found 'Middle/Earth'"},
      {"features.hour.part=",
       "features.hour: 'part' is missing (one of hour, weekday, "
       "hour_of_week, day, month)"},
      {"features.sex_x_age.features=[sex, aeg]",
       "features.sex_x_age.features: unknown feature 'aeg'; did you mean 'age'? there is: user, "
       "age, hour, month, sex"},
      {"features.sex_x_age.features=[sex, genres]",
       "features.sex_x_age.features: feature 'genres' is not a categorical, bucketized or "
       "calendar one with a single value"},
      {"features.sex_x_age.features=[sex, sex]",
       "features.sex_x_age.features: feature 'sex' is there twice"},
      {"features.sex_x_age.features=[sex]",
       "features.sex_x_age.features: wanted two features or more"},
  };
  for (const auto& [flag, message] : wrong) {
    const std::string error = ErrorOf(kRatings, {flag});
    INFO(flag << "\n" << error);
    CHECK(absl::EndsWith(error, message));
  }
  CHECK(absl::EndsWith(ErrorOf(kRatings, {"split.validation=", "split.test="}),
                       "split.by: give validation, test, validation_from, test_from or "
                       "holdout_last: there is nothing to be last"));
}

TEST_CASE("columns that neither the file nor a joined table has are told before training") {
  const DataFiles files;
  files.Write("ratings.csv", "a\nb\nuserId,movieId,rating,importance,timestamp,day\n");
  files.Write("users.csv", "id,age,sex\n");
  files.Write("movies.csv", "");
  const std::string movies = files.Write("movies.csv", "1::x::y\n");
  const auto check = [&](const Strings& overrides) {
    const auto job = ParseJobFile(files.Write("job.yaml", kRatings), overrides);
    INFO(job.status().message());
    REQUIRE(job.ok());
    CHECK(job->dataset.joins(0).path() == movies);
    return std::string(CheckColumns(*job).message());
  };
  CHECK(check({}) == "");
  CHECK(absl::StrContains(check({"features.sex.column=user_sxe"}),
                          "unknown column 'user_sxe'; did you mean 'user_sex'?"));
  CHECK(absl::StrContains(check({"label.weight=weight"}), "unknown column 'weight'"));
  CHECK(absl::StrContains(check({"split.by=time"}), "unknown column 'time'"));
  CHECK(absl::StrContains(check({"dataset.join.1.right_on=userId"}),
                          "wanted a column \"userId\", found none of that name"));
  CHECK(absl::StrContains(check({"dataset.join.1.left_on=user"}), "unknown column 'user'"));
  CHECK(absl::StrContains(check({"dataset.join.1.path=none.csv"}), "none.csv: cannot open"));
}

TEST_CASE("a column that a header has twice is told as that, not as one that is unknown") {
  const DataFiles files;
  files.Write("ratings.csv", "a\nb\nuserId,movieId,rating,rating,importance,timestamp\n");
  files.Write("users.csv", "id,age,sex\n");
  files.Write("movies.csv", "1::x::y\n");
  const auto job = ParseJobFile(files.Write("job.yaml", kRatings), Strings{});
  REQUIRE(job.ok());
  const std::string message(CheckColumns(*job).message());
  INFO(message);
  CHECK(absl::StrContains(message, "column 'rating' is there 2 times, wanted once ("));
}

constexpr char kFollowed[] = R"(
dataset: {path: clicks, follow: true, follow_end: _OVER, follow_idle: 2.5}
features:
  - {name: user, kind: categorical, id: hash}
  - {name: page, kind: categorical, hash_buckets: 100}
  - {name: age, kind: numeric}
label: {column: clicked}
split: {test_path: held_out.csv}
model: {kind: logistic_regression}
train: {batch_size: 10}
)";

TEST_CASE("a job that follows directories says so, and how they end") {
  const JobSpec job = MustParse(kFollowed);
  CHECK(job.follow.enabled);
  CHECK(job.follow.end == "_OVER");
  CHECK(job.follow.idle_seconds == 2.5);
  CHECK(job.dataset.followed());
  const JobSpec other = MustParse(kRatings);
  CHECK_FALSE(other.follow.enabled);
  CHECK(other.follow.end == "_DONE");
  CHECK_FALSE(other.dataset.followed());
  const absl::Status when =
      ParseJob(kFollowed, "job.yaml", {"train={batch_size: 10, deterministic: true}"}).status();
  INFO(when);
  CHECK(absl::StrContains(when.message(),
                          "dataset.follow: with train.deterministic examples do not depend on when "
                          "files come; wanted false"));
  CHECK_FALSE(absl::StrContains(when.message(), "train.consistency"));
}

TEST_CASE("columns are looked for in the first whole file of a job that follows, if there is one") {
  const DataFiles files;
  std::filesystem::create_directory(files.Path("clicks"));
  JobSpec job = MustParse(kFollowed);
  *job.dataset.mutable_paths(0) = files.Path("clicks");
  CHECK(CheckColumns(job).ok());
  files.Write("clicks/a.csv.tmp", "us");
  CHECK(CheckColumns(job).ok());
  files.Write("clicks/b.csv", "user,page,aeg,clicked\n");
  CHECK(absl::StrContains(CheckColumns(job).message(), "unknown column 'age'"));
  *job.dataset.mutable_paths(0) = files.Path("nowhere");  // who follows it tells
  CHECK(CheckColumns(job).ok());
}

TEST_CASE("what a job that follows directories cannot have is told with its key") {
  const auto error = [](const std::string& from, const std::string& to) {
    return testing::Changed(kFollowed, from, to);
  };
  CHECK(absl::StrContains(error("id: hash", "min_count: 2"),
                          "features.user: with dataset.follow no vocabulary is learned"));
  CHECK(absl::StrContains(error("kind: numeric", "kind: numeric, normalization: standard"),
                          "features.age.normalization: "));
  CHECK(absl::StrContains(error("test_path: held_out.csv", "test: 0.1"), "split.test: "));
  CHECK(absl::StrContains(error("batch_size: 10", "epochs: 3"), "train.epochs: "));
  CHECK(absl::StrContains(error("batch_size: 10", "visitation: per_worker"), "train.visitation"));
  CHECK(absl::StrContains(error("batch_size: 10", "consistency: {mode: sync, replicas: 2}"),
                          "train.consistency: "));
  CHECK(absl::StrContains(error("follow: true", "follow: true, streaming: false"),
                          "dataset.streaming: "));
  CHECK(absl::StrContains(error("_OVER", "a/b"), "dataset.follow_end: "));
  CHECK(absl::StrContains(error("follow: true, ", ""), "dataset.follow_end: only with follow"));
  const std::string decays =
      "train: {batch_size: 10}\noptimizer: {dense: {kind: sgd, schedule: {kind: linear_decay}}}";
  CHECK(absl::StrContains(error("train: {batch_size: 10}", decays), "optimizer.dense.schedule: "));
  CHECK(ErrorOf(kFollowed, {"optimizer.dense={kind: sgd, schedule: {kind: linear_decay}}",
                            "train.steps=7"}) == "");
}

}  // namespace
}  // namespace coxswain::job
