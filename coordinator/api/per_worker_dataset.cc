#include <algorithm>
#include <utility>

#include "coordinator/api/per_worker_dataset_state.h"
#include "coxswain/strategy.h"
#include "runtime/data/dataset_options.h"

namespace coxswain {
namespace {

constexpr int64_t kDrawnSample = 1;  // an epoch whose order is drawn

}  // namespace

std::optional<Ticket> PerWorkerDataset::NextTicket() {
  if (state_ == nullptr) return std::nullopt;
  std::optional<Ticket> ticket =
      state_->cursor->Next(state_->options.batch_size, state_->data->num_examples(Part::kTraining),
                           state_->options.epochs, state_->options.drop_remainder);
  if (ticket) ticket->dataset = state_->id;
  return ticket;
}

std::vector<Ticket> PerWorkerDataset::NextTickets(int64_t count) {
  std::vector<Ticket> tickets;
  while (state_ != nullptr && static_cast<int64_t>(tickets.size()) < count) {
    DataCursor& cursor = *state_->cursor;
    const auto [epoch, position] = std::pair(cursor.epoch, cursor.position);
    const std::optional<Ticket> ticket = NextTicket();
    if (!ticket) break;
    if (!tickets.empty() && ticket->epoch != tickets[0].epoch) {  // it is for the next step
      cursor.epoch = epoch;
      cursor.position = position;
      break;
    }
    tickets.push_back(*ticket);
  }
  return tickets;
}

std::vector<Ticket> PerWorkerDataset::Tickets(Part part, int64_t batch_size,
                                              int64_t max_examples) const {
  int64_t examples = state_ == nullptr || batch_size < 1 ? 0 : state_->data->num_examples(part);
  // The first rows of a file may be all of one kind.
  const bool some = max_examples > 0 && max_examples < examples;
  const int64_t epoch = some && part != Part::kTraining ? kDrawnSample : 0;
  if (some) examples = max_examples;
  std::vector<Ticket> tickets;
  for (int64_t begin = 0; begin < examples; begin += batch_size) {
    tickets.push_back({part, epoch, begin, std::min(begin + batch_size, examples), state_->id});
  }
  return tickets;
}

int64_t PerWorkerDataset::steps_per_epoch() const {
  if (state_ == nullptr) return 0;
  const int64_t examples = state_->data->num_examples(Part::kTraining),
                batch = state_->options.batch_size;
  return state_->options.drop_remainder ? examples / batch : (examples + batch - 1) / batch;
}

int64_t PerWorkerDataset::num_examples(Part part) const {
  return state_ == nullptr ? 0 : state_->data->num_examples(part);
}

int64_t PerWorkerDataset::vocabulary_size(const std::string& feature) const {
  return state_ == nullptr ? 0 : state_->data->vocabulary_size(feature);
}

std::vector<std::string> PerWorkerDataset::vocabulary(const std::string& feature) const {
  const std::vector<std::string>* const values =
      state_ == nullptr ? nullptr : state_->data->vocabulary(feature);
  return values == nullptr ? std::vector<std::string>() : *values;
}

const data::Dataset& PerWorkerDataset::data() const { return *state_->data; }
uint32_t PerWorkerDataset::id() const { return state_ == nullptr ? 0 : state_->id.number(); }
const data::DatasetOptions& PerWorkerDataset::options() const {
  static const auto* const none = new data::DatasetOptions;
  return state_ == nullptr ? *none : state_->options;
}

}  // namespace coxswain
