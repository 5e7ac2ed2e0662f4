/* SPDX-License-Identifier: Apache-2.0 */
/* The intrusive lists, compared with an array. */
#include "t.h"

#include <string.h>

#include "base/list.h"
#include "base/rand.h"

enum { ITEMS = 20, OPERATIONS = 20000 };

typedef struct item {
    HF__LINK(struct item) link;
    struct item *next;
} item;

/* The list, the FIFO, and the items of either in order. */
struct lists {
    HF__LIST(item) list;
    HF__FIFO(item) fifo;
    item all[ITEMS];
    item *order[ITEMS];
    size_t count;
    hf__rand rand;
};

static size_t draw(struct lists *l, size_t below) {
    return (size_t)(hf__rand_next(&l->rand) % below);
}

static void model_remove(struct lists *l, size_t i) {
    memmove(l->order + i, l->order + i + 1, (--l->count - i) * sizeof *l->order);
}

static item *draw_outside(struct lists *l) {
    for (;;) {
        item *it = &l->all[draw(l, ITEMS)];
        if (!hf__list_linked(it, link)) return it;
    }
}

static void add_some(struct lists *l, item *it) {
    if (l->count && !draw(l, 3)) {
        size_t at = draw(l, l->count);
        hf__list_insert_after(&l->list, l->order[at], it, link);
        memmove(l->order + at + 2, l->order + at + 1, (l->count++ - at - 1) * sizeof *l->order);
        l->order[at + 1] = it;
    } else if (draw(l, 2)) {
        hf__list_append(&l->list, it, link);
        l->order[l->count++] = it;
    } else {
        hf__list_prepend(&l->list, it, link);
        memmove(l->order + 1, l->order, l->count++ * sizeof *l->order);
        l->order[0] = it;
    }
}

static void check_list(const struct lists *l) {
    size_t i = 0;
    for (const item *it = l->list.first; it; it = it->link.next, i++) {
        assert_ptr_equal(it, l->order[i]);
        assert_ptr_equal(hf__list_prev(&l->list, it, link), i ? l->order[i - 1] : NULL);
    }
    assert_int_equal(i, l->count);
    for (i = 0; i < ITEMS; i++) {
        bool linked = false;
        for (size_t k = 0; k < l->count; k++) linked |= l->order[k] == &l->all[i];
        assert_int_equal(hf__list_linked(&l->all[i], link), linked);
    }
}

static void test_list_against_array(void **state) {
    (void)state;
    struct lists l = {.rand = {1}};
    for (int n = 0; n < OPERATIONS; n++) {
        if (l.count < ITEMS && (!l.count || draw(&l, 2))) {
            add_some(&l, draw_outside(&l));
        } else {
            size_t i = draw(&l, l.count);
            hf__list_remove(&l.list, l.order[i], link);
            model_remove(&l, i);
        }
        check_list(&l);
    }
}

static void check_fifo(const struct lists *l) {
    size_t i = 0;
    for (const item *it = hf__fifo_first(&l->fifo); it; it = hf__fifo_next(&l->fifo, it), i++)
        assert_ptr_equal(it, l->order[i]);
    assert_int_equal(i, l->count);
}

static void test_fifo_against_array(void **state) {
    (void)state;
    struct lists l = {.rand = {2}};
    size_t pushed = 0;
    for (int n = 0; n < OPERATIONS; n++) {
        if (l.count < ITEMS && (!l.count || draw(&l, 2))) {
            item *it = &l.all[pushed++ % ITEMS]; /* the one that left the FIFO longest ago */
            hf__fifo_push(&l.fifo, it);
            l.order[l.count++] = it;
        } else {
            hf__fifo_shift(&l.fifo);
            model_remove(&l, 0);
        }
        check_fifo(&l);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_against_array),
        cmocka_unit_test(test_fifo_against_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
