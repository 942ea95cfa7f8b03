// What parameter servers keep for a variable, into the files of a model: its rows, and beside them,
// where that is asked for, what its optimizer keeps. Then the variable's entry in model.json has
//
//   slots   "optimizer", its kind; "steps", how many updates with gradients the slots have behind
//           them; "file", "bytes" and "crc32" of slots/NAME.safetensors, which an optimizer without
//           slots does not need; "weights": true where the variable's rows are moving averages
//
// The file has a tensor for each slot, in the order of the variable's own file, and "weights"
// beside averages; of a hash table also "ids".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/api/variable_info.h"
#include "coxswain/strategy.h"
#include "nlohmann/json.hpp"
#include "runtime/env/file_system.h"

namespace coxswain::model {

// A part of a variable's rows, and the tensor that it becomes.
struct PartToSave {
  std::string tensor;
  int slot = 0;  // see coordinator/api/slot_rows.h
  DType dtype = DType::kF32;
  bool per_row = false;  // one value a row
  int64_t width = 0;     // values of a row; 0: as many as the variable's rows have

  Shape ShapeOf(const VariableInfo& info, int64_t rows) const;
};

// The weights, or the averages where it has them. `path`: of the file. The result has its "bytes"
// and "crc32". Errors: those of the file system and of the cluster.
absl::StatusOr<nlohmann::ordered_json> WriteValues(ParameterServerStrategy* strategy,
                                                   const VariableInfo& info, env::FileSystem* files,
                                                   const std::string& path);

// The value of "slots"; null for a variable without optimizer. `file`: below `directory`. Nothing
// may be trained meanwhile. Errors: as WriteValues.
absl::StatusOr<nlohmann::ordered_json> WriteSlots(ParameterServerStrategy* strategy,
                                                  const VariableInfo& info, env::FileSystem* files,
                                                  const std::string& directory,
                                                  const std::string& file);

}  // namespace coxswain::model
