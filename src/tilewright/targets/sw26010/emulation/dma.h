/* Emulated <dma.h>: waiting for replies. */
#ifndef TW_EMULATED_DMA_H
#define TW_EMULATED_DMA_H

#include "tw_emulation.h"

#define dma_wait(reply, count) tw_wait(__FILE__, __LINE__, reply, count)

#endif
