#include "b_plain.h"

#include <stdio.h>
#include <stdlib.h>

#include "b_report.h"
#include "store/redis/script.h"

/* As many digits as the library's have, in the middle of a run. */
#define NUMBER "40000"
#define LEASE  "30000"
#define KEPT   "86400000"
#define SEEN   "1700000000000000"
#define LATEST "4000000000000000"

void b_plain_init(b_plain *p, b_transport transport, const char *name) {
    if (snprintf(p->key, sizeof p->key, "hf:{%s}", name) >= (int)sizeof p->key ||
        snprintf(p->fence, sizeof p->fence, "hf:{%s}:f", name) >= (int)sizeof p->fence)
        b_fail("the name %s is too long", name);
    p->c = b_redis_connect(transport);
    free(b_script_load(p->c, hf__script_acquire.text));
    free(b_script_load(p->c, hf__script_release.text));
    const char *acquire[] = {"EVALSHA", hf__script_acquire.sha1,
                             "2",       p->key,
                             p->fence,  B_CLIENT,
                             NUMBER,    "t1",
                             LEASE,     LATEST,
                             SEEN,      KEPT,
                             NULL};
    const char *release[] = {
        "EVALSHA", hf__script_release.sha1, "2", p->key, p->fence, B_CLIENT, NUMBER, "0", KEPT,
        NULL};
    p->acquire = b_command_make(acquire);
    p->release = b_command_make(release);
}

void b_plain_fini(b_plain *p) {
    redisFree(p->c);
}

void b_plain_pair(void *plain) {
    b_plain *p = plain;
    b_command_run(p->c, &p->acquire, 1);
    b_command_run(p->c, &p->release, 1);
}
