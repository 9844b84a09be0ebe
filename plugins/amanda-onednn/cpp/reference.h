/* The kernels and shape functions of the reference backend, for the C++ of this folder.
 * The structs are those of `reference_backend.c`; `reference.c` compares their layouts. */
#ifndef AMANDA_ONEDNN_REFERENCE_H
#define AMANDA_ONEDNN_REFERENCE_H

#include "amanda_backend.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RANKS = 8, ITEMS = 2 * RANKS };
enum { F32, I32, I64, BOOLEAN, TYPE_COUNT, OTHER = TYPE_COUNT, UNKNOWN };
enum { L_AXES, L_SIZES, L_STARTS, L_STOPS, L_STEPS, L_PADS, L_DILATIONS, L_COUNT };

typedef struct {
  int type, rank;
  int64_t shape[RANKS];
  void *data;
} ref_tensor;

typedef struct {
  int count; /* -1: not given */
  int64_t item[ITEMS];
} ref_list;

typedef struct {
  ref_list list[L_COUNT];
  int flag, count_pads, type, channels_last, kernel_layout, padding_mode, part;
  int64_t groups;
} ref_attributes;

/* The number of an op of the reference backend, or -1. */
int ref_find(const char *name, size_t length);
/* Whether its input is read as a list of integers, which becomes an attribute. */
int ref_is_list(int op, int input);
/* The attributes in a map of JSON; what is wrong, or NULL. */
const char *ref_attributes_read(int op, const char *text, size_t length, int results,
                                ref_attributes *to);
/* Whether an op may have these inputs, -1 where there is none; what is wrong, or NULL. */
const char *ref_check_inputs(int op, const int *inputs, int count);
/* Whether the reference backend takes the op in a graph's JSON. */
int32_t ref_takes(const char *graph, size_t length, amanda_error *error);
/* The type and shape of a result, and complete attributes for the kernel. `inputs` are
 * those of the op, NULL where there is none; `x`, of 3 more elements than those, becomes
 * the tensors for the kernel. NULL, or what is wrong. */
const char *ref_shape(int op, const ref_tensor *const *inputs, int count, int part,
                      ref_attributes *attrs, ref_tensor *y, const ref_tensor **x,
                      int *x_count);
const char *ref_kernel(int op, ref_tensor *y, const ref_tensor *const *x,
                       const ref_attributes *attrs);
size_t ref_item_size(int type);
int ref_type_of_dtype(DLDataType dtype);
DLDataType ref_dtype_of_type(int type);
int ref_read_tensor(ref_tensor *to, const DLTensor *from);

#ifdef __cplusplus
}
#endif
#endif
