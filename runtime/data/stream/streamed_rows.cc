// The blocks and rows of a ticket, reading ahead, and the tensors of each column.
#include "runtime/data/stream/streamed_rows.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/data/columns.h"
#include "runtime/data/data_format.h"
#include "runtime/data/history.h"
#include "runtime/data/list_key.h"
#include "runtime/data/permutation.h"
#include "runtime/data/queries.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/stream/group_files.h"
#include "runtime/data/stream/group_ranges.h"
#include "runtime/data/stream/history_gather.h"
#include "runtime/data/stream/row_cells.h"
#include "runtime/data/stream/stream_options.h"

namespace coxswain::data {
namespace {

using proto::FeatureSpec;

// Number of blocks to read ahead if each block is a window.
constexpr int64_t kAheadInFiles = 2;
// Rows whose lists are looked up ahead.
constexpr int64_t kRowsAhead = 16;

void PrefetchId(const IdArray& ids, int64_t at) {
  if (ids.narrow() != nullptr) {
    __builtin_prefetch(ids.narrow() + at);
  } else {
    __builtin_prefetch(ids.wide() + at);
  }
}

template <typename T>
Tensor NewColumn(DType dtype, int64_t size, T** out) {
  Tensor tensor(dtype, Shape{size});
  *out = tensor.mutable_data<T>();
  return tensor;
}

}  // namespace

// The examples of a batch. They are anywhere in their blocks, so that nearly every read misses the
// cache. The loops read nothing else, so that many misses overlap.
struct StreamedRows::Picks {
  std::vector<BlockCache::Block> blocks;  // held
  std::vector<CellRow> picks;
  std::vector<int64_t> numbers;     // of examples: of rows, or of queries
  std::vector<int32_t> query_ends;  // where examples are queries: behind the last row of each
  std::vector<CellTarget> targets;  // columns of one value that are still to be gathered
  std::vector<size_t> places;       // by categorical feature: where in the batch it begins
  int64_t begin = 0;
  uint64_t sample_key = 0;
  bool training = false;

  int64_t size() const { return static_cast<int64_t>(picks.size()); }
  // As BatchRows::SampleKey.
  uint64_t SampleKey(int64_t i, int column) const {
    const CellRow& pick = picks[static_cast<size_t>(i)];
    const int64_t place = query_ends.empty() ? begin + i : blocks[pick.block]->first_row + pick.row;
    return HashPair(HashPair(sample_key, static_cast<uint64_t>(place)),
                    static_cast<uint64_t>(column));
  }
  // The column `of` of each block.
  template <typename F>
  auto OfBlocks(F of) const {
    std::vector<decltype(of(*blocks[0]))> all;
    all.reserve(blocks.size());
    for (const BlockCache::Block& block : blocks) all.push_back(of(*block));
    return all;
  }
  // A number of such a column for each example.
  template <typename T, typename Out>
  void Gather(const std::vector<const T*>& columns, Out* out) const {
    for (const CellRow& pick : picks) *out++ = columns[pick.block][pick.row];
  }
};

StreamedRows::StreamedRows(std::shared_ptr<const StreamedSpec> data,
                           BlockCache::Background background)
    : data_(std::move(data)), named_labels_(NamedLabels(data_->spec).size()) {
  std::vector<int64_t> examples[3];
  for (const proto::IndexedBlock& block : data_->index->blocks()) {
    examples[0].push_back(block.training());
    examples[1].push_back(block.validation());
    examples[2].push_back(block.test());
  }
  const int64_t run = data_->index->is_text() ? kTextBlock : 1;
  for (auto& of_part : examples) {
    orders_.push_back(std::make_unique<BlockOrder>(std::move(of_part), data_->index->window(),
                                                   data_->spec.stream().batch(), run));
  }
  if (data_->index->is_text()) text_ = std::make_unique<StreamedText>(data_);
  BlockCache::Options options;
  options.memory = SizesOf(data_->spec.stream()).memory - data_->bytes();
  options.largest_block = data_->index->largest_block();
  options.parse = [data = data_](int64_t block) { return ParseBlock(*data, block); };
  options.background = std::move(background);
  options.coming = [data = data_](const std::vector<int64_t>& blocks) {
    ReadBlocksAhead(*data, blocks);
  };
  cache_ = BlockCache::Make(std::move(options));
}

std::vector<ExamplePlace> StreamedRows::Places(const Ticket& ticket,
                                               std::optional<uint64_t> order_key) {
  const BlockOrder& order = *orders_[static_cast<size_t>(ticket.part)];
  if (order_key) {
    return order.InEpoch(*order.DrawEpoch(*order_key), ticket.begin, ticket.end);
  }
  std::vector<ExamplePlace> places;
  places.reserve(static_cast<size_t>(ticket.size()));
  for (int64_t i = ticket.begin; i < ticket.end; ++i) places.push_back(order.InFiles(i));
  return places;
}

namespace {

// The blocks of the window at a position, and of the next one if `two`.
void AddWindow(const BlockOrder::Epoch& epoch, int64_t position, bool two,
               std::vector<int64_t>* blocks) {
  const int64_t window = epoch.window_of(position);
  const int64_t last = two ? std::min(window + 1, epoch.windows() - 1) : window;
  for (int64_t i = epoch.first_block(window); i < epoch.end_block(last); ++i) {
    blocks->push_back(epoch.run().block(i));
  }
}

// The block at a position in the order of the files, and `more` blocks after it, but none of
// another run.
void AddRun(const BlockOrder& order, int64_t position, int64_t more, bool one_run,
            std::vector<int64_t>* blocks) {
  const BlockRun& files = order.files();
  const int64_t at = files.Find(position, 0, files.blocks());
  const int64_t end = one_run ? (at / order.window() + 1) * order.window() : files.blocks();
  for (int64_t i = at; i < std::min({files.blocks(), end, at + 1 + more}); ++i) {
    blocks->push_back(files.block(i));
  }
}

}  // namespace

void StreamedRows::ReadAhead(const Ordered& now, const Ordered* ahead) {
  std::vector<int64_t> blocks;
  const auto add = [&](const Ordered& at, int64_t position, bool alone) {
    const BlockOrder& order = *orders_[static_cast<size_t>(at.ticket.part)];
    if (at.order_key) {
      AddWindow(*order.DrawEpoch(*at.order_key), position, /*two=*/!alone, &blocks);
    } else {
      AddRun(order, position, kAheadInFiles, /*one_run=*/alone, &blocks);
    }
  };
  add(now, now.ticket.end - 1, /*alone=*/ahead != nullptr);
  if (ahead != nullptr) add(*ahead, ahead->ticket.begin, /*alone=*/true);
  cache_->WantNext(std::move(blocks));
}

int64_t StreamedRows::GroupOf(const Ticket& ticket, std::optional<uint64_t> order_key) const {
  const BlockOrder& order = *orders_[static_cast<size_t>(ticket.part)];
  return order_key ? order.DrawEpoch(*order_key)->window_of(ticket.begin)
                   : order.RunInFiles(ticket.begin);
}

std::optional<std::string> StreamedRows::PlaceOf(const Ticket& ticket,
                                                 std::optional<uint64_t> order_key) {
  Ticket first = ticket;
  first.end = first.begin + 1;
  const ExamplePlace place = Places(first, order_key)[0];
  const auto block = cache_->Get(place.block);
  if (!block.ok()) return std::nullopt;
  const size_t part = static_cast<size_t>(ticket.part), index = static_cast<size_t>(place.index);
  return (*block)->places.Of((*block)->rows[part][index]);
}

absl::Status StreamedRows::GatherLists(int index, const Picks& picks, Batch* batch) const {
  const FeatureSpec& feature = data_->spec.features(index);
  const size_t at = static_cast<size_t>(index);
  const bool weighted =
      FormatOf(data_->spec).HasIndices(feature) || !feature.weight_separator().empty();
  Tensor offsets;
  const auto lists_of =
      picks.OfBlocks([at](const ParsedBlock& block) { return &block.columns[at].lists; });
  const auto ends_of = [&](int64_t i) {
    const CellRow& pick = picks.picks[static_cast<size_t>(i)];
    return lists_of[pick.block]->offsets.data() + pick.row;
  };
  const auto length = [&](int64_t i) {
    // Both are misses where rows are shuffled: those of several rows are on their way.
    if (i + kRowsAhead < picks.size()) __builtin_prefetch(ends_of(i + kRowsAhead));
    const int64_t* const offsets = ends_of(i);
    PrefetchId(lists_of[picks.picks[static_cast<size_t>(i)].block]->ids, offsets[0]);
    return offsets[1] - offsets[0];
  };
  const int64_t most = feature.max_values();
  RETURN_IF_ERROR(FillOffsets(
      feature.name(), picks.size(),
      [&](int64_t i) { return most > 0 ? std::min(length(i), most) : length(i); }, &offsets));
  const int32_t* const ends = offsets.data<int32_t>();
  int64_t* values = nullptr;
  float* weights = nullptr;
  batch->push_back(NewColumn(DType::kI64, ends[picks.size()], &values));
  Tensor of_weights;
  if (weighted) of_weights = NewColumn(DType::kF32, ends[picks.size()], &weights);
  for (int64_t i = 0; i < picks.size(); ++i) {
    const CellRow& pick = picks.picks[static_cast<size_t>(i)];
    const RaggedIds& lists = *lists_of[pick.block];
    const auto first = static_cast<size_t>(lists.offsets[pick.row]);
    const auto all = static_cast<uint32_t>(lists.offsets[pick.row + 1] - lists.offsets[pick.row]);
    const auto taken = static_cast<uint32_t>(ends[i + 1] - ends[i]);
    const auto take = [&](uint32_t value) {
      *values++ = lists.ids[first + value];
      if (weighted) *weights++ = lists.weights[first + value];
    };
    if (taken == all) {
      for (uint32_t value = 0; value < taken; ++value) take(value);
    } else {
      const uint64_t key = picks.training ? picks.SampleKey(i, index)
                                          : ListKey(picks.sample_key, static_cast<uint64_t>(index),
                                                    lists.ids, first, all);
      SampleIndices(key, all, taken, take);
    }
  }
  batch->push_back(std::move(offsets));
  if (weighted) batch->push_back(std::move(of_weights));
  return absl::OkStatus();
}

void StreamedRows::GatherIds(const Picks& picks, size_t column, int64_t* out) {
  const auto narrow = picks.OfBlocks(
      [column](const ParsedBlock& block) { return block.columns[column].ids.narrow(); });
  const auto wide = picks.OfBlocks(
      [column](const ParsedBlock& block) { return block.columns[column].ids.wide(); });
  const auto none = [](const void* ids) { return ids == nullptr; };
  if (std::all_of(wide.begin(), wide.end(), none)) {
    picks.Gather(narrow, out);
  } else if (std::all_of(narrow.begin(), narrow.end(), none)) {
    picks.Gather(wide, out);
  } else {
    for (const CellRow& pick : picks.picks) {
      *out++ = picks.blocks[pick.block]->columns[column].ids[pick.row];
    }
  }
}

void StreamedRows::GatherNumbers(const Picks& picks, size_t column, float* out) const {
  const auto features = static_cast<size_t>(data_->spec.features_size());
  picks.Gather(picks.OfBlocks([=](const ParsedBlock& block) {
    if (column < features) return block.columns[column].numbers.data();
    if (column == features) return block.labels.data();
    if (column == features + 1) return block.weights.data();
    return block.named_labels[column - features - 2].data();
  }),
               out);
}

void StreamedRows::GatherTargets(const Picks& picks) const {
  if (picks.size() == 0 || picks.targets.empty()) return;
  if (data_->spec.shuffle()) {
    const auto cells = picks.OfBlocks([](const ParsedBlock& block) { return &block.cells; });
    GatherCells(cells, picks.picks, picks.targets);
    return;
  }
  for (const CellTarget& target : picks.targets) {
    if (target.ids != nullptr) {
      GatherIds(picks, target.column, target.ids);
    } else {
      GatherNumbers(picks, target.column, target.numbers);
    }
  }
}

absl::Status StreamedRows::AddQuery(size_t part, uint32_t block, int64_t index, Picks* picks) {
  const ParsedBlock& parsed = *picks->blocks[block];
  const auto query = static_cast<size_t>(index);
  for (uint32_t row = parsed.rows[part][query]; row < parsed.query_ends[part][query]; ++row) {
    picks->picks.push_back({block, row});
  }
  if (picks->size() > std::numeric_limits<int32_t>::max()) {
    return absl::ResourceExhaustedError(
        "a batch of queries has more than 2^31 - 1 rows; make batches smaller");
  }
  picks->query_ends.push_back(static_cast<int32_t>(picks->size()));
  return absl::OkStatus();
}

absl::Status StreamedRows::FindExamples(const Ticket& ticket,
                                        const std::vector<ExamplePlace>& places, Picks* picks) {
  if (places.empty()) return absl::OkStatus();
  // The blocks of a batch are near each other in the order that they come in.
  int64_t first = places.front().run, last = first;
  for (const ExamplePlace& place : places) {
    first = std::min(first, place.run);
    last = std::max(last, place.run);
  }
  constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  std::vector<uint32_t> numbers(static_cast<size_t>(last - first + 1), kNone);
  picks->picks.reserve(places.size());
  picks->numbers.reserve(places.size());
  for (const ExamplePlace& place : places) {
    uint32_t& block = numbers[static_cast<size_t>(place.run - first)];
    if (block == kNone) {
      ASSIGN_OR_RETURN(auto held, cache_->Get(place.block));
      block = static_cast<uint32_t>(picks->blocks.size());
      picks->blocks.push_back(std::move(held));
    }
    picks->numbers.push_back(place.number);
    if (!data_->spec.query().empty()) {
      RETURN_IF_ERROR(AddQuery(static_cast<size_t>(ticket.part), block, place.index, picks));
      continue;
    }
    picks->picks.push_back({block, static_cast<uint32_t>(place.index)});
  }
  if (!data_->spec.query().empty()) return absl::OkStatus();
  // Converts numbers in the part to rows of the block. If all rows are in one part, they are the
  // same.
  const auto rows_of = picks->OfBlocks([&](const ParsedBlock& parsed) {
    const std::vector<uint32_t>& rows = parsed.rows[static_cast<size_t>(ticket.part)];
    const bool all = !rows.empty() && rows.back() + size_t{1} == rows.size();
    return all ? nullptr : rows.data();
  });
  for (CellRow& pick : picks->picks) {
    if (rows_of[pick.block] != nullptr) pick.row = rows_of[pick.block][pick.row];
  }
  return absl::OkStatus();
}

void StreamedRows::AddNumbers(size_t column, Picks* picks, Batch* batch) {
  CellTarget target{.column = column};
  batch->push_back(NewColumn(DType::kF32, picks->size(), &target.numbers));
  picks->targets.push_back(target);
}

absl::Status StreamedRows::AddFeature(int index, Picks* picks, Batch* batch) const {
  const FeatureSpec& feature = data_->spec.features(index);
  const size_t at = static_cast<size_t>(index);
  if (feature.kind() == FeatureSpec::NUMERIC) {
    AddNumbers(at, picks, batch);
    return absl::OkStatus();
  }
  if (feature.kind() == FeatureSpec::VECTOR) {
    const int64_t width = feature.width();
    float* out = batch->emplace_back(NewNumbers(picks->size(), width)).mutable_data<float>();
    const auto numbers = picks->OfBlocks(
        [at](const ParsedBlock& block) { return block.columns[at].numbers.data(); });
    for (const CellRow& pick : picks->picks) {
      out = std::copy_n(numbers[pick.block] + pick.row * width, width, out);
    }
    return absl::OkStatus();
  }
  picks->places[at] = batch->size();
  if (IsHistory(feature)) {
    batch->resize(batch->size() + 2);
    return absl::OkStatus();
  }
  if (feature.multi_valued()) return GatherLists(index, *picks, batch);
  CellTarget target{.column = at};
  batch->push_back(NewColumn(DType::kI64, picks->size(), &target.ids));
  picks->targets.push_back(target);
  return absl::OkStatus();
}

absl::Status StreamedRows::GatherRows(const Ticket& ticket, const std::vector<ExamplePlace>& places,
                                      Picks* picks, Batch* batch) {
  if (ticket.size() > 0) RETURN_IF_ERROR(FindExamples(ticket, places, picks));
  for (int i = 0; i < data_->spec.features_size(); ++i) {
    RETURN_IF_ERROR(AddFeature(i, picks, batch));
  }
  size_t column = static_cast<size_t>(data_->spec.features_size());
  if (!data_->spec.label().column().empty()) AddNumbers(column, picks, batch);
  if (!data_->spec.label().weight().empty()) AddNumbers(column + 1, picks, batch);
  column += 2;
  for (size_t i = 0; i < named_labels_; ++i) AddNumbers(column + i, picks, batch);
  GatherTargets(*picks);
  if (data_->history) RETURN_IF_ERROR(FillHistory(*picks, ticket.part, batch));
  if (!data_->spec.query().empty()) {
    AppendQueries<int64_t>(picks->query_ends, picks->numbers, batch);
  }
  return absl::OkStatus();
}

absl::StatusOr<Batch> StreamedRows::Read(const Ticket& ticket, std::optional<uint64_t> order_key,
                                         uint64_t sample_key, const Ordered* ahead) {
  Picks picks;
  picks.begin = ticket.begin;
  picks.sample_key = sample_key;
  picks.training = ticket.part == Part::kTraining;
  std::vector<ExamplePlace> places;
  picks.places.resize(static_cast<size_t>(data_->spec.features_size()));
  if (ticket.size() > 0) {
    places = Places(ticket, order_key);
    ReadAhead({ticket, order_key}, ahead);
  }
  Batch batch;
  if (text_ != nullptr) {
    RETURN_IF_ERROR(text_->Gather(ticket.part, places, sample_key, cache_.get(), &batch));
    for (const ExamplePlace& place : places) picks.numbers.push_back(place.number);
  } else {
    RETURN_IF_ERROR(GatherRows(ticket, places, &picks, &batch));
  }
  if (data_->spec.example_ids()) {
    int64_t* out = nullptr;
    batch.push_back(NewColumn(DType::kI64, static_cast<int64_t>(picks.numbers.size()), &out));
    std::copy(picks.numbers.begin(), picks.numbers.end(), out);
  }
  if (ticket.part != Part::kTraining && (data_->known || data_->history)) {
    RETURN_IF_ERROR(AddKnown(picks, &batch));
  }
  return batch;
}

absl::Status StreamedRows::FillHistory(const Picks& picks, Part part, Batch* batch) const {
  const proto::DatasetSpec& spec = data_->spec;
  int index = 0;
  while (!IsHistory(spec.features(index))) ++index;
  ASSIGN_OR_RETURN(const auto file, data_->groups->Open(*data_, *data_->history));
  HistoryGather gather(*file, SizesOf(spec.stream()).memory);
  gather.feature = spec.features(index).name();
  gather.most = spec.features(index).max_values();
  gather.ordered = !data_->history->by.empty();
  const bool others_only = part == Part::kTraining && !gather.ordered;
  if (others_only) {
    gather.own =
        (*batch)[picks.places[static_cast<size_t>(data_->history->feature)]].data<int64_t>();
  }
  ValuesOfQueries of_queries(picks.query_ends, [&](int64_t i) { return gather.own[i]; });
  if (others_only && !picks.query_ends.empty()) gather.own_of_queries = &of_queries;
  gather.sample_key = [&](int64_t i) { return picks.SampleKey(i, index); };
  for (const CellRow& pick : picks.picks) {
    gather.rows.push_back(picks.blocks[pick.block]->of_history[pick.row]);
  }
  const size_t at = picks.places[static_cast<size_t>(index)];
  return gather.Fill(&(*batch)[at], &(*batch)[at + 1]);
}

absl::Status StreamedRows::AddKnown(const Picks& picks, Batch* batch) const {
  const bool own = data_->known.has_value();
  const GroupTarget& target = own ? *data_->known : *data_->history;
  ASSIGN_OR_RETURN(const auto file, data_->groups->Open(*data_, target));
  HistoryGather gather(*file, SizesOf(data_->spec.stream()).memory);
  gather.feature = kKnownColumn;
  gather.sorts = !target.by.empty();
  for (const CellRow& pick : picks.picks) {
    const ParsedBlock& block = *picks.blocks[pick.block];
    gather.rows.push_back((own ? block.of_known : block.of_history)[pick.row]);
  }
  Tensor values, offsets;
  RETURN_IF_ERROR(gather.Fill(&values, &offsets));
  batch->push_back(values);
  batch->push_back(offsets);
  if (!own) return absl::OkStatus();
  int64_t* out = nullptr;
  batch->push_back(NewColumn(DType::kI64, picks.size(), &out));
  for (const GroupedRow& row : gather.rows) *out++ = row.group;
  if (target.held_out) return absl::OkStatus();
  const Tensor items = (*batch)[picks.places[static_cast<size_t>(target.feature)]];
  batch->push_back(NewColumn(DType::kI64, picks.size(), &out));
  const int32_t* ends = offsets.data<int32_t>();
  for (int64_t i = 0; i < picks.size(); ++i) {
    const auto known = values.values<int64_t>().subspan(static_cast<size_t>(ends[i]),
                                                        static_cast<size_t>(ends[i + 1] - ends[i]));
    *out++ = Unseen(items.data<int64_t>()[i], known);
  }
  return absl::OkStatus();
}

}  // namespace coxswain::data
