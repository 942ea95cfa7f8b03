// The event files of a directory, as TensorBoard reads them.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "protos/tf_event.pb.h"
#include "runtime/data/input_file.h"
#include "runtime/data/tfrecord_reader.h"

namespace coxswain {

// Their paths, in the order in which they are read.
inline std::vector<std::string> EventFiles(const std::string& directory) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().filename().string().find("tfevents") != std::string::npos) {
      files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// A file's whole records; one that is torn may be the last.
inline std::vector<proto::TfEvent> EventsOf(const std::string& file) {
  auto input = data::InputFile::Open(file);
  REQUIRE(input.ok());
  data::TfRecordReader reader(*std::move(input));
  std::vector<proto::TfEvent> events;
  absl::string_view record;
  for (auto more = reader.Next(&record); more.ok() && *more; more = reader.Next(&record)) {
    proto::TfEvent event;
    REQUIRE(event.ParseFromArray(record.data(), static_cast<int>(record.size())));
    events.push_back(std::move(event));
  }
  return events;
}

struct Curves {
  using Points = std::vector<std::pair<int64_t, double>>;  // steps and values
  std::map<std::string, Points> points;                    // by tag
  std::map<std::string, std::string> texts;
  std::vector<int64_t> starts;  // of sessions
};

// What is shown of all files: the points that come behind the start of a session replace those from
// its step on.
inline Curves ReadCurves(const std::string& directory) {
  constexpr int kStart = 1;
  Curves curves;
  for (const std::string& file : EventFiles(directory)) {
    const std::vector<proto::TfEvent> events = EventsOf(file);
    REQUIRE_FALSE(events.empty());
    CHECK(events[0].file_version() == "brain.Event:2");
    for (const proto::TfEvent& event : events) {
      if (event.session_log().status() == kStart) {
        curves.starts.push_back(event.step());
        for (auto& [tag, points] : curves.points) {
          while (!points.empty() && points.back().first >= event.step()) points.pop_back();
        }
      }
      for (const proto::TfSummary::Value& value : event.summary().value()) {
        if (value.has_tensor()) {
          CHECK(value.metadata().plugin_data().plugin_name() == "text");
          curves.texts[value.tag()] = value.tensor().string_val(0);
        } else {
          curves.points[value.tag()].emplace_back(event.step(), value.simple_value());
        }
      }
    }
  }
  return curves;
}

// Whether no point is at a smaller step than the one before.
inline bool InOrder(const Curves::Points& points) {
  return std::is_sorted(points.begin(), points.end(),
                        [](const auto& a, const auto& b) { return a.first < b.first; });
}

}  // namespace coxswain
