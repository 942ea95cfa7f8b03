// A body that is packed as gzip or zlib, unpacked as it comes. The library's own unpacking does not
// say whether the end of the body is there, and with it the checksum.
#pragma once

#include <zlib.h>

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace coxswain::serve {

class Inflater {
 public:
  // `memory`: for tests, in place of zlib's own. Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<Inflater>> Create(alloc_func memory = nullptr);
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Gives what is in `packed`, the next bytes of the body, to `take`, in pieces. Errors:
  // InvalidArgument for bytes that are damaged or follow the end; ResourceExhausted; Cancelled when
  // `take` returned false.
  absl::Status Add(absl::string_view packed, absl::FunctionRef<bool(absl::string_view)> take);
  // Whether the body is whole, and its checksum right.
  bool ended() const { return ended_; }

 private:
  Inflater() = default;

  z_stream stream_ = {};  // zlib remembers where it is
  bool ended_ = false;
};

}  // namespace coxswain::serve
