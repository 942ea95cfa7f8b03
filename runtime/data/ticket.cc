#include "runtime/data/ticket.h"

#include "absl/strings/str_cat.h"

namespace coxswain::data {

proto::TicketProto ToProto(const Ticket& ticket) {
  proto::TicketProto proto;
  proto.set_part(static_cast<int32_t>(ticket.part));
  proto.set_epoch(ticket.epoch);
  proto.set_begin(ticket.begin);
  proto.set_end(ticket.end);
  return proto;
}

absl::StatusOr<Ticket> FromProto(const proto::TicketProto& proto) {
  if (proto.part() < 0 || proto.part() > 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("ticket: wanted part 0 to 2, found ", proto.part()));
  }
  const Ticket ticket{static_cast<Part>(proto.part()), proto.epoch(), proto.begin(), proto.end()};
  if (ticket.epoch < 0 || ticket.begin < 0 || ticket.end < ticket.begin) {
    return absl::InvalidArgumentError(
        absl::StrCat("ticket: wanted epoch >= 0 and 0 <= begin <= end, found ", ticket.ToString()));
  }
  return ticket;
}

}  // namespace coxswain::data

namespace coxswain {

absl::string_view PartName(Part part) {
  switch (part) {
    case Part::kTraining:
      return "training";
    case Part::kValidation:
      return "validation";
    case Part::kTest:
      return "test";
  }
  return "unknown";
}

std::string Ticket::ToString() const {
  return absl::StrCat(PartName(part), " epoch ", epoch, " [", begin, ", ", end, ")");
}

}  // namespace coxswain
