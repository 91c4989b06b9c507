/* pointwise on the CPU: where each tile's operands lie, and how the work is cut.
 *
 * Dims that all inputs walk alike are merged first.  Then there are three ways:
 *   flat    every input is whole or one element: any range of elements is one run of the program
 *   rows    the innermost dim is long: one run a row, in which each input is whole or one element
 *   short   it is not (a [n, 3] image plus [3]): tiles of many rows; broadcast inputs are written out for a tile, and kept as long as
 *           the next tile needs the same */
#include <string.h>

#include "backends/cpu/program.h"

enum { LONG_ROW = 128, SHORT_TILE = 1024, GRAIN_NS = 20000 };

typedef struct state {
  tercel_arena arena;
  tercel_code code;
  void (*run)(const tercel_code *code, const tercel_code_operand *operands, void *out, int64_t n);
} state;

typedef struct binding {
  int rank; /* of the merged dims; at least 1 */
  int64_t dims[TERCEL_MAX_RANK];
  int64_t strides[TERCEL_PROGRAM_MAX_INPUTS][TERCEL_MAX_RANK]; /* in elements */
  int64_t count;                                               /* elements of the result */
  int64_t grain;                                               /* elements (flat, rows) or tiles (short) */
  bool is_short;
  int64_t tile;                          /* short: elements a tile */
  bool whole[TERCEL_PROGRAM_MAX_INPUTS]; /* short: has an element for each of the result */
  bool one[TERCEL_PROGRAM_MAX_INPUTS];   /* one element for all */
  bool same[TERCEL_PROGRAM_MAX_INPUTS];  /* short: written out, every tile is the same */
  int64_t thread_bytes;                  /* short: of workspace */
} binding;

/* ---- support and preparation --------------------------------------------------------------------------------------- */

static bool program_dtypes(const tercel_node *node, tercel_dtype *dtypes) {
  const tercel_program *program = tercel_node_program(node, "program");
  if (!program || (uint32_t)program->num_inputs != node->num_inputs) return false;
  for (uint32_t i = 0; i < node->num_inputs; i++) {
    if (!node->inputs[i]) return false;
    dtypes[i] = node->inputs[i]->type.dtype;
  }
  return true;
}

static bool supports(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  tercel_dtype dtypes[TERCEL_PROGRAM_MAX_INPUTS];
  return program_dtypes(node, dtypes) && tercel_code_supports(tercel_node_program(node, "program"), dtypes);
}

/* The result may take an input's place only where elements have one size: else equal bytes would not mean equal elements. */
static bool supports_inplace(const tercel_kernel *kernel, const tercel_node *node) {
  if (!supports(kernel, node)) return false;
  for (uint32_t i = 0; i < node->num_inputs; i++)
    if (tercel_dtype_bits(node->inputs[i]->type.dtype) != tercel_dtype_bits(node->outputs[0]->type.dtype)) return false;
  return true;
}

static void release(void *data) {
  state *s = data;
  tercel_arena_deinit(&s->arena);
  tercel_free(s);
}

static tercel_status prepare(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                             tercel_kernel_state *out, tercel_error *err) {
  (void)kernel;
  tercel_dtype dtypes[TERCEL_PROGRAM_MAX_INPUTS];
  const tercel_tensor *scalars[TERCEL_PROGRAM_MAX_INPUTS] = {NULL};
  if (!program_dtypes(node, dtypes))
    return tercel_fail(err, TERCEL_INTERNAL, "pointwise '%s': inputs do not match the program", node->name);
  for (uint32_t i = 0; i < node->num_inputs; i++) {
    const tercel_tensor *constant = node->inputs[i]->constant;
    if (constant && tercel_tensor_num_elements(constant) == 1) scalars[i] = constant;
  }
  state *s = tercel_zalloc(sizeof *s);
  if (!s) return tercel_fail_memory(err, sizeof *s, "a pointwise kernel");
  const tercel_status status =
      tercel_code_compile(tercel_node_program(node, "program"), target, dtypes, scalars, &s->arena, &s->code, err);
  if (status != TERCEL_OK) {
    release(s);
    return tercel_fail_at(err, status, "pointwise '%s'", node->name);
  }
  s->run = TERCEL_CPU_PICK_FOR(target, tercel_pointwise_kernels)->run;
  *out = (tercel_kernel_state){.data = s};
  return TERCEL_OK;
}

/* ---- shapes -------------------------------------------------------------------------------------------------------- */

/* Whether dim d and the one after it are walked by every input as one. */
static bool mergeable(const binding *b, int num_inputs, int d) {
  for (int i = 0; i < num_inputs; i++)
    if (b->strides[i][d] != b->strides[i][d + 1] * b->dims[d + 1]) return false;
  return true;
}

static void remove_dim(binding *b, int num_inputs, int d) {
  for (int k = d; k + 1 < b->rank; k++) {
    b->dims[k] = b->dims[k + 1];
    for (int i = 0; i < num_inputs; i++) b->strides[i][k] = b->strides[i][k + 1];
  }
  b->rank--;
}

static void merge_dims(binding *b, int num_inputs) {
  for (int d = b->rank - 1; d >= 0 && b->rank > 1; d--)
    if (b->dims[d] == 1) remove_dim(b, num_inputs, d);
  for (int d = b->rank - 2; d >= 0; d--) {
    if (!mergeable(b, num_inputs, d)) continue;
    b->dims[d + 1] *= b->dims[d];
    remove_dim(b, num_inputs, d);
  }
}

/* Elements after which the input's part of a row-major walk begins again; the whole count when it never does. */
static int64_t period_of(const binding *b, int input) {
  int outer = 0;
  while (outer < b->rank && b->strides[input][outer] == 0) outer++;
  int64_t period = 1;
  for (int d = outer; d < b->rank; d++) period *= b->dims[d];
  return period;
}

static void bind_short(binding *b, const tercel_code *code) {
  b->is_short = true;
  b->tile = SHORT_TILE;
  for (int i = 0; i < code->num_inputs; i++) {
    int64_t dense = 1;
    b->whole[i] = true;
    for (int d = b->rank - 1; d >= 0; d--) {
      b->whole[i] = b->whole[i] && b->strides[i][d] == dense;
      dense *= b->dims[d];
    }
    const int64_t period = period_of(b, i);
    if (!b->whole[i] && !b->one[i] && period <= b->tile && b->tile == SHORT_TILE)
      b->tile = SHORT_TILE / period * period;
  }
  for (int i = 0; i < code->num_inputs; i++) {
    b->same[i] = !b->whole[i] && !b->one[i] && b->tile % period_of(b, i) == 0;
    if (!b->whole[i] && !b->one[i]) b->thread_bytes += SHORT_TILE * code->input_bytes[i];
  }
}

static tercel_status bind(const tercel_kernel *kernel, const tercel_node *node, const void *state_data,
                          const tercel_tensor *const *in, const tercel_tensor *const *out, const tercel_target *target,
                          tercel_arena *arena, tercel_kernel_binding *result, tercel_error *err) {
  (void)kernel, (void)node;
  const state *s = state_data;
  const int n = s->code.num_inputs;
  binding *b = tercel_arena_alloc(arena, sizeof *b);
  if (!b) return tercel_fail_memory(err, sizeof *b, "a pointwise binding");
  b->count = tercel_tensor_num_elements(out[0]);
  b->rank = out[0]->rank > 0 ? out[0]->rank : 1;
  b->dims[0] = 1;
  for (int d = 0; d < out[0]->rank; d++) b->dims[d] = out[0]->dims[d];
  for (int i = 0; i < n; i++) {
    tercel_tensor_broadcast_strides(in[i], out[0]->rank, out[0]->dims, b->strides[i]);
    b->one[i] = tercel_tensor_num_elements(in[i]) == 1;
  }
  merge_dims(b, n);
  const int64_t inner = b->dims[b->rank - 1];
  const double per_element = s->code.cost + 0.1;
  b->grain = (int64_t)(GRAIN_NS / per_element) + 1;
  if (b->rank > 1 && inner < LONG_ROW && b->count > 0) {
    bind_short(b, &s->code);
    b->grain = (int64_t)(GRAIN_NS / (per_element + 0.1) / (double)b->tile) + 1;
  }
  *result =
      (tercel_kernel_binding){.data = b, .workspace_bytes = (size_t)b->thread_bytes * (size_t)target->num_threads};
  return TERCEL_OK;
}

/* ---- run ----------------------------------------------------------------------------------------------------------- */

typedef struct job {
  const state *state;
  const binding *binding;
  const tercel_tensor *const *in;
  uint8_t *out;
  uint8_t *workspace;
} job;

/* The input's element at element `at` of the result. */
static int64_t offset_of(const binding *b, int input, int64_t at) {
  int64_t offset = 0;
  for (int d = b->rank - 1; d >= 0; d--) {
    offset += at % b->dims[d] * b->strides[input][d];
    at /= b->dims[d];
  }
  return offset;
}

static void run_rows(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const job *j = arg;
  const binding *b = j->binding;
  const tercel_code *code = &j->state->code;
  const int64_t inner = b->dims[b->rank - 1];
  tercel_code_operand operands[TERCEL_PROGRAM_MAX_INPUTS];
  for (int64_t at = begin; at < end;) {
    const int64_t left = inner - at % inner, n = left < end - at ? left : end - at;
    for (int i = 0; i < code->num_inputs; i++) {
      const int64_t step = b->strides[i][b->rank - 1];
      operands[i] =
          (tercel_code_operand){(const uint8_t *)j->in[i]->data + offset_of(b, i, at) * code->input_bytes[i], step};
    }
    j->state->run(code, operands, j->out + at * code->output_bytes, n);
    at += n;
  }
}

static void fill(uint8_t *dst, const uint8_t *src, int64_t n, int bytes) {
  switch (bytes) {
  case 1: memset(dst, *src, (size_t)n); break;
  case 2:
    for (int64_t i = 0; i < n; i++) memcpy(dst + 2 * i, src, 2);
    break;
  case 4:
    for (int64_t i = 0; i < n; i++) memcpy(dst + 4 * i, src, 4);
    break;
  default:
    for (int64_t i = 0; i < n; i++) memcpy(dst + 8 * i, src, 8);
    break;
  }
}

/* Writes out what a broadcast input shows for elements [at, at + n) of the result. */
static void expand(const binding *b, int input, const uint8_t *data, int bytes, int64_t at, int64_t n, uint8_t *dst) {
  const int64_t inner = b->dims[b->rank - 1], step = b->strides[input][b->rank - 1];
  int64_t index[TERCEL_MAX_RANK], rest = at;
  for (int d = b->rank - 1; d >= 0; d--) {
    index[d] = rest % b->dims[d];
    rest /= b->dims[d];
  }
  int64_t offset = offset_of(b, input, at);
  while (n > 0) {
    const int64_t left = inner - index[b->rank - 1], run = left < n ? left : n;
    if (step)
      memcpy(dst, data + offset * bytes, (size_t)(run * bytes));
    else
      fill(dst, data + offset * bytes, run, bytes);
    dst += run * bytes;
    n -= run;
    /* on to the next row: back to the start of this one, then as an odometer */
    offset -= index[b->rank - 1] * step;
    index[b->rank - 1] = 0;
    for (int d = b->rank - 2; d >= 0; d--) {
      offset += b->strides[input][d];
      if (++index[d] < b->dims[d]) break;
      offset -= b->strides[input][d] * b->dims[d];
      index[d] = 0;
    }
  }
}

static void run_short(void *arg, int64_t begin, int64_t end, int thread) {
  const job *j = arg;
  const binding *b = j->binding;
  const tercel_code *code = &j->state->code;
  for (int64_t t = begin; t < end; t++) {
    const int64_t at = t * b->tile, n = tercel_min_i64(b->tile, b->count - at);
    uint8_t *memory = j->workspace + (int64_t)thread * b->thread_bytes;
    tercel_code_operand operands[TERCEL_PROGRAM_MAX_INPUTS];
    for (int i = 0; i < code->num_inputs; i++) {
      const uint8_t *data = j->in[i]->data;
      const int bytes = code->input_bytes[i];
      if (b->whole[i] || b->one[i]) {
        operands[i] = (tercel_code_operand){data + (b->one[i] ? 0 : at * bytes), !b->one[i]};
        continue;
      }
      if (!b->same[i] || t == begin) expand(b, i, data, bytes, at, n, memory);
      operands[i] = (tercel_code_operand){memory, 1};
      memory += SHORT_TILE * bytes;
    }
    j->state->run(code, operands, j->out + at * code->output_bytes, n);
  }
}

static tercel_status run(const tercel_kernel_run *run, tercel_error *err) {
  (void)err;
  const binding *b = run->binding;
  job j = {run->state, b, run->in, run->out[0]->data, run->workspace};
  if (b->count == 0) return TERCEL_OK;
  if (b->is_short)
    tercel_pool_run(run->pool, tercel_ceil_div(b->count, b->tile), b->grain, run_short, &j);
  else
    tercel_pool_run(run->pool, b->count, b->grain, run_rows, &j);
  return TERCEL_OK;
}

const tercel_kernel tercel_kernel_pointwise = {
    .name = "pointwise",
    .op = TERCEL_OP_POINTWISE,
    .supports = supports_inplace,
    .prepare = prepare,
    .release = release,
    .bind = bind,
    .run = run,
    .inplace = (1u << TERCEL_PROGRAM_MAX_INPUTS) - 1,
};

const tercel_kernel tercel_kernel_pointwise_mixed = {
    .name = "pointwise.mixed",
    .op = TERCEL_OP_POINTWISE,
    .supports = supports,
    .prepare = prepare,
    .release = release,
    .bind = bind,
    .run = run,
};
