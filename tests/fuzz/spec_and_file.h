// An input that is a data set: its spec (DatasetSpec in text format), a line "===", and the bytes
// of its file.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "protos/dataset.pb.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/proto_mutator.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace coxswain::fuzz {

inline constexpr absl::string_view kBeforeFile = "===\n";

// Where the bytes of the file begin; the end of an input that has none.
inline size_t FileAt(absl::string_view input) {
  const size_t at = input.find(kBeforeFile);
  return at == absl::string_view::npos ? input.size() : at + kBeforeFile.size();
}

// The spec, in which each path is the file's: what other files are there is not the input's. None:
// it is no spec.
inline std::optional<proto::DatasetSpec> SpecOf(absl::string_view input, const MemoryFile& file) {
  const size_t at = FileAt(input);
  absl::string_view head = input.substr(0, at);
  if (at < input.size()) head.remove_suffix(kBeforeFile.size());
  proto::DatasetSpec spec;
  if (!ReadText(std::string(head), &spec)) return std::nullopt;
  for (std::string& path : *spec.mutable_paths()) path = file.path();
  for (std::string& path : *spec.mutable_split()->mutable_test_paths()) path = file.path();
  for (proto::FeatureSpec& feature : *spec.mutable_features()) {
    if (!feature.vocabulary_file().empty()) feature.set_vocabulary_file(file.path());
  }
  for (proto::JoinSpec& join : *spec.mutable_joins()) join.set_path(file.path());
  return spec;
}

// Mutates the bytes of the file alone; of an input that has none, all.
inline size_t MutateFile(uint8_t* data, size_t size, size_t max_size) {
  const size_t at = FileAt(Text(data, size));
  if (at == size) return LLVMFuzzerMutate(data, size, max_size);
  return at + LLVMFuzzerMutate(data + at, size - at, max_size - at);
}

}  // namespace coxswain::fuzz
