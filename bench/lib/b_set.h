/*
 * Further private servers: a primary with a replica and a Sentinel that watches it, and one that speaks TLS,
 * with certificates made for it. They end with the program.
 */
#ifndef B_SET_H
#define B_SET_H

/* From the main thread. `certificates` is the script that makes them. */
void b_set_start(const char *certificates);
void b_set_end(void); /* what they left on the disk goes */

/* Each lives until the program ends. */
const char *b_set_tls_url(void);
const char *b_set_sentinel_url(void);
const char *b_set_replica_url(void); /* which one replica must confirm */

#endif
