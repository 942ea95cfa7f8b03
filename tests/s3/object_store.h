// An object store on loopback that speaks as much of S3's protocol as reading needs: objects whole
// and in ranges, what is known of one, lists of names. Signatures are not looked at.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "tests/testing/process.h"

namespace coxswain {

class ObjectStore {
 public:
  ObjectStore();
  ~ObjectStore();  // nobody answers any more
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;

  // `key`: "bucket/clicks/day_1.csv".
  void Put(const std::string& key, absl::string_view content);
  void Remove(const std::string& key);
  // The next requests are answered by that status, such as 503; so many in front of them are not.
  void FailNext(int requests, int status, int after = 0);
  // Objects of this bucket are refused; not any more.
  void Deny(const std::string& bucket);
  void Allow(const std::string& bucket);
  // Ranges of objects are answered once so many requests for them are there at the same time; after
  // half a minute in any case. Those that begin at `behind` or later are answered at once: a file's
  // footer is asked for alone.
  void Gather(int requests, int64_t behind = std::numeric_limits<int64_t>::max());
  // The most requests for ranges that were there at the same time.
  int most_at_once() const;
  // How many requests were answered, and how many bytes of objects.
  int requests() const;
  int64_t bytes() const;

  // What a process needs to find the store.
  Process::Environment environment() const;
  // The same for this process.
  void Use() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain
