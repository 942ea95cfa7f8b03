// Plain text as words by number, and the pairs of a skip-gram model.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/data/skip_gram.h"
#include "runtime/data/text_reader.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

constexpr Part kTraining = Part::kTraining;

proto::DatasetSpec TextSpec(const std::vector<std::string>& paths, int64_t window = 2) {
  proto::DatasetSpec spec;
  spec.set_format("text");
  for (const std::string& path : paths) spec.add_paths(path);
  spec.mutable_text()->set_window(window);
  return spec;
}

// "b a. b": words by number, a point behind the last of a sentence.
std::string Show(const Text& text) {
  std::string shown;
  for (const int32_t token : text.tokens) {
    absl::StrAppend(&shown, shown.empty() ? "" : " ",
                    (*text.vocabulary->texts())[static_cast<size_t>(Text::Word(token))],
                    Text::EndsSentence(token) ? "." : "");
  }
  return shown;
}

Text MustRead(const proto::DatasetSpec& spec) {
  auto text = ReadText(spec);
  INFO(text.status().ToString());
  REQUIRE(text.ok());
  return *std::move(text);
}

// What a batch holds: (centre, context) by their texts, in order.
using Pairs = std::vector<std::pair<std::string, std::string>>;
Pairs PairsOf(const Dataset& data, const Ticket& ticket) {
  const std::vector<std::string>& words = *data.vocabulary("word");
  const auto centers = Values<int64_t>(data, ticket, "center");
  const auto counts = Values<float>(data, ticket, "center.pairs");
  const auto contexts = Values<int64_t>(data, ticket, "context");
  const auto of = Values<int32_t>(data, ticket, "context.center");
  REQUIRE(contexts.size() == of.size());
  REQUIRE(counts.size() == centers.size());
  Pairs pairs;
  std::vector<float> found(centers.size(), 0);
  for (size_t i = 0; i < contexts.size(); ++i) {
    const auto center = static_cast<size_t>(of[i]);
    REQUIRE(center < centers.size());
    found[center] += 1;
    pairs.emplace_back(words[static_cast<size_t>(centers[center])],
                       words[static_cast<size_t>(contexts[i])]);
  }
  CHECK(found == counts);
  CHECK(std::is_sorted(of.begin(), of.end()));
  return pairs;
}

// A text of `words` words in sentences of 1 to 40, with a few frequent and many rare ones.
std::string RandomText(int words, uint64_t seed) {
  std::string text;
  uint64_t state = seed;
  int left = 5;
  for (int i = 0; i < words; ++i) {
    state = Mix64(state);
    const double u = static_cast<double>(state >> 11) * 0x1p-53;
    absl::StrAppend(&text, "w", static_cast<int>(std::exp(u * 6)), --left == 0 ? "\n" : " ");
    if (left == 0) left = 1 + static_cast<int>(Mix64(state) % 40);
  }
  return text;
}

TEST_CASE("text: words by falling count, then by first appearance; a line's end ends a sentence") {
  const DataFiles files;
  const std::string path = files.Write("a.txt", "  the cat\tsat\r\n\n on the\vmat \nthe cat");
  const Text text = MustRead(TextSpec({path}));
  CHECK(*text.vocabulary->texts() == std::vector<std::string>{"the", "cat", "sat", "on", "mat"});
  CHECK(text.counts == std::vector<int64_t>{3, 2, 1, 1, 1});
  CHECK(Show(text) == "the cat sat. on the mat. the cat.");
  CHECK(text.words_read == 8);
}

TEST_CASE("text: what is out of the vocabulary is as if it were not there") {
  const DataFiles files;
  const std::string path = files.Write("a.txt", "x a b a\nx\nb y\na z b x2");
  auto spec = TextSpec({path});
  spec.mutable_text()->set_min_count(2);
  const Text kept = MustRead(spec);
  CHECK(Show(kept) == "x a b a. x. b. a b.");
  CHECK(kept.words_read == 11);
  spec.mutable_text()->set_max_size(1);
  CHECK(Show(MustRead(spec)) == "a a. a.");
}

TEST_CASE("text: files, packed or not, follow each other, and none goes on in the next") {
  const DataFiles files;
  const std::string a = files.Write("a.txt", "one two"), b = files.WriteGzip("b.gz", "three\none");
  const Text text = MustRead(TextSpec({a, b}));
  CHECK(Show(text) == "one two. three. one.");
  const std::string unpacked = files.Write("b.txt", "three\none");
  CHECK(MustRead(TextSpec({a, unpacked})).content_hash == text.content_hash);
  CHECK(MustRead(TextSpec({unpacked, a})).content_hash != text.content_hash);
}

TEST_CASE("text: words longer than what is read at a time, and one line for all") {
  const DataFiles files;
  const std::string huge(1'500'000, 'x');
  std::string content = "a " + huge + " b";
  for (int i = 0; i < 300'000; ++i) content += " ab";
  const Text text = MustRead(TextSpec({files.Write("a.txt", content)}));
  REQUIRE(text.tokens.size() == 300'003);
  CHECK((*text.vocabulary->texts())[0] == "ab");
  CHECK((*text.vocabulary->texts())[2] == huge);
  CHECK(std::count_if(text.tokens.begin(), text.tokens.end(), Text::EndsSentence) == 1);
}

TEST_CASE("text: lower_case changes A-Z alone") {
  const DataFiles files;
  auto spec = TextSpec({files.Write("a.txt", "The the \xc3\x84rger")});
  CHECK(MustRead(spec).counts.size() == 3);
  spec.mutable_text()->set_lower_case(true);
  CHECK(Show(MustRead(spec)) == "the the \xc3\x84rger.");
}

TEST_CASE("text: what is no text is told by file, line and column") {
  const DataFiles files;
  const auto error = [&](const std::string& content) {
    return LoadError(TextSpec({files.Write("a.txt", content)}));
  };
  CHECK_THAT(error("ab\ncd e\x01"), EndsWith("a.txt:2:5: wanted text, found the byte 0x01"));
  CHECK_THAT(error(std::string("a\0b", 3)),
             EndsWith("a.txt:1:2: wanted text, found the byte 0x00"));
  CHECK_THAT(error("a\n\n b \xff"), EndsWith("a.txt:3:4: wanted UTF-8, found the byte 0xff"));
  for (const char* bad : {"\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80",
                          "\xf0\x80\x80\x80", "\xe2\x82", "\x80", "\xf4\x90\x80\x80"}) {
    CHECK_THAT(error(absl::StrCat("a ", bad, " b")), Contains("a.txt:1:3: wanted UTF-8"));
  }
  // The position holds behind many lines and in a later window.
  std::string far;
  for (int i = 0; i < 200'000; ++i) far += "word\n";
  CHECK_THAT(error(far + "x \x02"), EndsWith("a.txt:200001:3: wanted text, found the byte 0x02"));
  const Text good = MustRead(
      TextSpec({files.Write("good.txt", "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x9a\xa3 \xef\xbf\xbd")}));
  CHECK(good.counts.size() == 4);
}

TEST_CASE("text: a file without words, and words that are all too rare") {
  const DataFiles files;
  const std::string some = files.Write("some.txt", "a b\nb"),
                    none = files.Write("none.txt", " \n\n");
  CHECK_THAT(LoadError(TextSpec({some, none})),
             EndsWith("none.txt: wanted at least one word, found none"));
  auto spec = TextSpec({some});
  spec.mutable_text()->set_min_count(3);
  CHECK_THAT(LoadError(spec),
             Contains("some.txt: wanted a word that is there min_count = 3 times") &&
                 Contains("3 words, 2 different"));
  CHECK_THAT(LoadError(TextSpec({files.Path("gone.txt")})), Contains("gone.txt: cannot open"));
  const std::string torn = files.WriteGzip("torn.gz", RandomText(50'000, 1));
  std::filesystem::resize_file(torn, std::filesystem::file_size(torn) / 2);
  CHECK_THAT(LoadError(TextSpec({torn})), Contains("torn.gz: damaged or torn gzip file"));
}

TEST_CASE("text: options that contradict a text are refused") {
  const DataFiles files;
  const std::string path = files.Write("a.txt", "a b");
  const auto error = [&](auto change) {
    proto::DatasetSpec spec = TextSpec({path});
    change(&spec);
    return LoadError(spec);
  };
  using Spec = proto::DatasetSpec;
  CHECK_THAT(error([](Spec* s) { s->mutable_text()->set_window(101); }), Contains("window"));
  CHECK_THAT(error([](Spec* s) { s->mutable_text()->set_window(-1); }), Contains("window"));
  CHECK_THAT(error([](Spec* s) { s->mutable_text()->set_subsample(std::nan("")); }),
             Contains("subsampling"));
  CHECK_THAT(error([](Spec* s) { s->mutable_text()->set_min_count(-1); }), Contains("min_count"));
  CHECK_THAT(error([](Spec* s) { s->mutable_split()->set_test_fraction(0.5); }),
             Contains("no test part"));
  CHECK_THAT(error([](Spec* s) { s->mutable_label()->set_column("a"); }), Contains("no label"));
  CHECK_THAT(error([](Spec* s) { AddNumeric(s, "size"); }), Contains("one feature, \"word\""));
}

TEST_CASE("skip-gram: with a window of 1 a place is paired with its neighbours in the sentence") {
  const DataFiles files;
  const auto data = MustLoad(TextSpec({files.Write("a.txt", "a b c\nd\ne f")}, 1));
  CHECK(data->num_examples(kTraining) == 6);
  CHECK(data->num_examples(Part::kTest) == 0);
  CHECK(PairsOf(*data, AllOf(*data, kTraining)) ==
        Pairs{{"a", "b"}, {"b", "a"}, {"b", "c"}, {"c", "b"}, {"e", "f"}, {"f", "e"}});
  // "d" is alone.
  CHECK(Values<int64_t>(*data, {kTraining, 0, 3, 4}, "center").empty());
  CHECK(data->vocabulary_size("word") == 6);
  CHECK(data->Lookup("word", "e") == 4);
  CHECK(data->training_counts("word") == std::vector<int64_t>(6, 1));
}

TEST_CASE("skip-gram: a place has the same pairs in whatever batch, and others in each epoch") {
  const DataFiles files;
  auto spec = TextSpec({files.Write("a.txt", RandomText(5'000, 7))}, 5);
  spec.mutable_text()->set_subsample(0.01);
  spec.set_seed(3);
  spec.set_shuffle(true);
  const auto data = MustLoad(spec), again = MustLoad(spec);
  CHECK(data->fingerprint() == again->fingerprint());
  const int64_t n = data->num_examples(kTraining);
  const Pairs whole = PairsOf(*data, AllOf(*data, kTraining, 1));
  for (const int64_t batch : {int64_t{1}, int64_t{37}, int64_t{64}, int64_t{1000}}) {
    Pairs pieces;
    for (int64_t begin = 0; begin < n; begin += batch) {
      const Pairs some = PairsOf(*again, {kTraining, 1, begin, std::min(n, begin + batch)});
      pieces.insert(pieces.end(), some.begin(), some.end());
    }
    CAPTURE(batch);
    CHECK(pieces == whole);
  }
  CHECK(PairsOf(*again, {kTraining, 1, 100, 300}) == PairsOf(*data, {kTraining, 1, 100, 300}));
  Pairs next = PairsOf(*data, AllOf(*data, kTraining, 2)), sorted = whole;
  CHECK(next != whole);
  std::sort(next.begin(), next.end());
  std::sort(sorted.begin(), sorted.end());
  CHECK(next != sorted);  // not only in another order
}

TEST_CASE("skip-gram: each place is visited once an epoch, by blocks in an order of its own") {
  const DataFiles files;
  auto spec = TextSpec({files.Write("a.txt", RandomText(1'000, 8))});
  spec.set_shuffle(true);
  spec.set_example_ids(true);
  const auto data = MustLoad(spec);
  const auto ids = Values<int64_t>(*data, AllOf(*data, kTraining), "example_id");
  REQUIRE(ids.size() == 1000);
  CHECK(std::set<int64_t>(ids.begin(), ids.end()).size() == 1000);
  int jumps = 0;
  for (size_t i = 1; i < ids.size(); ++i) jumps += ids[i] != ids[i - 1] + 1;
  CHECK(jumps > 5);
  CHECK(jumps <= 1000 / kTextBlock);
  CHECK(ids.back() == 999);  // the rest of a block stays where it is
  CHECK(ids != Values<int64_t>(*data, AllOf(*data, kTraining, 1), "example_id"));
  spec.set_shuffle(false);
  const auto in_order = Values<int64_t>(*MustLoad(spec), {kTraining, 0, 0, 1000}, "example_id");
  CHECK(std::is_sorted(in_order.begin(), in_order.end()));
}

// A text in which the word of place i is w(i % 1031): each is in every part, and never beside one
// of the same number.
std::string CountingText(int64_t words) {
  std::string text;
  for (int64_t i = 0; i < words; ++i) absl::StrAppend(&text, "w", i % 1031, " ");
  return text;
}

TEST_CASE("text: what is held out is runs of words, and no pair has words of two parts") {
  const DataFiles files;
  constexpr int64_t kWords = 40 * kTextRun + 100;
  auto spec = TextSpec({files.Write("a.txt", CountingText(kWords))}, 1);
  spec.set_shuffle(true);
  spec.set_example_ids(true);
  const uint64_t whole = MustLoad(spec)->fingerprint();
  spec.mutable_split()->set_validation_fraction(0.2);
  const auto data = MustLoad(spec);
  CHECK(data->fingerprint() != whole);
  const auto runs = HoldOutRuns(kWords, 0.2, spec.seed());
  REQUIRE(runs.ok());
  const auto out = [&](int64_t place) { return (*runs)[static_cast<size_t>(place / kTextRun)]; };
  int64_t held_out = 0;
  for (int64_t place = 0; place < kWords; ++place) held_out += out(place) ? 1 : 0;
  CHECK(std::abs(held_out - kWords / 5) <= kTextRun);
  CHECK(data->num_examples(Part::kValidation) == held_out);
  CHECK(data->num_examples(kTraining) == kWords - held_out);
  CHECK(data->num_examples(Part::kTest) == 0);
  for (const Part part : {kTraining, Part::kValidation}) {
    // In later epochs what is held out is drawn, too: there it is a sample.
    const Ticket all = AllOf(*data, part, part == kTraining ? 3 : 0);
    const auto ids = Values<int64_t>(*data, all, "example_id");
    CHECK(std::set<int64_t>(ids.begin(), ids.end()).size() == ids.size());
    CHECK(std::is_sorted(ids.begin(), ids.end()) == (part == Part::kValidation));
    // With a window of 1 each word is paired with both neighbours of its part.
    const auto name = [](int64_t place) { return absl::StrCat("w", place % 1031); };
    Pairs wanted;
    for (int64_t place = 0; place + 1 < kWords; ++place) {
      const bool here = out(place) == (part == Part::kValidation);
      if (!here || out(place) != out(place + 1)) continue;
      wanted.emplace_back(name(place), name(place + 1));
      wanted.emplace_back(name(place + 1), name(place));
    }
    Pairs found = PairsOf(*data, all);
    std::sort(wanted.begin(), wanted.end());
    std::sort(found.begin(), found.end());
    CHECK((found == wanted));
  }
  const auto counts = data->training_counts("word");
  spec.set_seed(spec.seed() + 1);
  CHECK(MustLoad(spec)->training_counts("word") != counts);
  spec.mutable_split()->set_validation_fraction(1e-9);
  CHECK(MustLoad(spec)->num_examples(Part::kValidation) == kTextRun);
  spec.set_paths(0, files.Write("short.txt", CountingText(kTextRun)));
  CHECK_THAT(LoadError(spec), Contains("left to train on, found 1024 words"));
}

TEST_CASE("text: a run stays in its part when text is appended") {
  const auto before = HoldOutRuns(100 * kTextRun, 0.1, 7),
             after = HoldOutRuns(300 * kTextRun, 0.1, 7);
  REQUIRE(before.ok());
  REQUIRE(after.ok());
  CHECK(std::equal(before->begin(), before->end(), after->begin()));
}

TEST_CASE("text: held-out words are paired alike in batches of any size, each time") {
  const DataFiles files;
  auto spec = TextSpec({files.Write("a.txt", RandomText(6'000, 9))}, 5);
  spec.mutable_text()->set_subsample(0.01);
  spec.mutable_split()->set_validation_fraction(0.5);
  const auto data = MustLoad(spec);
  const int64_t n = data->num_examples(Part::kValidation);
  REQUIRE(n > kTextRun / 2);
  const Pairs whole = PairsOf(*data, AllOf(*data, Part::kValidation));
  CHECK(whole.size() > 1000);
  for (const int64_t batch : {37, 1000}) {
    Pairs pieces;
    for (int64_t begin = 0; begin < n; begin += batch) {
      const Pairs some = PairsOf(*data, {Part::kValidation, 0, begin, std::min(n, begin + batch)});
      pieces.insert(pieces.end(), some.begin(), some.end());
    }
    CHECK(pieces == whole);
  }
}

TEST_CASE("skip-gram: windows of all sizes are equally frequent, and pairs symmetric in distance") {
  const DataFiles files;
  std::string line;
  for (int i = 0; i < 30'000; ++i) absl::StrAppend(&line, "w", i, " ");
  const auto data = MustLoad(TextSpec({files.Write("a.txt", line)}, 4));
  const Ticket all = AllOf(*data, kTraining);
  // Every word is there once, so that ids are places.
  const auto centers = Values<int64_t>(*data, all, "center");
  const auto contexts = Values<int64_t>(*data, all, "context");
  const auto of = Values<int32_t>(*data, all, "context.center");
  REQUIRE(centers.size() == 30'000);
  std::map<int64_t, int> distances;
  for (size_t i = 0; i < contexts.size(); ++i) {
    ++distances[contexts[i] - centers[static_cast<size_t>(of[i])]];
  }
  CHECK(distances.size() == 8);
  for (int64_t distance = 1; distance <= 4; ++distance) {
    // A window of at least so much; five standard deviations.
    const double share = (5.0 - static_cast<double>(distance)) / 4;
    CAPTURE(distance);
    CHECK(distances[distance] == Approx(30'000 * share).margin(5 * 75 + 4));
    CHECK(distances[-distance] == Approx(distances[distance]).margin(5));
  }
}

TEST_CASE("skip-gram: frequent words are left out as often as the formula says") {
  const DataFiles files;
  auto spec = TextSpec({files.Write("a.txt", RandomText(60'000, 9))}, 1);
  spec.mutable_text()->set_subsample(0.01);
  const auto data = MustLoad(spec);
  const std::vector<int64_t> counts = data->training_counts("word");
  const double total = static_cast<double>(data->num_examples(kTraining));
  std::vector<double> kept(counts.size(), 0);
  constexpr int kEpochs = 20;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    for (const int64_t word : Values<int64_t>(*data, AllOf(*data, kTraining, epoch), "center")) {
      kept[static_cast<size_t>(word)] += 1;
    }
  }
  int frequent = 0;
  for (size_t word = 0; word < counts.size(); ++word) {
    const double share = static_cast<double>(counts[word]) / total;
    const double keep = std::min(1.0, std::sqrt(0.01 / share) + 0.01 / share);
    const double trials = static_cast<double>(counts[word]) * kEpochs;
    CAPTURE(word, share, keep);
    // A place that stays is no centre when it is alone in its sentence: a few in a hundred.
    CHECK(kept[word] <= trials * keep + 5 * std::sqrt(trials * keep * (1 - keep)) + 0.5);
    CHECK(kept[word] >= trials * keep * 0.94 - 5 * std::sqrt(trials * keep));
    frequent += keep < 0.7;
  }
  CHECK(frequent >= 3);
}

TEST_CASE("skip-gram: what is left out makes windows reach further") {
  const DataFiles files;
  // "the" between all others: mostly left out.
  std::string line;
  for (int i = 0; i < 2'000; ++i) absl::StrAppend(&line, "w", i % 200, " the the the ");
  auto spec = TextSpec({files.Write("a.txt", line)}, 1);
  spec.mutable_text()->set_subsample(0.0001);
  const auto data = MustLoad(spec);
  int64_t both = 0, all = 0;
  for (const auto& [center, context] : PairsOf(*data, AllOf(*data, kTraining))) {
    both += center != "the" && context != "the";
    ++all;
  }
  CHECK(all > 50);
  CHECK(both * 2 > all);
}

}  // namespace
}  // namespace coxswain::data
