// format: labelled_files
#include "coordinator/job/formats/job_formats.h"

namespace coxswain::job {

const JobFormat& LabelledFilesJobFormat() {
  static constexpr JobFormat kFormat = {.name = "labelled_files",
                                        .help =
                                            "one text per file; columns `text` and `class`, which "
                                            "is the name of the file's directory",
                                        .read = [](const JobReader&, const SectionView&) {},
                                        .lists_columns = false};
  return kFormat;
}

}  // namespace coxswain::job
