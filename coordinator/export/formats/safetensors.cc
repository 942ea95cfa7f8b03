// One file of arrays, with its metadata.
#include <cstdint>
#include <utility>
#include <vector>

#include "coordinator/export/formats/format_list.h"
#include "runtime/base/status.h"
#include "runtime/checkpoint/safetensors.h"

namespace coxswain::exporter {
namespace {

absl::Status WriteSafetensors(const std::vector<SelectedRows>& all, const Facts& facts,
                              env::FileSystem* files, const std::string& path) {
  std::vector<checkpoint::SafetensorsEntry> entries;
  for (const SelectedRows& rows : all) {
    if (rows.variable().table) entries.push_back({IdsName(rows), DType::kI64, Shape{rows.rows()}});
    entries.push_back({rows.variable().name, rows.variable().dtype, rows.shape()});
    if (rows.may_remove()) {
      entries.push_back({RemovedName(rows), DType::kI64, Shape{rows.removed()}});
    }
  }
  ASSIGN_OR_RETURN(auto out,
                   checkpoint::SafetensorsWriter::Create(files, path, std::move(entries), facts));
  for (const SelectedRows& rows : all) {
    if (rows.variable().table) {
      RETURN_IF_ERROR(rows.ForEach(false, true, [&](const SelectedBlock& block) {
        return out->Append(block.ids, static_cast<size_t>(block.rows) * sizeof(int64_t));
      }));
    }
    RETURN_IF_ERROR(rows.ForEach(true, false, [&](const SelectedBlock& block) {
      return out->Append(block.values, static_cast<size_t>(block.rows) * rows.saved().row_bytes());
    }));
    RETURN_IF_ERROR(rows.ForEachRemoved([&](absl::Span<const int64_t> ids) {
      return out->Append(ids.data(), ids.size() * sizeof(int64_t));
    }));
  }
  return out->Finish();
}

}  // namespace

const ExportFormat& SafetensorsFormat() {
  static const ExportFormat format = {
      .name = "safetensors",
      .write_all = WriteSafetensors,
  };
  return format;
}

}  // namespace coxswain::exporter
