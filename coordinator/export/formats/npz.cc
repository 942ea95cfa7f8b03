// What numpy.load reads. It has no bf16: such variables are widened.
#include <cstdint>
#include <vector>

#include "coordinator/export/formats/format_list.h"
#include "coordinator/export/npz_writer.h"
#include "nlohmann/json.hpp"
#include "runtime/base/status.h"

namespace coxswain::exporter {
namespace {

absl::Status WriteNpzRows(const SelectedRows& rows, NpzWriter* out) {
  if (rows.variable().table) {
    RETURN_IF_ERROR(out->BeginArray(IdsName(rows), DType::kI64, Shape{rows.rows()}));
    RETURN_IF_ERROR(rows.ForEach(false, true, [&](const SelectedBlock& block) {
      return out->Append(block.ids, static_cast<size_t>(block.rows) * sizeof(int64_t));
    }));
    RETURN_IF_ERROR(out->EndArray());
  }
  const bool widen = rows.variable().dtype == DType::kBF16;
  RETURN_IF_ERROR(out->BeginArray(rows.variable().name, widen ? DType::kF32 : rows.variable().dtype,
                                  rows.shape()));
  std::vector<float> wide;
  RETURN_IF_ERROR(rows.ForEach(true, false, [&](const SelectedBlock& block) {
    const size_t bytes = static_cast<size_t>(block.rows) * rows.saved().row_bytes();
    if (!widen) return out->Append(block.values, bytes);
    const auto* narrow = reinterpret_cast<const BFloat16*>(block.values);
    wide.resize(bytes / sizeof(BFloat16));
    for (size_t i = 0; i < wide.size(); ++i) wide[i] = narrow[i].ToFloat();
    return out->Append(wide.data(), wide.size() * sizeof(float));
  }));
  RETURN_IF_ERROR(out->EndArray());
  if (!rows.may_remove()) return absl::OkStatus();
  RETURN_IF_ERROR(out->BeginArray(RemovedName(rows), DType::kI64, Shape{rows.removed()}));
  RETURN_IF_ERROR(rows.ForEachRemoved([&](absl::Span<const int64_t> ids) {
    return out->Append(ids.data(), ids.size() * sizeof(int64_t));
  }));
  return out->EndArray();
}

absl::Status WriteNpz(const std::vector<SelectedRows>& all, const Facts& facts,
                      env::FileSystem* files, const std::string& path) {
  ASSIGN_OR_RETURN(auto out, NpzWriter::Create(files, path));
  for (const SelectedRows& rows : all) RETURN_IF_ERROR(WriteNpzRows(rows, out.get()));
  RETURN_IF_ERROR(out->AddText(
      "__metadata__",
      nlohmann::json(facts).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  return out->Finish();
}

}  // namespace

const ExportFormat& NpzFormat() {
  static const ExportFormat format = {
      .name = "npz",
      .write_all = WriteNpz,
  };
  return format;
}

}  // namespace coxswain::exporter
