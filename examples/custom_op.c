/* An operator of one's own: example.Haversine, the distances between places on a sphere.
 *
 *     custom_op MODEL        registers it, loads a model that uses it and runs it for four cities
 *
 * MODEL has two inputs f32[n, 2] and f32[m, 2], degrees of latitude and longitude, and gives f32[n, m].  The same file is a plugin of
 * the tercel command:
 *
 *     cc -shared -fPIC -o custom_op.so custom_op.c -lm
 *     tercel run MODEL --plugin custom_op.so
 *
 * The part between the marks is the code in docs/custom-operators.md. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <tercel/tercel.h>

/* [haversine] */
typedef struct haversine {
  double radius;
} haversine;

static tercel_status infer(const tercel_inference *inference, tercel_error *err) {
  const tercel_spec *const a = inference->inputs[0], *const b = inference->inputs[1];
  tercel_spec *const out = inference->outputs[0];
  if (a->dtype != TERCEL_DTYPE_F32 || b->dtype != TERCEL_DTYPE_F32)
    return tercel_error_set(err, TERCEL_UNSUPPORTED, "places are %s and %s, want f32", tercel_dtype_name(a->dtype),
                            tercel_dtype_name(b->dtype));
  if ((a->rank >= 0 && a->rank != 2) || (b->rank >= 0 && b->rank != 2))
    return tercel_error_set(err, TERCEL_INVALID_MODEL, "places of rank %d and %d, want [n, 2] and [m, 2]", a->rank,
                            b->rank);
  out->dtype = TERCEL_DTYPE_F32;
  out->rank = 2;
  out->dims[0] = a->rank == 2 ? a->dims[0] : TERCEL_UNKNOWN_DIM;
  out->dims[1] = b->rank == 2 ? b->dims[0] : TERCEL_UNKNOWN_DIM;
  return TERCEL_OK;
}

static tercel_status create(const tercel_node *node, void *user, void **state_out, tercel_error *err) {
  (void)user;
  double radius = 6371.0; /* of the Earth, in km */
  const tercel_status status = tercel_node_get_float(node, "radius", &radius, err);
  if (status != TERCEL_OK) return status;
  if (!(radius > 0)) return tercel_error_set(err, TERCEL_INVALID_MODEL, "radius %g, want one above 0", radius);
  haversine *const state = malloc(sizeof *state);
  if (!state) return tercel_error_set(err, TERCEL_OUT_OF_MEMORY, "no memory for the state");
  state->radius = radius;
  *state_out = state;
  return TERCEL_OK;
}

static void destroy(void *state, void *user) {
  (void)user;
  free(state);
}

static double distance(const float *a, const float *b, double radius) {
  const double degree = 3.14159265358979323846 / 180;
  const double y = sin((b[0] - a[0]) * degree / 2), x = sin((b[1] - a[1]) * degree / 2);
  const double h = y * y + cos(a[0] * degree) * cos(b[0] * degree) * x * x;
  return 2 * radius * asin(sqrt(h < 1 ? h : 1));
}

/* Rows [begin, end) of the result; called by several threads at once. */
static void run_rows(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const tercel_call *const call = arg;
  const haversine *const state = call->state;
  const float *const a = call->inputs[0]->data, *const b = call->inputs[1]->data;
  float *const out = call->outputs[0]->data;
  const int64_t columns = call->outputs[0]->dims[1];
  for (int64_t i = begin; i < end; i++)
    for (int64_t j = 0; j < columns; j++) out[i * columns + j] = (float)distance(a + 2 * i, b + 2 * j, state->radius);
}

static tercel_status run(const tercel_call *call, tercel_error *err) {
  if (call->inputs[0]->dims[1] != 2 || call->inputs[1]->dims[1] != 2)
    return tercel_error_set(err, TERCEL_INVALID_ARGUMENT, "a place is %lld and %lld numbers, want 2",
                            (long long)call->inputs[0]->dims[1], (long long)call->inputs[1]->dims[1]);
  tercel_call_parallel(call, call->outputs[0]->dims[0], 16, run_rows, (void *)call);
  return TERCEL_OK;
}

tercel_status tercel_plugin_register(tercel_operators *operators, tercel_error *err) {
  static const tercel_attribute attributes[] = {{"radius", TERCEL_ATTRIBUTE_FLOAT, 0}};
  const tercel_operator op = {.size = sizeof op,
                              .domain = "example",
                              .name = "Haversine",
                              .first_version = 1,
                              .min_inputs = 2,
                              .max_inputs = 2,
                              .min_outputs = 1,
                              .max_outputs = 1,
                              .attributes = attributes,
                              .num_attributes = 1,
                              .flags = TERCEL_OPERATOR_PURE,
                              .infer = infer,
                              .create = create,
                              .destroy = destroy,
                              .run = run};
  return tercel_operators_add(operators, &op, err);
}
/* [haversine] */

/* [load] */
static tercel_status load(const char *path, tercel_model **out, tercel_error *err) {
  tercel_operators *operators = NULL;
  tercel_status status = tercel_operators_create(&operators, err);
  if (status == TERCEL_OK) status = tercel_plugin_register(operators, err);
  const tercel_model_options options = {.size = sizeof options, .operators = operators};
  if (status == TERCEL_OK) status = tercel_model_load(path, &options, out, err);
  tercel_operators_destroy(operators); /* the model keeps what it needs */
  return status;
}
/* [load] */

static const char *const cities[] = {"Paris", "Nairobi", "Quito", "Sydney"};
static float places[][2] = {{48.86f, 2.35f}, {-1.29f, 36.82f}, {-0.18f, -78.47f}, {-33.87f, 151.21f}};

static tercel_status run_model(tercel_context *context, tercel_view *distances, tercel_error *err) {
  tercel_status status = TERCEL_OK;
  for (size_t i = 0; status == TERCEL_OK && i < 2; i++)
    status =
        tercel_context_set_input(context, i, &(tercel_view){TERCEL_DTYPE_F32, 2, {4, 2}, places, sizeof places}, err);
  if (status == TERCEL_OK) status = tercel_context_run(context, err);
  return status == TERCEL_OK ? tercel_context_get_output(context, 0, distances, err) : status;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: custom_op MODEL\n");
    return 2;
  }
  tercel_error err = {0};
  tercel_model *model = NULL;
  tercel_engine *engine = NULL;
  tercel_context *context = NULL;
  tercel_view distances;
  const int failed = load(argv[1], &model, &err) || tercel_engine_build(model, NULL, &engine, &err) ||
                     tercel_context_create(engine, NULL, &context, &err) || run_model(context, &distances, &err);
  if (failed) fprintf(stderr, "%s\n", err.message);
  for (int i = 0; !failed && i < 4; i++) {
    printf("%-8s", cities[i]);
    for (int j = 0; j < 4; j++) printf(" %8.0f", (double)((const float *)distances.data)[4 * i + j]);
    printf("\n");
  }
  tercel_context_destroy(context);
  tercel_engine_destroy(engine);
  tercel_model_destroy(model);
  return failed;
}
