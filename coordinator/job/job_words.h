// The words for enums that are used by jobs and by the code that runs them. The words for enums of
// one kind of model or loss are beside the enum.
#pragma once

#include "coordinator/job/enum_words.h"
#include "coordinator/job/job_spec.h"
#include "coxswain/cluster.h"
#include "coxswain/tensor.h"
#include "protos/dataset.pb.h"

namespace coxswain::job {

template <>
struct EnumWords<ErrorPolicy> {
  static constexpr EnumWord<ErrorPolicy> kAll[] = {{"fail_fast", ErrorPolicy::kFailFast},
                                                   {"collect", ErrorPolicy::kCollect},
                                                   {"ignore", ErrorPolicy::kIgnore}};
};

template <>
struct EnumWords<ConsistencyMode> {
  static constexpr EnumWord<ConsistencyMode> kAll[] = {{"async", ConsistencyMode::kAsync},
                                                       {"bounded", ConsistencyMode::kBounded},
                                                       {"sync", ConsistencyMode::kSync},
                                                       {"hybrid", ConsistencyMode::kHybrid}};
};

template <>
struct EnumWords<GradientReduction> {
  static constexpr EnumWord<GradientReduction> kAll[] = {{"mean", GradientReduction::kMean},
                                                         {"sum", GradientReduction::kSum},
                                                         {"none", GradientReduction::kNone}};
};

template <>
struct EnumWords<StalenessRate> {
  static constexpr EnumWord<StalenessRate> kAll[] = {{"none", StalenessRate::kNone},
                                                     {"inverse", StalenessRate::kInverse},
                                                     {"root", StalenessRate::kRoot}};
};

template <>
struct EnumWords<PsLossPolicy> {
  static constexpr EnumWord<PsLossPolicy> kAll[] = {{"rollback", PsLossPolicy::kRollback},
                                                    {"replay", PsLossPolicy::kReplay},
                                                    {"accept_loss", PsLossPolicy::kAcceptLoss}};
};

template <>
struct EnumWords<PartitionerKind> {
  static constexpr EnumWord<PartitionerKind> kAll[] = {
      {"fixed_shards", PartitionerKind::kFixedShards},
      {"min_size", PartitionerKind::kMinSize},
      {"max_size", PartitionerKind::kMaxSize}};
};

template <>
struct EnumWords<KnownItems> {
  static constexpr EnumWord<KnownItems> kAll[] = {{"all", KnownItems::kAll},
                                                  {"training", KnownItems::kTraining}};
};

template <>
struct EnumWords<ClipKind> {
  static constexpr EnumWord<ClipKind> kAll[] = {{"global_norm", ClipKind::kGlobalNorm},
                                                {"norm", ClipKind::kNorm},
                                                {"value", ClipKind::kValue}};
};

// The parts that can be evaluated.
template <>
struct EnumWords<Part> {
  static constexpr EnumWord<Part> kAll[] = {{"validation", Part::kValidation},
                                            {"test", Part::kTest}};
};

template <>
struct EnumWords<VisitationKind> {
  static constexpr EnumWord<VisitationKind> kAll[] = {
      {"exactly_once", VisitationKind::kExactlyOnce}, {"per_worker", VisitationKind::kPerWorker}};
};

template <>
struct EnumWords<ComputeType> {
  static constexpr EnumWord<ComputeType> kAll[] = {
      {"f32", ComputeType::kF32}, {"bf16", ComputeType::kBf16}, {"tf32", ComputeType::kTf32}};
};

template <>
struct EnumWords<DeviceChoice> {
  static constexpr EnumWord<DeviceChoice> kAll[] = {
      {"auto", DeviceChoice::kAuto}, {"cpu", DeviceChoice::kCpu}, {"gpu", DeviceChoice::kGpu}};
};

template <>
struct EnumWords<DType> {
  static constexpr EnumWord<DType> kAll[] = {{"f32", DType::kF32}, {"bf16", DType::kBF16}};
};

template <>
struct EnumWords<proto::FeatureSpec::Normalization> {
  static constexpr EnumWord<proto::FeatureSpec::Normalization> kAll[] = {
      {"none", proto::FeatureSpec::NONE},
      {"standard", proto::FeatureSpec::STANDARD},
      {"min_max", proto::FeatureSpec::MIN_MAX},
      {"log1p", proto::FeatureSpec::LOG1P},
      {"divide", proto::FeatureSpec::DIVIDE}};
};

}  // namespace coxswain::job
