/* backends: kernels.  The one door to them.  Knows ops, ir and base.
 *
 * A *kernel* is one tactic for an operator.  The planner asks a backend for the kernels of a node, in order of preference;
 * the first that supports it is the default.  Life of a kernel's step:
 *
 *     prepare   once per engine: reads attributes; what its packer made of constant operands is at hand; the state is immutable and
 *               shared by contexts (tercel_kernel_prepare does both)
 *     bind      once per shape and context: workspace size and parameters for these shapes
 *     run       many times: allocates nothing, touches only its outputs and workspace
 */
#ifndef TERCEL_BACKENDS_BACKEND_H
#define TERCEL_BACKENDS_BACKEND_H

#include <string.h>

#include "ops/ops.h"

typedef struct tercel_kernel tercel_kernel;

/* What steps are prepared and bound for: the same for all of an engine. */
typedef struct tercel_target {
  int num_threads;
  bool deterministic; /* the same bits whatever the level, the number of threads and the batch (docs/numerics.md) */
} tercel_target;

/* ---- packing -------------------------------------------------------------------------------------------------------
 *
 * What a kernel makes of constant operands once, as bytes that may be kept in a file and taken up again: prepare then only reads
 * attributes. */

enum { TERCEL_PACK_NAME_MAX = 32 };

/* How bytes are laid out.  With the node, the name says all: a layout that changes gets another one. */
typedef struct tercel_pack_format {
  char name[TERCEL_PACK_NAME_MAX]; /* "gemm.b.32.f32": of the tables in use, not of the level */
  size_t bytes;                    /* 0: the node has nothing to pack */
  uint32_t inputs;                 /* bit i: unpack gives constant input i back, bit by bit */
} tercel_pack_format;

/* Packed bytes; data is aligned to TERCEL_ALIGNMENT. */
typedef struct tercel_packed {
  tercel_pack_format format;
  const void *data;
  tercel_storage *storage; /* that data lies in: a reference */
} tercel_packed;

typedef struct tercel_packer tercel_packer;
struct tercel_packer {
  /* How the node's constants are packed for this target; looks at shapes and attributes only.  *out arrives cleared. */
  tercel_status (*describe)(const tercel_packer *packer, const tercel_node *node, const tercel_target *target,
                            tercel_pack_format *out, tercel_error *err);
  /* Fills format->bytes, as describe said. */
  tercel_status (*pack)(const tercel_packer *packer, const tercel_node *node, const tercel_target *target,
                        const tercel_pack_format *format, void *out, tercel_error *err);
  /* Fills the constant `input` (of format.inputs) out of what was packed for any target.  What the name and the size say comes from a
   * file: INVALID_MODEL where they don't fit the node.  NULL where there are no such inputs. */
  tercel_status (*unpack)(const tercel_packer *packer, const tercel_node *node, const tercel_packed *packed,
                          uint32_t input, void *out, tercel_error *err);
};

/* prepare's result.  The kernel's own struct is reached through `data` (from tercel_alloc; freed by kernel->release, or by tercel_free). */
typedef struct tercel_kernel_state {
  void *data;
  tercel_packed packed;   /* filled before prepare is called, and valid as long as the state; format.bytes 0: nothing */
  size_t packed_bytes;    /* of packed constants, for reports; prepare adds what it made beside `packed` */
  uint32_t unused_inputs; /* bit i: input i was packed whole; run does not read it, and its pages need not be touched */
} tercel_kernel_state;

/* bind's result: memory from `arena`, valid as long as the binding. */
typedef struct tercel_kernel_binding {
  void *data;
  size_t
      workspace_bytes; /* 64-byte aligned scratch for run, shared by all threads of one run; contents undefined at start */
} tercel_kernel_binding;

typedef struct tercel_kernel_run {
  const tercel_node *node;
  const tercel_kernel *kernel;
  const void *state;   /* prepare's data */
  const void *binding; /* bind's data */
  size_t num_inputs, num_outputs;
  const tercel_tensor *const *in; /* NULL: absent */
  tercel_tensor *const *
      out; /* shaped, with memory; NULL: absent (nobody reads it).  May share memory with an input that `inplace` names */
  void *workspace;
  const tercel_target *target;
  tercel_pool *pool;
  tercel_arena *
      scratch; /* plain kernels' small needs; reset by the caller after the run, so that steady runs find their memory there */
  /* for kernels of data-dependent operators only: memory for a shaped output */
  tercel_status (*allocate)(void *user, size_t output, tercel_tensor *tensor, tercel_error *err);
  void *user;
} tercel_kernel_run;

struct tercel_kernel {
  const char *name;    /* "conv.depthwise"; unique in its backend */
  int op;              /* tercel_op_id */
  const void *variant; /* the kernel's own: a table entry, a level */
  /* True when the kernel can run the node as its types are known now (dims may be symbolic, constants are visible). */
  bool (*supports)(const tercel_kernel *kernel, const tercel_node *node);
  const tercel_packer *packer; /* NULL: packs nothing that may be kept */
  tercel_status (*prepare)(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                           tercel_kernel_state *out, tercel_error *err); /* may be NULL: no state */
  void (*release)(void *state_data);                                     /* NULL: tercel_free */
  /* in and out carry dtypes and shapes; data is NULL except for constants and known contents.  May be NULL: no workspace. */
  tercel_status (*bind)(const tercel_kernel *kernel, const tercel_node *node, const void *state,
                        const tercel_tensor *const *in, const tercel_tensor *const *out, const tercel_target *target,
                        tercel_arena *arena, tercel_kernel_binding *binding, tercel_error *err);
  tercel_status (*run)(const tercel_kernel_run *run, tercel_error *err);
  uint32_t inplace; /* bit i: output 0 may lie exactly on input i, when that has the same size in bytes */
  /* Nanoseconds that a run with these shapes is expected to take (cost.h); in and out as for bind.  NULL: not known, so that the order
   * of preference decides.  INFINITY: it can, but is not worth a try with these shapes. */
  double (*cost)(const tercel_kernel *kernel, const tercel_node *node, const tercel_tensor *const *in,
                 const tercel_tensor *const *out, const tercel_target *target);
  /* Kernels of a node with the same packing (not NULL) have the same prepare and release: they share one state. */
  const char *packing;
  /* Deterministic mode.  What takes the place of `supports` there: by types and shapes alone, not by level, caches, threads or batch; NULL:
   * supports is such a rule.  A kernel whose bits hang on one of those is never offered: tercel_kernel_never. */
  bool (*supports_exact)(const tercel_kernel *kernel, const tercel_node *node);
  /* Names the order in which results are added up: in deterministic mode a kernel stands in only for those of the same order.  NULL: for none. */
  const char *order;
};

static inline bool tercel_kernel_never(const tercel_kernel *kernel, const tercel_node *node) {
  (void)kernel;
  (void)node;
  return false;
}

/* Whether the kernel may run the node for a target. */
static inline bool tercel_kernel_supports(const tercel_kernel *kernel, const tercel_node *node,
                                          const tercel_target *target) {
  return (target->deterministic && kernel->supports_exact != NULL ? kernel->supports_exact : kernel->supports)(kernel,
                                                                                                               node);
}

/* Whether a kernel that may run a node too may do so instead of the first that does: results then agree within the tolerance, or in
 * deterministic mode to the last bit. */
static inline bool tercel_kernel_stands_in(const tercel_kernel *kernel, const tercel_kernel *first,
                                           const tercel_target *target) {
  if (!target->deterministic || kernel == first) return true;
  return kernel->order != NULL && first->order != NULL && strcmp(kernel->order, first->order) == 0;
}

typedef struct tercel_backend {
  const char *name; /* "cpu" */
  /* Kernel number i for the node's operator, in order of preference; NULL after the last.  Ends with the reference kernel. */
  const tercel_kernel *(*kernel)(const tercel_node *node, size_t i);
  /* Nanoseconds for so many operations of plain vector code, which read and write so many bytes. */
  double (*cost)(double flops, double bytes, int num_threads);
} tercel_backend;

/* ---- packing.c ---- */

/* Takes `given` (what was packed before; NULL: nothing) where it is packed as the kernel would, else packs; then prepares.  *out: cleared. */
tercel_status tercel_kernel_prepare(const tercel_kernel *kernel, const tercel_node *node, const tercel_target *target,
                                    const tercel_packed *given, tercel_kernel_state *out, tercel_error *err);
void tercel_kernel_release(const tercel_kernel *kernel, tercel_kernel_state *state); /* clears it */
/* Are the bytes laid out as the kernel would lay them out? */
tercel_status tercel_kernel_check_packed(const tercel_kernel *kernel, const tercel_node *node,
                                         const tercel_target *target, const tercel_packed *packed, bool *same,
                                         tercel_error *err);
/* The constant `input` of the node, whose shape its value still has, out of what the kernel packed for any target. */
tercel_status tercel_kernel_unpack(const tercel_kernel *kernel, const tercel_node *node, const tercel_packed *packed,
                                   uint32_t input, tercel_storage **out, tercel_error *err);

/* The kernel that runs any operator's reference evaluation (op->eval); the last resort of every backend.  Named "reference". */
const tercel_kernel *tercel_reference_kernel(void);

/* The CPU backend at the level in force (tercel_cpu_current). */
const tercel_backend *tercel_cpu_backend(void);
/* A tercel_eval_fn: tercel_eval_node with that backend's kernels, on this thread, where they have much to do; so that weights which a network
 * keeps in another form (8 bits and a scale) don't take seconds to fold.  Few elements are left to the reference. */
tercel_status tercel_cpu_eval_node(const tercel_node *node, const tercel_tensor *const *in, tercel_tensor *out,
                                   tercel_storage **storages_out, tercel_error *err);
/* The same for deterministic mode: by the kernel that a run would take, however few the elements are. */
tercel_status tercel_cpu_eval_node_exact(const tercel_node *node, const tercel_tensor *const *in, tercel_tensor *out,
                                         tercel_storage **storages_out, tercel_error *err);

#endif
