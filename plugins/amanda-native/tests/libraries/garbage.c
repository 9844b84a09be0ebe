/* Returns results that no library may return; the option `result` says which. */
#include "shell.h"

static int64_t dims[2] = {2, 3};
static float numbers[6];

static int is_option(const executable *self, const char *name) {
  char text[64];
  snprintf(text, sizeof text, "\"result\": \"%s\"", name);
  return strstr(self->options, text) != NULL;
}

static int32_t hand_over(amanda_output *output, DLManagedTensorVersioned *tensor) {
  static int64_t strides[2] = {1, 2};
  memset(tensor, 0, sizeof *tensor);
  tensor->dl_tensor.data = numbers;
  tensor->dl_tensor.device.device_type = 1;
  tensor->dl_tensor.ndim = 2;
  tensor->dl_tensor.dtype = (DLDataType){kDLFloat, 32, 1};
  tensor->dl_tensor.shape = dims;
  tensor->dl_tensor.strides = strides;
  output->managed = tensor;
  return AMANDA_OK;
}

static int32_t run(void *made, const amanda_run_args *args, amanda_error *error) {
  static DLManagedTensorVersioned tensor;
  const amanda_host *host = args->host;
  DLDataType f32 = {kDLFloat, 32, 1}, strange = {99, 7, 1};
  int64_t negative[2] = {2, -3}, huge[2] = {(int64_t)1 << 40, (int64_t)1 << 40};
  int64_t other[2] = {7, 7};
  const executable *self = made;
  void *found = NULL;
  if (is_option(self, "nothing")) return AMANDA_OK;
  if (is_option(self, "negative")) found = host->allocate(host->context, 0, f32, 2, negative);
  if (is_option(self, "huge")) found = host->allocate(host->context, 0, f32, 2, huge);
  if (is_option(self, "rank")) found = host->allocate(host->context, 0, f32, -5, dims);
  if (is_option(self, "many axes")) found = host->allocate(host->context, 0, f32, 9999, dims);
  if (is_option(self, "no shape")) found = host->allocate(host->context, 0, f32, 2, NULL);
  if (is_option(self, "dtype")) found = host->allocate(host->context, 0, strange, 2, dims);
  if (is_option(self, "index")) found = host->allocate(host->context, 77, f32, 2, dims);
  if (is_option(self, "other")) found = host->allocate(host->context, 0, f32, 2, other);
  if (is_option(self, "twice") && host->allocate(host->context, 0, f32, 2, dims))
    found = host->allocate(host->context, 0, f32, 2, dims);
  if (is_option(self, "strides")) return hand_over(args->outputs, &tensor);
  snprintf(error->message, sizeof error->message, "no memory");
  return found ? AMANDA_OK : AMANDA_FAILED;
}
