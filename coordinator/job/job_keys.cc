// The keys of JOB.yaml, with those of other files in this directory. docs/job.md has the same
// tables.
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/job/bound_key.h"
#include "coordinator/job/job_format.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/job/job_words.h"
#include "coordinator/job/join_keys.h"
#include "coordinator/job/loss_kind.h"
#include "coordinator/job/merged_section.h"
#include "coordinator/job/model_kind.h"
#include "coordinator/job/optimizer_schema.h"
#include "coordinator/job/regularization.h"
#include "coordinator/job/schema.h"
#include "coordinator/job/size_limits.h"
#include "coordinator/job/table_keys.h"

namespace coxswain::job {
namespace {

using enum KeyType;

const SchemaSection& DatasetSchema() {
  static const auto* const help = new std::string([] {
    std::string text = "file format";
    for (const JobFormat* format : AllJobFormats()) {
      if (*format->help != 0) absl::StrAppend(&text, "; `", format->name, "`: ", format->help);
    }
    return text;
  }());
  static const auto* const common = new std::vector<SchemaKey>([] {
    std::vector<SchemaKey> keys(std::begin(kFilesKeys), std::end(kFilesKeys));
    keys.insert(keys.end(), std::begin(kStreamKeys), std::end(kStreamKeys));
    keys.insert(keys.end(), std::begin(kFollowKeys), std::end(kFollowKeys));
    keys.push_back(SchemaKey(kSections, "join", "",
                             "a list: small tables whose columns are joined to the rows by a key, "
                             "such as attributes of users and items")
                       .Of(&JoinSchema));
    return keys;
  }());
  static const auto* const made = new MergedSection(
      [] {
        std::vector<KeysOfWord> formats;
        for (const JobFormat* format : AllJobFormats()) {
          formats.push_back({format->name, format->keys});
        }
        return formats;
      }(),
      "dataset", SchemaKey(kChoice, "format", "csv", help->c_str()), *common);
  return made->section();
}

constexpr SchemaKey kFeatureKeys[] = {
    SchemaKey(kString, "name", nullptr,
              "ASCII letters, digits, `_` and `-`; the model and `tables` refer to the feature by "
              "this name; for columns with other names see `column`"),
    SchemaKey(
        kChoice, "kind", nullptr,
        "`numeric`: a number; `categorical`: one or more values of a set; `vector`: several "
        "numbers; `history`: the other values of the same group; `crossed`: the combination "
        "of several features' values; `bucketized`: the range that a number is in; `calendar`: "
        "a part of a time, such as the hour")
        .Choices("numeric categorical vector history crossed bucketized calendar"),
    SchemaKey(kString, "column", "=the feature's name", "the column that the feature is read from")
        .Only("numeric categorical vector bucketized calendar"),
    SchemaKey(kChoice, "normalization", "none",
              "`standard`: to mean 0 and standard deviation 1; `min_max`: to 0..1 (both computed "
              "from the training part; not for vectors); `log1p`: sign(x) log(1 + abs(x)); "
              "`divide`: x / `divisor`")
        .Only("numeric vector")
        .Choices(kJoinedWords<proto::FeatureSpec::Normalization>.data()),
    Field<proto::FeatureSpec>(kReal, "missing_value", "0",
                              "value used for an empty field, before normalisation; in a vector of "
                              "one column, each number of an empty field, which is an error unless "
                              "this key is given, and a null in a list")
        .Only("numeric vector"),
    Field<proto::FeatureSpec>(kReal, "divisor", "1",
                              "with `normalization: divide`: what numbers are divided by")
        .Only("numeric vector")
        .Above(0),
    Field<proto::FeatureSpec>(kInt, "width", "=the number of `columns`", "length of the vector")
        .Only("vector")
        .Min(1)
        .Max(kMostWidth),
    SchemaKey(kStrings, "columns", "",
              "the columns that hold the vector's numbers, in this order, instead of one column of "
              "lists; `p{0..63}` stands for `p0` to `p63`")
        .Only("vector"),
    SchemaKey(kChoice, "id", "vocabulary",
              "how values become ids: `vocabulary`: by their position in a vocabulary, or by "
              "`hash_buckets`; `raw`: the value is a 64-bit integer and is itself the id; `hash`: "
              "the id is the value's 64-bit hash. The last two need no vocabulary and use hash "
              "tables, with a row for each id that occurs in training")
        .Only("categorical crossed")
        .Choices("vocabulary raw hash"),
    SchemaKey(kInt, "hash_buckets", "",
              "number of buckets into which values are hashed, instead of a vocabulary")
        .Only("categorical crossed")
        .Min(1)
        .Max(kMostBuckets),
    Field<proto::FeatureSpec>(
        kBool, "keep_names", "false",
        "with `hash_buckets` or `id: hash`: keep the values of the training part, so that a saved "
        "model can name the rows that they are hashed into; takes as much memory as a vocabulary")
        .Only("categorical crossed"),
    SchemaKey(kStrings, "vocabulary", "=learned from the training part",
              "the values, in the order of their ids")
        .Only("categorical"),
    SchemaKey(kString, "vocabulary_file", "",
              "file with the vocabulary, one value per line, or a table that `dataset.join` joins "
              "by the feature's column, whose keys are the values; relative to the job file")
        .Only("categorical"),
    SchemaKey(kInt, "min_count", "1",
              "values that occur less often than this in the training part are left out of a "
              "learned vocabulary")
        .Only("categorical crossed")
        .Min(1),
    SchemaKey(kInt, "max_size", "0",
              "maximum size of a learned vocabulary, which keeps the most frequent values of the "
              "training part; 0: no limit")
        .Only("categorical crossed")
        .Min(0)
        .Max(kMostOfAList),
    SchemaKey(kInt, "oov_buckets",
              "=1; for several values 0, unless the vocabulary is given or limited; 0 with "
              "`hash_buckets`",
              "number of extra ids into which out-of-vocabulary values are hashed")
        .Only("categorical crossed")
        .Min(0)
        .Max(kMostCountedBuckets),
    Field<proto::FeatureSpec>(kString, "value_separator", "",
                              "separator of the values, if the field holds several")
        .Only("categorical"),
    SchemaKey(kChoice, "tokens", "none",
              "`words`: the field is a text, and its words are the values: runs of letters, digits "
              "and apostrophes between them, with A-Z converted to a-z; all characters beyond "
              "ASCII count as letters")
        .Only("categorical")
        .Choices("none words"),
    SchemaKey(kBool, "multi_valued", "=true with `value_separator` and `tokens`",
              "a row has several values: a list (parquet), or words separated by white space")
        .Only("categorical"),
    Field<proto::FeatureSpec>(
        kString, "weight_separator", "",
        "with several values: separator between a value and its weight, a number, as in "
        "`drama:0.5`; a value without a weight has weight 1. The combiner applies the weights")
        .Only("categorical"),
    Field<proto::FeatureSpec>(
        kStrings, "features", nullptr,
        "the features to combine, two or more: single-valued categorical, bucketized or calendar "
        "ones")
        .Into("crossed")
        .Only("crossed"),
    Field<proto::FeatureSpec>(
        kReals, "boundaries", nullptr,
        "ascending numbers; n of them make n + 1 ranges, each including its lower boundary but not "
        "its upper one; an empty field is a value of its own")
        .Only("bucketized"),
    Field<proto::FeatureSpec>(
        kChoice, "part", nullptr,
        "which part of the time: `hour`: 0 to 23; `weekday`: Monday to Sunday; `hour_of_week`: "
        "Monday 0 to Sunday 23; `day`: of the month, 1 to 31; `month`: 1 to 12; an empty field is "
        "a value of its own")
        .Into("calendar")
        .Only("calendar")
        .Choices("hour weekday hour_of_week day month"),
    Field<proto::FeatureSpec>(
        kChoice, "time_unit", "seconds",
        "unit of times that are numbers, from 1970 on; dates as in `split.by` need none")
        .Only("calendar")
        .Choices("seconds milliseconds microseconds nanoseconds"),
    Field<proto::FeatureSpec>(
        kString, "time_format", "",
        "of texts that are no such dates, as in strptime: `\"%y%m%d%H\"` reads 14102100")
        .Only("calendar"),
    Field<proto::FeatureSpec>(
        kString, "time_zone", "",
        "the zone whose clocks and calendar are meant, such as `Europe/Berlin`; without it UTC. "
        "Times in the files without a zone of their own are UTC")
        .Only("calendar"),
    Field<proto::FeatureSpec>(
        kString, "history_of", nullptr,
        "a categorical feature: the history is its values in all training rows of the same group, "
        "for a training row without its own value, however often that occurs; both share a "
        "vocabulary")
        .Only("history"),
    Field<proto::FeatureSpec>(kString, "group_by", nullptr,
                              "the column by which rows are grouped, such as the user")
        .Only("history"),
    Field<proto::FeatureSpec>(
        kString, "by", "",
        "a column of numbers or dates: the history has only the values of earlier rows, those with "
        "a smaller number or date; an earlier value is included even if the row has the same value")
        .Only("history"),
    Field<proto::FeatureSpec>(
        kBool, "only_positive", "false",
        "the history has only values of rows whose label is above 0, such as clicks, and whose "
        "weight is, where rows have weights; so have the items that evaluations take for known")
        .Only("history"),
    Field<proto::FeatureSpec>(
        kInt, "max_values", "0",
        "maximum number of values used: if there are more, a random sample is drawn, in training "
        "anew in each epoch; a history with `by` uses the last ones; 0: all")
        .Only("categorical history")
        .Min(0)
        .Max(kMostOfAList),
    Field<proto::FeatureSpec>(kInt, "dim", "=`model.dim`, or 16 in models without",
                              "embedding dimension; refused where the model has no embeddings of "
                              "the feature, but a weight for each value, or, as `din` and `sasrec` "
                              "of the history, those of another feature")
        .Only("categorical history crossed bucketized calendar")
        .Min(1)
        .Max(kMostWidth),
    Field<proto::FeatureSpec>(
        kChoice, "combiner", "mean",
        "how the embeddings of several values are combined: `sum`: their sum; `mean`: the sum "
        "divided by their number; `sqrtn`: the sum divided by the square root of their number; "
        "values with weights are multiplied by them, and `mean` divides by the sum of the weights, "
        "`sqrtn` by the square root of the sum of their squares")
        .Only("categorical history")
        .Choices("sum mean sqrtn"),
};
constexpr SchemaSection kFeature = {"features[]", "kind", kFeatureKeys};

constexpr SchemaKey kLabelKeys[] = {
    Field<proto::LabelSpec>(
        kString, "column", "",
        "the column with the label, a number: from 0 to 1 with sigmoid_cross_entropy, 0..classes-1 "
        "with classes; any other label is an error with file and line, and it is an error if all "
        "labels are the same"),
    SchemaKey(kString, "positive", "",
              "a comparison such as `\">= 4\"`: the label is 1 if it holds for the field, else 0; "
              "or `present`: it is 1 if the field is not empty"),
    Field<proto::LabelSpec>(kReal, "missing_value", "",
                            "the number that an empty field counts as; without it one is an error"),
    Field<proto::LabelSpec>(kStrings, "positive_values", "",
                            "the label is 1 if the field is one of these values, else 0"),
    Field<proto::LabelSpec>(
        kString, "feature", "=two_tower: the item",
        "a categorical feature to predict, instead of a column (two_tower; models with classes)"),
    Field<proto::LabelSpec>(
        kString, "weight", "",
        "the column with the rows' weights, numbers of at least 0; the loss of a batch is "
        "sum(weight * loss) / sum(weight), and all metrics are weighted, too; a row of weight 0 "
        "has no part in either, and its label may be any number"),
    Field<proto::LabelSpec>(kReal, "keep_negatives", "1",
                            "with sigmoid_cross_entropy: the share of the rows of label 0 that is "
                            "trained on, drawn anew in each epoch; predictions remain those of all "
                            "rows, see [few positives](data.md#few-positives)")
        .Above(0)
        .Max(1),
};
constexpr SchemaSection kLabel = {"label", "", kLabelKeys};

const SchemaSection& LossSchema();

constexpr SchemaKey kLabelsKeys[] = {
    Field<proto::LabelSpec>(
        kString, "name", nullptr,
        "name of the task, as in the metric `click/auc`: ASCII letters, digits, `_` and `-`"),
    Field<proto::LabelSpec>(kString, "column", nullptr,
                            "the column with the label, a number, as in `label`"),
    SchemaKey(kString, "positive", "", "as in `label`"),
    Field<proto::LabelSpec>(kReal, "missing_value", "", "as in `label`"),
    Field<proto::LabelSpec>(kStrings, "positive_values", "", "as in `label`"),
    SchemaKey(
        kStrings, "classes", "",
        "for multi-label classification: the column holds a list of values, and each of these "
        "classes is a task named `NAME-CLASS`, whose label is 1 if the class is in the list, else "
        "0; in task names, characters other than letters of any script, digits, `_` and `-` become "
        "`_`, and if several names are then the same, all but one get a number: `NAME-CLASS-2`"),
    Field<proto::LabelSpec>(kString, "value_separator", "=with `classes`: a space",
                            "with `classes`: separator of the values of a field; lists of jsonl, "
                            "tfrecord, parquet and arrow need none"),
    Field<proto::LabelSpec>(
        kString, "weight", "",
        "as in `label`, for this task alone; 0 in rows whose label for the task is unknown"),
    SchemaKey(kSection, "loss", "{kind: sigmoid_cross_entropy}",
              "the task's loss, as in the section `loss` of a model that predicts a probability or "
              "a number")
        .Of(&LossSchema),
    SchemaKey(kReal, "loss_weight", "1", "weight of the task's loss in the sum that is minimised")
        .Min(0),
};
constexpr SchemaSection kLabels = {"labels[]", "", kLabelsKeys};

constexpr SchemaKey kSplitKeys[] = {
    Field<proto::SplitSpec>(
        kReal, "validation", "0",
        "fraction of the rows that form the validation part: drawn by the seed, or the latest "
        "ones, see `by`; for text: fraction of its words, in runs of 1,024")
        .Into("validation_fraction")
        .Min(0)
        .Max(1),
    Field<proto::SplitSpec>(kReal, "test", "0",
                            "fraction of the rows that form the test part: drawn by the seed, or "
                            "the latest ones, see `by`")
        .Into("test_fraction")
        .Min(0)
        .Max(1),
    Field<proto::SplitSpec>(kString, "holdout_per", "",
                            "instead of `test`: a column; for each of its values one row, drawn by "
                            "the seed, is held out"),
    Field<proto::SplitSpec>(kInt, "holdout_min", "2",
                            "with `holdout_per`: minimum number of rows of a value; for values "
                            "with fewer rows none is held out")
        .Min(2),
    Field<proto::SplitSpec>(
        kString, "by", "",
        "a column of numbers or dates (2024-05-31, 2024-05-31T12:30:00Z): `test` takes the latest "
        "rows by this column, `validation` those before them; among equal values, the row that "
        "comes later in the files is the later one"),
    SchemaKey(kString, "validation_from", "",
              "with `by`, instead of `validation`: rows from this number or date on form the "
              "validation part, up to those of `test_from`"),
    SchemaKey(kString, "test_from", "",
              "with `by`, instead of `test`: rows from this number or date on form the test part"),
    Field<proto::SplitSpec>(kBool, "holdout_last", "false",
                            "with `holdout_per` and `by`: hold out the latest row of each value "
                            "instead of a random one"),
    Field<proto::SplitSpec>(kBool, "holdout_validation", "false",
                            "with `holdout_per`, instead of `validation`: hold out another row of "
                            "each value for validation, with `holdout_last` the one before the "
                            "latest, of values with more than `holdout_min` rows"),
    Field<proto::SplitSpec>(kStrings, "test_path", "",
                            "instead of `test`: separate test files; relative to the job file")
        .Into("test_paths"),
};
constexpr SchemaSection kSplit = {"split", "", kSplitKeys};

const SchemaSection& ModelSchema() {
  static const auto* const made = new MergedSection(
      [] {
        std::vector<KeysOfWord> kinds;
        for (const ModelKind* kind : AllModelKinds()) kinds.push_back({kind->name, kind->keys});
        return kinds;
      }(),
      "model", SchemaKey(kChoice, "kind", nullptr, "the kind of model"));
  return made->section();
}

const SchemaSection& LossSchema() {
  static const auto* const made = new MergedSection(
      [] {
        std::vector<KeysOfWord> kinds;
        for (const LossKind* kind : AllLossKinds()) kinds.push_back({kind->name, kind->keys});
        return kinds;
      }(),
      "loss", SchemaKey(kChoice, "kind", "=by the model, see below", "the loss to minimise"));
  return made->section();
}

constexpr SchemaKey kOptimizersKeys[] = {
    SchemaKey(kSection, "table", "{kind: lazy_adam, learning_rate: 0.005}",
              "optimizer of the embedding tables; see [learning rates](#which-learning-rate)")
        .Of(&OptimizerSchema),
    SchemaKey(kSection, "dense", "{kind: adam}",
              "optimizer of all other weights: layers, and the linear weights of numeric features")
        .Of(&OptimizerSchema),
};
constexpr SchemaSection kOptimizers = {"optimizer", "", kOptimizersKeys};

constexpr SchemaKey kStoppingKeys[] = {
    Key<&EarlyStopping::metric>("metric", "=the first of `evaluate.metrics`",
                                "the metric to watch, one of `evaluate.metrics`"),
    Key<&EarlyStopping::patience>(
        "patience", "2", "number of evaluations without improvement after which training ends")
        .Min(1),
    Key<&EarlyStopping::min_delta>("min_delta", "0", "a change up to this is not an improvement")
        .Min(0),
};
constexpr SchemaSection kStopping = {"train.early_stopping", "", kStoppingKeys};

constexpr SchemaKey kPlateauKeys[] = {
    Key<&ReduceOnPlateau::metric>("metric", "=the first of `evaluate.metrics`",
                                  "the metric to watch, one of `evaluate.metrics`"),
    Key<&ReduceOnPlateau::factor>("factor", "0.1", "what the learning rates are multiplied by")
        .Above(0)
        .Below(1),
    Key<&ReduceOnPlateau::patience>(
        "patience", "1",
        "number of evaluations without improvement after which the rates are reduced")
        .Min(1),
    Key<&ReduceOnPlateau::min_delta>("min_delta", "0", "a change up to this is not an improvement")
        .Min(0),
    Key<&ReduceOnPlateau::min_factor>(
        "min_factor", "0.0001",
        "lower bound of the rates, as a fraction of what optimizers and schedules give")
        .Above(0)
        .Max(1),
};
constexpr SchemaSection kPlateau = {"train.reduce_on_plateau", "", kPlateauKeys};

constexpr SchemaKey kConsistencyKeys[] = {
    Key<&Consistency::mode>(
        "mode", "async",
        "`async`: each batch's gradients are applied as they arrive; `bounded`: the same, but no "
        "batch begins too far ahead of the oldest one; `sync`: several batches make one update, "
        "and updates follow one another; `hybrid`: several batches make one update, and updates "
        "are applied as they arrive; see [consistency](consistency.md)"),
    Key<&Consistency::max_staleness>(
        "max_staleness", "",
        "`bounded`: maximum number of steps by which a batch that begins may be ahead of the "
        "oldest one not yet applied; 0: one batch at a time")
        .Min(0)
        .Max(1 << 20),
    Key<&Consistency::replicas>(
        "replicas", "",
        "`sync`: number of batches per update; the last update of an epoch may have fewer")
        .Min(1)
        .Max(Consistency::kMostReplicas),
    Key<&Consistency::reduce>("reduce", "mean",
                              "how the gradients of an update's batches are combined; `none`: each "
                              "batch is an update of its own, in the order of the batches"),
    Key<&Consistency::backup>("backup", "0",
                              "`sync`: number of extra batches that are computed for each update; "
                              "the slowest ones are put back, and used in a later update")
        .Min(0)
        .Max(Consistency::kMostReplicas),
    Key<&Consistency::group_size>(
        "group_size", "",
        "`hybrid`: number of batches per update; the last update of an epoch may have fewer")
        .Min(1)
        .Max(Consistency::kMostReplicas),
    Key<&Consistency::accumulate>(
        "accumulate", "1",
        "microbatches: factor by which the number of batches per update is multiplied")
        .Min(1)
        .Max(Consistency::kMostReplicas),
    Key<&Consistency::replicas>(
        "window", "=8 with `deterministic`",
        "`async` with `deterministic`: number of batches at a time that read the same state; their "
        "updates are applied one by one, in the order of the batches")
        .Min(1)
        .Max(Consistency::kMostReplicas),
    Key<&Consistency::staleness_rate>(
        "staleness_rate", "none",
        "what the learning rate of a late gradient is divided by: `none`: nothing; `inverse`: the "
        "number of updates that its shard has applied since the weights were read; `root`: the "
        "square root of that; not with `sync`, unless `reduce` is `none`"),
    Key<&Consistency::delay_compensation>(
        "delay_compensation", "0",
        "for updates of one batch: factor of the correction of late gradients to the current "
        "weights, to first order (DC-ASGD); 0: none")
        .Min(0),
};
constexpr SchemaSection kConsistency = {"train.consistency", "", kConsistencyKeys};
constexpr SchemaKey kClipKeys[] = {
    Key<&ClipSpec::kind>("kind", "global_norm",
                         "`value`: each element of a gradient is limited to `limit` in magnitude; "
                         "`norm`: each variable's and each table's gradient is scaled down to a "
                         "norm of at most `limit`; `global_norm`: all of them are scaled down by "
                         "one factor, to a joint norm of at most `limit`"),
    Key<&ClipSpec::limit>("limit", nullptr, "maximum magnitude or norm").Above(0),
};
constexpr SchemaSection kClip = {"train.clip", "", kClipKeys};
constexpr SchemaKey kEmaKeys[] = {
    Key<&EmaSpec::decay>("decay", "0.999",
                         "decay of the averages: each update of a row, or of a variable, makes `a "
                         "+= (1 - decay) (w - a)`")
        .Above(0)
        .Below(1),
};
constexpr SchemaSection kEma = {"train.ema", "", kEmaKeys};

constexpr SchemaKey kTrainKeys[] = {
    Key<&TrainSpec::epochs>("epochs", "=1, unless `steps` is given",
                            "number of passes over the training examples")
        .Min(1)
        .Max(kMostEpochs),
    Key<&TrainSpec::steps>("steps", "", "instead of `epochs`: number of batches to train on")
        .Min(1)
        .Max(kMostSteps),
    Key<&TrainSpec::batch_size>("batch_size", "256", "number of examples per step")
        .Min(1)
        .Max(1 << 24),
    Key<&TrainSpec::steps_per_function>("steps_per_function", "1",
                                        "number of training steps per closure, which is the unit "
                                        "of work that is scheduled on a worker")
        .Min(1)
        .Max(1 << 16),
    Key<&TrainSpec::closures_in_flight>(
        "closures_in_flight", "3",
        "number of closures that each worker has at a time, running or waiting")
        .Min(1)
        .Max(1024),
    Key<&TrainSpec::compute>(
        "compute", "f32",
        "precision of matrix products: `bf16` rounds the operands and accumulates in f32, about "
        "twice as fast if the processor has instructions for it (otherwise f32 is used, and the "
        "worker says so); `tf32` is for GPUs, and f32 on CPUs; weights and everything else stay "
        "f32"),
    Key<&TrainSpec::device>("device", "auto",
                            "what workers compute on: `auto`: a worker's GPUs if it has any, else "
                            "its CPU; with `gpu`, a worker without a GPU refuses the job"),
    Key<&TrainSpec::seed>(
        "seed", "0",
        "random seed of the split, the order of examples, the samples and the initial values")
        .Min(0),
    Key<&TrainSpec::shuffle>(
        "shuffle", "true",
        "shuffle the examples anew each epoch; false: use the order of the files"),
    Key<&TrainSpec::visitation>(
        "visitation", "exactly_once",
        "`exactly_once`: each example is used once an epoch, by one worker; `per_worker`: each "
        "worker shuffles all examples for itself, as in TensorFlow, so an example may be used by "
        "several workers or by none"),
    Key<&TrainSpec::log_every>(
        "log_every", "100",
        "minimum number of steps between two lines of progress if stdout is not a terminal (they "
        "are also at least 5 seconds apart); 0: no lines")
        .Min(0),
    Key<&TrainSpec::on_error>(
        "on_error", "fail_fast",
        "what happens when a closure fails by its own fault (bad data, a failing op): `fail_fast`: "
        "the job ends at once; `collect`: the job ends, with all errors, once the other closures "
        "of the epoch have run; `ignore`: the closure is skipped and counted"),
    Key<&TrainSpec::early_stopping>("early_stopping", "",
                                    "end training when a metric no longer improves")
        .Of(&kStopping),
    Key<&TrainSpec::reduce_on_plateau>(
        "reduce_on_plateau", "",
        "reduce the learning rates when a metric no longer improves, on top of their schedules")
        .Of(&kPlateau),
    Key<&TrainSpec::consistency>("consistency", "{}",
                                 "how the gradients of several workers become updates")
        .Of(&kConsistency),
    Key<&TrainSpec::deterministic>(
        "deterministic", "false",
        "make the result bitwise reproducible, whatever the number of workers, which tasks are "
        "killed and which are faster; requires updates in a fixed order (neither `hybrid` nor "
        "microbatches with `async`), CPUs, and nothing in training that depends on the clock; "
        "other jobs are refused"),
    Key<&TrainSpec::clip>(
        "clip", "",
        "clip each step's gradients, on its worker, before they are sent to parameter servers")
        .Of(&kClip),
    Key<&TrainSpec::ema>("ema", "",
                         "keep exponential moving averages of all weights on the parameter "
                         "servers; the averages are what is evaluated, saved and served")
        .Of(&kEma),
};
constexpr SchemaSection kTrain = {"train", "", kTrainKeys};

constexpr SchemaKey kEvaluateKeys[] = {
    Key<&EvaluateSpec::part>("part", "=validation where there is one, else test",
                             "the part of the data to evaluate on"),
    Key<&EvaluateSpec::metric_names>("metrics", "=by the loss, see below",
                                     "the metrics to compute; see below for those of each loss"),
    Key<&EvaluateSpec::group>(
        "group", "",
        "a single-valued categorical feature: examples with the same value form a group, for "
        "metrics by group; where items are ranked: the user (default: what the history is grouped "
        "by, else the only feature of the user). It is also an input of the model, unless `model` "
        "lists features"),
    Key<&EvaluateSpec::slices>(
        "slices", "",
        "single-valued features with a vocabulary, or bucketized or calendar ones: when training "
        "is over, and by `coxswain eval`, the metrics are also computed of the examples with each "
        "value of "
        "these. See [metrics](metrics.md#slices). They are also inputs of the model, unless "
        "`model` lists features"),
    Key<&EvaluateSpec::exclude_known>(
        "exclude_known", "all",
        "where items are ranked: which of a user's other items are not candidates: `all`: those "
        "that the user has in any part of the data; `training`: only those of the training part"),
    Key<&EvaluateSpec::word_similarity>(
        "word_similarity", "",
        "word2vec: a file of lines `word TAB word TAB number`, the number being how similar people "
        "find the two words; the metric `word_similarity` is its Spearman correlation with the "
        "cosine similarity; relative to the job file"),
    Key<&EvaluateSpec::analogies>("analogies", "",
                                  "word2vec: a file of lines of four words, a is to b as c is to "
                                  "d; the metric `analogies` is the share of lines for which the "
                                  "word nearest to b - a + c is d; relative to the job file"),
    Key<&EvaluateSpec::every_epochs>(
        "every_epochs", "1",
        "number of epochs between two evaluations; there is always one after the last epoch")
        .Min(1),
    Key<&EvaluateSpec::every_steps>(
        "every_steps", "",
        "number of steps (batches) between additional evaluations within an epoch, rounded up to "
        "the end of an update of several batches, of a closure or, with `deterministic`, of a "
        "window; each of them waits until all steps that have begun are done")
        .Min(1)
        .Max(kMostSteps),
    Key<&EvaluateSpec::every_seconds>("every_seconds", "",
                                      "seconds of training between such additional evaluations; "
                                      "after an interruption the count continues where it stopped")
        .Above(0),
    Key<&EvaluateSpec::bootstrap>(
        "bootstrap", "0",
        "number of bootstrap replicates of the examples from which the 95% interval of each metric "
        "is estimated; 0: no intervals. See [metrics](metrics.md#intervals)")
        .Min(0)
        .Max(10000),
    Key<&EvaluateSpec::max_examples>(
        "max_examples", "0", "maximum number of examples to evaluate, drawn by the seed; 0: all")
        .Min(0),
    Key<&EvaluateSpec::batch_size>("batch_size", "=`train.batch_size`",
                                   "number of examples per step")
        .Min(1)
        .Max(1 << 24),
    Key<&EvaluateSpec::show>("show", "",
                             "groups (values of the history's `group_by`) for which the best new "
                             "items are printed (two_tower)"),
    Key<&EvaluateSpec::show_top>("show_top", "5", "number of items printed for each of them")
        .Min(1)
        .Max(kMostShown),
    Key<&EvaluateSpec::suggest_self>(
        "suggest_self", "true",
        "whether the item with a group's own name may be suggested to the group, here and by "
        "`recommend`; `false` is for groups that are items themselves, such as packages that "
        "depend on packages (two_tower)"),
    Key<&EvaluateSpec::popularity_baseline>(
        "popularity_baseline", "false",
        "also evaluate a baseline that suggests the most frequent items to everyone (two_tower)"),
};
constexpr SchemaSection kEvaluate = {"evaluate", "", kEvaluateKeys};

constexpr SchemaKey kPartitionerKeys[] = {
    Key<&PartitionerSpec::kind>("kind", "min_size",
                                "how the number of shards of a table is chosen"),
    Key<&PartitionerSpec::shards>("shards", "0", "number of shards; 0: one per parameter server")
        .Only("fixed_shards")
        .Min(0)
        .Max(kMostShards),
    Key<&PartitionerSpec::min_shard_bytes>(
        "min_shard_bytes", "262144",
        "minimum size of a shard in bytes; a table has as many shards as this allows")
        .Only("min_size")
        .Min(1)
        .Max(kMostBytes),
    Key<&PartitionerSpec::max_shards>(
        "max_shards", "0",
        "maximum number of shards; 0: one per parameter server, or up to one per thread of each as "
        "long as shards have at least 16 MiB")
        .Only("min_size")
        .Min(0)
        .Max(kMostShards),
    Key<&PartitionerSpec::max_shard_bytes>(
        "max_shard_bytes", nullptr,
        "maximum size of a shard in bytes; a table has as few shards as this allows")
        .Only("max_size")
        .Min(1)
        .Max(kMostBytes),
    Key<&PartitionerSpec::max_shards>("max_shards", "0", "maximum number of shards; 0: no limit")
        .Only("max_size")
        .Min(0)
        .Max(kMostShards),
};
constexpr SchemaSection kPartitioner = {"parameter_servers.partitioner", "kind", kPartitionerKeys};

constexpr SchemaKey kParameterServersKeys[] = {
    SchemaKey(kSection, "partitioner", "{kind: min_size}", "how tables are split into shards")
        .Of(&kPartitioner),
    Key<&ParameterServersSpec::dense_wire_dtype>(
        "dense_wire_dtype", "f32",
        "data type in which the weights of layers and their gradients are sent, like a table's "
        "`wire_dtype`"),
    Key<&ParameterServersSpec::table_device>("table_device", "cpu",
                                             "`device` of tables that do not set their own")
        .Choices("cpu gpu disk"),
};
constexpr SchemaSection kParameterServers = {"parameter_servers", "", kParameterServersKeys};

constexpr SchemaKey kCheckpointKeys[] = {
    Key<&CheckpointSpec::directory>(
        "directory", "",
        "directory for checkpoints, which this program and all parameter servers must be able to "
        "reach; relative to the job file. None: no checkpoints. `--checkpoint-dir` overrides it"),
    Key<&CheckpointSpec::every_seconds>(
        "every_seconds", "60",
        "seconds between two checkpoints; 0: not by time. `--checkpoint-every` overrides it")
        .Min(0),
    Key<&CheckpointSpec::every_steps>(
        "every_steps", "",
        "number of training steps between two checkpoints, in addition to those by time")
        .Min(1)
        .Max(kMostSteps),
    Key<&CheckpointSpec::keep>("keep", "3", "number of checkpoints to keep, the newest ones")
        .Min(1)
        .Max(kMostCheckpoints),
    Key<&CheckpointSpec::incremental>(
        "incremental", "true",
        "write only those rows of a table that were updated since an older checkpoint, and link to "
        "that checkpoint's files for the rest"),
    Key<&CheckpointSpec::on_ps_loss>(
        "on_ps_loss", "rollback",
        "what happens when a parameter server is lost: `rollback`: all rows go back to the newest "
        "checkpoint, and the steps since then run again; `replay`: only the lost rows go back, the "
        "steps run again, and the other rows skip updates that they already have; `accept_loss`: "
        "only the lost rows go back, and no step runs again"),
    Key<&CheckpointSpec::ps_return_seconds>(
        "ps_return_seconds", "10",
        "seconds to wait for a lost parameter server before the others take over its rows")
        .Min(0),
    Key<&CheckpointSpec::rebalance>(
        "rebalance", "true",
        "move shards at a checkpoint if the load of the parameter servers is uneven or one holds "
        "nothing; training pauses while they move, at most 2% of the time"),
};
constexpr SchemaSection kCheckpoint = {"checkpoint", "", kCheckpointKeys};

constexpr SchemaKey kClusterKeys[] = {
    Key<&ClusterSpec::lease_seconds>("lease_seconds", "2",
                                     "seconds of silence after which a task counts as lost")
        .Min(0.2)
        .Max(3600),
    Key<&ClusterSpec::timeout_seconds>(
        "timeout_seconds", "600",
        "seconds without any worker, or without any parameter server, after which the job fails")
        .Above(0),
    Key<&ClusterSpec::quarantine_after>(
        "quarantine_after", "4",
        "number of workers lost while they run the same closure after which the closure is given "
        "up as an error, see `train.on_error`; the last of them runs nothing else, and no other "
        "worker is lost at that time")
        .Min(2)
        .Max(1000),
    Key<&ClusterSpec::closure_timeout_seconds>(
        "closure_timeout_seconds", "0",
        "seconds after which a step that is still running on a worker runs again on another one; "
        "after the fourth time it is an error, see `train.on_error`; 0: 20 times the slowest step "
        "so far, at least 5 minutes (10 minutes for the first step), and twice as long for each "
        "further attempt")
        .Min(0),
};
constexpr SchemaSection kCluster = {"cluster", "", kClusterKeys};

constexpr SchemaKey kFileKeys[] = {
    SchemaKey(kString, "name", "=the file's name",
              "the job's name: ASCII letters, digits, `_` and `-`"),
    SchemaKey(kSection, "dataset", nullptr, "the data files, their format, and how they are read")
        .Of(&DatasetSchema),
    SchemaKey(kSections, "features",
              "=libsvm: the feature `features`; criteo: `I1`..`I13` as log1p and `C1`..`C26`; "
              "text: the feature `word`",
              "a list: the inputs of the model")
        .Of(&kFeature),
    SchemaKey(kSection, "label", "{}", "what the model is to predict").Of(&kLabel),
    SchemaKey(kSections, "labels", "",
              "a list, instead of `label`: the labels of a multi-task model (shared_bottom, mmoe), "
              "one per task")
        .Of(&kLabels),
    SchemaKey(kSection, "split", "{}", "which data is held out from training").Of(&kSplit),
    SchemaKey(kSection, "model", nullptr, "the model to train").Of(&ModelSchema),
    SchemaKey(kSection, "loss", "{}", "the loss function").Of(&LossSchema),
    SchemaKey(kSection, "optimizer", "{}", "how weights are updated").Of(&kOptimizers),
    SchemaKey(kSection, "regularization", "{}",
              "L2 penalties of dense weights, if they are not all the same")
        .Of(&RegularizationSchema),
    SchemaKey(kNamed, "tables", "", "by name: settings of single embedding tables")
        .Of(&TableSchema),
    SchemaKey(kSection, "train", "{}",
              "length of training, batch size, devices, consistency and error handling")
        .Of(&kTrain),
    SchemaKey(kSection, "evaluate", "{}", "metrics, and when and on which data they are computed")
        .Of(&kEvaluate),
    SchemaKey(kSection, "parameter_servers", "{}",
              "how tables are sharded and stored, and in which data type dense weights are sent")
        .Of(&kParameterServers),
    SchemaKey(kSection, "checkpoint", "{}",
              "when checkpoints are written, and what is restored when a parameter server is lost")
        .Of(&kCheckpoint),
    SchemaKey(kSection, "cluster", "{}",
              "timeouts: when a task counts as lost, and when the job gives up")
        .Of(&kCluster),
};
constexpr SchemaSection kFile = {"", "", kFileKeys};

}  // namespace

const SchemaSection& JobSchema() { return kFile; }

}  // namespace coxswain::job
