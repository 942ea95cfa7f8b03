// Saved models and checkpoints on disk, made without training.
#pragma once

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coxswain/tensor.h"
#include "nlohmann/json.hpp"
#include "runtime/base/row_mix.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/env/file_system.h"

namespace coxswain {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

struct WrittenFile {
  uint64_t bytes = 0;
  uint32_t crc32 = 0;
};

inline WrittenFile WriteTensors(const std::string& path, const NamedTensors& tensors) {
  const auto files = env::NewRealFileSystem();
  std::vector<checkpoint::SafetensorsEntry> entries;
  for (const auto& [name, t] : tensors) entries.push_back({name, t.dtype(), t.shape()});
  auto writer = checkpoint::SafetensorsWriter::Create(files.get(), path, entries);
  REQUIRE(writer.ok());
  for (const auto& [name, t] : tensors) REQUIRE((*writer)->Append(t.raw(), t.bytes()).ok());
  REQUIRE((*writer)->Finish().ok());
  return {(*writer)->bytes(), (*writer)->crc32()};
}

struct ModelVariable {
  std::string name;
  Tensor values;
  bool table = false;
  std::vector<std::string> words = {};  // of a table: its vocabulary, in the file NAME.txt
  std::vector<int64_t> ids = {};        // of a hash table
  std::vector<std::string> names = {};  // that were kept of hashed values, in NAME.names
};

// A model directory as SaveModel leaves it.
inline void WriteModel(const std::string& directory, const std::vector<ModelVariable>& variables) {
  std::filesystem::create_directories(directory + "/vocabulary");
  nlohmann::ordered_json manifest = {{"format", "coxswain-model"}, {"steps", 12}};
  manifest["variables"] = nlohmann::ordered_json::array();
  const auto files = env::NewRealFileSystem();
  for (const ModelVariable& v : variables) {
    const bool hash = !v.ids.empty();
    const std::string file = v.name + ".safetensors";
    const WrittenFile written = WriteTensors(
        absl::StrCat(directory, "/", file),
        hash ? NamedTensors{{"ids", Tensor::FromVector<int64_t>(v.ids)}, {"rows", v.values}}
             : NamedTensors{{"values", v.values}});
    std::vector<int64_t> shape(v.values.shape().dims().begin(), v.values.shape().dims().end());
    if (hash) shape[0] = -1;
    nlohmann::ordered_json entry = {
        {"name", v.name},        {"dtype", std::string(DTypeName(v.values.dtype()))},
        {"shape", shape},        {"table", v.table},
        {"file", file},          {"bytes", written.bytes},
        {"crc32", written.crc32}};
    if (hash) entry["hash"] = true;
    const auto write = [&](const char* key, const std::vector<std::string>& lines,
                           const char* ending) {
      if (lines.empty()) return;
      entry[key] = v.name;
      std::string text;
      for (const std::string& line : lines) absl::StrAppend(&text, line, "\n");
      const std::string path = absl::StrCat(directory, "/vocabulary/", v.name, ending);
      REQUIRE(files->WriteAtomically(path, text).ok());
    };
    write("vocabulary", v.words, ".txt");
    write("names", v.names, ".names");
    manifest["variables"].push_back(std::move(entry));
  }
  REQUIRE(files->WriteAtomically(directory + "/model.json", manifest.dump(2)).ok());
  REQUIRE(files->WriteAtomically(directory + "/job.yaml", "name: made\n").ok());
}

// One variable of a checkpoint, cut into shards as the strategy says.
struct SavedTable {
  std::string name;
  Tensor values;  // of the whole variable, f32
  std::string strategy = "div";
  int shards = 1;
  bool table = true;
  std::vector<int64_t> touched = {};  // of each row
  std::vector<int64_t> applied = {};  // of each shard
  // Of a hash table: as it lies in the shards, which follow one another; a count of 0 is a free
  // place.
  std::vector<int64_t> ids = {};
  std::vector<int32_t> counts = {};
};

// `rows` of a tensor whose first dimension is rows.
template <typename T>
Tensor RowsOf(const Tensor& from, const std::vector<int64_t>& rows) {
  Shape shape = from.shape();
  shape.set_dim(0, static_cast<int64_t>(rows.size()));
  int64_t width = 1;
  for (int i = 1; i < shape.rank(); ++i) width *= shape.dim(i);
  std::vector<T> values;
  for (int64_t row : rows) {
    const T* begin = from.data<T>() + row * width;
    values.insert(values.end(), begin, begin + width);
  }
  return Tensor::FromVector<T>(values, shape).value();
}

inline std::vector<proto::SavedShard> WriteShards(const std::string& directory, uint32_t first,
                                                  const SavedTable& table) {
  const bool scalar = table.values.shape().rank() == 0;
  const int64_t total = scalar ? 1 : table.values.dim(0);
  std::vector<proto::SavedShard> all;
  int64_t begin = 0;
  for (int s = 0; s < table.shards; ++s) {
    std::vector<int64_t> rows;
    const bool mixed = table.strategy == "hash" && table.ids.empty();
    if (table.strategy == "mod" || mixed) {
      for (int64_t r = s; r < total; r += table.shards) {
        rows.push_back(mixed ? RowMix(total).Row(r) : r);
      }
    } else {
      const int64_t n = total / table.shards + (s < total % table.shards ? 1 : 0);
      for (int64_t r = begin; r < begin + n; ++r) rows.push_back(r);
    }
    NamedTensors tensors = {{"weights", scalar ? table.values : RowsOf<float>(table.values, rows)}};
    if (!table.touched.empty()) {
      tensors.emplace_back("touched",
                           RowsOf<int64_t>(Tensor::FromVector<int64_t>(table.touched), rows));
    }
    if (!table.ids.empty()) {
      tensors.emplace_back("id", RowsOf<int64_t>(Tensor::FromVector<int64_t>(table.ids), rows));
      tensors.emplace_back("count",
                           RowsOf<int32_t>(Tensor::FromVector<int32_t>(table.counts), rows));
    }
    proto::SavedShard saved;
    const uint32_t id = first + static_cast<uint32_t>(s);
    saved.set_file(absl::StrCat("shard-", id, ".safetensors"));
    const WrittenFile written = WriteTensors(absl::StrCat(directory, "/", saved.file()), tensors);
    saved.set_bytes(written.bytes);
    saved.set_crc32(written.crc32);
    saved.set_ledger("1");
    if (!table.applied.empty()) saved.set_applied(table.applied[static_cast<size_t>(s)]);
    proto::ShardSpec* spec = saved.mutable_shard();
    spec->set_id(id);
    spec->set_index(s);
    spec->set_count(table.shards);
    spec->set_strategy(table.strategy);
    spec->set_rows(table.ids.empty() ? static_cast<int64_t>(rows.size()) : 0);
    if (table.strategy == "div") spec->set_row_begin(begin);
    begin += static_cast<int64_t>(rows.size());
    spec->mutable_variable()->set_name(table.name);
    spec->mutable_variable()->set_dtype(static_cast<int>(DType::kF32));
    spec->mutable_variable()->set_table(table.table);
    for (int64_t dim : table.values.shape().dims()) {
      spec->mutable_variable()->mutable_shape()->add_dims(dim);
    }
    if (!table.ids.empty()) {
      spec->mutable_variable()->mutable_shape()->set_dims(0, -1);
      spec->mutable_variable()->mutable_hash();
      saved.mutable_hash()->set_places(static_cast<int64_t>(rows.size()));
      saved.mutable_hash()->set_first_free(-1);
    }
    all.push_back(std::move(saved));
  }
  return all;
}

// Checkpoint `number` in a directory of checkpoints; returns its own directory.
inline std::string WriteCheckpoint(const std::string& directory, uint64_t number, int64_t steps,
                                   const std::vector<SavedTable>& tables) {
  const std::string path = absl::StrCat(directory, "/", checkpoint::CheckpointName(number));
  std::filesystem::create_directories(path);
  checkpoint::Manifest manifest;
  manifest.number = number;
  manifest.epoch = 1;
  manifest.steps = steps;
  manifest.written = absl::FromUnixSeconds(1767225600);
  manifest.low_water = manifest.next_closure = 5;
  for (const SavedTable& table : tables) {
    for (auto& saved :
         WriteShards(path, static_cast<uint32_t>(manifest.shards.size()) + 1, table)) {
      manifest.shards.push_back(std::move(saved));
    }
  }
  const auto files = env::NewRealFileSystem();
  REQUIRE(files->WriteAtomically(path + "/manifest.json", checkpoint::ToJson(manifest)).ok());
  return path;
}

}  // namespace coxswain
