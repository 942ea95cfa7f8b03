// Hash tables of a saved model: one file with the tensors "ids" i64 [n] and "rows" [n, dim], in no
// order; of a table that evicts rows also "uses" i64 [n, 3], see runtime/cluster/control.h. A file
// of their optimizer's slots has its tensors in place of "rows".
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/api/variable_info.h"
#include "coordinator/model/saved_slots.h"
#include "coxswain/strategy.h"
#include "protos/variable.pb.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/env/file_system.h"

namespace coxswain::model {

// Whether its rows go after some time, or when they are too many.
bool EvictsRows(const proto::HashTableSpec& spec);

// Streams these parts of a table into the file `path`. How many rows there are shows only at the
// end, so it needs the space twice for a moment. Errors: those of the file system and of the
// cluster; Aborted where rows come or go meanwhile.
absl::StatusOr<std::unique_ptr<checkpoint::SafetensorsWriter>> WriteHashTable(
    ParameterServerStrategy* strategy, const VariableInfo& info,
    const std::vector<PartToSave>& parts, env::FileSystem* files, const std::string& path);

}  // namespace coxswain::model
