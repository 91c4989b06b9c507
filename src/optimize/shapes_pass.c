/* Types, shapes and contents are inferred again, now that more is constant. */
#include "optimize/optimize.h"

tercel_status tercel_pass_shapes(tercel_graph *graph, tercel_pass_context *context, tercel_error *err) {
  (void)context;                                                       /* it changes no node */
  return graph->parent ? TERCEL_OK : tercel_infer_changed(graph, err); /* subgraphs with the nodes that hold them */
}
