// A body that is packed as gzip or zlib, unpacked as it comes. The library's own unpacking does not
// say whether the end of the body is there, and with it the checksum.
#pragma once

#include <zlib.h>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace coxswain::serve {

class Inflater {
 public:
  Inflater();
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Gives what is in `packed`, the next bytes of the body, to `take`, in pieces. False: the bytes
  // are damaged or follow the end, or `take` returned false.
  bool Add(absl::string_view packed, absl::FunctionRef<bool(absl::string_view)> take);
  // Whether the body is whole, and its checksum right.
  bool ended() const { return ended_; }

 private:
  z_stream stream_ = {};
  bool ended_ = false;
};

}  // namespace coxswain::serve
