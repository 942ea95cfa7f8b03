// A Dataset whose rows are not in memory.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status.h"
#include "runtime/data/data_format.h"
#include "runtime/data/dataset.h"
#include "runtime/data/dataset_keys.h"
#include "runtime/data/learned.h"
#include "runtime/data/queries.h"
#include "runtime/data/spec_check.h"
#include "runtime/data/stream/index_file.h"
#include "runtime/data/stream/index_tally.h"
#include "runtime/data/stream/stream_options.h"
#include "runtime/data/stream/streamed_rows.h"

namespace coxswain::data {

using proto::DatasetSpec;
using proto::FeatureSpec;

namespace {

// Describes the columns of a text that is not in memory.
class WordPairs final : public Column {
 public:
  void Describe(std::vector<ColumnSpec>* specs) const override { DescribeSkipGrams(specs); }
  absl::Status Gather(const BatchRows&, Batch*) const override {
    return absl::InternalError("a text that is streamed has no columns in memory");
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> Dataset::OpenStreamed(
    const DatasetSpec& spec, std::shared_ptr<const proto::DatasetIndex> index, uint64_t reader,
    Background background) {
  ASSIGN_OR_RETURN(const DatasetSpec checked, CheckSpec(spec));
  if (const std::string reason = WhyNotStreamed(checked); !reason.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("data set: it cannot be streamed: ", reason));
  }
  RETURN_IF_ERROR(CheckIndex(checked, *index, /*same_machine=*/false));
  std::unique_ptr<Dataset> dataset(new Dataset);
  dataset->index_ = std::move(index);
  RETURN_IF_ERROR(dataset->BuildStreamed(checked, std::move(background)));
  dataset->order_.own = spec.per_worker();
  dataset->order_.seed = spec.per_worker() ? HashPair(spec.seed(), reader) : spec.seed();
  return dataset;
}

namespace {

// It describes what batches have.
std::unique_ptr<Column> ColumnWithoutRows(const DatasetSpec& spec, const FeatureSpec& feature) {
  const std::string& name = feature.name();
  if (IsHistory(feature)) return std::make_unique<HistoryColumn>(name, nullptr, nullptr, 0, 0);
  if (feature.kind() != FeatureSpec::CATEGORICAL) {
    return std::make_unique<NumericColumn>(name, std::vector<float>(), feature.width());
  }
  if (!feature.multi_valued()) return std::make_unique<IdColumn>(name, IdArray());
  const bool weighted = FormatOf(spec).HasIndices(feature) || !feature.weight_separator().empty();
  return std::make_unique<RaggedColumn>(name, RaggedIds(), weighted, 0, 0);
}

}  // namespace

void Dataset::DescribeStreamed(const DatasetSpec& spec, const StreamedSpec& data) {
  for (int i = 0; i < spec.features_size(); ++i) {
    const FeatureSpec& feature = spec.features(i);
    batch_columns_.push_back(ColumnWithoutRows(spec, feature));
    if (IsHistory(feature)) {
      history_of_[feature.name()] = feature.history_of();
      own_.known = KnownColumn::WithoutRows(kKnownColumn, /*grouped=*/false, /*unseen=*/false);
      continue;
    }
    Feature& added = features_[feature.name()];
    if (feature.kind() != FeatureSpec::CATEGORICAL) {
      added.transform = std::make_unique<NumericTransform>(data.transforms[static_cast<size_t>(i)]);
    } else {
      added.vocabulary = data.vocabularies[static_cast<size_t>(i)];
      added.single = !feature.multi_valued();
      added.keeps_names = KeepsNames(spec, feature);
    }
    Remember(feature, added);
  }
  labels_.emplace_back();
  if (!spec.label().column().empty()) {
    batch_columns_.push_back(std::make_unique<NumericColumn>(kLabelColumn, std::vector<float>()));
  }
  if (!spec.label().weight().empty()) {
    batch_columns_.push_back(std::make_unique<NumericColumn>(kWeightColumn, std::vector<float>()));
  }
  for (const NamedLabel& label : NamedLabels(spec)) {
    batch_columns_.push_back(std::make_unique<NumericColumn>(label.name, std::vector<float>()));
    if (!label.is_weight) labels_.push_back({label.spec->name()});
  }
  if (!spec.query().empty()) batch_columns_.push_back(std::make_unique<QueryColumn>());
}

absl::Status Dataset::BuildStreamed(const DatasetSpec& spec, Background background) {
  ASSIGN_OR_RETURN(const auto data, MakeStreamedSpec(spec, index_));
  // Before a step waits for them. A task without a background may never read the data.
  if (background != nullptr) RETURN_IF_ERROR(PrepareFiles(*data));
  SetOrder(spec);
  // As for the same data in memory, but also with the order, because positions in checkpoints refer
  // to it.
  found_.since = static_cast<SinceTraining>(index_->since_training());
  fingerprint_ =
      HashPair(HashParts(spec, found_.since), HashPair(index_->content_hash(), index_->own_rows()));
  // The order is drawn from these.
  fingerprint_ = HashPair(fingerprint_, static_cast<uint64_t>(index_->window()));
  for (const proto::IndexedBlock& block : index_->blocks()) {
    fingerprint_ = HashPair(fingerprint_, static_cast<uint64_t>(block.training()));
  }
  fingerprint_ = HashPair(fingerprint_, static_cast<uint64_t>(spec.stream().batch()));
  found_.trained = index_->trained_rows();
  for (int i = 0; i < spec.paths_size() + spec.split().test_paths_size(); ++i) {
    const proto::IndexedFile& file = index_->files(i);
    found_.bad.count += file.bad_rows() - file.first_bad_rows_size();
    for (const proto::BadRow& row : file.first_bad_rows()) {
      found_.bad.Add(absl::StrCat(data->path(i), ":", row.line(), row.what()));
    }
  }
  if (index_->is_text()) {
    Feature& word = features_[kWordFeature];
    word.vocabulary = data->vocabularies[0];
    Remember(spec.features(0), word);
    batch_columns_.push_back(std::make_unique<WordPairs>());
  } else {
    DescribeStreamed(spec, *data);
  }
  if (spec.example_ids()) {
    batch_columns_.push_back(std::make_unique<ExampleIdColumn>(kExampleIdColumn));
  }
  if (spec.has_known_items()) {
    own_.known = KnownColumn::WithoutRows(kKnownColumn, /*grouped=*/true,
                                          /*unseen=*/!spec.known_items().held_out());
  }
  RETURN_IF_ERROR(DescribeColumns());
  batch_columns_.clear();
  own_.known = nullptr;
  stream_ = std::make_unique<StreamedRows>(data, std::move(background));
  return absl::OkStatus();
}

int64_t Dataset::streamed_examples(Part part) const { return stream_->num_examples(part); }

absl::StatusOr<Batch> Dataset::ReadStreamed(const Ticket& ticket, const Ticket* ahead) const {
  StreamedRows::Ordered then;
  if (ahead != nullptr && (ahead->size() == 0 || !CheckTicket(*ahead).ok())) ahead = nullptr;
  if (ahead != nullptr) then = {*ahead, OrderKey(*ahead)};
  const bool is_text = !FormatOf(stream_->data().spec).has_rows();
  const uint64_t sample_key = is_text ? StreamKey(order_.of_data, kSampleStream, ticket)
                                      : SampleStreamKey(order_.of_data, ticket);
  return stream_->Read(ticket, OrderKey(ticket), sample_key, ahead == nullptr ? nullptr : &then);
}

void Dataset::DropBlocks() const {
  if (stream_ != nullptr) stream_->DropBlocks();
}

int64_t Dataset::group_size() const {
  if (stream_ == nullptr || order_.own) return 0;
  const auto blocks = std::max(1, index_->blocks_size());
  return num_examples(Part::kTraining) * std::min<int64_t>(index_->window(), blocks) / blocks;
}

uint64_t Dataset::GroupOf(const Ticket& ticket) const {
  if (stream_ == nullptr || order_.own) return 0;
  if (ticket.size() == 0 || !CheckTicket(ticket).ok()) return 0;
  const auto window = static_cast<uint64_t>(stream_->GroupOf(ticket, OrderKey(ticket)));
  const uint64_t group = HashPair(StreamKey(fingerprint_, kGroupStream, ticket), window);
  return group == 0 ? 1 : group;
}

const proto::IndexedFeature* Dataset::Indexed(const std::string& feature) const {
  if (index_ == nullptr) return nullptr;
  for (const proto::IndexedFeature& indexed : index_->features()) {
    if (indexed.learned().name() == feature) return &indexed;
  }
  return nullptr;
}

LabelSummary Dataset::IndexedSummary(Part part, size_t label) const {
  constexpr int kParts = 3;
  const int at = kParts * static_cast<int>(label) + static_cast<int>(part);
  return at < index_->labels_size() ? SummaryOf(index_->labels(at)) : LabelSummary();
}

}  // namespace coxswain::data
