// format: idx
#include "coordinator/job/formats/job_formats.h"

namespace coxswain::job {

const JobFormat& IdxJobFormat() {
  static constexpr JobFormat kFormat = {
      .name = "idx",
      .help =
          "images in MNIST's format; columns `image` (a vector) and `label` (from the file with "
          "`labels` in place of `images` in its name)",
      .read = [](const JobReader&, const SectionView&) {},
      .has_columns = false,
      .label_column = "label"};
  return kFormat;
}

}  // namespace coxswain::job
