// What is streamed is what is in memory: the same parts, vocabularies, statistics and examples.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/criteo.h"
#include "runtime/data/hash.h"
#include "tests/testing/streamed_specs.h"

namespace coxswain::data {
namespace {

using proto::FeatureSpec;

constexpr Part kParts[] = {Part::kTraining, Part::kValidation, Part::kTest};

// The streamed data set is like the one in memory in all but the order of training.
void CheckSame(const DataFiles& files, proto::DatasetSpec spec) {
  spec.set_seed(11);
  spec.set_example_ids(true);
  const auto whole = MustLoad(spec);
  spec.set_shuffle(true);
  const auto shuffled = MustLoad(spec);
  for (const int64_t block_bytes : {1, 40, 1000, 1 << 20}) {
    for (const int64_t window : {1, 3}) {
      INFO("blocks of " << block_bytes << " bytes, " << window << " in a window");
      spec.set_shuffle(false);
      const auto in_order = MustLoad(Streamed(files, spec, block_bytes, window));
      spec.set_shuffle(true);
      const auto streamed = MustLoad(Streamed(files, spec, block_bytes, window));
      REQUIRE(streamed->index() != nullptr);
      CHECK(streamed->fingerprint() != whole->fingerprint());
      for (const Part part : kParts) {
        REQUIRE(streamed->num_examples(part) == whole->num_examples(part));
        const int64_t n = whole->num_examples(part);
        for (const int64_t size : {int64_t{1}, int64_t{7}, n}) {
          for (int64_t begin = 0; begin < n; begin += std::max<int64_t>(1, size)) {
            const Ticket ticket{part, 2, begin, std::min(begin + size, n)};
            REQUIRE(Bytes(*in_order, ticket) == Bytes(*whole, ticket));
          }
        }
        CHECK(streamed->label_summary(part).ToString() == whole->label_summary(part).ToString());
        for (const FeatureSpec& feature : spec.features()) {
          CHECK(streamed->CountUnknown(feature.name(), part) ==
                whole->CountUnknown(feature.name(), part));
        }
      }
      CHECK(Examples(*streamed, Part::kTraining, 0, 5) == Examples(*whole, Part::kTraining, 0, 64));
      CHECK(Examples(*streamed, Part::kTraining, 1, 3) ==
            Examples(*shuffled, Part::kTraining, 7, 64));
      CHECK(streamed->trained_rows().SerializeAsString() ==
            whole->trained_rows().SerializeAsString());
      for (size_t i = 0; i < whole->learned().size(); ++i) {
        CHECK(streamed->learned()[i].ShortDebugString() == whole->learned()[i].ShortDebugString());
      }
      for (const FeatureSpec& feature : spec.features()) {
        const auto* wanted = whole->vocabulary(feature.name());
        const auto* found = streamed->vocabulary(feature.name());
        REQUIRE((wanted == nullptr) == (found == nullptr));
        if (wanted == nullptr) continue;
        CHECK(*found == *wanted);
        CHECK(streamed->training_counts(feature.name()) == whole->training_counts(feature.name()));
      }
      for (int64_t i = 0; i < std::min<int64_t>(9, streamed->num_examples(Part::kTest)); ++i) {
        const Ticket ticket{Part::kTest, 0, i, i + 1};
        CHECK(streamed->PlaceOf(ticket) == whole->PlaceOf(ticket));
      }
    }
  }
}

TEST_CASE("streaming: csv with quoted line ends, lists, weights and all kinds of features") {
  DataFiles files;
  const auto text = [](int from, int to, const char* end) {
    std::string csv = absl::StrCat("\xef\xbb\xbfn,c,l,w,u,y", end);
    for (int i = from; i < to; ++i) {
      const uint64_t h = Mix64(static_cast<uint64_t>(i));
      absl::StrAppend(&csv, i % 5 == 0 ? "" : absl::StrCat(h % 1000, ".5"), ",", "\"c", h % 7,
                      "\n\"\",", h % 3, "\",");
      for (uint64_t v = 0; v < h % 5; ++v)
        absl::StrAppend(&csv, v > 0 ? "|" : "", "v", (h + v) % 13);
      absl::StrAppend(&csv, ",a:0.5 b", h % 9, " c:2", ",u", h % 50, ",", h % 2, end);
      if (i % 17 == 0) csv += end;  // blank lines
    }
    return csv;
  };
  auto spec = CsvSpec(files.Write("a.csv", text(0, 90, "\n")));
  spec.add_paths(files.Write("b.csv", text(90, 130, "\r\n")));
  spec.mutable_csv()->set_quoting(true);
  AddNumeric(&spec, "n")->set_normalization(FeatureSpec::MIN_MAX);
  FeatureSpec* twice = AddNumeric(&spec, "n2");
  twice->set_column("n");
  twice->set_missing_value(-1);
  AddCategorical(&spec, "c")->set_oov_buckets(1);
  FeatureSpec* list = AddCategorical(&spec, "l");
  list->set_multi_valued(true);
  list->set_value_separator("|");
  list->set_max_values(2);
  list->set_min_count(5);
  FeatureSpec* weighted = AddCategorical(&spec, "w");
  weighted->set_multi_valued(true);
  weighted->set_weight_separator(":");
  AddCategorical(&spec, "u")->set_oov_buckets(3);
  spec.mutable_features()->rbegin()->set_max_size(10);
  FeatureSpec* hashed = AddCategorical(&spec, "h");
  hashed->set_column("u");
  hashed->set_id("hash");
  spec.mutable_label()->set_column("y");
  spec.mutable_split()->set_validation_fraction(0.2);
  SECTION("parts drawn from the rows") { spec.mutable_split()->set_test_fraction(0.1); }
  SECTION("a test file of its own") {
    spec.mutable_split()->add_test_paths(files.Write("t.csv", text(200, 230, "\n")));
  }
  // Of a list that is sampled, what is drawn depends on the position in the order.
  spec.mutable_features(3)->set_max_values(0);
  CheckSame(files, spec);
}

TEST_CASE("streaming: in the order of the files samples of long lists are the same") {
  DataFiles files;
  std::string text = "tags\n";
  for (int row = 0; row < 50; ++row) {
    for (int i = 0; i < 30; ++i) absl::StrAppend(&text, i == 0 ? "" : " ", i);
    text += "\n";
  }
  auto spec = CsvSpec(files.Write("a.csv", text));
  FeatureSpec* tags = AddCategorical(&spec, "tags");
  tags->set_multi_valued(true);
  tags->set_max_values(10);
  const auto whole = MustLoad(spec);
  const auto streamed = MustLoad(Streamed(files, spec, 100));
  const Ticket ticket{Part::kTraining, 3, 10, 33};
  CHECK(Bytes(*streamed, ticket) == Bytes(*whole, ticket));
}

TEST_CASE("streaming: the deviation is that of all numbers in memory but for rounding") {
  DataFiles files;
  std::string text = "t\n";
  for (int i = 0; i < 1000; ++i) {
    absl::StrAppend(&text, 964982703 + Mix64(static_cast<uint64_t>(i)) % 1000, "\n");
  }
  auto spec = CsvSpec(files.Write("a.csv", text));
  AddNumeric(&spec, "t")->set_normalization(FeatureSpec::STANDARD);
  const auto whole = MustLoad(spec);
  const auto streamed = MustLoad(Streamed(files, spec, 100));
  CHECK(streamed->transform("t")->shift == whole->transform("t")->shift);
  CHECK(streamed->transform("t")->scale ==
        Approx(whole->transform("t")->scale).epsilon(1e-13).margin(0));
}

TEST_CASE("streaming: criteo's lines") {
  DataFiles files;
  std::string text;
  for (int i = 0; i < 60; ++i) {
    const uint64_t h = Mix64(static_cast<uint64_t>(i));
    absl::StrAppend(&text, h % 2);
    for (int n = 0; n < kCriteoNumbers; ++n) {
      absl::StrAppend(&text, "\t", n == 3 ? "" : absl::StrCat(h % (10 + n)));
    }
    for (int w = 0; w < kCriteoWords; ++w) {
      absl::StrAppend(&text, "\t", w == 5 ? "" : absl::StrCat(absl::Hex(h % (100 + w))));
    }
    text += "\n";
  }
  proto::DatasetSpec spec;
  spec.set_format(kCriteoFormat);
  spec.add_paths(files.Write("a.tsv", text));
  spec.mutable_split()->set_test_fraction(0.2);
  CheckSame(files, spec);
}

TEST_CASE("streaming: libsvm's lines, with comments, and indices that training has not") {
  DataFiles files;
  std::string text;
  for (int i = 0; i < 80; ++i) {
    const uint64_t h = Mix64(static_cast<uint64_t>(i));
    absl::StrAppend(&text, h % 2, " ", 1 + h % 4, ":1 ", 6 + h % 30, ":", h % 10, ".25",
                    i % 9 == 0 ? " # a comment\n\n" : "\n");
  }
  proto::DatasetSpec spec;
  spec.set_format("libsvm");
  spec.add_paths(files.Write("a.svm", text));
  spec.mutable_split()->set_validation_fraction(0.5);
  SECTION("indices as the files have them") {}
  SECTION("a number of them that is given") { spec.set_libsvm_features(100); }
  CheckSame(files, spec);
}

TEST_CASE("streaming: with memory for a few blocks only every example comes once") {
  DataFiles files;
  std::string csv = "id,x\n";
  for (int i = 0; i < 20000; ++i) absl::StrAppend(&csv, "u", i % 97, ",", i % 31, "\n");
  auto spec = CsvSpec(files.Write("a.csv", csv));
  AddCategorical(&spec, "id");
  AddNumeric(&spec, "x");
  spec.set_shuffle(true);
  spec.set_example_ids(true);
  const auto whole = MustLoad(spec);
  // Memory for a few blocks only: each is read several times.
  const auto streamed = MustLoad(Streamed(files, spec, 8192, 2, 90 << 10));
  CHECK(Examples(*streamed, Part::kTraining, 0, 512) == Examples(*whole, Part::kTraining, 0, 512));
}

}  // namespace
}  // namespace coxswain::data
