// Ids whose rows are in an older hash table and no more in a newer one: evicted meanwhile.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "coordinator/model/saved_reader.h"

namespace coxswain::exporter {

// In no order, each once. Memory is bounded: beyond `ids_at_once` rows the tables are read several
// times, a part of the ids each time. Errors: those of reading and of `body`.
absl::Status ForEachRemovedId(const model::SavedRows& older, const model::SavedRows& newer,
                              absl::FunctionRef<absl::Status(absl::Span<const int64_t>)> body,
                              int64_t ids_at_once = int64_t{1} << 23);

}  // namespace coxswain::exporter
