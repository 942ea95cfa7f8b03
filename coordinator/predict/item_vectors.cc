#include "coordinator/predict/item_vectors.h"

#include <string>
#include <utility>

#include "coordinator/model/item_model.h"
#include "runtime/base/status.h"

namespace coxswain::predict {

bool DescribesItems(const job::JobSpec& job, const std::string& table) {
  const auto* const model = dynamic_cast<const model::ItemModel*>(job.model.get());
  return model != nullptr && model->has_item_features() && model->item() == table;
}

absl::Status UseItemVectors(const Predictor& predictor, model::NamedRows* rows) {
  ASSIGN_OR_RETURN(ItemVectors items, predictor.AllItems());
  return rows->UseVectors(std::move(items.vectors));
}

}  // namespace coxswain::predict
