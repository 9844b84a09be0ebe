/* What a library needs beside `run`: it takes every op and keeps nothing of a graph. */
#include "amanda_backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int *volatile nowhere;

#ifndef TABLE_VERSION
#define TABLE_VERSION AMANDA_BACKEND_VERSION
#endif

typedef struct {
  char options[256];
  DLManagedTensorVersioned *weights[8];
  size_t weight_count;
} executable;

static int32_t run(void *self, const amanda_run_args *args, amanda_error *error);

static int32_t takes(const char *op, size_t length, amanda_error *error) {
  (void)op, (void)length, (void)error, (void)nowhere;
#ifdef CRASH_IN_TAKES
  *nowhere = 1;
#endif
  return 1;
}

static int32_t compile(const amanda_compile_args *args, void **made, amanda_error *error) {
  executable *self = calloc(1, sizeof *self);
#ifdef CRASH_IN_COMPILE
  *nowhere = 1;
#endif
  if (!self || args->weight_count > 8) {
    snprintf(error->message, sizeof error->message, "too many weights");
    free(self);
    return AMANDA_FAILED;
  }
  snprintf(self->options, sizeof self->options, "%.*s", (int)args->options_length,
           args->options);
  for (size_t i = 0; i < args->weight_count; i++) self->weights[i] = args->weights[i];
  self->weight_count = args->weight_count;
  *made = self;
  return AMANDA_OK;
}

static void free_executable(void *made) {
  executable *self = made;
  for (size_t i = 0; i < self->weight_count; i++)
    self->weights[i]->deleter(self->weights[i]);
  free(self);
}

static const char *const DEVICES[] = {"cpu", "slow", NULL};

static const amanda_backend BACKEND = {
    sizeof(amanda_backend), TABLE_VERSION, "shell", "shell 1", "amanda/std/1", DEVICES,
    takes, compile, run, free_executable};

const amanda_backend *amanda_backend_open(uint32_t version) {
  (void)version;
#ifdef CRASH_IN_OPEN
  *nowhere = 1;
#endif
  return &BACKEND;
}
