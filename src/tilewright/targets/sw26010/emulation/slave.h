/* Emulated <slave.h>: what the cores call. */
#ifndef TW_EMULATED_SLAVE_H
#define TW_EMULATED_SLAVE_H

#include "tw_emulation.h"

typedef enum { PE_MODE, BCAST_MODE, ROW_MODE, BROW_MODE, RANK_MODE } dma_mode;
enum { ROW_SCOPE, COL_SCOPE, ARRAY_SCOPE };

#define __thread_local static __attribute__((unavailable("cores share statics here: ldm_malloc")))
#define _MYID (tw_core_id())
#define _PEN (tw_core_id())
#define _ROW (tw_core_id() / TW_COLUMNS)
#define _COL (tw_core_id() % TW_COLUMNS)

#define athread_get_id(thread) ((void)(thread), tw_core_id())
#define ldm_malloc(bytes) tw_ldm_malloc(__FILE__, __LINE__, bytes)
#define ldm_free(pointer, bytes) tw_ldm_free(__FILE__, __LINE__, pointer, bytes)
#define athread_get(mode, source, target, size, reply, mask, stride, block) \
    ((void)(mask), tw_get(__FILE__, __LINE__, mode, source, target, size, reply, stride, block))
#define athread_put(mode, source, target, size, reply, stride, block) \
    tw_put(__FILE__, __LINE__, mode, source, target, size, reply, stride, block)
#define athread_syn(scope, mask) tw_synchronise(__FILE__, __LINE__, scope, mask)

#endif
