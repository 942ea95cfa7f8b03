// Loads Parquet and Arrow files in a process of its own, for tests that expect it to live.
//
//   load_columns load FILE            prints the status, by a spec of a few columns
//   load_columns mutate FILE TIMES    the same of so many copies in which some bytes are others
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>

#include "runtime/base/status.h"
#include "runtime/data/dataset.h"

namespace coxswain {
namespace {

absl::Status Load(const std::string& path, bool streamed) {
  proto::DatasetSpec spec;
  spec.set_format(path.find(".arrow") == std::string::npos ? "parquet" : "arrow");
  spec.add_paths(path);
  proto::FeatureSpec* number = spec.add_features();
  number->set_name("n");
  proto::FeatureSpec* text = spec.add_features();
  text->set_name("c");
  text->set_kind(proto::FeatureSpec::CATEGORICAL);
  proto::FeatureSpec* list = spec.add_features();
  list->set_name("l");
  list->set_kind(proto::FeatureSpec::CATEGORICAL);
  list->set_multi_valued(true);
  spec.mutable_label()->set_column("y");
  spec.mutable_stream()->set_mode(streamed ? proto::StreamOptions::ALWAYS
                                           : proto::StreamOptions::NEVER);
  spec.mutable_stream()->set_block_bytes(1000);
  spec.mutable_stream()->set_cache_directory(path);  // none
  const auto data = data::Dataset::Load(spec);
  if (!data.ok()) return data.status();
  const int64_t all = (*data)->num_examples(Part::kTraining);
  return (*data)->Read({Part::kTraining, 0, 0, all}).status();
}

int Mutate(const std::string& path, int times) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const std::string copy = path + ".mutated";
  int good = 0, bad = 0;
  for (int seed = 0; seed < times; ++seed) {
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    std::string changed = bytes;
    for (uint64_t n = 1 + random() % 4; n > 0; --n) {
      // The end, which describes all else, gets its share.
      const size_t from = random() % 2 == 0 ? changed.size() / 2 : 0;
      changed[from + random() % (changed.size() - from)] = static_cast<char>(random());
    }
    if (random() % 8 == 0) changed.resize(random() % changed.size());
    std::ofstream(copy, std::ios::binary | std::ios::trunc).write(changed.data(), changed.size());
    const absl::Status status = Load(copy, seed % 2 == 0);
    ++(status.ok() ? good : bad);
    if (!status.ok() && status.message().find(copy) == std::string::npos) {
      std::cerr << "seed " << seed << ": an error that names no file: " << status << "\n";
      return 1;
    }
  }
  std::cout << good << " loaded, " << bad << " errors\n";
  return 0;
}

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) {
  const std::string what = argc > 2 ? argv[1] : "";
  if (what == "mutate" && argc == 4) return coxswain::Mutate(argv[2], std::atoi(argv[3]));
  if (what != "load") return 2;
  std::cout << coxswain::Describe(coxswain::Load(argv[2], false)) << "\n";
  return 0;
}
