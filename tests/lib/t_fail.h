/*
 * How a helper ends a test: one message on stderr, and then the way out that is right for where it
 * was called. On the main thread (also that of a t_proc child) cmocka's own failure, so that the
 * remaining tests still run; on any other thread abort(), since cmocka cannot unwind those.
 *
 * cmocka's assert_… must not be used on a helper thread, where they end the process without a word:
 * T_CHECK is their like for everywhere.
 */
#ifndef T_FAIL_H
#define T_FAIL_H

#define T_PRINTF(text, first) __attribute__((format(printf, text, first)))

_Noreturn void t_fail(const char *format, ...) T_PRINTF(1, 2);
_Noreturn void t_fail_at(const char *file, int line, const char *format, ...) T_PRINTF(3, 4);

/*
 * What must be undone however the process ends, short of a crash: run at exit, at the end of a
 * t_proc child and before abort(). `fn` itself must see to undoing only what this process did.
 */
void t_at_end(void (*fn)(void));
void t_end(void);

/* Before tests are run: one that the server under test is not fit for, as $HOLDFAST_TEST_LACKS says (see t_redis.h),
   is left out, and named with the reason. */
void t_leave_out(const char *test, const char *ability);

#define T_CHECK(expression)                                                                 \
    do {                                                                                    \
        if (!(expression)) t_fail_at(__FILE__, __LINE__, "does not hold: %s", #expression); \
    } while (0)

#endif
