// TensorFlow Serving's JSON: both forms of requests, answers, and what is wrong with requests.
#include "coordinator/serve/json_rows.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/serve/json_questions.h"
#include "tests/testing/cluster.h"

namespace coxswain::serve {
namespace {

using Catch::Matchers::Contains;
using testing::Must;
using Says = SavedModel::Says;
using Texts = std::vector<std::string>;

const std::vector<RawColumn> kColumns = {{"user", RawColumn::Kind::kValue},
                                         {"age", RawColumn::Kind::kNumber},
                                         {"tags", RawColumn::Kind::kValues}};

std::string ErrorOf(const std::string& body, int64_t max_rows = 100) {
  const auto request = ParsePredictRequest(body, kColumns, max_rows);
  REQUIRE_FALSE(request.ok());
  return std::string(request.status().message());
}

TEST_CASE("serve json: an answer that would name too many choices is refused", "[serve]") {
  const auto ask = [](const char* key, int rows, int each, const std::string& row, auto parse) {
    std::string body = absl::StrCat("{\"", key, "\": ", each, ", \"instances\": [", row);
    for (int i = 1; i < rows; ++i) absl::StrAppend(&body, ",", row);
    return parse(body + "]}").status();
  };
  const auto predict = [](const std::string& b) { return ParsePredictRequest(b, kColumns, 10000); };
  const auto recommend = [](const std::string& b) { return ParseRecommendRequest(b, {}, 10000); };
  const auto nearest = [](const std::string& b) { return ParseNearestRequest(b, 10000); };
  const std::string row = R"({"user": "ada", "age": 3, "tags": []})";
  CHECK(ask("top", 500, 1000, row, predict).ok());
  CHECK(ask("top", 501, 1000, row, predict).code() == absl::StatusCode::kOutOfRange);
  CHECK(ask("k", 500, 1000, R"({"user": "a"})", recommend).ok());
  const absl::Status refused = ask("k", 501, 1000, R"({"user": "a"})", recommend);
  CHECK(refused.code() == absl::StatusCode::kOutOfRange);
  CHECK(absl::StrContains(refused.message(), "found 501 rows with k 1000 each"));
  CHECK(ask("k", 5001, 100, "\"a\"", nearest).code() == absl::StatusCode::kOutOfRange);
}

TEST_CASE("serve json: a key that an object has twice is refused, not the last one taken",
          "[serve]") {
  CHECK_THAT(ErrorOf(R"({"instances": [{"user": "ada", "age": 3, "tags": [], "age": 4}]})"),
             Contains("an object with the key \"age\" twice"));
  CHECK_THAT(ErrorOf(R"({"instances": [], "top": 1, "instances": []})"),
             Contains("the key \"instances\" twice"));
  CHECK_THAT(ErrorOf(R"({"instances": [{"user": "a", "us\u0065r": "b"}]})"),
             Contains("the key \"user\" twice"));
  // The same key in several objects, and what only looks like keys.
  CHECK(ParsePredictRequest(R"({"instances": [{"user": "\"age\": 1, \\", "age": 1, "tags": ["a:b"]},
                                              {"user": "age:", "age": 2, "tags": [":"],
                                               "more": {"age": {"age": 1}}}]})",
                            kColumns, 3)
            .ok());
}

TEST_CASE("serve json: an object of very many keys takes no longer than as many values",
          "[serve]") {
  // Looking at all other keys for each takes minutes.
  std::string body = R"({"instances": [{"user": "ada", "age": 3, "tags": [], "more": {"k": 0)";
  for (int i = 0; i < 300'000; ++i) absl::StrAppend(&body, ",\"k", i, "\":0");
  CHECK(ParsePredictRequest(body + "}}]}", kColumns, 1).ok());
  CHECK_THAT(ErrorOf(body + R"(, "k7": 1}}]})"), Contains("the key \"k7\" twice"));
}

TEST_CASE("serve json: a number that is too large to be the text of a category is refused",
          "[serve]") {
  const auto body = [](const std::string& user, const std::string& age) {
    return absl::StrCat(R"({"instances": [{"user": )", user, R"(, "age": )", age,
                        R"(, "tags": []}]})");
  };
  CHECK_THAT(ErrorOf(body("184467440737095516170", "1")),
             Contains("column \"user\": wanted a text or a number that 64 bits hold"));
  for (const char* user : {"18446744073709551615", "-9223372036854775808", "0.5"}) {
    const auto request = Must(ParsePredictRequest(body(user, "1e30"), kColumns, 1));
    CHECK(std::get<std::string>(request.rows.rows[0][0]) == user);
    CHECK(std::get<std::string>(request.rows.rows[0][1]) == "1e+30");
  }
}

TEST_CASE("serve json: instances and inputs say the same rows", "[serve]") {
  const PredictRequest rows = Must(ParsePredictRequest(
      R"({"signature_name": "serving_default", "instances": [
          {"user": "ada", "age": 36, "tags": ["x", 7], "more": {}},
          {"age": 2.5, "user": 17, "tags": []},
          {"user": ["bob"], "age": null, "tags": "y"}]})",
      kColumns, 3));
  const PredictRequest columns = Must(ParsePredictRequest(
      R"({"inputs": {"tags": [["x", 7], [], "y"], "age": [36, 2.5, null],
                     "user": ["ada", 17, "bob"]}, "top": 3})",
      kColumns, 3));
  CHECK_FALSE(rows.columnar);
  CHECK(columns.columnar);
  CHECK(columns.top == 3);
  CHECK(rows.rows.columns == Texts{"user", "age", "tags"});
  REQUIRE(rows.rows.rows.size() == 3);
  CHECK(rows.rows.rows == columns.rows.rows);
  CHECK(std::get<std::string>(rows.rows.rows[0][1]) == "36");
  CHECK(std::get<std::string>(rows.rows.rows[1][0]) == "17");
  CHECK(std::get<std::string>(rows.rows.rows[1][1]) == "2.5");
  CHECK(std::get<Texts>(rows.rows.rows[0][2]) == Texts{"x", "7"});
  CHECK(std::holds_alternative<std::monostate>(rows.rows.rows[2][1]));
}

TEST_CASE("serve json: an instance of a model of JSON lines is read as such a line", "[serve]") {
  std::vector<RawColumn> columns = {{"device.os", RawColumn::Kind::kValue},
                                    {"age", RawColumn::Kind::kNumber},
                                    {"tags", RawColumn::Kind::kValues}};
  const std::string body =
      R"({"instances": [{"device": {"os": "x"}, "age": 1, "tags": ["a", null, "b|c"]},
                        {"device.os": "y", "device": {"os": "x"}, "age": 2, "tags": null},
                        {"device": {"id": 3}, "age": 4}]})";
  CHECK_THAT(std::string(ParsePredictRequest(body, columns, 9).status().message()),
             Contains("instances[2] lacks the column \"device.os\""));
  for (RawColumn& column : columns) column.optional = true;
  const PredictRequest request = Must(ParsePredictRequest(body, columns, 9));
  const auto& rows = request.rows.rows;
  REQUIRE(rows.size() == 3);
  CHECK(std::get<std::string>(rows[0][0]) == "x");
  CHECK(std::get<Texts>(rows[0][2]) == Texts{"a", "", "b|c"});
  CHECK(std::get<std::string>(rows[1][0]) == "y");
  CHECK(std::holds_alternative<std::monostate>(rows[2][0]));
  CHECK(std::holds_alternative<std::monostate>(rows[2][2]));
  // None of the names is the model's: a mistake, and no row of nothing.
  CHECK_THAT(
      std::string(
          ParsePredictRequest(R"({"instances": [{"aeg": 4}]})", columns, 9).status().message()),
      Contains("instances[0] has none of the model's columns"));
}

TEST_CASE("serve json: true and false are what training files have of them", "[serve]") {
  const PredictRequest request = Must(ParsePredictRequest(
      R"({"instances": [{"user": true, "age": true, "tags": [false, "x"]}]})", kColumns, 5));
  const auto& row = request.rows.rows.at(0);
  CHECK(std::get<std::string>(row[0]) == "true");
  CHECK(std::get<std::string>(row[1]) == "1");
  CHECK(std::get<Texts>(row[2]) == Texts{"false", "x"});
}

TEST_CASE("serve json: of one column an instance may be its value", "[serve]") {
  const std::vector<RawColumn> one = {{"x", RawColumn::Kind::kNumber}};
  for (const char* body : {R"({"instances": [1, [2]]})", R"({"inputs": [1, 2]})",
                           R"({"inputs": {"x": [[1], [2]]}})"}) {
    const PredictRequest request = Must(ParsePredictRequest(body, one, 5));
    REQUIRE(request.rows.rows.size() == 2);
    CHECK(std::get<std::string>(request.rows.rows[1][0]) == "2");
  }
}

TEST_CASE("serve json: what is wrong is told with its place", "[serve]") {
  CHECK_THAT(ErrorOf("{"), Contains("no JSON object: parse error at line 1, column 2"));
  CHECK_THAT(ErrorOf("{\"instances\":\n [1, x]}"), Contains("at line 2, column 6"));
  CHECK_THAT(ErrorOf(""), Contains("no JSON object: parse error"));
  CHECK_THAT(ErrorOf("[]"), Contains("no JSON object"));
  CHECK_THAT(ErrorOf("{}"), Contains("\"instances\" and \"inputs\", found none"));
  CHECK_THAT(ErrorOf(R"({"instances": [], "inputs": {}})"), Contains("found both"));
  CHECK_THAT(ErrorOf(R"({"instances": {}})"), Contains("wanted a list"));
  CHECK_THAT(ErrorOf(R"({"instances": [3]})"), Contains("instances[0]"));
  CHECK_THAT(ErrorOf(R"({"instances": [{"user": "a", "age": 1}]})"),
             Contains("instances[0] lacks the column \"tags\""));
  CHECK_THAT(ErrorOf(R"({"instances": [{"user": {}, "age": 1, "tags": ""}]})"),
             Contains("instances[0], column \"user\"") && Contains("a text or a number"));
  CHECK_THAT(ErrorOf(R"({"inputs": {"user": ["a"], "age": [1, 2], "tags": [""]}})"),
             Contains("\"user\" has 1 rows, column \"age\" has 2"));
  CHECK_THAT(ErrorOf(R"({"inputs": {"user": "a", "age": [1], "tags": [""]}})"),
             Contains("column \"user\": wanted a list"));
  CHECK_THAT(ErrorOf(R"({"instances": [], "top": 0})"), Contains("top: wanted 1 to 1000"));
  CHECK_THAT(ErrorOf(R"({"instances": [], "Top": 5})"),
             Contains("there is no key \"Top\"") && Contains("top"));
  CHECK_THAT(ErrorOf(R"({"instances": [], "signature_name": "other"})"),
             Contains("signature_name"));
  CHECK_THAT(ErrorOf(R"({"instances": [1, 2, 3]})", 2), Contains("at most 2 rows"));
  CHECK_THAT(ErrorOf(absl::StrCat(R"({"instances": )", std::string(100'000, '['))),
             Contains("no JSON object: wanted lists and objects at most"));
}

TEST_CASE("serve json: answers are by row or by column", "[serve]") {
  Prediction chance;
  chance.score = 0.5f;
  chance.value = 0.625f;
  CHECK(PredictResponse({chance, chance}, Says::kNumber, false) ==
        R"({"predictions":[0.625,0.625]})");
  CHECK(PredictResponse({chance}, Says::kNumber, true) == R"({"outputs":[0.625]})");
  CHECK(PredictResponse({chance}, Says::kProbability, false) ==
        R"({"predictions":[{"score":0.5,"probability":0.625}]})");
  CHECK(PredictResponse({chance}, Says::kProbability, true) ==
        R"({"outputs":{"score":[0.5],"probability":[0.625]}})");
  Prediction classes;
  classes.choices = {{"a\"b", 2, 0.75}, {"c", 1, 0.25}};
  CHECK(PredictResponse({classes}, Says::kClasses, false) ==
        R"({"predictions":[{"classes":["a\"b","c"],"scores":[2.0,1.0],)"
        R"("probabilities":[0.75,0.25]}]})");
  Prediction tasks;
  tasks.choices = {{"click", -1, 0.25f}, {"stars", 4, 4}};
  CHECK(PredictResponse({tasks}, Says::kTasks, false) ==
        R"({"predictions":[{"tasks":["click","stars"],"scores":[-1.0,4.0],)"
        R"("predictions":[0.25,4.0]}]})");
  CHECK(PredictResponse({}, Says::kItems, true) == R"({"outputs":{"items":[],"scores":[]}})");
  CHECK(ErrorBody("a \"b\"") == R"({"error":"a \"b\""})");
}

}  // namespace
}  // namespace coxswain::serve
