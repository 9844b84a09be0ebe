/* Compiles and runs graphs from standard input on the backend in the other C file.
 *
 * Each is a decimal length, a newline, and as many bytes of JSON. All are fed the same
 * tensors. Prints how many were compiled, and how many of these ran; it ends with 0, or
 * by a sanitizer. */
#include "amanda_backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WEIGHTS = 4, ITEMS = 64, OUTPUTS = 1024 };

static int64_t dims[WEIGHTS][2] = {{8, 8}, {4, 16}, {2, 0}, {4, 0}};
static const int ranks[WEIGHTS] = {2, 2, 1, 1};
static const DLDataType dtypes[WEIGHTS] = {
    {kDLFloat, 32, 1}, {kDLInt, 32, 1}, {kDLInt, 64, 1}, {kDLBool, 8, 1}};
static int64_t memory[WEIGHTS][ITEMS];
static int32_t calls;
static void *given[OUTPUTS];

static DLTensor tensor_of(int i) {
  DLTensor t = {memory[i], {1, 0}, ranks[i], dtypes[i], dims[i], NULL, 0};
  return t;
}

static void release(DLManagedTensorVersioned *self) { free(self); }

static void *allocate(void *context, int32_t output, DLDataType dtype, int32_t ndim,
                      const int64_t *shape) {
  size_t size = (size_t)dtype.bits / 8;
  (void)context;
  if (output < 0 || output >= OUTPUTS || given[output]) abort();
  for (int d = 0; d < ndim; d++) {
    if (shape[d] < 0) abort();
    if (shape[d] && size > ((size_t)1 << 24) / (size_t)shape[d]) return NULL;
    size *= (size_t)shape[d];
  }
  return given[output] = malloc(size ? size : 1);
}

static int32_t cancelled(void *context) {
  (void)context;
  return ++calls > 500;
}

static void ignore(void *context, int32_t level, const char *text) {
  (void)context, (void)level, (void)text;
}

static int run_once(const amanda_backend *backend, void *executable, size_t inputs,
                    size_t outputs, amanda_error *error) {
  const amanda_host host = {sizeof host, 1, NULL, allocate, ignore, cancelled};
  DLTensor fed[16];
  amanda_output results[16];
  amanda_run_args args = {sizeof args, &host, fed, inputs, results, outputs, NULL};
  memset(results, 0, sizeof results);
  memset(given, 0, sizeof given);
  for (int i = 0; i < 16; i++) fed[i] = tensor_of(i % WEIGHTS);
  calls = 0;
  const int32_t status = backend->run(executable, &args, error);
  for (int i = 0; i < OUTPUTS; i++) free(given[i]);
  return status == AMANDA_OK;
}

static void try_graph(const amanda_backend *backend, const char *text, size_t length,
                      long *compiled, long *ran) {
  DLManagedTensorVersioned *weights[WEIGHTS];
  amanda_error error = {.size = sizeof error};
  amanda_compile_args args = {sizeof args, NULL, "cpu", text, length,
                              "{}", 2, weights, WEIGHTS};
  void *executable = NULL;
  int has_run = 0;
  backend->takes(text, length, &error);
  for (int i = 0; i < WEIGHTS; i++) {
    weights[i] = calloc(1, sizeof **weights);
    if (!weights[i]) abort();
    weights[i]->deleter = release;
    weights[i]->dl_tensor = tensor_of(i);
  }
  if (backend->compile(&args, &executable, &error) != AMANDA_OK) {
    for (int i = 0; i < WEIGHTS; i++) release(weights[i]);
    return;
  }
  ++*compiled;
  for (size_t inputs = 0; inputs < 5 && !has_run; inputs++)
    for (size_t outputs = 0; outputs < 3 && !has_run; outputs++)
      has_run = run_once(backend, executable, inputs, outputs, &error);
  *ran += has_run;
  backend->free_executable(executable);
}

int main(void) {
  const amanda_backend *backend = amanda_backend_open(AMANDA_BACKEND_VERSION);
  long length, number = 0, compiled = 0, ran = 0;
  for (int i = 0; i < WEIGHTS; i++) {
    char *bytes = (char *)memory[i];
    for (int k = 0; k < 64; k++) {
      if (i == 0) ((float *)memory[i])[k] = (float)(k - 20) / 8;
      else if (i == 1) ((int32_t *)memory[i])[k] = k % 7 - 2;
      else if (i == 2) memory[i][k] = k % 5;
      else bytes[k] = (char)(k & 1);
    }
  }
  while (scanf("%ld", &length) == 1 && getchar() == '\n') {
    char *text = malloc((size_t)length + 1);
    if (!text || fread(text, 1, (size_t)length, stdin) != (size_t)length) return 2;
    number++;
    try_graph(backend, text, (size_t)length, &compiled, &ran);
    free(text);
  }
  printf("%ld %ld %ld\n", number, compiled, ran);
  return 0;
}
