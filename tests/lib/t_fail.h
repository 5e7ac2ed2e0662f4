/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends a test from any place: prints one message on stderr, then ends in the way that fits the
 * caller. On the main thread (also that of a t_proc child) cmocka fails the test, and the remaining
 * tests still run. On any other thread it calls abort(), because cmocka cannot unwind those.
 *
 * Do not use cmocka's assert_… on a helper thread: they end the process without a message. Use
 * T_CHECK, which works on every thread.
 */
#ifndef T_FAIL_H
#define T_FAIL_H

#define T_PRINTF(text, first) __attribute__((format(printf, text, first)))

_Noreturn void t_fail(const char *format, ...) T_PRINTF(1, 2);
_Noreturn void t_fail_at(const char *file, int line, const char *format, ...) T_PRINTF(3, 4);

/*
 * Cleanup that must run whenever the process ends, except by a crash: at exit, at the end of a
 * t_proc child and before abort(). `fn` must undo only what this process did.
 */
void t_at_end(void (*fn)(void));
void t_end(void);

/* Call this before tests are run. It removes each test that needs an ability the server under
   test lacks ($HOLDFAST_TEST_LACKS, see t_redis.h), and prints its name with the reason. */
void t_leave_out(const char *test, const char *ability);

#define T_CHECK(expression)                                                                 \
    do {                                                                                    \
        if (!(expression)) t_fail_at(__FILE__, __LINE__, "this is false: %s", #expression); \
    } while (0)

#endif
