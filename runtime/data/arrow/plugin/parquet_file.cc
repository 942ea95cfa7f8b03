// Parquet. parquet/arrow/reader.h takes seconds to compile: it is included here only.
#include <arrow/memory_pool.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>

#include <algorithm>
#include <utility>

#include "runtime/data/arrow/plugin/file.h"
#include "runtime/data/arrow/plugin/host_file.h"

namespace coxswain::data::plugin {
namespace {

using arrow::Result;
using arrow::Status;

// Whether a column of texts was written with a dictionary: then it is read as one, and each
// different text is looked at once.
bool HasDictionary(const parquet::FileMetaData& metadata, int leaf) {
  if (metadata.num_row_groups() == 0) return false;
  const auto chunk = metadata.RowGroup(0)->ColumnChunk(leaf);
  return chunk->type() == parquet::Type::BYTE_ARRAY && chunk->has_dictionary_page();
}

void AddLeaves(const parquet::arrow::SchemaField& field, std::vector<int>* leaves) {
  if (field.column_index >= 0) leaves->push_back(field.column_index);
  for (const auto& child : field.children) AddLeaves(child, leaves);
}

class ParquetFile final : public File {
 public:
  static Result<std::unique_ptr<File>> Open(const CoxArrowSource& source);

  int64_t groups() const override { return reader_->num_row_groups(); }
  Result<int64_t> Group(int64_t group, const std::vector<int32_t>& columns,
                        std::vector<CoxArrowRange>* ranges) override;
  Result<Batches> Read(int64_t group, const std::vector<int32_t>& columns,
                       int64_t batch_rows) override;

 private:
  // The numbers of leaves, which Parquet's own columns are.
  Result<std::vector<int>> Leaves(const std::vector<int32_t>& columns) const;
  Status CheckGroup(int64_t group) const;

  std::unique_ptr<parquet::arrow::FileReader> reader_;
};

Result<std::unique_ptr<File>> ParquetFile::Open(const CoxArrowSource& source) {
  const auto bytes = std::make_shared<HostFile>(source);
  auto file = std::make_unique<ParquetFile>();
  parquet::ReaderProperties properties(arrow::default_memory_pool());
  properties.set_page_checksum_verification(true);  // of pages that have one
  parquet::arrow::FileReaderBuilder builder;
  ARROW_RETURN_NOT_OK(builder.Open(bytes, properties));
  parquet::ArrowReaderProperties options(/*use_threads=*/false);
  options.set_pre_buffer(false);
  const parquet::FileMetaData& metadata = *builder.raw_reader()->metadata();
  for (int leaf = 0; leaf < metadata.num_columns(); ++leaf) {
    if (HasDictionary(metadata, leaf)) options.set_read_dictionary(leaf, true);
  }
  ARROW_RETURN_NOT_OK(builder.memory_pool(arrow::default_memory_pool())
                          ->properties(options)
                          ->Build(&file->reader_));
  std::shared_ptr<arrow::Schema> schema;
  ARROW_RETURN_NOT_OK(file->reader_->GetSchema(&schema));
  file->Describe(*schema);
  return file;
}

Status ParquetFile::CheckGroup(int64_t group) const {
  if (group >= 0 && group < groups()) return Status::OK();
  return Status::Invalid("wanted one of ", groups(), " row groups, found ", group);
}

Result<std::vector<int>> ParquetFile::Leaves(const std::vector<int32_t>& columns) const {
  std::vector<int> leaves;
  const auto& fields = reader_->manifest().schema_fields;
  for (const int32_t column : columns) {
    if (column < 0 || static_cast<size_t>(column) >= fields.size()) {
      return Status::Invalid("wanted one of ", fields.size(), " columns, found ", column);
    }
    AddLeaves(fields[static_cast<size_t>(column)], &leaves);
  }
  return leaves;
}

Result<int64_t> ParquetFile::Group(int64_t group, const std::vector<int32_t>& columns,
                                   std::vector<CoxArrowRange>* ranges) {
  ARROW_RETURN_NOT_OK(CheckGroup(group));
  ARROW_ASSIGN_OR_RAISE(const std::vector<int> leaves, Leaves(columns));
  const auto metadata = reader_->parquet_reader()->metadata()->RowGroup(static_cast<int>(group));
  ranges->clear();
  for (const int leaf : leaves) {
    const auto chunk = metadata->ColumnChunk(leaf);
    int64_t offset = chunk->data_page_offset();
    // Some writers leave a zero where there is no dictionary.
    if (chunk->has_dictionary_page() && chunk->dictionary_page_offset() > 0) {
      offset = std::min(offset, chunk->dictionary_page_offset());
    }
    ranges->push_back({offset, chunk->total_compressed_size()});
  }
  return metadata->num_rows();
}

Result<File::Batches> ParquetFile::Read(int64_t group, const std::vector<int32_t>& columns,
                                        int64_t batch_rows) {
  ARROW_RETURN_NOT_OK(CheckGroup(group));
  ARROW_ASSIGN_OR_RAISE(const std::vector<int> leaves, Leaves(columns));
  reader_->set_batch_size(batch_rows);
  ARROW_ASSIGN_OR_RAISE(auto batches,
                        reader_->GetRecordBatchReader({static_cast<int>(group)}, leaves));
  return Batches(std::move(batches));
}

}  // namespace

Result<std::unique_ptr<File>> OpenParquet(const CoxArrowSource& source) {
  return ParquetFile::Open(source);
}

}  // namespace coxswain::data::plugin
