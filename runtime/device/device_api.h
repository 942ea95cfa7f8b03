/* The table of functions by which a plugin gives devices: memory, streams, and kernels for ops.
 *
 * Only C types cross it, so that a plugin may be built with another compiler and another C++
 * library. A plugin exports one function, `coxswain_device_api`, and nothing else; it is looked for
 * at run time. runtime/device/plugin_device.h wraps the table for the rest of Coxswain.
 *
 * Contract of all functions:
 * - They return a code of enum CoxCode; unless it is COX_OK, `error` says more. They never throw,
 *   never exit and print nothing.
 * - Thread-safe, but one stream is used by one thread at a time.
 * - Whatever is given a stream only enqueues; what was enqueued on one stream runs in that order.
 *   Nothing but `synchronize` and the functions of devices, plain memory and ops' creation waits,
 *   unless the device's memory runs out.
 * - Shapes are checked by the caller: outputs are allocated, with the dtypes and shapes that the
 *   op's shape function gives for the inputs. An op reads and writes within them whatever the
 *   values are; a value that it cannot use (an index out of range) is a CoxFault, and the outputs
 *   hold anything then.
 * - An output shares no memory with an input, but that the output of an op which only passes a
 *   tensor on (Identity, Reshape, CheckGradient and their like; whole rows of a Slice) may be that
 *   very memory: then nothing is copied.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows with every change of this file. A plugin of another version is not used. */
#define COX_DEVICE_API_VERSION 3

/* The numbers of absl::StatusCode. */
enum CoxCode {
  COX_OK = 0,
  COX_INVALID_ARGUMENT = 3,
  COX_NOT_FOUND = 5,           /* the plugin has no kernel for this op and these types */
  COX_RESOURCE_EXHAUSTED = 8,  /* out of device or pinned memory */
  COX_FAILED_PRECONDITION = 9, /* no driver, no device, or one that is too old */
  COX_INTERNAL = 13,
  COX_DEVICE_LOST = 14 /* sticky: nothing on this device works in this process any more */
};

typedef struct CoxError {
  char message[512]; /* ends with a zero */
} CoxError;

/* The numbers of coxswain::DType. */
enum CoxDType {
  COX_F32 = 1,
  COX_F64 = 2,
  COX_I32 = 3,
  COX_I64 = 4,
  COX_BOOL = 5, /* one byte, 0 or 1 */
  COX_BF16 = 6
};

/* Dense and row-major. `data` is device memory, aligned to 256 bytes or a multiple of the size of
 * an element from such an address; it may be null when there are no elements. */
typedef struct CoxTensor {
  void* data;
  const int64_t* dims;
  int32_t rank;
  int32_t dtype;
} CoxTensor;

enum CoxAttrKind {
  COX_ATTR_INTEGER = 1, /* integer; bools (0 or 1) and dtypes too */
  COX_ATTR_REAL = 2,
  COX_ATTR_TEXT = 3, /* text, ends with a zero */
  COX_ATTR_LIST = 4  /* list, count; shapes too */
};
typedef struct CoxAttr {
  const char* name;
  int32_t kind;
  int32_t unused;
  int64_t integer;
  double real;
  const char* text;
  const int64_t* list;
  int64_t count;
} CoxAttr;

/* How products are computed. */
enum CoxCompute { COX_COMPUTE_F32 = 0, COX_COMPUTE_BF16 = 1, COX_COMPUTE_TF32 = 2 };

/* A node, as far as a plugin needs to know it to make its kernel. */
typedef struct CoxNode {
  const char* op;
  const CoxAttr* attrs;
  int32_t num_attrs;
  int32_t num_inputs;
  const int32_t* input_dtypes;
  const int32_t* output_dtypes;
  int32_t num_outputs;
  int32_t compute; /* CoxCompute */
} CoxNode;

/* What a kernel found wrong with its inputs, in device memory. The first of a run stays: a kernel
 * sets `kind` from 0 by an atomic exchange before it writes the rest. */
enum CoxFaultKind {
  COX_FAULT_NONE = 0,
  COX_FAULT_INDEX = 1,      /* input `input`, element `at`: `value` is not within [0, bound) */
  COX_FAULT_NOT_FINITE = 2, /* input `input`, element `at` is NaN (bound 0) or infinite (bound 1 or
                               -1, its sign); `value` is the id of its row, of ops with such ids */
  COX_FAULT_OTHER = 3       /* of a backend of the process's own; see DeviceRuntime::FaultStatus */
};
typedef struct CoxFault {
  int32_t kind;
  int32_t node; /* CoxRun.node of the kernel */
  int32_t input;
  int32_t unused;
  int64_t at;
  int64_t value;
  int64_t bound;
} CoxFault;

typedef struct CoxRun {
  const CoxTensor* inputs;
  const CoxTensor* outputs;
  int32_t num_inputs;
  int32_t num_outputs;
  CoxFault* fault; /* device memory, never null */
  int32_t node;    /* for the fault */
  uint32_t step;   /* these four: StepInfo of runtime/graph/kernel.h */
  uint64_t session;
  uint64_t closure;
  uint64_t seed;
} CoxRun;

typedef struct CoxDevice CoxDevice;
typedef struct CoxStream CoxStream;
typedef struct CoxEvent CoxEvent;
typedef struct CoxOp CoxOp;

typedef struct CoxDeviceInfo {
  char name[128]; /* for people: "NVIDIA H100 80GB HBM3" */
  int64_t memory_bytes;
  int64_t free_bytes;
} CoxDeviceInfo;

typedef struct CoxDeviceApi {
  uint32_t version; /* COX_DEVICE_API_VERSION */
  uint32_t size;    /* sizeof(CoxDeviceApi) */
  const char* name; /* "CUDA 13.0" */

  /* --- devices. Opening one device twice gives two handles on it. close: after all else of it. */
  int32_t (*device_count)(int32_t* count, CoxError* error);
  int32_t (*open_device)(int32_t index, CoxDevice** device, CoxError* error);
  void (*close_device)(CoxDevice* device);
  int32_t (*device_info)(CoxDevice* device, CoxDeviceInfo* info, CoxError* error);

  /* --- memory. Plain device memory, zeroed, for what lives long; and host memory that copies read
   * and write without a stop on the way. `free_*` accepts null. What is enqueued
   * may not begin before a later call of copy_to_*, fill_zero, notify, synchronize, record, wait or
   * flush on its stream: until then what it uses must not be freed. */
  int32_t (*allocate)(CoxDevice* device, size_t bytes, void** memory, CoxError* error);
  void (*free_memory)(CoxDevice* device, void* memory);
  int32_t (*allocate_pinned)(CoxDevice* device, size_t bytes, void** memory, CoxError* error);
  void (*free_pinned)(CoxDevice* device, void* memory);

  /* --- streams. destroy waits for what is enqueued. */
  int32_t (*create_stream)(CoxDevice* device, CoxStream** stream, CoxError* error);
  void (*destroy_stream)(CoxStream* stream);
  /* Memory that is there for whatever is enqueued on this stream from now on until its release is
   * enqueued, on the same stream. */
  int32_t (*allocate_on)(CoxStream* stream, size_t bytes, void** memory, CoxError* error);
  void (*release_on)(CoxStream* stream, void* memory);
  /* Host memory is pinned, and stays as it is until the copy was done. */
  int32_t (*copy_to_device)(CoxStream* stream, void* device_memory, const void* host, size_t bytes,
                            CoxError* error);
  int32_t (*copy_to_host)(CoxStream* stream, void* host, const void* device_memory, size_t bytes,
                          CoxError* error);
  /* Both of the stream's device. */
  int32_t (*copy_on_device)(CoxStream* stream, void* to, const void* from, size_t bytes,
                            CoxError* error);
  /* `from` or `to` is another device's. */
  int32_t (*copy_from_device)(CoxStream* stream, void* to, const void* from, size_t bytes,
                              CoxError* error);
  int32_t (*fill_zero)(CoxStream* stream, void* device_memory, size_t bytes, CoxError* error);
  /* Calls `reached(context, code)` once, on a thread of the plugin's, when everything enqueued
   * before is done; the code is COX_DEVICE_LOST when it was not. It must not call the plugin. When
   * `notify` itself fails, `reached` is not called. */
  int32_t (*notify)(CoxStream* stream, void (*reached)(void* context, int32_t code), void* context,
                    CoxError* error);
  int32_t (*synchronize)(CoxStream* stream, CoxError* error);
  /* What was put off, so that what is enqueued next might join it, begins. */
  int32_t (*flush)(CoxStream* stream, CoxError* error);

  /* --- events: what is enqueued on one stream waits for another's. */
  int32_t (*create_event)(CoxDevice* device, CoxEvent** event, CoxError* error);
  void (*destroy_event)(CoxEvent* event);
  int32_t (*record)(CoxStream* stream, CoxEvent* event, CoxError* error);
  int32_t (*wait)(CoxStream* stream, CoxEvent* event, CoxError* error);
  /* 1 if what was enqueued before the event was recorded is done, or can never be; else 0. */
  int32_t (*is_reached)(CoxEvent* event);

  /* --- ops. The node is read before `create_op` returns. One op serves all streams at once. */
  int32_t (*create_op)(CoxDevice* device, const CoxNode* node, CoxOp** op, CoxError* error);
  void (*destroy_op)(CoxOp* op);
  int32_t (*run_op)(CoxOp* op, CoxStream* stream, const CoxRun* run, CoxError* error);
} CoxDeviceApi;

/* What a plugin exports under this name. Good as long as the plugin is loaded. */
typedef const CoxDeviceApi* (*CoxDeviceApiFunction)(void);
#define COX_DEVICE_API_SYMBOL "coxswain_device_api"
const CoxDeviceApi* coxswain_device_api(void);

#ifdef __cplusplus
} /* extern "C" */
#endif
