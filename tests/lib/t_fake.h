/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that follows a script, for answers that no real server can be made to give.
 *
 * One step a line. Blank lines and lines that begin with # are skipped.
 *
 *     EXPECT text          read one command. Its arguments, joined by spaces, must contain the text
 *                          in any case; unprintable bytes are written as \xHH
 *     EXPECT_ANY           read one command
 *     EXPECT_CLOSE         read and ignore all bytes until the client closes the connection
 *     SEND bytes           with \r \n \t \\ \xHH, and
 *                            \T   this machine's time in microseconds (16 digits), \M in
 *                                 milliseconds (13 digits), by the wall clock as a server's TIME
 *                            \{n} argument n of the last command read (0 is its name)
 *     SEND_BYTES_SLOWLY ms bytes    one byte at a time, this many milliseconds apart
 *     HANDSHAKE            answer a client's login as a server would, until EVAL, EVALSHA or FCALL
 *                          arrives, which is left for the next EXPECT
 *     ACCEPT               wait for one more connection; the next steps use it. The first one
 *                          is accepted without this step. Earlier ones stay open
 *     USE n                the next steps use the n-th connection (the first is 1)
 *     CLOSE, RESET         end the connection
 *     REFUSE               close the port
 *     SLEEP ms
 *     LOOP [n] … END       n times, or forever; the script may stay in an endless loop
 *
 * After its last step the script leaves connections open until t_fake_free. If the client does not
 * follow the script, all connections are reset, so that the client need not wait for its timeout.
 */
#ifndef T_FAKE_H
#define T_FAKE_H

#include <stdint.h>

typedef struct t_fake t_fake;

/* Steps are checked here: a mistake in the script fails the test at once. */
t_fake *t_fake_start(const char *script);
uint16_t t_fake_port(const t_fake *fake);
const char *t_fake_url(const t_fake *fake); /* "redis://127.0.0.1:PORT" */

/* Wait for the end of the script. If it was not followed, fail with step, line and the actual
   input. */
void t_fake_join(t_fake *fake, int64_t deadline_ms);
void t_fake_free(t_fake *fake); /* at any time; NULL is allowed */

#endif
