/* SPDX-License-Identifier: Apache-2.0 */
#include "store/net/tls.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#define LIBRARY "libssl.so.3"

enum {
    RECORD_MAX = 16384, /* bytes that one record can hold */
    ALPN_MAX = 255      /* bytes of a list of protocols, and of one of them */
};

/* Every OpenSSL function that is used: the list declares the table and fills it. Functions of
   libcrypto come with libssl, which depends on it. */
#define FUNCTIONS(X)                      \
    X(OPENSSL_init_ssl)                   \
    X(TLS_client_method)                  \
    X(SSL_CTX_new)                        \
    X(SSL_CTX_free)                       \
    X(SSL_CTX_ctrl)                       \
    X(SSL_CTX_set_verify)                 \
    X(SSL_CTX_set_default_verify_paths)   \
    X(SSL_CTX_load_verify_locations)      \
    X(SSL_CTX_use_certificate_chain_file) \
    X(SSL_CTX_use_PrivateKey_file)        \
    X(SSL_CTX_check_private_key)          \
    X(SSL_new)                            \
    X(SSL_free)                           \
    X(SSL_ctrl)                           \
    X(SSL_set1_host)                      \
    X(SSL_get0_param)                     \
    X(SSL_set_bio)                        \
    X(SSL_set_connect_state)              \
    X(SSL_set_alpn_protos)                \
    X(SSL_get0_alpn_selected)             \
    X(SSL_do_handshake)                   \
    X(SSL_read)                           \
    X(SSL_write)                          \
    X(SSL_get_error)                      \
    X(SSL_get_verify_result)              \
    X(X509_VERIFY_PARAM_set1_ip_asc)      \
    X(X509_verify_cert_error_string)      \
    X(BIO_s_mem)                          \
    X(BIO_new)                            \
    X(BIO_free)                           \
    X(BIO_read)                           \
    X(BIO_write)                          \
    X(ERR_clear_error)                    \
    X(ERR_get_error)                      \
    X(ERR_reason_error_string)

static struct {
#define MEMBER(name) __typeof__(name) *name;
    FUNCTIONS(MEMBER)
#undef MEMBER
} ssl;

static bool loaded;

static void *find_function(void *library, const char *name, bool *all) {
    void *function = dlsym(library, name);
    if (!function) *all = false;
    return function;
}

static void load_library(void) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    bool all = true;
#define FILL(name) *(void **)&ssl.name = find_function(library, #name, &all);
    FUNCTIONS(FILL)
#undef FILL
    /* No clean-up at exit: other threads may still use the library. */
    loaded = all && ssl.OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL) == 1;
}

static bool ensure_loaded(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_library);
    return loaded;
}

static const char *last_error_reason(void) {
    const char *text = ssl.ERR_reason_error_string(ssl.ERR_get_error());
    ssl.ERR_clear_error();
    return text ? text : "no reason given";
}

/* ---- Options of the URL ---- */

static hf_result report_bad_file(const char *option, const char *path, char **detail) {
    const char *why = access(path, R_OK) == 0 ? last_error_reason() : strerror(errno);
    *detail = hf__line("%s %s cannot be used: %s", option, path, why);
    return HF_INVALID;
}

static bool is_directory(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static hf_result use_authorities(SSL_CTX *ctx, const hf__url *url, char **detail) {
    ssl.SSL_CTX_set_verify(ctx, url->tls_verify_none ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    if (!url->tls_ca) return ssl.SSL_CTX_set_default_verify_paths(ctx) == 1 ? HF_OK : HF_NOMEM;
    bool directory = is_directory(url->tls_ca);
    if (ssl.SSL_CTX_load_verify_locations(ctx, directory ? NULL : url->tls_ca,
                                          directory ? url->tls_ca : NULL) == 1)
        return HF_OK;
    return report_bad_file("tls_ca", url->tls_ca, detail);
}

static hf_result use_certificate(SSL_CTX *ctx, const hf__url *url, char **detail) {
    if (!url->tls_cert) return HF_OK;
    const char *key = url->tls_key ? url->tls_key : url->tls_cert;
    if (ssl.SSL_CTX_use_certificate_chain_file(ctx, url->tls_cert) != 1)
        return report_bad_file("tls_cert", url->tls_cert, detail);
    if (ssl.SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1 ||
        ssl.SSL_CTX_check_private_key(ctx) != 1)
        return report_bad_file(url->tls_key ? "tls_key" : "tls_cert (no tls_key is given)", key,
                               detail);
    return HF_OK;
}

static hf_result configure_context(SSL_CTX *ctx, const hf__url *url, char **detail) {
    ssl.SSL_CTX_ctrl(ctx, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
    hf_result r = use_authorities(ctx, url, detail);
    return r ? r : use_certificate(ctx, url, detail);
}

/* Created for each connection, so that renewed certificates are used. */
static hf_result make_context(const hf__url *url, SSL_CTX **ctx, char **detail) {
    *ctx = ssl.SSL_CTX_new(ssl.TLS_client_method());
    return *ctx ? configure_context(*ctx, url, detail) : HF_NOMEM;
}

/* ---- Connections ---- */

struct hf__tls {
    SSL *ssl;
    BIO *in, *out;    /* owned by `ssl` once they are set */
    const char *alpn; /* what was offered */
    char protocol[ALPN_MAX + 1];
    bool ready;
};

/* Sets the host that the certificate must be for. A name is also sent as SNI; an address must not
   be sent. */
static bool expect_host(SSL *s, char *host) {
    unsigned char address[sizeof(struct in6_addr)];
    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
        return ssl.X509_VERIFY_PARAM_set1_ip_asc(ssl.SSL_get0_param(s), host) == 1;
    return ssl.SSL_set1_host(s, host) == 1 &&
           ssl.SSL_ctrl(s, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, host) == 1;
}

/* On the wire, the length of each protocol stands in front of it, and there are no commas. */
static bool offer_protocols(SSL *s, const char *list) {
    unsigned char wire[1 + ALPN_MAX];
    size_t length = strlen(list);
    if (length > ALPN_MAX) return false;
    memcpy(wire + 1, list, length);
    for (size_t at = 0; at <= length; at += 1u + wire[at])
        wire[at] = (unsigned char)strcspn(list + at, ",");
    return ssl.SSL_set_alpn_protos(s, wire, (unsigned)length + 1) == 0;
}

static bool is_offered(const char *list, const char *protocol, size_t length) {
    for (; *list; list += strcspn(list, ","), list += *list == ',')
        if (strcspn(list, ",") == length && memcmp(list, protocol, length) == 0) return true;
    return false;
}

/* Moves the bytes that OpenSSL wants to send to the server into `out`. */
static void drain_output(hf__tls *t, hf__buffer *out) {
    char bytes[4096];
    for (int n; (n = ssl.BIO_read(t->out, bytes, sizeof bytes)) > 0;)
        hf__buffer_add(out, bytes, (size_t)n);
}

void hf__tls_free(hf__tls *t) {
    if (!t) return;
    ssl.SSL_free(t->ssl);
    free(t);
}

static bool create_bios(hf__tls *t) {
    t->in = ssl.BIO_new(ssl.BIO_s_mem());
    t->out = ssl.BIO_new(ssl.BIO_s_mem());
    if (t->in && t->out) {
        ssl.SSL_set_bio(t->ssl, t->in, t->out);
        return true;
    }
    ssl.BIO_free(t->in);
    ssl.BIO_free(t->out);
    return false;
}

static hf_result start_handshake(hf__tls *t, const hf__url *url, hf__buffer *out, char **detail) {
    SSL_CTX *ctx = NULL;
    hf_result r = make_context(url, &ctx, detail);
    if (!r) t->ssl = ssl.SSL_new(ctx); /* which holds a reference to the context */
    ssl.SSL_CTX_free(ctx);
    if (r) return r;
    if (!t->ssl || !create_bios(t) || !expect_host(t->ssl, url->host)) return HF_NOMEM;
    if (t->alpn && !offer_protocols(t->ssl, t->alpn)) return HF_NOMEM;
    ssl.SSL_set_connect_state(t->ssl);
    (void)ssl.SSL_do_handshake(t->ssl); /* it needs an answer of the server to continue */
    drain_output(t, out);
    return out->failed ? HF_NOMEM : HF_OK;
}

hf_result hf__tls_check(char **detail) {
    *detail = NULL;
    if (ensure_loaded()) return HF_OK;
    *detail =
        hf__line("TLS needs OpenSSL 3 (%s), which is not installed here; install it", LIBRARY);
    return HF_UNSUPPORTED;
}

hf_result hf__tls_new(const hf__url *url, const char *alpn, hf__buffer *out, hf__tls **tls,
                      char **detail) {
    *tls = NULL;
    hf_result loads = hf__tls_check(detail);
    if (loads) return loads;
    hf__tls *t = calloc(1, sizeof *t);
    if (!t) return HF_NOMEM;
    t->alpn = alpn;
    hf_result r = start_handshake(t, url, out, detail);
    ssl.ERR_clear_error();
    if (r == HF_OK)
        *tls = t;
    else
        hf__tls_free(t);
    return r;
}

bool hf__tls_ready(const hf__tls *t) {
    return t->ready;
}

const char *hf__tls_protocol(const hf__tls *t) {
    return t->protocol;
}

static hf_result report_handshake_failure(hf__tls *t, char **detail) {
    long verified = ssl.SSL_get_verify_result(t->ssl);
    bool named =
        verified == X509_V_ERR_HOSTNAME_MISMATCH || verified == X509_V_ERR_IP_ADDRESS_MISMATCH;
    bool dated =
        verified == X509_V_ERR_CERT_HAS_EXPIRED || verified == X509_V_ERR_CERT_NOT_YET_VALID;
    if (verified == X509_V_OK)
        *detail = hf__line("the TLS handshake failed: %s%s%s", last_error_reason(),
                           t->alpn ? "; the server must speak " : "", t->alpn ? t->alpn : "");
    else
        *detail = hf__line("the server's certificate is not accepted: %s%s",
                           ssl.X509_verify_cert_error_string(verified),
                           named   ? "; use a host name that the certificate is for"
                           : dated ? ""
                                   : "; set tls_ca to the CA that issued it");
    ssl.ERR_clear_error();
    return HF_REFUSED;
}

/* A server that does not know a protocol may ignore the offer, or select something else. */
static hf_result check_protocol(hf__tls *t, char **detail) {
    const unsigned char *selected;
    unsigned length;
    ssl.SSL_get0_alpn_selected(t->ssl, &selected, &length);
    if (length) memcpy(t->protocol, selected, length);
    if (is_offered(t->alpn, t->protocol, length)) return HF_OK;
    t->ready = false;
    *detail = hf__line("the server must speak %s, but in the TLS handshake it selected %s", t->alpn,
                       length ? t->protocol : "no protocol");
    return HF_REFUSED;
}

static hf_result continue_handshake(hf__tls *t, char **detail) {
    int n = ssl.SSL_do_handshake(t->ssl);
    t->ready = n == 1;
    if (n == 1 && t->alpn) return check_protocol(t, detail);
    if (n == 1 || ssl.SSL_get_error(t->ssl, n) == SSL_ERROR_WANT_READ) return HF_OK;
    return report_handshake_failure(t, detail);
}

static hf_result open_records(hf__tls *t, hf__buffer *plain, char **detail) {
    char bytes[4096];
    int n;
    while ((n = ssl.SSL_read(t->ssl, bytes, sizeof bytes)) > 0)
        hf__buffer_add(plain, bytes, (size_t)n);
    int error = ssl.SSL_get_error(t->ssl, n);
    if (error == SSL_ERROR_WANT_READ) return plain->failed ? HF_NOMEM : HF_OK;
    /* With TLS 1.3 a server rejects our certificate only after the handshake. */
    bool refused = error == SSL_ERROR_SSL;
    *detail =
        hf__line(refused ? "the server ended the TLS connection: %s" : "closed by the server%s",
                 refused ? last_error_reason() : "");
    return refused ? HF_REFUSED : HF_UNREACHABLE;
}

hf_result hf__tls_feed(hf__tls *t, const char *bytes, size_t length, hf__buffer *plain,
                       hf__buffer *out, char **detail) {
    ssl.ERR_clear_error();
    if (length > INT_MAX || ssl.BIO_write(t->in, bytes, (int)length) != (int)length)
        return HF_NOMEM;
    hf_result r = t->ready ? HF_OK : continue_handshake(t, detail);
    if (!r && t->ready) r = open_records(t, plain, detail);
    drain_output(t, out);
    return r;
}

/* Encrypts record by record. Otherwise OpenSSL's own memory would grow to the largest amount ever
   sent at once, and never shrink. */
void hf__tls_seal(hf__tls *t, const char *bytes, size_t length, hf__buffer *out) {
    ssl.ERR_clear_error();
    while (length && !out->failed) {
        int piece = length < RECORD_MAX ? (int)length : RECORD_MAX;
        if (ssl.SSL_write(t->ssl, bytes, piece) != piece) out->failed = true;
        drain_output(t, out);
        bytes += piece;
        length -= (size_t)piece;
    }
}
