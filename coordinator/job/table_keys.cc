#include "coordinator/job/table_keys.h"

#include "coordinator/job/bound_key.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/job/job_words.h"
#include "coordinator/job/optimizer_schema.h"
#include "coordinator/job/size_limits.h"

namespace coxswain::job {
namespace {

using enum KeyType;

constexpr SchemaKey kHashTableKeys[] = {
    Field<proto::HashTableSpec>(kInt, "min_count", "1",
                                "an id gets its row at its `min_count`-th update, unless too many "
                                "ids wait for theirs; until then its gradients are dropped, and it "
                                "reads as its initial values")
        .Min(1)
        .Max(0x7fffffff),
    SchemaKey(kReal, "admission_probability", "1",
              "instead of `min_count`: probability with which each update of an id without a row "
              "creates its row")
        .Above(0)
        .Max(1),
    Field<proto::HashTableSpec>(
        kInt, "ttl_steps", "0",
        "number of steps without an update after which a row is evicted, when its turn comes; 0: "
        "never")
        .Min(0)
        .Max(kMostSteps),
    Field<proto::HashTableSpec>(
        kReal, "ttl_seconds", "0",
        "as `ttl_steps`, in seconds, rounded up by at most 1/64; the time between writing and "
        "restoring a checkpoint, such as before `--resume`, does not count; 0: never")
        .Min(0),
    Field<proto::HashTableSpec>(
        kInt, "max_rows", "0",
        "maximum number of rows, split evenly among the table's shards; 0: no limit")
        .Min(0)
        .Max(kMostNumbers),
    Field<proto::HashTableSpec>(
        kChoice, "evict", "recency",
        "which row is evicted if there are more than `max_rows`: of a sample of 16, `recency`: the "
        "one whose last update is oldest; `frequency`: the one with the fewest updates")
        .Choices("recency frequency"),
};
constexpr SchemaSection kHashTable = {"tables.NAME.hash_table", "", kHashTableKeys};

constexpr SchemaKey kInitializerKeys[] = {
    Field<proto::InitializerSpec>(
        kChoice, "kind", nullptr,
        "distribution of the initial values; each row depends only on its id and the seed; "
        "`truncated_normal` redraws values beyond two standard deviations; `glorot_uniform` is for "
        "tables with a vocabulary; `file`: rows are read from a file, by the values that they "
        "stand for, and other rows are initialised as if there were no `initializer`")
        .Choices("zeros ones constant uniform normal truncated_normal glorot_uniform file"),
    SchemaKey(kString, "path", nullptr,
              "the file, in the format `.safetensors`, `.npz`, or word2vec's text format, one word "
              "and its numbers per line; relative to the job file")
        .Only("file"),
    SchemaKey(kString, "words", "",
              "for a safetensors or npz file: a file with the value that each row stands for, one "
              "per line; relative to the job file")
        .Only("file"),
    SchemaKey(kString, "tensor", "=the only one",
              "for a safetensors or npz file: the name of the tensor")
        .Only("file"),
    Field<proto::InitializerSpec>(kReal, "value", nullptr, "value of all elements")
        .Only("constant"),
    Field<proto::InitializerSpec>(kReal, "low", "-0.05", "lower bound").Only("uniform"),
    Field<proto::InitializerSpec>(kReal, "high", "0.05", "upper bound").Only("uniform"),
    Field<proto::InitializerSpec>(kReal, "mean", "0", "mean").Only("normal truncated_normal"),
    Field<proto::InitializerSpec>(kReal, "stddev", "0.05", "standard deviation")
        .Only("normal truncated_normal")
        .Above(0),
    Field<proto::InitializerSpec>(kInt, "seed", "=`train.seed`", "random seed")
        .Only("uniform normal truncated_normal glorot_uniform")
        .Min(0),
};
constexpr SchemaSection kInitializer = {"tables.NAME.initializer", "kind", kInitializerKeys};

constexpr SchemaKey kTableKeys[] = {
    SchemaKey(kSection, "optimizer", "=`optimizer.table`", "optimizer of this table")
        .Of(&OptimizerSchema),
    SchemaKey(kReal, "l2", "=the optimizer's", "L2 penalty of this table").Min(0),
    Key<&TableSpec::dtype>(
        "dtype", "f32",
        "data type of the stored rows; `bf16` halves the memory of the rows themselves, while the "
        "optimizer's slots stay f32: a table of 32 columns takes 47% less memory with `sgd`, 24% "
        "less with `adagrad`, 16% less with `lazy_adam`"),
    SchemaKey(kChoice, "rounding", "stochastic",
              "how updated bf16 rows are rounded: `stochastic` is right on average beyond bf16's 8 "
              "bits of precision, `nearest` loses small steps")
        .Choices("nearest stochastic"),
    Key<&TableSpec::wire_dtype>("wire_dtype", "f32",
                                "data type in which rows and their gradients are sent; `bf16` "
                                "halves the bytes, which pays off on networks, not on one machine"),
    Key<&TableSpec::device>("device", "=`parameter_servers.table_device`",
                            "where parameter servers keep rows and optimizer slots; `gpu`: in the "
                            "memory of their GPUs, see [gpu.md](gpu.md#tables-in-gpu-memory); "
                            "`disk`: in files, for tables larger than memory, see "
                            "[disk.md](disk.md)")
        .Choices("cpu gpu disk"),
    SchemaKey(kReal, "init_stddev",
              "=0.1; 0 for `_bias`, `_linear` and `_output`; word2vec: 0.5 / `model.dim`",
              "standard deviation of the normal distribution that initial values are drawn from; "
              "0: rows start as zeros")
        .Min(0),
    SchemaKey(kSection, "initializer", "", "how rows are initialised, instead of `init_stddev`")
        .Of(&kInitializer),
    Key<&TableSpec::trainable>(
        "trainable", "true",
        "false: rows keep their initial values, and no gradients are sent for them"),
    Key<&TableSpec::shards>("shards", "0",
                            "number of shards; 0: as `parameter_servers.partitioner` determines")
        .Min(0)
        .Max(kMostShards),
    Key<&TableSpec::sharding>(
        "sharding", "mod",
        "which of n shards holds row r: `mod`: r % n; `div`: by ranges of rows; `hash`: by a fixed "
        "hash of r. Hash tables use a hash of their own")
        .Choices("mod div hash"),
    SchemaKey(kSection, "hash_table", "",
              "how rows are created and evicted, for features with `id: raw` or `id: hash`")
        .Of(&kHashTable),
};
constexpr SchemaSection kTable = {"tables.NAME", "", kTableKeys};

}  // namespace

const SchemaSection& TableSchema() { return kTable; }

}  // namespace coxswain::job
