// What projector.tensorflow.org loads.
#include "coordinator/export/csv_writer.h"
#include "coordinator/export/formats/format_list.h"

namespace coxswain::exporter {

const ExportFormat& ProjectorFormat() {
  static const ExportFormat format = {
      .name = "projector",
      .only_tables = "the projector shows rows of tables",
      .write_variable = WriteProjector,
      .ending = ".vectors.tsv",
      .labels = true,
  };
  return format;
}

}  // namespace coxswain::exporter
