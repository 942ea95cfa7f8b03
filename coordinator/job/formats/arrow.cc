// format: arrow
#include "coordinator/job/formats/job_formats.h"

namespace coxswain::job {

const JobFormat& ArrowJobFormat() {
  static constexpr JobFormat kFormat = {.name = "arrow",
                                        .help = "Arrow IPC files (Feather)",
                                        .read = [](const JobReader&, const SectionView&) {}};
  return kFormat;
}

}  // namespace coxswain::job
