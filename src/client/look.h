/* Operations that concern no hold of ours: looking and breaking. */
#ifndef HF_CLIENT_LOOK_H
#define HF_CLIENT_LOOK_H

#include "core/core.h"

/* Finish the call behind such an operation; false if it is the core's. */
bool hf__look_complete(hf__core *core, hf__op *op);

#endif
