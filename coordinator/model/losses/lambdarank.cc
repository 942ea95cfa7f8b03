// LambdaRank (Burges, 2010): pairs of a query's rows with labels l_i > l_j, each weighed by how
// much the query's NDCG changes when the two change places:
//
//   sum_{l_i > l_j} |dNDCG_ij| log(1 + e^(-sigma (s_i - s_j)))
//
// kernels/ranking_losses.cc has the weights in full.
#include "coordinator/job/size_limits.h"
#include "coordinator/model/losses/loss_list.h"
#include "coordinator/model/losses/query_loss.h"
#include "coxswain/function_builder.h"

namespace coxswain::model {
namespace {

struct LambdaRankOptions {
  double sigma = 1;
  int64_t truncate = 0;
};

constexpr job::SchemaKey kKeys[] = {
    job::Key<&LambdaRankOptions::sigma>("sigma", "1", "steepness of the pairwise loss").Above(0),
    job::Key<&LambdaRankOptions::truncate>(
        "truncate", "0", "number of top positions of a query that count for NDCG; 0: all")
        .Min(0)
        .Max(job::kMostOfAList),
};

class LambdaRank : public QueryLoss {
 public:
  LambdaRankOptions options;

  Output PerQuery(FunctionBuilder& f, Output scores, Output label, Output offsets) const override {
    return f.Op("LambdaRank", {scores, label, offsets},
                {{"sigma", options.sigma}, {"truncate", options.truncate}});
  }
};

}  // namespace

const job::LossKind& LambdaRankLoss() {
  static constexpr job::LossKind kKind = {.name = "lambdarank",
                                          .prediction = job::PredictionKind::kOrder,
                                          .labels = job::LabelRange::kGrade,
                                          .keys = kKeys,
                                          .read = job::ReadLossKeys<LambdaRank, kKeys>};
  return kKind;
}

}  // namespace coxswain::model
