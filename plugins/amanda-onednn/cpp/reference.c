/* Gives the C++ of this folder what it needs of the reference backend, whose functions
 * are static. */
#define amanda_backend_open amanda_reference_open
#include "reference_backend.c"
#undef amanda_backend_open

#include "reference.h"

#define SAME_FIELD(a, b, f) \
  typedef char same_##a##_##f[offsetof(a, f) == offsetof(b, f) ? 1 : -1]
typedef char same_tensor[sizeof(tensor) == sizeof(ref_tensor) ? 1 : -1];
typedef char same_list[sizeof(list) == sizeof(ref_list) ? 1 : -1];
typedef char same_attributes[sizeof(attributes) == sizeof(ref_attributes) ? 1 : -1];
typedef char same_lists[LISTS == (int)L_COUNT && DILATIONS == (int)L_DILATIONS ? 1 : -1];
SAME_FIELD(tensor, ref_tensor, data);
SAME_FIELD(attributes, ref_attributes, flag);
SAME_FIELD(attributes, ref_attributes, kernel_layout);
SAME_FIELD(attributes, ref_attributes, part);
SAME_FIELD(attributes, ref_attributes, groups);

int ref_find(const char *name, size_t length) {
  const json text = {.text = name, .length = length};
  for (size_t i = 0; i < sizeof OPS / sizeof *OPS; i++)
    if (text_is(&text, OPS[i].name)) return (int)i;
  return -1;
}

int ref_is_list(int op, int input) {
  const char *inputs = OPS[op].inputs;
  if (inputs[0] == '*' || input >= (int)strlen(inputs) || inputs[input] == 'o') return 0;
  return strchr(LETTERS, inputs[input]) != NULL;
}

const char *ref_check_inputs(int op, const int *inputs, int count) {
  const char *letters = OPS[op].inputs;
  const int is_variadic = letters[0] == '*', most = (int)strlen(letters);
  if (is_variadic ? count < 1 || count > MAX_INPUTS : count > most)
    return "inputs of this number are not supported";
  for (int i = 0; i < (is_variadic ? count : most); i++) {
    const char letter = is_variadic ? 't' : letters[i];
    const int is_there = i < count && inputs[i] >= 0;
    if (!is_there && (letter == 't' || letter == 'i')) return "an input is missing";
  }
  return NULL;
}

static const char *read_map(const json_text *t, const op_row *row, attributes *a) {
  for (int i = 1; i < t->value[0].next; i = t->value[i + 1].next) {
    const json *key = &t->value[i];
    int64_t keeps = 0;
    char name[40] = " ";
    if (key->length < sizeof name - 3) {
      memcpy(name + 1, key->text, key->length);
      memcpy(name + 1 + key->length, " ", 2);
    }
    if (!name[1] || !strstr(row->attrs, name)) return "an attribute is unknown";
    if (row->shape == s_argmax && text_is(key, "keepdims")) {
      if (read_integer(key + 1, &keeps)) return "keepdims is no bool";
      a->count_pads = keeps != 0;
    } else if (read_attribute(t, key, a)) {
      return "the value of an attribute is not supported";
    }
  }
  return NULL;
}

const char *ref_attributes_read(int op, const char *text, size_t length, int results,
                                ref_attributes *to) {
  attributes a;
  json_text t = {.at = text, .end = text + length};
  const char *fault = NULL;
  memset(&a, 0, sizeof a);
  a.groups = 1, a.type = OTHER_TYPE;
  for (int i = 0; i < LISTS; i++) a.list[i].count = -1;
  if (length) {
    if (json_read(&t, 0) || t.value[0].kind != '{') fault = "attrs is no map";
    else fault = read_map(&t, &OPS[op], &a);
  }
  free(t.value);
  if (OPS[op].shape == s_split) a.groups = results;
  memcpy(to, &a, sizeof a);
  return fault;
}

int32_t ref_takes(const char *graph, size_t length, amanda_error *error) {
  return takes(graph, length, error);
}

const char *ref_shape(int op, const ref_tensor *const *inputs, int count, int part,
                      ref_attributes *attrs, ref_tensor *y, const ref_tensor **x,
                      int *x_count) {
  const op_row *row = &OPS[op];
  const int is_where = row->result == LAST_TENSOR;
  attributes *a = (attributes *)attrs;
  const tensor **to = (const tensor **)x;
  int n = 0;
  for (int i = 0; i < count; i++) {
    const char letter = row->inputs[0] == '*' ? 't' : row->inputs[i];
    const char *is_list = letter == 'o' ? NULL : strchr(LETTERS, letter);
    const tensor *value = (const tensor *)inputs[i];
    if (is_list) {
      const char *fault = value ? read_computed(value, &a->list[is_list - LETTERS]) : NULL;
      if (fault) return fault;
      continue;
    }
    to[n++] = value;
    if (!value) continue;
    const char *types = letter == 'i' ? "i" : is_where && i == 0 ? "b" : row->types;
    if (!in_set(types, value->type)) return "an input is of a dtype that is not supported";
    if (n > 1 + is_where && letter != 'i' && value->type != to[is_where]->type)
      return "the inputs differ in dtype";
  }
  for (int i = n; i < 3; i++) to[i] = NULL;
  *x_count = n;
  a->part = part;
  y->type = row->result >= 0 ? row->result : to[is_where]->type;
  const char *fault = row->shape((tensor *)y, to, n, a);
  for (int64_t d = 0, size = 1; d < y->rank && !fault; d++)
    if (y->shape[d] < 0 || !bounded(y->shape[d]) || !bounded(size *= y->shape[d]))
      fault = "the result is too large";
  return fault;
}

const char *ref_kernel(int op, ref_tensor *y, const ref_tensor *const *x,
                       const ref_attributes *attrs) {
  return OPS[op].kernel((tensor *)y, (const tensor *const *)x, (const attributes *)attrs);
}

size_t ref_item_size(int type) { return item_size(type); }
int ref_type_of_dtype(DLDataType dtype) { return type_of_dtype(dtype); }
DLDataType ref_dtype_of_type(int type) { return dtype_of_type(type); }
int ref_read_tensor(ref_tensor *to, const DLTensor *from) {
  return read_tensor((tensor *)to, from);
}
