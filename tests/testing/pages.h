// The pages that users read, taken apart: what they show is what tests run.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/config/yaml_reader.h"
#include "tests/testing/paths.h"

namespace coxswain {

// The text of a file of the sources.
inline std::string PageText(const std::string& path) {
  const absl::StatusOr<std::string> text =
      config::ReadTextFile(absl::StrCat(COXSWAIN_SOURCE_DIR, "/", path));
  INFO(path);
  REQUIRE(text.ok());
  return *text;
}

// The page's code blocks of a language, in their order.
inline std::vector<std::string> CodeBlocks(const std::string& path, const std::string& language) {
  const std::string page = PageText(path), open = absl::StrCat("```", language, "\n");
  std::vector<std::string> blocks;
  for (size_t at = page.find(open); at != std::string::npos; at = page.find(open, at)) {
    at += open.size();
    blocks.push_back(page.substr(at, page.find("```", at) - at));
  }
  return blocks;
}

// The first cells of the page's table with this head.
inline std::vector<std::string> FirstCells(const std::string& path, const std::string& head) {
  std::vector<std::string> cells;
  bool inside = false;
  for (absl::string_view line : absl::StrSplit(PageText(path), '\n')) {
    if (absl::StartsWith(line, absl::StrCat("| ", head, " |"))) {
      inside = true;
    } else if (!absl::StartsWith(line, "|")) {
      inside = false;
    } else if (inside && !absl::StartsWith(line, "|---")) {
      const std::vector<std::string> row = absl::StrSplit(line, " | ");
      cells.push_back(row[0].substr(2));
    }
  }
  return cells;
}

// The command lines of the page: lines of code by indentation that begin with the name of one of
// Coxswain's programs, or with curl. What follows `#` is left out.
inline std::vector<std::string> CommandLines(const std::string& path) {
  std::vector<std::string> lines;
  for (absl::string_view line : absl::StrSplit(PageText(path), '\n')) {
    if (!absl::StartsWith(line, "    coxswain") && !absl::StartsWith(line, "    curl ")) continue;
    const size_t comment = line.find(" #");
    lines.emplace_back(absl::StripAsciiWhitespace(line.substr(0, comment)));
  }
  return lines;
}

}  // namespace coxswain
