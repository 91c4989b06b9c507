/* ir: the graph and what it is made of.  Knows base.  Include this, not the single headers. */
#ifndef TERCEL_IR_IR_H
#define TERCEL_IR_IR_H

#include "ir/attr.h"    /* attributes of nodes */
#include "ir/dim.h"     /* dimensions: numbers, symbols, small expressions */
#include "ir/dtype.h"   /* element types */
#include "ir/graph.h"   /* values, nodes, graphs; edit and verify */
#include "ir/op.h"      /* what an operator is; the set of them lives in ops/ */
#include "ir/program.h" /* pointwise programs */
#include "ir/tensor.h"  /* tensors and the storage behind them */
#include "ir/text.h"    /* print and parse */

#endif
