#include "runtime/device/device_runtime.h"

#include <atomic>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "runtime/base/logging.h"
#include "runtime/base/status.h"

namespace coxswain::device {
namespace {

constexpr char kDeviceLostUrl[] = "coxswain/device-lost";

// The class of pinned blocks that hold `bytes`: blocks of 4 KiB << class.
size_t PinnedClass(size_t bytes) {
  size_t size_class = 0;
  while ((size_t{4096} << size_class) < bytes) ++size_class;
  return size_class;
}

}  // namespace

absl::Status DeviceLost(const std::string& message) {
  absl::Status status = absl::UnavailableError(message);
  status.SetPayload(kDeviceLostUrl, absl::Cord("1"));
  return status;
}

bool IsDeviceLost(const absl::Status& status) {
  return status.GetPayload(kDeviceLostUrl).has_value();
}

absl::Status DeviceRuntime::FaultStatus(const CoxFault& fault) const {
  switch (fault.kind) {
    case COX_FAULT_NONE:
      return absl::OkStatus();
    case COX_FAULT_INDEX:
      return absl::InvalidArgumentError(absl::StrCat("input ", fault.input, ", element ", fault.at,
                                                     ": wanted 0 to ", fault.bound - 1, ", found ",
                                                     fault.value));
    case COX_FAULT_NOT_FINITE:
      return absl::InvalidArgumentError(
          absl::StrCat("input ", fault.input, ", element ", fault.at, " is not finite"));
    default:
      return absl::InternalError(absl::StrCat("the device reports fault ", fault.kind));
  }
}

absl::StatusOr<std::unique_ptr<DeviceStream::Mark>> DeviceStream::SetMark() {
  class Flag final : public Mark {
   public:
    bool reached() const override { return *flag_; }
    const std::shared_ptr<std::atomic<bool>>& flag() const { return flag_; }

   private:
    const std::shared_ptr<std::atomic<bool>> flag_ = std::make_shared<std::atomic<bool>>(false);
  };
  auto mark = std::make_unique<Flag>();
  RETURN_IF_ERROR(Notify([flag = mark->flag()](const absl::Status&) { *flag = true; }));
  return mark;
}

absl::Status DeviceStream::Synchronize() {
  struct End {
    absl::Notification reached;
    absl::Status status;
  };
  const auto end = std::make_shared<End>();
  RETURN_IF_ERROR(Notify([end](absl::Status status) {
    end->status = std::move(status);
    end->reached.Notify();
  }));
  if (end->reached.WaitForNotificationWithTimeout(kLongestWait)) return end->status;
  return DeviceLost(absl::StrCat("a device did not do within ", absl::FormatDuration(kLongestWait),
                                 " what it was given"));
}

absl::StatusOr<Buffer> PinnedPool::Allocate(size_t bytes) {
  const size_t size_class = PinnedClass(bytes);
  void* block = nullptr;
  {
    absl::MutexLock lock(&mu_);
    if (blocks_.size() <= size_class) blocks_.resize(size_class + 1);
    if (auto& free = blocks_[size_class]; !free.empty()) {
      block = free.back();
      free.pop_back();
    }
  }
  if (block == nullptr) {
    ASSIGN_OR_RETURN(block, allocate_(size_t{4096} << size_class));
  }
  return Buffer::Wrap(block, bytes, Device{}, [self = shared_from_this(), block, size_class] {
    absl::MutexLock lock(&self->mu_);
    self->blocks_[size_class].push_back(block);
  });
}

PinnedPool::~PinnedPool() {
  for (const auto& blocks : blocks_) {
    for (void* block : blocks) free_(block);
  }
}

absl::StatusOr<std::shared_ptr<DeviceStream>> DeviceRuntime::BorrowStream() {
  {
    absl::MutexLock lock(&mu_);
    ++borrowed_;
    if (!idle_.empty()) {
      std::shared_ptr<DeviceStream> stream = std::move(idle_.back());
      idle_.pop_back();
      return stream;
    }
  }
  auto stream = NewStream();
  if (!stream.ok()) {
    absl::MutexLock lock(&mu_);
    --borrowed_;
  }
  return stream;
}

void DeviceRuntime::ReturnStream(std::shared_ptr<DeviceStream> stream) {
  absl::MutexLock lock(&mu_);
  --borrowed_;
  idle_.push_back(std::move(stream));
}

int DeviceRuntime::borrowed_streams() const {
  absl::MutexLock lock(&mu_);
  return borrowed_;
}

absl::StatusOr<std::shared_ptr<DeviceStream>> DeviceRuntime::RowStream(int number) {
  absl::MutexLock lock(&mu_);
  std::shared_ptr<DeviceStream>& stream = row_streams_[static_cast<size_t>(number) % kRowStreams];
  if (stream == nullptr) {
    ASSIGN_OR_RETURN(stream, NewStream());
  }
  return stream;
}

std::vector<std::shared_ptr<DeviceStream>> DeviceRuntime::row_streams() const {
  absl::MutexLock lock(&mu_);
  std::vector<std::shared_ptr<DeviceStream>> made;
  for (const auto& stream : row_streams_) {
    if (stream != nullptr) made.push_back(stream);
  }
  return made;
}

std::vector<std::shared_ptr<DeviceStream>> DeviceRuntime::TakeStreams() {
  absl::MutexLock lock(&mu_);
  COX_CHECK(borrowed_ == 0, "a device ends while ", borrowed_, " runs use it");
  for (auto& stream : row_streams_) {
    if (stream != nullptr) idle_.push_back(std::exchange(stream, nullptr));
  }
  return std::exchange(idle_, {});
}

}  // namespace coxswain::device
