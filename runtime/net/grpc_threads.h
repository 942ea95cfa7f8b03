// Keeps gRPC's callback threads.
//
// gRPC starts them for the first channel or server that uses callbacks and joins them when the last
// one is destroyed, on the thread that destroys it. Were that one of these very threads, it would
// join itself and crash. A stream drops its channel on such a thread, so something else has to be
// the last.
#pragma once

#include <memory>

#include "absl/synchronization/notification.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/client_callback.h"

namespace coxswain::net {

// Destroy it on no thread of gRPC, after the channels that it is to outlive.
class GrpcThreads : private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  GrpcThreads();
  ~GrpcThreads() override;

 private:
  void OnDone(const grpc::Status&) override { done_.Notify(); }

  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  absl::Notification done_;
};

}  // namespace coxswain::net
