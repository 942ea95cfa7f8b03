// format: jsonl
#include "coordinator/job/formats/job_formats.h"

namespace coxswain::job {

const JobFormat& JsonlJobFormat() {
  static constexpr JobFormat kFormat = {
      .name = "jsonl",
      .help =
          "JSON lines, an object each, whose keys are the columns; `device.os` is `os` in the "
          "object `device`",
      .read = [](const JobReader&, const SectionView&) {},
      .lists_columns = false};
  return kFormat;
}

}  // namespace coxswain::job
