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
    Field<TextOptions>(kBool, "lower_case", "false", "A-Z become a-z"),
    Field<TextOptions>(
        kInt, "min_count", "5",
        "words that are rarer in the training part are left out, as if they were not in the text")
        .Min(1),
    Field<TextOptions>(kInt, "max_size", "0",
                       "number of words that stay, the most frequent ones; 0: all")
        .Min(0)
        .Max(kMostOfAList),
    Field<TextOptions>(
        kReal, "subsample", "0.001",
        "places of frequent words are left out, others in each epoch: where a word is the "
        "share f of the text, a place stays with probability sqrt(t / f) + t / f, t being "
        "this; 0: all stay")
        .Min(0)
        .Max(1),
    Field<TextOptions>(
        kInt, "window", "5",
        "a place is paired with the words around it, 1 to this many to each side, drawn anew "
        "in each epoch, within the sentence")
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
      .help = "words with white space between them, a line's end is a sentence's",
      .keys = kKeys,
      .read = ReadText,
      .read_features = ReadTextFeature,
      .has_columns = false,
      .has_rows = false,
      .label = JobFormat::Label::kNone};
  return kFormat;
}

}  // namespace coxswain::job
