#include "coordinator/export/hnsw_writer.h"

#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/model/vector_index.h"
#include "runtime/base/status.h"

namespace coxswain::exporter {
namespace {

constexpr int64_t kBuildBeam = 200;  // hnswlib's default

absl::Status ReadRow(DType dtype, const char* row, std::vector<float>* out) {
  for (size_t i = 0; i < out->size(); ++i) {
    if (dtype == DType::kF32) {
      std::memcpy(&(*out)[i], row + i * sizeof(float), sizeof(float));
    } else if (dtype == DType::kBF16) {
      (*out)[i] = reinterpret_cast<const BFloat16*>(row)[i].ToFloat();
    } else if (dtype == DType::kF64) {
      double value = 0;
      std::memcpy(&value, row + i * sizeof(double), sizeof(double));
      (*out)[i] = static_cast<float>(value);
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("wanted rows of f32, bf16 or f64, found ", DTypeName(dtype)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteHnsw(const SelectedRows& rows, env::FileSystem* files, const std::string& path) {
  const model::SavedRows& saved = rows.saved();
  ASSIGN_OR_RETURN(const auto index,
                   model::VectorIndex::Create(saved.row_elements(), rows.rows(), kBuildBeam));
  std::vector<float> row(static_cast<size_t>(saved.row_elements()));
  int64_t label = 0;
  RETURN_IF_ERROR(rows.ForEach(true, false, [&](const SelectedBlock& block) -> absl::Status {
    for (int64_t r = 0; r < block.rows; ++r, ++label) {
      const char* const values = block.values + static_cast<size_t>(r) * saved.row_bytes();
      RETURN_IF_ERROR(ReadRow(saved.variable().dtype, values, &row));
      if (model::Normalize(absl::MakeSpan(row))) RETURN_IF_ERROR(index->Add(label, row.data()));
    }
    return absl::OkStatus();
  }));
  ASSIGN_OR_RETURN(const auto file, files->CreateLarge(path));
  RETURN_IF_ERROR(index->Write(file.get()));
  RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

}  // namespace coxswain::exporter
