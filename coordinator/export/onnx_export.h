// A model's scoring function in the ONNX format: the dense part and the tables, with ids and
// numbers as inputs. The vocabularies and statistics that convert raw values to these are in the
// model directory.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "coordinator/predict/predictor.h"

namespace coxswain::exporter {

// Returns the bytes of the file. Its inputs have the names of the batch's columns: NAME (i64 ids or
// f32 numbers), or NAME.values and NAME.offsets for a list; its outputs are "score" and
// "prediction". Errors: FailedPrecondition for what ONNX cannot express, with the op's name;
// InvalidArgument for a model of 2 GB or more.
absl::StatusOr<std::string> ToOnnx(const predict::Predictor& predictor);

}  // namespace coxswain::exporter
