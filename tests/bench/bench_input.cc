// Rows per second of CPU time that one core reads from files into shuffled batches: CSV, Criteo's
// logs and Parquet, and the same files by pyarrow, where ./dev has fetched it.
//
//   bench_input [--rows N = 300000] [--rounds N = 3] [--python PROGRAM] [--json FILE]
//   bench_input --gigabytes N [--steps N = 4000] [--rounds N = 3] [--json FILE]
//
// With --gigabytes: dlrm trained from a file of that size instead, see input/streamed_dlrm.h.
//
// Ours is what a worker does with streamed data: parse blocks, make ids, transform numbers, gather
// batches of 1,024 in the order of an epoch. pyarrow's is input_arrow.py: parse CSV and no more, or
// read Parquet and take its rows in another order. Both run by turns; the best round counts.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/data/arrow/arrow_file.h"
#include "runtime/data/criteo.h"
#include "runtime/data/dataset.h"
#include "runtime/data/hash.h"
#include "tests/bench/input/streamed_dlrm.h"
#include "tests/bench/round.h"
#include "tests/testing/paths.h"

namespace coxswain {
namespace {

constexpr int64_t kBatch = 1024;
constexpr int kRowsPerGroup = 65536;
constexpr char kClicks[] = "user,item,tags,price,age,time,country,clicked\n";
constexpr char kClickTypes[] =
    "user:i64 item:text tags:texts price:f64 age:i32 time:i64 country:text clicked:i8";

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "bench_input: %s\n", status.ToString().c_str());
  std::exit(1);
}

std::string Click(uint64_t h) {
  std::string line = absl::StrCat(h % 200'000, ",item-", Mix64(h) % 20'000, ",");
  for (uint64_t i = 0; i < h % 4; ++i) {
    absl::StrAppend(&line, i > 0 ? "|" : "", "tag", (h + 7 * i) % 500);
  }
  absl::StrAppend(&line, ",", h % 10'000, ".", h % 100, ",",
                  h % 9 == 0 ? "" : absl::StrCat(h % 90));
  absl::StrAppend(&line, ",", 1'600'000'000 + h % 100'000'000, ",c", h % 60, ",", h % 2, "\n");
  return line;
}

// The separator between fields is a tab, or a comma for what becomes Parquet.
std::string CriteoLine(uint64_t h, char separator) {
  const std::string between(1, separator);
  std::string line = absl::StrCat(h % 4 == 0);
  for (int i = 0; i < data::kCriteoNumbers; ++i) {
    const uint64_t draw = Mix64(h + static_cast<uint64_t>(i));
    absl::StrAppend(&line, between, draw % 5 == 0 ? "" : absl::StrCat(draw % (20u << (i % 8))));
  }
  for (int i = 0; i < data::kCriteoWords; ++i) {
    const uint64_t draw = Mix64(h + 100 + static_cast<uint64_t>(i));
    absl::StrAppend(
        &line, between,
        absl::StrFormat("%08x", static_cast<uint32_t>(Mix64(draw % (50u << (i % 12))))));
  }
  return line + "\n";
}

void Write(const std::string& path, const std::string& header, int64_t rows,
           const std::function<std::string(uint64_t)>& line) {
  std::ofstream file(path, std::ios::binary);
  file << header;
  for (int64_t row = 0; row < rows; ++row) file << line(Mix64(static_cast<uint64_t>(row)));
}

// A column of CriteoLine as features of a file of columns.
proto::DatasetSpec ClickSpec(const std::string& format, const std::string& path) {
  proto::DatasetSpec spec;
  spec.set_format(format);
  spec.add_paths(path);
  spec.mutable_csv()->set_header(true);
  spec.mutable_csv()->set_quoting(true);
  const auto add = [&](const char* name, proto::FeatureSpec::Kind kind) {
    proto::FeatureSpec* feature = spec.add_features();
    feature->set_name(name);
    feature->set_kind(kind);
    return feature;
  };
  add("user", proto::FeatureSpec::CATEGORICAL)->set_id("raw");
  add("item", proto::FeatureSpec::CATEGORICAL)->set_oov_buckets(1);
  proto::FeatureSpec* tags = add("tags", proto::FeatureSpec::CATEGORICAL);
  tags->set_multi_valued(true);
  tags->set_value_separator("|");
  add("price", proto::FeatureSpec::NUMERIC)->set_normalization(proto::FeatureSpec::LOG1P);
  add("age", proto::FeatureSpec::NUMERIC)->set_normalization(proto::FeatureSpec::STANDARD);
  add("time", proto::FeatureSpec::NUMERIC)->set_normalization(proto::FeatureSpec::MIN_MAX);
  add("country", proto::FeatureSpec::CATEGORICAL)->set_oov_buckets(1);
  spec.mutable_label()->set_column("clicked");
  return spec;
}

proto::DatasetSpec CriteoSpec(const std::string& format, const std::string& path) {
  proto::DatasetSpec spec;
  spec.set_format(format);
  spec.add_paths(path);
  data::AddCriteoFeatures(data::kCriteoBuckets, &spec);
  spec.mutable_label()->set_column(data::kCriteoLabel);
  return spec;
}

// CPU seconds of one pass over the training part.
double Pass(const proto::DatasetSpec& spec,
            const std::shared_ptr<const proto::DatasetIndex>& index) {
  auto opened = data::Dataset::OpenStreamed(spec, index, 0, nullptr);
  Check(opened.status());
  const data::Dataset& data = **opened;
  const int64_t all = data.num_examples(Part::kTraining);
  const std::clock_t start = std::clock();
  for (int64_t begin = 0; begin < all; begin += kBatch) {
    Check(data.Read({Part::kTraining, 0, begin, std::min(begin + kBatch, all)}).status());
  }
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

// The same of pyarrow; 0 where there is none.
double Peer(const std::string& python, const std::string& kind, const std::string& path) {
  if (python.empty()) return 0;
  const std::string command = absl::StrCat(
      python, " " COXSWAIN_SOURCE_DIR "/tests/bench/peers/input_arrow.py ", kind, " ", path);
  FILE* const out = popen(command.c_str(), "r");
  double seconds = 0;
  if (out == nullptr || std::fscanf(out, "%lf", &seconds) != 1) seconds = 0;
  if (out != nullptr) pclose(out);
  return seconds;
}

struct Case {
  std::string name, kind;  // of the peer
  proto::DatasetSpec spec;
};

nlohmann::json Measure(const Case& c, int64_t rows, int rounds, const std::string& python) {
  proto::DatasetSpec spec = c.spec;
  spec.mutable_stream()->set_mode(proto::StreamOptions::ALWAYS);
  spec.mutable_stream()->set_cache_directory(spec.paths(0) + ".cache");
  spec.set_shuffle(true);
  const std::clock_t start = std::clock();
  const auto indexed = data::Dataset::Load(spec);
  Check(indexed.status());
  const double index = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  double ours = 1e9, in_order = 1e9, peer = 1e9;
  proto::DatasetSpec ordered = spec;
  ordered.set_shuffle(false);
  for (int round = 0; round < rounds; ++round) {
    ours = std::min(ours, Pass(spec, (*indexed)->index()));
    in_order = std::min(in_order, Pass(ordered, (*indexed)->index()));
    peer = std::min(peer, Peer(python, c.kind, spec.paths(0)));
  }
  const auto size = static_cast<double>(std::filesystem::file_size(spec.paths(0)));
  const auto rate = [&](double seconds) {
    return seconds > 0 ? Round(static_cast<double>(rows) / seconds, 0) : 0;
  };
  nlohmann::json figures = {{"name", c.name},
                            {"rows", rows},
                            {"bytes", size},
                            {"blocks", (*indexed)->index()->blocks_size()},
                            {"rows_per_second", rate(ours)},
                            {"rows_per_second_in_order", rate(in_order)},
                            {"rows_per_second_index", rate(index)},
                            {"megabytes_per_second", Round(size / ours / 1e6, 1)}};
  std::string line =
      absl::StrFormat("%-16s %9.0f rows/s, in order %9.0f, index %9.0f, %6.1f MB/s", c.name,
                      rate(ours), rate(in_order), rate(index), size / ours / 1e6);
  if (peer > 0) {
    figures["rows_per_second_pyarrow"] = rate(peer);
    figures["ratio"] = Round(peer / ours, 2);
    absl::StrAppendFormat(&line, "; pyarrow %9.0f rows/s, ratio %.2f", rate(peer), peer / ours);
  }
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
  return figures;
}

std::string CriteoTypes() {
  std::string types;
  for (const std::string& column : data::CriteoColumns()) {
    absl::StrAppend(&types, column, column[0] == 'C' ? ":text " : ":i64 ");
  }
  return types;
}

bool WriteParquet(const std::string& csv, const std::string& path, const std::string& types) {
  const std::string command = absl::StrCat(COXSWAIN_BINARY_DIR "/bin/arrow_files ", csv, " ", path,
                                           " ", kRowsPerGroup, " ", types);
  return std::system(command.c_str()) == 0;
}

std::vector<Case> MakeCases(const std::string& directory, int64_t rows) {
  const auto path = [&](const char* name) { return absl::StrCat(directory, "/", name); };
  Write(path("clicks.csv"), kClicks, rows, Click);
  Write(path("criteo.tsv"), "", rows, [](uint64_t h) { return CriteoLine(h, '\t'); });
  std::vector<Case> cases = {{"csv", "csv", ClickSpec("csv", path("clicks.csv"))},
                             {"criteo", "criteo", CriteoSpec("criteo", path("criteo.tsv"))}};
  if (!data::LoadArrowPlugin().ok()) return cases;
  Write(path("criteo.csv"), "header\n", rows, [](uint64_t h) { return CriteoLine(h, ','); });
  if (!WriteParquet(path("clicks.csv"), path("clicks.parquet"), kClickTypes) ||
      !WriteParquet(path("criteo.csv"), path("criteo.parquet"), CriteoTypes())) {
    return cases;
  }
  proto::DatasetSpec clicks = ClickSpec("parquet", path("clicks.parquet"));
  clicks.mutable_features(2)->clear_value_separator();
  cases.push_back({"parquet", "parquet", clicks});
  cases.push_back({"parquet, criteo", "parquet", CriteoSpec("parquet", path("criteo.parquet"))});
  return cases;
}

int Main(const std::vector<std::string>& args) {
  std::map<std::string, std::string> options = {{"--rows", "300000"}, {"--rounds", "3"},
                                                {"--json", ""},       {"--python", ""},
                                                {"--gigabytes", "0"}, {"--steps", "4000"}};
  const std::string own = COXSWAIN_SOURCE_DIR "/build/arrow/bin/python";
  if (std::filesystem::exists(own)) options["--python"] = own;
  for (size_t i = 0; i + 1 < args.size(); i += 2) {
    if (options.count(args[i]) == 0) return 2;
    options[args[i]] = args[i + 1];
  }
  int64_t rows = 0;
  int rounds = 0;
  StreamedDlrmOptions large;
  if (args.size() % 2 != 0 || !absl::SimpleAtoi(options["--rows"], &rows) || rows < 1 ||
      !absl::SimpleAtoi(options["--rounds"], &rounds) || rounds < 1 ||
      !absl::SimpleAtod(options["--gigabytes"], &large.gigabytes) || !(large.gigabytes >= 0) ||
      !absl::SimpleAtoi(options["--steps"], &large.steps) || large.steps < 1) {
    return 2;
  }
  std::string directory = (std::filesystem::temp_directory_path() / "bench_input-XXXXXX").string();
  if (mkdtemp(directory.data()) == nullptr) return 1;
  nlohmann::json report = nlohmann::json::array();
  large.directory = directory;
  large.rounds = rounds;
  if (large.gigabytes > 0) {
    const auto measured = MeasureStreamedDlrm(large);
    if (!measured.ok()) std::filesystem::remove_all(directory);
    Check(measured.status());
    report = *measured;
  } else {
    for (const Case& c : MakeCases(directory, rows)) {
      report.push_back(Measure(c, rows, rounds, options["--python"]));
    }
  }
  std::filesystem::remove_all(directory);
  if (!options["--json"].empty()) std::ofstream(options["--json"]) << report.dump(2) << "\n";
  return 0;
}

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) {
  const int code = coxswain::Main({argv + 1, argv + argc});
  if (code == 2) {
    std::fprintf(stderr,
                 "usage: bench_input [--rows N] [--rounds N] [--python PROGRAM] [--json FILE]\n"
                 "       bench_input --gigabytes N [--steps N] [--rounds N] [--json FILE]\n");
  }
  return code;
}
