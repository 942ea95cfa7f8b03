// A data set: its spec (DatasetSpec in text format), a line "===", and the bytes of its one file.
// The spec's paths are put in here. It is loaded, and some batches of it are read.
#include <algorithm>
#include <cstring>
#include <string>

#include "protos/dataset.pb.h"
#include "runtime/data/dataset.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/proto_mutator.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace coxswain {
namespace {

constexpr absl::string_view kFile = "===\n";

// Where the file's bytes begin; the end when there are none.
size_t FileAt(absl::string_view input) {
  const size_t at = input.find(kFile);
  return at == absl::string_view::npos ? input.size() : at + kFile.size();
}

void ReadSome(const data::Dataset& dataset) {
  for (const Part part : {Part::kTraining, Part::kValidation, Part::kTest}) {
    const int64_t all = dataset.num_examples(part);
    for (const int64_t begin : {int64_t{0}, all / 2, all}) {
      const Ticket ticket{part, begin % 3, begin, std::min(begin + 8, all)};
      const auto batch = dataset.Read(ticket);
      if (!batch.ok()) continue;
      if (batch->size() != dataset.columns(part).size()) fuzz::Broken("a column is missing");
      for (size_t i = 0; i < batch->size(); ++i) {
        const Tensor& tensor = (*batch)[i];
        const TensorType& type = dataset.columns(part)[i].type;
        if (tensor.dtype() != type.dtype || !type.shape.Accepts(tensor.shape())) {
          fuzz::Broken("a column is not of its type");
        }
        static_cast<void>(tensor.ToString());
      }
    }
  }
}

void Run(absl::string_view input) {
  const size_t at = FileAt(input);
  absl::string_view head = input.substr(0, at);
  if (at < input.size()) head.remove_suffix(kFile.size());
  proto::DatasetSpec spec;
  if (!fuzz::ReadText(std::string(head), &spec)) return;
  const fuzz::MemoryFile file(input.substr(at));
  // Only this file: what others are there is not the input's.
  for (std::string& path : *spec.mutable_paths()) path = file.path();
  for (std::string& path : *spec.mutable_split()->mutable_test_paths()) path = file.path();
  for (proto::FeatureSpec& feature : *spec.mutable_features()) {
    if (!feature.vocabulary_file().empty()) feature.set_vocabulary_file(file.path());
  }
  for (proto::JoinSpec& join : *spec.mutable_joins()) join.set_path(file.path());
  // No directory: indexes of what is streamed are not kept.
  spec.mutable_stream()->set_cache_directory(file.path());
  if (spec.joins_size() > 4) return;
  if (spec.paths_size() + spec.split().test_paths_size() > 4) return;
  const auto dataset = data::Dataset::Load(spec, 1);
  if (!dataset.ok()) return;
  for (const proto::FeatureSpec& feature : spec.features()) {
    static_cast<void>((*dataset)->Lookup(feature.name(), "1"));
    if ((*dataset)->vocabulary_size(feature.name()) <= 1 << 16) {
      static_cast<void>((*dataset)->training_counts(feature.name()));
    }
  }
  ReadSome(**dataset);
}

}  // namespace
}  // namespace coxswain

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  const absl::string_view input = coxswain::fuzz::Text(data, size);
  const size_t at = coxswain::FileAt(input);
  if (seed % 3 != 0 || at == size) {  // the file
    return at + LLVMFuzzerMutate(data + at, size - at, max_size - at);
  }
  const std::string file(input.substr(at));
  const size_t marker = coxswain::kFile.size();
  if (file.size() + marker >= max_size) return size;
  coxswain::proto::DatasetSpec scratch;
  const size_t spec = coxswain::fuzz::MutateText(data, at - marker, max_size - file.size() - marker,
                                                 seed, &scratch);
  if (spec == 0) return size;
  std::memcpy(data + spec, coxswain::kFile.data(), marker);
  std::memcpy(data + spec + marker, file.data(), file.size());
  return spec + marker + file.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  coxswain::Run(coxswain::fuzz::Text(data, size));
  return 0;
}
