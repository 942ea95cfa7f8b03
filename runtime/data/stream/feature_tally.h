// What a pass over the rows of a data set adds up of one feature, so that no row is kept: the
// statistics and the vocabulary that Dataset learns of columns in memory.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "coxswain/dataset.h"
#include "protos/dataset.pb.h"
#include "protos/dataset_index.pb.h"
#include "runtime/data/analysis.h"
#include "runtime/data/number_tally.h"
#include "runtime/data/row_places.h"
#include "runtime/data/table.h"

namespace coxswain::data {

// Where the rows of a block are: the number of their file, and how many lines are in front of those
// that RowPlaces counts.
struct BlockPlace {
  int32_t file = 0;
  int64_t lines_before = 0;
};

// Thread model: one thread.
class FeatureTally {
 public:
  // `feature` is feature `index` of the spec. Of a history nothing is added up.
  FeatureTally(const proto::DatasetSpec& spec, int index);

  // The rows of a block that was read into `feature`, in the order of the data set; `parts` has the
  // part of each.
  void Add(const TableFeature& feature, absl::Span<const Part> parts, const RowPlaces& places,
           const BlockPlace& place);
  // Bytes of what is kept.
  int64_t bytes(const TableFeature& feature) const;
  // `path` has the name of a file by its number. Errors: InvalidArgument as LearnIds has it, when a
  // value is left without an id.
  using PathOf = std::function<std::string(int32_t file)>;
  absl::Status Finish(const TableFeature& feature, const PathOf& path,
                      proto::IndexedFeature* indexed) const;

  // For parts of the files, which are tallied by themselves. The numbers go on from those before.
  void Continue(const proto::NumberState& numbers) { numbers_tally_.Continue(numbers); }
  void Save(proto::NumberState* numbers) const { numbers_tally_.Save(numbers); }
  // What a part adds, whose first `texts` texts are those of `feature`.
  void TakePart(const TableFeature& feature, int64_t texts, proto::PartFeature* part) const;
  // Adds that of a part whose files have the numbers [first, end) here. Errors: InvalidArgument for
  // one that is not of this feature; ResourceExhausted for too many texts.
  absl::Status Merge(const proto::PartFeature& part, int32_t first, int32_t end,
                     TableFeature* feature);

 private:
  using Counts = std::array<int64_t, 3>;  // by part
  struct Place {
    int32_t file;
    int64_t line;
  };

  void AddId(int64_t id, Part part);
  absl::Status FinishVocabulary(const TableFeature& feature, const PathOf& path,
                                proto::IndexedFeature* indexed) const;
  absl::Status LearnTexts(const TableFeature& feature, const PathOf& path,
                          proto::IndexedFeature* indexed) const;
  // Of a feature that keeps names: they take the place of a vocabulary in the index.
  void FinishNames(const TableFeature& feature, proto::IndexedFeature* indexed) const;
  void CountsOf(const Vocabulary& vocabulary, absl::Span<const Counts> counts,
                proto::IndexedFeature* indexed) const;

  const proto::FeatureSpec spec_;
  const proto::LearnedFeature* const given_;       // null: it is to be learned
  const proto::LearnedFeature* const statistics_;  // of a number: those that it keeps; null: none
  bool has_indices_ = false;
  bool counts_buckets_ = false;  // the model wants to know how often each occurs
  bool keeps_places_ = false;
  bool lists_ = false;  // a value may be left out: of a list, or of a text
  int64_t min_count_ = 0, max_size_ = 0;
  int64_t numbers_ =
      -1;  // libsvm: as the spec has it; -1: to the largest index of the training part
  int64_t largest_ = -1;
  NumberTally numbers_tally_;
  std::vector<Counts> counts_;  // by id, or by text while the vocabulary is to be learned
  std::vector<Place> places_;   // by text: where it came first
};

}  // namespace coxswain::data
