// Reads arrays of numbers from numpy's npz files, as numpy.savez and savez_compressed write them: a
// zip with an npy file for each array.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coxswain/tensor.h"

namespace coxswain::model {

// Names of the arrays, in the order of the file. Errors, which name the file: those of
// RandomAccessFile; DataLoss for a file that is not a zip or is truncated; Unimplemented for one of
// 4 GiB or more.
absl::StatusOr<std::vector<std::string>> ArraysOfNpz(const std::string& path);

// Reads an array of two dimensions as f32; f64 numbers are rounded. Errors: as above; NotFound;
// InvalidArgument for an array of another dtype, number of dimensions or order; DataLoss for a
// wrong checksum; ResourceExhausted for one that does not fit into memory.
absl::StatusOr<Tensor> ReadNpz(const std::string& path, const std::string& name);

}  // namespace coxswain::model
