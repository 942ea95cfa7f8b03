// Plain text that is streamed, held against the same text in memory.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "runtime/data/hash.h"
#include "runtime/data/stream/index_builder.h"
#include "runtime/data/text_parts.h"
#include "tests/testing/same_when_streamed.h"

namespace coxswain::data {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Strings = std::vector<std::string>;

constexpr Part kParts[] = {Part::kTraining, Part::kValidation};

// Words in sentences of up to `sentence`, a few of them frequent and many rare.
std::string RandomText(int words, uint64_t seed, uint64_t sentence = 40) {
  std::string text;
  uint64_t state = seed, left = 5;
  for (int i = 0; i < words; ++i) {
    state = Mix64(state);
    const double u = static_cast<double>(state >> 11) * 0x1p-53;
    absl::StrAppend(&text, "w", static_cast<int>(std::exp(u * 6)),
                    --left == 0 ? (state % 5 == 0 ? " \r\n\n " : "\n") : " ");
    if (left == 0) left = 1 + Mix64(state) % sentence;
  }
  return text;
}

proto::DatasetSpec TextSpec(const Strings& paths, int64_t window = 5) {
  proto::DatasetSpec spec;
  spec.set_format("text");
  for (const std::string& path : paths) spec.add_paths(path);
  spec.mutable_text()->set_window(window);
  spec.mutable_text()->set_min_count(2);
  spec.mutable_text()->set_subsample(0.01);
  spec.set_seed(11);
  spec.set_example_ids(true);
  return spec;
}

// The bytes of each place's pairs, by its number in the part, in the order of the epoch.
std::map<int64_t, Strings> PairsByPlace(const Dataset& data, Part part, int64_t epoch) {
  std::map<int64_t, Strings> pairs;
  for (int64_t i = 0; i < data.num_examples(part); ++i) {
    const Ticket ticket{part, epoch, i, i + 1};
    const auto id = Values<int64_t>(data, ticket, kExampleIdColumn);
    REQUIRE(id.size() == 1);
    CHECK(pairs.emplace(id[0], Bytes(data, ticket)).second);
  }
  return pairs;
}

void CheckSameText(const DataFiles& files, proto::DatasetSpec spec, int64_t block_bytes,
                   int64_t window) {
  INFO("blocks of " << block_bytes << " bytes, " << window << " in a window");
  const auto whole = MustLoad(spec);
  const auto in_order = MustLoad(Streamed(files, spec, block_bytes, window));
  spec.set_shuffle(true);
  const auto shuffled = MustLoad(spec);
  const auto streamed = MustLoad(Streamed(files, spec, block_bytes, window));
  REQUIRE(streamed->index() != nullptr);
  CHECK(streamed->is_text());
  CHECK(*streamed->vocabulary("word") == *whole->vocabulary("word"));
  CHECK(streamed->training_counts("word") == whole->training_counts("word"));
  CHECK(streamed->trained_rows().words_hash() == whole->trained_rows().words_hash());
  CHECK(streamed->trained_rows().rows() == whole->trained_rows().rows());
  CHECK(streamed->since_training() == whole->since_training());
  CHECK(streamed->learned()[0].ShortDebugString() == whole->learned()[0].ShortDebugString());
  for (const Part part : kParts) {
    const int64_t n = whole->num_examples(part);
    REQUIRE(streamed->num_examples(part) == n);
    for (const int64_t size : {int64_t{7}, int64_t{100}, n}) {
      for (int64_t begin = 0; begin < n; begin += std::max<int64_t>(1, size)) {
        const Ticket ticket{part, part == Part::kTraining ? 2 : 0, begin,
                            std::min(begin + size, n)};
        REQUIRE(Bytes(*in_order, ticket) == Bytes(*whole, ticket));
      }
    }
    CHECK(PairsByPlace(*streamed, part, 3) == PairsByPlace(*shuffled, part, 3));
  }
  CHECK(streamed->num_examples(Part::kTest) == 0);
  CHECK_FALSE(streamed->PlaceOf({Part::kTraining, 0, 0, 1}));
}

TEST_CASE("streamed text: a place has the pairs that it has in memory, whatever blocks are") {
  const DataFiles files;
  auto spec = TextSpec({files.Write("a.txt", RandomText(2500, 1)),
                        files.WriteGzip("b.gz", RandomText(1800, 2, 3)),
                        files.Write("c.txt", "\n " + RandomText(900, 3, 1000000) + "  \n\n")});
  spec.mutable_split()->set_validation_fraction(0.4);
  for (const int64_t block_bytes : {1, 50, 3000, 1 << 20}) {
    for (const int64_t window : {1, 3}) CheckSameText(files, spec, block_bytes, window);
    CheckSameIndex(Streamed(files, spec, block_bytes, 1));
  }
}

TEST_CASE("streamed text: one line of all words, long words, and all places in training") {
  const DataFiles files;
  std::string text = RandomText(3000, 4, 1000000);
  text = absl::StrReplaceAll(text, {{"\n", " "}, {"\r", " "}});
  auto spec = TextSpec({files.Write(
      "a.txt", text + " " + std::string(5000, 'x') + " " + std::string(5000, 'x') + " end")});
  spec.mutable_text()->set_lower_case(true);
  spec.mutable_text()->set_max_size(60);
  for (const int64_t block_bytes : {1, 700}) {
    CheckSameText(files, spec, block_bytes, 2);
    CheckSameIndex(Streamed(files, spec, block_bytes, 1));
  }
}

TEST_CASE("streamed text: windows that reach beyond what the index has of a neighbour") {
  const DataFiles files;
  // Hardly a place stays: windows reach over whole blocks.
  auto spec = TextSpec({files.Write("a.txt", RandomText(9000, 5, 2000))}, 1);
  spec.mutable_text()->set_subsample(1e-5);
  spec.mutable_split()->set_validation_fraction(0.3);
  for (const int64_t block_bytes : {300, 1500}) CheckSameText(files, spec, block_bytes, 2);
}

TEST_CASE(
    "streamed text: a sentence whose last words are not in the vocabulary ends all the same") {
  const DataFiles files;
  const std::string path = files.Write(
      "a.txt", "a b x1\nx2\n\nb a x3 x4 \n x5 \nx6 a\nb x7\n" + std::string("b a x8\n a"));
  const std::string next = files.Write("b.txt", "x9 b a b x10");
  auto spec = TextSpec({path, next}, 2);
  spec.mutable_text()->set_subsample(0);
  for (const int64_t block_bytes : {1, 2, 3, 5, 9, 100}) CheckSameText(files, spec, block_bytes, 1);
}

TEST_CASE("streamed text: places that stand together stay together in a shuffled epoch") {
  const DataFiles files;
  auto spec = TextSpec({files.Write("a.txt", RandomText(20'000, 6))});
  spec.mutable_text()->set_min_count(1);
  spec.set_shuffle(true);
  const auto data = MustLoad(Streamed(files, spec, 6000, 3));
  const auto ids = Values<int64_t>(*data, {Part::kTraining, 0, 0, 20'000}, kExampleIdColumn);
  CHECK(std::set<int64_t>(ids.begin(), ids.end()).size() == 20'000);
  int jumps = 0;
  for (size_t i = 1; i < ids.size(); ++i) jumps += ids[i] != ids[i - 1] + 1;
  CHECK(jumps > 20'000 / kTextBlock / 2);
  // Runs of places, the ends of blocks, and the ends of windows.
  CHECK(jumps <= 20'000 / kTextBlock + 2 * data->index()->blocks_size());
}

TEST_CASE("streamed text: with a model's vocabulary the places are those in memory") {
  const DataFiles files;
  auto spec = TextSpec({files.Write("a.txt", RandomText(3000, 7))});
  proto::LearnedFeature* const learned = spec.add_learned();
  learned->set_name("word");
  const std::string words = "w1\nw3\nw2\nnever\n", counts = "900\n50\n400\n7\n";
  learned->set_vocabulary_file(files.Write("word.txt", words));
  learned->set_vocabulary_hash(HashText(words));
  learned->set_vocabulary_size(4);
  learned->set_counts_file(files.Write("word.counts", counts));
  learned->set_counts_hash(HashText(counts));
  CheckSameText(files, spec, 200, 2);
  CheckSameIndex(Streamed(files, spec, 200, 1));
  spec.set_paths(0, files.Write("b.txt", "other words"));
  CHECK_THAT(LoadError(Streamed(files, spec, 200)),
             Contains("wanted a word of the model's vocabulary, found none in 2"));
}

TEST_CASE("streamed text: words that a model was trained on are known, streamed or not") {
  const DataFiles files;
  const std::string text = RandomText(5000, 8);
  auto spec = TextSpec({files.Write("a.txt", text)});
  spec.mutable_split()->set_validation_fraction(0.4);
  const proto::TrainedRows kept[] = {MustLoad(spec)->trained_rows(),
                                     MustLoad(Streamed(files, spec, 500))->trained_rows()};
  for (const proto::TrainedRows& trained : kept) {
    *spec.mutable_trained() = trained;
    const auto since = [&](const std::string& content) {
      files.Write("a.txt", content);
      const SinceTraining found = MustLoad(spec)->since_training();
      CHECK(MustLoad(Streamed(files, spec, 500))->since_training() == found);
      CheckSameIndex(Streamed(files, spec, 500));
      return found;
    };
    CHECK(since(text) == SinceTraining::kSame);
    CHECK(since(text + " more words") == SinceTraining::kGrown);
    CHECK(since("more " + text) == SinceTraining::kOtherRows);
  }
  // A model of an earlier version: a text in memory is compared by what that kept.
  files.Write("a.txt", text);
  *spec.mutable_trained() = kept[0];
  spec.mutable_trained()->clear_words_hash();
  CHECK(MustLoad(spec)->since_training() == SinceTraining::kSame);
  CHECK(MustLoad(Streamed(files, spec, 500))->since_training() == SinceTraining::kUnknown);
}

TEST_CASE("streamed text: what is no text is told by file, line and column, whoever reads it") {
  const DataFiles files;
  const std::string lines = RandomText(400, 9);
  const std::string line = absl::StrReplaceAll(lines, {{"\n", " "}, {"\r", " "}});
  for (const std::string& good : {lines, line}) {
    for (const char* bad : {"a\x01", "\xff", "w\xc3"}) {
      for (const std::string& behind : {std::string(), " " + good}) {
        const auto spec = TextSpec({files.Write("a.txt", good + bad + behind)});
        const std::string wanted = LoadError(spec);
        CHECK_THAT(wanted, Contains("a.txt:") && Contains("found the byte"));
        for (const int64_t block_bytes : {1, 300, 1 << 20}) {
          const auto streamed = CheckSpec(Streamed(files, spec, block_bytes)).value();
          CHECK(std::string(BuildIndex(streamed).status().message()) == wanted);
          PlayedReaders readers(2);
          const absl::Status found = IndexByWorkers(streamed, 500, &readers).status();
          CHECK(std::string(found.message()) == wanted);
        }
      }
    }
  }
}

TEST_CASE("streamed text: no word, rare words, torn files and short texts are told") {
  const DataFiles files;
  const std::string some = files.Write("some.txt", "a b\nb"),
                    none = files.Write("none.txt", " \n\n");
  CHECK_THAT(LoadError(Streamed(files, TextSpec({some, none}), 100)),
             EndsWith("none.txt: wanted at least one word, found none"));
  auto spec = TextSpec({some});
  spec.mutable_text()->set_min_count(3);
  CHECK_THAT(
      LoadError(Streamed(files, spec, 100)),
      Contains("some.txt: wanted a word that is there min_count = 3 times") && Contains("3 words"));
  const std::string torn = files.WriteGzip("torn.gz", RandomText(50'000, 1));
  std::filesystem::resize_file(torn, std::filesystem::file_size(torn) / 2);
  CHECK_THAT(LoadError(Streamed(files, TextSpec({torn}), 100)),
             Contains("torn.gz: damaged or torn gzip file"));
  spec = TextSpec({files.Write("a.txt", RandomText(3 * kTextRun, 1))});
  spec.mutable_split()->set_validation_fraction(1e-6);
  CHECK(MustLoad(spec)->num_examples(Part::kValidation) > 0);
  CHECK_THAT(LoadError(Streamed(files, spec, 100)),
             Contains("split.validation") && Contains("dataset.streaming: false"));
  // A text of one run is trained on or held out, as the seed draws it; either is refused.
  spec.set_paths(0, files.Write("short.txt", RandomText(500, 1)));
  spec.mutable_split()->set_validation_fraction(0.5);
  CHECK_THAT(LoadError(Streamed(files, spec, 100)),
             Contains("split.validation") && Contains("dataset.streaming: false"));
}

TEST_CASE("streamed text: a vocabulary that does not fit memory says what does") {
  const DataFiles files;
  std::string text;
  for (int i = 0; i < 5000; ++i) absl::StrAppend(&text, "a-long-word-", i, " ");
  CHECK_THAT(LoadError(Streamed(files, TextSpec({files.Write("a.txt", text)}), 1000, 0, 100 << 10)),
             Contains("feature \"word\"") && Contains("wanted more memory: all different words"));
}

TEST_CASE("streamed text: a file that changes, shrinks or goes is an error that names it") {
  const DataFiles files;
  const std::string text = RandomText(9000, 10);
  const std::string path = files.Write("a.txt", text);
  auto spec = Streamed(files, TextSpec({path}), 500, 1, 1 << 20);
  const auto data = MustLoad(spec);
  const auto error = [&](int64_t at) {
    const int64_t end = std::min(at + 200, data->num_examples(Part::kTraining));
    const auto batch = data->Read({Part::kTraining, 0, at, end});
    return std::string(batch.status().message());
  };
  CHECK(error(100) == "");
  SECTION("other words") {
    std::string other = text;
    other[other.size() - 300] ^= 1;
    files.Write("a.txt", other);
    data->DropBlocks();
    const int64_t late = data->num_examples(Part::kTraining) - 200;
    CHECK_THAT(error(late), Contains("a.txt: changed since it was indexed"));
    CHECK(error(100) == "");
  }
  SECTION("fewer bytes") {
    std::filesystem::resize_file(path, text.size() / 2);
    data->DropBlocks();
    CHECK_THAT(error(100), Contains("a.txt: changed since it was indexed"));
  }
  SECTION("it is gone") {
    std::filesystem::remove(path);
    data->DropBlocks();
    CHECK_THAT(error(8000), Contains("a.txt"));
  }
}

TEST_CASE("streamed text: a file that changes between the passes is an error that names it") {
  const DataFiles files;
  std::string text = RandomText(3000, 11);
  const std::string path = files.Write("a.txt", text);
  const auto spec = CheckSpec(Streamed(files, TextSpec({path}), 500)).value();
  for (const std::string& other : {text + "w1", text.substr(0, 2000), "w0" + text.substr(2),
                                   "\x01" + text.substr(1), std::string(" ")}) {
    // Once all parts have been added up, and before places are counted.
    PlayedReaders readers(1, [&](int, int64_t, const proto::IndexPart& request) {
      if (!request.has_before()) return absl::OkStatus();
      files.Write("a.txt", other);
      return absl::OkStatus();
    });
    const auto found = IndexByWorkers(spec, 1 << 20, &readers);
    CHECK(absl::IsFailedPrecondition(found.status()));
    CHECK_THAT(std::string(found.status().message()), Contains("a.txt: changed since"));
    files.Write("a.txt", text);
  }
}

TEST_CASE("streamed text: an index that does not fit its text is refused") {
  const DataFiles files;
  auto spec = Streamed(files, TextSpec({files.Write("a.txt", RandomText(3000, 12))}), 500);
  spec.mutable_split()->set_validation_fraction(0.4);
  const auto index = MustLoad(spec)->index();
  const auto error = [&](auto change) {
    auto other = std::make_shared<proto::DatasetIndex>(*index);
    change(other.get());
    return std::string(Dataset::OpenStreamed(spec, other, 0, nullptr).status().message());
  };
  using Index = proto::DatasetIndex;
  CHECK(error([](Index*) {}) == "");
  for (const auto change : {
           +[](Index* i) { i->set_is_text(false); },
           +[](Index* i) { i->mutable_blocks(1)->set_first_row(5); },
           +[](Index* i) { i->mutable_blocks(1)->set_training(1 << 30); },
           +[](Index* i) { i->mutable_blocks(1)->clear_head(); },
           +[](Index* i) { i->mutable_blocks(1)->clear_tail(); },
           +[](Index* i) { i->mutable_blocks(1)->set_tail(0, 1u << 31); },
           +[](Index* i) { i->mutable_blocks(1)->set_test(1); },
           +[](Index* i) { i->mutable_features(0)->clear_training_counts(); },
           +[](Index* i) { i->set_own_rows(100); },
       }) {
    CHECK_THAT(error(change), Contains("the index is not of this data set"));
  }
}

}  // namespace
}  // namespace coxswain::data
