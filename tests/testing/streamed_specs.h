// Data sets that are streamed, and the same ones in memory.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/testing/data_files.h"
#include "tests/testing/data_specs.h"

namespace coxswain {

// The spec, streamed; its index is kept in the directory of the files.
inline proto::DatasetSpec Streamed(const DataFiles& files, proto::DatasetSpec spec,
                                   int64_t block_bytes, int64_t window = 0,
                                   int64_t memory = int64_t{64} << 20) {
  proto::StreamOptions* stream = spec.mutable_stream();
  stream->set_mode(proto::StreamOptions::ALWAYS);
  stream->set_block_bytes(block_bytes);
  stream->set_shuffle_window(window);
  stream->set_memory(memory);
  stream->set_cache_directory(files.Path("cache"));
  return spec;
}

// A batch as bytes: tensors one after the other, each with its length.
inline std::vector<std::string> Bytes(const data::Dataset& data, const Ticket& ticket) {
  const auto batch = data.Read(ticket);
  INFO(ticket.ToString() << " " << batch.status().ToString());
  REQUIRE(batch.ok());
  std::vector<std::string> tensors;
  for (const Tensor& tensor : *batch) {
    tensors.emplace_back(static_cast<const char*>(tensor.buffer().data()), tensor.bytes());
  }
  return tensors;
}

// What every example of a part's epoch has, by its number, read in batches of some size; the spec
// has example_ids. An example that comes twice fails the test.
inline std::map<int64_t, std::string> Examples(const data::Dataset& data, Part part, int64_t epoch,
                                               int64_t batch_size) {
  std::map<int64_t, std::string> examples;
  const std::vector<data::ColumnSpec>& columns = data.columns(part);
  size_t id_column = 0;  // behind it, held-out parts may have what is known of the example
  while (columns.at(id_column).name != "example_id") ++id_column;
  for (int64_t begin = 0; begin < data.num_examples(part); begin += batch_size) {
    const int64_t end = std::min(begin + batch_size, data.num_examples(part));
    const auto batch = data.Read({part, epoch, begin, end});
    INFO(batch.status().ToString());
    REQUIRE(batch.ok());
    for (int64_t i = 0; i < end - begin; ++i) {
      std::string text;
      for (size_t c = 0; c < columns.size(); ++c) {
        const Tensor& tensor = (*batch)[c];
        int64_t first = i, last = i + 1;
        const std::string& name = columns[c].name;
        if (absl::EndsWith(name, ".offsets")) continue;
        if (absl::EndsWith(name, ".values") || absl::EndsWith(name, ".weights")) {
          size_t o = c;  // the offsets follow the values
          while (!absl::EndsWith(columns[o].name, ".offsets")) {
            o += absl::EndsWith(name, ".values") ? 1 : -1;
          }
          first = (*batch)[o].data<int32_t>()[i];
          last = (*batch)[o].data<int32_t>()[i + 1];
        }
        size_t width = tensor.bytes() / std::max<size_t>(1, tensor.num_elements());
        if (tensor.rank() == 2) width *= static_cast<size_t>(tensor.shape().dim(1));
        const char* const bytes = static_cast<const char*>(tensor.buffer().data());
        absl::StrAppend(&text, name, "=");
        text.append(bytes + static_cast<size_t>(first) * width,
                    static_cast<size_t>(last - first) * width);
      }
      const int64_t id = (*batch)[id_column].data<int64_t>()[i];
      CHECK(examples.emplace(id, text).second);
    }
  }
  return examples;
}

}  // namespace coxswain
