// Exponential moving averages of a variable's weights, a part beside them (see shard_parts.h):
//
//   a += (1 - decay) (w - a)
//
// once with each update of the shard that has a gradient, for the rows that it changed; in a dense
// variable, for all. An average begins as the weight. The sums are in f64 for f64, else in f32,
// also where weights are stored as bf16.
//
// Thread model: as the memory of the rows.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "coxswain/tensor.h"
#include "protos/variable.pb.h"
#include "ps_server/row_block.h"

namespace coxswain::ps {

struct AveragedRows {
  PartPlace weights, averages;
  DType dtype = DType::kInvalid;  // of the weights
  int64_t width = 0;
};

// Errors: InvalidArgument for a decay that is not in [0, 1).
absl::Status CheckEmaDecay(const proto::OptimizerSpec& spec);

// The averages of these rows begin anew, as the weights; without ids, those of [begin, begin + n).
void BeginAverages(const AveragedRows& rows, const int64_t* ids, int64_t begin, int64_t n);
void MoveAverages(const AveragedRows& rows, double decay, const int64_t* ids, int64_t begin,
                  int64_t n);
// The same for the rows of several lists, each once. `touched`: the i64 of each row, which is
// `number` in all rows of the lists, and so again afterwards.
void MoveAveragesOnce(const AveragedRows& rows, double decay, const PartPlace& touched,
                      int64_t number, absl::Span<const absl::Span<const int64_t>> lists);

}  // namespace coxswain::ps
