/* base: what every room stands on.  Knows libc and tercel.h only.
 * Include this, not the single headers. */
#ifndef TERCEL_BASE_BASE_H
#define TERCEL_BASE_BASE_H

#include "base/alloc.h"   /* all heap memory goes through here; arenas by lifetime */
#include "base/checked.h" /* size arithmetic that notices overflow */
#include "base/cpu.h"     /* instruction-set levels, caches, quota */
#include "base/file.h"    /* mapped files, atomic writes, paths that may not leave a folder */
#include "base/half.h"    /* f16, bf16, float8, float6, float4 and packed 4- and 2-bit integers */
#include "base/log.h"
#include "base/map.h"      /* string and integer hash maps */
#include "base/mathd.h"    /* exp, sin, ... with the same bits on every machine */
#include "base/pool.h"     /* threads */
#include "base/problems.h" /* what is wrong with a model, collected */
#include "base/protobuf.h" /* wire format, read in place */
#include "base/status.h"   /* tercel_fail, TERCEL_TRY */
#include "base/text.h"     /* growing text buffer; numbers in the C locale */
#include "base/time.h"

#endif
