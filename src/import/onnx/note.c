/* Errors of single things become notes, so that an import goes on and all of them are told at once. */
#include <stdarg.h>
#include <stdio.h>

#include "import/onnx/onnx.h"

/* ---- labels ------------------------------------------------------------------------------------------------------ */

const char *tercel_onnx_op_label(tercel_onnx *o, const tercel_onnx_node *node) {
  if (tercel_onnx_same_domain(node->domain, "")) return node->op_type;
  const char *const label = tercel_arena_printf(&o->arena, "%s.%s", node->domain, node->op_type);
  return label ? label : node->op_type;
}

const char *tercel_onnx_own_name(const tercel_onnx_node *node) {
  if (node->name[0]) return node->name;
  for (size_t i = 0; i < node->outputs.count; i++)
    if (node->outputs.items[i][0]) return node->outputs.items[i];
  return node->op_type;
}

const char *tercel_onnx_node_label(tercel_onnx *o, const tercel_onnx_frame *frame, const tercel_onnx_node *node) {
  const char *const name = tercel_onnx_own_name(node);
  const char *const label = frame->prefix[0] ? tercel_arena_printf(&o->arena, "%s%s", frame->prefix, name) : name;
  return label ? label : name;
}

/* ---- notes ------------------------------------------------------------------------------------------------------- */

static bool is_the_files_fault(tercel_status status) {
  return status == TERCEL_UNSUPPORTED || status == TERCEL_INVALID_MODEL || status == TERCEL_IO;
}

tercel_status tercel_onnx_note(tercel_onnx *o, tercel_problem_kind kind, const tercel_onnx_frame *frame,
                               const tercel_onnx_node *node, const char *advice, tercel_status status,
                               tercel_error *err) {
  if (status == TERCEL_OK) return TERCEL_OK;
  const char *const op = node ? tercel_onnx_op_label(o, node) : NULL;
  const char *const name = node ? tercel_onnx_node_label(o, frame, node) : NULL;
  if (!is_the_files_fault(status)) return node ? tercel_fail_at(err, status, "%s '%s'", op, name) : status;
  const tercel_problem problem = {.level = TERCEL_CHECK_ERROR,
                                  .status = status,
                                  .kind = kind,
                                  .op = op,
                                  .node = name,
                                  .message = err->message,
                                  .advice = advice};
  return tercel_problems_add(o->problems, &problem, err);
}

tercel_status tercel_onnx_warn(tercel_onnx *o, tercel_problem_kind kind, const char *advice, tercel_error *err,
                               const char *format, ...) {
  char message[TERCEL_ERROR_MESSAGE_MAX];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  tercel_log(TERCEL_LOG_WARNING, "%s", message);
  const tercel_problem problem = {.level = TERCEL_CHECK_WARNING, .kind = kind, .message = message, .advice = advice};
  return tercel_problems_add(o->problems, &problem, err);
}
