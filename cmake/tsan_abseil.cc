// What the thread sanitizer has to know of Abseil's locks. Debian's Abseil is compiled without it,
// and locks by futexes, which it does not see: every variable behind an absl::Mutex would be a
// race.
//
// A library with this file comes before Abseil's in each program of such a build. Its functions
// tell the sanitizer what they order and call Abseil's own. Conditions that Abseil looks at for
// others, when it has let go of a lock for this thread but not for the rest, are not looked at
// themselves.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/base/options.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}

namespace {

#define COX_TEXT_OF(name) #name
#define COX_TEXT(name) COX_TEXT_OF(name)

// Abseil's own function; `name`: mangled, without the namespaces.
void* Own(const char* name) {
  const std::string inner = COX_TEXT(ABSL_OPTION_INLINE_NAMESPACE_NAME);
  const bool is_const = name[0] == 'K';
  const std::string symbol = std::string(is_const ? "_ZNK" : "_ZN") + "4absl" +
                             std::to_string(inner.size()) + inner + (is_const ? name + 1 : name);
  void* const found = dlsym(RTLD_NEXT, symbol.c_str());
  if (found == nullptr) {
    std::fprintf(stderr, "Abseil's library has no %s: another one was compiled with\n",
                 symbol.c_str());
    std::abort();
  }
  return found;
}

class Unseen {
 public:
  Unseen() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~Unseen() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
};

template <typename Result, typename Object, typename... Args>
Result Call(void* own, Object* object, Args... args) {
  const Unseen unseen;
  return reinterpret_cast<Result (*)(Object*, Args...)>(own)(object, args...);
}

void* AddressOf(const void* object) { return const_cast<void*>(object); }

}  // namespace

// Each looks its own up once.
#define COX_OWN(name)           \
  static void* const own = [] { \
    const Unseen unseen;        \
    return Own(name);           \
  }()

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  COX_OWN("5Mutex4LockEv");
  Call<void>(own, this);
  __tsan_acquire(this);
}

void Mutex::ReaderLock() {
  COX_OWN("5Mutex10ReaderLockEv");
  Call<void>(own, this);
  __tsan_acquire(this);
}

bool Mutex::TryLock() {
  COX_OWN("5Mutex7TryLockEv");
  const bool locked = Call<bool>(own, this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::Unlock() {
  COX_OWN("5Mutex6UnlockEv");
  __tsan_release(this);
  Call<void>(own, this);
}

void Mutex::ReaderUnlock() {
  COX_OWN("5Mutex12ReaderUnlockEv");
  __tsan_release(this);
  Call<void>(own, this);
}

void Mutex::LockWhen(const Condition& condition) {
  COX_OWN("5Mutex8LockWhenERKNS0_9ConditionE");
  Call<void>(own, this, &condition);
  __tsan_acquire(this);
}

void Mutex::Await(const Condition& condition) {
  COX_OWN("5Mutex5AwaitERKNS0_9ConditionE");
  __tsan_release(this);
  Call<void>(own, this, &condition);
  __tsan_acquire(this);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  COX_OWN("5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  __tsan_release(this);
  const bool met = Call<bool>(own, this, &condition, timeout);
  __tsan_acquire(this);
  return met;
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  COX_OWN("5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  __tsan_release(this);
  const bool met = Call<bool>(own, this, &condition, deadline);
  __tsan_acquire(this);
  return met;
}

void CondVar::Wait(Mutex* mutex) {
  COX_OWN("7CondVar4WaitEPNS0_5MutexE");
  __tsan_release(mutex);
  Call<void>(own, this, mutex);
  __tsan_acquire(mutex);
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  COX_OWN("7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE");
  __tsan_release(mutex);
  const bool late = Call<bool>(own, this, mutex, timeout);
  __tsan_acquire(mutex);
  return late;
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  COX_OWN("7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  __tsan_release(mutex);
  const bool late = Call<bool>(own, this, mutex, deadline);
  __tsan_acquire(mutex);
  return late;
}

void Notification::Notify() {
  COX_OWN("12Notification6NotifyEv");
  __tsan_release(&notified_yet_);  // which HasBeenNotified reads in its caller
  Call<void>(own, this);
}

void Notification::WaitForNotification() const {
  COX_OWN("K12Notification19WaitForNotificationEv");
  Call<void>(own, this);
  __tsan_acquire(AddressOf(&notified_yet_));
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  COX_OWN("K12Notification30WaitForNotificationWithTimeoutENS0_8DurationE");
  const bool notified = Call<bool>(own, this, timeout);
  if (notified) __tsan_acquire(AddressOf(&notified_yet_));
  return notified;
}

bool BlockingCounter::DecrementCount() {
  COX_OWN("15BlockingCounter14DecrementCountEv");
  __tsan_release(this);
  return Call<bool>(own, this);
}

void BlockingCounter::Wait() {
  COX_OWN("15BlockingCounter4WaitEv");
  Call<void>(own, this);
  __tsan_acquire(this);
}

ABSL_NAMESPACE_END
}  // namespace absl
