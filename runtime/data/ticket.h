// What names a batch: a range of examples of one part, in the order of one epoch.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "protos/dataset.pb.h"
#include "runtime/base/ids.h"

namespace coxswain {

enum class Part { kTraining = 0, kValidation = 1, kTest = 2 };

absl::string_view PartName(Part part);  // "training", "validation", "test"

struct Ticket {
  Part part = Part::kTraining;
  int64_t epoch = 0;
  int64_t begin = 0;
  int64_t end = 0;
  // The data set that handed it out; 0: nobody says. It does not travel: a closure names its own.
  DatasetId dataset = 0;

  int64_t size() const { return end - begin; }
  // The same examples.
  bool operator==(const Ticket& o) const {
    return part == o.part && epoch == o.epoch && begin == o.begin && end == o.end;
  }
  proto::TicketProto ToProto() const;
  // Errors: InvalidArgument for an unknown part, a negative epoch or begin, or end < begin.
  static absl::StatusOr<Ticket> FromProto(const proto::TicketProto& proto);
  std::string ToString() const;  // "training epoch 3 [512, 1024)"
};

}  // namespace coxswain
