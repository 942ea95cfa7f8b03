// format: jsonl
#include "coordinator/job/formats/job_formats.h"

namespace coxswain::job {

const JobFormat& JsonlJobFormat() {
  static constexpr JobFormat kFormat = {
      .name = "jsonl",
      .help =
          "JSON lines, one object each, whose keys are the columns; `device.os` is the key `os` of "
          "the object `device`",
      .read = [](const JobReader&, const SectionView&) {},
      .lists_columns = false};
  return kFormat;
}

}  // namespace coxswain::job
