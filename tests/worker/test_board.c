/* test_board.c - a server that refuses a worker: when that is in the heartbeat, and when no more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "schemas/clock.h"
#include "schemas/limits.h"
#include "storage/daemon/outage.h"
#include "worker/state/board.h"

static struct kiln_board board;

static void refuse(enum kiln_peer peer, int code, const char *text)
{
    struct kiln_error err;
    (void)kiln_fail(&err, code, "%s", text);
    kiln_board_trouble(&board, peer, &err);
}

static struct kiln_heartbeat beat(void)
{
    struct kiln_heartbeat beat = {0};
    kiln_board_beat(&board, &beat);
    return beat;
}

/* Whether the heartbeat is due at once; forgets it. */
static bool kicked(void)
{
    double start_ms = kiln_monotonic_ms();
    kiln_board_wait(&board, 300000);
    return kiln_monotonic_ms() - start_ms < 150000;
}

static void a_refusal_that_lasts_is_told_at_once_and_so_is_its_end(void **state)
{
    (void)state;
    const struct kiln_settings settings = {.heartbeat_s = 2, .lease_s = 10};
    kiln_board_init(&board, &settings);
    refuse(KILN_PEER_STORE, KILN_FULL, "/a: No space left on device");
    assert_string_equal(beat().trouble, ""); /* a moment is no trouble */
    assert_false(kiln_board_refused(&board, KILN_PEER_STORE, 0));
    kiln_board_trouble(&board, KILN_PEER_STORE, NULL);
    refuse(KILN_PEER_STORE, KILN_FULL, "/a: No space left on device");
    for (double end_ms = kiln_monotonic_ms() + KILN_TROUBLE_TOLD_MS + 20;
         kiln_monotonic_ms() < end_ms;)
        usleep(10000);
    refuse(KILN_PEER_STORE, KILN_DENIED, "/a: Read-only file system");
    assert_true(kicked());
    assert_string_equal(beat().trouble, "store");
    assert_string_equal(beat().trouble_code, "denied");
    assert_string_equal(beat().trouble_error, "/a: Read-only file system");
    assert_true(beat().trouble_ms >= KILN_TROUBLE_TOLD_MS);
    assert_true(kiln_board_refused(&board, KILN_PEER_STORE, 0));
    assert_false(kiln_board_refused(&board, KILN_PEER_LEDGER, 0));
    kiln_board_trouble(&board, KILN_PEER_STORE, NULL);
    assert_true(kicked());
    assert_string_equal(beat().trouble, "");
    assert_false(kiln_board_refused(&board, KILN_PEER_STORE, 0));
    kiln_board_release(&board);
}

/* The share of the worker in the five seconds, whatever the jitter. */
static void the_attempt_that_tells_comes_in_time(void **state)
{
    (void)state;
    struct kiln_error err;
    (void)kiln_fail(&err, KILN_FULL, "full");
    for (int round = 0; round < 1000; round++) {
        _Atomic uint32_t others = 1; /* so that none of them logs */
        struct kiln_outage outage = {KILN_OUTAGE_OF("store"), .sharing = &others};
        int at_ms = 0;
        while (at_ms < KILN_TROUBLE_TOLD_MS)
            at_ms += kiln_outage_fail(&outage, &err);
        assert_in_range(at_ms, KILN_TROUBLE_TOLD_MS,
                        KILN_TROUBLE_TOLD_MS + KILN_TROUBLE_PAUSE_MS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refusal_that_lasts_is_told_at_once_and_so_is_its_end),
        cmocka_unit_test(the_attempt_that_tells_comes_in_time),
    };
    return cmocka_run_group_tests_name("board", tests, NULL, NULL);
}
