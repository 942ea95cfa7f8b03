#include "coordinator/cli/event_file.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "tests/testing/data_files.h"
#include "tests/testing/event_files.h"
#include "tests/testing/tiny_disk.h"

namespace coxswain::cli {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
namespace fs = std::filesystem;

const absl::Time kNow = absl::FromUnixMillis(1'700'000'000'500);

proto::TfEvent Point(int64_t step, float value) {
  proto::TfEvent event;
  event.set_wall_time(1.5);
  event.set_step(step);
  auto* const added = event.mutable_summary()->add_value();
  added->set_tag("a");
  added->set_simple_value(value);
  return event;
}

std::string Bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

EventFile Make(const std::string& directory, absl::Time now = kNow) {
  auto file = EventFile::Create(directory, now);
  INFO(file.status().ToString());
  REQUIRE(file.ok());
  return *std::move(file);
}

// As Python's protobuf and TensorBoard's definitions serialise them.
TEST_CASE("events are on the wire as TensorFlow's", "[tensorboard]") {
  const auto hex = [](const proto::TfEvent& event) {
    return absl::BytesToHexString(event.SerializeAsString());
  };
  proto::TfEvent version;
  version.set_wall_time(1.5);
  version.set_file_version("brain.Event:2");
  CHECK(hex(version) == "09000000000000f83f1a0d627261696e2e4576656e743a32");
  CHECK(hex(Point(7, 0)) == "09000000000000f83f10072a0a0a080a01611500000000");
  proto::TfEvent start;
  start.set_wall_time(1.5);
  start.set_step(7);
  start.mutable_session_log()->set_status(1);
  CHECK(hex(start) == "09000000000000f83f10073a020801");
  proto::TfEvent text;
  text.set_wall_time(1.5);
  text.set_step(7);
  auto* const value = text.mutable_summary()->add_value();
  value->set_tag("job");
  value->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  value->mutable_tensor()->set_dtype(7);
  value->mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(1);
  value->mutable_tensor()->add_string_val("hi");
  CHECK(hex(text) ==
        "09000000000000f83f10072a1f0a1d0a036a6f62420c0807120412020801420268694a080a060a0474657874");
}

TEST_CASE("an event file begins with its version, and each event can be read at once",
          "[tensorboard]") {
  const DataFiles dir;
  EventFile file = Make(dir.Path(""));
  const std::string name = fs::path(file.path()).filename().string();
  CHECK_THAT(name, StartsWith("events.out.tfevents.1700000000.") && Contains(".coxswain"));
  REQUIRE(EventsOf(file.path()).size() == 1);
  CHECK(EventsOf(file.path())[0].file_version() == "brain.Event:2");
  CHECK(EventsOf(file.path())[0].wall_time() == 1'700'000'000.5);
  REQUIRE(file.Append({Point(1, 0.5F), Point(2, 0)}).ok());
  const std::vector<proto::TfEvent> events = EventsOf(file.path());
  REQUIRE(events.size() == 3);
  CHECK(events[1].step() == 1);
  CHECK(events[2].summary().value(0).has_simple_value());  // a zero is a value, too
}

TEST_CASE("an event file is new and comes behind all that are there, which stay as they are",
          "[tensorboard]") {
  const DataFiles dir;
  const std::string later = dir.Write("events.out.tfevents.1700000009.elsewhere.1.coxswain", "x"),
                    other = dir.Write("events.out.tfevents.none", "x"),
                    long_ago = dir.Write("events.out.tfevents.999.host", "x");
  const auto name_of = [](const std::string& path) { return fs::path(path).filename().string(); };
  std::string last = name_of(later);
  for (int i = 0; i < 3; ++i) {
    EventFile file = Make(dir.Path(""));
    REQUIRE(file.Append({Point(i, 1)}).ok());
    CHECK(name_of(file.path()) > last);
    CHECK(EventsOf(file.path()).size() == 2);
    last = name_of(file.path());
  }
  for (const std::string& path : {later, other, long_ago}) CHECK(Bytes(path) == "x");
  dir.Write("events.out.tfevents.9999999999.host.1.v2", "");
  const auto none = EventFile::Create(dir.Path(""), kNow);
  CHECK_THAT(std::string(none.status().message()), Contains("no name comes behind it"));
}

TEST_CASE("an event file that cannot be made is an error that names it", "[tensorboard]") {
  const DataFiles dir;
  CHECK_THAT(std::string(EventFile::Create(dir.Path("none"), kNow).status().message()),
             Contains(dir.Path("none")));
  const TinyDisk disk(dir.Path("disk"), "64k");
  if (!disk.mounted()) return;
  disk.Fill();
  const auto full = EventFile::Create(dir.Path("disk"), kNow);
  CHECK(absl::IsResourceExhausted(full.status()));
  CHECK(EventFiles(dir.Path("disk")).empty());
}

TEST_CASE("an event file on a full disk has whole events and an error, and never half of one",
          "[tensorboard]") {
  const DataFiles dir;
  const TinyDisk disk(dir.Path("disk"), "64k");
  if (!disk.mounted()) return;
  EventFile file = Make(dir.Path("disk"));
  proto::TfEvent large = Point(1, 1);
  large.mutable_summary()->mutable_value(0)->set_tag(std::string(10000, 'a'));
  absl::Status status;
  size_t written = 1;
  while ((status = file.Append({large})).ok()) ++written;
  CHECK(absl::IsResourceExhausted(status));
  CHECK_THAT(std::string(status.message()), Contains(file.path()));
  CHECK(written > 3);
  auto input = data::InputFile::Open(file.path());
  REQUIRE(input.ok());
  data::TfRecordReader reader(*std::move(input));
  absl::string_view record;
  size_t read = 0;
  auto more = reader.Next(&record);
  for (; more.ok() && *more; more = reader.Next(&record)) ++read;
  CHECK(more.ok());
  CHECK(read == written);
}

}  // namespace
}  // namespace coxswain::cli
