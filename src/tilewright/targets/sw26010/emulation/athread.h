/* Emulated <athread.h>: what the managing core calls. */
#ifndef TW_EMULATED_ATHREAD_H
#define TW_EMULATED_ATHREAD_H

#include "tw_emulation.h"

#define SLAVE_FUN(function) function
#define athread_init() tw_initialise()
#define athread_spawn(function, argument) tw_spawn(function, argument)
#define athread_join() ((void)0)
#define athread_halt() ((void)0)

#endif
