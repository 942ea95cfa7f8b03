#include "coordinator/model/visits.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "coordinator/api/read_as_one.h"
#include "coordinator/api/variable_info.h"
#include "coxswain/optimizers.h"
#include "runtime/base/status.h"
#include "runtime/data/dataset.h"
#include "runtime/data/dataset_options.h"

namespace coxswain::model {
namespace {

constexpr char kVisits[] = "coxswain/visits";
constexpr char kExampleId[] = "example_id";
constexpr int64_t kChunk = 1 << 16;  // examples read at a time

// Adds 1 for each of the epoch's first `end` examples.
absl::Status AddEpoch(const PerWorkerDataset& dataset, int64_t epoch, int64_t end,
                      std::vector<float>* planned) {
  const auto& columns = dataset.data().columns(Part::kTraining);
  size_t c = 0;
  while (c < columns.size() && columns[c].name != kExampleId) ++c;
  if (c == columns.size()) return absl::NotFoundError("the data set has no column example_id");
  for (int64_t begin = 0; begin < end; begin += kChunk) {
    const Ticket ticket{Part::kTraining, epoch, begin, std::min(end, begin + kChunk)};
    ASSIGN_OR_RETURN(data::Batch batch, dataset.data().Read(ticket));
    for (const int64_t id : batch[c].values<int64_t>()) {
      if (id < 0 || id >= static_cast<int64_t>(planned->size())) {
        return absl::InternalError("an example's number is outside of its part");
      }
      (*planned)[static_cast<size_t>(id)] += 1;
    }
  }
  return absl::OkStatus();
}

// Each of `trained` examples is to be there once.
absl::StatusOr<Visitation> CheckOnce(ParameterServerStrategy* strategy, const VariableInfo& info,
                                     int64_t trained) {
  Visitation result;
  result.examples = trained;
  int64_t used = 0;
  for (int shard = 0; shard < std::ssize(info.shards); ++shard) {
    for (int64_t place = 0;;) {
      ASSIGN_OR_RETURN(const auto read, strategy->ReadIds(info, shard, place, kChunk));
      for (const float visits : read.rows.values<float>()) {
        if (visits > 0) ++used;
        if (visits > 1) ++result.repeated;
      }
      place = read.next;
      if (place == 0) break;
    }
  }
  result.missing = std::max<int64_t>(0, trained - used);
  return result;
}

}  // namespace

bool IsInternal(const VariableInfo& info) { return IsInternalName(info.name); }

bool IsInternalName(absl::string_view variable) {
  return absl::StartsWith(variable, kInternalPrefix);
}

absl::StatusOr<EmbeddingTable> CreateVisits(ParameterServerStrategy* strategy,
                                            const PerWorkerDataset& dataset) {
  TableOptions options;
  if (dataset.options().spec.followed()) options.hash = HashTableOptions{};
  options.rows = dataset.data().num_examples(Part::kTraining);
  options.dim = 1;
  const Consistency& consistency = strategy->consistency();
  if (consistency.in_steps() || consistency.staleness_rate != StalenessRate::kNone ||
      consistency.delay_compensation != 0) {
    // A step may average gradients, and late ones may have another rate; what is added is summed.
    options.partitioner = FixedShards(1);
  } else {
    options.optimizer = Sgd{.learning_rate = 1};
  }
  return strategy->CreateTable(kVisits, options);
}

void CountVisits(FunctionBuilder& f, const EmbeddingTable& visits, int64_t first) {
  Output ids = f.Column(kExampleId);
  if (first != 0) ids = f.Add(ids, f.Constant(Tensor::Scalar<int64_t>(first)));
  if (visits.info().optimizer.kind().empty()) {
    const Output ones = f.Add(f.Mul(f.Cast(ids, DType::kF32), f.Scalar(0)), f.Scalar(1));
    f.ScatterAdd(visits, ids, f.Reshape(ones, Shape{kUnknownDim, 1}));
    return;
  }
  // The gradient of a row is -1 for each time that the batch has it, the learning rate 1.
  const double factor = f.learning_rate_factor();
  f.set_learning_rate_factor(1);
  f.Minimize(f.Neg(f.Sum(f.Lookup(visits, ids))));
  f.set_learning_rate_factor(factor);
}

absl::StatusOr<Visitation> CheckVisits(ParameterServerStrategy* strategy,
                                       const PerWorkerDataset& dataset, int64_t trained) {
  const auto& all = strategy->variables();
  const auto info = std::find_if(all.begin(), all.end(),
                                 [](const auto& variable) { return variable->name == kVisits; });
  if (info == all.end()) return absl::NotFoundError("visits were not counted");
  if (dataset.options().spec.followed()) {
    absl::StatusOr<Visitation> once;
    RETURN_IF_ERROR(ReadAsOne(strategy->cluster(), "the visits", [&] {
      once = CheckOnce(strategy, **info, trained);
      return once.status();
    }));
    return once;
  }
  ASSIGN_OR_RETURN(const Tensor counted, strategy->Read(EmbeddingTable(*info)));
  Visitation result;
  result.examples = dataset.data().num_examples(Part::kTraining);
  // Each whole epoch uses every example once.
  std::vector<float> planned(static_cast<size_t>(result.examples),
                             static_cast<float>(trained / result.examples));
  RETURN_IF_ERROR(
      AddEpoch(dataset, trained / result.examples, trained % result.examples, &planned));
  for (size_t i = 0; i < planned.size(); ++i) {
    const float found = counted.data<float>()[i];
    if (!(found >= planned[i])) ++result.missing;
    if (found > planned[i]) ++result.repeated;
  }
  return result;
}

}  // namespace coxswain::model
