// A data set that is indexed in parts: its spec (DatasetSpec in text format), a line "===", and the
// bytes of its file, which is there twice. However small parts and blocks are, the index is the one
// that is made of the whole files.
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "protos/dataset.pb.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/stream/file_part.h"
#include "runtime/data/stream/index_pass.h"
#include "runtime/data/stream/stream_options.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/proto_mutator.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace coxswain {
namespace {

constexpr absl::string_view kFile = "===\n";

size_t FileAt(absl::string_view input) {
  const size_t at = input.find(kFile);
  return at == absl::string_view::npos ? input.size() : at + kFile.size();
}

// One worker, which reads a part when it is to be added up.
class OneReader final : public data::PartReaders {
 public:
  int count() override { return 1; }
  void Ask(int, proto::IndexPart request, Done done) override { done(Answer(request)); }

 private:
  absl::StatusOr<proto::PartIndexed> Answer(const proto::IndexPart& request) {
    proto::PartIndexed found;
    if (request.has_read() && request.has_before()) {
      auto sums = data::FilePart::ReadBehind(request.read(), request.before(), &shared_);
      if (!sums.ok()) return sums.status();
      *found.mutable_sums() = *std::move(sums);
    } else if (request.has_read()) {
      auto rows = data::FilePart::Read(request.read(), &shared_);
      if (!rows.ok()) return rows.status();
      found.set_end((*rows)->end());
      parts_[request.part()] = *std::move(rows);
    } else if (request.has_before()) {
      auto sums = parts_[request.part()]->AddUp(request.before());
      if (!sums.ok()) return sums.status();
      *found.mutable_sums() = *std::move(sums);
    }
    return found;
  }

  data::PartFiles shared_;
  std::map<int64_t, std::unique_ptr<data::FilePart>> parts_;
};

void Run(absl::string_view input) {
  const size_t at = FileAt(input);
  absl::string_view head = input.substr(0, at);
  if (at < input.size()) head.remove_suffix(kFile.size());
  proto::DatasetSpec given;
  if (!fuzz::ReadText(std::string(head), &given)) return;
  const fuzz::MemoryFile file(input.substr(at));
  given.clear_paths();
  given.clear_joins();
  for (int i = 0; i < 2; ++i) given.add_paths(file.path());
  for (std::string& path : *given.mutable_split()->mutable_test_paths()) path = file.path();
  for (proto::FeatureSpec& feature : *given.mutable_features()) {
    if (!feature.vocabulary_file().empty()) feature.set_vocabulary_file(file.path());
  }
  given.mutable_stream()->set_block_bytes(7);
  if (given.split().test_paths_size() > 2) return;
  const auto spec = data::CheckSpec(given);
  if (!spec.ok() || !data::WhyNotStreamed(*spec).empty()) return;
  const auto whole = data::BuildIndex(*spec);
  for (const int64_t part_bytes : {1, 50}) {
    OneReader reader;
    data::IndexOptions options;
    options.workers = &reader;
    options.part_bytes = part_bytes;
    const auto parts = data::BuildIndexOnWorkers(*spec, options);
    if (parts.ok() != whole.ok()) fuzz::Broken("parts have an index where the files have none");
    if (!parts.ok()) continue;
    if (parts->SerializeAsString() != whole->SerializeAsString()) {
      fuzz::Broken("parts have another index");
    }
  }
}

}  // namespace
}  // namespace coxswain

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int) {
  const size_t at = coxswain::FileAt(coxswain::fuzz::Text(data, size));
  if (at == size) return LLVMFuzzerMutate(data, size, max_size);
  return at + LLVMFuzzerMutate(data + at, size - at, max_size - at);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  coxswain::Run(coxswain::fuzz::Text(data, size));
  return 0;
}
