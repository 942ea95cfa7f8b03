// A data set of TFRecord files: its spec (DatasetSpec in text format), a line "===", and the bytes
// of one tf.Example, which get the frame that a record has, twice. In memory and streamed it has
// the same rows, or is refused.
#include <string>

#include "protos/dataset.pb.h"
#include "runtime/data/dataset.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/proto_mutator.h"
#include "tests/testing/tf_records.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace coxswain {
namespace {

constexpr absl::string_view kExample = "===\n";

size_t ExampleAt(absl::string_view input) {
  const size_t at = input.find(kExample);
  return at == absl::string_view::npos ? input.size() : at + kExample.size();
}

void Run(absl::string_view input) {
  const size_t at = ExampleAt(input);
  absl::string_view head = input.substr(0, at);
  if (at < input.size()) head.remove_suffix(kExample.size());
  proto::DatasetSpec spec;
  if (!fuzz::ReadText(std::string(head), &spec)) return;
  const std::string record = TfRecord(std::string(input.substr(at)));
  const fuzz::MemoryFile file(record + record);
  spec.set_format("tfrecord");
  spec.clear_joins();
  spec.clear_split();
  spec.clear_paths();
  spec.add_paths(file.path());
  for (proto::FeatureSpec& feature : *spec.mutable_features()) feature.clear_vocabulary_file();
  // No directory: indexes of what is streamed are not kept.
  spec.mutable_stream()->set_cache_directory(file.path());
  spec.mutable_stream()->set_block_bytes(1);
  const auto whole = data::Dataset::LoadInMemory(spec, 1);
  spec.mutable_stream()->set_mode(proto::StreamOptions::ALWAYS);
  const auto streamed = data::Dataset::Load(spec, 1);
  if (!whole.ok() || !streamed.ok()) return;
  const int64_t rows = (*whole)->num_examples(Part::kTraining);
  if ((*streamed)->num_examples(Part::kTraining) != rows) fuzz::Broken("streamed, other rows");
  static_cast<void>((*whole)->Read({Part::kTraining, 0, 0, rows}));
  static_cast<void>((*streamed)->Read({Part::kTraining, 0, 0, rows}));
}

}  // namespace
}  // namespace coxswain

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int) {
  const size_t at = coxswain::ExampleAt(coxswain::fuzz::Text(data, size));
  if (at == size) return LLVMFuzzerMutate(data, size, max_size);
  return at + LLVMFuzzerMutate(data + at, size - at, max_size - at);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  coxswain::Run(coxswain::fuzz::Text(data, size));
  return 0;
}
