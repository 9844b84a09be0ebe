/* Shows what it was called with; the option `show` says what. Its result is int64[k],
 * or float32[6] in memory of the library. */
#define _POSIX_C_SOURCE 200809L
#include "shell.h"

#include <time.h>

static volatile int inside, together, released;
static int64_t six = 6;
static float numbers[6] = {1, 2, 3, 4, 5, 6};

static void pause_a_little(void) {
  const struct timespec time = {0, 1000000};
  nanosleep(&time, NULL);
}

static int is_option(const executable *self, const char *name) {
  char text[64];
  snprintf(text, sizeof text, "\"show\": \"%s\"", name);
  return strstr(self->options, text) != NULL;
}

static void release(DLManagedTensorVersioned *tensor) {
  released++;
  free(tensor);
}

static int32_t hand_over(amanda_output *output) {
  DLManagedTensorVersioned *tensor = calloc(1, sizeof *tensor);
  if (!tensor) return AMANDA_FAILED;
  tensor->deleter = release;
  tensor->dl_tensor.data = numbers;
  tensor->dl_tensor.device.device_type = 1;
  tensor->dl_tensor.ndim = 1;
  tensor->dl_tensor.dtype = (DLDataType){kDLFloat, 32, 1};
  tensor->dl_tensor.shape = &six;
  output->managed = tensor;
  return AMANDA_OK;
}

static int64_t address(const DLTensor *tensor) { return (int64_t)(intptr_t)tensor->data; }

static int32_t run(void *made, const amanda_run_args *args, amanda_error *error) {
  const executable *self = made;
  const amanda_host *host = args->host;
  const DLDataType i64 = {kDLInt, 64, 1};
  int64_t shape[1] = {3};
  if (is_option(self, "memory")) return hand_over(args->outputs);
  if (is_option(self, "log")) host->log(host->context, AMANDA_LOG_WARNING, "hot \xc3\xa9");
  if (is_option(self, "error")) {
    snprintf(error->message, sizeof error->message, "it is too hot");
    snprintf(error->where, sizeof error->where, "op 0, identity");
    snprintf(error->expected, sizeof error->expected, "90 degrees");
    snprintf(error->got, sizeof error->got, "120 degrees");
    return AMANDA_FAILED;
  }
  if (is_option(self, "spin")) {
    for (int i = 0; i < 20000; i++, pause_a_little())
      if (host->cancelled(host->context)) return AMANDA_CANCELLED;
    return AMANDA_FAILED;
  }
  if (is_option(self, "threads")) { /* until two threads are here, at most 20 seconds */
    __sync_fetch_and_add(&inside, 1);
    for (int i = 0; i < 20000 && !together; i++, pause_a_little())
      if (inside >= 2) together = 1;
    __sync_fetch_and_sub(&inside, 1);
  }
  int64_t *to = args->outputs[0].tensor.data;
  if (!to) to = host->allocate(host->context, 0, i64, 1, shape);
  if (!to) return AMANDA_FAILED;
  to[0] = is_option(self, "threads") ? together : address(&args->inputs[0]);
  to[1] = (int64_t)(intptr_t)to;
  to[2] = is_option(self, "released") ? released
          : self->weight_count        ? address(&self->weights[0]->dl_tensor)
                                      : 0;
  return AMANDA_OK;
}
