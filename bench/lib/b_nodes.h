/* SPDX-License-Identifier: Apache-2.0 */
/* Additional private servers, TCP only, not connected to each other: the nodes of a quorum. */
#ifndef B_NODES_H
#define B_NODES_H

#define B_NODES_MAX 9

/* After b_redis_start, from the main thread. They end with the program. */
void b_nodes_start(int count);

/* A URL with the first `count` nodes. Lives until the next call. */
const char *b_nodes_url(int count);

#endif
