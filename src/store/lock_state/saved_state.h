/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock state as bytes, so that a database row, a value of a key or a file can hold it. The format
 * is described in saved_state.c.
 *
 * A store that keeps states in this form executes an operation in three steps, without a lock of
 * its own:
 *
 *   read the bytes, and the engine's version of them
 *   hf__lock_state_load          no bytes: a state that is all zero, which is a free lock
 *   hf__lock_state_apply         with the server's time, and the maxima below
 *   hf__lock_state_save
 *   write the bytes if the engine still has that version; otherwise begin again, with the operation
 *       as it was before: apply has changed it
 *   answer the operation, and notify the clients of the effects (operations.h)
 *
 * Nothing is answered or notified before the bytes are written. Equal states have equal bytes. So
 * if the bytes have not changed, nothing needs to be written.
 *
 * If the outcome of a write is unknown, and the engine then has the bytes that were to be written,
 * the write took place. Otherwise begin again: an ACQUIRE or RENEW that is executed twice acts
 * once, and a RELEASE is then `retried`. Effects of the first write may go unnoticed; waiters find
 * out when they repeat their acquire.
 *
 * A write that arrives late does no harm, because the version has changed. So there are no
 * tombstones.
 *
 * A lock that is not in use still needs its last token. The store may delete the bytes only when no
 * client can hold a higher token than the next one: see hf__token_next.
 */
#ifndef HF_STORE_LOCK_STATE_SAVED_STATE_H
#define HF_STORE_LOCK_STATE_SAVED_STATE_H

#include "base/buffer.h"
#include "store/lock_state/lock_state.h"

/* The holders and then the waiters follow the head, in slots of one size. So an engine may also
   keep them apart, and move or append a slot without loading the state. */
#define HF__SAVED_HEAD        24
#define HF__SAVED_SLOT        96
#define HF__SAVED_HOLDERS_MAX 1024
#define HF__SAVED_WAITERS_MAX 1024
#define HF__SAVED_MAX \
    (HF__SAVED_HEAD + (HF__SAVED_HOLDERS_MAX + HF__SAVED_WAITERS_MAX) * HF__SAVED_SLOT)

/* Append the bytes of a state; if that fails, nothing is appended. HF_NOMEM: there is no memory, or
   the state has more holders or waiters than a saved one may have. HF_INVALID: a value in it is
   beyond the limits of the format, for example a token from 2^63 up. */
hf_result hf__lock_state_save(const hf__lock_state *state, hf__buffer *out);

/* Make a state from its bytes; hf__lock_state_fini frees it. If the result is not HF_OK, `state` is
   that of an unused lock, which must not be taken for a free one, and `problem` says what is wrong,
   to follow "the lock".
   HF_PROTOCOL: these are not the bytes of a state, or some are missing or changed.
   HF_UNSUPPORTED: a newer version has written them. HF_NOMEM. */
hf_result hf__lock_state_load(hf__lock_state *state, const void *bytes, size_t length,
                              const char **problem);

#endif
