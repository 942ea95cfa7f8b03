// A data set: its spec (DatasetSpec in text format), a line "===", and the bytes of its one file.
// The spec's paths are put in here. It is loaded, and some batches of it are read.
#include <algorithm>
#include <cstring>
#include <string>

#include "protos/dataset.pb.h"
#include "runtime/data/dataset.h"
#include "tests/fuzz/spec_and_file.h"

namespace coxswain {
namespace {

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
  const fuzz::MemoryFile file(input.substr(fuzz::FileAt(input)));
  auto given = fuzz::SpecOf(input, file);
  if (!given) return;
  proto::DatasetSpec& spec = *given;
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
  const size_t at = coxswain::fuzz::FileAt(input);
  if (seed % 3 != 0 || at == size) return coxswain::fuzz::MutateFile(data, size, max_size);
  const std::string file(input.substr(at));
  const size_t marker = coxswain::fuzz::kBeforeFile.size();
  if (file.size() + marker >= max_size) return size;
  coxswain::proto::DatasetSpec scratch;
  const size_t spec = coxswain::fuzz::MutateText(data, at - marker, max_size - file.size() - marker,
                                                 seed, &scratch);
  if (spec == 0) return size;
  std::memcpy(data + spec, coxswain::fuzz::kBeforeFile.data(), marker);
  std::memcpy(data + spec + marker, file.data(), file.size());
  return spec + marker + file.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  coxswain::Run(coxswain::fuzz::Text(data, size));
  return 0;
}
