#include "kernels/optimizers/optimizer_info.h"

#include "absl/strings/str_join.h"
#include "kernels/optimizers/optimizer_list.h"

namespace coxswain::kernels {
namespace {

template <typename O>
OptimizerInfo InfoOf() {
  OptimizerInfo info = {O::kKind, O::kHelp, {}};
  for (const OptimizerKey<O>& key : O::Keys()) {
    info.parameters.push_back({key.name, key.help, key.flag != nullptr, key.range, key.Get(O())});
  }
  return info;
}

template <typename O>
std::vector<SlotInfo> SlotsOf() {
  using Rule = typename O::template Rule<float>;
  constexpr bool kPerRow = requires(const Rule& rule, float slot) { rule.OfRow(0.0F, slot); };
  std::vector<SlotInfo> slots;
  for (const OptimizerSlot& slot : O().Slots()) slots.push_back({std::string(slot.name), kPerRow});
  return slots;
}

}  // namespace

std::vector<SlotInfo> SlotsOfKind(absl::string_view kind) {
#define COX_OPTIMIZER_SLOTS(O) \
  if (kind == O::kKind) return SlotsOf<O>();
  COX_OPTIMIZERS(COX_OPTIMIZER_SLOTS)
#undef COX_OPTIMIZER_SLOTS
  return {};
}

const std::vector<OptimizerInfo>& AllOptimizers() {
#define COX_OPTIMIZER_INFO(O) InfoOf<O>(),
  static const auto* const all = new std::vector<OptimizerInfo>{COX_OPTIMIZERS(COX_OPTIMIZER_INFO)};
#undef COX_OPTIMIZER_INFO
  return *all;
}

const OptimizerInfo* FindOptimizer(absl::string_view kind) {
  for (const OptimizerInfo& info : AllOptimizers()) {
    if (info.kind == kind) return &info;
  }
  return nullptr;
}

std::string OptimizerKinds(absl::string_view separator) {
  return absl::StrJoin(AllOptimizers(), separator,
                       [](std::string* out, const OptimizerInfo& info) { out->append(info.kind); });
}

}  // namespace coxswain::kernels
