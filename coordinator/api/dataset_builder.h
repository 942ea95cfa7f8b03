// Describes a data set for CreatePerWorkerDataset, one call after the other:
//
//   Csv("ratings.csv").Categorical("userId").Categorical("movieId").Label("rating")
//       .Shuffle(7).Batch(512).Epochs(10)
//
// Mistakes are reported when the data set is created.
#pragma once

#include <string>
#include <vector>

#include "protos/dataset.pb.h"

namespace coxswain {

struct DatasetOptions {
  proto::DatasetSpec spec;
  int64_t batch_size = 512;
  int64_t epochs = 1;
  bool drop_remainder = false;  // the last, smaller batch of an epoch
};

class DatasetBuilder {
 public:
  explicit DatasetBuilder(proto::DatasetSpec spec) { options_.spec = std::move(spec); }

  DatasetBuilder& Numeric(const std::string& column) {
    proto::FeatureSpec* f = Feature(column);
    f->set_kind(proto::FeatureSpec::NUMERIC);
    return *this;
  }
  // Ids by a vocabulary learned from the training part, and one more id for all other values.
  DatasetBuilder& Categorical(const std::string& column) {
    proto::FeatureSpec* f = Feature(column);
    f->set_kind(proto::FeatureSpec::CATEGORICAL);
    f->set_oov_buckets(1);
    return *this;
  }
  DatasetBuilder& Hashed(const std::string& column, int64_t buckets) {
    proto::FeatureSpec* f = Feature(column);
    f->set_kind(proto::FeatureSpec::CATEGORICAL);
    f->set_hash_buckets(buckets);
    return *this;
  }
  // Ids without a vocabulary, for hash tables: integers as they are, or 64-bit hashes of any
  // values.
  DatasetBuilder& Ids(const std::string& column) { return Unbounded(column, "raw"); }
  DatasetBuilder& HashedIds(const std::string& column) { return Unbounded(column, "hash"); }
  DatasetBuilder& Label(const std::string& column) {
    options_.spec.mutable_label()->set_column(column);
    return *this;
  }
  // A feature with everything that proto::FeatureSpec offers.
  DatasetBuilder& Add(const proto::FeatureSpec& feature) {
    *options_.spec.add_features() = feature;
    return *this;
  }
  DatasetBuilder& Shuffle(uint64_t seed) {
    options_.spec.set_shuffle(true);
    options_.spec.set_seed(seed);
    return *this;
  }
  // Each worker shuffles all examples for itself, as TensorFlow's per-worker datasets do: within an
  // epoch an example may be used by several workers or by none.
  DatasetBuilder& PerWorker() {
    options_.spec.set_per_worker(true);
    return *this;
  }
  DatasetBuilder& Batch(int64_t size) {
    options_.batch_size = size;
    return *this;
  }
  DatasetBuilder& Epochs(int64_t epochs) {
    options_.epochs = epochs;
    return *this;
  }
  const DatasetOptions& options() const { return options_; }

 private:
  DatasetBuilder& Unbounded(const std::string& column, const std::string& id) {
    proto::FeatureSpec* f = Feature(column);
    f->set_kind(proto::FeatureSpec::CATEGORICAL);
    f->set_id(id);
    return *this;
  }
  proto::FeatureSpec* Feature(const std::string& column) {
    proto::FeatureSpec* f = options_.spec.add_features();
    f->set_name(column);
    f->set_column(column);
    return f;
  }

  DatasetOptions options_;
};

// A comma-separated file whose first line names the columns; .gz is unpacked while reading.
inline DatasetBuilder Csv(const std::string& path) {
  proto::DatasetSpec spec;
  spec.set_format("csv");
  spec.add_paths(path);
  spec.mutable_csv()->set_separator(",");
  spec.mutable_csv()->set_header(true);
  spec.mutable_csv()->set_quoting(true);
  return DatasetBuilder(std::move(spec));
}

}  // namespace coxswain
