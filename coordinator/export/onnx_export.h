// A model's scoring function in the ONNX format: the dense part and the tables, with ids and
// numbers as inputs. The vocabularies and statistics that convert raw values to these are in the
// model directory.
#pragma once

#include "absl/status/statusor.h"
#include "coordinator/export/onnx_writer.h"
#include "coordinator/predict/predictor.h"

namespace coxswain::exporter {

// Returns the file and the data beside it. Its inputs have the names of the batch's columns: NAME
// (i64 ids or f32 numbers), or NAME.values and NAME.offsets for a list; its outputs are "score" and
// "prediction". Errors: FailedPrecondition for what ONNX cannot express, with the op's name.
absl::StatusOr<OnnxFile> ToOnnx(const predict::Predictor& predictor,
                                const OnnxOptions& options = {});

}  // namespace coxswain::exporter
