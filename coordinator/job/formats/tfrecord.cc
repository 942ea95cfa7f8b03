// format: tfrecord
#include "coordinator/job/formats/job_formats.h"

namespace coxswain::job {

const JobFormat& TfrecordJobFormat() {
  static constexpr JobFormat kFormat = {.name = "tfrecord",
                                        .help =
                                            "TensorFlow's TFRecord files of tf.Example; the names "
                                            "of the examples' features are the columns",
                                        .read = [](const JobReader&, const SectionView&) {},
                                        .lists_columns = false};
  return kFormat;
}

}  // namespace coxswain::job
