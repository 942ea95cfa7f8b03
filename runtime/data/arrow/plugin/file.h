// A file of columns in one of Arrow's formats, behind the C table.
#pragma once

#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/type.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/arrow/arrow_api.h"

namespace coxswain::data::plugin {

// Thread model: one thread.
class File {
 public:
  // The columns of rows, a record batch at a time; null at the end.
  using Batches = std::shared_ptr<arrow::RecordBatchReader>;

  virtual ~File() = default;

  const std::vector<CoxArrowField>& fields() const { return fields_; }
  virtual int64_t groups() const = 0;
  // Where the columns' bytes are; the number of rows.
  virtual arrow::Result<int64_t> Group(int64_t group, const std::vector<int32_t>& columns,
                                       std::vector<CoxArrowRange>* ranges) = 0;
  // The batches have these columns, in the order of the file.
  virtual arrow::Result<Batches> Read(int64_t group, const std::vector<int32_t>& columns,
                                      int64_t batch_rows) = 0;

 protected:
  void Describe(const arrow::Schema& schema);

 private:
  std::vector<std::string> texts_;  // that the fields point to
  std::vector<CoxArrowField> fields_;
};

// Errors: those of Arrow, for what is no such file.
arrow::Result<std::unique_ptr<File>> OpenParquet(const CoxArrowSource& source);
arrow::Result<std::unique_ptr<File>> OpenIpc(const CoxArrowSource& source);

}  // namespace coxswain::data::plugin
