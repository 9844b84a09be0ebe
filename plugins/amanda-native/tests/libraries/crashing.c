/* Writes to memory that is not there: in a function that a macro names, or in `run`. */
#include "shell.h"

static int32_t run(void *self, const amanda_run_args *args, amanda_error *error) {
  (void)self, (void)args, (void)error;
  *nowhere = 1;
  return AMANDA_OK;
}
