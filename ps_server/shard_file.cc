#include "ps_server/shard_file.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "runtime/checkpoint/delta_files.h"

namespace coxswain::ps {

std::string ShardFileName(ShardId id) { return absl::StrFormat("shard-%05u.safetensors", id); }

std::string DeltaFileName(ShardId id, int number) {
  return absl::StrFormat("shard-%05u.delta-%d.safetensors", id, number);
}

bool IsShardFileName(absl::string_view name) {
  const auto digits = [&name] {
    size_t n = 0;
    while (n < name.size() && absl::ascii_isdigit(static_cast<unsigned char>(name[n]))) ++n;
    name.remove_prefix(n);
    return n > 0;
  };
  if (!absl::ConsumePrefix(&name, "shard-") || !digits()) return false;
  if (absl::ConsumePrefix(&name, ".delta-") && !digits()) return false;
  return name == ".safetensors";
}

std::vector<checkpoint::SafetensorsEntry> FileEntries(const PartPlan& plan,
                                                      const ShardLayout& layout,
                                                      std::optional<int64_t> rows,
                                                      std::optional<int64_t> waiting) {
  std::vector<checkpoint::SafetensorsEntry> entries;
  for (const ShardPart& part : plan.parts) {
    entries.push_back(
        {part.name, part.dtype, rows ? part.RowsShape(layout, *rows) : part.WholeShape(layout)});
  }
  if (waiting) {
    for (int i = 0; i < 3; ++i) {
      entries.push_back(
          {HashRows::kWaitingNames[i], i == 0 ? DType::kI64 : DType::kI32, Shape{*waiting}});
    }
  }
  return entries;
}

std::vector<checkpoint::SafetensorsEntry> DeltaEntries(const PartPlan& plan,
                                                       const ShardLayout& layout, int64_t rows,
                                                       std::optional<int64_t> waiting) {
  std::vector<checkpoint::SafetensorsEntry> entries = FileEntries(plan, layout, rows, waiting);
  entries.insert(entries.begin(), {checkpoint::kDeltaRows, DType::kI64, Shape{rows}});
  return entries;
}

std::map<std::string, std::string> ShardFileMetadata(const proto::ShardSpec& spec) {
  return {{"variable", spec.variable().name()},
          {"shard_index", absl::StrCat(spec.index())},
          {"shard_count", absl::StrCat(spec.count())},
          {"strategy", spec.strategy().empty() ? "div" : spec.strategy()},
          {"row_begin", absl::StrCat(spec.row_begin())}};
}

}  // namespace coxswain::ps
