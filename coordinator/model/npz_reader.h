// Arrays of numbers in numpy's npz files, as numpy.savez and savez_compressed write them: a zip
// with an npy file for each array.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coxswain/tensor.h"

namespace coxswain::model {

// Names of the arrays, in the order of the file. Errors, which name the file: those of
// RandomAccessFile; DataLoss for what is no zip, or is cut off; Unimplemented for one of 4 GiB or
// more.
absl::StatusOr<std::vector<std::string>> ArraysOfNpz(const std::string& path);

// An array of two dimensions as f32; of f64 each number is rounded. Errors: as above; NotFound;
// InvalidArgument for an array of other numbers, dimensions or order; DataLoss for a wrong
// checksum; ResourceExhausted for one that does not fit memory.
absl::StatusOr<Tensor> ReadNpz(const std::string& path, const std::string& name);

}  // namespace coxswain::model
