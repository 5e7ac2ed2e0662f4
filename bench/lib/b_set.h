/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Additional private servers: a primary with a replica and a Sentinel that watches it, and a server
 * with TLS and certificates of its own. They end with the program.
 */
#ifndef B_SET_H
#define B_SET_H

/* Call it from the main thread. `certificates` is the script that makes them. */
void b_set_start(const char *certificates);
void b_set_end(void); /* removes their files */

/* Each lives until the program ends. */
const char *b_set_tls_url(void);
const char *b_set_sentinel_url(void);
const char *b_set_replica_url(void); /* one replica must confirm each acquire */

#endif
