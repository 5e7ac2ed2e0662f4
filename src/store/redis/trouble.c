#include "store/redis/trouble.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"

#define SAID_MAX 240

typedef struct trouble {
    const char *text;
    hf_result result;
    const char *advice;
} trouble;

/* By the first word of the error. HF_UNREACHABLE is worth trying again, the others are final. */
static const trouble words[] = {
    {"NOAUTH", HF_REFUSED, "the server wants a password: give one in the URL or by password_file"},
    {"WRONGPASS", HF_REFUSED, "check user and password, in the URL or its password_file"},
    {"DENIED", HF_REFUSED, "the server is in protected mode: set a password or bind address"},
    {"READONLY", HF_REFUSED, "this is a read-only replica: point the URL at the primary"},
    {"OOM", HF_REFUSED, "the server is out of memory: raise maxmemory or free some"},
    {"MISCONF", HF_REFUSED, "the server cannot save to its disk and refuses writes: see its log"},
    {"WRONGTYPE", HF_PROTOCOL,
     "the lock's key or its fence, hf:{NAME} and hf:{NAME}:f, holds something else: use another "
     "name "
     "or prefix, or delete the key"},
    {"HFFENCE", HF_PROTOCOL,
     "the lock's fence key holds something else: use another name or prefix, or delete the key"},
    {"LOADING", HF_UNREACHABLE, "the server is loading its data"},
    {"BUSY", HF_UNREACHABLE, "the server runs a slow script; SCRIPT KILL ends it"},
    {"NOREPLICAS", HF_UNREACHABLE,
     "the server has too few replicas in sync to write: see min-replicas-to-write"},
    {"MASTERDOWN", HF_UNREACHABLE, "the replica has lost its primary"},
    {"TRYAGAIN", HF_UNREACHABLE, "the slot is being moved"},
    {"CLUSTERDOWN", HF_UNREACHABLE, "the cluster is down"},
    {"MOVED", HF_UNSUPPORTED, "the server is part of a cluster: use redis+cluster://"},
    {"ASK", HF_UNSUPPORTED, "the server is part of a cluster: use redis+cluster://"},
};

/* Errors that have no word of their own. */
static const trouble phrases[] = {
    {"max number of clients", HF_UNREACHABLE, "raise maxclients, or close connections"},
    {"invalid password", HF_REFUSED, "check the password of the URL"},
    {"without any password configured", HF_REFUSED,
     "the server has no password: leave it out of the URL"},
    {"no password is set", HF_REFUSED, "the server has no password: leave it out of the URL"},
    {"DB index is out of range", HF_INVALID,
     "the server has fewer databases than the URL asks for"},
    {"cluster support disabled", HF_INVALID,
     "this server is no node of a cluster: use redis:// or rediss://"},
    {"unknown command", HF_UNSUPPORTED, "Holdfast needs Redis 6.2 or later, or Valkey"},
};

/* An error inside a script comes first in the line, or before Redis 7 behind the script's place. */
static bool has_word(const char *error, const char *word) {
    size_t length = strlen(word);
    if (!strncmp(error, word, length) && (error[length] == ' ' || !error[length])) return true;
    const char *inside = strstr(error, "@user_script");
    const char *found = inside ? strstr(inside, word) : NULL;
    return found && found[-1] == ' ' && found[length] == ' ';
}

/* Redis adds where in which script it was, which nobody can act on; and to a command that it does not
   know the arguments, which may be a password. */
static int useful_length(const char *error) {
    const char *script = strstr(error, " script: "), *echo = strstr(error, ", with args");
    size_t length = script ? (size_t)(script - error) : strlen(error);
    if (echo && (size_t)(echo - error) < length) length = (size_t)(echo - error);
    return length > SAID_MAX ? SAID_MAX : (int)length;
}

static const trouble *find(const char *error) {
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (has_word(error, words[i].text)) return &words[i];
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
        if (strstr(error, phrases[i].text)) return &phrases[i];
    return NULL;
}

hf_result hf__trouble(const char *error, const char *where, char **detail) {
    int length = useful_length(error);
    const trouble *known = find(error);
    if (known)
        *detail = hf__line("%s: %.*s (%s)", where, length, error, known->advice);
    else
        *detail = hf__line("%s: the server said: %.*s", where, length, error);
    return known ? known->result : HF_PROTOCOL;
}
