#include "tests/s3/object_store.h"

#include <stdlib.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "httplib.h"
#include "runtime/data/hash.h"

namespace coxswain {
namespace {

struct Object {
  std::string content;
  absl::Time modified;

  std::string tag() const { return absl::StrFormat("\"%016x\"", data::HashText(content)); }
};

std::string ErrorXml(absl::string_view code) {
  return absl::StrCat("<?xml version=\"1.0\"?><Error><Code>", code, "</Code><Message>", code,
                      "</Message></Error>");
}

}  // namespace

class ObjectStore::Impl {
 public:
  Impl() {
    const auto answer = [this](const httplib::Request& request, httplib::Response& response) {
      Answer(request, &response);
    };
    server_.Get("/([^/]+)/?(.*)", answer);
    server_.set_keep_alive_timeout(1);  // how long the end waits for clients that say no more
    port_ = server_.bind_to_any_port("127.0.0.1");
    REQUIRE(port_ > 0);
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~Impl() {
    server_.stop();
    thread_.join();
  }

  int port() const { return port_; }

  absl::Mutex mu;
  std::map<std::string, Object> objects ABSL_GUARDED_BY(mu);
  std::set<std::string> denied ABSL_GUARDED_BY(mu);
  int fail ABSL_GUARDED_BY(mu) = 0, fail_by ABSL_GUARDED_BY(mu) = 503;
  int fail_after ABSL_GUARDED_BY(mu) = 0;
  int requests ABSL_GUARDED_BY(mu) = 0;
  int64_t bytes ABSL_GUARDED_BY(mu) = 0;
  int64_t puts ABSL_GUARDED_BY(mu) = 0;
  int gather ABSL_GUARDED_BY(mu) = 0, at_once ABSL_GUARDED_BY(mu) = 0;
  int most_at_once ABSL_GUARDED_BY(mu) = 0;
  int64_t gather_behind ABSL_GUARDED_BY(mu) = std::numeric_limits<int64_t>::max();

 private:
  bool Gathered() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return most_at_once >= gather; }

  void Answer(const httplib::Request& request, httplib::Response* response) {
    const absl::MutexLock lock(&mu);
    if (!request.ranges.empty() && request.ranges[0].first < gather_behind) {
      most_at_once = std::max(most_at_once, ++at_once);
      mu.AwaitWithTimeout(absl::Condition(this, &Impl::Gathered), absl::Seconds(30));
      --at_once;
    }
    ++requests;
    const std::string bucket = request.matches[1], key = request.matches[2];
    if (fail > 0 && --fail_after < 0) {
      --fail;
      const char* const code = fail_by == 503 ? "SlowDown" : "InternalError";
      Refuse(fail_by, fail_by == 403 ? "AccessDenied" : code, response);
      return KeepWhole(request, response);
    }
    if (denied.count(bucket) > 0) {
      Refuse(403, "AccessDenied", response);
      return KeepWhole(request, response);
    }
    if (key.empty()) return List(bucket, request, response);
    const auto found = objects.find(absl::StrCat(bucket, "/", key));
    if (found == objects.end()) return Refuse(404, "NoSuchKey", response);
    const Object& object = found->second;
    response->set_header("ETag", object.tag());
    response->set_header("Last-Modified", absl::FormatTime("%a, %d %b %Y %H:%M:%S GMT",
                                                           object.modified, absl::UTCTimeZone()));
    response->set_content(object.content, "application/octet-stream");
    if (request.method == "HEAD") return;
    for (const auto& [first, last] : request.ranges) bytes += last - first + 1;
    if (request.ranges.empty()) bytes += static_cast<int64_t>(object.content.size());
  }

  static void Refuse(int status, absl::string_view code, httplib::Response* response) {
    response->status = status;
    response->set_content(ErrorXml(code), "application/xml");
  }

  // The server would cut the range that is asked for out of what it says of the error.
  static void KeepWhole(const httplib::Request& request, httplib::Response* response) {
    if (request.ranges.empty()) return;
    const std::string body = std::exchange(response->body, "");
    response->set_chunked_content_provider("application/xml",
                                           [body](size_t, httplib::DataSink& sink) {
                                             sink.write(body.data(), body.size());
                                             sink.done();
                                             return true;
                                           });
  }

  void List(const std::string& bucket, const httplib::Request& request, httplib::Response* response)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    const std::string prefix = request.get_param_value("prefix");
    const std::string delimiter = request.get_param_value("delimiter");
    std::string contents;
    std::set<std::string> directories;
    int count = 0;
    bool there = false;
    for (const auto& [name, object] : objects) {
      if (!absl::StartsWith(name, bucket + "/")) continue;
      there = true;
      const std::string key = name.substr(bucket.size() + 1);
      if (!absl::StartsWith(key, prefix)) continue;
      const size_t cut = delimiter.empty() ? std::string::npos : key.find(delimiter, prefix.size());
      ++count;
      if (cut != std::string::npos) {
        directories.insert(key.substr(0, cut + 1));
        continue;
      }
      absl::StrAppend(&contents, "<Contents><Key>", key, "</Key><LastModified>",
                      absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", object.modified, absl::UTCTimeZone()),
                      "</LastModified><ETag>", object.tag(), "</ETag><Size>", object.content.size(),
                      "</Size></Contents>");
    }
    if (!there) return Refuse(404, "NoSuchBucket", response);
    for (const std::string& directory : directories) {
      absl::StrAppend(&contents, "<CommonPrefixes><Prefix>", directory,
                      "</Prefix></CommonPrefixes>");
    }
    response->set_content(
        absl::StrCat("<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult>", "<Name>",
                     bucket, "</Name><Prefix>", prefix, "</Prefix><KeyCount>", count,
                     "</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>", contents,
                     "</ListBucketResult>"),
        "application/xml");
  }

  httplib::Server server_;
  std::thread thread_;
  int port_ = 0;
};

ObjectStore::ObjectStore() : impl_(std::make_unique<Impl>()) {}
ObjectStore::~ObjectStore() = default;

void ObjectStore::Put(const std::string& key, absl::string_view content) {
  const absl::MutexLock lock(&impl_->mu);
  // Each a second later than the one before.
  const absl::Time modified = absl::FromUnixSeconds(1'700'000'000 + impl_->puts++);
  impl_->objects[key] = {std::string(content), modified};
}

void ObjectStore::Remove(const std::string& key) {
  const absl::MutexLock lock(&impl_->mu);
  impl_->objects.erase(key);
}

void ObjectStore::FailNext(int requests, int status, int after) {
  const absl::MutexLock lock(&impl_->mu);
  impl_->fail_after = after;
  impl_->fail = requests;
  impl_->fail_by = status;
}

void ObjectStore::Deny(const std::string& bucket) {
  const absl::MutexLock lock(&impl_->mu);
  impl_->denied.insert(bucket);
}

void ObjectStore::Allow(const std::string& bucket) {
  const absl::MutexLock lock(&impl_->mu);
  impl_->denied.erase(bucket);
}

void ObjectStore::Gather(int requests, int64_t behind) {
  const absl::MutexLock lock(&impl_->mu);
  impl_->gather = requests;
  impl_->gather_behind = behind;
  impl_->most_at_once = 0;
}

int ObjectStore::most_at_once() const {
  const absl::MutexLock lock(&impl_->mu);
  return impl_->most_at_once;
}

int ObjectStore::requests() const {
  const absl::MutexLock lock(&impl_->mu);
  return impl_->requests;
}

int64_t ObjectStore::bytes() const {
  const absl::MutexLock lock(&impl_->mu);
  return impl_->bytes;
}

Process::Environment ObjectStore::environment() const {
  return {{"AWS_ENDPOINT_URL", absl::StrCat("http://127.0.0.1:", impl_->port())},
          {"AWS_ACCESS_KEY_ID", "key"},
          {"AWS_SECRET_ACCESS_KEY", "secret"},
          {"AWS_EC2_METADATA_DISABLED", "true"}};
}

void ObjectStore::Use() const {
  for (const auto& [name, value] : environment()) setenv(name.c_str(), value.c_str(), 1);
}

}  // namespace coxswain
