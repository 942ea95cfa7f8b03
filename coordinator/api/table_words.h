// Conversions of table options between their enums and the words in jobs and on the wire.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coxswain/function_builder.h"
#include "coxswain/strategy.h"
#include "protos/variable.pb.h"

namespace coxswain {

const char* Word(Sharding sharding);   // "mod", "div", "hash"
const char* Word(Rounding rounding);   // "stochastic", "nearest"
const char* Word(TableDevice device);  // "cpu", "gpu"
const char* Word(Combiner combiner);   // "sum", "mean", "sqrtn"
// Errors: InvalidArgument for a word that is none of the above.
absl::StatusOr<Sharding> ParseSharding(absl::string_view word);
absl::StatusOr<Rounding> ParseRounding(absl::string_view word);
absl::StatusOr<TableDevice> ParseTableDevice(absl::string_view word);
absl::StatusOr<Combiner> ParseCombiner(absl::string_view word);

proto::HashTableSpec ToProto(const HashTableOptions& options);
HashTableOptions FromProto(const proto::HashTableSpec& spec);

}  // namespace coxswain
