// ListNet (Cao et al., 2007), with the chances of the first place: the cross entropy of the softmax
// of a query's scores and the softmax of its labels.
#include "coordinator/model/losses/loss_list.h"
#include "coordinator/model/losses/query_loss.h"
#include "coxswain/function_builder.h"

namespace coxswain::model {
namespace {

class ListNet : public QueryLoss {
 public:
  Output PerQuery(FunctionBuilder& f, Output scores, Output label, Output offsets) const override {
    return f.Op("ListNet", {scores, label, offsets});
  }
};

}  // namespace

const job::LossKind& ListNetLoss() {
  static constexpr job::LossKind kKind = {.name = "listnet",
                                          .prediction = job::PredictionKind::kOrder,
                                          .labels = job::LabelRange::kGrade,
                                          .read = job::MakeLoss<ListNet>};
  return kKind;
}

}  // namespace coxswain::model
