// format: criteo
#include "runtime/data/criteo.h"
#include "coordinator/job/formats/job_formats.h"
#include "coordinator/job/size_limits.h"

namespace coxswain::job {
namespace {

struct CriteoKeys {
  int64_t hash_buckets = 0;
};

constexpr SchemaKey kKeys[] = {
    Key<&CriteoKeys::hash_buckets>(
        "hash_buckets", "100000",
        "number of buckets into which each of `C1`..`C26` that `features` does not list is hashed; "
        "0: 64-bit hashes, for hash tables")
        .Min(0)
        .Max(kMostBuckets),
};

void ReadCriteo(const JobReader& reader, const SectionView& view) {
  CriteoKeys keys;
  ReadKeys(kKeys, view, &keys);
  proto::DatasetSpec* dataset = &reader.job->dataset;
  for (const std::string& column : data::CriteoColumns())
    dataset->mutable_csv()->add_columns(column);
  data::AddCriteoFeatures(keys.hash_buckets, dataset);
}

}  // namespace

const JobFormat& CriteoJobFormat() {
  static constexpr JobFormat kFormat = {.name = data::kCriteoFormat,
                                        .help =
                                            "Criteo's click logs: tab-separated lines of a label, "
                                            "13 integers and 26 hexadecimal words",
                                        .keys = kKeys,
                                        .read = ReadCriteo,
                                        .needs_features = false,
                                        .label_column = data::kCriteoLabel};
  return kFormat;
}

}  // namespace coxswain::job
