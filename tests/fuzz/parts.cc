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
#include "runtime/data/stream/text_range.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/spec_and_file.h"

namespace coxswain {
namespace {

// One worker, which reads a part when it is to be added up.
class OneReader final : public data::PartReaders {
 public:
  int count() override { return 1; }
  void Ask(int, proto::IndexPart request, Done done) override { done(Answer(request)); }

 private:
  absl::StatusOr<proto::PartIndexed> Answer(const proto::IndexPart& request) {
    proto::PartIndexed found;
    if (request.has_text()) {
      auto places = data::CountPlacesOf(request.text());
      if (!places.ok()) return places.status();
      *found.mutable_text() = *std::move(places);
    } else if (request.has_read() && request.has_before()) {
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
  const fuzz::MemoryFile file(input.substr(fuzz::FileAt(input)));
  auto given = fuzz::SpecOf(input, file);
  if (!given) return;
  given->clear_paths();
  for (int i = 0; i < 2; ++i) given->add_paths(file.path());
  given->clear_joins();
  given->mutable_stream()->set_block_bytes(7);
  if (given->split().test_paths_size() > 2) return;
  const auto spec = data::CheckSpec(*given);
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
  return coxswain::fuzz::MutateFile(data, size, max_size);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  coxswain::Run(coxswain::fuzz::Text(data, size));
  return 0;
}
