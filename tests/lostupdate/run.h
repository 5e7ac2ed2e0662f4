/*
 * The lost-update run: what its processes share. See lostupdate.c.
 */
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

/* Two registers get the same updates: one believes everybody, the other checks tokens. */
enum { OPEN, FENCED, REGISTERS };

/*
 * A register's value is the set of all updates in it. A client reads it, adds its own, and writes the whole back: so a write
 * stands for "what was in the version I read, and mine". Kept is who was based on whom.
 */
typedef struct reg {
    uint32_t current;              /* version, 0: empty */
    uint32_t versions;             /* so many were written, that is acknowledged */
    uint64_t highest;              /* token seen */
    uint32_t refused;              /* reads and writes with a lower one */
    uint32_t parent[VERSIONS_MAX]; /* the version that each was based on */
} reg;

/* A hold, by its own client: inside from when the acquire had returned until it let go or its deadline came. */
typedef struct stay {
    int64_t from_us, to_us;
    uint64_t token;
} stay;

typedef struct visitor {
    int32_t stays;
    int32_t troubled; /* acquires that failed */
    int32_t lost;     /* holds that were found lost */
    int32_t unsure;   /* checks that said no: nothing was written */
    stay stay[HOLDS_MAX];
} visitor;

typedef struct shared {
    atomic_bool over;
    char url[2048];
    reg registers[REGISTERS];
    visitor visitors[CLIENTS];
    int sockets[CLIENTS][2]; /* to the resource; its own end second */
} shared;

/* The resource: a process that applies one request after the other; it ends when all clients have. */
int resource_main(void *arg);

/* A client of it. False: refused. A read gives the version to base a write on. */
bool resource_read(int fd, int which, uint64_t token, uint32_t *version);
bool resource_write(int fd, int which, uint64_t token, uint32_t base);

/* Of all acknowledged updates of a register, how many are not in its final value. */
uint32_t resource_lost(const reg *r);

/* One of the processes that update it. */
typedef struct client_arg {
    shared *s;
    int index;
} client_arg;
int client_main(void *arg);

/* Servers. */
typedef struct place {
    const char *name;
    const char *(*start)(void); /* its URL, with options */
    void (*end)(void);
} place;
extern const place places[];

#endif
