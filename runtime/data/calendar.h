// Features that are a part of a time: the hour of the day, the day of the week.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "protos/dataset.pb.h"
#include "runtime/data/sinks.h"

namespace coxswain::data {

bool IsCalendar(const proto::FeatureSpec& feature);

// The values of such a feature by id: "0" to "23" for the hour, and "" for a missing time.
std::vector<std::string> CalendarValuesOf(const proto::FeatureSpec& feature);

// "Europe/Berlin" and the like; "" is UTC.
bool IsTimeZone(const std::string& name);

// Of the keys calendar and time_*. Errors: InvalidArgument, also for a time zone that this machine
// does not know.
absl::Status CheckCalendar(const proto::FeatureSpec& feature);

// Gives `sink` the part of each time. A time without a zone is in UTC. `feature` passed
// CheckCalendar.
std::unique_ptr<FieldSink> NewCalendarSink(const proto::FeatureSpec& feature,
                                           std::unique_ptr<FieldSink> sink);

}  // namespace coxswain::data
