#include "runtime/net/grpc_threads.h"

#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"

namespace coxswain::net {

// A channel takes hold of the threads with its first callback call. Without credentials the channel
// is one on which every call fails at once, without a network.
GrpcThreads::GrpcThreads() : channel_(grpc::CreateChannel("none", nullptr)) {
  grpc::GenericStub(channel_).PrepareBidiStreamingCall(&context_, "/none", {}, this);
  StartCall();
}

GrpcThreads::~GrpcThreads() { done_.WaitForNotification(); }

}  // namespace coxswain::net
