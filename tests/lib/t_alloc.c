/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See t_alloc.h. With --wrap=malloc the linker turns every `malloc` into __wrap_malloc, and every
 * __real_malloc into the real one (a sanitizer's, if there is one).
 */
#include "t_alloc.h"

#include <errno.h>
#include <netdb.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "t_exempt.h"
#include "t_fail.h"

static struct t_inject allocations = {.what = "allocation"};

/* A separate function, for breakpoints: its caller's caller makes the call that fails. */
static bool must_fail(void) {
    if (!t_inject_hit(&allocations)) return false;
    errno = ENOMEM;
    return true;
}

#define WRAP(type, name, parameters, arguments)              \
    type __real_##name parameters;                           \
    type __wrap_##name parameters;                           \
    type __wrap_##name parameters {                          \
        return must_fail() ? NULL : __real_##name arguments; \
    }

WRAP(void *, malloc, (size_t size), (size))
WRAP(void *, calloc, (size_t count, size_t size), (count, size))
WRAP(void *, realloc, (void *memory, size_t size), (memory, size))
WRAP(void *, reallocarray, (void *memory, size_t count, size_t size), (memory, count, size))
WRAP(void *, aligned_alloc, (size_t alignment, size_t size), (alignment, size))
WRAP(char *, strdup, (const char *text), (text))
WRAP(char *, strndup, (const char *text, size_t size), (text, size))
WRAP(FILE *, open_memstream, (char **bytes, size_t *size), (bytes, size))
WRAP(FILE *, fopen, (const char *path, const char *mode), (path, mode))
WRAP(FILE *, fopen64, (const char *path, const char *mode), (path, mode)) /* 64-bit offsets */

int __real_posix_memalign(void **memory, size_t alignment, size_t size);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t size);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t size) {
    return must_fail() ? ENOMEM : __real_posix_memalign(memory, alignment, size);
}

int __real_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **result);
int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **result);
int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **result) {
    return must_fail() ? EAI_MEMORY : __real_getaddrinfo(host, service, hints, result);
}

/* Each function of the asprintf family has a variant that optimised code calls
   (_FORTIFY_SOURCE). */
int __real_vasprintf(char **text, const char *format, va_list args) T_PRINTF(2, 0);
int __wrap_vasprintf(char **text, const char *format, va_list args) T_PRINTF(2, 0);
int __wrap_asprintf(char **text, const char *format, ...) T_PRINTF(2, 3);
int __wrap___vasprintf_chk(char **text, int flag, const char *format, va_list args) T_PRINTF(3, 0);
int __wrap___asprintf_chk(char **text, int flag, const char *format, ...) T_PRINTF(3, 4);

int __wrap_vasprintf(char **text, const char *format, va_list args) {
    if (!must_fail()) return __real_vasprintf(text, format, args);
    *text = NULL;
    return -1;
}

int __wrap_asprintf(char **text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = __wrap_vasprintf(text, format, args);
    va_end(args);
    return n;
}

int __wrap___vasprintf_chk(char **text, int flag, const char *format, va_list args) {
    (void)flag;
    return __wrap_vasprintf(text, format, args);
}

int __wrap___asprintf_chk(char **text, int flag, const char *format, ...) {
    va_list args;
    (void)flag;
    va_start(args, format);
    int n = __wrap_vasprintf(text, format, args);
    va_end(args);
    return n;
}

void t_alloc_fail_at(int64_t n, bool forever) {
    t_inject_arm(&allocations, n, forever);
}

void t_alloc_reset(void) {
    t_exempt_reset();
    t_inject_arm(&allocations, 0, false);
}

int64_t t_alloc_count(void) {
    return atomic_load(&allocations.calls);
}

int64_t t_alloc_failed(void) {
    return atomic_load(&allocations.failed);
}

int64_t t_alloc_each(t_inject_fn *fn, void *arg, int64_t max) {
    return t_inject_each(&allocations, fn, arg, max);
}
