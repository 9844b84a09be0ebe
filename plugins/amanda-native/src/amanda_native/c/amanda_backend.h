/* The C interface of native backends of Amanda, version 1. C99, or C++11.
 *
 * A shared library that exports `amanda_backend_open` is a backend:
 *
 *     const amanda_backend *amanda_backend_open(uint32_t version);
 *
 * Amanda calls it once, before anything else. `version` is the AMANDA_BACKEND_VERSION of
 * the caller. The result stays valid as long as the library is loaded; NULL means that
 * the library cannot serve that version. Amanda refuses a table of a newer version than
 * its own.
 *
 * Sizes. Every struct that may grow begins with `size`, its size in bytes where it was
 * made. Read a field only if it lies within `size`. Fields are added at the end; the
 * version changes only if an old library or an old caller would misread something.
 *
 * Graphs are JSON text, UTF-8, described by `graph.schema.json` beside this header.
 * Weights are not in the text: a tensor in it is {"dtype", "shape", "weight": i}, and
 * its elements are `weights[i]` of `compile`.
 *
 * Memory. Tensors are DLPack's structs. All tensors that Amanda passes are in row-major
 * order without gaps (`strides` is NULL), on the CPU, unless the library asks for
 * another device.
 *   - inputs of `run` are borrowed until it returns, and are not written to;
 *   - outputs are written to memory of the caller (see `amanda_output`), or handed over
 *     as a DLManagedTensorVersioned, whose deleter the caller calls once;
 *   - weights belong to the library from a successful `compile` on: it calls the deleter
 *     of each one once, at the latest in `free_executable`. If `compile` fails, they
 *     stay with the caller.
 *
 * Threads. Every function may be called from any thread, and several at once, `run` of
 * one executable too; `free_executable` is called once, with no `run` in progress.
 * Python's lock is released during every call. Callbacks of `amanda_host` may be called
 * from the thread that runs the call, until it returns.
 *
 * Errors. A function that fails returns AMANDA_FAILED and fills `amanda_error`, whose
 * texts are UTF-8 and end with a zero. It never ends the process, and throws nothing. */
#ifndef AMANDA_BACKEND_H
#define AMANDA_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AMANDA_BACKEND_VERSION 1u

#if defined(_WIN32)
#define AMANDA_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define AMANDA_EXPORT __attribute__((visibility("default")))
#else
#define AMANDA_EXPORT
#endif

/* -- The structs of DLPack 1.0, unless dlpack.h was included before ---------------- */

#ifndef DLPACK_DLPACK_H_

typedef struct {
  uint32_t major;
  uint32_t minor;
} DLPackVersion;

typedef struct {
  int32_t device_type; /* 1: CPU, 2: CUDA, ...; an enum in dlpack.h */
  int32_t device_id;
} DLDevice;

enum { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4, kDLComplex = 5, kDLBool = 6 };

typedef struct {
  uint8_t code; /* kDLInt, ... */
  uint8_t bits;
  uint16_t lanes; /* 1 */
} DLDataType;

typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; NULL: row-major without gaps */
  uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensorVersioned {
  DLPackVersion version;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags; /* bit 0: read-only */
  DLTensor dl_tensor;
} DLManagedTensorVersioned;

#endif

/* -- Answers ------------------------------------------------------------------------ */

enum { AMANDA_OK = 0, AMANDA_FAILED = 1, AMANDA_CANCELLED = 2 };

typedef struct amanda_error {
  size_t size;
  char message[512];  /* what is wrong */
  char where[256];    /* the op or argument */
  char expected[256]; /* what would be right; may be empty */
  char got[256];      /* what was found; may be empty */
} amanda_error;

/* -- What the caller offers --------------------------------------------------------- */

enum { AMANDA_LOG_DEBUG = 10, AMANDA_LOG_INFO = 20, AMANDA_LOG_WARNING = 30,
       AMANDA_LOG_ERROR = 40 };

typedef struct amanda_host {
  size_t size;
  uint32_t version;
  void *context; /* the first argument of every callback */
  /* In `compile`, `allocate` and `cancelled` are NULL. */
  /* Memory for the result `output` of `run`, which stays with the caller. NULL: refused;
   * `run` then returns AMANDA_FAILED. Once for each output. */
  void *(*allocate)(void *context, int32_t output, DLDataType dtype, int32_t ndim,
                    const int64_t *shape);
  void (*log)(void *context, int32_t level, const char *text);
  /* Whether to stop: `run` then returns AMANDA_CANCELLED. Call it between ops. */
  int32_t (*cancelled)(void *context);
} amanda_host;

/* -- Arguments ---------------------------------------------------------------------- */

typedef struct amanda_compile_args {
  size_t size;
  const amanda_host *host;
  const char *device; /* one of `devices` */
  const char *graph;  /* JSON */
  size_t graph_length;
  const char *options; /* JSON: a map of the options of the user */
  size_t options_length;
  DLManagedTensorVersioned *const *weights;
  size_t weight_count;
} amanda_compile_args;

typedef struct amanda_output {
  /* With `data`: memory for a result of this dtype and shape, to be written to. Without:
   * the caller does not know the shape; get memory from `host->allocate`, or hand over
   * memory of the library in `managed`. */
  DLTensor tensor;
  DLManagedTensorVersioned *managed;
} amanda_output;

typedef struct amanda_run_args {
  size_t size;
  const amanda_host *host;
  const DLTensor *inputs; /* in the order of the graph's inputs */
  size_t input_count;
  amanda_output *outputs;
  size_t output_count;
  void *stream; /* of the device; NULL on the CPU */
} amanda_run_args;

/* -- The backend -------------------------------------------------------------------- */

typedef struct amanda_backend {
  size_t size;
  uint32_t version;           /* AMANDA_BACKEND_VERSION */
  const char *name;           /* as users read it */
  const char *library;        /* name and version of what computes; may be NULL */
  const char *graph_namespace;      /* the namespace of graphs: "amanda/std/1" */
  const char *const *devices; /* ends with NULL; the default one first */

  /* Whether an op is supported: 1, or 0 with the reason in `error->message`. `op` is the
   * JSON of a graph with that op alone; values it reads are inputs of the graph, or
   * constants. Types may be missing: a graph is not always typed when this is asked. */
  int32_t (*takes)(const char *op, size_t length, amanda_error *error);

  int32_t (*compile)(const amanda_compile_args *args, void **executable,
                     amanda_error *error);
  int32_t (*run)(void *executable, const amanda_run_args *args, amanda_error *error);
  void (*free_executable)(void *executable);
} amanda_backend;

AMANDA_EXPORT const amanda_backend *amanda_backend_open(uint32_t version);

#ifdef __cplusplus
}
#endif
#endif
