// The store of a bucket, made once a process; what is in it; its files.
#include "runtime/data/arrow/plugin/stored.h"

#include <arrow/filesystem/api.h>
#include <arrow/util/key_value_metadata.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <mutex>
#include <utility>

namespace coxswain::data::plugin {
namespace {

using Store = std::shared_ptr<arrow::fs::FileSystem>;

constexpr char kScheme[] = "s3://";

std::string Variable(std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != 0) return value;
  }
  return "";
}

std::string Endpoint() { return Variable({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}); }

#ifdef COXSWAIN_ARROW_S3
// Seconds until a connection is there, and without a byte.
constexpr double kConnectTimeout = 10, kRequestTimeout = 30;
constexpr int64_t kAttempts = 5;

bool IsYes(const std::string& text) { return text == "YES" || text == "yes" || text == "1"; }

// Of what is done at exit the last comes first, and what ends S3 there uses what was made when it
// was first used.
void EndAtExit() {
  static_cast<void>(std::atexit([] { static_cast<void>(arrow::fs::EnsureS3Finalized()); }));
}

arrow::Result<Store> ConnectStore(const std::string& bucket) {
  ARROW_RETURN_NOT_OK(arrow::fs::EnsureS3Initialized());
  arrow::fs::S3Options options = IsYes(Variable({"AWS_NO_SIGN_REQUEST"}))
                                     ? arrow::fs::S3Options::Anonymous()
                                     : arrow::fs::S3Options::Defaults();
  options.connect_timeout = kConnectTimeout;
  options.request_timeout = kRequestTimeout;
  options.retry_strategy = arrow::fs::S3RetryStrategy::GetAwsStandardRetryStrategy(kAttempts);
  options.region = Variable({"AWS_REGION", "AWS_DEFAULT_REGION"});
  if (const std::string endpoint = Endpoint(); !endpoint.empty()) {
    const size_t scheme = endpoint.find("://");
    if (scheme != std::string::npos) options.scheme = endpoint.substr(0, scheme);
    options.endpoint_override =
        scheme == std::string::npos ? endpoint : endpoint.substr(scheme + 3);
    while (!options.endpoint_override.empty() && options.endpoint_override.back() == '/') {
      options.endpoint_override.pop_back();
    }
    if (options.region.empty()) options.region = "us-east-1";
  }
  if (options.region.empty()) {
    ARROW_ASSIGN_OR_RAISE(options.region, arrow::fs::ResolveS3BucketRegion(bucket));
  }
  ARROW_ASSIGN_OR_RAISE(Store store, arrow::fs::S3FileSystem::Make(options));
  return store;
}

arrow::Result<Store> MakeStore(const std::string& bucket) {
  arrow::Result<Store> store = ConnectStore(bucket);
  // Also after a failure, which may have used all of it, or less than a success.
  static const bool once = (EndAtExit(), true);
  if (store.ok()) {
    static const bool again = (EndAtExit(), true);
    static_cast<void>(again);
  }
  static_cast<void>(once);
  return store;
}
#else
arrow::Result<Store> MakeStore(const std::string&) {
  return arrow::Status::NotImplemented("this build of Apache Arrow has no support for S3");
}
#endif

// The path within the store of an address.
std::string PathOf(const std::string& address) {
  std::string path = address.substr(sizeof(kScheme) - 1);
  while (!path.empty() && path.back() == '/') path.pop_back();
  return path;
}

arrow::Result<Store> StoreOf(const std::string& address) {
  if (address.rfind(kScheme, 0) != 0) {
    return arrow::Status::Invalid("wanted an address that begins with s3://");
  }
  const std::string path = PathOf(address);
  const std::string bucket = path.substr(0, path.find('/'));
  if (bucket.empty()) return arrow::Status::Invalid("wanted s3://BUCKET/KEY, found no bucket");
  static std::mutex mu;
  // For ever: a thread may still read when the process ends.
  static auto& stores = *new std::map<std::string, Store>;
  const std::lock_guard<std::mutex> lock(mu);
  Store& store = stores[Endpoint() + ' ' + bucket];
  if (store == nullptr) {
    ARROW_ASSIGN_OR_RAISE(store, MakeStore(bucket));
  }
  return store;
}

int64_t Nanoseconds(arrow::fs::TimePoint time) {
  return time == arrow::fs::kNoTime ? 0 : time.time_since_epoch().count();
}

void Tell(const arrow::fs::FileInfo& info, CoxArrowFoundFunction found, void* context) {
  const std::string address = kScheme + info.path();
  CoxArrowStored stored = {};
  stored.address = address.c_str();
  stored.is_directory = info.type() == arrow::fs::FileType::Directory ? 1 : 0;
  stored.bytes = stored.is_directory != 0 ? 0 : info.size();
  stored.modified_ns = Nanoseconds(info.mtime());
  stored.tag = "";
  found(context, &stored);
}

// "2026-11-24T02:50:00Z"; 0 for another text.
int64_t ParseTime(const std::string& text) {
  std::tm parts = {};
  const char* const end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  return end == nullptr ? 0 : int64_t{timegm(&parts)} * 1'000'000'000;
}

}  // namespace

arrow::Status FindInStore(const std::string& address, CoxArrowFoundFunction found, void* context) {
  ARROW_ASSIGN_OR_RAISE(const Store store, StoreOf(address));
  ARROW_ASSIGN_OR_RAISE(const arrow::fs::FileInfo info, store->GetFileInfo(PathOf(address)));
  if (info.type() != arrow::fs::FileType::NotFound) Tell(info, found, context);
  return arrow::Status::OK();
}

arrow::Status ListInStore(const std::string& address, CoxArrowFoundFunction found, void* context) {
  ARROW_ASSIGN_OR_RAISE(const Store store, StoreOf(address));
  arrow::fs::FileSelector selector;
  selector.base_dir = PathOf(address);
  ARROW_ASSIGN_OR_RAISE(const auto infos, store->GetFileInfo(selector));
  for (const arrow::fs::FileInfo& info : infos) Tell(info, found, context);
  return arrow::Status::OK();
}

arrow::Result<std::unique_ptr<StoredFile>> StoredFile::Open(const std::string& address) {
  ARROW_ASSIGN_OR_RAISE(const Store store, StoreOf(address));
  auto file = std::make_unique<StoredFile>();
  file->address_ = address;
  ARROW_ASSIGN_OR_RAISE(file->file_, store->OpenInputFile(PathOf(address)));
  ARROW_ASSIGN_OR_RAISE(file->bytes_, file->file_->GetSize());
  ARROW_ASSIGN_OR_RAISE(const auto about, file->file_->ReadMetadata());
  if (about != nullptr) {
    file->tag_ = about->Get("ETag").ValueOr("");
    file->modified_ns_ = ParseTime(about->Get("Last-Modified").ValueOr(""));
  }
  return file;
}

CoxArrowStored StoredFile::about() const {
  CoxArrowStored stored = {};
  stored.address = address_.c_str();
  stored.bytes = bytes_;
  stored.modified_ns = modified_ns_;
  stored.tag = tag_.c_str();
  return stored;
}

namespace {

arrow::Status CheckBytes(int64_t offset, int64_t wanted, int64_t found) {
  if (found == wanted) return arrow::Status::OK();
  return arrow::Status::IOError("wanted ", wanted, " bytes from ", offset, " on, found ", found);
}

}  // namespace

arrow::Status StoredFile::Read(int64_t offset, int64_t bytes, void* out) const {
  ARROW_ASSIGN_OR_RAISE(const int64_t got, file_->ReadAt(offset, bytes, out));
  return CheckBytes(offset, bytes, got);
}

arrow::Future<std::shared_ptr<arrow::Buffer>> StoredFile::Start(int64_t offset,
                                                                int64_t bytes) const {
  return file_->ReadAsync(file_->io_context(), offset, bytes);
}

arrow::Status StoredRead::Take(void* out) const {
  ARROW_ASSIGN_OR_RAISE(const std::shared_ptr<arrow::Buffer> got, coming.result());
  ARROW_RETURN_NOT_OK(CheckBytes(offset, bytes, got->size()));
  if (bytes > 0) std::memcpy(out, got->data(), static_cast<size_t>(bytes));
  return arrow::Status::OK();
}

}  // namespace coxswain::data::plugin
