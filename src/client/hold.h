/* Handles, as far as the rest of the client needs them. */
#ifndef HF_CLIENT_HOLD_H
#define HF_CLIENT_HOLD_H

#include "core/core.h"

/* Free a handle that nobody else has a reference to, with its references to own and client. */
void hf__hold_free(hf_hold *hold);

#endif
