#include "absl/strings/str_cat.h"
#include "coordinator/api/remote_function_state.h"
#include "coxswain/strategy.h"
#include "kernels/validate.h"

namespace coxswain {

absl::Status RemoteFunction::CheckCall(const Ticket& ticket,
                                       absl::Span<const Tensor> arguments) const {
  if (state_ == nullptr) {
    return absl::InvalidArgumentError("no function: it was not defined by a strategy");
  }
  const auto who = [this] { return absl::StrCat("function '", name(), "'"); };  // errors only
  if (state_->dataset == 0 && ticket.size() > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        who(), " was defined without a data set, wanted no ticket, found ", ticket.ToString()));
  }
  if (state_->dataset != 0 && ticket.dataset != 0 && ticket.dataset != state_->dataset) {
    return absl::InvalidArgumentError(absl::StrCat(who(), " reads data set ", state_->dataset,
                                                   ", the ticket is of data set ", ticket.dataset,
                                                   " (", ticket.ToString(), ")"));
  }
  if (!state_->column.empty() && ticket.size() <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        who(), " reads column '", state_->column, "' of its data set: wanted a ticket for ",
        "examples (PerWorkerDataset::NextTicket), found none"));
  }
  if (ticket.part != Part::kTraining && ticket.part != Part::kValidation &&
      ticket.part != Part::kTest) {
    return absl::InvalidArgumentError(absl::StrCat(
        who(), ": the ticket is of part ", static_cast<int>(ticket.part), ", wanted 0, 1 or 2"));
  }
  if (arguments.size() != state_->arguments.size()) {
    return absl::InvalidArgumentError(absl::StrCat(who(), ": wanted ", state_->arguments.size(),
                                                   " arguments, found ", arguments.size()));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& [name, type] = state_->arguments[i];
    if (arguments[i].dtype() == type.dtype &&
        kernels::MergeShapes(type.shape, arguments[i].shape()).ok()) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat(who(), ": argument ", i, " ('", name, "'): wanted ", type.ToString(),
                     ", found ", DTypeName(arguments[i].dtype()), arguments[i].shape().ToString()));
  }
  return absl::OkStatus();
}

std::string RemoteFunction::name() const {
  return state_ == nullptr ? "" : state_->partition.worker.name;
}
std::vector<std::string> RemoteFunction::results() const {
  return state_ == nullptr ? std::vector<std::string>() : state_->names->results;
}
const function::Partition& RemoteFunction::partition() const { return state_->partition; }
uint32_t RemoteFunction::plan() const { return state_ == nullptr ? 0 : state_->plan.number(); }
uint32_t RemoteFunction::dataset() const {
  return state_ == nullptr ? 0 : state_->dataset.number();
}
uint64_t RemoteFunction::strategy() const { return state_ == nullptr ? 0 : state_->strategy; }

}  // namespace coxswain
