#include "coordinator/job/formats/job_formats.h"

namespace coxswain::job {

const std::vector<const JobFormat*>& AllJobFormats() {
#define COX_FORMAT(file, name) &name##JobFormat(),
  static const auto* const all = new std::vector<const JobFormat*>{COX_DATA_FORMATS(COX_FORMAT)};
#undef COX_FORMAT
  return *all;
}

const JobFormat& FormatOf(const JobSpec& job) {
  for (const JobFormat* format : AllJobFormats()) {
    if (job.dataset.format() == format->name) return *format;
  }
  return *AllJobFormats()[0];
}

}  // namespace coxswain::job
