#include "tests/bench/step/plot.h"

#include <catch2/catch.hpp>
#include <cctype>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"

namespace coxswain {
namespace {

using Catch::Contains;

constexpr char kFigures[] = R"([
  {"case": "talk", "ps": 2, "workers": 2, "in_process": false, "steps_per_second": 500.0,
   "compute_threads": 2, "worker_compute_share": 0.75, "compute": "bf16",
   "cpu_ms_per_step": {"coordinator": 0.1, "ps:0": 0.2, "ps:1": 0.3, "worker:0": 2, "worker:1": 2},
   "floor_cpu_ms": 2.5, "floor_products_ms": 1.5, "floor_rows_ms": 0.5},
  {"case": "null <&\">", "ps": 1, "workers": 1, "in_process": true, "steps_per_second": 30000.0,
   "compute_threads": 2, "worker_compute_share": 0, "cpu_ms_per_step": {"all": 0.02}}
])";

// Reads an XML document as far as the plot uses it; "" or what is wrong. Counts elements.
std::string CheckXml(const std::string& xml, int* rects, std::string* text) {
  std::vector<std::string> open;
  size_t at = 0;
  bool root_seen = false;
  while (at < xml.size()) {
    if (xml[at] != '<') {
      if (xml[at] == '>') return "a bare >";
      if (open.empty() && !std::isspace(static_cast<unsigned char>(xml[at]))) return "text outside";
      if (xml[at] == '&' && xml.find(';', at) - at > 6) return "a bare &";
      text->push_back(xml[at++]);
      continue;
    }
    const size_t end = xml.find('>', at);
    if (end == std::string::npos) return "a tag that does not end";
    std::string tag = xml.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return "closes " + tag;
      open.pop_back();
      continue;
    }
    if (open.empty() && root_seen) return "two roots";
    root_seen = true;
    const bool closed = tag.back() == '/';
    if (closed) tag.pop_back();
    const std::string name = tag.substr(0, tag.find(' '));
    if (name == "rect") ++*rects;
    if (tag.find('<') != std::string::npos) return "< in " + name;
    // name="value" name="value"
    for (size_t i = name.size(); i < tag.size();) {
      const size_t equals = tag.find("=\"", i);
      if (tag[i] != ' ' || equals == std::string::npos) return "attributes of " + name;
      const size_t quote = tag.find('"', equals + 2);
      if (quote == std::string::npos) return "a quote in " + name;
      i = quote + 1;
    }
    if (!closed) open.push_back(name);
  }
  return open.empty() ? "" : open.back() + " is not closed";
}

TEST_CASE("the plot of a step is well-formed SVG with a bar for each part", "[bench]") {
  const auto svg = PlotSteps(kFigures);
  INFO(svg.status().message());
  REQUIRE(svg.ok());
  CHECK(absl::StartsWith(*svg, "<svg xmlns=\"http://www.w3.org/2000/svg\""));
  int rects = 0;
  std::string text;
  CHECK(CheckXml(*svg, &rects, &text) == "");
  // The background; a legend of 4 + 3 + 2; bars of 4 + 3 and of 2.
  CHECK(rects == 1 + 9 + 9);
  CHECK_THAT(text, Contains("talk, 2x2, bf16"));
  CHECK_THAT(text, Contains("500 steps/s"));
  CHECK_THAT(text, Contains("4.6 ms"));  // all that was spent on a step
  CHECK_THAT(text, Contains("2.5 ms"));  // the floors
  CHECK_THAT(text, Contains("PS: 0.500 ms"));
  CHECK_THAT(text, Contains("workers: kernels: 3.000 ms"));
  CHECK_THAT(text, Contains("null &lt;&amp;&quot;&gt;, in process"));
}

TEST_CASE("a plot of what is no list of figures says so", "[bench]") {
  for (const std::string json : {"", "{", "[]", "{}", "[1]", "[{\"case\": 1}]"}) {
    CAPTURE(json);
    const auto svg = PlotSteps(json);
    CHECK(absl::IsInvalidArgument(svg.status()));
    CHECK_THAT(std::string(svg.status().message()), Contains("wanted a list of figures"));
  }
}

}  // namespace
}  // namespace coxswain
