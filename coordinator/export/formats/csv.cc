// A table of text for each variable.
#include "coordinator/export/csv_writer.h"
#include "coordinator/export/formats/format_list.h"

namespace coxswain::exporter {

const ExportFormat& CsvFormat() {
  static const ExportFormat format = {
      .name = "csv",
      .write_variable = WriteCsv,
      .ending = ".csv",
  };
  return format;
}

}  // namespace coxswain::exporter
