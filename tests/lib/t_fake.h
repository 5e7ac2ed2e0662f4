/*
 * A server that follows a script, for what no real one can be made to answer.
 *
 * One step a line; blank lines and lines that begin with # are skipped:
 *
 *     EXPECT text          read one command; its arguments, joined by spaces, contain the text,
 *                          whatever the case; bytes that are not printable count as \xHH
 *     EXPECT_ANY           read one command
 *     EXPECT_CLOSE         read and ignore all until the client closes or resets the connection
 *     SEND bytes           with \r \n \t \\ \xHH, and
 *                            \T   this machine's time in microseconds (16 digits), \M in
 *                                 milliseconds (13 digits), by the wall clock as a server's TIME
 *                            \{n} argument n of the last command read (0 is its name)
 *     SEND_BYTES_SLOWLY ms bytes    one at a time, so many milliseconds apart
 *     HANDSHAKE            answer as a server would whatever a client asks to log in, until EVAL,
 *                          EVALSHA or FCALL comes: that is left for the next EXPECT
 *     ACCEPT               wait for one more connection; the steps that follow are about it. The
 *                          first is accepted without being asked for. Earlier ones stay open
 *     USE n                the steps that follow are about the n-th connection (1 the first)
 *     CLOSE, RESET         end the connection
 *     REFUSE               close the port
 *     SLEEP ms
 *     LOOP [n] … END       n times, or for ever, which the script then may be left in
 *
 * At its end the script leaves connections as they are, until t_fake_free. If the client does not
 * follow it, all connections are reset, so that the client need not wait for its timeout.
 */
#ifndef T_FAKE_H
#define T_FAKE_H

#include <stdint.h>

typedef struct t_fake t_fake;

/* Steps are checked here: a mistake in the script fails the test at once. */
t_fake *t_fake_start(const char *script);
uint16_t t_fake_port(const t_fake *fake);
const char *t_fake_url(const t_fake *fake); /* "redis://127.0.0.1:PORT" */

/* Wait for the script's end. Fails with step, line and what came instead if it was not followed. */
void t_fake_join(t_fake *fake, int64_t deadline_ms);
void t_fake_free(t_fake *fake); /* at any time; NULL is allowed */

#endif
