// format: labelled_lines
#include "coordinator/job/formats/job_formats.h"

namespace coxswain::job {

const JobFormat& LabelledLinesJobFormat() {
  static constexpr JobFormat kFormat = {.name = "labelled_lines",
                                        .help =
                                            "a text on each line; columns `text` and `class`, the "
                                            "file's name without `.txt`, `.gz` and `.zst`",
                                        .read = [](const JobReader&, const SectionView&) {},
                                        .lists_columns = false};
  return kFormat;
}

}  // namespace coxswain::job
