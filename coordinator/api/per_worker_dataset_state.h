// State that the handles on one data set share.
#pragma once

#include <memory>

#include "coordinator/api/data_cursor.h"
#include "coxswain/strategy.h"
#include "runtime/data/dataset.h"
#include "runtime/data/dataset_options.h"

namespace coxswain {

struct PerWorkerDataset::State {
  DatasetId id = 0;
  uint64_t strategy = 0;
  data::DatasetOptions options;
  std::shared_ptr<const data::Dataset> data;  // the coordinator's own copy: sizes, vocabularies
  std::shared_ptr<DataCursor> cursor;
};

}  // namespace coxswain
