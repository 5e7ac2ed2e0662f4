/* That a node of a cluster turned a command away, and where to: of its error line. Nothing was done then. */
#ifndef HF_STORE_REDIS_PROTOCOL_REDIRECT_H
#define HF_STORE_REDIS_PROTOCOL_REDIRECT_H

#include "store/store.h"

/* Whether it says so; what it says is in redirect->kind and ->to. */
bool hf__redirect_parse(const char *error, hf__redirect *redirect);

#endif
