// Arrow's own files ("IPC", Feather V2): where their batches are, and the columns of a batch.
//
// Arrow does not tell where a batch lies, or how many rows it has before it is read; so the footer
// is read here, too.
#include <arrow/buffer.h>
#include <arrow/ipc/options.h>
#include <arrow/ipc/reader.h>

#include <cstring>
#include <optional>
#include <utility>

#include "runtime/data/arrow/plugin/file.h"
#include "runtime/data/arrow/plugin/flat.h"
#include "runtime/data/arrow/plugin/host_file.h"

namespace coxswain::data::plugin {
namespace {

using arrow::Result;
using arrow::Status;

constexpr int64_t kTail = 10;  // the length of the footer, and "ARROW1"
constexpr int kFooterDictionaries = 2, kFooterBatches = 3, kMessageHeader = 2, kBatchLength = 0;
// A batch or a dictionary in the footer: offset i64, bytes of metadata i32, padding, bytes of the
// body i64.
constexpr int64_t kBlockBytes = 24;

struct Block {
  int64_t offset = 0;
  int32_t metadata = 0;  // bytes
  int64_t body = 0;
  int64_t rows = 0;  // of a batch

  CoxArrowRange range() const { return {offset, metadata + body}; }
};

// Errors: where it lies outside of a file of this size.
Result<Block> ReadBlock(const char* data, int64_t size) {
  Block block;
  std::memcpy(&block.offset, data, sizeof(block.offset));
  std::memcpy(&block.metadata, data + 8, sizeof(block.metadata));
  std::memcpy(&block.body, data + 16, sizeof(block.body));
  if (block.offset < 0 || block.metadata < 8 || block.body < 0 || block.offset > size ||
      block.metadata > size || block.body > size) {
    return Status::Invalid("a batch outside of the file");
  }
  return block;
}

class IpcFile final : public File {
 public:
  explicit IpcFile(const CoxArrowSource& source)
      : bytes_(std::make_shared<HostFile>(source, /*copies=*/true)) {}
  Status Open();

  int64_t groups() const override { return static_cast<int64_t>(blocks_.size()); }
  Result<int64_t> Group(int64_t group, const std::vector<int32_t>& columns,
                        std::vector<CoxArrowRange>* ranges) override;
  Result<Batches> Read(int64_t group, const std::vector<int32_t>& columns,
                       int64_t batch_rows) override;

 private:
  Status ReadFooter();
  Status AddBatch(const char* data);
  Status CheckGroup(int64_t group) const;

  std::shared_ptr<HostFile> bytes_;
  std::vector<Block> blocks_;
  std::vector<CoxArrowRange> dictionaries_;  // every batch may use all of them
  std::vector<int32_t> columns_;             // of the reader
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> reader_;
};

Status IpcFile::Open() {
  ARROW_ASSIGN_OR_RAISE(reader_, arrow::ipc::RecordBatchFileReader::Open(bytes_));
  ARROW_RETURN_NOT_OK(ReadFooter());
  if (groups() != reader_->num_record_batches()) {
    return Status::Invalid("a footer of ", groups(), " batches, and one of ",
                           reader_->num_record_batches());
  }
  Describe(*reader_->schema());
  return Status::OK();
}

Status IpcFile::ReadFooter() {
  ARROW_ASSIGN_OR_RAISE(const int64_t size, bytes_->GetSize());
  if (size < kTail) return Status::Invalid("no footer");
  ARROW_ASSIGN_OR_RAISE(const auto tail, bytes_->ReadAt(size - kTail, kTail));
  int32_t length = 0;
  std::memcpy(&length, tail->data(), sizeof(length));
  if (length < 0 || length > size - kTail) return Status::Invalid("a footer outside of the file");
  ARROW_ASSIGN_OR_RAISE(const auto footer, bytes_->ReadAt(size - kTail - length, length));
  const char* const data = reinterpret_cast<const char*>(footer->data());
  const auto root = FlatTable::Root(data, length);
  const auto batches = root ? root->Structs(kFooterBatches, kBlockBytes) : std::nullopt;
  const auto dictionaries = root ? root->Structs(kFooterDictionaries, kBlockBytes) : std::nullopt;
  if (!batches || !dictionaries) return Status::Invalid("a broken footer");
  for (int64_t i = 0; i < dictionaries->count; ++i) {
    ARROW_ASSIGN_OR_RAISE(const Block block, ReadBlock(dictionaries->data + i * kBlockBytes, size));
    dictionaries_.push_back(block.range());
  }
  for (int64_t i = 0; i < batches->count; ++i) {
    ARROW_RETURN_NOT_OK(AddBatch(batches->data + i * kBlockBytes));
  }
  return Status::OK();
}

Status IpcFile::AddBatch(const char* data) {
  ARROW_ASSIGN_OR_RAISE(const int64_t size, bytes_->GetSize());
  ARROW_ASSIGN_OR_RAISE(Block added, ReadBlock(data, size));
  // A mark of 4 bytes (older files have none), the length, the message.
  ARROW_ASSIGN_OR_RAISE(const auto bytes, bytes_->ReadAt(added.offset, added.metadata));
  int32_t mark = 0;
  if (bytes->size() < 8) return Status::Invalid("a batch outside of the file");
  std::memcpy(&mark, bytes->data(), sizeof(mark));
  const int64_t begin = mark == -1 ? 8 : 4;
  const auto message =
      FlatTable::Root(reinterpret_cast<const char*>(bytes->data()) + begin, bytes->size() - begin);
  const auto batch = message ? message->Table(kMessageHeader) : std::nullopt;
  const auto rows = batch ? batch->Get<int64_t>(kBatchLength, 0) : std::nullopt;
  if (!rows || *rows < 0) return Status::Invalid("a broken batch");
  added.rows = *rows;
  blocks_.push_back(added);
  return Status::OK();
}

Status IpcFile::CheckGroup(int64_t group) const {
  if (group >= 0 && group < groups()) return Status::OK();
  return Status::Invalid("wanted one of ", groups(), " batches, found ", group);
}

Result<int64_t> IpcFile::Group(int64_t group, const std::vector<int32_t>& columns,
                               std::vector<CoxArrowRange>* ranges) {
  ARROW_RETURN_NOT_OK(CheckGroup(group));
  const Block& block = blocks_[static_cast<size_t>(group)];
  ranges->clear();
  if (columns.empty()) return block.rows;
  // A column of categories has numbers in the batch: which texts they mean is in a dictionary.
  *ranges = dictionaries_;
  ranges->push_back(block.range());
  return block.rows;
}

Result<File::Batches> IpcFile::Read(int64_t group, const std::vector<int32_t>& columns,
                                    int64_t batch_rows) {
  ARROW_RETURN_NOT_OK(CheckGroup(group));
  if (columns_ != columns || columns_.empty()) {
    arrow::ipc::IpcReadOptions options = arrow::ipc::IpcReadOptions::Defaults();
    options.included_fields.assign(columns.begin(), columns.end());
    options.use_threads = false;
    ARROW_ASSIGN_OR_RAISE(reader_, arrow::ipc::RecordBatchFileReader::Open(bytes_, options));
    columns_ = columns;
  }
  ARROW_ASSIGN_OR_RAISE(const auto batch, reader_->ReadRecordBatch(static_cast<int>(group)));
  // What Arrow writes by itself it trusts; this comes from a disk.
  ARROW_RETURN_NOT_OK(batch->ValidateFull());
  arrow::RecordBatchVector slices;
  for (int64_t row = 0; row < batch->num_rows(); row += batch_rows) {
    slices.push_back(batch->Slice(row, batch_rows));
  }
  ARROW_ASSIGN_OR_RAISE(auto batches, arrow::RecordBatchReader::Make(slices, batch->schema()));
  return batches;
}

}  // namespace

Result<std::unique_ptr<File>> OpenIpc(const CoxArrowSource& source) {
  auto file = std::make_unique<IpcFile>(source);
  ARROW_RETURN_NOT_OK(file->Open());
  return file;
}

}  // namespace coxswain::data::plugin
