// Loading: a text, or a table's features, label and history. Then orders and batches of tickets,
// and queries of vocabularies and groups. Streamed data sets are in streamed_dataset.cc.
#include "runtime/data/dataset.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/data_format.h"
#include "runtime/data/dataset_keys.h"
#include "runtime/data/learned.h"
#include "runtime/data/names.h"
#include "runtime/data/negatives.h"
#include "runtime/data/permutation.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/stream/streamed_rows.h"
#include "runtime/data/table.h"
#include "runtime/data/table_rows.h"
#include "runtime/data/text_reader.h"

namespace coxswain::data {

using proto::DatasetSpec;
using proto::FeatureSpec;

Dataset::Dataset() = default;
Dataset::~Dataset() = default;

absl::StatusOr<std::unique_ptr<Dataset>> Dataset::LoadInMemory(const DatasetSpec& spec,
                                                               uint64_t reader) {
  ASSIGN_OR_RETURN(const DatasetSpec checked, CheckSpec(spec));
  if (checked.paths().empty()) {  // of one that is followed: it is streamed
    return absl::InvalidArgumentError("data set: wanted at least one path, found none");
  }
  std::unique_ptr<Dataset> dataset(new Dataset);
  RETURN_IF_ERROR(dataset->Build(checked));
  dataset->order_.seed = spec.per_worker() ? HashPair(spec.seed(), reader) : spec.seed();
  return dataset;
}

void Dataset::SetOrder(const DatasetSpec& spec) {
  order_.of_data = spec.seed();
  order_.shuffled = spec.shuffle();
  if (LeavesOutNegatives(spec.label())) order_.keep_negatives = spec.label().keep_negatives();
}

absl::Status Dataset::BuildText(const DatasetSpec& spec) {
  ASSIGN_OR_RETURN(Text text, ReadText(spec));
  SetOrder(spec);
  block_ = kTextBlock;
  fingerprint_ = HashPair(HashParts(spec, text.since_training),
                          HashPair(text.content_hash, text.tokens.size()));
  found_.trained = std::move(text.trained);
  found_.since = text.since_training;
  text_counts_ = std::move(text.counts);
  Feature& word = features_[kWordFeature];
  word.vocabulary = std::move(text.vocabulary);
  Remember(spec.features(0), word);
  auto column = std::make_unique<SkipGramColumn>(std::move(text.tokens), std::move(text.parts),
                                                 text_counts_, spec.text());
  text_ = column.get();
  batch_columns_.push_back(std::move(column));
  if (spec.example_ids()) {
    batch_columns_.push_back(std::make_unique<ExampleIdColumn>(kExampleIdColumn));
  }
  return DescribeColumns();
}

absl::Status Dataset::Build(const DatasetSpec& spec) {
  if (!FormatOf(spec).has_rows()) return BuildText(spec);
  ASSIGN_OR_RETURN(Table table, ReadTable(spec));
  return BuildRows(spec, std::move(table));
}

absl::StatusOr<std::unique_ptr<Dataset>> Dataset::WithoutRows(const DatasetSpec& spec) {
  ASSIGN_OR_RETURN(const DatasetSpec checked, CheckSpec(spec));
  if (checked.learned().empty() || !FormatOf(checked).has_rows()) {
    return absl::InvalidArgumentError("data set: wanted rows of which a model has learned");
  }
  std::unique_ptr<Dataset> dataset(new Dataset);
  Table table;
  TableRows rows(&table, 0);
  RETURN_IF_ERROR(BindColumns(checked, {}, &table, &rows));
  RETURN_IF_ERROR(dataset->BuildRows(checked, std::move(table)));
  return dataset;
}

absl::Status Dataset::BuildRows(const DatasetSpec& spec, Table table) {
  SetOrder(spec);
  found_.trained = RowsToKeep(spec, table.chain);
  found_.since = CompareWithTraining(spec, table.chain);
  found_.bad = table.bad_rows;
  fingerprint_ =
      HashPair(HashParts(spec, found_.since), HashPair(table.content_hash, table.own_rows));
  places_ = table.places;
  places_.ShrinkToFit();
  const KeyColumn no_key;
  const std::string& per = spec.split().holdout_per();
  const KeyColumn& holdout = per.empty() ? no_key : table.keys[per];
  RowOrder order;
  order.group_of = holdout.ids;
  order.groups = holdout.names.size();
  if (!spec.split().by().empty()) order.by = table.orders[spec.split().by()];
  if (spec.query().empty()) {
    rows_ = SplitRows(spec.split(), order_.of_data, table.own_rows, table.rows, order,
                      RowsThatKeepParts(found_.since, spec));
  } else {
    RETURN_IF_ERROR(SplitQueries(spec, table));
  }
  for (int i = 0; i < spec.features_size(); ++i) {
    if (IsHistory(spec.features(i))) {
      history_of_[spec.features(i).name()] = spec.features(i).history_of();
      batch_columns_.push_back(nullptr);  // made when the feature it is of is there
      continue;
    }
    RETURN_IF_ERROR(AddFeature(spec, i, &table));
  }
  if (spec.has_known_items()) AddKnownItems(spec, table);
  if (!history_of_.empty()) AddHistory(spec, &table);
  const auto add_numbers = [this](std::string name, std::vector<float> numbers) {
    auto column = std::make_unique<NumericColumn>(std::move(name), std::move(numbers));
    const NumericColumn* const added = column.get();
    batch_columns_.push_back(std::move(column));
    return added;
  };
  labels_.emplace_back();
  if (!spec.label().column().empty()) {
    labels_[0].labels = add_numbers(kLabelColumn, std::move(table.labels));
  }
  if (!spec.label().weight().empty()) {
    labels_[0].weights = add_numbers(kWeightColumn, std::move(table.weights));
    if (own_.training != nullptr) own_.training->set_weights(labels_[0].weights);
  }
  const std::vector<NamedLabel> named = NamedLabels(spec);
  for (size_t i = 0; i < named.size(); ++i) {
    const NumericColumn* const added = add_numbers(named[i].name, std::move(table.named_labels[i]));
    if (named[i].is_weight) {
      labels_.back().weights = added;
    } else {
      labels_.push_back({named[i].spec->name(), added});
    }
  }
  if (queries_ != nullptr) batch_columns_.push_back(std::make_unique<QueryColumn>());
  if (spec.example_ids()) {
    batch_columns_.push_back(std::make_unique<ExampleIdColumn>(kExampleIdColumn));
  }
  return DescribeColumns();
}

absl::Status Dataset::SplitQueries(const DatasetSpec& spec, const Table& table) {
  const KeyColumn& key = table.keys.at(spec.query());
  std::vector<std::string> names;
  for (int64_t i = 0; i < key.names.size(); ++i) names.push_back(key.names.text(i));
  auto queries = std::make_unique<Queries>();
  RETURN_IF_ERROR(queries->Build(key.ids, names, table.places, table.own_rows,
                                 PartDraw(spec.split(), order_.of_data)));
  rows_ = queries->TakeRows();
  queries_ = std::move(queries);
  return absl::OkStatus();
}

absl::Status Dataset::AddNumeric(const DatasetSpec& spec, const FeatureSpec& feature,
                                 TableFeature* table) {
  Feature& added = features_[feature.name()];
  added.transform = std::make_unique<NumericTransform>();
  if (const proto::LearnedFeature* learned = FindStatistics(spec, feature.name())) {
    *added.transform = {feature.normalization(), learned->shift(), learned->scale()};
  } else if (feature.normalization() == FeatureSpec::DIVIDE) {
    *added.transform = FixedTransform(feature);
  } else {
    *added.transform = FitTransform(feature.normalization(), table->numbers, rows(Part::kTraining));
  }
  std::vector<float> values;
  values.reserve(table->numbers.size());
  for (const double number : table->numbers) values.push_back(added.transform->Apply(number));
  std::vector<double>().swap(table->numbers);
  batch_columns_.push_back(std::make_unique<NumericColumn>(feature.name(), std::move(values)));
  Remember(feature, added);
  return absl::OkStatus();
}

void Dataset::AddVector(const FeatureSpec& feature, TableFeature* table) {
  Feature& added = features_[feature.name()];
  added.transform = std::make_unique<NumericTransform>(FixedTransform(feature));
  for (float& number : table->vectors) number = added.transform->Apply(number);
  table->vectors.shrink_to_fit();
  batch_columns_.push_back(
      std::make_unique<NumericColumn>(feature.name(), std::move(table->vectors), feature.width()));
  Remember(feature, added);
}

absl::Status Dataset::FixIds(const DatasetSpec& spec, int index, Table* table) {
  const FeatureSpec& feature = spec.features(index);
  const proto::LearnedFeature* learned = FindLearned(spec, feature.name());
  TableFeature* columns = &table->features[static_cast<size_t>(index)];
  if (FormatOf(spec).HasIndices(feature)) {
    const int64_t numbers = learned != nullptr           ? learned->numbers()
                            : spec.libsvm_features() > 0 ? spec.libsvm_features()
                                                         : -1;
    const proto::LearnedFeature* known = FindKnown(spec, feature.name());
    LearnNumbers(numbers, spec.zero_based() ? 0 : 1, rows(Part::kTraining), columns,
                 known == nullptr ? 0 : known->numbers());
    return absl::OkStatus();
  }
  if (learned != nullptr || !LearnsVocabulary(feature, spec)) return absl::OkStatus();
  return LearnIds(feature, rows(Part::kTraining), static_cast<size_t>(index), table);
}

absl::Status Dataset::AddFeature(const DatasetSpec& spec, int index, Table* table) {
  const FeatureSpec& feature = spec.features(index);
  TableFeature* columns = &table->features[static_cast<size_t>(index)];
  if (feature.kind() == FeatureSpec::NUMERIC) return AddNumeric(spec, feature, columns);
  if (feature.kind() == FeatureSpec::VECTOR) {
    AddVector(feature, columns);
    return absl::OkStatus();
  }
  Feature& added = features_[feature.name()];
  if (columns->hashes != nullptr) {
    added.names = TakeNames(feature, rows(Part::kTraining), columns);
    added.keeps_names = true;
  }
  RETURN_IF_ERROR(FixIds(spec, index, table));
  added.vocabulary = std::move(columns->vocabulary);
  std::unique_ptr<CategoricalColumn> column;
  if (feature.multi_valued()) {
    columns->lists.ids.ShrinkToFit();
    const bool weighted =
        (FormatOf(spec).HasIndices(feature)) || !feature.weight_separator().empty();
    column = std::make_unique<RaggedColumn>(feature.name(), std::move(columns->lists), weighted,
                                            feature.max_values(), static_cast<uint64_t>(index));
  } else {
    columns->ids.ShrinkToFit();
    column = std::make_unique<IdColumn>(feature.name(), std::move(columns->ids));
    added.single = true;
  }
  added.column = column.get();
  batch_columns_.push_back(std::move(column));
  Remember(feature, added);
  return absl::OkStatus();
}

void Dataset::Remember(const FeatureSpec& spec, const Feature& feature) {
  proto::LearnedFeature& learned = learned_.emplace_back();
  learned.set_name(spec.name());
  learned.set_id(spec.id());
  if (feature.transform != nullptr) {
    learned.set_normalization(feature.transform->kind);
    learned.set_shift(feature.transform->shift);
    learned.set_scale(feature.transform->scale);
    return;
  }
  const Vocabulary& vocabulary = *feature.vocabulary;
  if (vocabulary.unbounded()) return;
  if (const std::vector<std::string>* texts = vocabulary.texts()) {
    learned.set_vocabulary_size(static_cast<int64_t>(texts->size()));
    learned.set_oov_buckets(vocabulary.size() - learned.vocabulary_size());
  } else if (vocabulary.of_numbers()) {
    learned.set_numbers(vocabulary.size());
  } else {
    learned.set_hash_buckets(vocabulary.size());
  }
}

namespace {

// Those of the rows that a history has.
std::vector<uint32_t> RowsOfHistory(const DatasetSpec& spec, const Table& table,
                                    std::vector<uint32_t> rows) {
  if (!HasOnlyPositive(spec)) return rows;
  std::erase_if(rows, [&table](uint32_t row) { return !IsPositive(table, row); });
  return rows;
}

}  // namespace

void Dataset::AddHistory(const DatasetSpec& spec, Table* table) {
  const std::vector<uint32_t> training = RowsOfHistory(spec, *table, rows(Part::kTraining));
  for (int i = 0; i < spec.features_size(); ++i) {
    const FeatureSpec& feature = spec.features(i);
    if (!IsHistory(feature)) continue;
    // CheckSpec made sure that it is a feature of one value.
    const auto* own = static_cast<const IdColumn*>(features_[feature.history_of()].column);
    KeyColumn& key = table->keys[feature.group_by()];
    groups_.reserve(static_cast<size_t>(key.names.size()));
    for (int64_t g = 0; g < key.names.size(); ++g) groups_.push_back(key.names.text(g));
    std::vector<double> order;
    if (!feature.by().empty()) order = std::move(table->orders[feature.by()]);
    if (feature.width() > 0) {
      own_.training = std::make_unique<TargetColumn>(
          feature.name(), HistoryWindows(key.ids, order, training, feature.width()), own);
    }
    std::vector<double> moments;
    if (queries_ != nullptr && !order.empty()) moments = LeastOfQueries(*queries_, rows_, order);
    history_ = std::make_unique<History>(std::move(key.ids), key.names.size(), own->ids(), training,
                                         std::move(order), std::move(moments));
    std::unique_ptr<Column> column = std::make_unique<HistoryColumn>(
        feature.name(), history_.get(), own, feature.max_values(), static_cast<uint64_t>(i));
    if (own_.training != nullptr) {
      column = std::make_unique<WindowedHistory>(std::move(column), own_.training.get());
    }
    batch_columns_[static_cast<size_t>(i)] = std::move(column);
    if (own_.known == nullptr) {
      own_.known = std::make_unique<KnownColumn>(kKnownColumn, history_.get());
    }
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    group_ids_.emplace(groups_[g], static_cast<int64_t>(g));
  }
}

void Dataset::AddKnownItems(const DatasetSpec& spec, const Table& table) {
  // CheckSpec made sure that it is a feature of one value.
  const auto* items = static_cast<const IdColumn*>(features_[spec.known_items().item()].column);
  const KeyColumn& key = table.keys.at(spec.known_items().group_by());
  std::vector<uint32_t> taken = rows(Part::kTraining);
  if (spec.known_items().held_out()) {
    for (const Part part : {Part::kValidation, Part::kTest}) {
      taken.insert(taken.end(), rows(part).begin(), rows(part).end());
    }
  }
  own_.known = std::make_unique<KnownColumn>(
      kKnownColumn,
      std::make_unique<const History>(key.ids, key.names.size(), items->ids(),
                                      RowsOfHistory(spec, table, std::move(taken))),
      spec.known_items().held_out() ? nullptr : &items->ids());
}

absl::Status Dataset::DescribeColumns() {
  for (const auto& column : batch_columns_) column->Describe(&specs_[0]);
  specs_[1] = specs_[0];
  if (own_.training != nullptr) own_.training->Describe(&specs_[0]);
  if (own_.known != nullptr) own_.known->Describe(&specs_[1]);
  for (const std::vector<ColumnSpec>& specs : specs_) {
    absl::flat_hash_set<std::string> names;
    for (const ColumnSpec& spec : specs) {
      if (!names.insert(spec.name).second) {
        return absl::InvalidArgumentError(
            absl::StrCat("data set: wanted batch columns of different names, found ",
                         Quoted(spec.name), " twice"));
      }
    }
  }
  return absl::OkStatus();
}

std::optional<uint64_t> Dataset::OrderKey(const Ticket& ticket) const {
  const bool training = ticket.part == Part::kTraining;
  if (training ? !order_.shuffled : ticket.epoch == 0) return std::nullopt;
  // What is evaluated is the same whoever reads it.
  return StreamKey(training ? order_.seed : order_.of_data, kShuffleStream, ticket);
}

std::vector<uint32_t> Dataset::DrawNumbers(const Ticket& ticket) const {
  std::vector<uint32_t> numbers;
  numbers.reserve(static_cast<size_t>(ticket.size()));
  // Blocks of examples are permuted; an incomplete block stays at the end.
  const int64_t blocks = num_examples(ticket.part) / block_;
  const std::optional<uint64_t> key = OrderKey(ticket);
  const Permutation order(static_cast<uint64_t>(blocks), key.value_or(0));
  for (int64_t i = ticket.begin; i < ticket.end;) {
    const int64_t block = i / block_;
    const int64_t end = std::min(ticket.end, (block + 1) * block_);
    const int64_t moved =
        key && block < blocks ? static_cast<int64_t>(order(static_cast<uint64_t>(block))) : block;
    for (; i < end; ++i) {
      numbers.push_back(static_cast<uint32_t>(moved * block_ + (i - block * block_)));
    }
  }
  return numbers;
}

absl::Status Dataset::CheckTicket(const Ticket& ticket) const {
  const int part = static_cast<int>(ticket.part);
  const bool known_part = part >= 0 && part <= 2;
  if (known_part && ticket.epoch >= 0 && ticket.begin >= 0 && ticket.end >= ticket.begin &&
      ticket.end <= num_examples(ticket.part)) {
    return absl::OkStatus();
  }
  return absl::OutOfRangeError(absl::StrCat("ticket: wanted a range of [0, ",
                                            known_part ? num_examples(ticket.part) : 0,
                                            ") in an epoch >= 0, found ", ticket.ToString()));
}

std::optional<std::string> Dataset::PlaceOf(const Ticket& ticket) const {
  if (is_text() || ticket.size() == 0 || !CheckTicket(ticket).ok()) return std::nullopt;
  if (stream_ != nullptr) return stream_->PlaceOf(ticket, OrderKey(ticket));
  Ticket first = ticket;
  first.end = first.begin + 1;
  const uint32_t number = DrawNumbers(first)[0];
  const int64_t at = queries_ == nullptr ? number : queries_->begin(ticket.part, number);
  return places_.Of(examples(ticket.part)[static_cast<size_t>(at)]);
}

namespace {

absl::Status TooManyRows(const Ticket& ticket) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "a batch of ", ticket.size(), " queries has more than 2^31 - 1 rows; make batches smaller"));
}

}  // namespace

absl::StatusOr<Batch> Dataset::Read(const Ticket& ticket, const Ticket* ahead) const {
  RETURN_IF_ERROR(CheckTicket(ticket));
  if (stream_ != nullptr) return ReadStreamed(ticket, ahead);
  const std::vector<uint32_t>& all = examples(ticket.part);
  BatchRows drawn;
  drawn.training = ticket.part == Part::kTraining;
  drawn.begin = ticket.begin;
  drawn.epoch_key = text_ != nullptr ? StreamKey(order_.of_data, kSampleStream, ticket)
                                     : SampleStreamKey(order_.of_data, ticket);
  std::vector<uint32_t> numbers, shuffled;
  std::vector<int32_t> ends;
  if (queries_ != nullptr) {
    numbers = DrawNumbers(ticket);
    for (const uint32_t number : numbers) {
      const int64_t end = queries_->begin(ticket.part, int64_t{number} + 1);
      for (int64_t at = queries_->begin(ticket.part, number); at < end; ++at) {
        shuffled.push_back(all[static_cast<size_t>(at)]);
      }
      if (shuffled.size() > std::numeric_limits<int32_t>::max()) return TooManyRows(ticket);
      ends.push_back(static_cast<int32_t>(shuffled.size()));
    }
    drawn.numbers = numbers;
    drawn.rows = shuffled;
    drawn.query_ends = ends;
  } else if (text_ != nullptr) {
    numbers = DrawNumbers(ticket);
    shuffled.reserve(numbers.size());
    for (const uint32_t number : numbers) {
      shuffled.push_back(static_cast<uint32_t>(text_->parts().Place(ticket.part, number)));
    }
    drawn.numbers = numbers;
    drawn.rows = shuffled;
  } else if (OrderKey(ticket)) {
    numbers = DrawNumbers(ticket);
    shuffled.reserve(numbers.size());
    for (const uint32_t number : numbers) shuffled.push_back(all[number]);
    drawn.numbers = numbers;
    drawn.rows = shuffled;
  } else {
    drawn.rows = absl::MakeConstSpan(all).subspan(static_cast<size_t>(ticket.begin),
                                                  static_cast<size_t>(ticket.size()));
  }
  Batch batch;
  batch.reserve(columns(ticket.part).size());
  for (const auto& column : batch_columns_) RETURN_IF_ERROR(column->Gather(drawn, &batch));
  const Column* const own =
      drawn.training ? own_.training.get() : static_cast<const Column*>(own_.known.get());
  if (own != nullptr) RETURN_IF_ERROR(own->Gather(drawn, &batch));
  return batch;
}

absl::Status Dataset::LeaveOutNegatives(const Ticket& ticket, Batch* batch) const {
  if (order_.keep_negatives == 0 || ticket.part != Part::kTraining) return absl::OkStatus();
  return data::LeaveOutNegatives(order_.keep_negatives,
                                 StreamKey(order_.of_data, kNegativesStream, ticket), ticket.begin,
                                 columns(ticket.part), batch);
}

const Dataset::Feature* Dataset::Find(const std::string& feature) const {
  const auto history = history_of_.find(feature);
  const auto found = features_.find(history == history_of_.end() ? feature : history->second);
  return found == features_.end() ? nullptr : &found->second;
}

int64_t Dataset::vocabulary_size(const std::string& feature) const {
  const Feature* found = Find(feature);
  return found == nullptr || found->vocabulary == nullptr ? 0 : found->vocabulary->size();
}

std::shared_ptr<const Vocabulary> Dataset::shared_vocabulary(const std::string& feature) const {
  const Feature* found = Find(feature);
  return found == nullptr ? nullptr : found->vocabulary;
}

const std::vector<std::string>* Dataset::vocabulary(const std::string& feature) const {
  const Feature* found = Find(feature);
  return found == nullptr || found->vocabulary == nullptr ? nullptr : found->vocabulary->texts();
}

bool Dataset::keeps_names(const std::string& feature) const {
  const Feature* const found = Find(feature);
  return found != nullptr && found->keeps_names;
}

std::optional<std::vector<std::string>> Dataset::names(const std::string& feature) const {
  if (!keeps_names(feature)) return std::nullopt;
  const auto history = history_of_.find(feature);
  const proto::IndexedFeature* const indexed =
      Indexed(history == history_of_.end() ? feature : history->second);
  if (indexed == nullptr) return Find(feature)->names;
  return std::vector<std::string>(indexed->vocabulary().begin(), indexed->vocabulary().end());
}

std::optional<int64_t> Dataset::Lookup(const std::string& feature, absl::string_view text) const {
  const Feature* found = Find(feature);
  if (found == nullptr || found->vocabulary == nullptr) return std::nullopt;
  return found->vocabulary->Find(text);
}

std::vector<int64_t> Dataset::training_counts(const std::string& feature) const {
  const Feature* found = Find(feature);
  if (found == nullptr || found->vocabulary == nullptr || found->vocabulary->unbounded()) return {};
  if (text_ != nullptr) return text_counts_;
  const auto history = history_of_.find(feature);
  if (const proto::IndexedFeature* indexed =
          Indexed(history == history_of_.end() ? feature : history->second)) {
    std::vector<int64_t> counts(indexed->training_counts().begin(),
                                indexed->training_counts().end());
    // Hash buckets that are not counted have no counts.
    if (!counts.empty()) counts.resize(static_cast<size_t>(found->vocabulary->size()), 0);
    return counts;
  }
  std::vector<int64_t> counts(static_cast<size_t>(found->vocabulary->size()), 0);
  found->column->Count(rows(Part::kTraining), absl::MakeSpan(counts));
  return counts;
}

int64_t Dataset::CountUnknown(const std::string& feature, Part part) const {
  const auto found = features_.find(feature);
  if (found == features_.end()) return 0;
  if (const proto::IndexedFeature* indexed = Indexed(feature)) {
    const int at = static_cast<int>(part);
    return at < indexed->unknown_size() ? indexed->unknown(at) : 0;
  }
  if (!found->second.single) return 0;
  const std::vector<std::string>* texts = found->second.vocabulary->texts();
  if (texts == nullptr) return 0;
  const auto* column = static_cast<const IdColumn*>(found->second.column);
  const auto known = static_cast<int64_t>(texts->size());
  return std::count_if(rows(part).begin(), rows(part).end(),
                       [&](uint32_t row) { return column->ids()[row] >= known; });
}

LabelSummary Dataset::label_summary(Part part, const std::string& label) const {
  LabelSummary summary;
  size_t at = 0;
  while (at < labels_.size() && labels_[at].name != label) ++at;
  if (at == labels_.size()) return summary;
  if (index_ != nullptr) return IndexedSummary(part, at);
  const NumericColumn *const column = labels_[at].labels, *const weights = labels_[at].weights;
  if (column == nullptr) return summary;
  for (const uint32_t row : rows(part)) {
    const float weight = weights == nullptr ? 1 : weights->value(row);
    if (weight > 0) summary.Add(column->value(row), weight);
  }
  return summary;
}

const NumericTransform* Dataset::transform(const std::string& feature) const {
  const auto found = features_.find(feature);
  return found == features_.end() ? nullptr : found->second.transform.get();
}

std::optional<int64_t> Dataset::FindGroup(absl::string_view name) const {
  const auto found = group_ids_.find(name);
  if (found == group_ids_.end()) return std::nullopt;
  return found->second;
}

absl::Span<const int64_t> Dataset::GroupHistory(int64_t group, bool in_order) const {
  if (history_ == nullptr || group < 0 || group >= history_->groups()) return {};
  return in_order && history_->ordered() ? history_->InOrder(group) : history_->Values(group);
}

}  // namespace coxswain::data
