/* SPDX-License-Identifier: Apache-2.0 */
/* The lost-update run: the data that its processes share. See lostupdate.c. */
#ifndef HF_LOSTUPDATE_H
#define HF_LOSTUPDATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    CLIENTS = 5,
    VERSIONS_MAX = 1 << 19, /* of a register in one run */
    HOLDS_MAX = 1 << 16,    /* of a client in one run */
    LEASE_MS = 2000
};

/* Two registers get the same updates: OPEN accepts every write, FENCED checks tokens. */
enum { OPEN, FENCED, REGISTERS };

/* The value of a register is the set of all updates in it. A client reads it, adds its own update,
   and writes back the whole. So a version contains all updates of the version it was based on, and
   one more. The register stores which version each was based on. */
typedef struct reg {
    uint32_t current;              /* version, 0: empty */
    uint32_t versions;             /* versions written, that is, acknowledged */
    uint64_t highest;              /* highest token seen */
    uint32_t refused;              /* reads and writes with a lower token */
    uint32_t parent[VERSIONS_MAX]; /* the version that each was based on */
} reg;

/* A hold as its client sees it: from the return of the acquire until the release or its
   deadline. */
typedef struct hold_span {
    int64_t from_us, to_us;
    uint64_t token;
} hold_span;

typedef struct updater {
    int32_t stays;
    int32_t troubled; /* acquires that failed */
    int32_t lost;     /* holds that were lost */
    int32_t unsure;   /* checks that said "not held": nothing was written */
    hold_span stay[HOLDS_MAX];
} updater;

typedef struct shared {
    atomic_bool over;
    char url[2048];
    reg registers[REGISTERS];
    updater visitors[CLIENTS];
    int sockets[CLIENTS][2]; /* to the resource; its own end is second */
} shared;

/* The resource: a process that applies one request after the other. It ends when all clients
   have. */
int resource_main(void *arg);

/* Requests of a client. False: refused. A read returns the version to base a write on. */
bool resource_read(int fd, int which, uint64_t token, uint32_t *version);
bool resource_write(int fd, int which, uint64_t token, uint32_t base);

/* How many acknowledged updates of a register are missing from its final value. */
uint32_t resource_lost(const reg *r);

/* One of the processes that update the registers. */
typedef struct client_arg {
    shared *s;
    int index;
} client_arg;
int client_main(void *arg);

/* A kind of store, and how to start and end its servers. */
typedef struct place {
    const char *name;
    const char *(*start)(void); /* returns the URL, with options */
    void (*end)(void);
} place;
extern const place places[];

#endif
