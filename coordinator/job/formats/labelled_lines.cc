// format: labelled_lines
#include "coordinator/job/formats/job_formats.h"

namespace coxswain::job {

const JobFormat& LabelledLinesJobFormat() {
  static constexpr JobFormat kFormat = {.name = "labelled_lines",
                                        .help =
                                            "one text per line; columns `text` and `class`, which "
                                            "is the file's name without `.txt`, `.gz` and `.zst`",
                                        .read = [](const JobReader&, const SectionView&) {},
                                        .lists_columns = false};
  return kFormat;
}

}  // namespace coxswain::job
