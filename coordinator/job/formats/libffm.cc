// format: libffm
#include "coordinator/job/formats/job_formats.h"

namespace coxswain::job {

const JobFormat& LibffmJobFormat() {
  static constexpr JobFormat kFormat = {
      .name = "libffm",
      .help =
          "lines of a label and of `field:index:value`; columns are the fields' numbers: `value` "
          "as a number, `index` as a category, and several indices with `value` as weights where "
          "`multi_valued` is true",
      .read = [](const JobReader&, const SectionView&) {},
      .lists_columns = false,
      .label_column = "label"};
  return kFormat;
}

}  // namespace coxswain::job
