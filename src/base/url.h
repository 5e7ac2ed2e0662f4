/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Store URLs, parsed and checked. A malformed URL or an unknown option gives a clear error line. No
 * line ever shows a credential of the URL, whichever part contains it.
 */
#ifndef HF_BASE_URL_H
#define HF_BASE_URL_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast.h"

#define HF__URL_MAX      4096 /* bytes of a URL, and therefore of each part */
#define HF__PASSWORD_MAX 1024
#define HF__PREFIX_MAX   64
#define HF__LABEL_MAX    128

typedef enum hf__scheme {
    HF__SCHEME_MEMORY,
    HF__SCHEME_FILE,
    HF__SCHEME_REDIS,
    HF__SCHEME_REDIS_TLS,
    HF__SCHEME_REDIS_UNIX,
    HF__SCHEME_SENTINEL,
    HF__SCHEME_SENTINEL_TLS,
    HF__SCHEME_QUORUM,
    HF__SCHEME_QUORUM_TLS,
    HF__SCHEME_CLUSTER,
    HF__SCHEME_CLUSTER_TLS
} hf__scheme;

#define HF__HOSTS_MAX 9

typedef struct hf__host {
    char *name;
    int32_t port;
} hf__host;

/* Strings are on the heap. They are NULL if the URL had none, except those with a default. */
typedef struct hf__url {
    hf__scheme scheme;
    char *user, *password; /* decoded */
    char *host;            /* redis; default localhost */
    char *path;            /* redis+unix: the socket; memory: the space; file: the directory */
    char *prefix;          /* default hf */
    char *label, *password_file;
    char *tls_ca, *tls_cert, *tls_key;
    /* redis+sentinel: the Sentinels; redis+quorum: the nodes; redis+cluster: the nodes to connect
       to first. A host without a name ends the list. */
    hf__host hosts[HF__HOSTS_MAX];
    char *primary; /* redis+sentinel: the name of the primary there */
    char *sentinel_user, *sentinel_password, *sentinel_password_file;
    int32_t port, db;
    int32_t replicas; /* redis: how many replicas must confirm a grant; 0: none */
    bool tls_verify_none, network_allowed;
    bool in_cluster; /* redis: a node of a cluster; set by the cluster store, not by a URL */
    int64_t lease_ms, connect_timeout_ms, command_timeout_ms, outage_ms, keep_ms; /* 0: not given */
    int64_t rejoin_delay_ms; /* redis+quorum; 0: HF__REJOIN_DELAY_MS */
} hf__url;

/* The default is the same for every client of a quorum, whatever its lease: see docs/QUORUM.md. A
   delay below the second value does not wait for leases to end: it declares that the nodes never
   lose their data. */
#define HF__REJOIN_DELAY_MS     30000
#define HF__REJOIN_FORGETFUL_MS 1000

/* HF_OK, HF_INVALID, HF_UNSUPPORTED (a scheme that this build lacks) or HF_NOMEM, with the detail
   set. hf__url_fini is required in every case. */
hf_result hf__url_parse(hf__url *url, const char *text);
void hf__url_fini(hf__url *url);

/*
 * The part of a URL that may be shown: the URL without user, password and other credentials.
 * Messages show only this part. For a malformed URL it is only the scheme and HF__URL_HIDDEN. In
 * new memory; NULL: out of memory. Sets hf_error_detail if the URL is malformed.
 */
#define HF__URL_HIDDEN "***"
char *hf__url_shown(const char *text);

/* Remove an option from the URL, in place. */
void hf__url_drop_option(char *url, const char *name);

/* "500ms", "30s", "5m", "1h" to milliseconds; false for anything else, and for zero. */
bool hf__duration_parse(const char *text, int64_t *ms);

#endif
