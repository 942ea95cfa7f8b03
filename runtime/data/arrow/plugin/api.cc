// The C table: what Arrow says and throws becomes codes and messages here.
#include "runtime/data/arrow/arrow_api.h"

#include <arrow/util/config.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <numeric>
#include <string>
#include <utility>

#include "runtime/data/arrow/plugin/columns.h"
#include "runtime/data/arrow/plugin/file.h"
#include "runtime/data/arrow/plugin/stored.h"

using coxswain::data::plugin::Column;
using coxswain::data::plugin::File;

struct CoxArrowFile {
  std::unique_ptr<File> file;
  std::vector<CoxArrowRange> ranges;
};

struct CoxArrowStoredFile {
  std::unique_ptr<coxswain::data::plugin::StoredFile> file;
};

struct CoxArrowStoredRead {
  coxswain::data::plugin::StoredRead read;
};

struct CoxArrowReader {
  File::Batches batches;
  std::vector<int> order;  // by column as asked for: which one of a batch it is
  std::vector<std::unique_ptr<Column>> columns;
  std::vector<CoxArrowColumn> views;
};

namespace coxswain::data::plugin {
namespace {

// The numbers of absl::StatusCode.
constexpr int32_t kInvalidArgument = 3, kNotFound = 5, kPermissionDenied = 7,
                  kResourceExhausted = 8, kUnimplemented = 12, kUnavailable = 14, kDataLoss = 15;

int32_t CodeOf(const arrow::Status& status) {
  if (status.IsOutOfMemory() || status.IsCapacityError()) return kResourceExhausted;
  if (status.IsNotImplemented()) return kUnimplemented;
  return status.IsIOError() ? kDataLoss : kInvalidArgument;
}

// Of object stores, whose errors say more in their words than by their codes.
int32_t CodeOfStore(const arrow::Status& status) {
  if (!status.IsIOError()) return CodeOf(status);
  const auto says = [&status](const char* words) {
    return status.message().find(words) != std::string::npos;
  };
  if (says("Path does not exist") || says("NO_SUCH_KEY") || says("NO_SUCH_BUCKET") ||
      says("not found") || says("HTTP status 404")) {
    return kNotFound;
  }
  return says("ACCESS_DENIED") || says("HTTP status 403") || says("INVALID_ACCESS_KEY") ||
                 says("SIGNATURE_DOES_NOT_MATCH")
             ? kPermissionDenied
             : kUnavailable;
}

int32_t Answer(int32_t code, const std::string& message, CoxArrowError* error) {
  const size_t length = std::min(message.size(), sizeof(error->message) - 1);
  std::memcpy(error->message, message.data(), length);
  error->message[length] = 0;
  return code;
}

// Runs what returns an arrow::Status.
template <typename Run>
int32_t Guarded(CoxArrowError* error, Run run, int32_t (*code_of)(const arrow::Status&) = CodeOf) {
  try {
    const arrow::Status status = run();
    return status.ok() ? 0 : Answer(code_of(status), status.message(), error);
  } catch (const std::bad_alloc&) {
    return Answer(kResourceExhausted, "out of memory", error);
  } catch (const std::exception& thrown) {  // Parquet's own code throws
    return Answer(kInvalidArgument, thrown.what(), error);
  } catch (...) {
    return Answer(kInvalidArgument, "something was thrown", error);
  }
}

int32_t Open(int32_t format, const CoxArrowSource* source, CoxArrowFile** file,
             CoxArrowError* error) {
  return Guarded(error, [&] {
    auto made = std::make_unique<CoxArrowFile>();
    ARROW_ASSIGN_OR_RAISE(made->file,
                          format == COX_ARROW_IPC ? OpenIpc(*source) : OpenParquet(*source));
    *file = made.release();
    return arrow::Status::OK();
  });
}

void Close(CoxArrowFile* file) { delete file; }

void Fields(const CoxArrowFile* file, const CoxArrowField** fields, int64_t* count) {
  *fields = file->file->fields().data();
  *count = static_cast<int64_t>(file->file->fields().size());
}

int64_t Groups(const CoxArrowFile* file) { return file->file->groups(); }

int32_t Group(CoxArrowFile* file, int64_t group, const int32_t* columns, int64_t num_columns,
              int64_t* rows, const CoxArrowRange** ranges, int64_t* num_ranges,
              CoxArrowError* error) {
  return Guarded(error, [&] {
    ARROW_ASSIGN_OR_RAISE(
        *rows, file->file->Group(group, {columns, columns + num_columns}, &file->ranges));
    *ranges = file->ranges.data();
    *num_ranges = static_cast<int64_t>(file->ranges.size());
    return arrow::Status::OK();
  });
}

int32_t OpenReader(CoxArrowFile* file, int64_t group, const int32_t* columns, int64_t num_columns,
                   int64_t batch_rows, CoxArrowReader** reader, CoxArrowError* error) {
  return Guarded(error, [&] {
    auto made = std::make_unique<CoxArrowReader>();
    // Batches have the columns in the order of the file.
    std::vector<int32_t> sorted(columns, columns + num_columns);
    std::sort(sorted.begin(), sorted.end());
    for (int64_t i = 0; i < num_columns; ++i) {
      const auto at = std::lower_bound(sorted.begin(), sorted.end(), columns[i]);
      made->order.push_back(static_cast<int>(at - sorted.begin()));
      made->columns.push_back(std::make_unique<Column>());
    }
    made->views.resize(static_cast<size_t>(num_columns));
    ARROW_ASSIGN_OR_RAISE(made->batches, file->file->Read(group, sorted, batch_rows));
    *reader = made.release();
    return arrow::Status::OK();
  });
}

int32_t Next(CoxArrowReader* reader, const CoxArrowColumn** columns, int64_t* rows,
             CoxArrowError* error) {
  return Guarded(error, [&] {
    *columns = reader->views.data();
    *rows = 0;
    std::shared_ptr<arrow::RecordBatch> batch;
    do {  // batches without rows are no end
      ARROW_RETURN_NOT_OK(reader->batches->ReadNext(&batch));
      if (batch == nullptr) return arrow::Status::OK();
    } while (batch->num_rows() == 0);
    if (batch->num_columns() != static_cast<int>(reader->order.size())) {
      return arrow::Status::Invalid("wanted ", reader->order.size(), " columns, found ",
                                    batch->num_columns());
    }
    for (size_t i = 0; i < reader->order.size(); ++i) {
      ARROW_RETURN_NOT_OK(reader->columns[i]->Set(batch->column(reader->order[i])));
      reader->views[i] = reader->columns[i]->column();
      if (reader->views[i].rows != batch->num_rows()) {
        return arrow::Status::Invalid("columns of different lengths");
      }
    }
    *rows = batch->num_rows();
    return arrow::Status::OK();
  });
}

void CloseReader(CoxArrowReader* reader) { delete reader; }

int32_t FindStored(const char* address, CoxArrowFoundFunction found, void* context,
                   CoxArrowError* error) {
  return Guarded(
      error, [&] { return FindInStore(address, found, context); }, CodeOfStore);
}

int32_t ListStored(const char* address, CoxArrowFoundFunction found, void* context,
                   CoxArrowError* error) {
  return Guarded(
      error, [&] { return ListInStore(address, found, context); }, CodeOfStore);
}

int32_t OpenStored(const char* address, CoxArrowStoredFile** file, CoxArrowStored* about,
                   CoxArrowError* error) {
  return Guarded(
      error,
      [&] {
        auto made = std::make_unique<CoxArrowStoredFile>();
        ARROW_ASSIGN_OR_RAISE(made->file, StoredFile::Open(address));
        *about = made->file->about();
        *file = made.release();
        return arrow::Status::OK();
      },
      CodeOfStore);
}

int32_t ReadStored(CoxArrowStoredFile* file, int64_t offset, int64_t bytes, void* out,
                   CoxArrowError* error) {
  return Guarded(
      error, [&] { return file->file->Read(offset, bytes, out); }, CodeOfStore);
}

void CloseStored(CoxArrowStoredFile* file) { delete file; }

int32_t StartRead(CoxArrowStoredFile* file, int64_t offset, int64_t bytes,
                  CoxArrowStoredRead** read, CoxArrowError* error) {
  return Guarded(
      error,
      [&] {
        auto made = std::make_unique<CoxArrowStoredRead>();
        made->read = {offset, bytes, file->file->Start(offset, bytes)};
        *read = made.release();
        return arrow::Status::OK();
      },
      CodeOfStore);
}

int32_t TakeRead(CoxArrowStoredRead* read, void* out, CoxArrowError* error) {
  return Guarded(
      error, [&] { return read->read.Take(out); }, CodeOfStore);
}

void DropRead(CoxArrowStoredRead* read) { delete read; }

}  // namespace
}  // namespace coxswain::data::plugin

__attribute__((visibility("default"))) const CoxArrowApi* coxswain_arrow_api(void) {
  namespace plugin = coxswain::data::plugin;
  static const CoxArrowApi api = {
      COX_ARROW_API_VERSION, sizeof(CoxArrowApi), "Apache Arrow " ARROW_VERSION_STRING,
      plugin::Open,          plugin::Close,       plugin::Fields,
      plugin::Groups,        plugin::Group,       plugin::OpenReader,
      plugin::Next,          plugin::CloseReader, plugin::FindStored,
      plugin::ListStored,    plugin::OpenStored,  plugin::ReadStored,
      plugin::CloseStored,   plugin::StartRead,   plugin::TakeRead,
      plugin::DropRead};
  return &api;
}
