// Per-worker values: functions that every worker runs once and whose results it keeps. This has
// what a worker needs for that, whenever it comes. Does no I/O. Owned by the coordinator's loop.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "coxswain/tensor.h"
#include "protos/control.pb.h"
#include "runtime/base/ids.h"
#include "runtime/graph/graph.h"

namespace coxswain::core {

// A request with the tensors that travel with it.
struct RequestToWorker {
  proto::ControlRequest request;
  std::vector<Buffer> payload;
};

class ValuesTable {
 public:
  // An id is used once.
  void Add(ValuesId values, const graph::Function& function, const std::vector<Tensor>& arguments);
  bool Has(ValuesId values) const { return values_.count(values) > 0; }
  // No function is defined with them any more; they go when no plan has them for arguments.
  void LetGo(ValuesId values);
  // Those that were let go and that no plan reads.
  std::vector<ValuesId> Unread(const std::function<bool(ValuesId)>& is_read) const;
  void Remove(ValuesId values) { values_.erase(values); }

  // The request to a worker to make them; the requests to a worker that has none.
  const RequestToWorker& Request(ValuesId values) const { return values_.at(values).request; }
  std::vector<RequestToWorker> Requests() const;

 private:
  struct Values {
    RequestToWorker request;
    bool let_go = false;
  };

  std::map<ValuesId, Values> values_;
};

}  // namespace coxswain::core
