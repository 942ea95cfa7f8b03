// format: text
#include "absl/strings/str_cat.h"
#include "coordinator/job/formats/job_formats.h"
#include "coordinator/job/size_limits.h"
#include "runtime/data/skip_gram.h"

namespace coxswain::job {
namespace {

using enum KeyType;
using proto::FeatureSpec;
using proto::TextOptions;

constexpr SchemaKey kKeys[] = {
    Field<TextOptions>(kBool, "lower_case", "false", "convert A-Z to a-z"),
    Field<TextOptions>(kInt, "min_count", "5",
                       "words that occur less often than this in the training part are dropped, as "
                       "if they were not in the text")
        .Min(1),
    Field<TextOptions>(kInt, "max_size", "0",
                       "maximum vocabulary size, which keeps the most frequent words; 0: no limit")
        .Min(0)
        .Max(kMostOfAList),
    Field<TextOptions>(kReal, "subsample", "0.001",
                       "threshold t for subsampling frequent words: each occurrence of a word with "
                       "relative frequency f is kept with probability sqrt(t / f) + t / f, drawn "
                       "anew in each epoch; 0: keep all")
        .Min(0)
        .Max(1),
    Field<TextOptions>(
        kInt, "window", "5",
        "maximum size of the context window: each word is paired with 1 to this many words on "
        "either side, within the sentence; the number is drawn anew in each epoch")
        .Min(1)
        .Max(100),
};

void ReadText(const JobReader& reader, const SectionView& view) {
  ReadKeys(kKeys, view, reader.job->dataset.mutable_text());
}

// The one feature.
void ReadTextFeature(const JobReader& reader) {
  FeatureSpec* feature = reader.job->dataset.add_features();
  feature->set_name(data::kWordFeature);
  feature->set_column(data::kWordFeature);
  feature->set_kind(FeatureSpec::CATEGORICAL);
  if (reader.job->locations.count("features") > 0) {
    reader.Error("features", absl::StrCat("a text has its own, '", data::kWordFeature, "'"));
  }
}

}  // namespace

const JobFormat& TextJobFormat() {
  static constexpr JobFormat kFormat = {
      .name = "text",
      .help = "words separated by white space; the end of a line ends a sentence",
      .keys = kKeys,
      .read = ReadText,
      .read_features = ReadTextFeature,
      .has_columns = false,
      .has_rows = false,
      .label = JobFormat::Label::kNone};
  return kFormat;
}

}  // namespace coxswain::job
