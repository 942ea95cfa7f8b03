#include "coordinator/predict/rows_to_predict.h"

#include <utility>

#include "runtime/data/data_format.h"
#include "runtime/data/learned.h"
#include "runtime/data/spec_check.h"

namespace coxswain::predict {
namespace {

using proto::FeatureSpec;

// The values of a history, in one field of a row.
FeatureSpec ListOf(const FeatureSpec& history, FeatureSpec values) {
  values.set_name(history.name());
  values.set_column(history.name());
  values.set_multi_valued(true);
  values.set_value_separator(kHistorySeparator);
  values.set_values_of_rows(true);
  values.set_max_values(0);  // see NewestValues; without an order all of them, and no sample
  values.set_dim(history.dim());
  values.set_combiner(history.combiner());
  return values;
}

}  // namespace

proto::DatasetSpec RowsToPredict(const job::JobSpec& job, const std::string& format) {
  proto::DatasetSpec spec = job.dataset;
  for (FeatureSpec& feature : *spec.mutable_features()) {
    if (!data::IsHistory(feature)) continue;
    const FeatureSpec* const of = job.FindFeature(feature.history_of());
    if (const proto::LearnedFeature* learned = data::FindLearned(spec, feature.history_of())) {
      proto::LearnedFeature same = *learned;
      same.set_name(feature.name());
      *spec.add_learned() = std::move(same);
    }
    feature = ListOf(feature, *of);
  }
  // Where nothing is said, rows come one after the other.
  const bool blocks = !data::FormatOf(spec).has_lines() && data::FormatOf(spec).has_blocks();
  const std::string wanted = !format.empty() ? format : blocks ? "csv" : spec.format();
  const bool other = wanted != spec.format();
  spec.set_format(wanted);
  if (other || !format.empty()) data::FormatOf(spec).UseForRows(other, &spec);
  // What stands in the place of a label that is a text is not looked at, see RowReader::Create.
  const bool text = !spec.label().feature().empty() || spec.label().positive_values_size() > 0;
  if (!text || !data::FormatOf(spec).has_labels()) spec.clear_label();
  spec.clear_labels();
  spec.clear_query();
  spec.clear_split();
  spec.clear_trained();
  spec.clear_known_items();
  spec.clear_stream();
  spec.clear_shuffle();
  spec.clear_per_worker();
  spec.clear_example_ids();
  spec.clear_max_bad_rows();  // the command has its own
  return spec;
}

}  // namespace coxswain::predict
