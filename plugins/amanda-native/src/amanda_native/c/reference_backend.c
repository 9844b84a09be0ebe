/* A backend of amanda/std/1 in one C file: 71 primitive ops on float32, int32, int64 and
 * bool, without other libraries. It is the example to copy, not a fast one.
 *
 *     cc -std=c99 -O2 -fPIC -shared -o libreference.so reference_backend.c -lm
 *     amanda run model.onnx --backend native:./libreference.so
 *
 * First the kernels, which allocate nothing: `amanda export --c` copies the parts that a
 * model needs into its file. Then the shapes of results, JSON, graphs, and the interface.
 * Arithmetic of integers is unsigned, since that of signed ones may not overflow in C. */
#include "amanda_backend.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* part tensor: */
enum { MAX_RANK = 8, MAX_ITEMS = 2 * MAX_RANK };
enum { FLOAT32, INT32, INT64, BOOL, TYPES };
enum { AXES, SIZES, STARTS, STOPS, STEPS, PADS, DILATIONS, LISTS };

typedef struct {
  int type, rank;
  int64_t shape[MAX_RANK];
  void *data; /* row-major */
} tensor;

typedef struct {
  int count; /* -1: not given */
  int64_t item[MAX_ITEMS];
} list;

typedef struct {
  list list[LISTS]; /* shape arguments and the settings of windows */
  int flag;         /* keepdims, copy_zero, last, ceil */
  int count_pads, type, channels_last, kernel_layout, padding_mode;
  int part;        /* of a split */
  int64_t groups;  /* of a convolution; the number of inputs of concat and stack */
} attributes;

/* A kernel computes `y`, whose shape is right already; it returns NULL or what is wrong. */
#define KERNEL(name) \
  static const char *k_##name(tensor *y, const tensor *const *x, const attributes *a)

/* part product: tensor */
static int64_t dims_product(const int64_t *dims, int count) {
  int64_t n = 1;
  for (int d = 0; d < count; d++) n *= dims[d];
  return n;
}

/* part item_size: tensor */
static size_t item_size(int type) { return type == INT64 ? 8 : type == BOOL ? 1 : 4; }

/* part row_strides: tensor */
static void row_strides(int64_t *stride, const tensor *t) {
  int64_t step = 1;
  for (int d = t->rank - 1; d >= 0; step *= t->shape[d--]) stride[d] = step;
}

/* part broadcast_strides: row_strides */
/* Strides of `t` as if broadcast to `rank` axes. */
static void broadcast_strides(int64_t *stride, const tensor *t, int rank) {
  int64_t own[MAX_RANK];
  row_strides(own, t);
  for (int d = 0; d < rank; d++) {
    int from = d - (rank - t->rank);
    stride[d] = from < 0 || t->shape[from] == 1 ? 0 : own[from];
  }
}

/* part walk: tensor */
enum { OPERANDS = 4 };

/* The rows of several operands at once; axes without gaps between them are joined. */
typedef struct {
  int count, rank;
  int64_t inner, shape[MAX_RANK], index[MAX_RANK];
  int64_t stride[OPERANDS][MAX_RANK], at[OPERANDS], step[OPERANDS];
} walk;

static int walk_begin(walk *w, int count, int64_t stride[][MAX_RANK], const int64_t *shape,
                      int rank) {
  memset(w, 0, sizeof *w);
  w->count = count;
  w->inner = 1;
  for (int d = 0; d < rank; d++) {
    int last = w->rank - 1, joins = last >= 0;
    if (shape[d] == 0) return 0;
    for (int k = 0; k < count && joins; k++)
      joins = w->stride[k][last] == stride[k][d] * shape[d];
    if (!joins) w->shape[last = w->rank++] = 1;
    w->shape[last] *= shape[d];
    for (int k = 0; k < count; k++) w->stride[k][last] = stride[k][d];
  }
  if (w->rank) {
    w->inner = w->shape[--w->rank];
    for (int k = 0; k < count; k++) w->step[k] = w->stride[k][w->rank];
  }
  return 1;
}

static int walk_next(walk *w) {
  for (int d = w->rank - 1; d >= 0; d--) {
    for (int k = 0; k < w->count; k++) w->at[k] += w->stride[k][d];
    if (++w->index[d] < w->shape[d]) return 1;
    for (int k = 0; k < w->count; k++) w->at[k] -= w->stride[k][d] * w->shape[d];
    w->index[d] = 0;
  }
  return 0;
}

/* part copy: walk item_size row_strides */
#define COPY_AS(T)                                                      \
  for (int64_t i = 0; i < w.inner; i++)                                 \
    ((T *)to)[w.at[0] + i * w.step[0]] = ((const T *)from)[w.at[1] + i * w.step[1]]

static void copy_elements(int type, void *to, int64_t *to_stride, const void *from,
                          int64_t *from_stride, const int64_t *shape, int rank) {
  int64_t stride[2][MAX_RANK] = {{0}};
  const size_t size = item_size(type);
  walk w;
  memcpy(stride[0], to_stride, sizeof(int64_t) * (size_t)rank);
  memcpy(stride[1], from_stride, sizeof(int64_t) * (size_t)rank);
  if (!walk_begin(&w, 2, stride, shape, rank)) return;
  do {
    if (w.step[0] == 1 && w.step[1] == 1)
      memcpy((char *)to + w.at[0] * (int64_t)size,
             (const char *)from + w.at[1] * (int64_t)size, size * (size_t)w.inner);
    else if (size == 8)
      COPY_AS(uint64_t);
    else if (size == 4)
      COPY_AS(uint32_t);
    else
      COPY_AS(uint8_t);
  } while (walk_next(&w));
}

/* part element: item_size */
static char *element(const tensor *t, int64_t i) {
  return (char *)t->data + i * (int64_t)item_size(t->type);
}

/* part unary: product */
#define UNARY(T, R, E)                                       \
  do {                                                       \
    const T *p = x[0]->data;                                 \
    R *r = y->data;                                          \
    const int64_t n = dims_product(y->shape, y->rank);       \
    (void)a;                                                 \
    for (int64_t i = 0; i < n; i++) {                        \
      const T u = p[i];                                      \
      r[i] = (R)(E);                                         \
    }                                                        \
  } while (0)
#define FLOAT_UNARY(name, E) \
  KERNEL(name) {             \
    UNARY(float, float, E);  \
    return NULL;             \
  }
/* F for floats; I for integers, which are u as they are and n as unsigned ones. */
#define NUMBER_UNARY(name, F, I)                                          \
  KERNEL(name) {                                                          \
    if (y->type == FLOAT32) UNARY(float, float, F);                       \
    else if (y->type == INT32) UNARY(int32_t, int32_t, I);                \
    else UNARY(int64_t, int64_t, I);                                      \
    return NULL;                                                          \
  }
/* part exp: unary */
FLOAT_UNARY(exp, expf(u))
/* part log: unary */
FLOAT_UNARY(log, logf(u))
/* part sqrt: unary */
FLOAT_UNARY(sqrt, sqrtf(u))
/* part rsqrt: unary */
FLOAT_UNARY(rsqrt, 1.0f / sqrtf(u))
/* part reciprocal: unary */
FLOAT_UNARY(reciprocal, 1.0f / u)
/* part sin: unary */
FLOAT_UNARY(sin, sinf(u))
/* part cos: unary */
FLOAT_UNARY(cos, cosf(u))
/* part tanh: unary */
FLOAT_UNARY(tanh, tanhf(u))
/* part sigmoid: unary */
FLOAT_UNARY(sigmoid, 1.0f / (1.0f + expf(-u)))
/* part erf: unary */
FLOAT_UNARY(erf, erff(u))
/* part expm1: unary */
FLOAT_UNARY(expm1, expm1f(u))
/* part log1p: unary */
FLOAT_UNARY(log1p, log1pf(u))
/* part floor: unary */
FLOAT_UNARY(floor, floorf(u))
/* part ceil: unary */
FLOAT_UNARY(ceil, ceilf(u))
/* part round: unary */
FLOAT_UNARY(round, nearbyintf(u))
/* part sign: unary */
NUMBER_UNARY(sign, u > 0 ? 1.0f : u < 0 ? -1.0f : u, u > 0 ? 1 : u < 0 ? -1 : 0)
/* part abs: unary */
NUMBER_UNARY(abs, fabsf(u), u < 0 ? 0 - (uint64_t)u : (uint64_t)u)
/* part negative: unary */
NUMBER_UNARY(negative, -u, 0 - (uint64_t)u)
/* part square: unary */
NUMBER_UNARY(square, u *u, (uint64_t)u *(uint64_t)u)
/* part logical_not: unary */
KERNEL(logical_not) {
  UNARY(uint8_t, uint8_t, !u);
  return NULL;
}
/* part isnan: unary */
KERNEL(isnan) {
  UNARY(float, uint8_t, u != u);
  return NULL;
}

/* part astype: unary */
#define SATURATE(T, LOW, HIGH) u >= HIGH || u != u ? LOW : u < (float)LOW ? LOW : (T)u
#define CASTS_FROM(T)                                     \
  do {                                                    \
    if (y->type == FLOAT32) UNARY(T, float, u);           \
    else if (y->type == INT32) UNARY(T, int32_t, u);      \
    else if (y->type == INT64) UNARY(T, int64_t, u);      \
    else UNARY(T, uint8_t, u != 0);                       \
  } while (0)
KERNEL(astype) { /* numbers out of range become the lowest one, as x86 has it */
  if (x[0]->type == FLOAT32 && y->type == INT32)
    UNARY(float, int32_t, SATURATE(int32_t, INT32_MIN, 2147483648.0f));
  else if (x[0]->type == FLOAT32 && y->type == INT64)
    UNARY(float, int64_t, SATURATE(int64_t, INT64_MIN, 9223372036854775808.0f));
  else if (x[0]->type == FLOAT32)
    CASTS_FROM(float);
  else if (x[0]->type == INT32)
    CASTS_FROM(int32_t);
  else if (x[0]->type == INT64)
    CASTS_FROM(int64_t);
  else
    CASTS_FROM(uint8_t);
  return NULL;
}

/* part binary: walk broadcast_strides */
#define BINARY_LOOP(T, R, I, J, E)             \
  for (int64_t i = 0; i < w.inner; i++) {      \
    const T u = p[I], v = q[J];                \
    r[i] = (R)(E);                             \
  }
#define BINARY(T, R, E)                                                       \
  do {                                                                        \
    int64_t stride[3][MAX_RANK];                                              \
    walk w;                                                                   \
    (void)a;                                                                  \
    row_strides(stride[0], y);                                                \
    broadcast_strides(stride[1], x[0], y->rank);                              \
    broadcast_strides(stride[2], x[1], y->rank);                              \
    if (!walk_begin(&w, 3, stride, y->shape, y->rank)) break;                 \
    do {                                                                      \
      const T *p = (const T *)x[0]->data + w.at[1];                           \
      const T *q = (const T *)x[1]->data + w.at[2];                           \
      R *r = (R *)y->data + w.at[0];                                          \
      if (w.step[1] == 1 && w.step[2] == 1)                                   \
        BINARY_LOOP(T, R, i, i, E)                                            \
      else                                                                    \
        BINARY_LOOP(T, R, i * w.step[1], i * w.step[2], E)                    \
    } while (walk_next(&w));                                                  \
  } while (0)
#define NUMBER_BINARY(name, F, I)                             \
  KERNEL(name) {                                              \
    if (y->type == FLOAT32) BINARY(float, float, F);          \
    else if (y->type == INT32) BINARY(int32_t, int32_t, I);   \
    else BINARY(int64_t, int64_t, I);                         \
    return NULL;                                              \
  }
#define COMPARISON(name, E)                                        \
  KERNEL(name) {                                                   \
    if (x[0]->type == FLOAT32) BINARY(float, uint8_t, E);          \
    else if (x[0]->type == INT32) BINARY(int32_t, uint8_t, E);     \
    else if (x[0]->type == INT64) BINARY(int64_t, uint8_t, E);     \
    else BINARY(uint8_t, uint8_t, E);                              \
    return NULL;                                                   \
  }
/* part add: binary */
NUMBER_BINARY(add, u + v, (uint64_t)u + (uint64_t)v)
/* part subtract: binary */
NUMBER_BINARY(subtract, u - v, (uint64_t)u - (uint64_t)v)
/* part multiply: binary */
NUMBER_BINARY(multiply, u *v, (uint64_t)u *(uint64_t)v)
/* part divide: binary */
NUMBER_BINARY(divide, u / v, v == 0 ? 0 : v == -1 ? (int64_t)(0 - (uint64_t)u) : u / v)
/* part integers: binary */
/* Rounded down, and the remainder with the sign of v; 0 where v is 0. */
#define INTEGER_BINARY(name, E)                        \
  KERNEL(name) {                                       \
    if (y->type == INT32) BINARY(int32_t, int32_t, E); \
    else BINARY(int64_t, int64_t, E);                  \
    return NULL;                                       \
  }
/* part floor_divide: integers */
INTEGER_BINARY(floor_divide,
               v == 0 ? 0 : v == -1 ? (int64_t)(0 - (uint64_t)u)
                                    : u / v - (u % v != 0 && (u < 0) != (v < 0)))
/* part remainder: integers */
INTEGER_BINARY(remainder, v == 0 || v == -1
                              ? 0
                              : u % v + (u % v != 0 && (u < 0) != (v < 0) ? v : 0))
/* part maximum: binary */
NUMBER_BINARY(maximum, u > v || u != u ? u : v, u > v ? u : v)
/* part minimum: binary */
NUMBER_BINARY(minimum, u < v || u != u ? u : v, u < v ? u : v)
/* part pow: binary */
KERNEL(pow) {
  BINARY(float, float, powf(u, v));
  return NULL;
}
/* part equal: binary */
COMPARISON(equal, u == v)
/* part not_equal: binary */
COMPARISON(not_equal, u != v)
/* part less: binary */
COMPARISON(less, u < v)
/* part less_equal: binary */
COMPARISON(less_equal, u <= v)
/* part greater: binary */
COMPARISON(greater, u > v)
/* part greater_equal: binary */
COMPARISON(greater_equal, u >= v)
/* part logical_and: binary */
COMPARISON(logical_and, u != 0 && v != 0)
/* part logical_or: binary */
COMPARISON(logical_or, u != 0 || v != 0)

/* part same: product item_size */
KERNEL(same) { /* reshape, squeeze, expand_dims, identity */
  (void)a;
  memcpy(y->data, x[0]->data,
         (size_t)dims_product(y->shape, y->rank) * item_size(y->type));
  return NULL;
}
/* part clip: maximum minimum same */
KERNEL(clip) {
  const tensor *low[] = {x[1], x[0]}, *high[] = {x[2], y};
  if (x[1]) k_maximum(y, low, a);
  else k_same(y, x, a);
  if (x[2]) k_minimum(y, high, a);
  return NULL;
}
/* part where: walk broadcast_strides item_size */
#define WHERE_AS(T)                                                               \
  for (int64_t i = 0; i < w.inner; i++)                                           \
    ((T *)y->data)[w.at[0] + i] =                                                 \
        ((const uint8_t *)x[0]->data)[w.at[1] + i * w.step[1]]                    \
            ? ((const T *)x[1]->data)[w.at[2] + i * w.step[2]]                    \
            : ((const T *)x[2]->data)[w.at[3] + i * w.step[3]]
KERNEL(where) {
  int64_t stride[4][MAX_RANK];
  walk w;
  (void)a;
  row_strides(stride[0], y);
  for (int k = 0; k < 3; k++) broadcast_strides(stride[k + 1], x[k], y->rank);
  if (!walk_begin(&w, 4, stride, y->shape, y->rank)) return NULL;
  do {
    if (item_size(y->type) == 8)
      WHERE_AS(uint64_t);
    else if (item_size(y->type) == 4)
      WHERE_AS(uint32_t);
    else
      WHERE_AS(uint8_t);
  } while (walk_next(&w));
  return NULL;
}

/* part transpose: copy */
KERNEL(transpose) {
  int64_t from[MAX_RANK], own[MAX_RANK], to[MAX_RANK];
  row_strides(own, x[0]);
  row_strides(to, y);
  for (int d = 0; d < y->rank; d++) from[d] = own[a->list[AXES].item[d]];
  copy_elements(y->type, y->data, to, x[0]->data, from, y->shape, y->rank);
  return NULL;
}
/* part broadcast_to: copy broadcast_strides */
KERNEL(broadcast_to) {
  int64_t from[MAX_RANK], to[MAX_RANK];
  (void)a;
  broadcast_strides(from, x[0], y->rank);
  row_strides(to, y);
  copy_elements(y->type, y->data, to, x[0]->data, from, y->shape, y->rank);
  return NULL;
}
/* part slice: copy element product */
KERNEL(slice) { /* a start and a step for every axis; flip, too */
  int64_t from[MAX_RANK], to[MAX_RANK], first = 0;
  row_strides(from, x[0]);
  row_strides(to, y);
  for (int d = 0; d < y->rank; d++) {
    first += a->list[STARTS].item[d] * from[d];
    from[d] *= a->list[STEPS].item[d];
  }
  if (dims_product(y->shape, y->rank))
    copy_elements(y->type, y->data, to, element(x[0], first), from, y->shape, y->rank);
  return NULL;
}
/* part concat: copy element product */
KERNEL(concat) {
  const int axis = (int)a->list[AXES].item[0];
  int64_t from[MAX_RANK], to[MAX_RANK], at = 0;
  row_strides(to, y);
  for (int64_t k = 0; k < a->groups; at += x[k++]->shape[axis] * to[axis]) {
    row_strides(from, x[k]);
    if (dims_product(x[k]->shape, x[k]->rank))
      copy_elements(y->type, element(y, at), to, x[k]->data, from, x[k]->shape,
                    x[k]->rank);
  }
  return NULL;
}
/* part stack: copy element */
KERNEL(stack) {
  const int axis = (int)a->list[AXES].item[0];
  int64_t from[MAX_RANK], own[MAX_RANK], to[MAX_RANK];
  row_strides(own, y);
  for (int d = 0, at = 0; d < y->rank; d++)
    if (d != axis) to[at++] = own[d];
  for (int64_t k = 0; k < a->groups; k++) {
    row_strides(from, x[k]);
    copy_elements(y->type, element(y, k * own[axis]), to, x[k]->data, from, x[k]->shape,
                  x[k]->rank);
  }
  return NULL;
}
/* part pad: copy element */
KERNEL(pad) { /* (low, high) for every axis; negative numbers crop */
  int64_t from[MAX_RANK], to[MAX_RANK], shape[MAX_RANK], read = 0, write = 0, zero = 0;
  int64_t none[MAX_RANK] = {0};
  const void *value = x[1] ? x[1]->data : &zero;
  row_strides(from, x[0]);
  row_strides(to, y);
  copy_elements(y->type, y->data, to, value, none, y->shape, y->rank);
  for (int d = 0; d < y->rank; d++) {
    const int64_t low = a->list[PADS].item[2 * d], high = a->list[PADS].item[2 * d + 1];
    shape[d] = x[0]->shape[d] + (low < 0 ? low : 0) + (high < 0 ? high : 0);
    if (shape[d] <= 0) return NULL;
    if (low < 0) read -= low * from[d];
    else write += low * to[d];
  }
  copy_elements(y->type, element(y, write), to, element(x[0], read), from, shape, y->rank);
  return NULL;
}
/* part gather: product item_size */
KERNEL(gather) {
  const int axis = (int)a->list[AXES].item[0];
  const int64_t size = x[0]->shape[axis], n = dims_product(x[1]->shape, x[1]->rank);
  const int64_t outer = dims_product(x[0]->shape, axis);
  const size_t row = (size_t)dims_product(x[0]->shape + axis + 1, x[0]->rank - axis - 1) *
                     item_size(y->type);
  char *to = y->data;
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < n; i++, to += row) {
      int64_t at = x[1]->type == INT32 ? ((const int32_t *)x[1]->data)[i]
                                       : ((const int64_t *)x[1]->data)[i];
      if (at < 0) at += size;
      if (at < 0 || at >= size) return "an index is out of range";
      if (row) memcpy(to, (char *)x[0]->data + (o * size + at) * (int64_t)row, row);
    }
  return NULL;
}
/* part gather_elements: walk row_strides element */
KERNEL(gather_elements) {
  const int axis = (int)a->list[AXES].item[0];
  const int64_t size = x[0]->shape[axis];
  const size_t bytes = item_size(y->type);
  int64_t stride[2][MAX_RANK], step;
  walk w;
  row_strides(stride[0], y);
  row_strides(stride[1], x[0]);
  step = stride[1][axis];
  stride[1][axis] = 0;
  if (!walk_begin(&w, 2, stride, y->shape, y->rank)) return NULL;
  do
    for (int64_t i = 0; i < w.inner; i++) {
      const int64_t to = w.at[0] + i * w.step[0];
      int64_t at = x[1]->type == INT32 ? ((const int32_t *)x[1]->data)[to]
                                       : ((const int64_t *)x[1]->data)[to];
      if (at < 0) at += size;
      if (at < 0 || at >= size) return "an index is out of range";
      memcpy(element(y, to), element(x[0], w.at[1] + i * w.step[1] + at * step), bytes);
    }
  while (walk_next(&w));
  return NULL;
}
/* part shape_of: tensor */
KERNEL(shape_of) {
  (void)a;
  for (int d = 0; d < x[0]->rank; d++) ((int64_t *)y->data)[d] = x[0]->shape[d];
  return NULL;
}

/* part size: product */
KERNEL(size) {
  (void)a;
  *(int64_t *)y->data = dims_product(x[0]->shape, x[0]->rank);
  return NULL;
}
/* part dim: tensor */
KERNEL(dim) {
  *(int64_t *)y->data = x[0]->shape[a->list[AXES].item[0]];
  return NULL;
}
/* part arange: product */
KERNEL(arange) {
  const int64_t n = dims_product(y->shape, y->rank);
  const uint64_t start = (uint64_t)a->list[STARTS].item[0];
  (void)x;
  for (int64_t i = 0; i < n; i++)
    ((int64_t *)y->data)[i] =
        (int64_t)(start + (uint64_t)i * (uint64_t)a->list[STEPS].item[0]);
  return NULL;
}

/* part reduce: walk row_strides */
/* Two walks: over the axes that stay, and over those that are reduced. */
static int reduce_begin(walk *kept, int64_t stride[1][MAX_RANK], int64_t *shape,
                        const tensor *x, const attributes *a) {
  int64_t own[MAX_RANK], kept_stride[1][MAX_RANK], kept_shape[MAX_RANK];
  int reduced = 0, rest = 0;
  row_strides(own, x);
  for (int d = 0; d < x->rank; d++) {
    int is_reduced = 0;
    for (int i = 0; i < a->list[AXES].count; i++)
      is_reduced |= a->list[AXES].item[i] == d;
    if (is_reduced) {
      shape[reduced] = x->shape[d];
      stride[0][reduced++] = own[d];
    } else {
      kept_shape[rest] = x->shape[d];
      kept_stride[0][rest++] = own[d];
    }
  }
  return walk_begin(kept, 1, kept_stride, kept_shape, rest) ? reduced : -1;
}
#define REDUCE(T, R, ACC, START, E)                                               \
  do {                                                                            \
    int64_t stride[1][MAX_RANK], shape[MAX_RANK];                                 \
    walk kept, w;                                                                 \
    const int rank = reduce_begin(&kept, stride, shape, x[0], a);                 \
    R *r = y->data;                                                               \
    if (rank < 0) break;                                                          \
    do                                                                            \
      for (int64_t k = 0; k < kept.inner; k++) {                                  \
        const T *p = (const T *)x[0]->data + kept.at[0] + k * kept.step[0];       \
        ACC acc = START;                                                          \
        int64_t place = 0, best = 0;                                              \
        (void)best;                                                               \
        if (walk_begin(&w, 1, stride, shape, rank)) do                            \
            for (int64_t i = 0; i < w.inner; i++, place++) {                      \
              const T u = p[w.at[0] + i * w.step[0]];                             \
              E;                                                                  \
            }                                                                     \
          while (walk_next(&w));                                                  \
        *r++ = (R)RESULT;                                                         \
      }                                                                           \
    while (walk_next(&kept));                                                     \
  } while (0)
#define RESULT acc
#define NUMBER_REDUCTION(name, ACC, F0, F, I0, L0, I)                       \
  KERNEL(name) {                                                            \
    if (y->type == FLOAT32) REDUCE(float, float, ACC, F0, F);               \
    else if (y->type == INT32) REDUCE(int32_t, int32_t, int64_t, I0, I);    \
    else REDUCE(int64_t, int64_t, int64_t, L0, I);                          \
    return NULL;                                                            \
  }
/* part sum: reduce */
NUMBER_REDUCTION(sum, double, 0, acc += (double)u, 0, 0,
                 acc = (int64_t)((uint64_t)acc + (uint64_t)u))
/* part prod: reduce */
NUMBER_REDUCTION(prod, float, 1, acc *= u, 1, 1,
                 acc = (int64_t)((uint64_t)acc * (uint64_t)u))
/* part max: reduce */
NUMBER_REDUCTION(max, float, -INFINITY, if (u > acc || u != u) acc = u, INT32_MIN,
                 INT64_MIN, if (u > acc) acc = u)
/* part min: reduce */
NUMBER_REDUCTION(min, float, INFINITY, if (u < acc || u != u) acc = u, INT32_MAX,
                 INT64_MAX, if (u < acc) acc = u)
/* part all: reduce */
KERNEL(all) {
  REDUCE(uint8_t, uint8_t, uint8_t, 1, acc = acc && u);
  return NULL;
}
/* part any: reduce */
KERNEL(any) {
  REDUCE(uint8_t, uint8_t, uint8_t, 0, acc = acc || u);
  return NULL;
}
/* part argmax: reduce */
#define BEST(T, START)                                                          \
  REDUCE(T, int64_t, T, START,                                                  \
         if (!place || u > acc || (u != u && acc == acc) || (a->flag && u == acc)) \
           { acc = u; best = place; })
#undef RESULT
#define RESULT best
KERNEL(argmax) { /* `flag`: the last of several */
  if (x[0]->type == FLOAT32) BEST(float, 0);
  else if (x[0]->type == INT32) BEST(int32_t, 0);
  else BEST(int64_t, 0);
  return NULL;
}
#undef RESULT
#define RESULT acc

/* part matmul: walk row_strides product */
#define PRODUCT(T)                                                              \
  do                                                                            \
    for (int64_t i = 0; i < rows; i++) {                                        \
      T *r = (T *)y->data + w.at[0] + i * columns;                              \
      const T *p = (const T *)x[0]->data + w.at[1] + i * depth;                 \
      const T *q = (const T *)x[1]->data + w.at[2];                             \
      for (int64_t j = 0; j < columns; j++) r[j] = 0;                           \
      for (int64_t k = 0; k < depth; k++, q += columns)                         \
        for (int64_t j = 0; j < columns; j++) r[j] += p[k] * q[j];              \
    }                                                                           \
  while (walk_next(&w))
KERNEL(matmul) {
  const int one = x[0]->rank == 1, other = x[1]->rank == 1; /* vectors */
  const int rank = y->rank - !one - !other;
  const int64_t rows = one ? 1 : x[0]->shape[x[0]->rank - 2];
  const int64_t depth = x[0]->shape[x[0]->rank - 1];
  const int64_t columns = other ? 1 : x[1]->shape[x[1]->rank - 1];
  int64_t stride[3][MAX_RANK] = {{0}}, own[MAX_RANK];
  walk w;
  (void)a;
  if (!rows || !columns) return NULL;
  for (int d = 0; d < rank; d++) {
    stride[0][d] = rows * columns * dims_product(y->shape + d + 1, rank - d - 1);
    for (int k = 0; k < 2; k++) {
      const int at = d - (rank - (x[k]->rank - 2));
      row_strides(own, x[k]);
      stride[k + 1][d] = at < 0 || x[k]->shape[at] == 1 ? 0 : own[at];
    }
  }
  if (!walk_begin(&w, 3, stride, y->shape, rank)) return NULL;
  if (w.inner > 1) { /* one product for each step */
    w.shape[w.rank] = w.inner;
    w.rank++;
  }
  if (y->type == FLOAT32) PRODUCT(float);
  else if (y->type == INT32) PRODUCT(uint32_t);
  else PRODUCT(uint64_t);
  return NULL;
}

/* part windows: row_strides */
/* Geometry of convolution and pooling, with three spatial axes; the first may be 1. */
typedef struct {
  int64_t size[3], out[3], kernel[3], step[3], gap[3], low[3];
  int64_t xs[3], ys[3], ks[3]; /* strides */
  int64_t batch, channels, xn, xc, yn, yc;
} windows;

static void windows_of(windows *g, const tensor *x, const tensor *y, const attributes *a,
                       const int64_t *kernel) {
  int64_t xs[MAX_RANK], ys[MAX_RANK];
  const int n = x->rank - 2, c = a->channels_last ? x->rank - 1 : 1;
  row_strides(xs, x);
  row_strides(ys, y);
  *g = (windows){.batch = x->shape[0], .channels = x->shape[c], .xn = xs[0], .xc = xs[c],
                 .yn = ys[0], .yc = ys[c]};
  for (int i = 0; i < 3; i++) {
    const int k = i - (3 - n), d = k + (a->channels_last ? 1 : 2);
    g->size[i] = g->out[i] = g->kernel[i] = g->step[i] = g->gap[i] = 1;
    if (k < 0) continue;
    g->size[i] = x->shape[d], g->out[i] = y->shape[d], g->kernel[i] = kernel[k];
    g->xs[i] = xs[d], g->ys[i] = ys[d];
    g->step[i] = a->list[STEPS].item[k], g->gap[i] = a->list[DILATIONS].item[k];
    g->low[i] = a->list[PADS].item[2 * k];
  }
}

/* part inside: windows */
/* Outputs [from, to) of axis `i` whose element `k` of the window is inside. */
static void inside(const windows *g, int i, int64_t k, int64_t *from, int64_t *to) {
  const int64_t first = k * g->gap[i] - g->low[i], room = g->size[i] - 1 - first;
  *from = first >= 0 ? 0 : (-first + g->step[i] - 1) / g->step[i];
  *to = room < 0 ? 0 : room / g->step[i] + 1;
  if (*to > g->out[i]) *to = g->out[i];
}

/* part conv: inside */
/* y += w * x for all outputs that the element (k0, k1, k2) of the kernel reaches. */
static void conv_element(const windows *g, float *y, const float *x, float w, int64_t k0,
                         int64_t k1, int64_t k2) {
  int64_t f0, t0, f1, t1, f2, t2;
  inside(g, 0, k0, &f0, &t0);
  inside(g, 1, k1, &f1, &t1);
  inside(g, 2, k2, &f2, &t2);
  for (int64_t i = f0; i < t0; i++)
    for (int64_t j = f1; j < t1; j++) {
      const int64_t i0 = i * g->step[0] + k0 * g->gap[0] - g->low[0];
      const int64_t i1 = j * g->step[1] + k1 * g->gap[1] - g->low[1];
      const int64_t i2 = f2 * g->step[2] + k2 * g->gap[2] - g->low[2];
      const float *p = x + i0 * g->xs[0] + i1 * g->xs[1] + i2 * g->xs[2];
      float *r = y + i * g->ys[0] + j * g->ys[1] + f2 * g->ys[2];
      const int64_t n = t2 - f2, to = g->ys[2], from = g->xs[2] * g->step[2];
      if (to == 1 && from == 1)
        for (int64_t k = 0; k < n; k++) r[k] += w * p[k];
      else
        for (int64_t k = 0; k < n; k++) r[k * to] += w * p[k * from];
    }
}

/* Axes of the kernel's outputs, inputs and first spatial axis: OI*, IO*, *IO, O*I. */
static void kernel_axes(int layout, int rank, int *o, int *i, int *spatial) {
  *o = layout == 1 ? 1 : layout == 2 ? rank - 1 : 0;
  *i = layout == 0 ? 1 : layout == 1 ? 0 : layout == 2 ? rank - 2 : rank - 1;
  *spatial = layout < 2 ? 2 : layout == 2 ? 0 : 1;
}

KERNEL(conv) {
  const tensor *w = x[1];
  int o, i, s;
  int64_t ws[MAX_RANK];
  windows g;
  kernel_axes(a->kernel_layout, w->rank, &o, &i, &s);
  row_strides(ws, w);
  windows_of(&g, x[0], y, a, w->shape + s);
  for (int d = 0; d < w->rank - 2; d++) g.ks[3 - (w->rank - 2) + d] = ws[s + d];
  const int64_t outputs = w->shape[o], inputs = w->shape[i], each = outputs / a->groups;
  for (int64_t n = 0; n < g.batch; n++)
    for (int64_t out = 0; out < outputs; out++) {
      float *r = (float *)y->data + n * g.yn + out * g.yc;
      const float bias = x[2] ? ((const float *)x[2]->data)[out] : 0;
      for (int64_t p = 0; p < g.out[0]; p++)
        for (int64_t q = 0; q < g.out[1]; q++)
          for (int64_t k = 0; k < g.out[2]; k++)
            r[p * g.ys[0] + q * g.ys[1] + k * g.ys[2]] = bias;
      for (int64_t in = 0; in < inputs; in++) {
        const float *p = (const float *)x[0]->data + n * g.xn +
                         (out / each * inputs + in) * g.xc;
        const float *v = (const float *)w->data + out * ws[o] + in * ws[i];
        for (int64_t k0 = 0; k0 < g.kernel[0]; k0++)
          for (int64_t k1 = 0; k1 < g.kernel[1]; k1++)
            for (int64_t k2 = 0; k2 < g.kernel[2]; k2++)
              conv_element(&g, r, p, v[k0 * g.ks[0] + k1 * g.ks[1] + k2 * g.ks[2]], k0,
                           k1, k2);
      }
    }
  return NULL;
}

/* part pool: windows */
#define FOR3(a0, a1, a2, n)                       \
  for (int64_t a0 = 0; a0 < (n)[0]; a0++)         \
    for (int64_t a1 = 0; a1 < (n)[1]; a1++)       \
      for (int64_t a2 = 0; a2 < (n)[2]; a2++)
/* E sees each element u in the data; `padded` counts those in the data or padding. */
#define POOL(T, ACC, START, E, RESULT_OF)                                              \
  do {                                                                                 \
    windows g;                                                                         \
    windows_of(&g, x[0], y, a, a->list[SIZES].item);                                   \
    for (int64_t m = 0; m < g.batch * g.channels; m++) {                               \
      const int64_t n = m / g.channels, c = m % g.channels;                            \
      const T *p = (const T *)x[0]->data + n * g.xn + c * g.xc;                        \
      T *r = (T *)y->data + n * g.yn + c * g.yc;                                       \
      FOR3(o0, o1, o2, g.out) {                                                        \
        ACC acc = START;                                                               \
        int64_t number = 0, padded = 0;                                                \
        FOR3(k0, k1, k2, g.kernel) {                                                   \
          const int64_t k[3] = {k0, k1, k2}, o[3] = {o0, o1, o2};                      \
          int64_t at = 0, in = 1, in_pads = 1;                                         \
          for (int d = 0; d < 3; d++) {                                                \
            const int64_t i = o[d] * g.step[d] + k[d] * g.gap[d] - g.low[d];           \
            const int64_t high = d < 3 - (x[0]->rank - 2)                              \
                ? 0 : a->list[PADS].item[2 * (d - 3 + x[0]->rank - 2) + 1];            \
            in &= i >= 0 && i < g.size[d];                                             \
            in_pads &= i < g.size[d] + high;                                           \
            at += i * g.xs[d];                                                         \
          }                                                                            \
          padded += in_pads;                                                           \
          if (!in) continue;                                                           \
          number++;                                                                    \
          const T u = p[at];                                                           \
          E;                                                                           \
        }                                                                              \
        (void)number, (void)padded;                                                    \
        r[o0 * g.ys[0] + o1 * g.ys[1] + o2 * g.ys[2]] = (T)(RESULT_OF);                \
      }                                                                                \
    }                                                                                  \
  } while (0)
/* part max_pool: pool */
KERNEL(max_pool) {
  if (y->type == FLOAT32) POOL(float, float, -INFINITY, if (u > acc) acc = u, acc);
  else if (y->type == INT32) POOL(int32_t, int32_t, INT32_MIN, if (u > acc) acc = u, acc);
  else POOL(int64_t, int64_t, INT64_MIN, if (u > acc) acc = u, acc);
  return NULL;
}
/* part avg_pool: pool */
KERNEL(avg_pool) {
  POOL(float, double, 0, acc += (double)u,
       acc / (double)(a->count_pads ? padded : number));
  return NULL;
}
/* end of parts */

/* -- Shapes of results ---------------------------------------------------------------- */

/* Largest tensor, in elements: sums and products of sizes below it do not overflow. */
#ifndef MAX_ELEMENTS
#define MAX_ELEMENTS ((int64_t)1 << 31)
#endif
enum { MAX_INPUTS = 1024, OTHER_TYPE = TYPES, UNKNOWN_TYPE };

/* A shape function completes the attributes for its kernel and sets the type and shape of
 * `y`; it returns NULL or what is wrong. */
#define SHAPE(name) \
  static const char *s_##name(tensor *y, const tensor *const *x, int n, attributes *a)

static int bounded(int64_t size) { return size >= -MAX_ELEMENTS && size <= MAX_ELEMENTS; }

/* Axes from the front, each once; `defaults` many if there are none. */
static const char *fill_axes(list *axes, int rank, int defaults) {
  unsigned seen = 0;
  if (axes->count < 0) {
    if (defaults > MAX_RANK) return "too many axes";
    for (axes->count = 0; axes->count < defaults; axes->count++)
      axes->item[axes->count] = axes->count;
  }
  for (int i = 0; i < axes->count; i++) {
    if (axes->item[i] < 0) axes->item[i] += rank;
    if (axes->item[i] < 0 || axes->item[i] >= rank) return "an axis is out of range";
    if (seen >> axes->item[i] & 1) return "an axis is given twice";
    seen |= 1u << axes->item[i];
  }
  return NULL;
}

static int has_axis(const list *axes, int d) {
  for (int i = 0; i < axes->count; i++)
    if (axes->item[i] == d) return 1;
  return 0;
}

static const char *broadcast_shape(tensor *y, const int64_t *shape, int rank) {
  int64_t dims[MAX_RANK];
  const int most = rank > y->rank ? rank : y->rank;
  for (int d = 0; d < most; d++) {
    const int i = d - (most - y->rank), j = d - (most - rank);
    const int64_t one = i < 0 ? 1 : y->shape[i], other = j < 0 ? 1 : shape[j];
    if (one != other && one != 1 && other != 1) return "the shapes do not broadcast";
    if (other < 0) return "a size is negative";
    dims[d] = one == 1 ? other : one;
  }
  y->rank = most;
  memcpy(y->shape, dims, sizeof dims);
  return NULL;
}

SHAPE(same) {
  (void)n, (void)a;
  y->rank = x[0]->rank;
  memcpy(y->shape, x[0]->shape, sizeof y->shape);
  return NULL;
}
SHAPE(cast) {
  y->type = a->type;
  return a->type >= TYPES ? "this dtype is not supported" : s_same(y, x, n, a);
}
SHAPE(broadcast) {
  const char *fault = s_same(y, x, n, a);
  for (int k = 1; k < n && !fault; k++)
    fault = broadcast_shape(y, x[k]->shape, x[k]->rank);
  return fault;
}
SHAPE(clip) { /* the limits may not widen x */
  const tensor *given[3] = {x[0], n > 1 ? x[1] : NULL, n > 2 ? x[2] : NULL};
  const char *fault = s_same(y, x, n, a);
  for (int k = 1; k < 3 && !fault; k++)
    if (given[k]) fault = broadcast_shape(y, given[k]->shape, given[k]->rank);
  if (!fault && (y->rank != x[0]->rank ||
                 dims_product(y->shape, y->rank) != dims_product(x[0]->shape, y->rank)))
    fault = "a limit is of a larger shape";
  return fault;
}
SHAPE(full) {
  const list *sizes = &a->list[SIZES];
  (void)n;
  if (sizes->count < 0 || sizes->count > MAX_RANK) return "the rank is not supported";
  y->rank = 0;
  if (broadcast_shape(y, x[0]->shape, x[0]->rank) ||
      dims_product(x[0]->shape, x[0]->rank) != 1)
    return "the value is no scalar";
  y->rank = sizes->count;
  memcpy(y->shape, sizes->item, sizeof y->shape);
  return x[0]->rank > y->rank ? "the value is no scalar" : NULL;
}
SHAPE(scalar) {
  (void)n, (void)a, (void)x;
  y->type = INT64, y->rank = 0;
  return NULL;
}
SHAPE(dim) {
  const char *fault = fill_axes(&a->list[AXES], x[0]->rank, 1);
  if (!fault && a->list[AXES].count != 1) fault = "one axis is needed";
  return fault ? fault : s_scalar(y, x, n, a);
}
SHAPE(arange) {
  const list *ends[2] = {&a->list[STARTS], &a->list[STOPS]};
  list *steps = &a->list[STEPS];
  (void)n, (void)x;
  if (steps->count < 0) steps->count = 1, steps->item[0] = 1;
  if (ends[0]->count != 1 || ends[1]->count != 1 || steps->count != 1)
    return "one start, stop and step are needed";
  const int64_t start = ends[0]->item[0], stop = ends[1]->item[0], step = steps->item[0];
  if (!step || !bounded(start) || !bounded(stop) || !bounded(step))
    return "a start, stop or step is invalid";
  const int64_t length = step < 0 ? start - stop : stop - start;
  y->type = INT64, y->rank = 1;
  y->shape[0] = length <= 0 ? 0 : (length - 1) / (step < 0 ? -step : step) + 1;
  return NULL;
}
SHAPE(reduce) {
  const char *fault = fill_axes(&a->list[AXES], x[0]->rank, x[0]->rank);
  (void)n;
  y->rank = 0;
  for (int d = 0; d < x[0]->rank && !fault; d++)
    if (!has_axis(&a->list[AXES], d)) y->shape[y->rank++] = x[0]->shape[d];
    else if (a->flag) y->shape[y->rank++] = 1;
  return fault;
}
SHAPE(argmax) {
  const int last = a->flag;
  const char *fault = fill_axes(&a->list[AXES], x[0]->rank, 1);
  if (!fault && a->list[AXES].count != 1) fault = "one axis is needed";
  a->flag = a->count_pads; /* keepdims, for the shape */
  if (!fault) fault = s_reduce(y, x, n, a);
  if (!fault && !x[0]->shape[a->list[AXES].item[0]]) fault = "the axis is empty";
  a->flag = last;
  y->type = INT64;
  return fault;
}
SHAPE(reshape) {
  const list *sizes = &a->list[SIZES];
  int64_t given = 1, total = dims_product(x[0]->shape, x[0]->rank);
  int free = -1;
  (void)n;
  if (sizes->count < 0 || sizes->count > MAX_RANK) return "the rank is not supported";
  y->rank = sizes->count;
  for (int d = 0; d < y->rank; d++) {
    y->shape[d] = sizes->item[d];
    if (y->shape[d] == 0 && a->flag)
      y->shape[d] = d < x[0]->rank ? x[0]->shape[d] : -2;
    if (y->shape[d] == -1 && free < 0) free = d;
    else if (y->shape[d] < 0 || !bounded(y->shape[d]) || !bounded(given *= y->shape[d]))
      return "a size is invalid";
  }
  if (free >= 0) y->shape[free] = given ? total / given : 0;
  if ((free >= 0 ? given * y->shape[free] : given) != total)
    return "the shape is of another number of elements";
  return NULL;
}
SHAPE(squeeze) {
  list *axes = &a->list[AXES];
  const char *fault = NULL;
  (void)n;
  if (axes->count < 0) {
    axes->count = 0;
    for (int d = 0; d < x[0]->rank; d++)
      if (x[0]->shape[d] == 1) axes->item[axes->count++] = d;
  }
  fault = fill_axes(axes, x[0]->rank, 0);
  y->rank = 0;
  for (int d = 0; d < x[0]->rank && !fault; d++)
    if (!has_axis(axes, d)) y->shape[y->rank++] = x[0]->shape[d];
    else if (x[0]->shape[d] != 1) fault = "the size of a removed axis is not 1";
  return fault;
}
SHAPE(expand_dims) {
  list *axes = &a->list[AXES];
  (void)n;
  if (axes->count < 0 || axes->count + x[0]->rank > MAX_RANK)
    return "the rank is not supported";
  y->rank = axes->count + x[0]->rank;
  const char *fault = fill_axes(axes, y->rank, 0);
  for (int d = 0, from = 0; d < y->rank && !fault; d++)
    y->shape[d] = has_axis(axes, d) ? 1 : x[0]->shape[from++];
  return fault;
}
SHAPE(transpose) {
  list *perm = &a->list[AXES];
  (void)n;
  y->rank = x[0]->rank;
  if (perm->count < 0)
    for (perm->count = 0; perm->count < y->rank; perm->count++)
      perm->item[perm->count] = y->rank - 1 - perm->count;
  const char *fault = fill_axes(perm, y->rank, 0);
  if (!fault && perm->count != y->rank) fault = "perm has another number of axes";
  for (int d = 0; d < y->rank && !fault; d++) y->shape[d] = x[0]->shape[perm->item[d]];
  return fault;
}
SHAPE(broadcast_to) {
  const list *sizes = &a->list[SIZES];
  if (sizes->count < 0 || sizes->count > MAX_RANK) return "the rank is not supported";
  const char *fault = s_same(y, x, n, a);
  return fault ? fault : broadcast_shape(y, sizes->item, sizes->count);
}
/* A start and a step for every axis, and the number of elements between them. */
static int64_t slice_size(int64_t size, int64_t *start, int64_t stop, int64_t step) {
  const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? size - 1 : size;
  int64_t *ends[2] = {start, &stop};
  for (int i = 0; i < 2; i++) {
    if (*ends[i] < 0) *ends[i] += size;
    if (*ends[i] < low) *ends[i] = low;
    if (*ends[i] > high) *ends[i] = high;
  }
  const int64_t length = step < 0 ? *start - stop : stop - *start;
  return length <= 0 ? 0 : (length - 1) / (step < 0 ? -step : step) + 1;
}
SHAPE(slice) {
  const list *starts = &a->list[STARTS], *stops = &a->list[STOPS];
  const list *steps = &a->list[STEPS];
  list from = {x[0]->rank, {0}}, by = {x[0]->rank, {0}};
  const char *fault = fill_axes(&a->list[AXES], x[0]->rank, starts->count);
  const int count = a->list[AXES].count;
  if (fault) return fault;
  if (count != starts->count || count != stops->count ||
      (steps->count >= 0 && count != steps->count))
    return "starts, stops, axes and steps are not equally many";
  s_same(y, x, n, a);
  for (int d = 0; d < y->rank; d++) by.item[d] = 1;
  for (int i = 0; i < count; i++) {
    const int64_t d = a->list[AXES].item[i];
    int64_t step = steps->count < 0 ? 1 : steps->item[i];
    if (!step) return "a step is 0";
    if (!bounded(step)) step = step < 0 ? -MAX_ELEMENTS : MAX_ELEMENTS;
    from.item[d] = starts->item[i], by.item[d] = step;
    y->shape[d] = slice_size(x[0]->shape[d], &from.item[d], stops->item[i], step);
  }
  a->list[STARTS] = from, a->list[STEPS] = by;
  return NULL;
}
SHAPE(flip) {
  const char *fault = fill_axes(&a->list[AXES], x[0]->rank, x[0]->rank);
  list from = {x[0]->rank, {0}}, by = {x[0]->rank, {0}};
  for (int d = 0; d < x[0]->rank && !fault; d++) {
    const int is_flipped = has_axis(&a->list[AXES], d);
    from.item[d] = is_flipped ? x[0]->shape[d] - 1 : 0;
    by.item[d] = is_flipped ? -1 : 1;
  }
  a->list[STARTS] = from, a->list[STEPS] = by;
  return fault ? fault : s_same(y, x, n, a);
}
SHAPE(concat) {
  const char *fault = fill_axes(&a->list[AXES], x[0]->rank, 1);
  if (fault || a->list[AXES].count != 1) return fault ? fault : "one axis is needed";
  const int axis = (int)a->list[AXES].item[0];
  s_same(y, x, n, a);
  for (int k = 1; k < n; k++) {
    if (x[k]->rank != y->rank) return "the ranks differ";
    for (int d = 0; d < y->rank; d++)
      if (d != axis && x[k]->shape[d] != y->shape[d]) return "the sizes of an axis differ";
    y->shape[axis] += x[k]->shape[axis];
    if (!bounded(y->shape[axis])) return "the result is too large";
  }
  a->groups = n;
  return NULL;
}
SHAPE(stack) {
  list *axes = &a->list[AXES];
  y->rank = x[0]->rank + 1;
  if (y->rank > MAX_RANK) return "the rank is not supported";
  const char *fault = fill_axes(axes, y->rank, 1);
  if (fault || axes->count != 1) return fault ? fault : "one axis is needed";
  for (int k = 1; k < n; k++)
    if (x[k]->rank != x[0]->rank ||
        memcmp(x[k]->shape, x[0]->shape, sizeof(int64_t) * (size_t)x[0]->rank))
      return "the shapes differ";
  for (int d = 0, from = 0; d < y->rank; d++)
    y->shape[d] = d == axes->item[0] ? n : x[0]->shape[from++];
  a->groups = n;
  return NULL;
}
/* Part `part` of `groups`, by sizes, or equally; the last one may be smaller. */
SHAPE(split) {
  const list *sizes = &a->list[SIZES];
  const char *fault = fill_axes(&a->list[AXES], x[0]->rank, 1);
  int64_t at = 0, size = 0;
  if (fault || a->list[AXES].count != 1) return fault ? fault : "one axis is needed";
  const int axis = (int)a->list[AXES].item[0];
  const int64_t all = x[0]->shape[axis], equal = (all + a->groups - 1) / a->groups;
  s_same(y, x, n, a);
  if (sizes->count >= 0 && sizes->count != a->groups)
    return "sizes and results are not equally many";
  for (int k = 0; k < a->groups; k++) {
    const int64_t wanted = sizes->count < 0 ? equal : sizes->item[k];
    if (wanted < 0 || (sizes->count >= 0 && wanted > all - at)) return "a size is invalid";
    if (k == a->part) a->list[STARTS].item[axis] = at, size = wanted < all - at ? wanted : all - at;
    at += wanted < all - at ? wanted : all - at;
  }
  if (at != all) return "the sizes are not those of the axis";
  for (int d = 0; d < y->rank; d++) {
    if (d != axis) a->list[STARTS].item[d] = 0;
    a->list[STEPS].item[d] = 1;
  }
  y->shape[axis] = size;
  return NULL;
}
SHAPE(pad) {
  list *pads = &a->list[PADS], all = {2 * x[0]->rank, {0}};
  const char *fault = fill_axes(&a->list[AXES], x[0]->rank, x[0]->rank);
  if (fault) return fault;
  if (pads->count != 2 * a->list[AXES].count) return "each axis needs (low, high)";
  if (n > 1 && x[1] && dims_product(x[1]->shape, x[1]->rank) != 1)
    return "the value is no scalar";
  s_same(y, x, n, a);
  for (int i = 0; i < a->list[AXES].count; i++) {
    const int64_t d = a->list[AXES].item[i], low = pads->item[2 * i];
    const int64_t high = pads->item[2 * i + 1];
    if (!bounded(low) || !bounded(high)) return "the padding is too large";
    all.item[2 * d] = low, all.item[2 * d + 1] = high;
    y->shape[d] += low + high;
    if (y->shape[d] < 0 || !bounded(y->shape[d])) return "the padding crops too much";
  }
  *pads = all;
  return NULL;
}
SHAPE(gather) {
  const char *fault = fill_axes(&a->list[AXES], x[0]->rank, 1);
  (void)n;
  if (fault || a->list[AXES].count != 1) return fault ? fault : "one axis is needed";
  if (x[0]->rank + x[1]->rank - 1 > MAX_RANK) return "the rank is not supported";
  y->rank = 0;
  for (int d = 0; d < x[0]->rank; d++) {
    if (d != a->list[AXES].item[0]) y->shape[y->rank++] = x[0]->shape[d];
    else
      for (int i = 0; i < x[1]->rank; i++) y->shape[y->rank++] = x[1]->shape[i];
  }
  return NULL;
}
SHAPE(gather_elements) {
  const char *fault = fill_axes(&a->list[AXES], x[0]->rank, 1);
  (void)n;
  if (!fault && a->list[AXES].count != 1) fault = "one axis is needed";
  if (!fault && x[1]->rank != x[0]->rank) fault = "the ranks differ";
  for (int d = 0; d < x[0]->rank && !fault; d++)
    if (d != a->list[AXES].item[0] && x[1]->shape[d] > x[0]->shape[d])
      fault = "there are more indices than elements along an axis";
  y->rank = x[0]->rank;
  memcpy(y->shape, x[1]->shape, sizeof y->shape);
  return fault;
}
SHAPE(shape_of) {
  (void)n, (void)a;
  y->type = INT64, y->rank = 1, y->shape[0] = x[0]->rank;
  return NULL;
}
SHAPE(matmul) {
  const tensor *p = x[0], *q = x[1];
  (void)n, (void)a;
  if (!p->rank || !q->rank) return "an operand is a scalar";
  if (p->shape[p->rank - 1] != q->shape[q->rank == 1 ? 0 : q->rank - 2])
    return "the inner sizes differ";
  y->rank = p->rank > 2 ? p->rank - 2 : 0;
  memcpy(y->shape, p->shape, sizeof y->shape);
  const char *fault = broadcast_shape(y, q->shape, q->rank > 2 ? q->rank - 2 : 0);
  if (p->rank > 1) y->shape[y->rank++] = p->shape[p->rank - 2];
  if (q->rank > 1) y->shape[y->rank++] = q->shape[q->rank - 1];
  return fault;
}
/* Explicit padding, strides and dilations of windows, and the sizes of the result. */
static const char *window_shape(tensor *y, const tensor *x, attributes *a,
                                const int64_t *kernel, int ceil) {
  list *pads = &a->list[PADS], *steps = &a->list[STEPS], *gaps = &a->list[DILATIONS];
  const int n = x->rank - 2, first = a->channels_last ? 1 : 2;
  list *all[2] = {steps, gaps};
  for (int i = 0; i < 2; i++) {
    if (all[i]->count < 0)
      for (all[i]->count = 0; all[i]->count < n;) all[i]->item[all[i]->count++] = 1;
    if (all[i]->count != n) return "the windows are of another number of axes";
  }
  if (pads->count < 0)
    for (pads->count = 0; pads->count < 2 * n;) pads->item[pads->count++] = 0;
  if (pads->count != 2 * n) return "each axis needs (low, high)";
  for (int i = 0; i < n; i++) {
    const int64_t size = x->shape[first + i], s = steps->item[i], k = kernel[i];
    int64_t *low = &pads->item[2 * i], *high = low + 1;
    if (s < 1 || gaps->item[i] < 1 || k < 1 || !bounded(s) || !bounded(gaps->item[i]) ||
        !bounded(*low) || !bounded(*high) || !bounded(k) ||
        !bounded((k - 1) * gaps->item[i]))
      return "a stride, dilation, kernel or padding is invalid";
    const int64_t span = (k - 1) * gaps->item[i] + 1;
    if (a->padding_mode) {
      int64_t total = ((size + s - 1) / s - 1) * s + span - size;
      total = total < 0 ? 0 : total;
      *low = a->padding_mode == 1 ? total / 2 : total - total / 2;
      *high = total - *low;
    }
    if (*low < 0 || *high < 0) return "a padding is negative";
    if (ceil && *low + *high + size < 1) return "an axis is empty";
    int64_t room = size + *low + *high - span;
    int64_t out = room < 0 ? 0 : room / s + 1;
    if (ceil && room >= 0) {
      const int64_t most = (size + *low - 1) / s + 1;
      out = (room + s - 1) / s + 1;
      out = a->padding_mode ? room / s + 1 : out < most ? out : most;
    }
    y->shape[first + i] = out;
  }
  a->padding_mode = 0;
  return NULL;
}
SHAPE(conv) {
  const tensor *w = x[1];
  int o, i, s, channels = a->channels_last ? x[0]->rank - 1 : 1;
  if (x[0]->rank < 3 || x[0]->rank > 5 || w->rank != x[0]->rank)
    return "one to three spatial axes are supported";
  kernel_axes(a->kernel_layout, w->rank, &o, &i, &s);
  if (a->groups < 1 || !bounded(a->groups) || w->shape[o] % a->groups ||
      !bounded(w->shape[i] * a->groups) || w->shape[i] * a->groups != x[0]->shape[channels])
    return "the channels do not match";
  if (n > 2 && x[2] && (x[2]->rank != 1 || x[2]->shape[0] != w->shape[o]))
    return "the bias is of another number of channels";
  s_same(y, x, n, a);
  y->shape[channels] = w->shape[o];
  return window_shape(y, x[0], a, w->shape + s, 0);
}
SHAPE(pool) {
  if (x[0]->rank < 3 || x[0]->rank > 5 || a->list[SIZES].count != x[0]->rank - 2)
    return "one to three spatial axes are supported";
  s_same(y, x, n, a);
  return window_shape(y, x[0], a, a->list[SIZES].item, a->flag);
}

/* -- The ops ---------------------------------------------------------------------------- */

typedef struct {
  const char *name;
  const char *inputs; /* t tensor, o may be omitted, * any number, others: see LETTERS */
  const char *types;  /* of the tensors: f float32, i integers, b bool */
  const char *attrs;  /* names, each between blanks */
  const char *(*shape)(tensor *, const tensor *const *, int, attributes *);
  const char *(*kernel)(tensor *, const tensor *const *, const attributes *);
  int result; /* the type of the result, or that of the first tensor */
} op_row;

static const char LETTERS[] = "AZBESPD"; /* of the lists, in order */
enum { FIRST = -1, LAST_TENSOR = -2 };

#define SAME_SHAPE(name, types) {#name, "t", types, "", s_same, k_##name, FIRST}
#define PAIR(name, types, result) \
  {#name, "tt", types, "", s_broadcast, k_##name, result}
#define REDUCTION(name, types, shape) \
  {#name, "tA", types, " axes keepdims ", shape, k_##name, FIRST}

static const op_row OPS[] = {
    SAME_SHAPE(exp, "f"), SAME_SHAPE(log, "f"), SAME_SHAPE(sqrt, "f"),
    SAME_SHAPE(rsqrt, "f"), SAME_SHAPE(reciprocal, "f"), SAME_SHAPE(sin, "f"),
    SAME_SHAPE(cos, "f"), SAME_SHAPE(tanh, "f"), SAME_SHAPE(sigmoid, "f"),
    SAME_SHAPE(erf, "f"), SAME_SHAPE(expm1, "f"), SAME_SHAPE(log1p, "f"),
    SAME_SHAPE(floor, "f"), SAME_SHAPE(ceil, "f"), SAME_SHAPE(round, "f"),
    SAME_SHAPE(sign, "fi"), SAME_SHAPE(abs, "fi"),
    SAME_SHAPE(negative, "fi"), SAME_SHAPE(square, "fi"), SAME_SHAPE(logical_not, "b"),
    {"isnan", "t", "f", "", s_same, k_isnan, BOOL},
    {"identity", "t", "fib", "", s_same, k_same, FIRST},
    {"astype", "t", "fib", " dtype ", s_cast, k_astype, FIRST},
    PAIR(add, "fi", FIRST), PAIR(subtract, "fi", FIRST), PAIR(multiply, "fi", FIRST),
    PAIR(divide, "fi", FIRST), PAIR(floor_divide, "i", FIRST),
    PAIR(remainder, "i", FIRST), PAIR(maximum, "fi", FIRST), PAIR(minimum, "fi", FIRST),
    PAIR(pow, "f", FIRST), PAIR(equal, "fib", BOOL), PAIR(not_equal, "fib", BOOL),
    PAIR(less, "fi", BOOL), PAIR(less_equal, "fi", BOOL), PAIR(greater, "fi", BOOL),
    PAIR(greater_equal, "fi", BOOL), PAIR(logical_and, "b", BOOL),
    PAIR(logical_or, "b", BOOL),
    {"where", "ttt", "fib", "", s_broadcast, k_where, LAST_TENSOR},
    REDUCTION(sum, "fi", s_reduce), REDUCTION(prod, "fi", s_reduce),
    REDUCTION(max, "fi", s_reduce), REDUCTION(min, "fi", s_reduce),
    REDUCTION(all, "b", s_reduce), REDUCTION(any, "b", s_reduce),
    {"argmax", "tA", "fi", " axis keepdims last ", s_argmax, k_argmax, INT64},
    {"matmul", "tt", "fi", "", s_matmul, k_matmul, FIRST},
    {"conv", "tto", "f", " layout kernel_layout strides padding dilations groups ", s_conv,
     k_conv, FIRST},
    {"max_pool", "t", "fi", " window strides padding dilations ceil layout ", s_pool,
     k_max_pool, FIRST},
    {"avg_pool", "t", "f", " window strides padding dilations ceil layout count_pads ",
     s_pool, k_avg_pool, FIRST},
    {"reshape", "tZ", "fib", " shape copy_zero ", s_reshape, k_same, FIRST},
    {"squeeze", "tA", "fib", " axes ", s_squeeze, k_same, FIRST},
    {"expand_dims", "tA", "fib", " axes ", s_expand_dims, k_same, FIRST},
    {"transpose", "t", "fib", " perm ", s_transpose, k_transpose, FIRST},
    {"broadcast_to", "tZ", "fib", " shape ", s_broadcast_to, k_broadcast_to, FIRST},
    {"slice", "tBEAS", "fib", " starts stops axes steps ", s_slice, k_slice, FIRST},
    {"flip", "tA", "fib", " axes ", s_flip, k_slice, FIRST},
    {"concat", "*", "fib", " axis ", s_concat, k_concat, FIRST},
    {"stack", "*", "fib", " axis ", s_stack, k_stack, FIRST},
    {"split", "tZ", "fib", " sizes axis outputs ", s_split, k_slice, FIRST},
    {"clip", "too", "fi", "", s_clip, k_clip, FIRST},
    {"full", "Zt", "fib", " shape ", s_full, k_broadcast_to, FIRST},
    {"arange", "BES", "i", " start stop step ", s_arange, k_arange, INT64},
    {"dim", "t", "fib", " axis ", s_dim, k_dim, INT64},
    {"size", "t", "fib", "", s_scalar, k_size, INT64},
    {"pad", "tPoA", "fib", " pads axes mode ", s_pad, k_pad, FIRST},
    {"gather", "tiA", "fib", " axis ", s_gather, k_gather, FIRST},
    {"gather_elements", "ti", "fib", " axis ", s_gather_elements, k_gather_elements,
     FIRST},
    {"shape_of", "t", "fib", "", s_shape_of, k_shape_of, INT64},
};

/* -- Errors ------------------------------------------------------------------------------ */

#ifdef __GNUC__
__attribute__((format(printf, 3, 4)))
#endif
static int32_t fail(amanda_error *error, const char *where, const char *format, ...) {
  va_list rest;
  if (!error || error->size < sizeof *error) return AMANDA_FAILED;
  va_start(rest, format);
  vsnprintf(error->message, sizeof error->message, format, rest);
  va_end(rest);
  snprintf(error->where, sizeof error->where, "%s", where ? where : "");
  error->expected[0] = error->got[0] = 0;
  return AMANDA_FAILED;
}

/* -- JSON: a flat table of values, each followed by what is in it ------------------------ */

typedef struct {
  char kind;        /* { [ " and 0 for numbers, true, false, null */
  int next;         /* the value after it and all that is in it */
  const char *text; /* without quotation marks */
  size_t length;
} json;

typedef struct {
  const char *at, *end;
  json *value;
  int count, room;
} json_text;

enum { MAX_DEPTH = 64 };

static void skip_blanks(json_text *t) {
  while (t->at < t->end && strchr(" \t\r\n", *t->at) && *t->at) t->at++;
}

static int json_new(json_text *t, char kind) {
  if (t->count == t->room) {
    const int room = t->room ? 2 * t->room : 256;
    json *more = room > (1 << 26) ? NULL : realloc(t->value, sizeof(json) * (size_t)room);
    if (!more) return -1;
    t->value = more, t->room = room;
  }
  t->value[t->count] = (json){.kind = kind, .text = t->at};
  return t->count++;
}

static int json_read(json_text *t, int depth) { /* 0, or -1 where the text is invalid */
  skip_blanks(t);
  if (t->at == t->end || depth > MAX_DEPTH) return -1;
  const char kind = *t->at, close = kind == '{' ? '}' : ']';
  const int here = json_new(t, strchr("{[\"", kind) && kind ? kind : 0);
  if (here < 0) return -1;
  if (kind == '"') {
    t->value[here].text = ++t->at;
    while (t->at < t->end && *t->at != '"') t->at += *t->at == '\\' ? 2 : 1;
    if (t->at >= t->end) return -1;
    t->value[here].length = (size_t)(t->at++ - t->value[here].text);
  } else if (kind == '{' || kind == '[') {
    t->at++;
    for (int first = 1;; first = 0) {
      skip_blanks(t);
      if (t->at < t->end && *t->at == close) break;
      if (!first && (t->at == t->end || *t->at++ != ',')) return -1;
      skip_blanks(t);
      if (kind == '{') {
        if (t->at == t->end || *t->at != '"' || json_read(t, depth + 1)) return -1;
        skip_blanks(t);
        if (t->at == t->end || *t->at++ != ':') return -1;
      }
      if (json_read(t, depth + 1)) return -1;
    }
    t->at++;
  } else {
    const char *from = t->at;
    while (t->at < t->end && !strchr(" \t\r\n,]}:\"[{", *t->at)) t->at++;
    t->value[here].length = (size_t)(t->at - from);
    if (t->at == from) return -1;
  }
  t->value[here].next = t->count;
  return 0;
}

static int text_is(const json *v, const char *text) {
  return v->length == strlen(text) && !memcmp(v->text, text, v->length);
}

/* The value of a key in a map, or NULL; `map` may be NULL. */
static const json *find(const json_text *t, const json *map, const char *key) {
  if (!map || map->kind != '{') return NULL;
  for (int i = (int)(map - t->value) + 1; i < map->next; i = t->value[i + 1].next)
    if (text_is(&t->value[i], key)) return &t->value[i + 1];
  return NULL;
}

/* An integer, true or false. */
static int read_integer(const json *v, int64_t *number) {
  char text[32], *end;
  if (!v || v->kind || v->length >= sizeof text) return -1;
  if (text_is(v, "true") || text_is(v, "false")) return *number = text_is(v, "true"), 0;
  memcpy(text, v->text, v->length);
  text[v->length] = 0;
  *number = strtoll(text, &end, 10);
  return *end || end == text ? -1 : 0;
}

static int count_items(const json_text *t, const json *array) {
  int n = 0;
  if (!array || array->kind != '[') return 0;
  for (int i = (int)(array - t->value) + 1; i < array->next; i = t->value[i].next) n++;
  return n;
}

/* -- Graphs ------------------------------------------------------------------------------ */

typedef struct {
  const op_row *row; /* NULL for a constant */
  const json *source;
  char where[96];
  attributes attrs;
  int64_t weight;
  int inputs, input_count; /* a range of `links`: values, -1 where there is none */
  int outputs, output_count; /* a range of the values */
} node;

typedef struct {
  json_text text;
  char *copy; /* of the JSON */
  node *nodes;
  int *links, *types, *results, *last_use, *makers;
  int parameters, node_count, link_count, result_count, value_count;
  DLManagedTensorVersioned **weights;
  size_t weight_count;
} graph;

static int read_type(const char *text, size_t length) {
  static const char *const names[TYPES] = {"float32", "int32", "int64", "bool"};
  for (int i = 0; i < TYPES; i++) {
    const size_t n = strlen(names[i]);
    if (length >= n && !memcmp(text, names[i], n) && (length == n || text[n] == '['))
      return i;
  }
  return length && text[0] != '?' ? OTHER_TYPE : UNKNOWN_TYPE;
}

/* The type in an item of `input_ports` or `output_ports`: {"name": type} or {"type": t}. */
static int port_type(const json_text *t, const json *port) {
  const json *type = find(t, port, "type");
  if (!type && port && port->kind == '{' && port->next - (int)(port - t->value) == 3 &&
      !text_is(port + 1, "name") && !text_is(port + 1, "attrs"))
    type = port + 2;
  return type && type->kind == '"' ? read_type(type->text, type->length) : UNKNOWN_TYPE;
}

/* The items of a list, nested lists joined; a single integer is a list of one. */
static int read_list(const json_text *t, const json *v, list *to) {
  const int first = (int)(v - t->value), end = v->kind ? v->next : first + 1;
  to->count = 0;
  for (int i = v->kind ? first + 1 : first; i < end; i++) {
    if (t->value[i].kind == '[') continue;
    if (to->count == MAX_ITEMS || read_integer(&t->value[i], &to->item[to->count++]))
      return -1;
  }
  return 0;
}

static int choice(const json *v, const char *const *names) {
  for (int i = 0; names[i]; i++)
    if (text_is(v, names[i])) return i;
  return -1;
}

static int read_attribute(const json_text *t, const json *key, attributes *a) {
  static const struct { const char *name; int list; } LIST_NAMES[] = {
      {"axes", AXES}, {"axis", AXES}, {"perm", AXES}, {"shape", SIZES},
      {"window", SIZES}, {"sizes", SIZES}, {"start", STARTS},
      {"stop", STOPS}, {"step", STEPS}, {"starts", STARTS}, {"stops", STOPS}, {"steps", STEPS},
      {"strides", STEPS}, {"pads", PADS}, {"padding", PADS}, {"dilations", DILATIONS}};
  static const char *const PADDINGS[] = {"valid", "same_upper", "same_lower", NULL};
  static const char *const LAYOUTS[] = {"NC*", "N*C", NULL};
  static const char *const KERNELS[] = {"OI*", "IO*", "*IO", "O*I", NULL};
  const json *v = key + 1;
  int64_t number = 0;
  if (text_is(v, "null") && !v->kind) return 0;
  if (text_is(key, "padding") && v->kind == '"')
    return (a->padding_mode = choice(v, PADDINGS)) < 0;
  if (text_is(key, "layout")) return (a->channels_last = choice(v, LAYOUTS)) < 0;
  if (text_is(key, "kernel_layout")) return (a->kernel_layout = choice(v, KERNELS)) < 0;
  if (text_is(key, "mode")) return !text_is(v, "constant");
  if (text_is(key, "dtype")) {
    v = find(t, v, "$dtype");
    return !v || (a->type = read_type(v->text, v->length)) >= TYPES;
  }
  for (size_t i = 0; i < sizeof LIST_NAMES / sizeof *LIST_NAMES; i++)
    if (text_is(key, LIST_NAMES[i].name))
      return read_list(t, v, &a->list[LIST_NAMES[i].list]);
  if (read_integer(v, &number)) return -1;
  if (text_is(key, "groups")) a->groups = number;
  else if (text_is(key, "count_pads")) a->count_pads = (int)(number != 0);
  else a->flag = (int)(number != 0);
  return 0;
}

static int32_t read_node(graph *g, node *n, amanda_error *error) {
  const json_text *t = &g->text;
  const json *type = find(t, n->source, "type"), *attrs = find(t, n->source, "attrs");
  if (!type || type->kind != '"') return fail(error, n->where, "an op has no type");
  n->weight = -1;
  if (text_is(type, "constant")) {
    const json *tensor_ = find(t, find(t, attrs, "value"), "$tensor");
    const json *weight = find(t, tensor_, "weight"), *name = find(t, tensor_, "dtype");
    if (read_integer(weight, &n->weight) || n->weight < 0 || !name)
      return fail(error, n->where, "a constant has no weight");
    if (read_type(name->text, name->length) >= TYPES)
      return fail(error, n->where, "constants of %.*s are not supported",
                  (int)(name->length < 40 ? name->length : 40), name->text);
    return AMANDA_OK;
  }
  snprintf(n->where, sizeof n->where, "op %d, %.*s", (int)(n - g->nodes),
           (int)(type->length < 40 ? type->length : 40), type->text);
  for (size_t i = 0; i < sizeof OPS / sizeof *OPS && !n->row; i++)
    if (text_is(type, OPS[i].name)) n->row = &OPS[i];
  if (!n->row) return fail(error, n->where, "there is no kernel for this op");
  if (find(t, n->source, "bodies")) return fail(error, n->where, "it has bodies");
  n->attrs.groups = 1;
  n->attrs.type = OTHER_TYPE;
  for (int i = 0; i < LISTS; i++) n->attrs.list[i].count = -1;
  if (!attrs) return AMANDA_OK;
  if (attrs->kind != '{') return fail(error, n->where, "attrs is no map");
  for (int i = (int)(attrs - t->value) + 1; i < attrs->next; i = t->value[i + 1].next) {
    const json *key = &t->value[i];
    char name[40] = " ";
    if (key->length < sizeof name - 3) {
      memcpy(name + 1, key->text, key->length);
      memcpy(name + 1 + key->length, " ", 2);
    }
    if (!name[1] || !strstr(n->row->attrs, name))
      return fail(error, n->where, "the attribute%sis unknown", name);
    if (n->row->shape == s_argmax && !strcmp(name, " keepdims ")) {
      int64_t keeps = 0;
      if (read_integer(key + 1, &keeps)) return fail(error, n->where, "keepdims is no bool");
      n->attrs.count_pads = keeps != 0;
    } else if (read_attribute(t, key, &n->attrs)) {
      return fail(error, n->where, "this value of%sis not supported", name);
    }
  }
  return AMANDA_OK;
}

/* One end of an edge: "12.0" is output or input 0 of op 12, "graph.0" of the graph. */
static int read_end(const char **at, const char *end, int64_t *op, int64_t *port) {
  int64_t *numbers[2] = {op, port};
  *op = -1;
  for (int i = 0; i < 2; i++) {
    if (i == 0 && end - *at >= 6 && !memcmp(*at, "graph.", 6)) {
      *at += 6;
      continue;
    }
    const char *from = *at;
    for (*numbers[i] = 0; *at < end && **at >= '0' && **at <= '9'; (*at)++)
      if ((*numbers[i] = *numbers[i] * 10 + (**at - '0')) > INT_MAX) return -1;
    if (*at == from || (i == 0 && (*at == end || *(*at)++ != '.'))) return -1;
  }
  return 0;
}

static int32_t read_edge(graph *g, const json *edge, amanda_error *error) {
  const char *at = edge->text, *end = edge->text + edge->length;
  int64_t from, out, to, in;
  if (edge->kind != '"' || read_end(&at, end, &from, &out) || end - at < 4 ||
      memcmp(at, " -> ", 4) || (at += 4, read_end(&at, end, &to, &in)) || at != end)
    return fail(error, NULL, "an edge is not understood: %.*s",
                (int)(edge->length < 80 ? edge->length : 80), edge->text);
  if (from < 0 ? out >= g->parameters
               : from >= g->node_count || out >= g->nodes[from].output_count)
    return fail(error, NULL, "an edge begins at no value: %.*s",
                (int)(edge->length < 80 ? edge->length : 80), edge->text);
  const int64_t value = from < 0 ? out : g->nodes[from].outputs + out;
  int *links = to < 0 ? g->results : g->links;
  int64_t count = g->result_count;
  if (to >= 0) {
    if (to >= g->node_count || (from >= 0 && from >= to))
      return fail(error, NULL, "ops are not in the order of their edges");
    links += g->nodes[to].inputs;
    count = g->nodes[to].input_count;
  }
  if (in >= count || links[in] >= 0)
    return fail(error, NULL, "an edge ends at no free port");
  links[in] = (int)value;
  if (g->last_use[value] < (int)to) g->last_use[value] = (int)to;
  if (to < 0) g->last_use[value] = INT_MAX;
  return AMANDA_OK;
}

/* The number of ports of an op: a number, or a list with something for each. */
static int port_count(const json_text *t, const json *ports) {
  int64_t n = 0;
  if (!ports) return 0;
  if (ports->kind == '[') return count_items(t, ports);
  return read_integer(ports, &n) || n < 0 || n > MAX_INPUTS ? -1 : (int)n;
}

static int in_set(const char *types, int type) {
  return type == UNKNOWN_TYPE ||
         strchr(types, type == FLOAT32 ? 'f' : type == BOOL ? 'b' :
                                                     type >= TYPES ? '!' : 'i') != NULL;
}

/* Check the inputs of an op against its row, with their types as far as they are known. */
static int32_t check_inputs(graph *g, node *n, amanda_error *error) {
  const int *in = g->links + n->inputs, most = (int)strlen(n->row->inputs);
  const int variadic = n->row->inputs[0] == '*';
  int common = UNKNOWN_TYPE;
  if (variadic ? n->input_count < 1 : n->input_count > most)
    return fail(error, n->where, "%d inputs are not supported", n->input_count);
  for (int i = 0; i < (variadic ? n->input_count : most); i++) {
    const char letter = variadic ? 't' : n->row->inputs[i];
    const int value = i < n->input_count ? in[i] : -1;
    const int type = value < 0 ? UNKNOWN_TYPE : g->types[value];
    if (value < 0 && (letter == 't' || letter == 'i'))
      return fail(error, n->where, "input %d is missing", i);
    if (value < 0) continue;
    const int is_condition = n->row->result == LAST_TENSOR && i == 0;
    const char *types = is_condition ? "b" : letter == 't' || letter == 'o'
                                                 ? n->row->types : "i";
    if (!in_set(types, type))
      return fail(error, n->where, "input %d is of a dtype that is not supported", i);
    if ((letter != 't' && letter != 'o') || is_condition || type == UNKNOWN_TYPE) continue;
    if (common != UNKNOWN_TYPE && type != common)
      return fail(error, n->where, "the inputs differ in dtype");
    common = type;
  }
  const int result = n->row->result;
  for (int i = 0; i < n->output_count; i++)
    g->types[n->outputs + i] =
        result >= 0 ? result : n->row->shape == s_cast ? n->attrs.type : common;
  return AMANDA_OK;
}

static void graph_free(graph *g) {
  if (!g) return;
  for (size_t i = 0; i < g->weight_count; i++)
    if (g->weights[i]->deleter) g->weights[i]->deleter(g->weights[i]);
  free(g->text.value), free(g->copy), free(g->nodes), free(g->links), free(g->types);
  free(g->results), free(g->last_use), free(g->makers), free(g->weights), free(g);
}

static void *zeroed(int64_t count, size_t size) {
  return calloc(count > 0 ? (size_t)count : 1, size);
}

/* What is known of the values: their types and makers. */
static int32_t read_values(graph *g, const json *ports, amanda_error *error) {
  const json_text *t = &g->text;
  g->types = zeroed(g->value_count, sizeof(int));
  g->last_use = zeroed(g->value_count, sizeof(int));
  g->makers = zeroed(g->value_count, sizeof(int));
  if (!g->types || !g->last_use || !g->makers)
    return fail(error, NULL, "there is no memory");
  for (int i = 0; i < g->value_count; i++)
    g->types[i] = UNKNOWN_TYPE, g->last_use[i] = g->makers[i] = -1;
  if (ports && ports->kind == '[')
    for (int i = 0, at = (int)(ports - t->value) + 1; i < g->parameters;
         i++, at = t->value[at].next)
      g->types[i] = port_type(t, &t->value[at]);
  for (int i = 0; i < g->node_count; i++)
    for (int k = 0; k < g->nodes[i].output_count; k++)
      g->makers[g->nodes[i].outputs + k] = i;
  return AMANDA_OK;
}

static int32_t read_ops(graph *g, const json *body, amanda_error *error) {
  const json_text *t = &g->text;
  const json *ops = find(t, body, "ops"), *ports = find(t, body, "input_ports");
  if (ops && ops->kind != '[' && ops->next - (int)(ops - t->value) > 1)
    return fail(error, NULL, "the ops are not in a list");
  g->parameters = port_count(t, ports);
  g->result_count = port_count(t, find(t, body, "output_ports"));
  g->node_count = count_items(t, ops);
  if (g->parameters < 0 || g->result_count < 0)
    return fail(error, NULL, "too many inputs or results");
  g->nodes = zeroed(g->node_count, sizeof(node));
  g->results = zeroed(g->result_count, sizeof(int));
  if (!g->nodes || !g->results) return fail(error, NULL, "there is no memory");
  for (int i = 0; i < g->result_count; i++) g->results[i] = -1;
  g->value_count = g->parameters;
  for (int i = 0, at = ops ? (int)(ops - t->value) + 1 : 0; i < g->node_count;
       i++, at = t->value[at].next) {
    node *n = &g->nodes[i];
    n->source = &t->value[at];
    snprintf(n->where, sizeof n->where, "op %d", i);
    n->inputs = g->link_count;
    n->input_count = port_count(t, find(t, n->source, "input_ports"));
    n->outputs = g->value_count;
    n->output_count = port_count(t, find(t, n->source, "output_ports"));
    if (n->input_count < 0 || g->link_count > INT_MAX - MAX_INPUTS || n->output_count < 0 ||
        g->value_count > INT_MAX - MAX_INPUTS)
      return fail(error, n->where, "too many inputs or results");
    g->link_count += n->input_count;
    g->value_count += n->output_count;
    const int32_t status = read_node(g, n, error);
    if (status) return status;
    if (n->output_count != 1 && (!n->row || n->row->shape != s_split))
      return fail(error, n->where, "%d results are not supported", n->output_count);
    if (n->row && n->row->shape == s_split) n->attrs.groups = n->output_count;
  }
  return read_values(g, ports, error);
}

static int32_t read_links(graph *g, const json *body, amanda_error *error) {
  const json_text *t = &g->text;
  const json *edges = find(t, body, "edges");
  g->links = zeroed(g->link_count, sizeof(int));
  if (!g->links) return fail(error, NULL, "there is no memory");
  for (int i = 0; i < g->link_count; i++) g->links[i] = -1;
  if (edges && edges->kind == '[')
    for (int i = (int)(edges - t->value) + 1; i < edges->next; i = t->value[i].next) {
      const int32_t status = read_edge(g, &t->value[i], error);
      if (status) return status;
    }
  for (int i = 0; i < g->result_count; i++)
    if (g->results[i] < 0) return fail(error, NULL, "result %d has no value", i);
  for (int i = 0; i < g->node_count; i++) {
    node *n = &g->nodes[i];
    if (n->row) {
      const int32_t status = check_inputs(g, n, error);
      if (status) return status;
      continue;
    }
    const json *name = find(t, find(t, find(t, find(t, n->source, "attrs"), "value"),
                                    "$tensor"), "dtype");
    g->types[n->outputs] = name ? read_type(name->text, name->length) : OTHER_TYPE;
    if (n->input_count) return fail(error, n->where, "a constant has inputs");
  }
  return AMANDA_OK;
}

/* Reads a graph; the caller frees it, also after an error. */
static int32_t graph_read(graph *g, const char *text, size_t length, amanda_error *error) {
  g->copy = malloc(length + 1);
  if (!g->copy) return fail(error, NULL, "there is no memory");
  memcpy(g->copy, text, length);
  g->copy[length] = 0;
  g->text.at = g->copy, g->text.end = g->copy + length;
  if (json_read(&g->text, 0)) return fail(error, NULL, "the JSON is invalid");
  skip_blanks(&g->text);
  if (g->text.at != g->text.end) return fail(error, NULL, "the JSON goes on at its end");
  const json *body = find(&g->text, g->text.value, "graph");
  if (!body || body->kind != '{') return fail(error, NULL, "the JSON has no graph");
  const int32_t status = read_ops(g, body, error);
  return status ? status : read_links(g, body, error);
}

/* -- The interface ------------------------------------------------------------------------ */

static int type_of_dtype(DLDataType t) {
  if (t.lanes != 1) return OTHER_TYPE;
  if (t.code == kDLFloat && t.bits == 32) return FLOAT32;
  if (t.code == kDLInt && t.bits == 32) return INT32;
  if (t.code == kDLInt && t.bits == 64) return INT64;
  return t.code == kDLBool && t.bits == 8 ? BOOL : OTHER_TYPE;
}

static DLDataType dtype_of_type(int type) {
  const DLDataType known[TYPES] = {
      {kDLFloat, 32, 1}, {kDLInt, 32, 1}, {kDLInt, 64, 1}, {kDLBool, 8, 1}};
  return known[type];
}

static int read_tensor(tensor *to, const DLTensor *from) {
  int64_t n = 1;
  to->type = type_of_dtype(from->dtype);
  to->rank = from->ndim;
  if (to->type >= TYPES || from->ndim < 0 || from->ndim > MAX_RANK || from->strides)
    return -1;
  for (int d = 0; d < to->rank; d++) {
    to->shape[d] = from->shape[d];
    if (to->shape[d] < 0 || !bounded(to->shape[d]) || !bounded(n *= to->shape[d]))
      return -1;
  }
  to->data = (char *)from->data + from->byte_offset;
  return 0;
}

static int32_t takes(const char *op, size_t length, amanda_error *error) {
  graph *g = calloc(1, sizeof *g);
  const int32_t status = g ? graph_read(g, op, length, error) : AMANDA_FAILED;
  graph_free(g);
  return status == AMANDA_OK;
}

static int32_t check_weights(graph *g, const amanda_compile_args *args,
                             amanda_error *error) {
  for (int i = 0; i < g->node_count; i++) {
    const node *n = &g->nodes[i];
    tensor t;
    if (n->row) continue;
    if ((uint64_t)n->weight >= args->weight_count)
      return fail(error, n->where, "there is no weight %lld", (long long)n->weight);
    if (read_tensor(&t, &args->weights[n->weight]->dl_tensor) ||
        t.type != g->types[n->outputs])
      return fail(error, n->where, "weight %lld is of another dtype, or has strides",
                  (long long)n->weight);
  }
  return AMANDA_OK;
}

static int32_t compile(const amanda_compile_args *args, void **executable,
                       amanda_error *error) {
  graph *g = calloc(1, sizeof *g);
  if (!g) return fail(error, NULL, "there is no memory");
  int32_t status = graph_read(g, args->graph, args->graph_length, error);
  if (!status) status = check_weights(g, args, error);
  g->weights = zeroed((int64_t)args->weight_count, sizeof *g->weights);
  if (!status && !g->weights) status = fail(error, NULL, "there is no memory");
  if (status) return graph_free(g), status;
  for (size_t i = 0; i < args->weight_count; i++) g->weights[i] = args->weights[i];
  g->weight_count = args->weight_count;
  *executable = g;
  return AMANDA_OK;
}

/* Memory for a value: that of the caller where it is a result, else of our own. */
static int32_t place_value(const graph *g, int value, tensor *y, char *is_own,
                           const amanda_run_args *args, const char *where,
                           amanda_error *error) {
  const int64_t n = dims_product(y->shape, y->rank);
  for (int i = 0; i < g->result_count; i++) {
    if (g->results[i] != value) continue;
    const DLTensor *given = &args->outputs[i].tensor;
    y->data = given->data;
    int differs = given->ndim != y->rank || type_of_dtype(given->dtype) != y->type;
    for (int d = 0; d < y->rank && !differs; d++) differs = given->shape[d] != y->shape[d];
    if (y->data && differs)
      return fail(error, where, "result %d is of another shape than its memory", i);
    if (!y->data)
      y->data = args->host->allocate(args->host->context, i, dtype_of_type(y->type),
                                     y->rank, y->shape);
    return y->data ? AMANDA_OK : fail(error, where, "there is no memory for result %d", i);
  }
  *is_own = 1;
  y->data = malloc((size_t)(n ? n : 1) * item_size(y->type));
  return y->data ? AMANDA_OK : fail(error, where, "there is no memory");
}

/* Shape arguments that are computed. */
static const char *read_computed(const tensor *from, list *to) {
  const int64_t n = dims_product(from->shape, from->rank);
  if ((from->type != INT32 && from->type != INT64) || n > MAX_ITEMS)
    return "a shape argument is no list of integers, or too long";
  to->count = (int)n;
  for (int i = 0; i < to->count; i++)
    to->item[i] = from->type == INT32 ? ((const int32_t *)from->data)[i]
                                      : ((const int64_t *)from->data)[i];
  return NULL;
}

static int32_t run_node(const graph *g, const node *n, tensor *values, char *is_own,
                        const tensor **x, const amanda_run_args *args,
                        amanda_error *error) {
  const int *in = g->links + n->inputs, is_where = n->row->result == LAST_TENSOR;
  attributes a = n->attrs;
  const char *fault = NULL;
  int count = 0;
  for (int i = 0; i < n->input_count && !fault; i++) {
    const char letter = n->row->inputs[0] == '*' ? 't' : n->row->inputs[i];
    const char *is_list = letter == 'o' ? NULL : strchr(LETTERS, letter);
    const tensor *value = in[i] < 0 ? NULL : &values[in[i]];
    if (is_list && value)
      fault = read_computed(value, &a.list[is_list - LETTERS]);
    if (is_list) continue;
    x[count++] = value;
    if (!value) continue;
    const char *types = letter == 'i' ? "i" : is_where && i == 0 ? "b" : n->row->types;
    if (!in_set(types, value->type)) fault = "an input is of a dtype that is not supported";
    if (count > 1 + is_where && letter != 'i' && value->type != x[is_where]->type)
      fault = "the inputs differ in dtype";
  }
  for (int i = count; i < 3; i++) x[i] = NULL; /* omitted ones */
  if (fault) return fail(error, n->where, "%s", fault);
  for (a.part = 0; a.part < n->output_count; a.part++) {
    const int here = n->outputs + a.part;
    attributes own = a;
    tensor *y = &values[here];
    y->type = n->row->result >= 0 ? n->row->result : x[is_where]->type;
    fault = n->row->shape(y, x, count, &own);
    for (int64_t d = 0, size = 1; d < y->rank && !fault; d++)
      if (y->shape[d] < 0 || !bounded(y->shape[d]) || !bounded(size *= y->shape[d]))
        fault = "the result is too large";
    if (fault) return fail(error, n->where, "%s", fault);
    const int32_t status = place_value(g, here, y, &is_own[here], args, n->where, error);
    if (status) return status;
    fault = n->row->kernel(y, x, &own);
    if (fault) return fail(error, n->where, "%s", fault);
  }
  return AMANDA_OK;
}

/* Copies what no op computed into its place: inputs, weights, and a value given twice. */
static int32_t copy_results(const graph *g, const tensor *values,
                            const amanda_run_args *args, amanda_error *error) {
  for (int i = 0; i < g->result_count; i++) {
    const int value = g->results[i], op = g->makers[value];
    int first = 0;
    char unused = 0;
    while (g->results[first] != value) first++;
    if (first == i && op >= 0 && g->nodes[op].row) continue;
    tensor to = values[value];
    graph one = *g;
    one.results = g->results + i, one.result_count = 1;
    amanda_run_args rest = *args;
    rest.outputs += i;
    if (!rest.outputs->tensor.data) { /* `place_value` would ask for result 0 */
      to.data = args->host->allocate(args->host->context, i, dtype_of_type(to.type),
                                     to.rank, to.shape);
      if (!to.data) return fail(error, NULL, "there is no memory for result %d", i);
    } else if (place_value(&one, value, &to, &unused, &rest, "a result", error)) {
      return AMANDA_FAILED;
    }
    memcpy(to.data, values[value].data,
           (size_t)dims_product(to.shape, to.rank) * item_size(to.type));
  }
  return AMANDA_OK;
}

static void free_used(const graph *g, int op, tensor *values, char *is_own) {
  const node *n = &g->nodes[op];
  for (int i = -n->output_count; i < n->input_count; i++) {
    const int value = i < 0 ? n->outputs - i - 1 : g->links[n->inputs + i];
    if (value < 0 || !is_own[value] || g->last_use[value] > op) continue;
    free(values[value].data);
    is_own[value] = 0;
  }
}

static int32_t run_ops(const graph *g, tensor *values, char *is_own, const tensor **x,
                       const amanda_run_args *args, amanda_error *error) {
  for (size_t i = 0; i < args->input_count; i++)
    if (read_tensor(&values[i], &args->inputs[i]))
      return fail(error, NULL, "input %d is of a dtype or rank that is not supported",
                  (int)i);
  for (int i = 0; i < g->node_count; i++) {
    const node *n = &g->nodes[i];
    int32_t status = AMANDA_OK;
    if (!n->row) {
      if (read_tensor(&values[n->outputs], &g->weights[n->weight]->dl_tensor))
        return fail(error, n->where, "a weight has changed");
      continue;
    }
    if (args->host->cancelled && args->host->cancelled(args->host->context))
      return AMANDA_CANCELLED;
    status = run_node(g, n, values, is_own, x, args, error);
    if (status) return status;
    free_used(g, i, values, is_own);
  }
  return copy_results(g, values, args, error);
}

static int32_t run(void *executable, const amanda_run_args *args, amanda_error *error) {
  const graph *g = executable;
  int32_t status = AMANDA_FAILED;
  if (args->input_count != (size_t)g->parameters ||
      args->output_count != (size_t)g->result_count)
    return fail(error, NULL, "%d inputs and %d results are needed", g->parameters,
                g->result_count);
  tensor *values = zeroed(g->value_count, sizeof *values);
  char *is_own = zeroed(g->value_count, 1);
  const tensor **x = zeroed(MAX_INPUTS + 3, sizeof *x);
  if (values && is_own && x) status = run_ops(g, values, is_own, x, args, error);
  else fail(error, NULL, "there is no memory");
  for (int i = 0; values && is_own && i < g->value_count; i++)
    if (is_own[i]) free(values[i].data);
  free(values), free(is_own), free((void *)x);
  return status;
}

static void free_executable(void *executable) { graph_free(executable); }

static const char *const DEVICES[] = {"cpu", NULL};

static const amanda_backend BACKEND = {
    .size = sizeof(amanda_backend),
    .version = AMANDA_BACKEND_VERSION,
    .name = "reference",
    .library = "reference_backend.c 1",
    .graph_namespace = "amanda/std/1",
    .devices = DEVICES,
    .takes = takes,
    .compile = compile,
    .run = run,
    .free_executable = free_executable,
};

const amanda_backend *amanda_backend_open(uint32_t version) {
  return version >= AMANDA_BACKEND_VERSION ? &BACKEND : NULL;
}
