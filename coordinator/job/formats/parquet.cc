// format: parquet
#include "coordinator/job/formats/job_formats.h"

namespace coxswain::job {

const JobFormat& ParquetJobFormat() {
  static constexpr JobFormat kFormat = {
      .name = "parquet",
      .help = "Parquet files; only the columns that the job names are read",
      .read = [](const JobReader&, const SectionView&) {}};
  return kFormat;
}

}  // namespace coxswain::job
