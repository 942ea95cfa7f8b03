#include "coordinator/core/dataset_table.h"

#include <utility>

namespace coxswain::core {

DatasetTable::Registration DatasetTable::Register(DatasetId dataset, DatasetSource source) {
  datasets_[dataset] = {std::move(source), ++registrations_, false};
  return {dataset, registrations_};
}

bool DatasetTable::IsCurrent(const Registration& registration) const {
  const auto it = datasets_.find(registration.dataset);
  return it != datasets_.end() && it->second.number == registration.number;
}

void DatasetTable::Withdraw(const Registration& registration) {
  if (IsCurrent(registration)) datasets_.erase(registration.dataset);
}

void DatasetTable::LetGo(DatasetId dataset) {
  if (const auto it = datasets_.find(dataset); it != datasets_.end()) it->second.let_go = true;
}

std::vector<DatasetId> DatasetTable::Unread(const std::function<bool(DatasetId)>& is_read) const {
  std::vector<DatasetId> unread;
  for (const auto& [id, dataset] : datasets_) {
    if (dataset.let_go && !is_read(id)) unread.push_back(id);
  }
  return unread;
}

void DatasetTable::Remove(DatasetId dataset) { datasets_.erase(dataset); }

absl::Status DatasetTable::Check(DatasetId dataset, const proto::DatasetReady& ready) {
  const auto it = datasets_.find(dataset);
  if (it == datasets_.end()) return absl::OkStatus();
  std::optional<uint64_t>& wanted = it->second.source.fingerprint;
  if (!wanted) wanted = ready.fingerprint();
  if (*wanted == ready.fingerprint()) return absl::OkStatus();
  return absl::DataLossError(
      "it reads other data than the others; the files must be the same on all machines");
}

std::optional<uint64_t> DatasetTable::fingerprint(DatasetId dataset) const {
  const auto it = datasets_.find(dataset);
  return it == datasets_.end() ? std::nullopt : it->second.source.fingerprint;
}

proto::ControlRequest DatasetTable::Request(DatasetId dataset) const {
  const DatasetSource& found = datasets_.at(dataset).source;
  proto::ControlRequest request;
  request.mutable_register_dataset()->set_dataset(dataset);
  *request.mutable_register_dataset()->mutable_spec() = found.spec;
  if (found.index != nullptr) *request.mutable_register_dataset()->mutable_index() = *found.index;
  return request;
}

std::vector<proto::ControlRequest> DatasetTable::Requests() const {
  std::vector<proto::ControlRequest> requests;
  for (const auto& [id, dataset] : datasets_) requests.push_back(Request(id));
  return requests;
}

}  // namespace coxswain::core
