#include "runtime/data/row_probe.h"

#include <utility>

#include "runtime/base/status.h"
#include "runtime/data/made_features.h"
#include "runtime/data/spec_check.h"

namespace coxswain::data {
namespace {

// Values need no ids: that one is unknown is no fault of the row.
proto::DatasetSpec WithoutVocabularies(proto::DatasetSpec spec) {
  spec.clear_learned();
  spec.clear_known();
  spec.clear_trained();
  for (proto::FeatureSpec& feature : *spec.mutable_features()) {
    if (feature.kind() != proto::FeatureSpec::CATEGORICAL || IsHistory(feature)) continue;
    feature.clear_keep_names();
    if (HasFixedValues(feature) || !feature.id().empty()) continue;
    feature.clear_vocabulary();
    feature.clear_vocabulary_file();
    feature.clear_min_count();
    feature.clear_max_size();
    feature.clear_oov_buckets();
    feature.set_hash_buckets(1);
  }
  return spec;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RowProbe>> RowProbe::Create(
    const proto::DatasetSpec& spec, std::shared_ptr<const SideTables> tables) {
  std::unique_ptr<RowProbe> probe(new RowProbe(WithoutVocabularies(spec)));
  probe->side_tables_ = std::move(tables);
  RETURN_IF_ERROR(probe->Renew());
  return probe;
}

absl::Status RowProbe::Renew() {
  table_ = std::make_unique<Table>();
  table_->side_tables = side_tables_;
  rows_ = std::make_unique<TableRows>(table_.get(), 0);
  RETURN_IF_ERROR(BindColumns(spec_, {}, table_.get(), rows_.get()));
  side_tables_ = table_->side_tables;
  return absl::OkStatus();
}

}  // namespace coxswain::data
