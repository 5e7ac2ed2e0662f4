/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/protocol/server_error.h"

#include <stddef.h>

#include "base/error.h"
#include "store/redis/protocol/error_line.h"

#define SAID_MAX 240

typedef struct known_error {
    const char *text;
    hf_result result;
    const char *advice;
} known_error;

/* By error code. HF_UNREACHABLE is worth another try, the others are final. */
static const known_error words[] = {
    {"NOAUTH", HF_REFUSED,
     "the server requires a password: put it in the URL or use password_file"},
    {"WRONGPASS", HF_REFUSED, "check user and password in the URL or in password_file"},
    {"DENIED", HF_REFUSED, "the server is in protected mode: set a password or bind address"},
    {"READONLY", HF_REFUSED, "this is a read-only replica: point the URL at the primary"},
    {"OOM", HF_REFUSED, "the server is out of memory: raise maxmemory or free some"},
    {"MISCONF", HF_REFUSED, "the server cannot save to disk and refuses writes: see its log"},
    {"WRONGTYPE", HF_PROTOCOL,
     "the key of the lock, hf:{NAME}, or of its fence, hf:{NAME}:f, holds something else: use "
     "another name or prefix, or delete the key"},
    {"HFFENCE", HF_PROTOCOL,
     "the lock's fence key holds something else: use another name or prefix, or delete the key"},
    {"LOADING", HF_UNREACHABLE, "the server is loading its data: try again later"},
    {"BUSY", HF_UNREACHABLE, "the server is busy with a slow script: SCRIPT KILL ends it"},
    {"NOREPLICAS", HF_UNREACHABLE,
     "the server has too few replicas in sync to accept writes: see min-replicas-to-write"},
    {"MASTERDOWN", HF_UNREACHABLE, "the replica has lost its primary: point the URL at a primary"},
    {"TRYAGAIN", HF_UNREACHABLE, "the slot is being moved: try again"},
    {"CLUSTERDOWN", HF_UNREACHABLE, "the cluster is down: see CLUSTER INFO"},
    {"MOVED", HF_UNSUPPORTED, "the server is part of a cluster: use redis+cluster://"},
    {"ASK", HF_UNSUPPORTED, "the server is part of a cluster: use redis+cluster://"},
};

/* Errors without a code of their own. */
static const known_error phrases[] = {
    {"max number of clients", HF_UNREACHABLE, "raise maxclients, or close connections"},
    {"invalid password", HF_REFUSED, "check the password in the URL or in password_file"},
    {"without any password configured", HF_REFUSED,
     "the server has no password: leave it out of the URL"},
    {"no password is set", HF_REFUSED, "the server has no password: leave it out of the URL"},
    {"DB index is out of range", HF_INVALID,
     "the server has fewer databases: use a lower number in the URL"},
    {"cluster support disabled", HF_INVALID,
     "this server is not part of a cluster: use redis:// or rediss://"},
    {"unknown command", HF_UNSUPPORTED, "Holdfast needs Redis 6.2 or later, or Valkey"},
    {"command called from", HF_UNSUPPORTED, "Holdfast needs Redis 6.2 or later, or Valkey"},
};

static const known_error *find_known_error(const hf__error_line *error) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (hf__error_has_code(error, words[i].text)) return &words[i];
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
        if (hf__error_says(error, phrases[i].text)) return &phrases[i];
    return NULL;
}

hf_result hf__server_error(const char *line, const char *where, char **detail) {
    hf__error_line error = hf__error_unwrap(line);
    int length = error.length > SAID_MAX ? SAID_MAX : error.length;
    const known_error *known = find_known_error(&error);
    if (known)
        *detail = hf__line("%s: %.*s (%s)", where, length, error.text, known->advice);
    else
        *detail = hf__line("%s: the server said: %.*s", where, length, error.text);
    return known ? known->result : HF_PROTOCOL;
}
