/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared between the files of a session: operations and connections (session.c), the login
 * (login.c), received messages (messages.c) and answers (answer.c).
 */
#ifndef HF_STORE_REDIS_PROTOCOL_SESSION_INTERNAL_H
#define HF_STORE_REDIS_PROTOCOL_SESSION_INTERNAL_H

#include "store/redis/protocol/session.h"

#define TIME_MAX_US (INT64_C(1) << 53) /* numbers that Lua holds exactly; the year 2255 */

/* ---- session.c ---- */

/* Completes an operation and those that were sent together with it. Takes ownership of `detail`. */
void hf__session_complete(hf__session *s, hf__op *op, hf_result result, bool maybe, char *detail);

/* Sends an operation, behind those in flight. */
void hf__session_send(hf__session *s, hf__op *op, bool whole, hf__time now);

/* Removes the oldest operation in flight and returns it. */
hf__op *hf__session_take_first(hf__session *s);

/* Detaches the acquire that was sent with a release, to be completed by itself. */
hf__op *hf__session_take_next(hf__op *op);

void hf__session_note_time(hf__session *s, int64_t server_us, hf__time sent_at, hf__time now);
hf_result hf__session_not_redis(const hf__session *s, char **detail);

/* The result for a server's error to an operation (NULL: to the login), and a message for users. */
hf_result hf__session_error(const hf__session *s, const hf__op *op, const char *error,
                            char **detail);

/* ---- login.c ---- */

void hf__login_send(hf__session *s, const char *password);
hf_result hf__login_answer(hf__session *s, hf__time now, char **detail);

/* ---- messages.c ---- */

hf_result hf__messages_begin(hf__session *s, hf__time now, char **detail);
hf_result hf__messages_push(hf__session *s, hf__time now, char **detail);
void hf__messages_ping(hf__session *s, hf__time now);

/* ---- answer.c ---- */

/* Handles the reply that the parser has just read. */
hf_result hf__session_answer(hf__session *s, hf__time now, char **detail);

#endif
