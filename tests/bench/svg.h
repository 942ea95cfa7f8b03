// Text of pictures: what the benchmarks that draw some have in common.
#pragma once

#include <string>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace coxswain {

inline std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

inline std::string SvgText(double x, double y, const std::string& text,
                           const char* anchor = "start") {
  return absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor,
                         Escaped(text));
}

// The beginning of a picture; "</svg>\n" is its end.
inline std::string SvgHead(int width, int height) {
  return absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" "
      "fill=\"white\"/>\n",
      width, height, width, height);
}

}  // namespace coxswain
