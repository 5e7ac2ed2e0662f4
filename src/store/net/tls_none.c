/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces tls.c in a build without TLS (HOLDFAST_TLS=OFF): every connection fails. */
#include "base/error.h"
#include "store/net/tls.h"

hf_result hf__tls_check(char **detail) {
    *detail = hf__line("this build has no TLS; build with HOLDFAST_TLS=ON");
    return HF_UNSUPPORTED;
}

hf_result hf__tls_new(const hf__url *url, const char *alpn, hf__buffer *out, hf__tls **tls,
                      char **detail) {
    (void)url;
    (void)alpn;
    (void)out;
    *tls = NULL;
    return hf__tls_check(detail);
}

void hf__tls_free(hf__tls *tls) {
    (void)tls;
}

bool hf__tls_ready(const hf__tls *tls) {
    (void)tls;
    return false;
}

const char *hf__tls_protocol(const hf__tls *tls) {
    (void)tls;
    return "";
}

hf_result hf__tls_feed(hf__tls *tls, const char *bytes, size_t length, hf__buffer *plain,
                       hf__buffer *out, char **detail) {
    (void)tls;
    (void)bytes;
    (void)length;
    (void)plain;
    (void)out;
    (void)detail;
    return HF_UNSUPPORTED;
}

void hf__tls_seal(hf__tls *tls, const char *bytes, size_t length, hf__buffer *out) {
    (void)tls;
    (void)bytes;
    (void)length;
    (void)out;
}
