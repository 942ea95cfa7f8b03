// Checkpoints on disk for tests, as a coordinator and its parameter servers leave them.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/env/file_system.h"

namespace coxswain {

// The bytes of a shard's file; different for each checkpoint and shard.
inline std::string ShardBytes(uint64_t number, uint32_t shard) {
  std::string bytes(200 + 10 * shard, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(i * 7 + shard * 31 + number * 13);
  }
  return bytes;
}

inline proto::SavedShard SampleShard(uint64_t number, uint32_t id, const std::string& variable,
                                     int index, int count) {
  proto::SavedShard saved;
  proto::ShardSpec* spec = saved.mutable_shard();
  spec->set_id(id);
  spec->mutable_variable()->set_name(variable);
  spec->mutable_variable()->set_dtype(static_cast<int>(DType::kF32));
  spec->mutable_variable()->mutable_shape()->add_dims(7);
  spec->mutable_variable()->mutable_shape()->add_dims(2);
  spec->mutable_variable()->set_table(true);
  spec->mutable_variable()->mutable_initializer()->set_kind("uniform");
  spec->mutable_variable()->mutable_initializer()->set_low(-0.1);
  spec->mutable_variable()->mutable_initializer()->set_seed(std::numeric_limits<uint64_t>::max());
  spec->mutable_variable()->mutable_optimizer()->set_kind("lazy_adam");
  spec->mutable_variable()->mutable_optimizer()->set_learning_rate(1.0 / 3);
  for (const auto& [name, value] : {std::pair("l2", -0.0), std::pair("epsilon", 5e-324)}) {
    proto::OptimizerParameter* parameter =
        spec->mutable_variable()->mutable_optimizer()->add_parameters();
    parameter->set_name(name);
    parameter->set_value(value);
  }
  spec->set_index(index);
  spec->set_count(count);
  spec->set_strategy("mod");
  spec->set_rows((7 - index + count - 1) / count);
  spec->set_ps(index);
  const std::string bytes = ShardBytes(number, id);
  saved.set_file(absl::StrCat("shard-0000", id, ".safetensors"));
  saved.set_bytes(bytes.size());
  saved.set_crc32(checkpoint::Crc32(0, bytes.data(), bytes.size()));
  saved.set_ledger("40 41:0/1,1/1 43:0/1");
  saved.set_applied(120);
  saved.set_gradient_steps(119);
  return saved;
}

// Two variables, "users" in two shards and "bias" in one, and two closures.
inline checkpoint::Manifest SampleManifest(uint64_t number) {
  checkpoint::Manifest m;
  m.number = number;
  m.job = "ratings \"\xc3\xbc\"";
  m.epoch = std::numeric_limits<uint64_t>::max() - 1;
  m.written = absl::FromUnixSeconds(1767225600) + absl::Nanoseconds(123456789);
  m.low_water = 40;
  m.next_closure = 45;
  m.steps = 12345;
  m.shards = {SampleShard(number, 1, "users", 0, 2), SampleShard(number, 2, "users", 1, 2),
              SampleShard(number, 3, "bias", 0, 1)};
  checkpoint::CheckpointClosure a;
  a.id = 41;
  a.function = "train";
  a.has_ticket = true;
  a.ticket = {Part::kTraining, 3, (int64_t{1} << 53) + 1, (int64_t{1} << 53) + 65};
  a.steps = 8;
  a.seed = 0x9e3779b97f4a7c15u;
  a.after = 41;
  checkpoint::CheckpointClosure b;
  b.id = 44;
  b.function = "step";
  b.arguments = {
      Tensor::FromVector<float>({1.5f, std::nanf(""), -0.0f, 1e-45f}, Shape{2, 2}).value(),
      Tensor::Scalar<int64_t>(std::numeric_limits<int64_t>::min()),
      Tensor(DType::kF32, Shape{0, 3}), Tensor::FromVector<bool>({true, false, true}), Tensor()};
  m.closures = {std::move(a), std::move(b)};
  m.job_state = R"({"epoch":3,"best":{"hit_rate@10":0.1},"order":[3,1,2]})";
  return m;
}

// Writes the sample as checkpoint `number` of `directory`; returns its path.
inline std::string WriteCheckpoint(env::FileSystem* files, const std::string& directory,
                                   uint64_t number) {
  const checkpoint::Manifest manifest = SampleManifest(number);
  const std::string path = absl::StrCat(directory, "/", checkpoint::CheckpointName(number));
  const std::string unfinished = absl::StrCat(path, ".tmp");
  REQUIRE(files->MakeDirs(unfinished).ok());
  for (const proto::SavedShard& shard : manifest.shards) {
    const std::string file = absl::StrCat(unfinished, "/", shard.file());
    REQUIRE(files->WriteAtomically(file, ShardBytes(number, shard.shard().id())).ok());
  }
  const std::string file = absl::StrCat(unfinished, "/manifest.json");
  REQUIRE(files->WriteAtomically(file, checkpoint::ToJson(manifest)).ok());
  REQUIRE(files->Rename(unfinished, path).ok());
  return path;
}

// Changes one byte of a file.
inline void FlipByte(env::FileSystem* files, const std::string& path, size_t at) {
  auto content = files->Read(path);
  REQUIRE(content.ok());
  REQUIRE(at < content->size());
  (*content)[at] = static_cast<char>((*content)[at] ^ 0x10);
  REQUIRE(files->WriteAtomically(path, *content).ok());
}

}  // namespace coxswain
