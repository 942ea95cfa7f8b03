#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/util/message_differencer.h"
#include "nlohmann/json.hpp"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/message_json.h"
#include "tests/testing/checkpoints.h"

namespace coxswain::checkpoint {
namespace {

constexpr char kPath[] = "dir/checkpoint-000007/manifest.json";

absl::Status Parse(absl::string_view text) { return ParseManifest(text, kPath).status(); }

bool SameBytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
}

// The text of `json` as a manifest with a checksum that is right.
std::string Sealed(Json json) {
  json.erase("crc32");
  std::string text = json.dump(2);
  text.resize(text.size() - 2);
  const uint32_t crc = Crc32(0, text.data(), text.size());
  return absl::StrCat(text, ",\n  \"crc32\": ", crc, "\n}\n");
}

TEST_CASE("a closure of a synchronous step comes back from a manifest with its step",
          "[checkpoint]") {
  Manifest wanted = SampleManifest(7);
  // Of others nothing is said.
  CHECK_FALSE(nlohmann::json::parse(ToJson(wanted))["closures"][0].contains("step"));
  wanted.closures[0].sync = {.first = 40, .count = 2, .after = 0, .mean = true};
  const auto found = ParseManifest(ToJson(wanted), kPath);
  REQUIRE(found.ok());
  CHECK(found->closures[0].sync.first == 40);
  CHECK(found->closures[0].sync.count == 2);
  CHECK(found->closures[0].sync.mean);
  CHECK_FALSE(found->closures[1].sync);
  CHECK_FALSE(found->closures[0].sync.free);
  const ClosureId id = wanted.closures[0].id;
  wanted.closures[0].sync = {.first = id, .count = 2, .backup = 3};
  wanted.closures[1].sync = {.first = wanted.closures[1].id, .count = 2, .free = true};
  const auto others = ParseManifest(ToJson(wanted), kPath);
  REQUIRE(others.ok());
  CHECK(others->closures[0].sync.backup == 3);
  CHECK(others->closures[1].sync.free);
  CHECK_FALSE(others->closures[1].sync.each);
  CHECK_FALSE(others->closures[1].sync.mean);
  Manifest each = wanted;
  each.closures[1].sync = {.first = wanted.closures[1].id, .count = 2, .each = true};
  const auto singles = ParseManifest(ToJson(each), kPath);
  REQUIRE(singles.ok());
  CHECK(singles->closures[1].sync.each);
  CHECK_FALSE(singles->closures[1].sync.free);
  // One that is free and has backups is no step.
  nlohmann::json broken = nlohmann::json::parse(ToJson(wanted));
  broken["closures"][0]["step"]["free"] = true;
  CHECK_FALSE(ParseManifest(broken.dump(), kPath).ok());
  broken["closures"][0]["step"]["free"] = 1;
  CHECK_FALSE(ParseManifest(broken.dump(), kPath).ok());
}

TEST_CASE("a manifest comes back from its text as it was", "[checkpoint]") {
  const Manifest wanted = SampleManifest(7);
  const std::string text = ToJson(wanted);
  CAPTURE(text);
  const auto found = ParseManifest(text, kPath);
  INFO(found.status().ToString());
  REQUIRE(found.ok());
  CHECK(found->number == 7);
  CHECK(found->job == wanted.job);
  CHECK(found->epoch == wanted.epoch);
  CHECK(found->written == wanted.written);
  CHECK(found->low_water == 40);
  CHECK(found->next_closure == 45);
  CHECK(found->steps == 12345);
  CHECK(found->job_state == wanted.job_state);
  CHECK(found->bytes() == 210 + 220 + 230);
  REQUIRE(found->shards.size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(google::protobuf::util::MessageDifferencer::Equals(found->shards[i], wanted.shards[i]));
    CHECK(found->shards[i].SerializeAsString() == wanted.shards[i].SerializeAsString());
  }
  REQUIRE(found->closures.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    const CheckpointClosure &a = found->closures[i], &b = wanted.closures[i];
    CHECK(a.id == b.id);
    CHECK(a.function == b.function);
    CHECK(a.has_ticket == b.has_ticket);
    CHECK(a.ticket == b.ticket);
    CHECK(a.steps == b.steps);
    CHECK(a.seed == b.seed);
    CHECK(a.after == b.after);
    CHECK(a.sync.first == b.sync.first);
    CHECK(a.sync.count == b.sync.count);
    CHECK(a.sync.mean == b.sync.mean);
    REQUIRE(a.arguments.size() == b.arguments.size());
    for (size_t k = 0; k < a.arguments.size(); ++k) {
      INFO(k);
      CHECK(SameBytes(a.arguments[k], b.arguments[k]));
    }
  }
  CHECK(ToJson(*found) == text);
}

TEST_CASE("a manifest of an older program has no place in the data, a wrong one is told",
          "[checkpoint]") {
  Json json = ParseJson(ToJson(SampleManifest(7)));
  REQUIRE(json.contains("data"));
  json.erase("data");
  const auto older = ParseManifest(Sealed(json), kPath);
  INFO(older.status().ToString());
  REQUIRE(older.ok());
  CHECK(older->data.empty());
  const auto with = [&](const Json& data) {
    json["data"] = data;
    return std::string(Parse(Sealed(json)).message());
  };
  const Json good = {{"dataset", 1},
                     {"fingerprint", 5},
                     {"first_epoch", 1},
                     {"scheduled", Json::array({Json::array({1, 0, 5})})}};
  CHECK(with(Json::array({good})) == "");
  CHECK(absl::StrContains(with(Json::array({good, good})), "data[1]: data set 1 comes after 1"));
  Json bad = good;
  bad["scheduled"] = Json::array({Json::array({0, 0, 5})});
  CHECK(absl::StrContains(with(Json::array({bad})),
                          "data[0]: scheduled: wanted ranges from epoch 1"));
  bad["scheduled"] = Json::array({Json::array({1, 5})});
  CHECK(absl::StrContains(with(Json::array({bad})), "scheduled[0]: wanted [epoch, begin, end]"));
  bad.erase("scheduled");
  CHECK(absl::StrContains(with(Json::array({bad})), "'scheduled' is missing"));
}

TEST_CASE("a manifest says which older checkpoints it does not go on from", "[checkpoint]") {
  Manifest m = SampleManifest(20);
  CHECK_FALSE(ParseJson(ToJson(m)).contains("abandoned"));
  m.abandoned.Add(5, 4);
  CHECK(m.abandoned.ranges().empty());
  m.abandoned.Add(12, 14);
  m.abandoned.Add(5, 5);
  m.abandoned.Add(6, 6);
  m.abandoned.Add(14, 15);
  const auto found = ParseManifest(ToJson(m), kPath);
  REQUIRE(found.ok());
  REQUIRE(found->abandoned.ranges().size() == 2);
  for (uint64_t number = 0; number < 20; ++number) {
    INFO(number);
    const bool gone = number == 5 || number == 6 || (number >= 12 && number <= 15);
    CHECK(m.abandoned.Has(number) == gone);
    CHECK(found->abandoned.Has(number) == gone);
  }
  Json json = ParseJson(ToJson(m));
  for (const Json& bad : {Json(7), Json::array({3}), Json::array({3, 2}), Json::array({0, 2})}) {
    json["abandoned"] = Json::array({Json::array({1, 1}), bad});
    CHECK(absl::StrContains(std::string(Parse(Sealed(json)).message()),
                            "abandoned[1]: wanted [first, last]"));
  }
  // However often that happens, none of them is forgotten.
  for (uint64_t number = 100; number < 10000; number += 2) m.abandoned.Add(number, number);
  CHECK(m.abandoned.ranges().size() == 1000);
  for (uint64_t number = 100; number < 10000; number += 2) {
    if (!m.abandoned.Has(number)) FAIL(number);
  }
  CHECK_FALSE(m.abandoned.Has(9999));
}

TEST_CASE("a manifest of nothing comes back, and any job state does", "[checkpoint]") {
  Manifest m;
  const auto empty = ParseManifest(ToJson(m), kPath);
  REQUIRE(empty.ok());
  CHECK(empty->job_state == "{}");
  CHECK(empty->shards.empty());
  m.job_state = "{ \"z\": [1, 2.5,\n true], \"a\": {} }";  // keys stay in order
  CHECK(ParseManifest(ToJson(m), kPath)->job_state == R"({"z":[1,2.5,true],"a":{}})");
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  for (const std::string& text :
       {std::string("no JSON"), std::string("[1]"), deep, absl::StrCat("{\"a\":", deep, "}")}) {
    m.job_state = text;
    const auto found = ParseManifest(ToJson(m), kPath);
    REQUIRE(found.ok());
    CHECK(found->job_state == text);
  }
  // Text that is not UTF-8 has no place in JSON; it must not end the process.
  m.job = "\xff\xfe";
  CHECK(ParseManifest(ToJson(m), kPath).ok());
}

TEST_CASE("a manifest can be read by people and by other programs", "[checkpoint]") {
  const auto json = nlohmann::json::parse(ToJson(SampleManifest(7)));
  CHECK(json["format"] == "coxswain-checkpoint");
  CHECK(json["version"] == 1);
  CHECK(json["number"] == 7);
  CHECK(json["written"] == "2026-01-01T00:00:00.123456789+00:00");
  CHECK(json["shards"][1]["shard"]["variable"]["name"] == "users");
  CHECK(json["shards"][1]["shard"]["index"] == 1);
  CHECK(json["shards"][0]["ledger"] == "40 41:0/1,1/1 43:0/1");
  CHECK(json["closures"][0]["ticket"]["begin"] == (int64_t{1} << 53) + 1);
  CHECK_FALSE(json["closures"][1].contains("ticket"));
  CHECK(json["closures"][1]["arguments"][3]["dtype"] == "bool");
  CHECK(json["closures"][1]["arguments"][3]["base64"] == "AQAB");
  CHECK(json["job_state"]["best"]["hit_rate@10"] == 0.1);
}

TEST_CASE("messages keep numbers that JSON has not", "[checkpoint]") {
  proto::InitializerSpec spec;
  spec.set_value(std::numeric_limits<double>::infinity());
  spec.set_low(-std::numeric_limits<double>::infinity());
  spec.set_high(std::numeric_limits<double>::quiet_NaN());
  spec.set_mean(std::numeric_limits<double>::denorm_min());
  spec.set_stddev(-0.0);
  proto::InitializerSpec back;
  const Json json = Json::parse(MessageToJson(spec).dump());
  REQUIRE(MessageFromJson(json, &back).ok());
  CHECK(back.SerializeAsString() == spec.SerializeAsString());
  CHECK_FALSE(MessageFromJson(Json{{"value", "big"}}, &back).ok());
  // An optional message that is not there stays so; bytes of any kind come back.
  proto::AttrProto attr;
  attr.mutable_tensor()->set_content(std::string("\0\xff\x80 ", 4));
  proto::AttrProto attr_back;
  REQUIRE(MessageFromJson(Json::parse(MessageToJson(attr).dump()), &attr_back).ok());
  CHECK(attr_back.SerializeAsString() == attr.SerializeAsString());
  CHECK_FALSE(attr_back.tensor().has_shape());
}

TEST_CASE("a manifest that is cut off anywhere is DataLoss naming it", "[checkpoint]") {
  const std::string text = ToJson(SampleManifest(7));
  for (size_t size = 0; size < text.size(); ++size) {
    const absl::Status s = Parse(absl::string_view(text).substr(0, size));
    if (s.code() == absl::StatusCode::kDataLoss && absl::StrContains(s.message(), kPath)) continue;
    FAIL(size << " of " << text.size() << " bytes: " << s);
  }
  CHECK(Parse(text).ok());
  CHECK_FALSE(Parse(text + "\n").ok());
}

TEST_CASE("a manifest with any byte altered is DataLoss naming it", "[checkpoint]") {
  const std::string text = ToJson(SampleManifest(7));
  for (size_t i = 0; i < text.size(); ++i) {
    std::string bad = text;
    // A digit becomes another digit, and so on for what JSON would take as well as for what not.
    bad[i] = static_cast<char>(bad[i] ^ (i % 2 == 0 ? 1 : 1 << (i % 8)));
    const absl::Status s = Parse(bad);
    if (s.code() == absl::StatusCode::kDataLoss && absl::StrContains(s.message(), kPath)) continue;
    FAIL("byte " << i << ", near " << bad.substr(i < 20 ? 0 : i - 20, 40) << ": " << s);
  }
}

TEST_CASE("what is no manifest, or one of another version, is told as such", "[checkpoint]") {
  const auto said = [](absl::string_view text) { return std::string(Parse(text).message()); };
  using Catch::Matchers::Contains;
  CHECK_THAT(said(""), Contains("not JSON"));
  CHECK_THAT(said("hello"), Contains("not JSON"));
  CHECK_THAT(said(std::string(100000, '[')), Contains("not JSON"));
  CHECK_THAT(said("{}"), Contains("format"));
  CHECK_THAT(said("[]"), Contains("format"));
  CHECK_THAT(said(R"({"format": 7})"), Contains("format"));
  CHECK_THAT(said(R"({"format": "coxswain-model", "version": 1})"), Contains("format"));
  Json json = Json::parse(ToJson(SampleManifest(7)));
  CHECK(Parse(Sealed(json)).ok());
  json["version"] = 2;
  CHECK_THAT(said(Sealed(json)), Contains("wanted version 1") && Contains("found 2"));
  json.erase("version");
  CHECK_THAT(said(Sealed(json)), Contains("found none"));
}

// The checksum is right in all of these: whoever wrote them did so on purpose or by a bug.
TEST_CASE("a manifest whose content makes no sense is DataLoss that says what", "[checkpoint]") {
  struct Case {
    const char* pointer;
    Json value;
    const char* said;
  };
  const std::vector<Case> cases = {
      {"/number", -1, "number"},
      {"/number", 1.0, "number"},
      {"/number", "7", "number"},
      {"/job", 7, "job: wanted text"},
      {"/epoch", 1e30, "epoch"},
      {"/written", "yesterday", "written: wanted a time"},
      {"/written", 7, "written"},
      {"/low_water", 0, "low_water"},
      {"/low_water", 42, "closure 41"},
      {"/next_closure", 39, "next_closure"},
      {"/next_closure", 44, "closure 44"},
      {"/next_closure", uint64_t{1} << 63, "next_closure: wanted at most"},
      {"/steps", -5, "steps"},
      {"/position", -5, "position"},
      {"/steps", std::numeric_limits<uint64_t>::max(), "steps"},
      {"/shards", Json::object(), "shards: wanted a list"},
      {"/shards/1", 7, "shards[1]: wanted an object"},
      {"/shards/0/size", 7, "unknown key \"size\""},
      {"/shards/0/bytes", -1, "bytes"},
      {"/shards/0/bytes", std::numeric_limits<uint64_t>::max(), "bytes"},
      {"/shards/0/crc32", uint64_t{1} << 32, "crc32"},
      {"/shards/0/ledger", Json::array(), "ledger"},
      {"/shards/0/applied", -1, "gradient_steps"},
      {"/shards/0/gradient_steps", 121, "gradient_steps"},
      {"/shards/0/file", "", "shard 1"},
      {"/shards/0/file", "..", "shard 1"},
      {"/shards/0/file", "../../secret", "shard 1"},
      {"/shards/0/file", "/etc/passwd", "shard 1"},
      {"/shards/0/file", "shard-00002.safetensors", "is there twice"},
      {"/shards/0/shard/id", 0, "wanted an id from 1"},
      {"/shards/0/shard/id", 2, "shard 2 is there twice"},
      {"/shards/0/shard/rows", -1, "rows"},
      {"/shards/0/shard/index", 2, "index 2 of 2"},
      {"/shards/0/shard/index", 1, "is there twice"},
      {"/shards/0/shard/count", 3, "wanted 3 shards, found 2"},
      {"/shards/0/shard/variable/name", "", "no name"},
      {"/shards/0/shard/variable/dtype", 0, "unknown dtype 0"},
      {"/shards/0/shard/variable/dtype", 99, "unknown dtype 99"},
      {"/shards/0/shard/variable/table", 1, "table: wanted true or false"},
      {"/shards/0/shard/variable/shape/dims/0", -7, "dimension of -7"},
      {"/shards/0/shard/variable/shape/dims/0", "7", "dims"},
      {"/shards/0/shard/variable/optimizer/learning_rate", Json::array(), "learning_rate"},
      {"/shards/0/deltas/0", {{"file", "../secret"}}, "a file of the checkpoint's directory"},
      {"/shards/0/deltas/0", {{"file", "shard-00002.safetensors"}}, "is there twice"},
      {"/shards/0/deltas/0", {{"file", "delta"}, {"rows", -1}}, "'delta' has -1 rows"},
      {"/shards/0/deltas/0",
       {{"file", "delta"}, {"bytes", std::numeric_limits<int64_t>::max()}},
       "more bytes than a file system holds"},
      {"/closures", nullptr, "closures: wanted a list"},
      {"/closures/0", Json::array(), "closures[0]: wanted an object"},
      {"/closures/0/id", 44, "44 comes after 44"},
      {"/closures/1/id", 41, "41 comes after 41"},
      {"/closures/1/id", 45, "closure 45"},
      {"/closures/0/id", 0, "closures[0]: id"},
      {"/closures/0/id", 39, "closure 39"},
      {"/closures/0/steps", 0, "steps"},
      {"/closures/0/after", 42, "itself among them"},
      {"/closures/0/step", 7, "step: wanted an object"},
      {"/closures/0/step",
       {{"first", 42}, {"count", 2}, {"mean", true}},
       "is not one of 2 from 42"},
      {"/closures/0/step",
       {{"first", 41}, {"count", 0}, {"mean", true}},
       "is not one of 0 from 41"},
      {"/closures/0/step",
       {{"first", 41}, {"count", 1}, {"mean", 1}},
       "mean: wanted true or false"},
      {"/closures/0/seed", -1, "seed"},
      {"/closures/0/ticket", 7, "ticket"},
      {"/closures/0/ticket/part", 9, "part 0 to 2"},
      {"/closures/0/ticket/begin", -1, "ticket"},
      {"/closures/0/ticket/end", 0, "ticket"},
      {"/closures/1/arguments", Json::object(), "arguments"},
      {"/closures/1/arguments/0/dtype", "f99", "f99"},
      {"/closures/1/arguments/0/dtype", "f64", "wanted 32 bytes, found 16"},
      {"/closures/1/arguments/0/shape/0", -2, "shape[0]"},
      {"/closures/1/arguments/0/shape/0", int64_t{1} << 62, "at most 2^40 elements"},
      {"/closures/1/arguments/0/base64", "!", "not base64"},
      {"/closures/1/arguments/0/base64", "AAAA", "wanted 16 bytes, found 3"},
      {"/closures/1/arguments/3/base64", "AQAC", "neither 0 nor 1"},
  };
  const Json good = Json::parse(ToJson(SampleManifest(7)));
  REQUIRE(Parse(Sealed(good)).ok());
  for (const Case& c : cases) {
    Json bad = good;
    bad[Json::json_pointer(c.pointer)] = c.value;
    const absl::Status s = Parse(Sealed(bad));
    CAPTURE(c.pointer, c.value.dump(), s.ToString());
    CHECK(s.code() == absl::StatusCode::kDataLoss);
    CHECK(absl::StrContains(s.message(), kPath));
    CHECK(absl::StrContains(s.message(), c.said));
  }
}

TEST_CASE("a manifest without one of its keys is DataLoss that names the key", "[checkpoint]") {
  const Json good = Json::parse(ToJson(SampleManifest(7)));
  int keys = 0;
  for (const auto& [key, value] : good.items()) {
    if (key == "crc32" || key == "format" || key == "version") continue;
    if (key == "data" || key == "position") continue;  // older ones have none
    Json bad = good;
    bad.erase(key);
    const absl::Status s = Parse(Sealed(bad));
    CAPTURE(key, s.ToString());
    CHECK(s.code() == absl::StatusCode::kDataLoss);
    CHECK(absl::StrContains(s.message(), absl::StrCat("'", key, "' is missing")));
    ++keys;
  }
  CHECK(keys == 10);
}

TEST_CASE("no altered manifest crashes the parser, whatever its checksum says", "[checkpoint]") {
  std::string body = ToJson(SampleManifest(7));
  body.resize(body.rfind(",\n  \"crc32\""));
  std::mt19937_64 random(5);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string bad = body;
    for (int k = 0; k < 2; ++k) {
      constexpr char kBytes[] = "0123456789-.eE{}[]\",: tfn\\\xff";
      bad[random() % bad.size()] = kBytes[random() % (sizeof(kBytes) - 1)];
    }
    const uint32_t crc = Crc32(0, bad.data(), bad.size());
    const absl::Status s = Parse(absl::StrCat(bad, ",\n  \"crc32\": ", crc, "\n}\n"));
    refused += !s.ok();
    if (!s.ok() && s.code() != absl::StatusCode::kDataLoss) FAIL(s);
  }
  CHECK(refused > 500);
}

TEST_CASE("a checksum can be taken in pieces and is the one that other programs know",
          "[checkpoint]") {
  CHECK(Crc32(0, "123456789", 9) == 0xcbf43926u);
  CHECK(Crc32(Crc32(0, "1234", 4), "56789", 5) == 0xcbf43926u);
  CHECK(Crc32(Crc32(0, "123456789", 9), nullptr, 0) == 0xcbf43926u);
}

TEST_CASE("a checkpoint is of the steps that all shards have, whenever it was written",
          "[checkpoint]") {
  Manifest manifest;
  manifest.steps = 50330;
  CHECK(manifest.steps_done() == 50330);
  for (const uint32_t steps : {1u, 4u}) {
    CheckpointClosure pending;
    pending.steps = steps;
    manifest.closures.push_back(pending);
  }
  CHECK(manifest.steps_done() == 50325);
  manifest.steps = 3;  // of no such job
  CHECK(manifest.steps_done() == 0);
}

}  // namespace
}  // namespace coxswain::checkpoint
