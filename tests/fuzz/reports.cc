// A line of a side-car's reports: an error that says what is wrong, or a report that comes back as
// it was written.
#include <string>

#include "coordinator/sidecar/evaluation_log.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using coxswain::sidecar::ParseLine;
  using coxswain::sidecar::ToLine;
  const auto report = ParseLine(coxswain::fuzz::Text(data, size));
  if (!report.ok()) {
    if (report.status().message().empty()) coxswain::fuzz::Broken("an error says nothing");
    return 0;
  }
  if (report->steps < 0 || report->examples < 0) coxswain::fuzz::Broken("a number below 0");
  const std::string line = ToLine(*report);
  if (line.find('\n') != std::string::npos) coxswain::fuzz::Broken("a report of two lines");
  const auto again = ParseLine(line);
  if (!again.ok()) coxswain::fuzz::Broken(again.status().ToString());
  if (ToLine(*again) != line) coxswain::fuzz::Broken("a report does not come back as it was");
  return 0;
}
