// format: libffm
#include "coordinator/job/formats/job_formats.h"

namespace coxswain::job {

const JobFormat& LibffmJobFormat() {
  static constexpr JobFormat kFormat = {
      .name = "libffm",
      .help =
          "lines of a label and `field:index:value` entries; columns are named by field number: a "
          "numeric feature reads `value`, a categorical one `index`, and one with `multi_valued: "
          "true` several indices, with their values as weights",
      .read = [](const JobReader&, const SectionView&) {},
      .lists_columns = false,
      .label_column = "label"};
  return kFormat;
}

}  // namespace coxswain::job
