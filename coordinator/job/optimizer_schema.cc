#include "coordinator/job/optimizer_schema.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "kernels/optimizers/optimizer_info.h"

namespace coxswain {
namespace {

using enum KeyType;
using Parameter = OptimizerInfo::Parameter;

constexpr SchemaKey kScheduleKeys[] = {
    SchemaKey(kChoice, "kind", "constant",
              "what becomes of the learning rate with the steps, as in Keras' schedules")
        .Choices("constant piecewise_constant exponential_decay cosine_decay linear_decay"),
    SchemaKey(kInts, "boundaries", nullptr, "steps, ascending, after which the rate is another")
        .Only("piecewise_constant")
        .Min(0),
    SchemaKey(kReals, "factors", nullptr,
              "for each boundary, what the learning rate is multiplied with after it")
        .Only("piecewise_constant")
        .Min(0),
    SchemaKey(kInt, "decay_steps", nullptr, "steps in which the rate falls by `decay_rate`")
        .Only("exponential_decay")
        .Min(1),
    SchemaKey(kReal, "decay_rate", nullptr, "factor in each `decay_steps`")
        .Only("exponential_decay")
        .Above(0),
    SchemaKey(kBool, "staircase", "false",
              "the rate falls at once at the end of each `decay_steps`")
        .Only("exponential_decay"),
    SchemaKey(kInt, "decay_steps", "=all steps of the training, from the warm-up's end on",
              "steps until the rate is at its end, where it stays")
        .Only("cosine_decay linear_decay")
        .Min(1),
    SchemaKey(kReal, "end_factor", "0", "share of the learning rate that is left at the end")
        .Only("cosine_decay linear_decay")
        .Min(0),
    SchemaKey(kInt, "warmup_steps", "0",
              "first steps, in which the rate rises linearly; the schedule begins after them")
        .Min(0),
    SchemaKey(kReal, "warmup_factor", "0", "share of the learning rate that warm-up begins with")
        .Min(0)
        .Max(1),
};
constexpr SchemaSection kSchedule = {
    "optimizer.table.schedule, optimizer.dense.schedule, tables.NAME.optimizer.schedule", "kind",
    kScheduleKeys};

// A row of the table: optimizers that have the very same parameter share it.
struct Row {
  Parameter parameter;
  std::vector<const char*> kinds;
};

bool Same(const Parameter& a, const Parameter& b) {
  return absl::string_view(a.name) == b.name && absl::string_view(a.help) == b.help &&
         a.is_switch == b.is_switch && a.range == b.range && a.fallback == b.fallback;
}

// Rows of one name lie together; those that all optimizers have come last.
std::vector<Row> Rows() {
  std::vector<Row> rows;
  for (const OptimizerInfo& info : AllOptimizers()) {
    for (const Parameter& parameter : info.parameters) {
      const auto same = std::find_if(
          rows.begin(), rows.end(), [&](const Row& row) { return Same(row.parameter, parameter); });
      if (same != rows.end()) {
        same->kinds.push_back(info.kind);
        continue;
      }
      const auto last = std::find_if(rows.rbegin(), rows.rend(), [&](const Row& row) {
        return absl::string_view(row.parameter.name) == parameter.name;
      });
      rows.insert(last == rows.rend() ? rows.end() : last.base(), Row{parameter, {info.kind}});
    }
  }
  std::stable_partition(rows.begin(), rows.end(),
                        [](const Row& row) { return row.kinds.size() < AllOptimizers().size(); });
  return rows;
}

// The shortest text that reads as this number: "1e-8".
std::string NumberText(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  return absl::StrReplaceAll(absl::string_view(text, static_cast<size_t>(end - text)),
                             {{"e-0", "e-"}, {"e+0", "e+"}});
}

// The section, and the texts that its keys point to.
class MadeSection {
 public:
  MadeSection() {
    keys_.push_back(
        SchemaKey(kChoice, "kind", nullptr, Keep(KindsHelp())).Choices(Keep(OptimizerKinds(" "))));
    for (const Row& row : Rows()) keys_.push_back(KeyOf(row));
    keys_.push_back(SchemaKey(kSection, "schedule", "{kind: constant}",
                              "how the learning rate changes; `ftrl`, as TensorFlow's, scales by "
                              "it what a row has learnt, too")
                        .Of(&kSchedule));
    section_ = {"optimizer.table, optimizer.dense, tables.NAME.optimizer", "kind", keys_};
  }
  MadeSection(const MadeSection&) = delete;
  MadeSection& operator=(const MadeSection&) = delete;

  const SchemaSection& section() const { return section_; }

 private:
  const char* Keep(std::string text) { return texts_.emplace_back(std::move(text)).c_str(); }

  static std::string KindsHelp() {
    return absl::StrJoin(AllOptimizers(), "; ", [](std::string* out, const OptimizerInfo& info) {
      absl::StrAppend(out, "`", info.kind, "`: ", info.help);
    });
  }

  SchemaKey KeyOf(const Row& row) {
    const Parameter& p = row.parameter;
    SchemaKey key = p.is_switch
                        ? SchemaKey(kBool, p.name, p.fallback != 0 ? "true" : "false", p.help)
                        : SchemaKey(kReal, p.name, Keep(NumberText(p.fallback)), p.help);
    if (!p.is_switch) {
      key.min = p.range.min;
      key.max = p.range.max;
      key.above_min = p.range.above_min;
      key.below_max = p.range.below_max;
    }
    const bool all = row.kinds.size() == AllOptimizers().size();
    return all ? key : key.Only(Keep(absl::StrJoin(row.kinds, " ")));
  }

  std::deque<std::string> texts_;
  std::vector<SchemaKey> keys_;
  SchemaSection section_;
};

}  // namespace

const SchemaSection& OptimizerSchema() {
  static const auto* const made = new MadeSection();
  return made->section();
}

}  // namespace coxswain
