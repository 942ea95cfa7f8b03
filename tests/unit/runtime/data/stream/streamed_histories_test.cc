// Histories, and what is known of users in evaluations, in data that is streamed: as in memory.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/hash.h"
#include "runtime/data/stream/index_builder.h"
#include "tests/testing/same_when_streamed.h"
#include "tests/testing/tiny_disk.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using proto::FeatureSpec;
namespace fs = std::filesystem;

std::string Csv(int from, int to, int users = 17) {
  std::string csv = "user,item,t,y\n";
  for (int i = from; i < to; ++i) {
    const uint64_t h = Mix64(static_cast<uint64_t>(i));
    const uint64_t user = h % 5 == 0 ? static_cast<uint64_t>(i) : h / 7 % users;
    absl::StrAppend(&csv, "u", user, ",i", h % 30, ",", h / 31 % 40, ",", h % 2, "\n");
  }
  return csv;
}

FeatureSpec* AddHistory(proto::DatasetSpec* spec, const std::string& by, int64_t most) {
  FeatureSpec* const history = spec->add_features();
  history->set_name("seen");
  history->set_history_of("item");
  history->set_group_by("user");
  history->set_by(by);
  history->set_max_values(most);
  return history;
}

proto::DatasetSpec Spec(const std::string& path) {
  auto spec = CsvSpec(path);
  AddCategorical(&spec, "item")->set_oov_buckets(1);
  spec.mutable_label()->set_column("y");
  spec.mutable_split()->set_validation_fraction(0.1);
  spec.mutable_split()->set_test_fraction(0.2);
  return spec;
}

void Know(proto::DatasetSpec* spec, bool held_out) {
  spec->mutable_known_items()->set_item("item");
  spec->mutable_known_items()->set_group_by("user");
  spec->mutable_known_items()->set_held_out(held_out);
}

void HoldOutLast(proto::DatasetSpec* spec) {
  spec->mutable_split()->clear_test_fraction();
  spec->mutable_split()->set_holdout_per("user");
  spec->mutable_split()->set_holdout_last(true);
  spec->mutable_split()->set_by("t");
}

using Visited = std::vector<std::pair<std::string, std::vector<int64_t>>>;

Visited GroupsOf(const Dataset& data, bool in_order) {
  Visited groups;
  const absl::Status status = data.VisitGroups(in_order, [&](const std::string& name, auto values) {
    groups.emplace_back(name, std::vector<int64_t>(values.begin(), values.end()));
    return absl::OkStatus();
  });
  INFO(status.ToString());
  REQUIRE(status.ok());
  return groups;
}

// As CheckSameWhenStreamed, and the groups, which a saved model keeps.
void CheckSameHistories(const DataFiles& files, const proto::DatasetSpec& spec,
                        bool sampled = false) {
  CheckSameWhenStreamed(files, spec, sampled);
  const auto whole = MustLoad(spec), streamed = MustLoad(Streamed(files, spec, 40, 2));
  CHECK(streamed->CountGroups().value() == whole->CountGroups().value());
  for (const bool in_order : {false, true}) {
    const Visited wanted = GroupsOf(*whole, in_order);
    CHECK(GroupsOf(*streamed, in_order) == wanted);
    for (const auto& [name, values] : wanted) {
      CHECK(streamed->HistoryOf(name, in_order).value() == values);
    }
  }
  CHECK_FALSE(streamed->HistoryOf("nobody", false).value().has_value());
}

TEST_CASE("streamed histories: those of positive rows are the ones in memory") {
  const DataFiles files;
  auto spec = Spec(files.Write("a.csv", Csv(0, 200)));
  const std::string by = GENERATE("", "t");
  CAPTURE(by);
  AddHistory(&spec, by, 6)->set_only_positive(true);
  SECTION("as an input") {}
  SECTION("and in evaluations") { Know(&spec, GENERATE(false, true)); }
  CheckSameHistories(files, spec, /*sampled=*/by.empty());
  // There are some, and fewer than of all rows.
  const auto values = [&] {
    const auto data = MustLoad(Streamed(files, spec, 300, 2));
    return Values<int64_t>(*data, AllOf(*data, Part::kTraining), "seen.values").size();
  };
  spec.mutable_features(1)->set_max_values(0);
  const size_t positive = values();
  spec.mutable_features(1)->set_only_positive(false);
  CHECK(positive > 0);
  CHECK(positive < values());
}

TEST_CASE("histories, streamed: all other values of a group, or a sample of them") {
  const DataFiles files;
  auto spec = Spec(files.Write("a.csv", Csv(0, 130)));
  bool sampled = true;
  SECTION("all") {
    AddHistory(&spec, "", 0);
    sampled = false;
  }
  SECTION("a sample") { AddHistory(&spec, "", 3); }
  SECTION("a sample, behind the feature that it is of") {
    AddHistory(&spec, "", 2);
    spec.mutable_features()->SwapElements(0, 1);
  }
  SECTION("with hash buckets") {
    spec.mutable_features(0)->clear_oov_buckets();
    spec.mutable_features(0)->set_hash_buckets(20);
    AddHistory(&spec, "", 4);
  }
  SECTION("of ids that need 8 bytes") {
    spec.mutable_features(0)->clear_oov_buckets();
    spec.mutable_features(0)->set_hash_buckets(int64_t{1} << 40);
    AddHistory(&spec, "", 4);
  }
  CheckSameHistories(files, spec, sampled);
}

TEST_CASE("histories, streamed: only what came before, whatever is held out") {
  const DataFiles files;
  auto spec = Spec(files.Write("a.csv", Csv(0, 130)));
  SECTION("all of it, drawn parts") { AddHistory(&spec, "t", 0); }
  SECTION("the last ones, parts by time") {
    AddHistory(&spec, "t", 3);
    spec.mutable_split()->set_by("t");
  }
  SECTION("the last ones, the last row of each held out") {
    AddHistory(&spec, "t", 3);
    HoldOutLast(&spec);
  }
  SECTION("the order is another than that of the split") {
    AddHistory(&spec, "y", 3);
    HoldOutLast(&spec);
  }
  CheckSameHistories(files, spec);
}

TEST_CASE("histories, streamed: what is known of users in evaluations") {
  const DataFiles files;
  auto spec = Spec(files.Write("a.csv", Csv(0, 130)));
  SECTION("in training") { Know(&spec, false); }
  SECTION("in all parts") { Know(&spec, true); }
  SECTION("beside a history of another order") {
    AddHistory(&spec, "t", 3);
    Know(&spec, true);
  }
  SECTION("where the last row of each is held out") {
    HoldOutLast(&spec);
    Know(&spec, true);
  }
  CheckSameWhenStreamed(files, spec);
}

TEST_CASE("histories, streamed: several files, test files, joined columns, crossed features") {
  const DataFiles files;
  auto spec = Spec(files.Write("a.csv", Csv(0, 60)));
  spec.add_paths(files.WriteGzip("b.csv.gz", Csv(60, 110)));
  spec.add_paths(files.Write("c.csv", "user,item,t,y\n"));
  SECTION("test files, with users that training never met") {
    spec.mutable_split()->clear_test_fraction();
    spec.mutable_split()->add_test_paths(files.Write("t.csv", Csv(500, 560, 40)));
    AddHistory(&spec, "t", 5);
    Know(&spec, true);
  }
  SECTION("joined") {
    proto::JoinSpec* const join = spec.add_joins();
    join->set_path(files.Write("items.csv", "item,kind\ni1,a\ni2,b\ni3,a\ni7,c\n"));
    join->mutable_csv()->set_header(true);
    join->set_left_on("item");
    AddCategorical(&spec, "kind")->set_oov_buckets(1);
    AddHistory(&spec, "t", 5)->set_history_of("kind");
  }
  SECTION("crossed") {
    AddCategorical(&spec, "y");
    FeatureSpec* const crossed = spec.add_features();
    crossed->set_name("both");
    crossed->add_crossed("item");
    crossed->add_crossed("y");
    crossed->set_hash_buckets(30);
    AddHistory(&spec, "t", 5)->set_history_of("both");
  }
  CheckSameHistories(files, spec);
}

TEST_CASE("histories, streamed: a batch whose values do not fit memory says what would do") {
  DataFiles files;
  std::string csv = "user,item,t,y\n";
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&csv, "u0,i", i % 30, ",", i, ",", i % 2, "\n");
  auto spec = Spec(files.Write("a.csv", csv));
  AddHistory(&spec, "", 0);
  // One group of some 700 values, 5,600 bytes, fits; those of 32 examples do not.
  const auto data = MustLoad(Streamed(files, spec, 500, 1, 100'000));
  CHECK(data->Read({Part::kTraining, 0, 0, 8}).ok());
  const auto batch = data->Read({Part::kTraining, 0, 0, 32});
  CHECK(absl::IsResourceExhausted(batch.status()));
  CHECK_THAT(std::string(batch.status().message()),
             Contains("feature seen") && Contains("32 examples") &&
                 Contains("do not fit dataset.memory (97.66 KiB)") && Contains("max_values"));
  spec.mutable_features(1)->set_max_values(50);
  CHECK(MustLoad(Streamed(files, spec, 500, 1, 100'000))->Read({Part::kTraining, 0, 0, 32}).ok());
}

TEST_CASE("histories, streamed: JSON lines") {
  const DataFiles files;
  std::string text;
  for (uint64_t i = 0; i < 120; ++i) {
    absl::StrAppend(&text, "{\"user\": \"", Mix64(i) % 9, "\", \"item\": ", Mix64(i) % 13,
                    ", \"at\": {\"t\": ", Mix64(i) / 13 % 50, "}}\n");
  }
  proto::DatasetSpec spec;
  spec.set_format("jsonl");
  spec.add_paths(files.Write("a.jsonl", text));
  AddCategorical(&spec, "item");
  spec.mutable_split()->set_holdout_per("user");
  AddHistory(&spec, "at.t", 4);
  CheckSameHistories(files, spec);
}

std::set<std::string> Made(const DataFiles& files) {
  std::set<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(files.Path("cache/unpacked"), none)) {
    names.insert(entry.path().string());
  }
  return names;
}

std::string Content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_CASE("group files: the same bytes, whatever blocks and memory they are made with") {
  const DataFiles files;
  auto spec = Spec(files.Write("a.csv", Csv(0, 20000, 700)));
  AddHistory(&spec, "t", 3);
  HoldOutLast(&spec);
  std::set<std::string> contents, names;
  for (const auto& [block, memory] : std::vector<std::pair<int64_t, int64_t>>{
           {100, 64 << 20}, {5000, 64 << 20}, {900, 60000}, {1 << 20, 4 << 20}}) {
    fs::remove_all(files.Path("cache"));
    const auto data = MustLoad(Streamed(files, spec, block, 1, memory));
    REQUIRE(data->Read({Part::kTraining, 0, 0, 5}).ok());
    const auto made = Made(files);
    REQUIRE(made.size() == 1);
    names.insert(*made.begin());
    contents.insert(Content(*made.begin()));
  }
  CHECK(names.size() == 1);
  CHECK(contents.size() == 1);
}

TEST_CASE(
    "group files: made once on a machine, found by the next, and made again when they are gone") {
  const DataFiles files;
  auto spec = Spec(files.Write("a.csv", Csv(0, 400)));
  AddHistory(&spec, "t", 3);
  spec = Streamed(files, spec, 300, 1);
  const auto first = MustLoad(spec);
  CHECK(Made(files).empty());  // the index needs none
  const Ticket some{Part::kTest, 0, 0, 9};
  const auto wanted = Bytes(*first, some);
  const auto made = Made(files);
  REQUIRE(made.size() == 1);
  CHECK((fs::status(*made.begin()).permissions() & fs::perms(077)) == fs::perms::none);
  const auto time = fs::last_write_time(*made.begin());
  fs::last_write_time(*made.begin(), time - std::chrono::hours(1));
  const std::string content = Content(*made.begin());
  CHECK(Bytes(*MustLoad(spec), some) == wanted);
  CHECK(Made(files) == made);
  SECTION("gone, under a reader") {
    fs::remove_all(files.Path("cache/unpacked"));
    CHECK(Bytes(*first, some) == wanted);
  }
  SECTION("left half written by a killed process, this one and another") {
    fs::copy_file(*made.begin(), *made.begin() + ".part");  // not what `first` has open
    fs::remove(*made.begin());
    files.Write("cache/unpacked/0123456789abcdef.groups.part", "half");
    CHECK(Bytes(*MustLoad(spec), some) == wanted);
    CHECK(Made(files) == made);
  }
  SECTION("torn") { fs::resize_file(*made.begin(), content.size() - 8); }
  SECTION("of other bytes at its beginning") {
    std::fstream file(*made.begin(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(16);
    file.put('\x7f');
  }
  CHECK(Bytes(*MustLoad(spec), some) == wanted);
  CHECK(Content(*made.begin()) == content);
}

TEST_CASE("group files: who opens streamed data for training has them at once") {
  const DataFiles files;
  auto spec = Spec(files.Write("a.csv", Csv(0, 400)));
  AddHistory(&spec, "t", 3);
  Know(&spec, true);
  spec = Streamed(files, spec, 300, 1);
  const auto index = MustLoad(spec)->index();
  const auto run = [](absl::AnyInvocable<void()> task) { task(); };
  REQUIRE(Dataset::OpenStreamed(spec, index, 1, run).ok());
  CHECK(Made(files).size() == 2);
  // Several at a time make them together.
  fs::remove_all(files.Path("cache/unpacked"));
  std::vector<std::string> errors(4);
  std::vector<std::thread> readers;
  for (std::string& error : errors) {
    readers.emplace_back([&] {
      const auto opened = Dataset::OpenStreamed(spec, index, 1, run);
      if (!opened.ok()) error = opened.status().ToString();
    });
  }
  for (std::thread& reader : readers) reader.join();
  CHECK(errors == std::vector<std::string>(4));
  CHECK(Made(files).size() == 2);
}

TEST_CASE("group files: damaged within, they are an error that names them, and nothing worse") {
  const DataFiles files;
  auto spec = Spec(files.Write("a.csv", Csv(0, 400)));
  AddHistory(&spec, "", 3);
  spec = Streamed(files, spec, 300, 1);
  REQUIRE(MustLoad(spec)->Read({Part::kTest, 0, 0, 9}).ok());
  const std::string path = *Made(files).begin();
  std::string content = Content(path);
  for (size_t at = 64; at + 8 < content.size(); at += 8) content.replace(at, 8, 8, '\xff');
  std::ofstream(path, std::ios::binary) << content;
  const auto data = MustLoad(spec);
  const absl::Status status = data->Read({Part::kTest, 0, 0, 9}).status();
  CHECK(absl::IsDataLoss(status));
  CHECK_THAT(std::string(status.message()), Contains(path) && Contains("damaged"));
}

TEST_CASE("group files: data that has changed since is an error that names it, and no file stays") {
  const DataFiles files;
  const std::string text = Csv(0, 400);
  auto spec = Spec(files.Write("a.csv", text));
  AddHistory(&spec, "t", 3);
  spec = Streamed(files, spec, 300, 1);
  const auto data = MustLoad(spec);
  std::string other = text;
  other[other.size() / 2] = other[other.size() / 2] == '1' ? '2' : '1';
  files.Write("a.csv", other);
  const absl::Status status = data->Read({Part::kTest, 0, 0, 1}).status();
  CHECK(absl::IsFailedPrecondition(status));
  CHECK_THAT(std::string(status.message()), Contains("a.csv: changed since it was indexed"));
  CHECK(Made(files).empty());
}

TEST_CASE("group files: a full disk, or too small a cache, is told, and nothing stays") {
  const DataFiles files;
  auto spec = Spec(files.Write("a.csv", Csv(0, 20000, 700)));
  AddHistory(&spec, "t", 3);
  SECTION("a full disk") {
    const TinyDisk disk(files.Path("cache"), "64k");
    if (!disk.mounted()) return;
    const auto data = MustLoad(Streamed(files, spec, 900, 1, 60000));
    const absl::Status status = data->Read({Part::kTest, 0, 0, 1}).status();
    CHECK(absl::IsResourceExhausted(status));
    CHECK_THAT(std::string(status.message()),
               Contains("the rows of each \"user\": sorting them") && Contains("No space left"));
    CHECK(Made(files).empty());
  }
  SECTION("too small a cache") {
    spec = Streamed(files, spec, 900);
    spec.mutable_stream()->set_cache_bytes(100000);
    const absl::Status status = MustLoad(spec)->Read({Part::kTest, 0, 0, 1}).status();
    CHECK(absl::IsResourceExhausted(status));
    CHECK_THAT(std::string(status.message()), Contains("dataset.cache_size"));
    CHECK(Made(files).empty());
  }
}

TEST_CASE(
    "group files: a group that does not fit into memory is told; its last values can be read") {
  const DataFiles files;
  auto spec = Spec(files.Write("a.csv", Csv(0, 20000, 1)));
  const int64_t most = GENERATE(0, 5);
  AddHistory(&spec, most == 0 ? "" : "t", most);
  const auto data = MustLoad(Streamed(files, spec, 900, 1, 60000));
  const auto batch = data->Read({Part::kTraining, 0, 0, 10});
  INFO(batch.status());
  CHECK(batch.ok() == (most > 0));
  if (!batch.ok()) {
    CHECK(absl::IsResourceExhausted(batch.status()));
    CHECK_THAT(std::string(batch.status().message()), Contains("feature seen: a group has"));
  }
}

}  // namespace
}  // namespace coxswain::data
