// An index of hnswlib for each table.
#include "coordinator/export/formats/format_list.h"
#include "coordinator/export/hnsw_writer.h"

namespace coxswain::exporter {
namespace {

absl::Status WriteIndex(const SelectedRows& rows, const WordOf&, env::FileSystem* files,
                        const std::string& path) {
  return WriteHnsw(rows, files, path);
}

}  // namespace

const ExportFormat& HnswFormat() {
  static const ExportFormat format = {
      .name = "hnsw",
      .only_tables = "an index is of rows of tables",
      .write_variable = WriteIndex,
      .ending = ".hnsw",
      .labels = true,
  };
  return format;
}

}  // namespace coxswain::exporter
