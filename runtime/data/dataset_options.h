// A data set and how a program goes through it: what DatasetBuilder describes.
#pragma once

#include <cstdint>

#include <functional>

#include "protos/dataset.pb.h"

namespace coxswain::data {

struct DatasetOptions {
  proto::DatasetSpec spec;
  int64_t batch_size = 512;
  int64_t epochs = 1;
  bool drop_remainder = false;  // the last, smaller batch of an epoch
  // Called while the index of a large data set is made: bytes that were read, of all.
  std::function<void(int64_t done, int64_t all)> on_index = nullptr;
};

}  // namespace coxswain::data
