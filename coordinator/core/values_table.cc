#include "coordinator/core/values_table.h"

#include <utility>

#include "runtime/cluster/control.h"
#include "runtime/graph/serialize.h"

namespace coxswain::core {

void ValuesTable::Add(ValuesId values, const graph::Function& function,
                      const std::vector<Tensor>& arguments) {
  Values added;
  proto::RegisterValues* const request = added.request.request.mutable_register_values();
  request->set_values(values);
  *request->mutable_function() = graph::ToProto(function);
  cluster::PutTensors(arguments, request->mutable_arguments(), &added.request.payload);
  values_.insert_or_assign(values, std::move(added));
}

void ValuesTable::LetGo(ValuesId values) {
  if (const auto it = values_.find(values); it != values_.end()) it->second.let_go = true;
}

std::vector<ValuesId> ValuesTable::Unread(const std::function<bool(ValuesId)>& is_read) const {
  std::vector<ValuesId> unread;
  for (const auto& [id, values] : values_) {
    if (values.let_go && !is_read(id)) unread.push_back(id);
  }
  return unread;
}

std::vector<RequestToWorker> ValuesTable::Requests() const {
  std::vector<RequestToWorker> requests;
  for (const auto& [id, values] : values_) requests.push_back(values.request);
  return requests;
}

}  // namespace coxswain::core
