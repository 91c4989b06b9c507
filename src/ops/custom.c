/* What a user's operator is to the graph: inference and evaluation that call the user's functions and check what they did, and the functions
 * of tercel.h that these call back. */
#include "ops/custom.h"

#include <string.h>

#include "ops/move.h"

/* ---- errors -------------------------------------------------------------------------------------------------------- */

/* The user's function returned `status` and may have filled *own. */
static tercel_status take_status(const tercel_node *node, const char *function, tercel_status status, tercel_error *own,
                                 tercel_error *err) {
  if (status == TERCEL_OK) return TERCEL_OK;
  if ((unsigned)status > TERCEL_INTERNAL)
    return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "its %s returned %d, which is no status", function,
                            (int)status);
  own->message[TERCEL_ERROR_MESSAGE_MAX - 1] = 0;
  if (own->message[0] != 0) return tercel_node_fail(node, err, status, "%s", own->message);
  return tercel_node_fail(node, err, status, "its %s failed: %s", function, tercel_status_name(status));
}

/* ---- nodes --------------------------------------------------------------------------------------------------------- */

const char *tercel_node_get_name(const tercel_node *node) { return node->name; }

const tercel_view *tercel_node_get_constant(const tercel_node *node, size_t input) {
  const tercel_value *const value = tercel_node_input(node, input);
  return value != NULL ? value->constant : NULL;
}

/* *out: the attribute, or NULL where the node has none. */
static tercel_status find_attr(const tercel_node *node, const char *name, tercel_attribute_type type,
                               const tercel_attr **out, tercel_error *err) {
  const tercel_operator *const op = &tercel_custom_of(node)->is;
  for (size_t i = 0; i < op->num_attributes; ++i) {
    if (strcmp(op->attributes[i].name, name) != 0 || op->attributes[i].type != type) continue;
    *out = tercel_node_attr(node, name);
    return TERCEL_OK;
  }
  return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "attribute '%s' is not listed by the operator with that type", name);
}

tercel_status tercel_node_get_int(const tercel_node *node, const char *name, int64_t *value, tercel_error *err) {
  const tercel_attr *attr = NULL;
  TERCEL_TRY(find_attr(node, name, TERCEL_ATTRIBUTE_INT, &attr, err));
  if (attr != NULL) *value = attr->value.i;
  return TERCEL_OK;
}

tercel_status tercel_node_get_float(const tercel_node *node, const char *name, double *value, tercel_error *err) {
  const tercel_attr *attr = NULL;
  TERCEL_TRY(find_attr(node, name, TERCEL_ATTRIBUTE_FLOAT, &attr, err));
  if (attr != NULL) *value = attr->value.f;
  return TERCEL_OK;
}

tercel_status tercel_node_get_string(const tercel_node *node, const char *name, const char **value, tercel_error *err) {
  const tercel_attr *attr = NULL;
  TERCEL_TRY(find_attr(node, name, TERCEL_ATTRIBUTE_STRING, &attr, err));
  if (attr != NULL) *value = attr->value.s;
  return TERCEL_OK;
}

tercel_status tercel_node_get_ints(const tercel_node *node, const char *name, const int64_t **values, size_t *count,
                                   tercel_error *err) {
  const tercel_attr *attr = NULL;
  TERCEL_TRY(find_attr(node, name, TERCEL_ATTRIBUTE_INTS, &attr, err));
  if (attr == NULL) return TERCEL_OK;
  *values = attr->value.ints;
  *count = attr->count;
  return TERCEL_OK;
}

tercel_status tercel_node_get_floats(const tercel_node *node, const char *name, const double **values, size_t *count,
                                     tercel_error *err) {
  const tercel_attr *attr = NULL;
  TERCEL_TRY(find_attr(node, name, TERCEL_ATTRIBUTE_FLOATS, &attr, err));
  if (attr == NULL) return TERCEL_OK;
  *values = attr->value.floats;
  *count = attr->count;
  return TERCEL_OK;
}

tercel_status tercel_node_get_strings(const tercel_node *node, const char *name, const char *const **values,
                                      size_t *count, tercel_error *err) {
  const tercel_attr *attr = NULL;
  TERCEL_TRY(find_attr(node, name, TERCEL_ATTRIBUTE_STRINGS, &attr, err));
  if (attr == NULL) return TERCEL_OK;
  *values = attr->value.strings;
  *count = attr->count;
  return TERCEL_OK;
}

/* ---- inference ----------------------------------------------------------------------------------------------------- */

typedef struct inference {
  tercel_inference shown; /* first: what the user's function gets leads here */
  tercel_infer *infer;
} inference;

static tercel_infer *infer_of(const tercel_inference *shown) { return ((const inference *)(const void *)shown)->infer; }

/* A number, or an entry of the table. */
static bool is_dim(const tercel_dims *dims, int64_t dim) { return dim >= 0 || -(dim + 1) < (int64_t)dims->count; }

tercel_status tercel_inference_dim(const tercel_inference *shown, int64_t a, char operation, int64_t b, int64_t *out,
                                   tercel_error *err) {
  tercel_dims *const dims = infer_of(shown)->dims;
  if (operation == 0 || strchr("+-*/", operation) == NULL)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "operation %d on dims, want + - * or /", operation);
  if (a == TERCEL_UNKNOWN_DIM || b == TERCEL_UNKNOWN_DIM) {
    *out = TERCEL_UNKNOWN_DIM;
    return TERCEL_OK;
  }
  if (!is_dim(dims, a) || !is_dim(dims, b))
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "%lld %c %lld: not both are dims", (long long)a, operation,
                       (long long)b);
  if (operation == '/' && b == 0) return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "a dim divided by 0");
  *out = operation == '+'   ? tercel_dim_add(dims, a, b)
         : operation == '-' ? tercel_dim_sub(dims, a, b)
         : operation == '*' ? tercel_dim_mul(dims, a, b)
                            : tercel_dim_floor_div(dims, a, b);
  return tercel_dims_check(dims, err);
}

int64_t tercel_inference_ints(const tercel_inference *shown, size_t input, int64_t *values, size_t capacity) {
  tercel_infer *const infer = infer_of(shown);
  int64_t count = 0;
  const tercel_dim *const contents = tercel_infer_contents(infer, input, &count, NULL);
  if (contents == NULL) return -1;
  for (int64_t i = 0; i < count; ++i) {
    int64_t number;
    if (!tercel_dim_get_number(infer->dims, contents[i], &number)) return -1;
    if ((uint64_t)i < capacity) values[i] = number;
  }
  return count;
}

static void show_fact(const tercel_fact *fact, tercel_spec *out) {
  *out = (tercel_spec){.dtype = fact->type.dtype, .rank = fact->type.shape.rank};
  for (int d = 0; d < out->rank; ++d) out->dims[d] = fact->type.shape.dims[d];
}

/* What the user said of output i, checked. */
static tercel_status take_spec(tercel_infer *infer, size_t i, const tercel_spec *spec, tercel_error *err) {
  const tercel_node *const node = infer->node;
  tercel_type *const type = &infer->out[i].type;
  if (spec->dtype == TERCEL_DTYPE_NONE || (unsigned)spec->dtype >= TERCEL_DTYPE_COUNT)
    return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "its infer gives output %zu the dtype %d", i,
                            (int)spec->dtype);
  if (spec->dtype == TERCEL_DTYPE_STRING && !(node->op->flags & TERCEL_OP_DATA_DEPENDENT))
    return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT,
                            "output %zu is of strings: the operator wants the flag TERCEL_OPERATOR_SHAPES", i);
  if (spec->rank < -1 || spec->rank > TERCEL_MAX_RANK)
    return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "its infer gives output %zu rank %d, want -1 .. %d", i,
                            spec->rank, (int)TERCEL_MAX_RANK);
  type->dtype = spec->dtype;
  type->shape.rank = spec->rank;
  for (int d = 0; d < spec->rank; ++d) {
    const int64_t dim = spec->dims[d];
    int64_t number = 0;
    const bool unknown = dim == TERCEL_UNKNOWN_DIM;
    if (!unknown && (!is_dim(infer->dims, dim) || (tercel_dim_get_number(infer->dims, dim, &number) && number < 0)))
      return tercel_node_fail(node, err, TERCEL_INVALID_ARGUMENT, "its infer gives dim %d of output %zu as %lld", d, i,
                              (long long)(number < 0 ? number : dim));
    type->shape.dims[d] = unknown ? tercel_dim_unknown(infer->dims) : dim;
  }
  return tercel_infer_check_size(infer, i, err);
}

/* Without an inference of the user's. */
static tercel_status infer_as_input(tercel_infer *infer) {
  for (size_t i = 0; i < infer->num_outputs; ++i) infer->out[i].type.dtype = infer->in[0]->type.dtype;
  return TERCEL_OK;
}

/* As it is, but with everything in memory of its own: NULL where an operand is absent. */
static tercel_status show_inference(tercel_infer *infer, tercel_arena *scratch, inference *out, tercel_error *err) {
  const tercel_node *const node = infer->node;
  const size_t count = infer->num_inputs + infer->num_outputs;
  tercel_spec *const specs = tercel_arena_alloc_array(scratch, count, sizeof *specs);
  tercel_spec **const shown = tercel_arena_alloc_array(scratch, count, sizeof *shown);
  if (specs == NULL || shown == NULL) return tercel_fail_memory(err, count * sizeof *specs, "inference");
  for (size_t i = 0; i < infer->num_inputs; ++i) {
    if (infer->in[i] == NULL) continue;
    show_fact(infer->in[i], &specs[i]);
    shown[i] = &specs[i];
  }
  for (size_t i = 0; i < infer->num_outputs; ++i) {
    tercel_spec *const spec = &specs[infer->num_inputs + i];
    spec->rank = -1;
    if (node->outputs[i] != NULL) shown[infer->num_inputs + i] = spec;
  }
  *out = (inference){.shown = {.node = node,
                               .user = tercel_custom_of(node)->is.user,
                               .num_inputs = infer->num_inputs,
                               .num_outputs = infer->num_outputs,
                               .inputs = (const tercel_spec *const *)shown,
                               .outputs = shown + infer->num_inputs},
                     .infer = infer};
  return TERCEL_OK;
}

static tercel_status infer_custom(tercel_infer *infer, tercel_error *err) {
  const tercel_node *const node = infer->node;
  const tercel_operator *const op = &tercel_custom_of(node)->is;
  if (op->infer == NULL) return infer_as_input(infer);
  tercel_arena scratch = {0};
  inference shown;
  tercel_error own = {0};
  tercel_status status;
  TERCEL_CHECK(show_inference(infer, &scratch, &shown, err));
  TERCEL_CHECK(take_status(node, "infer", op->infer(&shown.shown, &own), &own, err));
  for (size_t i = 0; status == TERCEL_OK && i < infer->num_outputs; ++i)
    if (shown.shown.outputs[i] != NULL) status = take_spec(infer, i, shown.shown.outputs[i], err);
done:
  tercel_arena_deinit(&scratch);
  return status;
}

/* ---- state --------------------------------------------------------------------------------------------------------- */

tercel_status tercel_custom_create_state(const tercel_node *node, void **state_out, tercel_error *err) {
  const tercel_operator *const op = &tercel_custom_of(node)->is;
  tercel_error own = {0};
  *state_out = NULL;
  if (op->create == NULL) return TERCEL_OK;
  return take_status(node, "create", op->create(node, op->user, state_out, &own), &own, err);
}

void tercel_custom_destroy_state(const tercel_custom *custom, void *state) {
  if (custom->is.create != NULL && custom->is.destroy != NULL) custom->is.destroy(state, custom->is.user);
}

/* ---- runs ---------------------------------------------------------------------------------------------------------- */

typedef struct call {
  tercel_call shown; /* first: what the user's function gets leads here */
  tercel_eval *eval;
  tercel_pool *pool;
} call;

static const call *call_of(const tercel_call *shown) { return (const call *)(const void *)shown; }

void *tercel_call_scratch(const tercel_call *shown, size_t bytes) {
  return tercel_arena_alloc(call_of(shown)->eval->scratch, bytes < TERCEL_ALIGNMENT ? TERCEL_ALIGNMENT : bytes);
}

void tercel_call_parallel(const tercel_call *shown, int64_t count, int64_t grain,
                          void (*fn)(void *arg, int64_t begin, int64_t end, int thread), void *arg) {
  if (count > 0) tercel_pool_run(call_of(shown)->pool, count, grain < 1 ? 1 : grain, fn, arg);
}

int tercel_call_num_threads(const tercel_call *shown) { return tercel_pool_num_threads(call_of(shown)->pool); }

static bool has_shape(const tercel_view *view, int rank, const int64_t *dims) {
  return view->rank == rank && (rank == 0 || memcmp(view->dims, dims, (size_t)rank * sizeof *dims) == 0);
}

/* Passes and kernels rely on what the graph says of the value. */
static tercel_status check_agrees(const tercel_value *value, const tercel_view *view, size_t output,
                                  tercel_error *err) {
  const tercel_shape *const want = &value->type.shape;
  bool agrees = want->rank < 0 || want->rank == view->rank;
  for (int d = 0; agrees && d < want->rank; ++d)
    agrees = !tercel_dim_is_known(want->dims[d]) || want->dims[d] == view->dims[d];
  if (agrees) return TERCEL_OK;
  tercel_text is = {0};
  tercel_shape shape = {.rank = view->rank};
  for (int d = 0; d < view->rank; ++d) shape.dims[d] = view->dims[d];
  tercel_shape_print(value->graph->dims, &shape, &is);
  tercel_text_add(&is, ", but the graph says ");
  tercel_shape_print(value->graph->dims, want, &is);
  const tercel_status status =
      tercel_fail(err, TERCEL_INVALID_ARGUMENT, "output %zu becomes %s", output, is.data != NULL ? is.data : "?");
  tercel_text_deinit(&is);
  return status;
}

/* Is the output to be shaped, and can it be so?  *tensor: NULL when there is nothing to do. */
static tercel_status begin_shaping(const call *c, size_t output, int rank, const int64_t *dims, tercel_view *shaped,
                                   bool *wanted, tercel_error *err) {
  *wanted = false;
  if (output >= c->shown.num_outputs)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "there is no output %zu, only %zu", output, c->shown.num_outputs);
  const tercel_view *const view = c->shown.outputs[output];
  if (view == NULL) return TERCEL_OK;
  if (rank < 0 || rank > TERCEL_MAX_RANK)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "output %zu: rank %d, want 0 .. %d", output, rank,
                       (int)TERCEL_MAX_RANK);
  for (int d = 0; d < rank; ++d)
    if (dims[d] < 0)
      return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "output %zu: dim %d is %lld", output, d, (long long)dims[d]);
  if (view->rank >= 0)
    return has_shape(view, rank, dims)
               ? TERCEL_OK
               : tercel_fail(err, TERCEL_INVALID_ARGUMENT, "output %zu has a shape already, and another one", output);
  if (!tercel_tensor_set_shape(shaped, c->eval->out[output]->dtype, rank, dims))
    return tercel_fail(err, TERCEL_OUT_OF_MEMORY, "output %zu is too large to address", output);
  TERCEL_TRY(check_agrees(c->shown.node->outputs[output], shaped, output, err));
  *wanted = true;
  return TERCEL_OK;
}

tercel_status tercel_call_shape_output(const tercel_call *shown, size_t output, int rank, const int64_t *dims,
                                       tercel_error *err) {
  const call *const c = call_of(shown);
  bool wanted;
  tercel_view shaped = {0};
  TERCEL_TRY(begin_shaping(c, output, rank, dims, &shaped, &wanted, err));
  if (!wanted) return TERCEL_OK;
  if (shaped.dtype == TERCEL_DTYPE_STRING)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "output %zu is of strings: use tercel_call_shape_strings", output);
  TERCEL_TRY(tercel_eval_output(c->eval, output, rank, dims, err));
  *c->shown.outputs[output] = *c->eval->out[output];
  return TERCEL_OK;
}

tercel_status tercel_call_shape_strings(const tercel_call *shown, size_t output, int rank, const int64_t *dims,
                                        size_t num_characters, char **characters_out, tercel_error *err) {
  const call *const c = call_of(shown);
  bool wanted;
  tercel_view shaped = {0};
  *characters_out = NULL;
  TERCEL_TRY(begin_shaping(c, output, rank, dims, &shaped, &wanted, err));
  if (!wanted) return TERCEL_OK;
  if (shaped.dtype != TERCEL_DTYPE_STRING)
    return tercel_fail(err, TERCEL_INVALID_ARGUMENT, "output %zu is of %s, not of strings", output,
                       tercel_dtype_name(shaped.dtype));
  TERCEL_TRY(tercel_eval_strings(c->eval, output, rank, dims, num_characters, characters_out, err));
  tercel_tensor *const tensor = c->eval->out[output];
  if (tensor->bytes > 0) memset(tensor->data, 0, tensor->bytes); /* until the user fills them: empty strings */
  *c->shown.outputs[output] = *tensor;
  return TERCEL_OK;
}

/* The user's function has views of its own of the outputs: what it does to them other than writing their elements is an error. */
static tercel_status check_views(const call *c, tercel_error *err) {
  for (size_t i = 0; i < c->shown.num_outputs; ++i) {
    const tercel_view *const view = c->shown.outputs[i], *const is = c->eval->out[i];
    if (is == NULL) continue;
    if (is->rank < 0)
      return tercel_node_fail(c->shown.node, err, TERCEL_INVALID_ARGUMENT, "its run did not shape output %zu", i);
    if (view->dtype != is->dtype || !has_shape(view, is->rank, is->dims) || view->data != is->data)
      return tercel_node_fail(c->shown.node, err, TERCEL_INVALID_ARGUMENT,
                              "its run changed the type, shape or place of output %zu", i);
  }
  return TERCEL_OK;
}

tercel_status tercel_custom_run(tercel_eval *eval, void *state, tercel_pool *pool, tercel_error *err) {
  const tercel_node *const node = eval->node;
  const tercel_operator *const op = &tercel_custom_of(node)->is;
  tercel_view *const views = tercel_arena_alloc_array(eval->scratch, eval->num_outputs, sizeof *views);
  tercel_view **const outputs = tercel_arena_alloc_array(eval->scratch, eval->num_outputs, sizeof *outputs);
  if (views == NULL || outputs == NULL) return tercel_fail_memory(err, eval->num_outputs * sizeof *views, "a run");
  for (size_t i = 0; i < eval->num_outputs; ++i) {
    if (eval->out[i] == NULL) continue;
    views[i] = *eval->out[i];
    outputs[i] = &views[i];
  }
  const call c = {.shown = {.node = node,
                            .user = op->user,
                            .state = state,
                            .num_inputs = eval->num_inputs,
                            .num_outputs = eval->num_outputs,
                            .inputs = eval->in,
                            .outputs = outputs},
                  .eval = eval,
                  .pool = pool};
  tercel_error own = {0};
  TERCEL_TRY(take_status(node, "run", op->run(&c.shown, &own), &own, err));
  return check_views(&c, err);
}

/* Folding: a state for this once. */
static tercel_status eval_custom(tercel_eval *eval, tercel_error *err) {
  void *state = NULL;
  TERCEL_TRY(tercel_custom_create_state(eval->node, &state, err));
  const tercel_status status = tercel_custom_run(eval, state, NULL, err);
  tercel_custom_destroy_state(tercel_custom_of(eval->node), state);
  return status;
}

/* ---- the operator -------------------------------------------------------------------------------------------------- */

static const tercel_attr_kind attr_kinds[] = {
    [TERCEL_ATTRIBUTE_INT] = TERCEL_ATTR_INT,       [TERCEL_ATTRIBUTE_FLOAT] = TERCEL_ATTR_FLOAT,
    [TERCEL_ATTRIBUTE_STRING] = TERCEL_ATTR_STRING, [TERCEL_ATTRIBUTE_INTS] = TERCEL_ATTR_INTS,
    [TERCEL_ATTRIBUTE_FLOATS] = TERCEL_ATTR_FLOATS, [TERCEL_ATTRIBUTE_STRINGS] = TERCEL_ATTR_STRINGS,
};

static unsigned flags_of(const tercel_operator *op) {
  unsigned flags = 0;
  if (!(op->flags & TERCEL_OPERATOR_PURE)) flags |= TERCEL_OP_IMPURE;
  if (op->flags & TERCEL_OPERATOR_SHAPES || op->infer == NULL) flags |= TERCEL_OP_DATA_DEPENDENT;
  return flags;
}

tercel_status tercel_custom_init(tercel_custom *custom, tercel_arena *arena, tercel_error *err) {
  const tercel_operator *const is = &custom->is;
  const char *const name = tercel_arena_printf(arena, "%s%s%s", is->domain, is->domain[0] ? "." : "", is->name);
  tercel_attr_spec *const attrs = tercel_arena_alloc_array(arena, is->num_attributes + 1, sizeof *attrs);
  if (name == NULL || attrs == NULL) return tercel_fail_memory(err, sizeof *attrs, "an operator");
  for (size_t i = 0; i < is->num_attributes; ++i)
    attrs[i] = (tercel_attr_spec){.name = is->attributes[i].name,
                                  .kind = attr_kinds[is->attributes[i].type],
                                  .required = is->attributes[i].required != 0,
                                  .about = ""};
  custom->op = (tercel_op){.name = name,
                           .id = TERCEL_OP_CUSTOM,
                           .min_inputs = is->min_inputs,
                           .max_inputs = is->max_inputs,
                           .min_outputs = is->min_outputs,
                           .max_outputs = is->max_outputs,
                           .flags = flags_of(is),
                           .about = "an operator of the user's",
                           .attrs = attrs,
                           .infer = infer_custom,
                           .eval = is->flags & TERCEL_OPERATOR_PURE ? eval_custom : NULL};
  return TERCEL_OK;
}
