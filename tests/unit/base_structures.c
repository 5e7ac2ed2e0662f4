/* SPDX-License-Identifier: Apache-2.0 */
/* The heap of timers, the map of names and the buffer, each compared with a simple model. */
#include "t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/heap.h"
#include "base/map.h"
#include "base/rand.h"

/* ---- The heap ---- */

enum { TIMERS = 300, HEAP_OPERATIONS = 100000, DUE_SPAN = 1000 };

/* The model is the due times themselves; HF__NEVER if not armed. */
struct timers {
    hf__heap heap;
    hf__timer timer[TIMERS];
    hf__time due[TIMERS];
    hf__rand rand;
};

static size_t draw_below(hf__rand *rand, size_t below) {
    return (size_t)(hf__rand_next(rand) % below);
}

static hf__time model_first(const struct timers *t) {
    hf__time first = HF__NEVER;
    for (size_t i = 0; i < TIMERS; i++) first = hf__sooner(first, t->due[i]);
    return first;
}

static void set_some(struct timers *t) {
    size_t i = draw_below(&t->rand, TIMERS);
    hf__time due = draw_below(&t->rand, 8) ? (hf__time)draw_below(&t->rand, DUE_SPAN) : HF__NEVER;
    hf__heap_set(&t->heap, &t->timer[i], due);
    t->due[i] = due;
}

static void remove_some(struct timers *t) {
    size_t i = draw_below(&t->rand, TIMERS);
    hf__heap_remove(&t->heap, &t->timer[i]);
    t->due[i] = HF__NEVER;
}

static void pop_some(struct timers *t) {
    hf__time now = (hf__time)draw_below(&t->rand, DUE_SPAN), first = model_first(t);
    hf__timer *popped = hf__heap_pop(&t->heap, now);
    if (first > now) {
        assert_null(popped);
        return;
    }
    assert_non_null(popped);
    size_t i = (size_t)(popped - t->timer);
    assert_int_equal(t->due[i], first);
    assert_false(hf__timer_armed(popped));
    t->due[i] = HF__NEVER;
}

static void test_heap_against_model(void **state) {
    (void)state;
    struct timers *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->rand.state = 1;
    for (size_t i = 0; i < TIMERS; i++) t->due[i] = HF__NEVER;
    for (int n = 0; n < HEAP_OPERATIONS; n++) {
        size_t what = draw_below(&t->rand, 10);
        if (what < 6)
            set_some(t);
        else if (what < 8)
            remove_some(t);
        else
            pop_some(t);
        assert_int_equal(hf__heap_due(&t->heap), model_first(t));
    }
    for (size_t i = 0; i < TIMERS; i++)
        assert_int_equal(hf__timer_armed(&t->timer[i]), t->due[i] != HF__NEVER);
    free(t);
}

static void test_heap_drains_in_order(void **state) {
    (void)state;
    static hf__timer timers[TIMERS];
    hf__heap heap = {0};
    hf__rand rand = {2};
    for (size_t i = 0; i < TIMERS; i++)
        hf__heap_set(&heap, &timers[i], (hf__time)draw_below(&rand, DUE_SPAN));
    hf__time last = 0;
    for (size_t i = 0; i < TIMERS; i++) {
        hf__timer *t = hf__heap_pop(&heap, DUE_SPAN);
        assert_non_null(t);
        assert_true(t->due >= last);
        last = t->due;
    }
    assert_null(hf__heap_pop(&heap, HF__NEVER));
    assert_int_equal(hf__heap_due(&heap), HF__NEVER);
}

/* ---- The map ---- */

enum { NAMES = 2000, MAP_OPERATIONS = 50000, NAME_SIZE = 16 };

struct named {
    hf__mapped mapped;
    char name[NAME_SIZE];
    bool in, seen;
};

/* Names of all lengths from 0 on, some with NUL bytes. */
static void name_items(struct named *items) {
    for (size_t i = 0; i < NAMES; i++) {
        int n = snprintf(items[i].name, NAME_SIZE, i % 2 ? "%zu" : "a-%zu", i);
        if (i % 3 == 0) items[i].name[n++] = '\0';
        items[i].mapped.key = items[i].name;
        items[i].mapped.length = i ? (size_t)n : 0;
    }
}

static void toggle_timer(hf__map *map, struct named *item) {
    if (item->in)
        hf__map_remove(map, &item->mapped);
    else
        hf__map_add(map, &item->mapped);
    item->in = !item->in;
}

static void check_all(const hf__map *map, struct named *items) {
    size_t count = 0, walked = 0;
    for (size_t i = 0; i < NAMES; i++) {
        const hf__mapped *m = &items[i].mapped;
        assert_ptr_equal(hf__map_find(map, m->key, m->length), items[i].in ? m : NULL);
        count += items[i].in;
        items[i].seen = false;
    }
    for (hf__mapped *m = NULL; (m = hf__map_next(map, m)); walked++) {
        struct named *item = (struct named *)m;
        assert_true(item->in && !item->seen);
        item->seen = true;
    }
    assert_int_equal(walked, count);
    assert_int_equal(map->count, count);
}

static void test_map_against_model(void **state) {
    (void)state;
    struct named *items = calloc(NAMES, sizeof *items);
    assert_non_null(items);
    name_items(items);
    hf__map map;
    hf__map_init(&map, 42);
    hf__rand rand = {3};
    check_all(&map, items);
    for (int n = 0; n < MAP_OPERATIONS; n++) {
        toggle_timer(&map, &items[draw_below(&rand, NAMES)]);
        if (n % 5000 == 0) check_all(&map, items);
    }
    check_all(&map, items);
    for (hf__mapped *m; (m = hf__map_next(&map, NULL));) toggle_timer(&map, (struct named *)m);
    check_all(&map, items);
    hf__map_fini(&map);
    free(items);
}

/* ---- The buffer ---- */

static void add_text(hf__buffer *b, const char *text) {
    hf__buffer_add(b, text, strlen(text));
}

static void assert_holds(const hf__buffer *b, const char *text) {
    assert_int_equal(b->length, strlen(text));
    assert_memory_equal(b->data, text, strlen(text));
}

static void test_buffer_adds_cuts_and_consumes(void **state) {
    (void)state;
    hf__buffer b;
    hf__buffer_init(&b, 100);
    hf__buffer_add(&b, "", 0);
    assert_int_equal(b.length, 0);
    add_text(&b, "one two");
    assert_holds(&b, "one two");
    hf__buffer_cut(&b, 3);
    assert_holds(&b, "one");
    add_text(&b, " three");
    assert_holds(&b, "one three");
    hf__buffer_cut(&b, 0);
    assert_int_equal(b.length, 0);
    hf__buffer_fini(&b);
}

static void test_buffer_has_a_maximum(void **state) {
    (void)state;
    hf__buffer b;
    hf__buffer_init(&b, 8);
    add_text(&b, "12345678");
    assert_false(b.failed);
    add_text(&b, "9");
    assert_true(b.failed);
    assert_holds(&b, "12345678");
    hf__buffer_add(&b, "", 0);
    assert_true(b.failed);
    hf__buffer_cut(&b, 4);
    assert_false(b.failed);
    hf__buffer_add(&b, "xxxxx", 5);
    assert_true(b.failed);
    add_text(&b, "x"); /* it would fit, but is not added: half a command is never sent */
    assert_holds(&b, "1234");
    hf__buffer_add(&b, "x", SIZE_MAX);
    assert_true(b.failed);
    hf__buffer_fini(&b);
}

static void test_buffer_grows(void **state) {
    (void)state;
    enum { MANY = 100000 };
    hf__buffer b;
    hf__buffer_init(&b, MANY);
    for (int i = 0; i < MANY; i++) hf__buffer_add(&b, &(char){(char)('a' + i % 26)}, 1);
    assert_false(b.failed);
    assert_int_equal(b.length, MANY);
    for (int i = 0; i < MANY; i++) assert_int_equal(b.data[i], 'a' + i % 26);
    hf__buffer_add(&b, "x", 1);
    assert_true(b.failed);
    hf__buffer_fini(&b);
}

static void fill_and_empty(hf__buffer *b, size_t length, int times) {
    for (int i = 0; i < times; i++) {
        assert_non_null(hf__buffer_room(b, length));
        hf__buffer_empty(b);
        assert_int_equal(b->length, 0);
    }
}

/* A client runs for months. Without this, each connection would keep the memory of its largest
   burst. */
static void test_buffer_frees_memory_after_a_burst(void **state) {
    (void)state;
    hf__buffer b;
    hf__buffer_init(&b, 1 << 20);
    fill_and_empty(&b, 100000, 1);
    assert_true(b.size >= 100000);
    fill_and_empty(&b, 3000, 100);
    assert_in_range(b.size, 3000, 8192);
    add_text(&b, "one");
    assert_holds(&b, "one");
    hf__buffer_fini(&b);
}

/* Repeated bursts keep their memory. Idle time between them does not count against it. */
static void test_buffer_keeps_memory_that_is_needed_again(void **state) {
    (void)state;
    hf__buffer b;
    hf__buffer_init(&b, 1 << 20);
    fill_and_empty(&b, 100000, 1);
    for (int i = 0; i < 100; i++) {
        fill_and_empty(&b, 200, 10);
        for (int k = 0; k < 100; k++) hf__buffer_empty(&b);
        assert_true(b.size >= 100000);
        fill_and_empty(&b, 100000, 1);
    }
    hf__buffer_fini(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heap_against_model),
        cmocka_unit_test(test_heap_drains_in_order),
        cmocka_unit_test(test_map_against_model),
        cmocka_unit_test(test_buffer_adds_cuts_and_consumes),
        cmocka_unit_test(test_buffer_has_a_maximum),
        cmocka_unit_test(test_buffer_grows),
        cmocka_unit_test(test_buffer_frees_memory_after_a_burst),
        cmocka_unit_test(test_buffer_keeps_memory_that_is_needed_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
