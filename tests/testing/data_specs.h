// Specs of data sets in few words, and their batches in plain vectors.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "protos/dataset.pb.h"
#include "runtime/data/dataset.h"

namespace coxswain {

inline proto::DatasetSpec CsvSpec(const std::string& path) {
  proto::DatasetSpec spec;
  spec.set_format("csv");
  spec.add_paths(path);
  spec.mutable_csv()->set_header(true);
  return spec;
}

inline proto::FeatureSpec* AddNumeric(proto::DatasetSpec* spec, const std::string& name) {
  proto::FeatureSpec* feature = spec->add_features();
  feature->set_name(name);
  return feature;
}

inline proto::FeatureSpec* AddCategorical(proto::DatasetSpec* spec, const std::string& name) {
  proto::FeatureSpec* feature = AddNumeric(spec, name);
  feature->set_kind(proto::FeatureSpec::CATEGORICAL);
  return feature;
}

inline std::unique_ptr<data::Dataset> MustLoad(const proto::DatasetSpec& spec) {
  auto dataset = data::Dataset::Load(spec);
  INFO(dataset.status().ToString());
  REQUIRE(dataset.ok());
  return std::move(dataset).value();
}

inline std::string LoadError(const proto::DatasetSpec& spec) {
  const auto dataset = data::Dataset::Load(spec);
  REQUIRE_FALSE(dataset.ok());
  return std::string(dataset.status().message());
}

// The column of a batch by name, its type checked against what the data set announces.
template <typename T>
std::vector<T> Values(const data::Dataset& dataset, const Ticket& ticket, const std::string& name) {
  auto batch = dataset.Read(ticket);
  INFO(ticket.ToString() << " " << name << " " << batch.status().ToString());
  REQUIRE(batch.ok());
  const std::vector<data::ColumnSpec>& columns = dataset.columns(ticket.part);
  REQUIRE(batch->size() == columns.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    REQUIRE((*batch)[i].dtype() == columns[i].type.dtype);
    REQUIRE(columns[i].type.shape.Accepts((*batch)[i].shape()));
    if (columns[i].name != name) continue;
    const absl::Span<const T> values = (*batch)[i].values<T>();
    return {values.begin(), values.end()};
  }
  FAIL("no column " << name);
  return {};
}

inline Ticket AllOf(const data::Dataset& dataset, Part part, int64_t epoch = 0) {
  return {part, epoch, 0, dataset.num_examples(part)};
}

}  // namespace coxswain
