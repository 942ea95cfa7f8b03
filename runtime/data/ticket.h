// Tickets as they travel.
#pragma once

#include "absl/status/statusor.h"
#include "coxswain/dataset.h"
#include "protos/dataset.pb.h"
#include "runtime/base/ids.h"

namespace coxswain::data {

proto::TicketProto ToProto(const Ticket& ticket);
// Errors: InvalidArgument for an unknown part, a negative epoch or begin, or end < begin.
absl::StatusOr<Ticket> FromProto(const proto::TicketProto& proto);

}  // namespace coxswain::data
