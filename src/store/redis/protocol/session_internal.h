/*
 * Between the files of a session, which is too much for one: its operations and connections (session.c),
 * logging in (login.c), what it hears unasked (messages.c) and what answers mean (answer.c).
 */
#ifndef HF_STORE_REDIS_PROTOCOL_SESSION_INTERNAL_H
#define HF_STORE_REDIS_PROTOCOL_SESSION_INTERNAL_H

#include "store/redis/protocol/session.h"

#define TIME_MAX_US (INT64_C(1) << 53) /* what a script's numbers hold exactly; the year 2255 */

/* ---- session.c ---- */

/* Of an operation and those that were asked together with it. Takes the detail. */
void hf__session_complete(hf__session *s, hf__op *op, hf_result result, bool maybe, char *detail);

/* To the end of the line. */
void hf__session_send(hf__session *s, hf__op *op, bool whole, hf__time now);

/* The oldest that was sent. */
hf__op *hf__session_take_first(hf__session *s);

/* What was asked with a release is told apart from it. */
hf__op *hf__session_take_next(hf__op *op);

void hf__session_note_time(hf__session *s, int64_t server_us, hf__time sent_at, hf__time now);
hf_result hf__session_not_redis(const hf__session *s, char **detail);

/* What an error means, of an operation (NULL: of the login), and a line for a person. */
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

/* Of what the parser has read. */
hf_result hf__session_answer(hf__session *s, hf__time now, char **detail);

#endif
