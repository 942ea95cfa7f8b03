// Rows of a block by part, drawn by row or by query; labels; what parts of the files add; memory.
// Or rows that are only counted.
#include "runtime/data/stream/index_tally.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/bytes_text.h"
#include "runtime/base/status.h"
#include "runtime/data/data_format.h"
#include "runtime/data/names.h"
#include "runtime/data/queries.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/stream/parsed_block.h"
#include "runtime/data/stream/stream_options.h"

namespace coxswain::data {
namespace {

using proto::DatasetSpec;

proto::IndexedLabels ToProto(const LabelSummary& summary) {
  proto::IndexedLabels labels;
  labels.set_count(summary.count);
  labels.set_sum(summary.sum);
  labels.set_low(summary.low);
  labels.set_high(summary.high);
  labels.set_many(summary.many);
  labels.set_weight(summary.weight);
  labels.set_weighted_sum(summary.weighted_sum);
  for (const auto& [value, count] : summary.values) {
    labels.add_values(value);
    labels.add_counts(count);
  }
  return labels;
}

}  // namespace

LabelSummary SummaryOf(const proto::IndexedLabels& labels) {
  LabelSummary summary;
  summary.count = labels.count();
  summary.sum = labels.sum();
  summary.low = labels.low();
  summary.high = labels.high();
  summary.many = labels.many();
  summary.weight = labels.weight();
  summary.weighted_sum = labels.weighted_sum();
  for (int i = 0; i < std::min(labels.values_size(), labels.counts_size()); ++i) {
    summary.values[labels.values(i)] = labels.counts(i);
  }
  return summary;
}

IndexTally::IndexTally(const DatasetSpec& spec)
    : spec_(spec),
      draw_(spec.split(), spec.seed()),
      labels_(1 + static_cast<size_t>(spec.labels_size())) {
  for (int i = 0; i < spec.features_size(); ++i) tallies_.emplace_back(spec, i);
  if (!FormatOf(spec).has_rows()) runs_.emplace(spec.split().validation_fraction(), spec.seed());
}

void IndexTally::CountValues(absl::Span<const proto::ValueRange> ranges, int64_t memory) {
  ranges_.assign(ranges.begin(), ranges.end());
  counts_.assign(ranges_.size(), ValueCounts(memory / ValueCounts::kBytesOfBin));
}

void IndexTally::Count(const Table& rows) {
  const std::vector<double>& values = rows.orders.at(spec_.split().by());
  for (int64_t row = rows_; row < rows_ + rows.rows; ++row) {
    const uint64_t bits = OrderedBits(values[static_cast<size_t>(row - rows_)]);
    const bool left_out = held_out_.rows.Has(row), of_all = held_out_.LeftOutOfAll(row);
    for (size_t i = 0; i < ranges_.size(); ++i) {
      const proto::ValueRange& range = ranges_[i];
      if (bits < range.low() || bits > range.high()) continue;
      // The first rows, which a model has, are counted as if there were no others.
      const bool first = range.first_rows() > 0;
      if (first ? row < range.first_rows() && !left_out : !of_all) counts_[i].Add(bits);
    }
  }
}

absl::Status IndexTally::AddBlock(const Table& rows, const BlockPlace& place, bool test,
                                  proto::IndexedBlock* block) {
  block->set_rows(rows.rows);
  block->set_file(place.file);
  block->set_first_row(rows_);
  block->set_line(block->line() + place.lines_before);
  if (!ranges_.empty()) {
    Count(rows);
    rows_ += rows.rows;
    return absl::OkStatus();
  }
  parts_.clear();
  if (spec_.query().empty()) {
    DrawRows(rows, test, block);
  } else {
    RETURN_IF_ERROR(DrawQueries(rows, place, test, block));
  }
  for (size_t i = 0; i < tallies_.size(); ++i) {
    tallies_[i].Add(rows.features[i], parts_, rows.places, place);
  }
  AddLabels(rows);
  AddMemory(ParsedBytes(spec_, rows), *block);
  rows_ += rows.rows;
  return absl::OkStatus();
}

Part IndexTally::DrawnPart(int64_t row) {
  if (!runs_) return draw_(row);
  return runs_->HeldOut(row / kTextRun) ? Part::kValidation : Part::kTraining;
}

void IndexTally::DrawRows(const Table& rows, bool test, proto::IndexedBlock* block) {
  const std::string& by = spec_.split().by();
  const double* const values = by.empty() ? nullptr : rows.orders.at(by).data();
  std::array<int64_t, 3> counts = {};
  std::vector<int64_t> held_out, for_validation;
  for (int64_t row = 0; row < rows.rows; ++row) {
    const int64_t number = rows_ + row;
    const bool held = !test && held_out_.rows.Has(number);
    Part part = Part::kTest;
    if (!test && values != nullptr) {
      part = cuts_.Next(number, values[row], held, held_out_.of_all.Has(number));
    } else if (!test && !held) {
      part = DrawnPart(number);
    }
    if (held) held_out.push_back(row);
    if (held && held_out_.validation.Has(number)) {
      part = Part::kValidation;
      for_validation.push_back(row);
    }
    parts_.push_back(part);
    ++counts[static_cast<size_t>(part)];
  }
  if (!held_out.empty()) block->set_held_out(EncodeRows(held_out, 0));
  if (!for_validation.empty()) block->set_held_out_validation(EncodeRows(for_validation, 0));
  block->set_training(counts[0]);
  block->set_validation(counts[1]);
  block->set_test(counts[2]);
}

absl::Status IndexTally::DrawQueries(const Table& rows, const BlockPlace& place, bool test,
                                     proto::IndexedBlock* block) {
  const KeyColumn& key = rows.keys.at(spec_.query());
  // A query ends with its file.
  if (place.file != last_file_) query_.reset();
  last_file_ = place.file;
  const bool goes_on = query_ && rows.rows > 0 && key.names.text(key.ids.front()) == query_->name();
  if (!goes_on) {
    block->clear_carried_rows();
    block->clear_carried_bytes();
    block->clear_carried_hash();
  }
  std::array<int64_t, 3> counts = {};
  std::vector<bool> seen(static_cast<size_t>(key.names.size()));
  Part part = goes_on ? static_cast<Part>(query_->part()) : Part::kTraining;
  for (int64_t row = 0; row < rows.rows; ++row) {
    const auto at = static_cast<size_t>(row);
    const auto query = static_cast<size_t>(key.ids[at]);
    if (row == 0 ? !goes_on : key.ids[at] != key.ids[at - 1]) {
      if (seen[query]) {
        const std::string& path = place.file < spec_.paths_size()
                                      ? spec_.paths(place.file)
                                      : spec_.split().test_paths(place.file - spec_.paths_size());
        return QueryComesAgain(
            absl::StrCat(path, ":", rows.places.LineOf(row) + place.lines_before),
            key.names.text(key.ids[at]));
      }
      part = test ? Part::kTest : draw_(rows_ + row);
      ++counts[static_cast<size_t>(part)];
    }
    seen[query] = true;
    parts_.push_back(part);
  }
  block->set_training(counts[0]);
  block->set_validation(counts[1]);
  block->set_test(counts[2]);
  if (rows.rows == 0) return absl::OkStatus();
  if (!query_) query_.emplace();
  query_->set_name(key.names.text(key.ids.back()));
  query_->set_part(static_cast<int32_t>(part));
  return absl::OkStatus();
}

void IndexTally::AddMemory(int64_t bytes, const proto::IndexedBlock& block) {
  largest_block_ = std::max(largest_block_, bytes);
  if (!query_ || block.rows() == 0) return;
  const auto share = static_cast<double>(block.carried_rows()) / static_cast<double>(block.rows());
  const int64_t with_carried =
      query_->memory() + static_cast<int64_t>(static_cast<double>(bytes) * share);
  if (block.carried_rows() > 0) largest_block_ = std::max(largest_block_, with_carried);
  query_->set_memory(block.carried_rows() == block.rows() ? with_carried : bytes);
}

void IndexTally::AddLabels(const Table& rows) {
  const auto add = [this](const std::vector<float>& labels, const std::vector<float>* weights,
                          LabelsByPart* summaries) {
    for (size_t row = 0; row < labels.size(); ++row) {
      const float weight = weights == nullptr ? 1 : (*weights)[row];
      if (weight > 0) (*summaries)[static_cast<size_t>(parts_[row])].Add(labels[row], weight);
    }
  };
  add(rows.labels, spec_.label().weight().empty() ? nullptr : &rows.weights, &labels_[0]);
  size_t at = 1;
  const std::vector<NamedLabel> named = NamedLabels(spec_);
  for (size_t i = 0; i < named.size(); ++i) {
    if (named[i].is_weight) continue;
    const std::vector<float>* const labels = &rows.named_labels[i];
    add(*labels, named[i].spec->weight().empty() ? nullptr : labels + 1, &labels_[at++]);
  }
}

absl::Status IndexTally::CheckVocabularies(const Table& table) const {
  const int64_t memory = SizesOf(spec_.stream()).memory;
  int64_t all = BytesOf(table.side_tables), largest = -1;
  size_t of = 0;
  for (size_t i = 0; i < tallies_.size(); ++i) {
    const int64_t bytes = tallies_[i].bytes(table.features[i]);
    all += bytes;
    if (bytes <= largest) continue;
    largest = bytes;
    of = i;
  }
  if (all <= memory) return absl::OkStatus();
  const proto::FeatureSpec& feature = spec_.features(static_cast<int>(of));
  const bool names = table.features[of].hashes != nullptr;
  const char* const wanted =
      names ? "no keep_names, without which nothing of its values is kept, or more memory"
      : runs_
          ? "more memory: all different words of a text are counted before rare ones are left out"
          : "id: hash, which needs no vocabulary (a hash table), or hash_buckets, or more memory";
  return absl::ResourceExhaustedError(absl::StrCat(
      "data set: feature ", Quoted(feature.name()), ": after ", rows_, " rows ",
      names ? "keep_names has kept " : "its vocabulary has ", table.features[of].texts.size(),
      " values, and ", names ? "names and vocabularies" : "vocabularies", " take ", BytesText(all),
      ", more than dataset.memory (", BytesText(memory), "); wanted ", wanted));
}

absl::Status IndexTally::Continue(const proto::IndexState& before) {
  rows_ = before.rows();
  query_.reset();
  if (before.has_query()) query_ = before.query();
  cuts_ = TimeCuts(before.cuts());
  ASSIGN_OR_RETURN(held_out_, FromProto(before.held_out(), before.rows()));
  last_file_ = 0;
  for (size_t i = 0; i < tallies_.size() && i < size_t(before.numbers_size()); ++i) {
    tallies_[i].Continue(before.numbers(static_cast<int>(i)));
  }
  int at = 0;
  for (LabelsByPart& labels : labels_) {
    for (LabelSummary& summary : labels) {
      summary = at < before.labels_size() ? SummaryOf(before.labels(at)) : LabelSummary();
      ++at;
    }
  }
  return absl::OkStatus();
}

void IndexTally::Save(proto::IndexState* after) const {
  after->set_rows(rows_);
  if (query_) *after->mutable_query() = *query_;
  if (!spec_.split().by().empty()) *after->mutable_cuts() = cuts_.Save();
  for (const FeatureTally& tally : tallies_) tally.Save(after->add_numbers());
  for (const LabelsByPart& labels : labels_) {
    for (const LabelSummary& summary : labels) *after->add_labels() = ToProto(summary);
  }
}

void IndexTally::TakePart(const Table& table, absl::Span<const int64_t> texts,
                          proto::IndexedPart* part) {
  for (ValueCounts& counts : counts_) counts.Save(part->add_counts());
  if (!ranges_.empty()) return;
  part->set_largest_block(largest_block_);
  for (size_t i = 0; i < tallies_.size(); ++i) {
    tallies_[i].TakePart(table.features[i], texts[i], part->add_features());
  }
}

absl::Status IndexTally::Merge(const proto::IndexedPart& part, int32_t first, int32_t end,
                               Table* table) {
  const size_t features = ranges_.empty() ? tallies_.size() : 0;
  if (part.features_size() != static_cast<int>(features) ||
      part.counts_size() != static_cast<int>(counts_.size())) {
    return absl::InvalidArgumentError("the part is of another data set");
  }
  for (size_t i = 0; i < features; ++i) {
    RETURN_IF_ERROR(
        tallies_[i].Merge(part.features(static_cast<int>(i)), first, end, &table->features[i]));
  }
  for (size_t i = 0; i < counts_.size(); ++i) {
    RETURN_IF_ERROR(counts_[i].Merge(part.counts(static_cast<int>(i))));
  }
  largest_block_ = std::max(largest_block_, part.largest_block());
  return Continue(part.after());
}

absl::Status IndexTally::Finish(const Table& table, proto::DatasetIndex* index) const {
  const auto path = [this](int32_t file) {
    return file < spec_.paths_size() ? spec_.paths(file)
                                     : spec_.split().test_paths(file - spec_.paths_size());
  };
  for (size_t i = 0; i < tallies_.size(); ++i) {
    RETURN_IF_ERROR(tallies_[i].Finish(table.features[i], path, index->add_features()));
  }
  // By part, of the label and then of each other one.
  for (const LabelsByPart& labels : labels_) {
    for (const LabelSummary& summary : labels) *index->add_labels() = ToProto(summary);
  }
  if (!spec_.split().by().empty()) *index->mutable_cuts() = cuts_.Save();
  return absl::OkStatus();
}

void SaveChain(const RowChain& chain, proto::IndexState* state) {
  const RowChain::State saved = chain.state();
  state->set_chain_rows(saved.rows);
  state->mutable_chain()->Add(saved.lanes.begin(), saved.lanes.end());
  state->set_chain_marked(saved.marked.has_value());
  state->set_chain_mark(saved.marked.value_or(0));
}

absl::Status ContinueChain(const proto::IndexState& state, RowChain* chain) {
  RowChain::State saved;
  if (state.chain_size() != static_cast<int>(saved.lanes.size())) {
    return absl::InvalidArgumentError("the state before a part has no hash of rows");
  }
  saved.rows = state.chain_rows();
  std::copy(state.chain().begin(), state.chain().end(), saved.lanes.begin());
  if (state.chain_marked()) saved.marked = state.chain_mark();
  chain->Continue(saved);
  return absl::OkStatus();
}

}  // namespace coxswain::data
